"""What the model of the frontier knows of: crawls, their queues and URIs, hosts, leases, nodes.

The model is a second, slower opinion in plain dictionaries. It is told what was asked and answered, judges
whether that was allowed, and keeps what must hold from then on. It shares the settings' dataclasses and the
names of states with the frontier, and none of its rules.
"""

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from core_doubles.web import RobotsFile, Site, Spelled

from frontier_server.core.machines.lifecycle import CrawlState, ExitStatus
from frontier_server.core.machines.target import Target
from frontier_server.core.rules.disposition import Disposition
from frontier_server.core.spec.settings import DAY_MS, CrawlSettings, RobotsSettings
from frontier_server.core.state.job import JobKind
from frontier_server.core.state.queue import QueueState

StateEvent = tuple[str, ...]
Outcome = tuple[str, int, str]  # URI, fetch status, disposition
QueueId = bytes


class Stand(Enum):
    """Where a URI that was taken in stands."""

    QUEUED = "queued"
    FUTURE = "future"
    DONE = "done"


@dataclass
class Uri:
    """A URI that a crawl has taken in."""

    identity: str  # what makes it the same as others
    uri: str  # that is fetched
    site: Site
    target: str
    stand: Stand = Stand.DONE
    queue: QueueId = b""  # while QUEUED
    order: tuple[int, int, int] = (0, 0, 0)  # directive, precedence, number
    arrived: int = 0  # in its queue, at this step
    touched: int = 0  # at this step it came, moved, was leased, or its lease ended
    path: str = ""
    directive: int = 4
    seed: bool = False
    source: str = ""
    cost: int = 0
    precedence: int = 0
    attempts: int = 0
    lapses: int = 0
    deferrals: int = 0  # that were free
    due_ms: int = 0  # while FUTURE
    finish_ms: int = 0  # of the last visit
    last_token: bytes = b""  # of the last report that counted
    visits: int = 0  # that succeeded
    interval_ms: int = 0  # to the next visit, adaptive
    etag: str = ""
    last_modified: str = ""
    digest: str = ""

    @property
    def queued(self) -> bool:
        """Whether it is in a queue, out at a node or not."""
        return self.stand is Stand.QUEUED


class Appraisal(NamedTuple):
    """What a look at a queue made of it."""

    precedence: int
    floor: int

    @property
    def ineligible(self) -> bool:
        """Whether it must not be activated."""
        return self.precedence >= self.floor


@dataclass
class Queue:
    """A work queue."""

    id: QueueId
    key: str
    appraisals: list[Appraisal] = field(default_factory=list)  # of which one came last
    looks: list[Appraisal] = field(default_factory=list)  # all that there may have been in this step
    precedence: int = 0  # as told after the step before
    state: QueueState = QueueState.EXHAUSTED  # as last told
    waits_since: tuple[int, int] = (0, 0)  # INACTIVE, there since which step: at the earliest, at the latest
    asleep_ms: int = 0  # SNOOZED, until then
    woken: bool = False  # INACTIVE since it woke
    rest_ms: int = 0  # its own rest, beside its host's
    woken_ms: int = 0  # when somebody last ended its rests
    expenditure: int = 0
    session_start: int = 0  # expenditure at its activation, as last told
    new_session: bool = False  # it has changed in this step
    starts: set[int] = field(default_factory=set)  # what that may be after this step
    lent: tuple[int, CrawlSettings] | None = None  # expenditure at this step's lease, and its settings
    cleared: bool = False  # in this step a URI was taken out of it without being fetched
    session_budget: int | None = None  # its own, if somebody gave it one
    total_budget: int | None = None
    fixed_precedence: int | None = None
    paused: bool = False
    retired: bool = False
    retiring: bool = False
    robots_tried: tuple[Site, int] | None = None  # whose robots.txt was tried for the next page, and when
    enqueued: int = 0
    successes: int = 0
    failed: int = 0
    sites: set[Site] = field(default_factory=set)  # whose URIs it has held


@dataclass
class Host:
    """A host, or a group of hosts."""

    rest_ms: int = 0  # until
    overloads: int = 0
    address: str = ""
    start_ms: int = 0  # of the last request, where several may be answered at once
    last_ms: int = 0  # how long the last fetch took; likewise
    unanswered: set[str] = field(default_factory=set)  # URIs since the last answer


@dataclass
class Patience:
    """How a crawl bears that a robots.txt cannot be had: as one that watched every try would."""

    failures: int = 0  # in a row, those left out that came before it would have tried itself
    retry_ms: int = 0
    lost_ms: int | None = None  # when it last lost its patience


