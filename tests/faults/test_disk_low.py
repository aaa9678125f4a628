"""A frontier's disk that fills up, and gets room again: a large file stands in for what fills it."""

from pathlib import Path

import pytest
from faults.load import EMPTY, PAUSED, PAUSING, RUNNING, told
from faults.room import RESERVE_MIB, Disk
from frontier_harness.calls import TIMEOUT_S, report, seed_of, spec
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import eventually

from toehold.frontier.v1 import crawl_pb2
from toehold_client import CrawlController, FrontierClient
from toehold_client.errors import DiskReserve


def test_crawls_pause_when_the_disk_is_nearly_full_and_go_on_when_asked_once_there_is_room(
    tmp_path: Path,
) -> None:
    disk = Disk(tmp_path / "disk")
    flags = ("--disk-reserve-mib", str(RESERVE_MIB))
    program = disk.program("frontier_server.program.program")
    with (
        ServerProcess(disk.folder / "data", *flags, program=program) as server,
        FrontierClient(server.address) as client,
    ):
        busy, empty, paused, nascent = (CrawlController(client, name) for name in ("b", "e", "p", "n"))
        for crawl in (busy, empty, paused, nascent):
            crawl.create(spec(run_while_empty=True), [seed_of(crawl.crawl)])
        for crawl in (busy, empty, paused):
            crawl.launch()
            crawl.wait_for({RUNNING}, TIMEOUT_S)
        paused.pause()
        (lease,) = server.stubs.pages("b")
        server.stubs.finish(*map(report, server.stubs.pages("e")))
        empty.wait_for({EMPTY}, TIMEOUT_S)
        events_of_paused = list(paused.events())

        with disk.filled():
            assert disk.free_mib < RESERVE_MIB
            reason = f"less than {RESERVE_MIB} MiB is free on the frontier's disk; make room, then resume"
            empty.wait_for({PAUSED}, TIMEOUT_S)
            busy.wait_for({PAUSING}, TIMEOUT_S)
            assert server.stubs.finish(report(lease)) == [("SUCCEEDED", False)]
            for crawl in (busy, empty):
                assert crawl.status().state == PAUSED
                assert crawl.status().reason == reason
                assert told(crawl.events(), "statistics").words[-3:] == [
                    *("problem disk-reserve", "PAUSING", "PAUSED")
                ]
                (problem,) = (event.problem for event in crawl.events() if event.HasField("problem"))
                assert problem.detail == reason
            assert list(paused.events()) == events_of_paused
            for refused in (busy.resume, empty.resume, paused.resume, nascent.launch):
                with pytest.raises(DiskReserve, match="disk is nearly full"):
                    refused()
            assert [crawl.status().state for crawl in (busy, empty, paused)] == [PAUSED] * 3
            assert nascent.status().state == crawl_pb2.CRAWL_STATE_NASCENT

        eventually(lambda: _resumes(busy), "the frontier to see that there is room")
        for crawl in (empty, paused):
            crawl.resume()
        nascent.launch()
        for crawl in (busy, empty, paused, nascent):
            status = crawl.wait_for({RUNNING, EMPTY}, TIMEOUT_S)
            assert status.reason == ""


def _resumes(crawl: CrawlController) -> bool:
    try:
        crawl.resume()
    except DiskReserve:
        return False
    return True
