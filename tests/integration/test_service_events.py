"""StateEvents: the present state, then every event behind the cursor, in order, without gap or repeat."""

import asyncio
import time
from collections import Counter
from pathlib import Path

import grpc
import pytest
from core_doubles.memory_store import MemoryStore
from frontier_harness.calls import (
    FINISH,
    PAUSE,
    RUN,
    TIMEOUT_S,
    Refusal,
    Stubs,
    fresh_name,
    named,
    refusal,
    report,
    seed_of,
    spec,
)
from frontier_harness.held_store import HeldStore
from frontier_harness.in_process import Served, config, serving
from frontier_harness.waiting import callers, soon, turns

from frontier_server import wire
from frontier_server.core.core import Core
from frontier_server.core.machines.lifecycle import Input
from frontier_server.core.operators.history import History
from frontier_server.core.rows.records import EventRow
from frontier_server.shell.followers import BATCH
from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2


def answers(stubs: Stubs, crawl: str, cursor: str = "") -> list[frontier_pb2.StateEventsResponse]:
    """All that a reader is told of a crawl that ends."""
    request = frontier_pb2.StateEventsRequest(crawl=crawl, cursor=cursor)
    return list(stubs.frontier.StateEvents(request, timeout=TIMEOUT_S))


def finished_crawl(stubs: Stubs) -> str:
    """A crawl that was paused, resumed and stopped."""
    crawl = fresh_name()
    stubs.launch(crawl, seed_of(crawl))
    for target in (PAUSE, RUN, PAUSE, RUN, FINISH):
        stubs.request(crawl, target)
    return crawl


def test_the_first_message_is_the_present_state_and_no_other_has_one(stubs: Stubs) -> None:
    crawl = finished_crawl(stubs)
    first, *others = answers(stubs, crawl, "start")
    assert first.present == stubs.describe(crawl).status
    assert not first.HasField("event")
    assert all(answer.HasField("event") and not answer.HasField("present") for answer in others)


def test_reading_goes_on_from_any_cursor_without_gap_or_repeat(stubs: Stubs) -> None:
    crawl = finished_crawl(stubs)
    whole = answers(stubs, crawl, "start")
    assert [answer.cursor for answer in whole[1:]] == [answer.event.cursor for answer in whole[1:]]
    for place, answer in enumerate(whole):
        assert answers(stubs, crawl, answer.cursor)[1:] == whole[place + 1 :]


def test_an_empty_cursor_tells_only_what_happens_from_now_on(stubs: Stubs, crawl: str) -> None:
    stream = stubs.frontier.StateEvents(frontier_pb2.StateEventsRequest(crawl=crawl), timeout=TIMEOUT_S)
    assert next(stream).present.state == crawl_pb2.CRAWL_STATE_RUNNING
    stubs.request(crawl, FINISH)
    told = [named(answer.event) for answer in stream]
    assert told == ["by stop", "STOPPING", "statistics", "FINISHED"]


def test_the_stream_of_a_crawl_that_has_finished_ends_with_ok(stubs: Stubs) -> None:
    crawl = finished_crawl(stubs)
    request = frontier_pb2.StateEventsRequest(crawl=crawl, cursor=stubs.events(crawl)[-1].cursor)
    stream = stubs.frontier.StateEvents(request, timeout=TIMEOUT_S)
    (only,) = list(stream)
    assert only.present.state == crawl_pb2.CRAWL_STATE_FINISHED
    assert stream.code() == grpc.StatusCode.OK


def test_a_reader_waits_for_the_end_and_is_told_of_it(stubs: Stubs, crawl: str) -> None:
    request = frontier_pb2.StateEventsRequest(crawl=crawl)
    streams = [stubs.frontier.StateEvents(request, timeout=TIMEOUT_S) for _ in range(5)]
    for stream in streams:
        next(stream)
    (lease,) = stubs.pages(crawl)
    stubs.finish(report(lease))
    told = [[answer.event for answer in stream] for stream in streams]
    assert all(events == told[0] for events in told)
    assert [named(event) for event in told[0]] == [
        *("node_joined", "EMPTY", "STOPPING", "statistics", "FINISHED"),
    ]
    statistics = told[0][3].statistics
    assert (statistics.discovered_count, statistics.succeeded_count, statistics.queued_count) == (1, 1, 0)


