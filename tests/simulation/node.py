"""A simulated node: it asks, fetches, offers links, reports, sends heartbeats; dies, hangs, drains."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from simulation.book import site_of
from simulation.calls import Call, Offer
from simulation.loop import Loop
from simulation.network import Network
from simulation.plan import NodePlan
from simulation.server import PATIENCE_MS
from simulation.world import Fetched, World

from frontier_server.core.rows import errors
from frontier_server.core.rows.errors import FrontierError
from frontier_server.core.state.model import Grant, HeartbeatAnswer, NextAnswer, Report

LATER_MS = 2_000
BATCH = 20


class Step(Enum):
    """How far a lease has come."""

    WAITS = "waits"
    FETCHING = "fetching"
    FETCHED = "fetched"
    REPORTING = "reporting"


@dataclass(slots=True)
class Held:
    """A lease that the node has."""

    grant: Grant
    step: Step = Step.WAITS
    fetched: Fetched | None = None


class Node:
    """One name; each of its processes is a session."""

    def __init__(self, loop: Loop, network: Network, world: World, plan: NodePlan, heartbeat_ms: int) -> None:
        self.loop = loop
        self.network = network
        self.world = world
        self.name = plan.name
        self.toes_at_start = plan.toes
        self.heartbeat_ms = heartbeat_ms
        self.sessions = 0
        self.up = False
        self.fetches = 0
        loop.after(plan.begin_ms, self.start)

    def start(self) -> None:
        """A process begins."""
        if self.up:
            return
        self.sessions += 1
        self.up = True
        self.toes = self.toes_at_start
        self.hangs = self.draining = self.leaving = self.asking = self.reporting = False
        self.trouble = ""
        self.held: dict[bytes, Held] = {}
        self.session = f"{self.name}-{self.sessions}"
        self._beat(self.session)
        self._ask()

    def die(self, down_ms: int) -> None:
        """The process is killed; another one begins later."""
        if self.up:
            self.up = False
            self.loop.after(down_ms, self.start)

    def hang(self, length_ms: int) -> None:
        """It stands still for a while: no heartbeat, no report."""
        if self.up and not self.hangs:
            self.hangs = True
            self.loop.after(length_ms, self._go_on, self.session)

    def _go_on(self, session: str) -> None:
        if self.here(session) or (self.up and self.session == session):
            self.hangs = False
            self._work()
            self._ask()

    def here(self, session: str) -> bool:
        """Whether a process is there, and does something."""
        return self.up and self.session == session and not self.hangs

    def _call(
        self,
        kind: str,
        said: tuple[Any, ...],
        then: Callable[[Any], None],
        crawl: str = "",
        patience_ms: int = 0,
    ) -> None:
        """Call, until there is an answer. A session that was replaced ends."""
        session = self.session

        def answered(answer: Any) -> None:
            if not self.up or self.session != session:
                return
            if self.hangs:
                self.loop.after(1_000, answered, answer)
            elif isinstance(answer, errors.SessionSuperseded):
                self.up = False
            else:
                then(answer)

        def failed() -> None:
            if self.up and self.session == session:
                if self.hangs:
                    self.loop.after(1_000, failed)
                elif kind == "next":
                    self.asking = False
                    self.loop.after(LATER_MS, self._ask)
                else:
                    self.loop.after(LATER_MS, send)

        def send() -> None:
            if self.up and self.session == session:
                self.network.call(call, answered, failed, patience_ms)

        call = Call(kind, crawl or self.name, said)
        send()

    # Leases.

    def _ask(self) -> None:
        if not self.up or self.hangs or self.asking or self.draining:
            return
        most = self.toes + 1 - len(self.held) if self.toes else 0
        if most > 0:
            self.asking = True
            self._call("next", (self.session, most, None), self._granted, patience_ms=PATIENCE_MS)

    def _granted(self, answer: NextAnswer | FrontierError) -> None:
        self.asking = False
        if isinstance(answer, FrontierError) or not answer.grants:
            self.loop.after(LATER_MS, self._ask)
            return
        for grant in answer.grants:
            self.held[grant.token] = Held(grant)
        self._work()
        self._ask()

    def _work(self) -> None:
        """Free toes take what waits; the reporter takes what has been fetched."""
        if not self.up or self.hangs:
            return
        busy = sum(held.step is Step.FETCHING for held in self.held.values())
        for held in self.held.values():
            if busy >= max(self.toes, 1):
                break
            if held.step is Step.WAITS:
                busy += 1
                held.step = Step.FETCHING
                self.fetches += 1
                grant = held.grant
                length_ms = self.world.duration_ms(grant.uri)
                fetched = self.world.fetch(
                    grant.token, grant.uri, grant.robots, site_of(grant.candidate.uri), self.loop.now_ms
                )
                self.loop.after(length_ms, self._fetched, self.session, held, fetched)
        self._report()
        if self.draining and not self.held and not self.leaving:
            self.leaving = True
            self._call("heartbeat", (self.session, (), True, ""), lambda answer: self.die(5 * LATER_MS))

    def _fetched(self, session: str, held: Held, fetched: Fetched) -> None:
        if not self.up or self.session != session or held.step is not Step.FETCHING:
            return
        if self.hangs:
            self.loop.after(1_000, self._fetched, session, held, fetched)
            return
        held.step, held.fetched = Step.FETCHED, fetched
        self._work()

    # Reports: first the links, then what became of the pages.

    def _report(self) -> None:
        ready = [held for held in self.held.values() if held.step is Step.FETCHED][:BATCH]
        if self.reporting or not ready:
            return
        self.reporting = True
        offers: dict[str, list[Offer]] = {}
        for held in ready:
            held.step = Step.REPORTING
            grant = held.grant
            assert held.fetched is not None
            for uri, hop in held.fetched.links:
                path = grant.candidate.path + hop
                offers.setdefault(grant.crawl, []).append(Offer(uri, path, grant.uri, grant.source))
        self._offer(ready, offers)

    def _offer(self, ready: list[Held], offers: dict[str, list[Offer]]) -> None:
        if not offers:
            reports = tuple(held.fetched.report for held in ready if held.fetched is not None)
            self._call("finished", (self.session, reports), lambda answer: self._finished(ready, answer))
            return
        crawl = next(iter(offers))

        def offered(answer: Any) -> None:
            if isinstance(answer, errors.CrawlHeld):  # released some day; its lease may lapse meanwhile
                self.loop.after(5 * LATER_MS, self._again, self.session, ready, offers)
                return
            offers.pop(crawl, None)
            self._offer(ready, offers)

        self._call("schedule", (tuple(offers[crawl]),), offered, crawl)

    def _again(self, session: str, ready: list[Held], offers: dict[str, list[Offer]]) -> None:
        if self.up and self.session == session:
            if self.hangs:
                self.loop.after(1_000, self._again, session, ready, offers)
            else:
                self._offer(ready, offers)

    def _finished(self, ready: list[Held], answer: Any) -> None:
        self.reporting = False
        if not isinstance(answer, FrontierError):
            for held in ready:
                self.held.pop(held.grant.token, None)
        self._work()
        self._ask()

    # Heartbeats.

    def _beat(self, session: str) -> None:
        if not self.up or self.session != session:
            return
        if not self.network.server.up:
            self.network.server.when_up(lambda: self._beat(session))
            return
        self.loop.after(self.heartbeat_ms, self._beat, session)
        if not self.hangs and not self.leaving:
            tokens = tuple(self.held)
            call = Call("heartbeat", self.name, (session, tokens, False, self.trouble))

            def answered(answer: Any) -> None:
                if self.here(session):
                    self._told(answer)

            self.network.call(call, answered, lambda: None)

    def _told(self, answer: HeartbeatAnswer | FrontierError) -> None:
        if isinstance(answer, errors.SessionSuperseded):
            self.up = False
        if isinstance(answer, FrontierError):
            return
        self.toes = self.toes_at_start if answer.pool_size is None else answer.pool_size
        self.draining = answer.drain
        for token in answer.ended:
            held = self.held.get(token)
            if held is not None and held.step in (Step.WAITS, Step.FETCHING):
                held.step = Step.REPORTING  # whatever it brings is not reported
                del self.held[token]
        for token in answer.release:
            held = self.held.get(token)
            if held is not None and held.step is Step.WAITS:
                self._brought(held, Report(token, released=True))
        for token in answer.interrupt:
            held = self.held.get(token)
            if held is not None and held.step is Step.WAITS:
                self._brought(held, Report(token, released=True))
            elif held is not None and held.step is Step.FETCHING:
                self._brought(held, Report(token, fetch_status=-7000, duration_ms=100))
        self._work()
        self._ask()

    def _brought(self, held: Held, report: Report) -> None:
        held.step, held.fetched = Step.FETCHED, Fetched(report, ())
