"""A disk that fails, stalls or falls behind: nobody is told what is not true, and nobody waits for ever."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from frontier_harness.calls import Refusal, next_request, schedule_request, spec
from frontier_harness.every_rpc import RPCS, request
from frontier_harness.held_store import HeldStore, full_disk
from frontier_harness.in_process import Served, config, opened, running, serving
from frontier_harness.waiting import PATIENCE_S, Callers, callers, soon, turns

from frontier_server import wire
from frontier_server.core.core import Core
from frontier_server.core.journey.dispatch import Want
from frontier_server.core.machines.lifecycle import Input
from frontier_server.core.rows.errors import StoreCorrupt
from frontier_server.core.state.model import Candidate, Report, Verdict
from frontier_server.shell.exchange import MAX_SCHEDULES, Exchange
from frontier_server.shell.runner import Closing, Runner, TryLater
from toehold.frontier.v1 import frontier_pb2

NEW = "http://a.example/new"


def candidate(uri: str) -> Candidate:
    return wire.candidate(frontier_pb2.Candidate(uri=uri, path="L"))


async def launch(exchange: Exchange) -> dict[str, bytes]:
    """Crawl `t` runs, robots.txt out of the way, a page of its host a and one of b out; their tokens."""
    plain, runner = spec(), exchange.runner
    made = wire.settings_of(plain)
    await runner.run(lambda f, now: f.control.create_crawl("t", made, plain.SerializeToString(), now))
    await runner.run(lambda f, now: f.control.add_seeds("t", ["http://a.example/", "http://b.example/"], now))
    await runner.run(lambda f, now: f.control.launch("t", now))
    tokens: dict[str, bytes] = {}
    while len(tokens) < 2:
        answer = await exchange.next("n", "s", Want(10), "t", PATIENCE_S)
        robots = [Report(grant.token, fetch_status=404) for grant in answer.grants if grant.robots]
        if robots:
            await exchange.finished(robots, "n", "s")
        pages = [grant for grant in answer.grants if not grant.robots]
        tokens.update((grant.uri.removeprefix("http://")[0], grant.token) for grant in pages)
    return tokens


@dataclass
class Bench:
    """A frontier whose store is in the test's hands, and those who call it."""

    exchange: Exchange
    store: HeldStore
    calls: Callers
    tokens: dict[str, bytes]

    @property
    def runner(self) -> Runner:
        return self.exchange.runner

    async def offer(self, uri: str) -> list[Verdict]:
        """Schedule without asking for admission, which a stall refuses for a while."""
        offered = [candidate(uri)]
        return await asyncio.wait_for(
            self.runner.run(lambda f, now: f.frontier.schedule("t", offered, now)), PATIENCE_S
        )

    async def stalled(self, call: Awaitable[Any]) -> "asyncio.Task[Any]":
        """A call whose write stalls."""
        self.store.stalled = True
        before = self.store.stalls
        task = self.calls.start(call)
        await soon(lambda: self.store.stalls > before, "the write to stall")
        return task

    async def stalled_and_cancelled(self, call: Awaitable[Any]) -> "asyncio.Task[Any]":
        """A call whose caller goes while its write stalls."""
        task = await self.stalled(call)
        before = self.store.stalls
        task.cancel()
        await soon(lambda: self.store.stalls > before + 2, "another try of the write")
        return task


@asynccontextmanager
async def launched(data: Path) -> AsyncIterator[Bench]:
    store = HeldStore()
    async with running(store, config(data)) as runner, callers() as calls:
        try:
            exchange = Exchange(runner)
            yield Bench(exchange, store, calls, await launch(exchange))
        finally:
            store.release()
            store.stalled = False


@asynccontextmanager
async def served(data: Path) -> AsyncIterator[tuple[Served, Bench]]:
    store = HeldStore()
    async with serving(store, config(data)) as server, callers() as calls:
        try:
            yield server, Bench(server.exchange, store, calls, await launch(server.exchange))
        finally:
            store.release()


async def refused(call: Awaitable[Any]) -> Refusal:
    async def waiting() -> Any:
        return await call

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await asyncio.wait_for(waiting(), PATIENCE_S)
    return Refusal.of(caught.value)


# A write or a flush that fails.


def _flush_fails(store: HeldStore) -> None:
    store.flush_problem = full_disk("flush")


def _flush_fails_oddly(store: HeldStore) -> None:
    store.flush_problem = OSError(5, "Input/output error")


def _write_fails(store: HeldStore) -> None:
    store.write_problem = full_disk("write")


def _write_fails_oddly(store: HeldStore) -> None:
    store.write_problem = OSError(5, "Input/output error")