@dataclass
class Robots:
    """A robots.txt, as all crawls with one product token see it."""

    good: RobotsFile | None = None  # the last answer
    good_ms: int = 0  # when it came
    failures_ms: list[int] = field(default_factory=list)  # since then
    last_token: bytes = b""  # of the last report that counted

    def patience(self, rules: RobotsSettings) -> Patience:
        """What a crawl with these settings makes of the failures. A copy that it has makes it patient."""
        its = Patience()
        most = min(3, rules.max_attempts) if rules.allow_unreachable else rules.max_attempts
        for failed_ms in self.failures_ms:
            if failed_ms < its.retry_ms:
                continue
            its.failures += 1
            its.retry_ms = failed_ms + min(rules.retry_delay_ms * 2 ** (its.failures - 1), DAY_MS)
            if self.good is None and its.failures == most:
                its = Patience(0, failed_ms + rules.validity_ms, failed_ms)
        return its

    def means(self, now_ms: int, rules: RobotsSettings, tried_ms: int | None = None) -> str:
        """What is to be done about a URI of the site: `ask`, `fetch`, `wait` or `fail`.

        What has come since it was tried just for this URI counts however late it is.
        """
        its = self.patience(rules)
        if self.good is not None and (tried_ms is not None or now_ms < self.good_ms + rules.validity_ms):
            return "ask"
        if not self.failures_ms:
            return "fetch"
        open_meanwhile = self.good is not None or (rules.allow_unreachable and its.lost_ms is not None)
        if its.lost_ms is not None and (
            now_ms < its.lost_ms + rules.validity_ms or (tried_ms is not None and tried_ms <= its.lost_ms)
        ):
            return "ask" if open_meanwhile else "fail"
        if now_ms >= its.retry_ms:
            return "fetch"
        return "ask" if open_meanwhile else "wait"


@dataclass
class Lease:
    """A lease that is out."""

    token: bytes
    crawl: str
    number: int  # of the crawl
    identity: str  # of the page; for robots.txt, of the page that waits for it
    uri: str  # likewise
    source: str
    site: Site
    queue: QueueId
    hosts: tuple[str, ...]  # that it counts for, and groups of them
    robots: bool
    attempt: int
    node: str
    session: str
    lease_ms: int
    deadline_ms: int
    hard_ms: int
    excused_ms: int = 0  # of that: what the server was away; a restart forgets it


@dataclass
class Node:
    """A node that was heard of."""

    session: str  # the present one
    last_seen_ms: int | None  # None: not since the server started, and nobody waits for it
    gone: str = ""  # why it is taken to be, if it is


@dataclass
class Statistics:
    """What happened to the URIs of a host, or of a source."""

    successes: int = 0
    success_bytes: int = 0
    responses: int = 0
    response_bytes: int = 0
    failures: int = 0
    disregards: int = 0
    novel: int = 0


@dataclass
class Offer:
    """A URI offered, and all that was said of it."""

    spelled: Spelled
    path: str = ""
    directive: int = 4
    precedence: int | None = None
    cost: int | None = None
    seed: bool = False
    source: str = ""
    via: str = ""
    refetch_before_ms: int | None = None
    not_before_ms: int = 0
    anew: bool = False


@dataclass
class Job:
    """Work in slices."""

    number: int
    kind: JobKind
    parameters: dict[str, str] = field(default_factory=dict)
    state: str = "RUNNING"
    done: int = 0
    changed: int = 0
    cursor: QueueId = b""
    begun: int = 0  # at this step
    create_ms: int = 0
    imports: list[tuple[Offer, bool]] = field(default_factory=list)  # to come; whether only noted


