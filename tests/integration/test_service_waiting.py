"""The long poll: `Next` answers when there is something to say, and never leaves a lease with nobody."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from core_doubles.memory_store import MemoryStore
from frontier_harness.calls import (
    FINISH,
    PAUSE,
    TIMEOUT_S,
    Refusal,
    Stubs,
    finished_request,
    fresh_name,
    next_request,
    report,
    schedule_request,
    seconds,
    seed_of,
    spec,
)
from frontier_harness.held_store import HeldStore
from frontier_harness.hosted import hosted
from frontier_harness.in_process import Served, config, serving
from frontier_harness.odd_values import ODD_SECONDS
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import callers, eventually, soon
from google.protobuf import field_mask_pb2
from google.protobuf.duration_pb2 import Duration

from frontier_server.core.journey.dispatch import Want
from frontier_server.core.machines.lifecycle import Input
from frontier_server.core.state.model import EmptyReason
from frontier_server.service import fetchers
from frontier_server.shell.runner import Closing
from frontier_server.shell.waiters import BATCH
from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2


def poll(stubs: Stubs, crawl: str, node: str, most: int = 10, wait_s: float = 60) -> Any:
    """A `Next` that waits, as a future; the frontier has heard of it."""
    call = stubs.frontier.Next.future(next_request(crawl, most, wait_s, node), timeout=70)
    eventually(lambda: node in heard_nodes(stubs) or call.done(), "the call to arrive")
    return call


def heard_nodes(stubs: Stubs) -> set[str]:
    answer = stubs.admin.GetFrontier(admin_pb2.GetFrontierRequest(), timeout=TIMEOUT_S)
    return {node.node for node in answer.nodes}


def drained(stubs: Stubs, crawl: str) -> frontier_pb2.Lease:
    """The only page of a crawl: while it is out, there is nothing else to lease."""
    (lease,) = stubs.pages(crawl)
    return lease


def test_next_is_answered_when_a_uri_becomes_available(stubs: Stubs, crawl: str) -> None:
    lease = drained(stubs, crawl)
    waiting = poll(stubs, crawl, fresh_name())
    assert not waiting.done()
    stubs.schedule(crawl, f"{lease.uri}new")
    assert not waiting.done()  # its host is busy
    stubs.finish(report(lease))
    (found,) = waiting.result(timeout=TIMEOUT_S).leases
    assert found.uri == f"{lease.uri}new"


def test_next_is_answered_when_a_rest_is_over_and_not_before(stubs: Stubs) -> None:
    crawl, rest_s = fresh_name(), 0.5
    stubs.launch(crawl, seed_of(crawl), of=spec(rest_s))
    (robots,) = stubs.next(crawl, wait_s=TIMEOUT_S).leases
    began_s = time.monotonic()
    stubs.finish(report(robots))
    (lease,) = stubs.next(crawl, wait_s=TIMEOUT_S).leases
    waited_s = time.monotonic() - began_s
    assert lease.uri == seed_of(crawl)
    assert rest_s - 0.002 <= waited_s < TIMEOUT_S  # the server counts in whole milliseconds


def test_next_for_any_crawl_is_answered_when_one_is_launched(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        stubs = server.stubs
        assert stubs.next().empty_reason == frontier_pb2.EMPTY_REASON_NO_CRAWL
        waiting = poll(stubs, "", "early")
        stubs.launch("t", seed_of("t"))
        answer = waiting.result(timeout=TIMEOUT_S)
        while not answer.leases:  # the reason may have changed on the way
            assert answer.empty_reason in (
                frontier_pb2.EMPTY_REASON_NOT_RUNNING,
                frontier_pb2.EMPTY_REASON_NOTHING_DUE,  # the shard with the seed does not run it yet
            )
            answer = stubs.next(wait_s=TIMEOUT_S, node="early")
        assert answer.leases[0].crawl == "t"


@pytest.mark.parametrize(
    ("target", "reason"),
    [(PAUSE, frontier_pb2.EMPTY_REASON_PAUSED), (FINISH, frontier_pb2.EMPTY_REASON_FINISHED)],
)
def test_next_is_answered_when_the_crawl_stops_giving(
    stubs: Stubs, crawl: str, target: crawl_pb2.TargetState.ValueType, reason: int
) -> None:
    drained(stubs, crawl)
    waiting = poll(stubs, crawl, fresh_name())
    assert not waiting.done()
    stubs.request(crawl, target)
    answer = waiting.result(timeout=TIMEOUT_S)
    assert (answer.empty_reason, len(answer.leases)) == (reason, 0)


def test_next_waits_while_paused_and_is_answered_on_resumption(stubs: Stubs, crawl: str) -> None:
    stubs.request(crawl, PAUSE)
    waiting = poll(stubs, crawl, fresh_name())
    assert not waiting.done()
    stubs.request(crawl, crawl_pb2.TARGET_STATE_RUN)
    answer = waiting.result(timeout=TIMEOUT_S)
    if not answer.leases:  # told that the pause is over
        assert answer.empty_reason == frontier_pb2.EMPTY_REASON_NOTHING_DUE
        answer = stubs.next(crawl, wait_s=TIMEOUT_S)
    assert len(answer.leases) == 1


def test_a_wait_of_any_length_is_a_wait_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative: not at all; too long: as long as the deadline allows."""
    monkeypatch.setattr(fetchers, "DEADLINE_MARGIN_S", 30.0)  # so much that a busy machine keeps it
    with hosted(MemoryStore(), tmp_path) as at:
        at.stubs.launch("t", seed_of("t"))
        drained(at.stubs, "t")
        for value in ODD_SECONDS:
            request = next_request("t")
            request.wait_duration.CopyFrom(Duration(seconds=value))
            answer = at.stubs.frontier.Next(request, timeout=30.2)
            assert answer.empty_reason == frontier_pb2.EMPTY_REASON_NOTHING_DUE


