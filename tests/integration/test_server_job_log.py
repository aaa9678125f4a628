"""`job.log` of a running server: a line for each event but statistics, before anybody hears of it, once."""

import random
import re
import threading
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import grpc
import pytest
from frontier_harness.calls import (
    FINISH,
    HOLD,
    PAUSE,
    RUN,
    TIMEOUT_S,
    Stubs,
    named,
    released,
    report,
    seconds,
    spec,
)
from frontier_harness.divided import job_log
from frontier_harness.held_store import HeldStore
from frontier_harness.hosted import Hosted, hosted
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import eventually

from toehold.frontier.v1 import crawl_pb2, frontier_pb2

A = "http://a.example/"
LINE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) (\d+) (.+)")


def lines(data: Path, crawl: str = "t", growing: bool = False) -> list[tuple[str, int, str]]:
    """Time, number and text of each line. Whole lines only, each as it should be.

    A write that is under way (`growing`) may be seen in part: its last line is left out.
    """
    text = job_log(data, crawl).read_text()
    if growing:
        text = text[: text.rfind("\n") + 1]
    assert not text or text.endswith("\n"), text[-200:]
    found = [LINE.fullmatch(line) for line in text.splitlines()]
    assert all(found), text
    return [(match[1], int(match[2]), match[3]) for match in found if match is not None]


def expected(stubs: Stubs, crawl: str = "t") -> list[tuple[str, int, str]]:
    """Time, number and first word of the lines that the crawl's events should have."""
    return [
        (_iso(event), event.sequence, WORDS.get(str(event.WhichOneof("kind"))) or named(event))
        for event in stubs.events_so_far(crawl)
        if not event.HasField("statistics")
    ]


WORDS = {
    "seeds_concluded": "SEEDS_CONCLUDED",
    "operator_acted": "OPERATOR",
    "node_joined": "NODE_JOINED",
    "node_left": "NODE_LEFT",
    "held": "HELD",
    "released": "RELEASED",
    "flights_cancelled": "FLIGHTS_CANCELLED",
    "job_ended": "JOB_ENDED",
    "torn_down": "Job",
}


def _iso(event: crawl_pb2.Event) -> str:
    moment_ms = event.event_time.ToMilliseconds()
    moment = datetime.fromtimestamp(moment_ms / 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment_ms % 1000:03d}Z"


def agrees(stubs: Stubs, data: Path, crawl: str = "t") -> None:
    """Assert that the log has each event but statistics: no gap, no repeat, in order."""
    shown = [(time, number, text.split()[0]) for time, number, text in lines(data, crawl)]
    assert shown == expected(stubs, crawl)


# What is in it.


def test_a_whole_life_line_by_line(at: Hosted) -> None:
    """S0.6, S0.29: states with the launch's id, and at last that the job is discarded."""
    stubs = at.stubs
    stubs.launch("t", A, "http://b.example/", of=spec(stop_timeout=seconds(1)))
    (robots,) = stubs.next("t", 1, TIMEOUT_S).leases
    stubs.finish(released(robots))
    stubs.request("t", HOLD)
    eventually(lambda: stubs.describe("t").status.held)
    stubs.request("t", RUN)
    stubs.ask("UpdateCrawl", "t", spec=crawl_pb2.CrawlSpec(weight=2, max_toes=9))
    stubs.job("t", verify={})
    stubs.next("t", 1, TIMEOUT_S)
    stubs.ask("TearDownCrawl", "t")
    eventually(lambda: stubs.describe("t").status.torn_down)
    launched_ms = stubs.describe("t").launch_time.ToMilliseconds()
    launch_id = f"{datetime.fromtimestamp(launched_ms / 1000, UTC):%Y%m%d%H%M%S}{launched_ms % 1000:03d}"
    texts = [re.sub(r"ipv4:\S+", "ME", text.replace(launch_id, "ID")) for _, _, text in lines(at.data)]
    assert texts == [
        *("OPERATOR ME create", "NASCENT", "OPERATOR ME add-seeds", "OPERATOR ME launch"),
        *("PREPARING ID", "SEEDS_CONCLUDED 2 queued:2", "RUNNING ID", "NODE_JOINED node session:session"),
        *("OPERATOR ME hold", "PAUSING ID", "PAUSED ID", "HELD"),
        *("OPERATOR ME resume", "RELEASED", "RUNNING ID"),
        "OPERATOR ME update weight = 2 (was 1), max_toes = 9 (was 0)",
        *("OPERATOR ME start-job verify", "JOB_ENDED 2 verify DONE"),
        *("OPERATOR ME teardown", "STOPPING ID", "FLIGHTS_CANCELLED 1 stop_timeout", "FINISHED ID"),
        "Job instance discarded",
    ]
    agrees(stubs, at.data)