def test_a_cursor_of_another_crawl_is_refused(stubs: Stubs) -> None:
    longer, crawl = finished_crawl(stubs), fresh_name()
    stubs.create(crawl)
    request = frontier_pb2.StateEventsRequest(crawl=crawl, cursor=stubs.events(longer)[-1].cursor)
    problem = refusal(lambda: list(stubs.frontier.StateEvents(request, timeout=TIMEOUT_S)))
    assert (problem.code, problem.reason) == (grpc.StatusCode.OUT_OF_RANGE, "CURSOR_TOO_OLD")


# With the server's own constants changed, in the test's process.


LAUNCHED = 7
"""How many events a crawl has had when it runs: NASCENT, two requests, PREPARING, its seeds, RUNNING."""


async def launch(served: Served) -> None:
    """Crawl `t` runs, and its statistics are told only when it pauses."""
    await served.admin.CreateCrawl(admin_pb2.CreateCrawlRequest(crawl="t", spec=spec()))
    seeds = admin_pb2.AddSeedsRequest(crawl="t", uris=["http://a.example/"])
    await served.admin.AddSeeds(iter([seeds]))
    await served.admin.LaunchCrawl(admin_pb2.LaunchCrawlRequest(crawl="t"))
    stream = events(served)
    while (await read(stream)).event.status_changed.state != crawl_pb2.CRAWL_STATE_RUNNING:
        pass
    stream.cancel()


EventStream = grpc.aio.UnaryStreamCall[frontier_pb2.StateEventsRequest, frontier_pb2.StateEventsResponse]


def events(served: Served, cursor: str = "start") -> EventStream:
    return served.frontier.StateEvents(frontier_pb2.StateEventsRequest(crawl="t", cursor=cursor))


async def read(stream: EventStream) -> frontier_pb2.StateEventsResponse:
    answer = await asyncio.wait_for(stream.read(), TIMEOUT_S)
    assert isinstance(answer, frontier_pb2.StateEventsResponse), "the stream has ended"
    return answer


async def toggle(served: Served, times: int) -> int:
    """Pause and resume: three events each time, and the statistics of the seeds in the first; how many."""
    for _ in range(times):
        for target in (Input.PAUSE, Input.RESUME):
            await served.runner.apply(lambda f, now, target=target: f.control.request_state("t", target, now))  # type: ignore[misc]  # bound by its default
    return 3 * times + 1


async def test_while_nothing_happens_an_empty_message_comes_with_the_cursor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frontier_server.shell.followers.HEARTBEAT_S", 0.05)
    async with serving(MemoryStore(), config(tmp_path)) as served:
        await launch(served)
        stream = events(served, "")
        first = await read(stream)
        for _ in range(3):
            sign = await read(stream)
            assert not sign.HasField("event") and not sign.HasField("present")
            assert sign.cursor == first.cursor
        await toggle(served, 1)
        told: list[int] = []
        while len(told) < 4:
            answer = await read(stream)
            told += [answer.event.sequence] if answer.HasField("event") else []
        assert told == [LAUNCHED + 1, LAUNCHED + 2, LAUNCHED + 3, LAUNCHED + 4]