Trouble = Callable[[HeldStore], None]
TROUBLES = [_flush_fails, _flush_fails_oddly, _write_fails, _write_fails_oddly]


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_when_the_store_fails_nobody_gets_an_answer_then_or_later(
    tmp_path: Path, trouble: Trouble
) -> None:
    async with launched(tmp_path) as at:
        exchange, runner, store = at.exchange, at.runner, at.store
        events = exchange.following.events("t", runner.core.views.crawl("t").last_event)
        store.hold()
        waiting = [
            at.calls.start(exchange.next("n", "s", Want(1), "t", 60)),
            at.calls.start(anext(events)),
            at.calls.start(exchange.schedule("t", [candidate(f"{NEW}1")])),
            at.calls.start(runner.read(lambda core, _: core.views.crawl("t"))),
        ]
        await soon(lambda: store.flushing, "a request for a flush")
        trouble(store)
        waiting.append(at.calls.start(exchange.schedule("t", [candidate(f"{NEW}2")])))
        await turns()
        store.release()
        told = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), PATIENCE_S)
        assert all(isinstance(problem, Closing) for problem in told), told
        assert runner.failed.result()
        assert not runner.serving
        store.write_problem = store.flush_problem = None
        for later in (
            exchange.schedule("t", [candidate(f"{NEW}3")]),
            exchange.finished([Report(b"x")], "n", "s"),
            exchange.next("n", "s", Want(1), "t", 0),
            runner.read(lambda core, _: core.views.crawl("t")),
            anext(exchange.following.events("t", 0)),
        ):
            with pytest.raises(Closing):
                await asyncio.wait_for(at.calls.start(later), PATIENCE_S)


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_what_was_acknowledged_before_the_store_failed_is_on_the_disk(
    tmp_path: Path, trouble: Trouble
) -> None:
    async with launched(tmp_path) as at:
        offered = [candidate(f"{NEW}{number}") for number in range(5)]
        assert await at.exchange.schedule("t", offered) == [Verdict.QUEUED] * 5
        trouble(at.store)
        with pytest.raises(Closing):
            await asyncio.wait_for(at.exchange.schedule("t", [candidate(f"{NEW}5")]), PATIENCE_S)
        core, clock = opened(at.store.disk, config(tmp_path))
        verdicts, _ = core.frontier.schedule("t", offered, clock.now_ms())
        assert verdicts == [Verdict.ALREADY_SEEN] * 5


async def test_a_store_that_fails_at_the_last_flush_is_told_and_does_not_hang_the_end(tmp_path: Path) -> None:
    async with launched(tmp_path) as at:
        await at.runner.apply(lambda f, now: f.frontier.schedule("t", [candidate(NEW)], now))
        at.store.flush_problem = full_disk("flush")
        await asyncio.wait_for(at.runner.close(), PATIENCE_S)
        assert "No space left" in at.runner.failed.result()


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_every_rpc_is_refused_with_unavailable_once_the_store_has_failed(
    tmp_path: Path, trouble: Trouble
) -> None:
    async with served(tmp_path) as (server, at):
        core = server.frontier
        stream = core.StateEvents(frontier_pb2.StateEventsRequest(crawl="t"))
        await stream.read()
        event = at.calls.start(stream.read())
        poll = at.calls.start(core.Next(next_request("t", wait_s=60)))
        trouble(at.store)
        problems = {"first": await refused(core.Schedule(schedule_request("t", f"{NEW}1")))}
        problems |= {"poll": await refused(poll), "event": await refused(event)}
        for rpc in RPCS.keys() - OF_THE_DISK:
            problems[rpc] = await refused(asked(server, rpc))
        told = {rpc: (problem.code, problem.reason) for rpc, problem in problems.items()}
        assert told == dict.fromkeys(told, (grpc.StatusCode.UNAVAILABLE, "STORE_FAILED"))


OF_THE_DISK = {"ListCheckpoints", "DeleteCheckpoint"}
"""They are answered by what the disk has: here, that there is no checkpoint."""


async def asked(server: Served, rpc: str) -> object:
    """What an RPC answers for crawl `t`; all messages of a stream."""
    method, made = RPCS[rpc], request(rpc, "t")
    service = server.frontier if method.containing_service.name == "FrontierService" else server.admin
    call = getattr(service, rpc)(iter((made,)) if method.client_streaming else made)
    return [answer async for answer in call] if method.server_streaming else await call


async def test_rows_that_make_no_sense_are_told_as_that_whoever_meets_them(tmp_path: Path) -> None:
    async def reader() -> None:
        raise StoreCorrupt("an outcome cannot be read")

    async with launched(tmp_path) as at:
        at.runner.tasks.keep("reader", reader())
        assert "an outcome cannot be read" in await asyncio.wait_for(at.runner.failed, PATIENCE_S)
        assert str(at.runner.corrupt) == "an outcome cannot be read"