@pytest.mark.parametrize(("deadline_s", "least_s"), [(31, 0.9), (29, 0)], ids=["long", "too short to wait"])
def test_next_is_answered_before_its_deadline_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deadline_s: float, least_s: float
) -> None:
    monkeypatch.setattr(fetchers, "DEADLINE_MARGIN_S", 30.0)  # so much that a busy machine keeps it
    with hosted(MemoryStore(), tmp_path) as at:
        at.stubs.launch("t", seed_of("t"))
        drained(at.stubs, "t")
        began_s = time.monotonic()
        answer = at.stubs.frontier.Next(next_request("t", wait_s=60), timeout=deadline_s)
        assert least_s <= time.monotonic() - began_s < deadline_s
        assert answer.empty_reason == frontier_pb2.EMPTY_REASON_NOTHING_DUE


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stubs]:
    """A server where nothing falls due but what a test brings about."""
    with ServerProcess(tmp_path_factory.mktemp("quiet") / "data") as server:
        yield server.stubs


def test_next_that_does_not_wait_is_answered_at_once_with_when_to_ask_again(quiet: Stubs) -> None:
    crawl, rest_s = fresh_name(), 30
    quiet.launch(crawl, seed_of(crawl), of=spec(rest_s))
    (robots,) = quiet.next(crawl, wait_s=TIMEOUT_S).leases
    quiet.finish(report(robots))
    answer = quiet.next(crawl)
    assert answer.empty_reason == frontier_pb2.EMPTY_REASON_NOTHING_DUE
    assert 1_000 < answer.retry_duration.ToMilliseconds() <= rest_s * 1_000
    quiet.request(crawl, FINISH)


def test_when_to_ask_again_is_when_there_may_be_more_to_fetch_whatever_else_falls_due(quiet: Stubs) -> None:
    """Figures that a crawl tells every second bring no URI."""
    crawl, rest_s = fresh_name(), 30
    quiet.launch(crawl, seed_of(crawl), of=spec(rest_s, statistics_interval=seconds(1)))
    (robots,) = quiet.next(crawl, wait_s=TIMEOUT_S).leases
    quiet.finish(report(robots))
    assert rest_s * 1_000 - 10_000 < quiet.next(crawl).retry_duration.ToMilliseconds() <= rest_s * 1_000
    quiet.request(crawl, FINISH)