async def test_signs_of_life_reach_thousands_in_lots_and_let_others_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All at once they would keep everybody else waiting, health and pause as well."""
    monkeypatch.setattr("frontier_server.shell.followers.HEARTBEAT_S", 0.2)
    many = 3 * BATCH
    async with serving(MemoryStore(), config(tmp_path)) as served, callers() as calls:
        await launch(served)
        turn, told = 0, Counter[int]()

        async def count_turns() -> None:
            nonlocal turn
            while True:
                turn += 1
                await asyncio.sleep(0)

        async def follow() -> None:
            signs = 0
            async for found in served.exchange.following.events("t", LAUNCHED):
                assert found is None
                told[turn] += 1
                signs += 1
                if signs == 2:
                    return

        calls.start(count_turns())
        followers = [calls.start(follow()) for _ in range(many)]
        await soon(lambda: told.total() == many, "a sign of life for each")
        time.sleep(0.3)  # noqa: ASYNC251  the server is busy until all are due
        await asyncio.wait_for(asyncio.gather(*followers), TIMEOUT_S)
        assert told.total() == 2 * many
        assert max(told.values()) <= BATCH


async def test_a_cursor_older_than_what_is_kept_is_told_after_the_present_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = 5
    monkeypatch.setattr("frontier_server.core.state.operation.EVENTS_KEPT", kept)
    for module in ("views", "history"):
        monkeypatch.setattr(f"frontier_server.core.operators.{module}.EVENTS_KEPT", kept)
    async with serving(MemoryStore(), config(tmp_path)) as served:
        await launch(served)
        last = LAUNCHED + await toggle(served, 4)
        oldest = last - kept + 1
        for number in (0, 1, oldest - 2):
            stream = events(served, wire.cursor(number, 0))
            assert (await read(stream)).present.state == crawl_pb2.CRAWL_STATE_RUNNING
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await read(stream)
            problem = Refusal.of(caught.value)
            assert (problem.code, problem.reason) == (grpc.StatusCode.OUT_OF_RANGE, "CURSOR_TOO_OLD")
            assert problem.metadata["oldest"] == str(oldest)
        for cursor in ("start", wire.cursor(oldest - 1, 0)):
            stream = events(served, cursor)
            told = [await read(stream) for _ in range(1 + kept)]
            assert [answer.event.sequence for answer in told[1:]] == list(range(oldest, last + 1))
            stream.cancel()


async def test_a_cursor_of_a_crawl_that_was_made_anew_since_is_told_and_not_taken_for_one_of_this(
    tmp_path: Path,
) -> None:
    """Its events have the same numbers; a reader that went on would miss those up to its own."""
    async with serving(MemoryStore(), config(tmp_path)) as served:
        await launch(served)
        stream = events(served)
        told = [await read(stream) for _ in range(1 + LAUNCHED)]
        stream.cancel()
        asked = told[LAUNCHED].cursor
        await served.frontier.RequestState(frontier_pb2.RequestStateRequest(crawl="t", target_state=FINISH))
        await served.admin.DeleteCrawl(admin_pb2.DeleteCrawlRequest(crawl="t"))
        await launch(served)
        for more in (0, 3):
            await toggle(served, more)
            stream = events(served, asked)
            assert (await read(stream)).HasField("present")
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await read(stream)
            problem = Refusal.of(caught.value)
            assert (problem.code, problem.reason) == (grpc.StatusCode.OUT_OF_RANGE, "CURSOR_TOO_OLD")
            assert f"event {LAUNCHED} is not the one that was read" in problem.message
            assert problem.metadata["oldest"] == "1"


async def test_a_reader_that_falls_behind_what_is_kept_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It must never see a gap without a word."""
    monkeypatch.setattr("frontier_server.core.state.operation.EVENTS_KEPT", 50)
    for module in ("views", "history"):
        monkeypatch.setattr(f"frontier_server.core.operators.{module}.EVENTS_KEPT", 50)
    async with serving(MemoryStore(), config(tmp_path)) as served:
        await launch(served)
        stream = events(served)
        await read(stream)
        last = LAUNCHED + await toggle(served, 3000)
        told: list[int] = []
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            while len(told) < last:
                told.append((await read(stream)).event.sequence)
        assert told == list(range(1, len(told) + 1))
        assert Refusal.of(caught.value).reason == "CURSOR_TOO_OLD"


