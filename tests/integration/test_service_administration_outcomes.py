"""StreamOutcomes: what is kept, then every final disposition, in order, without gap or repeat."""

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest
from core_doubles.memory_store import MemoryStore
from frontier_harness.calls import (
    INVALID,
    TIMEOUT_S,
    Refusal,
    Stubs,
    fresh_name,
    refused,
    report,
    seconds,
    seed_of,
    spec,
)
from frontier_harness.in_process import Served, config, serving
from frontier_harness.waiting import callers
from google.protobuf.timestamp_pb2 import Timestamp

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

START = Timestamp(seconds=1_700_000_000)
SUCCEEDED, FAILED = crawl_pb2.DISPOSITION_SUCCEEDED, crawl_pb2.DISPOSITION_FAILED


def told(
    stubs: Stubs, crawl: str, cursor: str = "start", follow: bool = False
) -> list[admin_pb2.StreamOutcomesResponse]:
    """All messages of a stream that ends."""
    messages: list[admin_pb2.StreamOutcomesResponse] = stubs.ask(
        "StreamOutcomes", crawl, cursor=cursor, follow=follow
    )
    return messages


def outcomes(messages: list[admin_pb2.StreamOutcomesResponse]) -> list[admin_pb2.UriOutcome]:
    return [outcome for message in messages for outcome in message.outcomes]


def finished_crawl(stubs: Stubs, pages: int = 4) -> str:
    """A crawl of so many pages that has ended."""
    crawl = fresh_name()
    stubs.launch(crawl, seed_of(crawl))
    stubs.schedule(crawl, *(f"{seed_of(crawl)}{page}" for page in range(1, pages)))
    for _ in range(pages):
        (lease,) = stubs.pages(crawl, most=1)
        stubs.finish(report(lease))
    stubs.until(crawl, crawl_pb2.CRAWL_STATE_FINISHED)
    return crawl


def test_an_outcome_says_all_that_its_line_of_the_crawl_log_does(stubs: Stubs, crawl: str) -> None:
    """Heritrix 2.15, S1.10: times, status, size, URI, path, via, type, thread, digest, source, remarks."""
    seed = seed_of(crawl)
    link = frontier_pb2.Candidate(uri=f"{seed}page", via=seed, path="L", source=seed)
    stubs.frontier.Schedule(frontier_pb2.ScheduleRequest(crawl=crawl, candidates=[link]), timeout=TIMEOUT_S)
    (lease,) = stubs.pages(crawl, most=1)
    stubs.finish(
        report(
            lease,
            start_time=START,
            fetch_duration=seconds(1.25),
            body_bytes=77,
            media_type="text/html",
            digest="sha1:A",
            toe_number=3,
            annotations=["linksCut"],
            truncation=frontier_pb2.TRUNCATION_LENGTH,
        )
    )
    (lease,) = stubs.pages(crawl, most=1)
    stubs.finish(report(lease, -4))
    first, page, failed = outcomes(told(stubs, crawl))
    assert (first.uri, first.path, first.via) == (f"{seed}robots.txt", "P", seed)
    assert (page.uri, page.fetch_status, page.disposition) == (seed, 200, SUCCEEDED)
    assert (page.body_bytes, page.media_type, page.digest) == (77, "text/html", "sha1:A")
    assert (page.node, page.toe_number, page.start_time) == ("node", 3, START)
    assert page.fetch_duration == seconds(1.25)
    assert (page.path, page.via, page.source) == ("", "", seed)
    assert list(page.annotations) == ["lenTrunc", "linksCut"]
    assert (failed.uri, failed.fetch_status, failed.disposition) == (f"{seed}page", -4, FAILED)
    assert (failed.path, failed.via, failed.source) == ("L", seed, seed)
    times = [outcome.outcome_time.ToMilliseconds() for outcome in (first, page, failed)]
    assert times == sorted(times) and times[0] > 0


def test_the_first_message_has_the_range_that_is_kept_and_no_other_does(stubs: Stubs) -> None:
    crawl = finished_crawl(stubs)
    first, *others = told(stubs, crawl)
    assert not first.outcomes and first.kept.outcome_count == 5
    assert all(not message.HasField("kept") for message in others)
    found = outcomes(others)
    assert len(found) == 5
    assert outcomes(told(stubs, crawl, first.kept.oldest_cursor)) == found
    assert outcomes(told(stubs, crawl, first.kept.last_cursor)) == []
    assert others[-1].cursor == found[-1].cursor == first.kept.last_cursor


