"""What nodes do: ask, fetch, report, release, live and die."""

from collections.abc import Sequence
from typing import NamedTuple

from core_doubles.machine.base import Base, step
from core_doubles.machine.choices import (
    NODES,
    PAGE_STATUSES,
    ROBOTS_STATUSES,
    SENSELESS,
    Fetch,
    fetches,
    mostly,
    offers,
    picks,
    spellings,
)
from core_doubles.model import attendance, reporting
from core_doubles.model.hosts import NO_ANSWER
from core_doubles.model.things import Crawl, Lease, Offer
from core_doubles.web import ADDRESSES, OPEN, ROBOTS_FILES, RobotsFile, Spelled
from hypothesis import strategies as st
from hypothesis.stateful import precondition
from msgspec import structs

from frontier_server.core.journey.dispatch import Want
from frontier_server.core.rows import errors
from frontier_server.core.rules.disposition import Disposition
from frontier_server.core.state.kinds import Kinds
from frontier_server.core.state.model import Report, ReportResult


class Round(NamedTuple):
    """What a node meets while it goes on: how a page is answered, its links, and the time until the next."""

    status: int
    links: list[Spelled]
    rest_ms: int


rounds = st.builds(
    Round,
    st.sampled_from(PAGE_STATUSES),
    st.lists(spellings, max_size=2),
    st.sampled_from([0, 1_000, 2_000, 7_000]),
)