def test_when_to_ask_again_for_a_crawl_is_when_something_of_that_crawl_falls_due(quiet: Stubs) -> None:
    """Whatever another one has to give before."""
    patient, quick, rest_s = fresh_name(), fresh_name(), 40
    for crawl, its_rest_s in ((patient, rest_s), (quick, 20)):
        quiet.launch(crawl, seed_of(crawl), of=spec(its_rest_s))
        (robots,) = quiet.next(crawl, wait_s=TIMEOUT_S).leases
        quiet.finish(report(robots))
    assert 20_000 < quiet.next(patient).retry_duration.ToMilliseconds() <= rest_s * 1_000
    assert quiet.next(quick).retry_duration.ToMilliseconds() <= 20_000
    quiet.request(patient, FINISH)
    quiet.request(quick, FINISH)


def test_when_to_ask_again_is_never_more_than_a_minute(stubs: Stubs) -> None:
    crawl = fresh_name()
    stubs.launch(crawl, seed_of(crawl), of=spec(3600))
    (robots,) = stubs.next(crawl, wait_s=TIMEOUT_S).leases
    stubs.finish(report(robots))
    assert 0 < stubs.next(crawl).retry_duration.ToMilliseconds() <= 60_000


@pytest.mark.parametrize("wait_s", [0, 10])
def test_a_node_of_a_crawl_that_has_finished_is_not_told_to_ask_without_rest(
    stubs: Stubs, crawl: str, wait_s: float
) -> None:
    """It is answered at once however long it would wait: the answer itself must slow it down."""
    stubs.request(crawl, FINISH)
    answer = stubs.next(crawl, wait_s=wait_s)
    assert answer.empty_reason == frontier_pb2.EMPTY_REASON_FINISHED
    assert answer.retry_duration.ToMilliseconds() >= 1_000


def test_of_many_that_wait_one_gets_the_uri(stubs: Stubs, crawl: str) -> None:
    lease = drained(stubs, crawl)
    waiting = [poll(stubs, crawl, fresh_name()) for _ in range(20)]
    stubs.schedule(crawl, f"{lease.uri}1")
    stubs.finish(report(lease))
    eventually(lambda: any(call.done() for call in waiting), "somebody to get it")
    stubs.request(crawl, FINISH)  # which ends the waits of the others
    answers = [call.result(timeout=TIMEOUT_S) for call in waiting]
    assert sorted(len(answer.leases) for answer in answers) == [0] * 19 + [1]


def test_a_node_that_no_longer_waits_gets_nothing(stubs: Stubs, crawl: str) -> None:
    lease = drained(stubs, crawl)
    gone = [poll(stubs, crawl, fresh_name()) for _ in range(5)]
    for call in gone:
        call.cancel()
    stubs.schedule(crawl, f"{lease.uri}new")
    stubs.finish(report(lease))
    (found,) = stubs.next(crawl, wait_s=TIMEOUT_S).leases
    assert (found.uri, found.attempt) == (f"{lease.uri}new", 1)


def test_a_node_whose_connection_breaks_while_it_waits_gets_nothing(
    server: ServerProcess, crawl: str
) -> None:
    stubs = server.stubs
    lease = drained(stubs, crawl)
    options = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(server.address, options) as broken:
        poll(Stubs(broken), crawl, fresh_name())
    stubs.schedule(crawl, f"{lease.uri}new")
    stubs.finish(report(lease))
    (found,) = stubs.next(crawl, wait_s=TIMEOUT_S).leases
    assert (found.uri, found.attempt) == (f"{lease.uri}new", 1)


