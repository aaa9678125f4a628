"""A disk that fills up while crawls run, and gets room again: a large file stands in for what fills it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from acceptance.programs import until
from faults.load import EMPTY, PAUSED, PAUSING, RUNNING, told
from frontier_harness.calls import TIMEOUT_S, report, seed_of, spec
from frontier_harness.process import ServerProcess

from toehold.frontier.v1 import crawl_pb2
from toehold_client import CrawlController, FrontierClient
from toehold_client.errors import DiskReserve

MIB = 1024 * 1024
MARGIN_MIB = 256
"""More than anybody else takes of the disk, or gives back, while the test runs."""


def test_crawls_pause_when_the_disk_is_nearly_full_and_go_on_when_asked_once_there_is_room(
    tmp_path: Path,
) -> None:
    reserve_mib = _free_mib(tmp_path) - MARGIN_MIB
    assert reserve_mib > 2 * MARGIN_MIB, f"the disk of {tmp_path} is too full for this test"
    flags = ("--disk-reserve-mib", str(reserve_mib))
    with (
        ServerProcess(tmp_path / "data", *flags) as server,
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

        filler = tmp_path / "filler"
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, 2 * MARGIN_MIB * MIB)
        try:
            assert _free_mib(tmp_path) < reserve_mib
            reason = f"less than {reserve_mib} MiB are free on the frontier's disk; make room, then resume"
            empty.wait_for({PAUSED}, TIMEOUT_S)
            busy.wait_for({PAUSING}, TIMEOUT_S)
            assert server.stubs.finish(report(lease)) == [("SUCCEEDED", False)]
            for crawl in (busy, empty):
                assert crawl.status().state == PAUSED
                assert crawl.status().reason == reason
                assert told(crawl.events(), "figures").words[-3:] == [
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
        finally:
            filler.unlink()

        until(lambda: _resumes(busy), "the frontier to see that there is room")
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


def _free_mib(folder: Path) -> int:
    space = os.statvfs(folder)
    return space.f_bavail * space.f_frsize // MIB