async def test_a_reader_that_does_not_read_holds_up_nobody_and_misses_nothing(tmp_path: Path) -> None:
    async with serving(MemoryStore(), config(tmp_path)) as served:
        await launch(served)
        slow = events(served)
        await read(slow)
        last = LAUNCHED + await toggle(served, 1500)
        quick = events(served)
        await read(quick)
        sequence = [(await read(quick)).event.sequence for _ in range(last)]
        assert sequence == list(range(1, last + 1))
        request = admin_pb2.GetStatisticsRequest(crawl="t")
        await asyncio.wait_for(call_of(served, request), TIMEOUT_S)
        assert [(await read(slow)).event.sequence for _ in range(last)] == sequence


async def test_each_event_is_read_once_however_many_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = 0
    whole = History.events_after

    def counted(self: History, name: str, sequence: int) -> list[tuple[int, EventRow]]:
        nonlocal reads
        reads += 1
        return whole(self, name, sequence)

    followers = 300
    async with serving(MemoryStore(), config(tmp_path)) as served:
        await launch(served)
        streams = [events(served, "") for _ in range(followers)]
        await asyncio.gather(*[read(stream) for stream in streams])
        await soon(lambda: len(followers_of(served)) == followers, "all to wait for what comes")
        monkeypatch.setattr(History, "events_after", counted)
        told = await toggle(served, 3)
        for stream in streams:
            numbers = [(await read(stream)).event.sequence for _ in range(told)]
            assert numbers == list(range(LAUNCHED + 1, LAUNCHED + told + 1))
        assert reads <= 20  # one for each operation, and some that find nothing new


def followers_of(served: Served) -> list[object]:
    """Those who have had all that there was."""
    found = [*served.exchange.following._latest.values()]
    return [follower for latest in found for follower in latest.followers if follower.waits]


async def test_when_nobody_follows_any_more_nothing_is_read_or_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(MemoryStore(), config(tmp_path)) as served:
        await launch(served)
        stream = events(served, "")
        await read(stream)
        await soon(lambda: followers_of(served), "a follower")
        stream.cancel()
        await soon(lambda: not followers_of(served), "the follower to go")
        await toggle(served, 1)
        await soon(lambda: not served.exchange.following._latest, "kept events to be dropped")


async def test_a_pause_goes_before_all_that_waits_for_its_turn(tmp_path: Path) -> None:
    store = HeldStore()
    async with serving(store, config(tmp_path)) as served, callers() as calls:
        await launch(served)
        ran: list[str] = []
        seeds = ["http://b.example/"]
        store.stalled = True
        try:
            write = calls.start(served.runner.run(lambda f, now: f.control.add_seeds("t", seeds, now)))
            await soon(lambda: store.stalls, "the write to stall")

            def noting(core: Core, _: int) -> None:
                ran.append(core.views.crawl("t").state.value)

            others = [calls.start(served.runner.read(noting)) for _ in range(20)]
            await turns()
            request = frontier_pb2.RequestStateRequest(crawl="t", target_state=PAUSE)
            pause = calls.start(served.frontier.RequestState(request))
            await soon(lambda: len(served.runner._lock._first) == 1, "the request to arrive")
        finally:
            store.stalled = False
        await asyncio.wait_for(asyncio.gather(write, pause, *others), TIMEOUT_S)
        assert "RUNNING" not in ran, "others had a look before the pause"


async def call_of(served: Served, request: admin_pb2.GetStatisticsRequest) -> admin_pb2.GetStatisticsResponse:
    return await served.admin.GetStatistics(request)


async def test_readers_end_with_unavailable_when_the_server_shuts_down(tmp_path: Path) -> None:
    async with serving(MemoryStore(), config(tmp_path)) as served, callers() as calls:
        await launch(served)
        streams = [events(served, "") for _ in range(3)]
        for stream in streams:
            await read(stream)
        waiting = [calls.start(stream.read()) for stream in streams]
        served.runner.begin_close()
        for reading in waiting:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await asyncio.wait_for(reading, TIMEOUT_S)
            problem = Refusal.of(caught.value)
            assert (problem.code, problem.reason) == (grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN")