@dataclass
class Crawl:
    """A crawl."""

    name: str
    number: int
    settings: CrawlSettings
    state: CrawlState = CrawlState.NASCENT
    exit_status: ExitStatus = ExitStatus.CREATED
    reason: str = ""  # the problem that led to this state, if one did
    trouble: str = ""  # that alone has paused it, and whose end may let it go on
    target: Target | None = None  # what it was last asked for; None: nothing yet
    held: bool = False
    unseen: bool = False  # what it waited for has ended with a restart, and nobody has looked since
    cancelled: bool = False  # what was in flight, since it was asked for this target
    interrupt_ms: int | None = None  # when somebody asked a second time for the end
    tearing_down: bool = False
    nodes: dict[str, str] = field(default_factory=dict)  # that fetch for it → their sessions
    overrides: dict[str, bytes] = field(default_factory=dict)  # SURT prefix → settings
    overridden: int = 0  # last at this step; 0: never
    documents_before: int = 0  # successes and pages out when its settings were last changed
    scope: set[str] = field(default_factory=set)  # authorities
    rescoped: bool = False  # its scope has changed since it was created
    uris: dict[str, Uri] = field(default_factory=dict)  # by identity
    queues: dict[QueueId, Queue] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)  # that were taken in or recognised → identity
    seeds: list[Spelled] = field(default_factory=list)
    announced: int = 0
    jobs: list[Job] = field(default_factory=list)  # that have not ended, in line
    receiving: dict[int, Job] = field(default_factory=dict)  # imports that wait for the rest
    next_job: int = 1
    admitted: int = 0
    create_ms: int = 0
    launch_ms: int = 0
    reach_ms: int = 0  # its state
    excused_ms: int = 0  # since then: that the server was away
    running_since_ms: int | None = None
    elapsed_ms: int = 0  # until then
    was_excused: bool = False  # its clock has left out an absence
    round: int = 0
    round_ms: int = 0
    passed: float = 0.0  # leases of nodes that asked for any crawl's, by its weight
    statistics: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    hosts: dict[str, Statistics] = field(default_factory=dict)
    sources: dict[str, Statistics] = field(default_factory=dict)
    told: Counter[str] = field(default_factory=Counter)  # by the statistics' events, together
    told_ms: int = 0  # when they were last looked at
    outcomes: Counter[Outcome] = field(default_factory=Counter)  # to be found stored
    stored: int = 0  # outcomes so far
    logged: int = 0  # of them, that are in the crawl log
    events: list[StateEvent] = field(default_factory=list)  # to be found stored

    def queued(self) -> list[Uri]:
        """URIs in queues."""
        return [uri for uri in self.uris.values() if uri.queued]

    def future(self) -> list[Uri]:
        """URIs that wait for their time."""
        return [uri for uri in self.uris.values() if uri.stand is Stand.FUTURE]

    def in_order(self, queue: Queue) -> list[Uri]:
        """The URIs of a queue, the next one first (S1.8: a retry keeps its place)."""
        return sorted((uri for uri in self.queued() if uri.queue == queue.id), key=lambda uri: uri.order)

    def job_of(self, *kinds: JobKind) -> Job | None:
        """The first job of one of these kinds that has not ended."""
        return next((job for job in self.jobs if job.kind in kinds), None)

    def take_outcomes(self) -> Counter[Outcome]:
        """What must have been stored since this was asked."""
        taken, self.outcomes = self.outcomes, Counter()
        return taken

    def take_events(self) -> list[StateEvent]:
        """What must have been stored since this was asked."""
        taken, self.events = self.events, []
        return taken


@dataclass
class Model:
    """All crawls, hosts, leases and nodes."""

    period_ms: int
    now_ms: int = 0
    step: int = 0  # operations so far
    crawls: dict[str, Crawl] = field(default_factory=dict)
    hosts: dict[str, Host] = field(default_factory=dict)  # and groups
    robots: dict[tuple[Site, str], Robots] = field(default_factory=dict)
    leases: dict[bytes, Lease] = field(default_factory=dict)
    ended: dict[bytes, Lease] = field(default_factory=dict)
    dispositions: dict[bytes, Disposition] = field(default_factory=dict)  # of reports that counted
    torn_down: dict[str, Crawl] = field(default_factory=dict)  # that memory has let go of
    nodes: dict[str, Node] = field(default_factory=dict)
    pool_sizes: dict[str, int] = field(default_factory=dict)  # node → toe threads; "": any other
    most_passed: float = 0.0  # leases that a crawl has had for its weight, since the server started
    trouble: tuple[str, str] | None = None  # what keeps every crawl from running
    superseded: set[tuple[str, str]] = field(default_factory=set)

    def leases_of(self, crawl: Crawl, robots_too: bool = True) -> int:
        """How many leases of a crawl are out."""
        return sum(
            lease.number == crawl.number and (robots_too or not lease.robots)
            for lease in self.leases.values()
        )

    def leased(self, crawl: Crawl, queue: Queue) -> bool:
        """Whether a lease of a queue is out."""
        return any(lease.number == crawl.number and lease.queue == queue.id for lease in self.leases.values())

    def is_out(self, crawl: Crawl, uri: Uri) -> bool:
        """Whether a URI (or the robots.txt that it waits for) is out at a node."""
        return any(
            lease.number == crawl.number and lease.identity == uri.identity for lease in self.leases.values()
        )
