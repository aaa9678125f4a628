"""A power loss at any moment takes nothing back that anybody was told: a property over what callers do.

Callers offer, lease, report, look, pause, hold, stop and tear down while flushes hang and end; then the power
is cut, and what the disk has must bear out every answer and every event that has left, and every line of the
job log.
"""

import asyncio
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from frontier_harness.calls import spec
from frontier_harness.held_store import HeldStore, copied
from frontier_harness.in_process import config, opened, running
from frontier_harness.waiting import soon, turns
from hypothesis import example, given, settings
from hypothesis import strategies as st

from frontier_server import wire
from frontier_server.core.core import Core
from frontier_server.core.journey.dispatch import Want
from frontier_server.core.machines.lifecycle import CrawlState, Input
from frontier_server.core.rows.records import EventRow
from frontier_server.core.rules.disposition import Disposition
from frontier_server.core.state.model import Candidate, CrawlView, Report, Verdict
from frontier_server.logs.job_log import JobLogs, launch_id_of, line
from frontier_server.shell.exchange import Exchange
from frontier_server.shell.runner import Runner
from toehold.frontier.v1 import crawl_pb2, frontier_pb2

Step = tuple[str, int]
KINDS = ["schedule", "next", "finish", "again", "heartbeat", "look", "log", "work", "flush"]
KINDS += ["finish_all", "pause", "hold", "resume", "update", "stop", "tear_down"]
KINDS += ["schedule", "next", "finish", "flush", "flush"]  # more often than the others
OPERATOR = "somebody@somewhere"
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 11)), max_size=40)


@dataclass
class Told:
    """What callers have been told: it must be true for ever."""

    taken: set[str] = field(default_factory=set)
    leases: dict[bytes, None] = field(default_factory=dict)
    ended: dict[bytes, Disposition] = field(default_factory=dict)
    events: list[tuple[int, EventRow]] = field(default_factory=list)
    states: dict[int, CrawlState] = field(default_factory=dict)  # by the last event then
    discovered: int = 0
    enqueued: int = 0


class Player:
    """Plays steps against a runner, each as a caller of its own that notes what it is told."""

    def __init__(self, runner: Runner, store: HeldStore) -> None:
        self.runner = runner
        self.exchange = Exchange(runner)
        self.store = store
        self.told = Told()
        self.calls: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """A crawl with three hosts, whose robots.txt allow everything."""
        runner, plain = self.runner, spec()
        made = wire.settings_of(plain)
        await runner.run(lambda f, now: f.control.create_crawl("t", made, plain.SerializeToString(), now))
        await runner.run(
            lambda f, now: f.control.add_seeds("t", [f"http://{h}.example/" for h in "abc"], now)
        )
        await runner.run(lambda f, now: f.control.launch("t", now, OPERATOR))
        robots: list[Report] = []
        while len(robots) < 3:
            answer = await self.exchange.next("n", "s", Want(10), "t", 20)
            robots.extend(Report(grant.token, fetch_status=404) for grant in answer.grants if grant.robots)
        await self.exchange.finished(robots, "n", "s")
        self.calls.append(asyncio.create_task(self.follow()))
        await turns()
        self.store.hold()

    async def play(self, kind: str, number: int) -> None:
        """Let a caller make its call; it may have to wait for its answer beyond this."""
        if kind == "flush":
            if self.store.flushing:
                ended = self.store.flushes_ended
                self.store.release(1)
                await soon(lambda: self.store.flushes_ended > ended, "the end of a flush")
            await turns()
            return
        if kind == "work":
            await soon(lambda: not self.runner.core.upkeep.has_work, "the end of jobs")
            return
        call: Callable[[int], Coroutine[Any, Any, None]] = getattr(self, kind)
        self.calls.append(asyncio.create_task(call(number)))
        await turns(5)

    async def schedule(self, number: int) -> None:
        uri = f"http://{'abc'[number % 3]}.example/{number}"
        candidate = wire.candidate(frontier_pb2.Candidate(uri=uri, path="L"))
        (verdict,) = await self.exchange.schedule("t", [candidate])
        assert verdict in (Verdict.QUEUED, Verdict.ALREADY_SEEN)
        self.told.taken.add(uri)

    async def next(self, number: int) -> None:
        answer = await self.exchange.next("n", "s", Want(number + 1), "t", 0)
        self.told.leases.update((grant.token, None) for grant in answer.grants)

    async def finish(self, number: int) -> None:
        if not self.told.leases:
            return
        await self.finish_one(list(self.told.leases)[number % len(self.told.leases)])

    async def finish_all(self, _: int) -> None:
        for token in list(self.told.leases):
            if token not in self.told.ended:
                await self.finish_one(token)

    async def finish_one(self, token: bytes) -> None:
        (result,) = await self.exchange.finished([Report(token, fetch_status=200)], "n", "s")
        if not self.runner.core.views.crawl("t").torn_down:
            assert result.disposition is Disposition.SUCCEEDED
        self.told.ended[token] = result.disposition

    async def again(self, number: int) -> None:
        for token, disposition in list(self.told.ended.items())[: number + 1]:
            (result,) = await self.exchange.finished([Report(token, fetch_status=404)], "n", "s")
            if not self.runner.core.views.crawl("t").torn_down:
                assert (result.disposition, result.repeated) == (disposition, True)

    async def heartbeat(self, _: int) -> None:
        tokens = list(self.told.leases)
        answer = await self.runner.run(lambda f, now: f.frontier.heartbeat("n", "s", tokens, [], now))
        for token in answer.ended:
            self.told.ended[token] = Disposition.SUCCEEDED

    async def look(self, _: int) -> None:
        def question(core: Core, now_ms: int) -> tuple[int, int, int, CrawlState]:
            queues, _ = core.administration.queues("t", None, 100, b"")
            view = core.views.crawl("t")
            discovered = core.views.statistics("t", now_ms).counts["discovered_count"]
            return discovered, sum(queue.enqueued for queue in queues), view.last_event, view.state

        discovered, enqueued, last_event, state = await self.runner.read(question)
        self.told.discovered = max(self.told.discovered, discovered)
        self.told.enqueued = max(self.told.enqueued, enqueued)
        self.told.states[last_event] = state

    async def pause(self, _: int) -> None:
        await self.ask(Input.PAUSE)

    async def resume(self, _: int) -> None:
        await self.ask(Input.RESUME)

    async def hold(self, _: int) -> None:
        await self.ask(Input.HOLD)

    async def stop(self, number: int) -> None:
        if number == 0:  # rarely: it ends everything
            await self.ask(Input.STOP)

    async def tear_down(self, number: int) -> None:
        if number < 3:
            view, _ = await self.runner.run(lambda f, now: f.control.tear_down("t", now, OPERATOR))
            self.heard(view)

    async def update(self, number: int) -> None:
        change = crawl_pb2.CrawlSpec(weight=number + 1)

        def amended(spec: bytes) -> tuple[bytes, Sequence[str]]:
            return wire.amended(spec, change, [])

        self.heard(await self.runner.run(lambda f, now: f.control.update_crawl("t", amended, now, OPERATOR)))

    async def log(self, _: int) -> None:
        """All outcomes are in the crawl log: a hold waits for that."""
        await self.runner.run(lambda f, now: f.upkeep.record_logged(1, f.upkeep.last_outcome(1), 0, now))

    async def ask(self, target: Input) -> None:
        self.heard(await self.runner.run(lambda f, now: f.control.request_state("t", target, now, OPERATOR)))

    def heard(self, view: CrawlView) -> None:
        self.told.states[view.last_event] = view.state

    async def follow(self) -> None:
        async for found in self.exchange.following.events("t", 0):
            if found is not None:
                self.told.events.append(found)