def test_lines_that_wait_are_written_also_when_nothing_else_happens(
    store: HeldStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crawl that is held, for one, has nothing more to tell."""
    monkeypatch.setattr("frontier_server.logs.job_feed.RETRY_S", 0.05)
    monkeypatch.setattr("frontier_server.shell.runner.WATCH_EVERY_S", 0.05)
    obstacle = job_log(tmp_path, "t")
    obstacle.mkdir(parents=True)
    with hosted(store, tmp_path) as at:
        at.stubs.launch("t", A)
        at.stubs.request("t", HOLD)
        eventually(lambda: at.stubs.describe("t").status.held)
        obstacle.rmdir()
        eventually(lambda: obstacle.is_file() and lines(tmp_path, growing=True), "a write")
        agrees(at.stubs, tmp_path)


# When a line is written.


def test_a_line_is_written_when_its_event_is_durable_and_not_before(at: Hosted, store: HeldStore) -> None:
    stubs = at.stubs
    stubs.launch("t", A)
    before = lines(at.data)
    store.hold()
    begun = store.flushes_begun
    try:
        request = frontier_pb2.RequestStateRequest(crawl="t", target_state=PAUSE)
        call = stubs.frontier.RequestState.future(request, timeout=TIMEOUT_S)
        eventually(lambda: store.flushes_begun > begun, "a flush")
        assert lines(at.data) == before and not call.done()
    finally:
        store.release()
    call.result(timeout=TIMEOUT_S)
    assert [text.split()[0] for _, _, text in lines(at.data)[len(before) :]] == [
        *("OPERATOR", "PAUSING", "PAUSED")
    ]


def test_a_line_is_there_before_anybody_hears_of_its_event(at: Hosted) -> None:
    stubs = at.stubs
    stubs.launch("t", A)
    request = frontier_pb2.StateEventsRequest(crawl="t", cursor="start")
    stream = stubs.frontier.StateEvents(request, timeout=TIMEOUT_S)
    late: list[int] = []

    def follow() -> None:
        for answer in stream:
            event = answer.event
            has_line = answer.HasField("event") and not event.HasField("statistics")
            if has_line and lines(at.data, growing=True)[-1][1] < event.sequence:
                late.append(event.sequence)

    reader = threading.Thread(target=follow, daemon=True)
    reader.start()
    for _ in range(50):
        for target in (PAUSE, RUN):
            stubs.request("t", target)
    stubs.request("t", FINISH)
    reader.join(TIMEOUT_S)
    assert not reader.is_alive() and not late
    agrees(stubs, at.data)


# What a crash does to it.


def live(stubs: Stubs, acknowledged: list[str], chance: random.Random) -> None:
    """Pause or hold the crawl and let it go on, in turn, until the server is gone; what was answered."""
    runs = stubs.describe("t").status.state == crawl_pb2.CRAWL_STATE_RUNNING
    while True:
        target = chance.choice((PAUSE, HOLD)) if runs else RUN
        try:
            stubs.request("t", target)
        except grpc.RpcError:
            return
        acknowledged.append("OPERATOR")
        runs = target == RUN


def operators(text: bytes) -> int:
    """How many whole lines tell of what somebody asked."""
    return sum(b" OPERATOR " in line for line in text.splitlines(keepends=True) if line.endswith(b"\n"))


def test_killed_at_any_moment_it_has_each_event_once(tmp_path: Path) -> None:
    chance = random.Random(5)
    data = tmp_path / "data"
    with ServerProcess(data) as server:
        server.stubs.launch("t", A)
    for _ in range(6):
        with ServerProcess(data) as server:
            agrees(server.stubs, data)  # also with what the kill before has kept from it
            before = operators(job_log(data, "t").read_bytes())
            acknowledged: list[str] = []
            asking = threading.Thread(target=live, args=(server.stubs, acknowledged, chance), daemon=True)
            asking.start()
            wanted = chance.randrange(1, 60)
            eventually(partial(has, acknowledged, wanted), "an answer")
            server.kill()
            asking.join(TIMEOUT_S)
        assert operators(job_log(data, "t").read_bytes()) - before >= len(acknowledged)
    with ServerProcess(data) as server:
        server.stubs.request("t", FINISH)
        agrees(server.stubs, data)
        server.stop()


def has(found: list[str], count: int) -> bool:
    """Whether there are so many."""
    return len(found) >= count


@pytest.mark.parametrize("damage", ["lines lost", "a line torn", "all lost", "as it was"])
def test_what_a_crash_took_from_its_end_is_written_again_before_anybody_is_served(
    tmp_path: Path, damage: str
) -> None:
    data = tmp_path / "data"
    with ServerProcess(data) as server:
        server.stubs.launch("t", A)
        server.stubs.schedule("t", f"{A}more")
        server.stubs.finish(*(report(lease) for lease in server.stubs.pages("t")))
        server.stubs.request("t", HOLD)
        eventually(lambda: server.stubs.describe("t").status.held)
        server.kill()
    log = job_log(data, "t")
    whole = log.read_bytes()
    if damage == "lines lost":
        log.write_bytes(b"".join(whole.splitlines(keepends=True)[:-3]))
    elif damage == "a line torn":
        log.write_bytes(whole + b"2026-01-01T00:00:00.000Z 99 PAU")
    elif damage == "all lost":
        log.unlink()
    with ServerProcess(data) as server:
        assert log.read_bytes() == whole  # and HELD is the last line
        assert lines(data)[-1][2] == "HELD"
        agrees(server.stubs, data)
        server.stubs.request("t", RUN)
        agrees(server.stubs, data)


def test_of_a_crawl_that_was_torn_down_it_ends_with_that_though_the_server_is_killed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ServerProcess(data) as server:
        server.stubs.launch("t", A)
        server.stubs.ask("TearDownCrawl", "t")
        eventually(lambda: server.stubs.describe("t").status.torn_down)
        server.kill()
    log = job_log(data, "t")
    whole = log.read_bytes()
    assert whole.decode().endswith(" Job instance discarded\n")
    log.write_bytes(b"".join(whole.splitlines(keepends=True)[:-2]))
    with ServerProcess(data) as server:
        assert log.read_bytes() == whole
        agrees(server.stubs, data)
        server.stubs.ask("DeleteCrawl", "t")
        assert not log.exists()