class Nodes(Base):
    """Three nodes, whose processes may die and begin anew."""

    def __init__(self) -> None:
        super().__init__()
        self.sessions = dict.fromkeys(NODES, 1)

    def session(self, node: str) -> str:
        """The present session of a node."""
        return str(self.sessions[node])

    def made_report(
        self, lease: Lease, status: int, file: RobotsFile, fetch: Fetch
    ) -> tuple[Report, RobotsFile]:
        """A report, and the robots.txt that it brings."""
        revisit_ms = 0 if fetch.revisit_in_ms is None else self.now_ms + fetch.revisit_in_ms
        brings_file = lease.robots and 200 <= status < 300
        report = Report(
            lease.token,
            fetch_status=status,
            duration_ms=fetch.duration_ms,
            retry_after_ms=fetch.retry_after_ms,
            body_bytes=fetch.body_bytes,
            digest=fetch.digest,
            etag=fetch.etag,
            robots_body=file.body if brings_file else b"",
            robots_empty=brings_file and not file.body,
            peer_address=ADDRESSES.get(lease.site.host, "") if fetch.tells_address else "",
            retire_queue=fetch.retires,
            revisit_ms=0 if lease.robots else revisit_ms,
            connections=fetch.connections[0],
            tls_handshakes=fetch.connections[1],
            kept_connections=fetch.connections[2],
        )
        return report, file

    @precondition(Base.has_crawl)
    @step(node=st.sampled_from(NODES), pick=picks, named=st.booleans(), most=st.integers(1, 4), kinds=offers)
    def next(self, node: str, pick: int, named: bool, most: int, kinds: Kinds) -> None:
        """A node asks for leases, of a crawl or of any."""
        self.ask(node, self.session(node), self.some_crawl(pick).name if named else None, most, kinds)

    @precondition(Base.has_lease)
    @step(
        wanted=st.lists(picks, min_size=1, max_size=3),
        status=st.sampled_from(PAGE_STATUSES),
        robots_status=st.sampled_from(ROBOTS_STATUSES),
        file=st.sampled_from(ROBOTS_FILES),
        fetch=fetches,
        again=st.booleans(),
    )
    def finish(
        self,
        wanted: list[int],
        status: int,
        robots_status: int,
        file: RobotsFile,
        fetch: Fetch,
        again: bool,
    ) -> None:
        """Reports of leases, perhaps the same request twice (an answer was lost)."""
        leases = {lease.token: lease for lease in map(self.some_lease, wanted)}
        node = next(iter(leases.values())).node
        reports = [
            self.made_report(lease, robots_status if lease.robots else status, file, fetch)
            for lease in leases.values()
        ]
        for _ in range(1 + again):
            self.report(reports, node, self.session(node))

    @precondition(Base.has_crawl)
    @step(
        node=st.sampled_from(NODES),
        most=st.integers(1, 6),
        patience=st.integers(1, 4),
        links=st.lists(spellings, max_size=3),
        status=st.sampled_from(PAGE_STATUSES),
        robots_status=st.sampled_from(ROBOTS_STATUSES),
        file=st.sampled_from(ROBOTS_FILES),
        fetch=fetches,
    )
    def visit(
        self,
        node: str,
        most: int,
        patience: int,
        links: list[Spelled],
        status: int,
        robots_status: int,
        file: RobotsFile,
        fetch: Fetch,
    ) -> None:
        """What a node does all day: ask, wait until something is due, fetch, offer links, report."""
        session = self.session(node)
        leases = self.ask(node, session, None, most)
        for _ in range(patience):
            if not leases:
                self.tick_when_due()
                leases = self.ask(node, session, None, most)
        for lease in leases:
            crawl = self.model.crawls[lease.crawl]
            if links and not lease.robots:
                self.offer_links(crawl, lease, links)
        if leases:
            reports = [
                self.made_report(lease, robots_status if lease.robots else status, file, fetch)
                for lease in leases
            ]
            self.report(reports, node, session)

    def crawl_on(self, node: str, most: int, rounds: Sequence[Round], file: RobotsFile, fetch: Fetch) -> None:
        """A node goes on for a while, and robots.txt can be had."""
        session = self.session(node)
        for status, links, rest_ms in rounds:
            leases = self.ask(node, session, None, most)
            for lease in leases:
                if links and not lease.robots:
                    self.offer_links(self.model.crawls[lease.crawl], lease, links)
            if leases:
                reports = [
                    self.made_report(lease, 200 if lease.robots else status, file, fetch) for lease in leases
                ]
                self.report(reports, node, session)
                self.shell.now_ms += rest_ms
            else:
                self.tick_when_due()

    @precondition(Base.has_crawl)
    @step(
        node=st.sampled_from(NODES),
        most=st.integers(1, 3),
        links=st.lists(spellings, min_size=2, max_size=6),
        statuses=st.lists(st.sampled_from([*NO_ANSWER, *NO_ANSWER, 200, 404]), min_size=4, max_size=8),
        fetch=fetches,
    )
    def hang_up(self, node: str, most: int, links: list[Spelled], statuses: list[int], fetch: Fetch) -> None:
        """Hosts hang up on one page after another, with an answer now and then."""
        self.crawl_on(node, most, [Round(status, links, 1_000) for status in statuses], OPEN, fetch)

    def offer_links(self, crawl: Crawl, lease: Lease, links: Sequence[Spelled]) -> None:
        """Links of a page, one hop from it."""
        self.offer(crawl, [Offer(link, path="L", via=lease.uri, source=lease.source) for link in links])

    @precondition(Base.has_ended)
    @step(pick=picks, status=st.sampled_from(PAGE_STATUSES), released=st.booleans(), fetch=fetches)
    def report_again(self, pick: int, status: int, released: bool, fetch: Fetch) -> None:
        """A report of a lease that has ended: repeated, or stale. It counts nothing."""
        lease = self.some_ended(pick)
        report, _ = self.made_report(lease, status, OPEN, fetch)
        report = structs.replace(report, released=released)
        self.report([(report, OPEN)], lease.node, self.session(lease.node))

    @precondition(Base.has_lease)
    @step(pick=picks, status=st.sampled_from(SENSELESS), fetch=fetches)
    def report_nonsense(self, pick: int, status: int, fetch: Fetch) -> None:
        """A report that makes no sense; the lease goes on."""
        lease = self.some_lease(pick)
        session = self.session(lease.node)
        self.report([self.made_report(lease, status, OPEN, fetch)], lease.node, session)
        assert lease.token in self.model.leases or lease.session != session

    @precondition(lambda self: self.model.leases or self.model.ended)
    @step(pick=picks, place=st.integers(0, 60), bit=st.integers(0, 7), cut=st.booleans())
    def forge(self, pick: int, place: int, bit: int, cut: bool) -> None:
        """A token that was never given out, however near it comes to one that was."""
        tokens = [*self.model.leases, *self.model.ended]
        token = bytearray(tokens[pick % len(tokens)])
        if cut:
            del token[place % len(token) :]
        else:
            token[place % len(token)] ^= 1 << bit
        forged = bytes(token)
        node, session = NODES[0], self.session(NODES[0])
        report = Report(forged, fetch_status=200)
        results = self.run(lambda core, now: core.frontier.finished([report], node, session, now))
        assert results == [ReportResult(Disposition.UNKNOWN_TOKEN)]
        reporting.heard(self.model, node, session)
        self.check()
        answer = self.run(lambda core, now: core.frontier.heartbeat(node, session, [forged], [], now))
        assert answer.ended == [forged]
        self.run(lambda core, now: core.frontier.take_back([forged], now))
        self.check()

    @precondition(Base.has_lease)
    @step(pick=picks, retires=st.sampled_from([False, False, False, True]))
    def release(self, pick: int, retires: bool) -> None:
        """A node hands back what it has not started."""
        lease = self.some_lease(pick)
        report = Report(lease.token, released=True, retire_queue=retires)
        self.report([(report, OPEN)], lease.node, self.session(lease.node))

    @precondition(Base.has_lease)
    @step(wanted=st.lists(picks, min_size=1, max_size=3))
    def take_back(self, wanted: list[int]) -> None:
        """The caller of `next` was gone."""
        tokens = [self.some_lease(pick).token for pick in wanted]
        self.run(lambda core, now: core.frontier.take_back(tokens, now))
        for token in tokens:
            reporting.released(self.model, token)
        self.check()

    @precondition(Base.has_crawl)
    @step(
        node=st.sampled_from(NODES),
        length_ms=st.sampled_from([20_000, 1_000, 0]),
        spared=picks,
        ended=picks,
        leaving=mostly(False, True),
    )
    def heartbeat(self, node: str, length_ms: int, spared: int, ended: int, leaving: bool) -> None:
        """After a while a node names its leases, perhaps all but one, and perhaps one that has ended.

        Perhaps it says goodbye, though leases may be out: those that it does not name go back unstarted.
        """
        self.shell.now_ms += length_ms
        if self.model.leases:
            node = self.some_lease(spared).node
        held = [lease.token for lease in self.model.leases.values() if lease.node == node]
        if spared % 3 == 0:
            held = held[1:]
        if ended % 3 == 0 and self.model.ended:
            held.append(self.some_ended(ended).token)
        self.beat(node, held, leaving)

    def beat(self, node: str, tokens: list[bytes], leaving: bool = False) -> None:
        """A heartbeat."""
        session, steps = self.session(node), [("FETCHING", len(tokens))]
        crawls = [*self.model.crawls, *self.model.torn_down, "unknown"]
        answer = self.run(
            lambda core, now: core.frontier.heartbeat(
                node, session, tokens, steps, now, leaving, idle_crawls=crawls
            )
        )
        assert answer.ended_crawls == [name for name in crawls if reporting.has_ended(self.model, name)]
        reporting.heard(self.model, node, session)
        told = (answer.ended, answer.release, answer.interrupt)
        assert told == reporting.heartbeat(self.model, tokens)
        sizes = self.model.pool_sizes
        assert answer.pool_size == sizes.get(node, sizes.get("")), "toe threads that it should have"
        if leaving:
            unknown = [each for each, lease in self.model.leases.items() if lease.node == node]
            for token in set(unknown).difference(tokens):
                reporting.released(self.model, token)
            attendance.left(self.model, node)
        seen = {view.node: view for view in self.shell.core.nodes.listed(self.shell.now_ms)}[node]
        assert seen.leased == sum(lease.node == node for lease in self.model.leases.values())
        assert seen.toe_steps == tuple(steps) and seen.session == session
        self.check()

    @step(node=st.sampled_from(NODES), asks=st.booleans())
    def lose_node(self, node: str, asks: bool) -> None:
        """A node dies, and its next process shows itself."""
        self.sessions[node] += 1
        if asks and self.model.crawls:
            self.ask(node, self.session(node), None, 2)
        else:
            self.beat(node, [])

    @precondition(lambda self: self.model.superseded)
    @step(pick=picks)
    def old_session_speaks(self, pick: int) -> None:
        """Which is refused, whatever it says."""
        superseded = sorted(self.model.superseded)
        node, session = superseded[pick % len(superseded)]
        error = errors.SessionSuperseded
        self.refused(error, lambda core, now: core.frontier.next(node, session, Want(1), None, now))
        self.refused(error, lambda core, now: core.frontier.heartbeat(node, session, [], [], now))
        report = Report(b"", fetch_status=200)
        self.refused(error, lambda core, now: core.frontier.finished([report], node, session, now))