def steps_of(*kinds: str) -> list[Step]:
    """Steps, each of which is durable before the next."""
    return [step for kind in kinds for step in ((kind, 0), ("flush", 0), ("flush", 0))]


FETCHED = ("next", "next", "finish_all", "log")
ENDED = ("stop", "work", "tear_down")


@given(STEPS)
@example(steps_of(*FETCHED, "hold", "schedule", "update", "look"))
@example(steps_of(*FETCHED, "hold", "schedule", "resume", "schedule"))
@example(steps_of(*FETCHED, *ENDED, "again", "look"))
@example([*steps_of(*FETCHED), ("hold", 0), ("look", 0), ("schedule", 1)])
@example([*steps_of(*FETCHED, "stop", "work"), ("tear_down", 0), ("again", 3), ("look", 0)])
@settings(max_examples=300)
def test_a_power_loss_takes_nothing_back_that_anybody_was_told(
    steps: list[Step],
) -> None:
    async def scenario(data: Path) -> None:
        store = HeldStore()
        async with running(store, config(data)) as runner:
            player = Player(runner, store)
            try:
                await player.start()
                for kind, number in steps:
                    await player.play(kind, number)
                logged = JobLogs(data).path("t").read_bytes()
                judge(player.told, logged, copied(store.disk))
            finally:
                store.release()
            runner.begin_close()
            for problem in await asyncio.gather(*player.calls, return_exceptions=True):
                if isinstance(problem, AssertionError):
                    raise problem

    with tempfile.TemporaryDirectory() as data:
        asyncio.run(scenario(Path(data)))


def judge(told: Told, logged: bytes, disk: Any) -> None:
    """What the disk has bears out everything that anybody was told; the job log had it before."""
    core, clock = opened(disk, config(Path()))
    now_ms = clock.now_ms()
    queues, _ = core.administration.queues("t", None, 100, b"")
    events = core.history.events_after("t", 0)
    assert events[: len(told.events)] == told.events
    launch_id = launch_id_of(core.views.crawl("t").launch_ms)
    lines = [line(number, row, launch_id) for number, row in events]
    heard = max([*told.states, *(number for number, _ in told.events)], default=0)
    assert b"".join(lines).startswith(logged)
    assert logged.startswith(b"".join(lines[:heard]))
    for last_event, state in told.states.items():
        assert last_event <= len(events)
        changes = [row for _, row in events[:last_event] if row.kind == "status_changed"]
        assert changes[-1].fields["state"] == state.value
    assert core.views.statistics("t", now_ms).counts["discovered_count"] >= told.discovered
    assert sum(queue.enqueued for queue in queues) >= told.enqueued
    for token in told.leases:
        (result,), written = core.frontier.finished([Report(token, fetch_status=404)], "n", "s", now_ms)
        disk.write(written)
        if core.views.crawl("t").torn_down:
            assert result.disposition is Disposition.STALE, result
            continue
        assert result.disposition is Disposition.SUCCEEDED, result
        if token in told.ended:
            assert result.repeated
    crawl = core.views.crawl("t")
    if crawl.held:
        _, written = core.control.request_state("t", Input.PAUSE, now_ms)
        disk.write(written)
    if crawl.state is not CrawlState.FINISHED:
        offered = [Candidate(uri, b"") for uri in sorted(told.taken)]
        if offered:
            verdicts, _ = core.frontier.schedule("t", offered, now_ms)
            assert set(verdicts) == {Verdict.ALREADY_SEEN}