# A log that is full.


async def test_a_new_log_is_begun_between_two_writes_and_the_server_goes_on_meanwhile(tmp_path: Path) -> None:
    async with launched(tmp_path) as at:
        store = at.store
        store.log_full = True
        store.hold()
        first = at.calls.start(at.offer(f"{NEW}1"))
        await soon(lambda: store.flushing, "a request for a flush")
        ended = store.flushes_ended
        store.release(1)
        assert await first == [Verdict.QUEUED], "whoever waits for a flush waits for no new log"
        await soon(lambda: store.flushes_ended > ended and store.flushing, "a log to be begun")
        written = len(store.written)
        second = at.calls.start(at.offer(f"{NEW}2"))
        await turns()
        assert len(store.written) == written
        store.release()
        assert await second == [Verdict.QUEUED]
        assert store.logs_begun == 1


@pytest.mark.parametrize("log_full", [False, True])
async def test_the_end_is_not_held_up_by_a_log_that_is_full(tmp_path: Path, log_full: bool) -> None:
    async with launched(tmp_path) as at:
        await at.runner.apply(lambda f, now: f.frontier.schedule("t", [candidate(NEW)], now))
        at.store.log_full = log_full
        await asyncio.wait_for(at.runner.close(), PATIENCE_S)
        assert not at.runner.failed.done() and at.store.durable == len(at.store.written)


# A write that stalls.


async def test_a_stalled_write_is_tried_again_and_nothing_else_runs_meanwhile(tmp_path: Path) -> None:
    async with launched(tmp_path) as at:
        exchange, runner, store = at.exchange, at.runner, at.store
        ran: list[str] = []

        def noting(name: str) -> Callable[[Core, int], None]:
            return lambda core, _: ran.append(name)

        write = await at.stalled(exchange.schedule("t", [candidate(NEW)]))
        others = [at.calls.start(runner.read(noting(str(number)))) for number in range(5)]
        before = store.stalls
        await soon(lambda: store.stalls > before + 3, "another try of the write")
        assert not ran and not write.done()
        assert runner.serving and not runner.failed.done()
        store.stalled = False
        assert await asyncio.wait_for(write, PATIENCE_S) == [Verdict.QUEUED]
        await asyncio.wait_for(asyncio.gather(*others), PATIENCE_S)
        assert ran == ["0", "1", "2", "3", "4"]


async def test_while_writes_stall_nothing_more_is_taken_in(tmp_path: Path) -> None:
    async with launched(tmp_path) as at:
        write = await at.stalled(at.exchange.schedule("t", [candidate(f"{NEW}1")]))
        with pytest.raises(TryLater) as caught:
            await asyncio.wait_for(at.exchange.schedule("t", [candidate(f"{NEW}2")]), PATIENCE_S)
        assert (caught.value.reason, caught.value.retry_ms > 0) == ("OVERLOADED", True)
        at.store.stalled = False
        await asyncio.wait_for(write, PATIENCE_S)


async def test_a_caller_that_goes_while_its_write_stalls_does_not_take_the_write_with_it(
    tmp_path: Path,
) -> None:
    async with launched(tmp_path) as at:
        task = await at.stalled_and_cancelled(at.exchange.schedule("t", [candidate(NEW)]))
        at.store.stalled = False
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, PATIENCE_S)
        assert await at.offer(NEW) == [Verdict.ALREADY_SEEN]
        core, clock = opened(at.store.disk, config(tmp_path))
        verdicts, _ = core.frontier.schedule("t", [candidate(NEW)], clock.now_ms())
        assert verdicts == [Verdict.ALREADY_SEEN]
        assert at.runner.serving


async def test_a_uri_whose_caller_went_while_its_write_stalled_reaches_the_node_that_waits(
    tmp_path: Path,
) -> None:
    async with launched(tmp_path) as at:
        await at.exchange.finished([Report(at.tokens["a"], fetch_status=200)], "n", "s")
        waiting = at.calls.start(at.exchange.next("n", "s", Want(1), "t", 60))
        await turns()
        task = await at.stalled_and_cancelled(at.exchange.schedule("t", [candidate(NEW)]))
        at.store.stalled = False
        await asyncio.gather(task, return_exceptions=True)
        answer = await asyncio.wait_for(waiting, PATIENCE_S)
        assert [grant.uri for grant in answer.grants] == [NEW]