async def in_process_crawl(served: Served) -> frontier_pb2.Lease:
    """Crawl `t` runs in the test's own process; its only page."""
    await served.admin.CreateCrawl(admin_pb2.CreateCrawlRequest(crawl="t", spec=spec()))
    await served.admin.AddSeeds(iter([admin_pb2.AddSeedsRequest(crawl="t", uris=["http://a.example/"])]))
    await served.admin.LaunchCrawl(admin_pb2.LaunchCrawlRequest(crawl="t"))
    (robots,) = (await served.frontier.Next(next_request("t", wait_s=TIMEOUT_S))).leases
    await served.frontier.Finished(finished_request(report(robots)))
    (lease,) = (await served.frontier.Next(next_request("t", wait_s=TIMEOUT_S))).leases
    return lease


async def test_leases_whose_caller_goes_while_they_are_made_durable_go_back_at_once(tmp_path: Path) -> None:
    store = HeldStore()
    async with serving(store, config(tmp_path)) as served:
        lease = await in_process_crawl(served)
        await served.frontier.Schedule(schedule_request("t", f"{lease.uri}new"))
        await served.frontier.Finished(finished_request(report(lease)))
        store.hold()
        try:
            call = served.frontier.Next(next_request("t"))
            await soon(lambda: store.flushing, "a lease")
            call.cancel()
            await soon(lambda: served.runner.core.nodes.leases_out == 0, "the lease to go back")
        finally:
            store.release()
        (found,) = (await served.frontier.Next(next_request("t", node="other", wait_s=5))).leases
        assert (found.uri, found.attempt) == (f"{lease.uri}new", 1)