def test_reading_goes_on_from_every_cursor_without_gap_or_repeat(stubs: Stubs) -> None:
    crawl = finished_crawl(stubs)
    found = outcomes(told(stubs, crawl))
    for place, outcome in enumerate(found):
        assert outcomes(told(stubs, crawl, outcome.cursor)) == found[place + 1 :]
        assert outcomes(told(stubs, crawl, outcome.cursor, follow=True)) == found[place + 1 :]


def test_without_follow_it_ends_with_the_last_that_there_is(stubs: Stubs, crawl: str) -> None:
    stubs.schedule(crawl, f"{seed_of(crawl)}more")
    (lease,) = stubs.pages(crawl, most=1)
    stubs.finish(report(lease))
    assert len(outcomes(told(stubs, crawl))) == 2
    assert outcomes(told(stubs, crawl, "")) == []


def test_with_follow_it_tells_what_comes_until_the_crawl_has_finished(stubs: Stubs, crawl: str) -> None:
    request = admin_pb2.StreamOutcomesRequest(crawl=crawl, follow=True)
    stream = stubs.admin.StreamOutcomes(request, timeout=TIMEOUT_S)
    assert next(stream).kept.outcome_count == 0
    (lease,) = stubs.pages(crawl)
    stubs.finish(report(lease))
    found = [outcome.uri for message in stream for outcome in message.outcomes]
    assert found == [f"{seed_of(crawl)}robots.txt", seed_of(crawl)]
    assert stream.code() == grpc.StatusCode.OK


def test_long_outcomes_come_in_messages_below_four_mib(stubs: Stubs) -> None:
    crawl = fresh_name()
    stubs.launch(crawl, seed_of(crawl))
    via = f"{seed_of(crawl)}{'v' * 8000}"
    offered = [
        frontier_pb2.Candidate(uri=f"{seed_of(crawl)}{number}?{'q' * 8000}", via=via, path="L")
        for number in range(300)
    ]
    for start in range(0, 300, 100):
        request = frontier_pb2.ScheduleRequest(crawl=crawl, candidates=offered[start : start + 100])
        stubs.frontier.Schedule(request, timeout=TIMEOUT_S)
    stubs.job(crawl, delete_uris={"queue_pattern": ".*", "uri_pattern": ".*"})
    messages = told(stubs, crawl)
    assert len(outcomes(messages)) == 301
    assert max(message.ByteSize() for message in messages) < 4 * 1024 * 1024


@pytest.mark.parametrize("cursor", ["x", "o" + "9" * 30])
def test_a_cursor_that_is_none_is_refused(stubs: Stubs, crawl: str, cursor: str) -> None:
    for follow in (False, True):
        refused(
            lambda follow=follow: told(stubs, crawl, cursor, follow),  # type: ignore[misc]
            INVALID,
            "INVALID_ARGUMENT_VALUE",
            "StreamOutcomes",
        )


def test_a_cursor_ahead_of_the_last_outcome_is_refused(stubs: Stubs, crawl: str) -> None:
    for follow in (False, True):
        refused(
            lambda follow=follow: told(stubs, crawl, "o99", follow),  # type: ignore[misc]
            INVALID,
            "INVALID_ARGUMENT_VALUE",
            "99",
        )


# With the server's own constants changed, in the test's process.


def numbers(cursors: list[str]) -> list[int]:
    """The outcomes that cursors name."""
    return [int(cursor.removeprefix("o").partition("-")[0]) for cursor in cursors]


Stream = grpc.aio.UnaryStreamCall[admin_pb2.StreamOutcomesRequest, admin_pb2.StreamOutcomesResponse]


def stream(served: Served, cursor: str = "", follow: bool = True) -> Stream:
    return served.admin.StreamOutcomes(
        admin_pb2.StreamOutcomesRequest(crawl="t", cursor=cursor, follow=follow)
    )


async def read(from_: Stream) -> admin_pb2.StreamOutcomesResponse:
    answer = await asyncio.wait_for(from_.read(), TIMEOUT_S)
    assert isinstance(answer, admin_pb2.StreamOutcomesResponse), "the stream has ended"
    return answer