async def test_leases_whose_caller_went_while_their_write_stalled_go_back_at_once(tmp_path: Path) -> None:
    async with launched(tmp_path) as at:
        await at.exchange.finished([Report(at.tokens["a"], fetch_status=200)], "n", "s")
        await at.offer(NEW)
        task = await at.stalled_and_cancelled(at.exchange.next("n", "s", Want(1), "t", 0))
        at.store.stalled = False
        await asyncio.gather(task, return_exceptions=True)
        answer = await asyncio.wait_for(at.exchange.next("other", "s", Want(1), "t", PATIENCE_S), PATIENCE_S)
        assert [(grant.uri, grant.attempt) for grant in answer.grants] == [(NEW, 1)]


async def test_a_write_that_stalls_while_the_store_fails_is_refused_and_not_kept_waiting(
    tmp_path: Path,
) -> None:
    async with launched(tmp_path) as at:
        at.store.hold()
        first = at.calls.start(at.exchange.schedule("t", [candidate(f"{NEW}1")]))
        await soon(lambda: at.store.flushing, "a request for a flush")
        second = await at.stalled(at.exchange.schedule("t", [candidate(f"{NEW}2")]))
        at.store.flush_problem = full_disk("flush")
        at.store.release()
        with pytest.raises(Closing):
            await asyncio.wait_for(first, PATIENCE_S)
        at.store.stalled = False
        with pytest.raises(Closing):
            await asyncio.wait_for(second, PATIENCE_S)


async def test_news_of_a_write_that_stalls_wait_for_it_and_those_of_others_do_not(tmp_path: Path) -> None:
    """A flush meanwhile tells job.log what is written, and nothing of what is in memory only."""
    async with launched(tmp_path) as at:
        at.store.hold()
        first = at.calls.start(at.exchange.schedule("t", [candidate(f"{NEW}1")]))
        await soon(lambda: at.store.flushing, "a request for a flush")
        written = len(at.store.written)
        second = at.calls.start(at.exchange.schedule("t", [candidate(f"{NEW}2")]))
        await soon(lambda: len(at.store.written) > written, "the second write")
        pause = await at.stalled(at.runner.run(lambda f, now: f.control.request_state("t", Input.PAUSE, now)))
        at.store.release()
        answers = [await asyncio.wait_for(call, PATIENCE_S) for call in (first, second)]
        assert answers == [[Verdict.QUEUED]] * 2
        log = tmp_path / "crawls" / "t" / "job.log"
        assert "PAUSING" not in log.read_text()
        at.store.stalled = False
        await asyncio.wait_for(pause, PATIENCE_S)
        assert "PAUSING" in log.read_text()
        assert at.runner.serving


async def test_a_write_that_stalls_for_good_does_not_keep_the_server_from_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frontier_server.shell.runner.CLOSE_S", 0.2)
    async with launched(tmp_path) as at:
        write = await at.stalled(at.exchange.schedule("t", [candidate(NEW)]))
        waiting = at.calls.start(at.runner.read(lambda core, _: core.views.crawl("t")))
        await turns()
        await asyncio.wait_for(at.runner.close(), PATIENCE_S)
        assert "0.2 s" in at.runner.failed.result()
        told = await asyncio.wait_for(asyncio.gather(write, waiting, return_exceptions=True), PATIENCE_S)
        assert all(isinstance(problem, Closing) for problem in told), told


# Too much at once.


async def test_no_more_requests_to_schedule_are_worked_on_than_the_limit_says(tmp_path: Path) -> None:
    """The others are told to come again, and may."""
    async with served(tmp_path) as (server, at):
        at.store.hold()
        waiting = [
            at.calls.start(server.frontier.Schedule(schedule_request("t", f"{NEW}{number}")))
            for number in range(MAX_SCHEDULES)
        ]
        await soon(lambda: server.exchange._schedules == MAX_SCHEDULES, "the requests to arrive")
        beyond = schedule_request("t", f"{NEW}-beyond")
        problem = await refused(server.frontier.Schedule(beyond))
        assert (problem.code, problem.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
        assert problem.retry_s
        at.store.release()
        await asyncio.wait_for(asyncio.gather(*waiting), PATIENCE_S)
        await server.frontier.Schedule(beyond)


async def test_the_disk_is_watched_on_when_a_look_at_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    def statvfs(path: Path) -> os.statvfs_result:
        nonlocal looks
        looks += 1
        if looks == 1:
            raise OSError(5, "Input/output error")
        return real(path)

    real = os.statvfs
    monkeypatch.setattr("frontier_server.shell.runner.os.statvfs", statvfs)
    monkeypatch.setattr("frontier_server.shell.runner.WATCH_EVERY_S", 0.01)
    async with running(HeldStore(), config(tmp_path, disk_reserve_bytes=2**80)) as runner:
        await soon(lambda: refuses(runner), "another look at the disk")


def refuses(runner: Runner) -> bool:
    """Whether a Schedule would be refused."""
    try:
        runner.admit()
    except TryLater as problem:
        return problem.reason == "DISK_RESERVE"
    return False
