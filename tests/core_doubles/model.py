"""What the frontier must do, judged without its code: a second, slower opinion in plain dictionaries.

The model is told what was asked and answered. It asserts that the answer was allowed, keeps what must hold
from then on, and says which outcomes and events must have been stored (`Crawl.take_outcomes`, `take_events`).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from core_doubles.web import OPEN, RobotsFile, Site, Spelled

from frontier_server.core.disposition import Disposition
from frontier_server.core.lifecycle import CrawlState, ExitStatus
from frontier_server.core.model import EmptyReason, Grant, NextAnswer, Report, ReportResult, Verdict
from frontier_server.core.records import OutcomeRow
from frontier_server.core.settings import CrawlSettings, PolitenessSettings

DAY_MS = 86_400_000
MOST_LAPSES = 3
RETRIED_AFTER_REST = (-1, -2, -3)
OVERLOADED = (429, 503)
LAPSED, DEFERRED, UNFETCHABLE, NO_ROBOTS, FORBIDDEN = -7000, -50, -7, -61, -9998

S, X = CrawlState, ExitStatus
StateEvent = tuple[str, ...]


@dataclass
class Uri:
    """A URI that a crawl has taken in."""

    uri: str
    site: Site
    order: tuple[int, int, int]  # directive, precedence, number
    waits: bool = True  # for its final disposition
    attempts: int = 0
    lapses: int = 0
    finish_ms: int = 0
    last_token: bytes = b""  # of the last report that counted


@dataclass
class Queue:
    """What a work queue must wait for, beside its host."""

    rest_ms: int = 0  # until
    robots_ms: int = 0  # it may wait for a try of robots.txt until then, even if another crawl was luckier


@dataclass
class Host:
    """A host, of all crawls."""

    rest_ms: int = 0  # until
    overloads: int = 0


@dataclass
class Robots:
    """A robots.txt, of all crawls with one product token."""

    good: RobotsFile | None = None
    good_until_ms: int = 0
    failures: int = 0
    retry_ms: int = 0
    hopeless_until_ms: int = 0
    last_token: bytes = b""

    def means(self, now_ms: int) -> str:
        """What is to be done about a URI of the site: `ask`, `fetch`, `wait` or `fail`."""
        if now_ms < self.hopeless_until_ms:
            return "fail"
        if self.good is not None and now_ms < self.good_until_ms:
            return "ask"
        if self.failures == 0 or now_ms >= self.retry_ms:
            return "fetch"
        return "wait" if self.good is None else "ask"


@dataclass
class Lease:
    """A lease that is out."""

    token: bytes
    crawl: str
    number: int  # of the crawl
    uri: str  # of the page; for robots.txt, of the page that waits for it
    site: Site
    robots: bool
    attempt: int
    node: str
    session: str
    lease_ms: int
    deadline_ms: int
    hard_ms: int


@dataclass
class Job:
    """An announcement of seeds."""

    done: int = 0
    queued: int = 0


@dataclass
class Crawl:
    """A crawl."""

    name: str
    number: int
    settings: CrawlSettings
    state: CrawlState = S.NASCENT
    exit_status: ExitStatus = X.CREATED
    scope: set[str] = field(default_factory=set)  # authorities
    uris: dict[str, Uri] = field(default_factory=dict)
    queues: dict[Site, Queue] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)  # that were taken in or recognised → canonical
    seeds: list[Spelled] = field(default_factory=list)
    announced: int = 0
    job: Job | None = None
    admitted: int = 0
    figures: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[tuple[str, int, str]] = field(default_factory=Counter)  # to be found stored
    events: list[StateEvent] = field(default_factory=list)  # to be found stored

    @property
    def agent(self) -> str:
        """Its product token."""
        return self.settings.fetch.product_token

    def waiting(self) -> list[Uri]:
        """URIs without a final disposition."""
        return [uri for uri in self.uris.values() if uri.waits]

    def queue(self, site: Site) -> Queue:
        """A work queue."""
        return self.queues.setdefault(site, Queue())

    def in_order(self, site: Site) -> list[Uri]:
        """The URIs that wait in a queue, the next one first (S1.8: a retry keeps its place)."""
        return sorted((uri for uri in self.waiting() if uri.site == site), key=lambda uri: uri.order)

    def to_state(self, state: CrawlState, exit_status: ExitStatus) -> None:
        """Change, which an event must tell."""
        self.state, self.exit_status = state, exit_status
        self.events.append(("status_changed", state.value, exit_status.value))

    def take_outcomes(self) -> Counter[tuple[str, int, str]]:
        """What must have been stored since this was asked."""
        taken, self.outcomes = self.outcomes, Counter()
        return taken

    def take_events(self) -> list[StateEvent]:
        """What must have been stored since this was asked."""
        taken, self.events = self.events, []
        return taken


class Model:
    """All crawls, hosts, leases and nodes."""

    def __init__(self, period_ms: int) -> None:
        self.period_ms = period_ms
        self.crawls: dict[str, Crawl] = {}
        self.hosts: dict[str, Host] = {}
        self.robots: dict[tuple[Site, str], Robots] = {}
        self.leases: dict[bytes, Lease] = {}
        self.ended: dict[bytes, Lease] = {}
        self.dispositions: dict[bytes, Disposition] = {}  # of leases whose reports counted
        self.nodes: dict[str, str] = {}  # the present session of each
        self.superseded: set[tuple[str, str]] = set()

    # Questions.

    def host(self, site: Site) -> Host:
        """The host of a site."""
        return self.hosts.setdefault(site.host, Host())

    def robots_of(self, crawl: Crawl, site: Site) -> Robots:
        """A site's robots.txt, as a crawl's product token reads it."""
        return self.robots.setdefault((site, crawl.agent), Robots())

    def forbids(self, crawl: Crawl, uri: str, site: Site, now_ms: int) -> bool:
        """Whether rules that are known and count forbid a URI."""
        robots = self.robots_of(crawl, site)
        return (
            robots.means(now_ms) == "ask"
            and robots.good is not None
            and robots.good.forbids(crawl.agent, uri.removeprefix(site.uri("")))
        )

    def leases_of(self, crawl: Crawl, robots_too: bool = True) -> int:
        """How many leases of a crawl are out."""
        return sum(
            lease.crawl == crawl.name and (robots_too or not lease.robots) for lease in self.leases.values()
        )

    def busy(self, host: str) -> bool:
        """Whether a lease of the host is out, of whatever crawl."""
        return any(lease.site.host == host for lease in self.leases.values())

    def limited(self, crawl: Crawl) -> bool:
        """Whether successes and pages out fill the document limit."""
        most = crawl.settings.limits.max_documents
        return bool(most) and crawl.figures["succeeded"] + self.leases_of(crawl, robots_too=False) >= most

    def left(self, crawl: Crawl) -> bool:
        """Whether anything is left to do."""
        return bool(crawl.waiting() or self.leases_of(crawl) or crawl.job)

    def rested_ms(self, crawl: Crawl, site: Site) -> int:
        """From when on a queue may be leased from, if nothing is in flight."""
        return max(crawl.queue(site).rest_ms, self.host(site).rest_ms)

    def free_from_ms(self, crawl: Crawl, site: Site, now_ms: int) -> int:
        """From when on it must be."""
        robots = self.robots_of(crawl, site)
        retry_ms = robots.retry_ms if robots.means(now_ms) == "wait" else 0
        return max(self.rested_ms(crawl, site), crawl.queue(site).robots_ms, retry_ms)

    def due(self, crawl: Crawl, now_ms: int) -> list[Site]:
        """The queues that must be leased from, or cleared, when a node asks."""
        if crawl.state is not S.RUNNING or self.limited(crawl):
            return []
        return [
            site
            for site in {uri.site for uri in crawl.waiting()}
            if not self.busy(site.host) and now_ms >= self.free_from_ms(crawl, site, now_ms)
        ]

    # Crawls and their lives.

    def created(self, name: str, number: int, settings: CrawlSettings) -> Crawl:
        """A crawl was created."""
        crawl = self.crawls[name] = Crawl(name, number, settings, scope=set(settings.scope.hosts))
        crawl.to_state(S.NASCENT, X.CREATED)
        return crawl

    def launched(self, crawl: Crawl) -> None:
        """A crawl was launched (S0.10)."""
        crawl.to_state(S.PREPARING, X.RUNNING)
        crawl.job = Job()

    def seeds_added(self, crawl: Crawl, seeds: Sequence[Spelled]) -> None:
        """Seeds were stored."""
        crawl.seeds.extend(seeds)
        if crawl.state is not S.NASCENT and crawl.job is None:
            crawl.job = Job()

    def resumed(self, crawl: Crawl) -> None:
        """A crawl was asked to run (S0.13: only from PAUSING and PAUSED does that mean anything)."""
        if crawl.state in (S.PAUSING, S.PAUSED):
            crawl.to_state(S.RUNNING, X.RUNNING)
        self.settle(crawl)

    def paused(self, crawl: Crawl) -> None:
        """A crawl was asked to pause (S0.15, S0.16)."""
        if crawl.state in (S.RUNNING, S.EMPTY):
            crawl.to_state(S.PAUSING, X.WAITING_FOR_PAUSE)
        self.settle(crawl)

    def stopped(self, crawl: Crawl) -> None:
        """A crawl was asked to stop (S0.18, S0.19, S0.22)."""
        if crawl.state is S.NASCENT:
            crawl.to_state(S.FINISHED, X.ABORTED)
        elif crawl.state not in (S.STOPPING, S.FINISHED):
            crawl.to_state(S.STOPPING, X.ABORTED)
        self.settle(crawl)

    def settle(self, crawl: Crawl) -> None:
        """Let a crawl reach what its counts say."""
        if crawl.state is S.RUNNING:
            most = crawl.settings.limits.max_documents
            if self.limited(crawl) and not self.leases_of(crawl, robots_too=False):
                crawl.events.append(("limit_reached", "max_documents", str(most)))
                crawl.to_state(S.STOPPING, X.FINISHED_DOCUMENT_LIMIT)
            elif not self.left(crawl):
                crawl.to_state(S.EMPTY, crawl.exit_status)  # D1: before STOPPING
                crawl.to_state(S.STOPPING, X.FINISHED)
        if crawl.state is S.PAUSING and not self.leases_of(crawl):
            crawl.to_state(S.PAUSED, X.PAUSED)
        if crawl.state is S.STOPPING and not self.leases_of(crawl):
            crawl.to_state(S.FINISHED, crawl.exit_status)

    def settle_all(self) -> None:
        """Let every crawl reach what its counts say."""
        for crawl in self.crawls.values():
            self.settle(crawl)

    def worked(self, crawl: Crawl, announced: int, job_left: bool, now_ms: int) -> None:
        """Perhaps some seeds were announced, and perhaps the job has ended."""
        job = crawl.job
        if job is None:
            assert announced == crawl.announced and not job_left
            return
        news = crawl.seeds[crawl.announced : announced]
        assert not news or crawl.state not in (S.STOPPING, S.FINISHED), "seeds announced at the end"
        for seed in news:
            verdict = self.verdict(crawl, seed, "", None, True, now_ms)
            self.offered(crawl, seed, verdict, (3, 1), now_ms)
            job.queued += verdict is Verdict.QUEUED
            job.done += 1
        assert announced <= len(crawl.seeds) and announced == crawl.announced + len(news)
        crawl.announced = announced
        if job_left:
            assert announced < len(crawl.seeds) or crawl.state in (S.STOPPING, S.FINISHED)
            return
        crawl.job = None
        if crawl.state not in (S.STOPPING, S.FINISHED):
            assert announced == len(crawl.seeds), "the job ended before its last seed"
            crawl.events.append(("seeds_concluded", str(job.done), str(job.queued)))
            if crawl.state is S.PREPARING:
                crawl.to_state(S.RUNNING, X.RUNNING)
        self.settle(crawl)

    def deleted(self, crawl: Crawl) -> None:
        """A crawl was deleted."""
        del self.crawls[crawl.name]

    def restarted(self, now_ms: int) -> None:
        """The server started anew: every lease gets a fresh period, and sessions are known from leases."""
        for lease in self.leases.values():
            lease.deadline_ms = now_ms + self.period_ms
            lease.hard_ms = now_ms + self._longest_ms(self.crawls[lease.crawl])
        self.nodes = {lease.node: lease.session for lease in self.leases.values()}
        self.superseded = set()
        for crawl in self.crawls.values():
            for queue in crawl.queues.values():
                queue.robots_ms = 0

    # Schedule.

    def verdict(
        self,
        crawl: Crawl,
        offer: Spelled,
        path: str,
        refetch_before_ms: int | None,
        seed: bool,
        now_ms: int,
    ) -> Verdict:
        """What a well-formed candidate must be answered."""
        _, uri, site = offer
        redirected_seed = 0 < len(path) <= 5 and set(path) == {"R"}
        if site.authority not in crawl.scope and not seed and not redirected_seed:
            return Verdict.OUT_OF_SCOPE
        if too_many_hops(path, crawl.settings):
            return Verdict.TOO_MANY_HOPS
        known = crawl.uris.get(uri)
        if known is not None:
            if refetch_before_ms is None:
                return Verdict.ALREADY_SEEN
            if known.waits:
                return Verdict.ALREADY_QUEUED
            if known.finish_ms >= refetch_before_ms:
                return Verdict.ALREADY_SEEN
        forbidden = self.forbids(crawl, uri, site, now_ms)
        return Verdict.ROBOTS_FORBIDDEN if forbidden else Verdict.QUEUED

    def offered(
        self, crawl: Crawl, offer: Spelled, verdict: Verdict, urgency: tuple[int, int], now_ms: int
    ) -> None:
        """A candidate got its verdict."""
        text, uri, site = offer
        crawl.verdicts[verdict.value] += 1
        if verdict is not Verdict.OUT_OF_SCOPE:
            crawl.scope.add(site.authority)
        if verdict is not Verdict.TOO_MANY_HOPS:
            crawl.texts[text] = uri
        if verdict is Verdict.QUEUED:
            crawl.admitted += 1
            order = (*urgency, crawl.admitted)
            known = crawl.uris.get(uri)
            crawl.uris[uri] = Uri(uri, site, order, last_token=known.last_token if known else b"")
        elif verdict is Verdict.ROBOTS_FORBIDDEN:
            known = crawl.uris.setdefault(uri, Uri(uri, site, (*urgency, 0)))
            self._conclude(crawl, known, FORBIDDEN, Disposition.DISREGARDED, now_ms)

    # Nodes and leases.

    def heard(self, node: str, session: str, now_ms: int) -> None:
        """A node showed itself; leases of its earlier session lapse at once."""
        before = self.nodes.get(node)
        if before is not None and before != session:
            self.superseded.add((node, before))
            for lease in [lease for lease in self.leases.values() if lease.node == node]:
                self.lapsed(lease, now_ms)
        self.nodes[node] = session

    def cleared(self, crawl: Crawl, row: OutcomeRow, now_ms: int) -> None:
        """A head was given its final disposition by `next`, without being fetched."""
        assert crawl.state is S.RUNNING, f"a URI of a crawl that is {crawl.state.value} was cleared"
        known = crawl.uris.get(row.uri)
        assert known is not None and known.waits, f"{row.uri} got a second final disposition"
        assert crawl.in_order(known.site)[0] is known, f"{row.uri} was cleared out of turn"
        assert not self.busy(known.site.host), f"{row.uri} was cleared while its host was busy"
        assert now_ms >= self.rested_ms(crawl, known.site), f"{row.uri} was cleared during a rest"
        robots = self.robots_of(crawl, known.site)
        if row.fetch_status == FORBIDDEN:
            assert self.forbids(crawl, row.uri, known.site, now_ms), f"robots.txt does not forbid {row.uri}"
            disposition = Disposition.DISREGARDED
        else:
            assert row.fetch_status == NO_ROBOTS, f"{row.uri} ended with {row.fetch_status}, unfetched"
            assert robots.means(now_ms) == "fail", f"{row.uri} failed while its robots.txt may still come"
            disposition = Disposition.FAILED
        assert row.disposition == disposition.value
        self._conclude(crawl, known, row.fetch_status, disposition, now_ms, stored=True)

    def granted(self, crawl: Crawl, grant: Grant, node: str, session: str, now_ms: int) -> None:
        """A lease was given."""
        assert crawl.state is S.RUNNING, f"a lease of a crawl that is {crawl.state.value}"
        assert grant.token not in self.leases and grant.token not in self.ended, "a token was used twice"
        uri = crawl.texts[grant.candidate.uri]
        assert grant.robots or grant.uri == uri
        known = crawl.uris.get(uri)
        assert known is not None and known.waits, f"{uri} was leased without waiting"
        site = known.site
        assert grant.crawl == crawl.name and grant.queue_key == site.queue_key
        assert not self.busy(site.host), f"{site.host} has two leases out"
        host, queue = self.host(site), crawl.queue(site)
        assert now_ms >= host.rest_ms, f"{site.host} was leased {host.rest_ms - now_ms} ms too early"
        assert now_ms >= queue.rest_ms, f"{site.uri('')} was leased {queue.rest_ms - now_ms} ms too early"
        assert crawl.in_order(site)[0] is known, f"{uri} was leased out of turn"
        assert not self.limited(crawl), "a lease beyond the document limit"
        robots = self.robots_of(crawl, site)
        if grant.robots:
            assert grant.uri == site.uri("/robots.txt")
            assert robots.means(now_ms) == "fetch", f"{grant.uri} was leased without need"
            assert grant.attempt == robots.failures + 1
        else:
            assert robots.means(now_ms) == "ask", f"{grant.uri} was leased before its robots.txt was known"
            assert not self.forbids(crawl, grant.uri, site, now_ms), f"robots.txt forbids {grant.uri}"
            assert grant.attempt == known.attempts + 1
            assert grant.attempt <= crawl.settings.retry.max_attempts, f"{uri} has used up its attempts"
        hard_ms = now_ms + self._longest_ms(crawl)
        assert grant.expire_ms == now_ms + self.period_ms
        self.leases[grant.token] = Lease(
            grant.token,
            crawl.name,
            crawl.number,
            known.uri,
            site,
            grant.robots,
            grant.attempt,
            node,
            session,
            now_ms,
            grant.expire_ms,
            hard_ms,
        )

    def answered(self, answer: NextAnswer, name: str | None, most: int, now_ms: int) -> None:
        """All leases of an answer are known; was any withheld, and is the reason right?"""
        assert len(answer.grants) <= most
        asked = [self.crawls[name]] if name else list(self.crawls.values())
        if len(answer.grants) < most:
            assert not answer.again, "this little work is never more than one call's share"
            for crawl in asked:
                assert not self.due(crawl, now_ms), f"{crawl.name} withheld {self.due(crawl, now_ms)}"
        for crawl in asked:
            for site in {uri.site for uri in crawl.waiting()}:
                robots = self.robots_of(crawl, site)
                if robots.means(now_ms) == "wait":
                    crawl.queue(site).robots_ms = robots.retry_ms
        reasons: dict[CrawlState, EmptyReason] = {
            S.NASCENT: EmptyReason.NOT_RUNNING,
            S.PREPARING: EmptyReason.NOT_RUNNING,
            S.PAUSING: EmptyReason.PAUSED,
            S.PAUSED: EmptyReason.PAUSED,
            S.STOPPING: EmptyReason.FINISHED,
            S.FINISHED: EmptyReason.FINISHED,
        }
        running = [crawl for crawl in asked if crawl.state is S.RUNNING]
        possible: set[EmptyReason | None]
        if answer.grants:
            possible = {None}
        elif running:
            limited = all(self.limited(crawl) for crawl in running)
            possible = {EmptyReason.LIMIT_REACHED if limited else EmptyReason.NOTHING_DUE}
        elif name:
            possible = {reasons[asked[0].state]}
        else:
            told = {reasons[crawl.state] for crawl in asked} - {EmptyReason.FINISHED}
            possible = {*told} or {EmptyReason.NO_CRAWL}
        assert answer.empty_reason in possible

    def reported(self, report: Report, file: RobotsFile, result: ReportResult, now_ms: int) -> None:
        """A report of a lease that was given out once got its result."""
        lease = self.leases.get(report.token)
        if lease is None:
            self._reported_again(report, result)
            return
        assert not result.repeated
        if report.released:
            assert result.disposition is Disposition.RELEASED
            self.released(report.token)
            return
        if not makes_sense(report, lease.robots):
            assert result.disposition is Disposition.INVALID_REPORT and result.problem
            return
        self._end(lease)
        crawl, status = self.crawls[lease.crawl], report.fetch_status
        if lease.robots:
            expected = self._robots_reported(crawl, lease, report, file, now_ms)
        else:
            expected = self._page_reported(crawl, lease, report, now_ms)
        assert result.disposition is expected, f"{status} of {lease.uri} meant {result}, not {expected}"
        assert not result.problem
        self.dispositions[lease.token] = expected

    def _page_reported(self, crawl: Crawl, lease: Lease, report: Report, now_ms: int) -> Disposition:
        known, status, retry = crawl.uris[lease.uri], report.fetch_status, crawl.settings.retry
        self._rest(crawl, lease.site, status, report.duration_ms, report.retry_after_ms, now_ms)
        again = status == DEFERRED
        if status in (*RETRIED_AFTER_REST, *OVERLOADED):
            again = lease.attempt < retry.max_attempts
            known.attempts += again
            if again and status in RETRIED_AFTER_REST:
                rest_ms = retry.delay_ms * retry.growth ** (lease.attempt - 1)
                if rest_ms:
                    crawl.queue(lease.site).rest_ms = now_ms + int(min(rest_ms, retry.max_delay_ms))
        known.last_token = lease.token
        if again:
            crawl.figures["deferred"] += 1
            return Disposition.DEFERRED
        if status in OVERLOADED or status < 0:
            disposition = Disposition.DISREGARDED if status == FORBIDDEN else Disposition.FAILED
        else:
            disposition = Disposition.SUCCEEDED  # whatever HTTP says (Heritrix 2.10)
            crawl.figures["bytes"] += report.body_bytes
        self._conclude(crawl, known, status, disposition, now_ms)
        known.last_token = lease.token
        return disposition

    def _robots_reported(
        self, crawl: Crawl, lease: Lease, report: Report, file: RobotsFile, now_ms: int
    ) -> Disposition:
        status = report.fetch_status
        robots = self.robots_of(crawl, lease.site)
        if status == DEFERRED:  # put off: nothing is learned, but the host was asked
            crawl.figures["deferred"] += 1
            robots.last_token = lease.token
            self._rest(crawl, lease.site, status, report.duration_ms, report.retry_after_ms, now_ms)
            return Disposition.DEFERRED
        self._learn(crawl, lease.site, status, file, now_ms)
        crawl.figures["robots_fetches"] += 1
        disposition = Disposition.SUCCEEDED if status > 0 else Disposition.FAILED
        crawl.outcomes[lease.site.uri("/robots.txt"), status, disposition.value] += 1
        robots.last_token = lease.token
        if status == UNFETCHABLE:
            self._conclude(crawl, crawl.uris[lease.uri], UNFETCHABLE, Disposition.FAILED, now_ms)
        self._rest(crawl, lease.site, status, report.duration_ms, report.retry_after_ms, now_ms)
        return disposition

    def _reported_again(self, report: Report, result: ReportResult) -> None:
        """A report of a lease that has ended changes nothing (the counts are compared afterwards)."""
        lease = self.ended[report.token]
        crawl = self.crawls.get(lease.crawl)
        if crawl is None or crawl.number != lease.number:
            assert result == ReportResult(Disposition.STALE)
        elif lease.robots:
            counted = self.robots_of(crawl, lease.site).last_token == lease.token
            self._check_repeat(counted, lease, result)
        else:
            self._check_repeat(crawl.uris[lease.uri].last_token == lease.token, lease, result)

    def _check_repeat(self, counted: bool, lease: Lease, result: ReportResult) -> None:
        if counted:
            assert result == ReportResult(self.dispositions[lease.token], repeated=True)
        else:
            assert result == ReportResult(Disposition.STALE)

    def released(self, token: bytes) -> None:
        """A lease went back as if it had never been given."""
        lease = self.leases.get(token)
        if lease is not None:
            self._end(lease)

    def heartbeat(self, tokens: Iterable[bytes], now_ms: int) -> tuple[list[bytes], list[bytes]]:
        """Leases were named; which of them have ended, and which should be released."""
        ended, release = [], []
        for token in tokens:
            lease = self.leases.get(token)
            if lease is None:
                ended.append(token)
                continue
            lease.deadline_ms = min(now_ms + self.period_ms, lease.hard_ms)
            if self.crawls[lease.crawl].state is not S.RUNNING:
                release.append(token)
        return ended, release

    def ticked(self, now_ms: int) -> None:
        """Leases whose time is over lapse."""
        for lease in [lease for lease in self.leases.values() if lease.deadline_ms <= now_ms]:
            self.lapsed(lease, now_ms)

    def lapsed(self, lease: Lease, now_ms: int) -> None:
        """A lease ended without a report: an attempt, and a rest for the host."""
        self._end(lease)
        crawl = self.crawls[lease.crawl]
        crawl.figures["lapsed"] += 1
        if lease.robots:
            self._learn(crawl, lease.site, LAPSED, OPEN, now_ms)
            self.robots_of(crawl, lease.site).last_token = b""
        self._rest(crawl, lease.site, LAPSED, now_ms - lease.lease_ms, 0, now_ms)
        if not lease.robots:
            known = crawl.uris[lease.uri]
            known.attempts += 1
            known.lapses += 1
            if known.lapses >= MOST_LAPSES or known.attempts >= crawl.settings.retry.max_attempts:
                self._conclude(crawl, known, LAPSED, Disposition.FAILED, now_ms)

    # Helpers.

    def _longest_ms(self, crawl: Crawl) -> int:
        return max(2 * crawl.settings.fetch.timeout_ms, self.period_ms)

    def _end(self, lease: Lease) -> None:
        self.ended[lease.token] = self.leases.pop(lease.token)

    def _conclude(
        self,
        crawl: Crawl,
        known: Uri,
        status: int,
        disposition: Disposition,
        now_ms: int,
        stored: bool = False,
    ) -> None:
        """A URI got its final disposition; `stored` if its outcome has been looked at already."""
        known.waits = False
        known.finish_ms = now_ms
        known.attempts = known.lapses = 0
        known.last_token = b""
        crawl.figures[disposition.value.lower()] += 1
        crawl.statuses[status] += 1
        if not stored:
            crawl.outcomes[known.uri, status, disposition.value] += 1

    def _learn(self, crawl: Crawl, site: Site, status: int, file: RobotsFile, now_ms: int) -> None:
        """What a fetch of robots.txt means (RFC 9309, 2.3.1)."""
        robots, settings = self.robots_of(crawl, site), crawl.settings.robots
        if status == UNFETCHABLE:
            return
        if 200 <= status < 500 and status != 429:
            robots.good = file if status < 300 else OPEN
            robots.good_until_ms = now_ms + settings.validity_ms
            robots.failures = 0
            return
        robots.failures += 1
        robots.good_until_ms = 0
        robots.retry_ms = now_ms + min(settings.retry_delay_ms * 2 ** (robots.failures - 1), DAY_MS)
        if robots.good is None:
            if settings.allow_unreachable and robots.failures >= min(3, settings.max_attempts):
                robots.good, robots.good_until_ms = OPEN, now_ms + settings.validity_ms
                robots.failures = 0
            elif robots.failures >= settings.max_attempts:
                robots.hopeless_until_ms = now_ms + settings.validity_ms
                robots.failures = 0

    def _rest(
        self, crawl: Crawl, site: Site, status: int, duration_ms: int, retry_after_ms: int, now_ms: int
    ) -> None:
        """A host rests after an answer."""
        host, politeness = self.host(site), crawl.settings.politeness
        good = self.robots_of(crawl, site).good
        rest_ms = polite_rest_ms(duration_ms, good.crawl_delay_ms if good else 0, politeness)
        if status in OVERLOADED:
            grown_ms = politeness.overload_delay_ms * 2**host.overloads
            host.overloads += 1
            most_ms = politeness.max_overload_delay_ms
            rest_ms = max(rest_ms, min(grown_ms, most_ms), min(retry_after_ms, most_ms))
        elif status > 0:
            host.overloads = 0
        host.rest_ms = max(host.rest_ms, now_ms + rest_ms)


def polite_rest_ms(duration_ms: int, crawl_delay_ms: int, politeness: PolitenessSettings) -> int:
    """The least rest after a fetch (Heritrix 2.8)."""
    rest_ms = int(politeness.delay_factor * duration_ms)
    rest_ms = min(max(rest_ms, politeness.min_delay_ms), politeness.max_delay_ms)
    return max(rest_ms, min(crawl_delay_ms, politeness.max_crawl_delay_ms))


def too_many_hops(path: str, settings: CrawlSettings) -> bool:
    """Whether a discovery path is longer than a scope allows."""
    scope = settings.scope
    redirects = embeds = links = 0
    for hop in path:
        links += hop in "LM"
        redirects = redirects + 1 if hop == "R" else 0
        embeds = 0 if hop in "LM" else embeds + (hop in "EXI")
    return links > scope.max_link_hops or redirects > scope.max_redirect_hops or embeds > scope.max_embed_hops


def makes_sense(report: Report, robots: bool) -> bool:
    """Whether the reports that the tests send make sense."""
    return (
        (100 <= report.fetch_status <= 599 or -10_000 < report.fetch_status < 0)
        and report.duration_ms >= 0
        and not report.problem
        and (robots or not report.robots_body)
    )