async def rest(reading: Stream) -> list[str]:
    """The cursors of the outcomes up to the end of a stream."""
    found: list[str] = []
    while isinstance(answer := await reading.read(), admin_pb2.StreamOutcomesResponse):
        found += [outcome.cursor for outcome in answer.outcomes]
    return found


async def crawl_of(served: Served, seeds: int, **more: Any) -> None:
    """Crawl `t`, whose seeds have all been deleted: so many outcomes."""
    await served.admin.CreateCrawl(
        admin_pb2.CreateCrawlRequest(crawl="t", spec=spec(run_while_empty=True, **more))
    )
    uris = [f"http://a.example/{number}" for number in range(seeds)]
    await served.admin.AddSeeds(iter([admin_pb2.AddSeedsRequest(crawl="t", uris=uris)]))
    await served.admin.LaunchCrawl(admin_pb2.LaunchCrawlRequest(crawl="t"))
    everything = admin_pb2.DeleteUrisJob(queue_pattern=".*", uri_pattern=".*")
    following = stream(served, "start")
    await read(following)
    await served.admin.StartJob(admin_pb2.StartJobRequest(crawl="t", delete_uris=everything))
    count = 0
    while count < seeds:
        count += len((await read(following)).outcomes)
    following.cancel()


async def test_while_nothing_happens_an_empty_message_comes_with_the_cursor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frontier_server.service.outcomes.HEARTBEAT_S", 0.05)
    async with serving(MemoryStore(), config(tmp_path)) as served:
        await crawl_of(served, 3)
        following = stream(served)
        first = await read(following)
        for _ in range(3):
            sign = await read(following)
            assert not sign.outcomes and not sign.HasField("kept")
            assert sign.cursor == first.cursor and sign.cursor.startswith("o3-")


async def test_signs_of_life_come_also_while_other_things_happen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frontier_server.service.outcomes.HEARTBEAT_S", 0.2)
    async with serving(MemoryStore(), config(tmp_path)) as served, callers() as calls:
        await crawl_of(served, 1)
        following = stream(served)
        await read(following)

        async def busy() -> None:
            while True:
                await served.admin.NoteUris(
                    admin_pb2.NoteUrisRequest(crawl="t", uris=["http://a.example/noted"])
                )
                await served.admin.ForgetUris(
                    admin_pb2.ForgetUrisRequest(crawl="t", uris=["http://a.example/noted"])
                )

        calls.start(busy())
        assert not (await read(following)).outcomes


async def test_outcomes_that_are_no_longer_kept_are_told_after_the_range(tmp_path: Path) -> None:
    async with serving(MemoryStore(), config(tmp_path)) as served:
        await crawl_of(served, 9, outcomes_kept=4)
        await served.logs.drain()  # what is in the log for good need not be kept
        for follow in (False, True):
            for cursor in ("o0", "o4"):
                reading = stream(served, cursor, follow)
                first = await read(reading)
                assert first.kept.oldest_cursor == "o5" and first.kept.last_cursor.startswith("o9-")
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await read(reading)
                problem = Refusal.of(caught.value)
                assert (problem.code, problem.reason) == (grpc.StatusCode.OUT_OF_RANGE, "CURSOR_TOO_OLD")
                assert problem.metadata == {"oldest": "6"}
        for cursor in ("start", "o5"):
            reading = stream(served, cursor, False)
            await read(reading)
            assert numbers(await rest(reading)) == [6, 7, 8, 9]


async def test_a_reader_that_does_not_read_holds_up_nobody_and_misses_nothing(tmp_path: Path) -> None:
    async with serving(MemoryStore(), config(tmp_path)) as served:
        await crawl_of(served, 900)
        slow = stream(served, "start", False)
        await read(slow)
        quick = stream(served, "start", False)
        found = await rest(quick)
        assert numbers(found) == [*range(1, 901)]
        assert await rest(slow) == found


async def test_readers_end_with_unavailable_when_the_server_shuts_down(tmp_path: Path) -> None:
    async with serving(MemoryStore(), config(tmp_path)) as served, callers() as calls:
        await crawl_of(served, 1)
        streams = [stream(served) for _ in range(3)]
        for following in streams:
            await read(following)
        waiting = [calls.start(following.read()) for following in streams]
        served.runner.begin_close()
        for reading in waiting:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await asyncio.wait_for(reading, TIMEOUT_S)
            problem = Refusal.of(caught.value)
            assert (problem.code, problem.reason) == (grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN")