async def test_next_ends_with_unavailable_when_the_server_shuts_down(tmp_path: Path) -> None:
    async with serving(MemoryStore(), config(tmp_path)) as served, callers() as calls:
        await in_process_crawl(served)
        waiting = calls.start(served.frontier.Next(next_request("t", wait_s=60)))
        await soon(lambda: served.runner.waiting, "the call to arrive")
        served.runner.begin_close()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await asyncio.wait_for(waiting, TIMEOUT_S)
        problem = Refusal.of(caught.value)
        assert (problem.code, problem.reason) == (grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN")


async def test_a_pause_does_not_wait_for_all_nodes_that_wait_for_leases(tmp_path: Path) -> None:
    """They are woken a batch at a time, and all of them in the end."""
    nodes = 10 * BATCH
    async with serving(MemoryStore(), config(tmp_path)) as served, callers() as calls:
        await served.admin.CreateCrawl(
            admin_pb2.CreateCrawlRequest(crawl="t", spec=spec(run_while_empty=True))
        )
        seeds = admin_pb2.AddSeedsRequest(crawl="t", uris=["http://a.example/"])
        await served.admin.AddSeeds(iter([seeds]))
        await served.admin.LaunchCrawl(admin_pb2.LaunchCrawlRequest(crawl="t"))
        exchange, runner = served.exchange, served.runner
        await exchange.next("n", "s", Want(10), "t", 10)  # robots.txt is out: there is nothing else
        polls = [calls.start(exchange.next(f"n{number}", "s", Want(1), "t", 60)) for number in range(nodes)]
        await soon(lambda: len(runner.waiting) == nodes, "all to wait")
        await runner.apply(lambda f, now: f.control.request_state("t", Input.PAUSE, now))
        assert runner.waiting.about_to_wake > nodes / 2, "all are woken at once"
        answers = await asyncio.wait_for(asyncio.gather(*polls), TIMEOUT_S)
        assert {answer.empty_reason for answer in answers} == {EmptyReason.PAUSED}


async def test_nodes_that_are_still_to_be_woken_hear_when_the_server_closes(tmp_path: Path) -> None:
    nodes = 4 * BATCH
    async with serving(MemoryStore(), config(tmp_path)) as served, callers() as calls:
        await served.admin.CreateCrawl(admin_pb2.CreateCrawlRequest(crawl="t", spec=spec()))
        exchange, runner = served.exchange, served.runner
        polls = [calls.start(exchange.next(f"n{number}", "s", Want(1), "t", 60)) for number in range(nodes)]
        await soon(lambda: len(runner.waiting) == nodes, "all to wait")
        runner.waiting.wake()
        runner.begin_close()
        told = await asyncio.wait_for(asyncio.gather(*polls, return_exceptions=True), TIMEOUT_S)
        assert all(isinstance(problem, Closing) for problem in told)


async def operations_while_waiting(served: Served, monkeypatch: pytest.MonkeyPatch, want: Want) -> int:
    """How many operations the frontier does while a node waits for crawl `t`, which has nothing for it."""
    count = 0
    apply = served.runner.apply

    async def counted(*arguments: Any, **named: Any) -> Any:
        nonlocal count
        count += 1
        return await apply(*arguments, **named)

    monkeypatch.setattr(served.runner, "apply", counted)
    answer = await served.exchange.next("waits", "s", want, "t", 0.5)
    assert not answer.grants
    return count


async def test_a_node_that_waits_for_a_crawl_is_not_woken_by_what_another_crawl_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(MemoryStore(), config(tmp_path)) as served:
        await in_process_crawl(served)
        await served.admin.CreateCrawl(admin_pb2.CreateCrawlRequest(crawl="other", spec=spec()))
        seeds = admin_pb2.AddSeedsRequest(crawl="other", uris=["http://b.example/"])
        await served.admin.AddSeeds(iter([seeds]))
        await served.admin.LaunchCrawl(admin_pb2.LaunchCrawlRequest(crawl="other"))
        await soon(lambda: served.runner.core.frontier.leasable("other"), "the other crawl to have a URI")
        assert await operations_while_waiting(served, monkeypatch, Want(1)) <= 3


async def test_a_node_that_waits_for_some_queues_does_not_ask_without_rest_while_others_are_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(MemoryStore(), config(tmp_path)) as served:
        lease = await in_process_crawl(served)
        elsewhere = frontier_pb2.Candidate(uri="http://b.example/", seed=True)
        await served.frontier.Schedule(frontier_pb2.ScheduleRequest(crawl="t", candidates=[elsewhere]))
        want = Want(1, queues=(lease.queue_key,))
        assert await operations_while_waiting(served, monkeypatch, want) <= 12


async def test_next_waits_while_all_crawls_are_of_other_kinds_and_returns_a_lease_of_its_own_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(MemoryStore(), config(tmp_path)) as served, callers() as calls:
        mine = spec()
        mine.fetcher = "own"
        await served.admin.CreateCrawl(admin_pb2.CreateCrawlRequest(crawl="t", spec=mine))
        await served.admin.AddSeeds(iter([admin_pb2.AddSeedsRequest(crawl="t", uris=["http://a.example/"])]))
        await served.admin.LaunchCrawl(admin_pb2.LaunchCrawlRequest(crawl="t"))
        runner = served.runner
        await soon(lambda: runner.core.frontier.leasable("t", ("own",)), "a URI that is ready")
        for want in (Want(1), Want(1, kinds=("other",))):
            assert await operations_while_waiting(served, monkeypatch, want) <= 3
        polls = {
            (crawl, kinds): calls.start(served.exchange.next(f"{crawl}{kinds}", "s", want, crawl, 30))
            for crawl in ("t", None)
            for kinds, want in (("", Want(1)), ("other", Want(1, kinds=("other",))))
        }
        await soon(lambda: len(runner.waiting) == len(polls), "all to wait")
        mine.fetcher = "other"
        paths = field_mask_pb2.FieldMask(paths=["fetcher"])
        update = admin_pb2.UpdateCrawlRequest(crawl="t", spec=mine, update_mask=paths)
        await served.admin.UpdateCrawl(update)
        done, _ = await asyncio.wait(
            (polls["t", "other"], polls[None, "other"]),
            timeout=TIMEOUT_S,
            return_when=asyncio.FIRST_COMPLETED,
        )
        assert [answer.crawl for poll_ in done for answer in poll_.result().grants] == ["t"]
        assert not polls["t", ""].done() and not polls[None, ""].done()
