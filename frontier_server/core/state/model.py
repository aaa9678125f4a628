"""The values that the core exchanges with its callers, and the interface to their encoding."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import NamedTuple, Protocol

import msgspec

from ..machines.lifecycle import CrawlState, ExitStatus
from ..rows.errors import BatchEmpty, BatchTooLarge
from ..rows.records import FetchStatisticsRow
from ..rules.disposition import Disposition
from .queue import QueueState

MAX_BATCH = 1000
MAX_NODE_CHARACTERS = 128
MAX_ANNOTATIONS_BYTES = 16 * 1024
MAX_RECORD_BYTES = 48 * 1024  # of a candidate; unknown fields are stored and count, too
MAX_PATH_CHARACTERS = 2048
HOP_LETTERS = frozenset("LEXRIMPS")
CRAWL_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}").fullmatch
CRAWL_NAME_FORM = "1 to 64 of the characters a-z, 0-9, -, _ and ., beginning with a letter or digit"
QUEUE_KEY = re.compile(r"[!-~]{1,256}").fullmatch
QUEUE_KEY_FORM = "1 to 256 ASCII characters without spaces"


class Directive(IntEnum):
    """How urgent a URI is; the contract's numbers, and the first byte of a URI's position."""

    HIGHEST = 1
    HIGH = 2
    MEDIUM = 3
    NORMAL = 4


class Verdict(Enum):
    """Schedule's answer for a candidate; the contract's names."""

    QUEUED = "QUEUED"
    ALREADY_SEEN = "ALREADY_SEEN"
    ALREADY_QUEUED = "ALREADY_QUEUED"
    OUT_OF_SCOPE = "OUT_OF_SCOPE"
    TOO_MANY_HOPS = "TOO_MANY_HOPS"
    ROBOTS_FORBIDDEN = "ROBOTS_FORBIDDEN"
    UNSUPPORTED_SCHEME = "UNSUPPORTED_SCHEME"
    MALFORMED = "MALFORMED"
    TOO_LONG = "TOO_LONG"

    __hash__ = object.__hash__  # by identity, for speed: each verdict is counted


class Candidate(msgspec.Struct, gc=False):
    """An offered URI. `record` is its stored form, which `CandidateCodec` decodes."""

    uri: str
    record: bytes
    via: str = ""
    path: str = ""
    directive: int = Directive.NORMAL
    precedence: int | None = None  # None: the crawl's policy decides
    seed: bool = False
    refetch_before_ms: int | None = None
    annotations: bytes = b""
    cost: int | None = None  # None: the crawl's policy decides
    not_before_ms: int = 0
    source: str = ""  # the seed that it descends from; empty for seeds
    queue_key: str = ""  # of the queue that it waits in; empty: the crawl's policy decides
    base: str = ""  # set only if the URI could not be resolved against it
    redirects: bytes = b""  # the chain of redirects that led to it, as the lease of their last one told it
    cookies_sent: bytes = b""  # a mark of the cookies with which the page was asked for that redirects to it
    cookies_now: bytes = b""  # a mark of those that it would be asked for with; empty: none

    @property
    def urgency(self) -> int:
        """Its directive; but the target of a redirect goes before links, as in Heritrix: tickets in its query
        and cookies of its source may not last until their turn."""
        return min(self.directive, int(Directive.MEDIUM)) if self.path.endswith("R") else self.directive

    def seed_of(self, uri: str) -> str:
        """The seed that the URI descends from: itself, if it is a seed. `uri` is its canonical form."""
        return self.source or (uri if self.seed else "")


class CandidateCodec(Protocol):
    """The caller's encoding of stored candidates."""

    def decode(self, record: bytes) -> Candidate:
        """A stored candidate. Raises StoreCorrupt or ValueError if it is none."""

    def seed(self, uri: str) -> Candidate:
        """The candidate of a seed (directive MEDIUM)."""

    def refetched(self, candidate: Candidate, before_ms: int) -> Candidate:
        """A candidate that is fetched again if its URI was last fetched before this time."""


class EmptyReason(Enum):
    """Why there are no leases; the contract's names."""

    NOTHING_DUE = "NOTHING_DUE"
    PAUSED = "PAUSED"
    NOT_RUNNING = "NOT_RUNNING"
    FINISHED = "FINISHED"
    NO_CRAWL = "NO_CRAWL"
    LIMIT_REACHED = "LIMIT_REACHED"
    OTHER_FETCHER = "OTHER_FETCHER"


class Versions(NamedTuple):
    """What the verdicts on candidates depend on besides themselves. Empty if they are not known."""

    scope: bytes = b""
    seen: bytes = b""


NO_VERSIONS = Versions()


class Grant(msgspec.Struct, frozen=True, gc=False):
    """A lease that is given out."""

    token: bytes
    crawl: str
    uri: str
    robots: bool
    candidate: Candidate  # for a robots.txt: the one that waits for it
    attempt: int
    queue_key: str
    expire_ms: int
    fetch_policy_id: str
    source: str = ""
    etag: str = ""  # this and the next two: of the last visit
    last_modified: str = ""
    last_digest: str = ""
    redirects: bytes = b""  # the chain of redirects with this lease; empty for a robots.txt
    capture_ms: int = 0  # of the record that archives the page of the last visit; 0: there is none
    capture_uri: str = ""
    versions: Versions = NO_VERSIONS


@dataclass(frozen=True, slots=True)
class NextAnswer:
    """Leases, or why there are none."""

    grants: list[Grant]
    empty_reason: EmptyReason | None = None
    again: bool = False  # the operation has done its share of work: ask again at once


class Report(msgspec.Struct, frozen=True, gc=False):
    """A node's report of a lease."""

    token: bytes
    released: bool = False
    fetch_status: int = 0
    start_ms: int = 0
    duration_ms: int = 0
    body_bytes: int = 0
    truncated: str = ""  # the annotation of a cut body, or ""
    media_type: str = ""
    digest: str = ""
    retry_after_ms: int = 0
    robots_body: bytes = b""
    toe_number: int = 0
    annotations: tuple[str, ...] = ()
    problem: str = ""  # the fault that decoding found, or ""
    etag: str = ""
    last_modified: str = ""
    retire_queue: bool = False
    revisit_ms: int = 0  # 0: the crawl's policy decides
    peer_address: str = ""
    robots_empty: bool = False
    reason: str = ""  # why there is no answer, for people
    capture_ms: int = 0  # of the record that archives the answer; 0: there is none
    connections: int = 0  # that the fetch made
    tls_handshakes: int = 0
    kept_connections: int = 0  # of earlier fetches, that it used


class ReportResult(msgspec.Struct, frozen=True, gc=False):
    """The decision on a report."""

    disposition: Disposition
    repeated: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """The leases to let go, the number of toes (None: as the node was started), and whether to end."""

    ended: list[bytes]
    release: list[bytes]
    interrupt: list[bytes]
    pool_size: int | None
    drain: bool = False
    rival: str = ""  # another session that calls in the node's name
    ended_crawls: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class CrawlView:
    """A crawl's description."""

    number: int
    name: str
    spec: bytes
    state: CrawlState
    exit_status: ExitStatus
    reach_ms: int
    create_ms: int
    launch_ms: int
    finish_ms: int
    seeds: int
    announced_seeds: int
    oldest_event: int  # among those that are kept
    last_event: int
    reason: str = ""
    held: bool = False
    tearing_down: bool = False
    torn_down: bool = False
    failure: str = ""  # why it counts as failed


@dataclass(frozen=True, slots=True)
class Remaining:
    """An estimate of what a crawl still needs."""

    least_ms: int
    most_ms: int
    last: str = ""  # the host that needs clearly longer than all others
    limit: str = ""  # the limit that ends the crawl before it has fetched all, as a spec file names it
    left: int = 0  # URIs that the limit leaves


@dataclass(frozen=True, slots=True)
class StatisticsView:
    """A crawl's statistics."""

    now_ms: int
    counts: Mapping[str, int]
    fetch_statuses: Mapping[int, int]
    verdicts: Mapping[str, int]
    queue_states: Mapping[QueueState, int]
    elapsed_ms: int
    next_due_ms: int | None
    waiting_for: str
    media_types: Mapping[str, int] = field(default_factory=dict)
    current_per_second: float = 0.0  # recent successes
    current_bytes_per_second: float = 0.0
    deepest_queue: int = 0  # URIs in the largest queue that changed since the server started
    congestion: float = 0.0
    round: int = 0
    limited_by: str = ""  # why it is not going faster
    annotations: Mapping[str, int] = field(default_factory=dict)  # remarks of nodes
    remaining: Remaining | None = None  # an estimate of what it still needs
    limiting_setting: str = ""  # the setting that limits it
    limited_ms: int = 0  # of its running time, what counts towards its limit


@dataclass(frozen=True, slots=True)
class QueueView:
    """A work queue's description."""

    key: str
    host: str
    state: QueueState
    queued: int
    enqueued: int
    leased: int
    failed: int
    wake_ms: int
    reason: str
    precedence: int
    successes: int = 0
    expenditure: int = 0
    session_spent: int = 0
    session_budget: int = 0
    total_budget: int = 0
    last_cost: int = 0
    average_cost: float = 0.0
    paused: bool = False
    precedence_fixed: bool = False
    queue_ms: int = 0
    lease_ms: int = 0
    min_gap_ms: int = 0


@dataclass(frozen=True, slots=True)
class UriView:
    """A URI that waits."""

    candidate: Candidate
    queue_key: str
    cost: int
    precedence: int
    attempts: int
    due_ms: int = 0  # only for a future URI


class UriState(Enum):
    """Where a URI is; the contract's names."""

    NEVER_SEEN = "NEVER_SEEN"
    QUEUED = "QUEUED"
    LEASED = "LEASED"
    FUTURE = "FUTURE"
    DONE = "DONE"


@dataclass(frozen=True, slots=True)
class UriStory:
    """All that a crawl knows of a URI."""

    uri: str  # canonical
    identity: str  # URIs with the same one are the same
    state: UriState
    queue_key: str
    refused_by: str  # the rule of the scope that would refuse it, or ""
    fetch_status: int = 0  # of the last visit that has ended
    disposition: str = ""
    finish_ms: int = 0
    visits: int = 0
    etag: str = ""
    last_modified: str = ""
    digest: str = ""
    due_ms: int = 0
    waiting: UriView | None = None
    node: str = ""  # the one that holds its lease
    lease_ms: int = 0
    expire_ms: int = 0
    discover_ms: int = 0  # when it was taken in or noted, if the crawl keeps that
    reason: str = ""  # why the last visit failed


@dataclass(frozen=True, slots=True)
class SeenCounts:
    """How many seen URIs are where; the fields are in the order of UriState."""

    queued: int = 0
    leased: int = 0
    future: int = 0
    done: int = 0

    def __add__(self, other: "SeenCounts") -> "SeenCounts":
        return SeenCounts(
            self.queued + other.queued,
            self.leased + other.leased,
            self.future + other.future,
            self.done + other.done,
        )


class Why(Enum):
    """Why something is not fetched now; the contract's names."""

    NOT_LAUNCHED = "NOT_LAUNCHED"
    PREPARING = "PREPARING"
    PAUSED = "PAUSED"
    FINISHED = "FINISHED"
    EMPTY = "EMPTY"
    LIMIT_REACHED = "LIMIT_REACHED"
    AWAITS_ROUND = "AWAITS_ROUND"
    JOB_RUNS = "JOB_RUNS"
    URIS_LEFT = "URIS_LEFT"
    QUEUE_EXHAUSTED = "QUEUE_EXHAUSTED"
    QUEUE_INACTIVE = "QUEUE_INACTIVE"
    QUEUE_SNOOZED = "QUEUE_SNOOZED"
    QUEUE_RETIRED = "QUEUE_RETIRED"
    QUEUE_PAUSED = "QUEUE_PAUSED"
    OVER_BUDGET = "OVER_BUDGET"
    QUEUE_INELIGIBLE = "QUEUE_INELIGIBLE"
    HOST_BUSY = "HOST_BUSY"
    GROUP_BUSY = "GROUP_BUSY"
    ROBOTS_PENDING = "ROBOTS_PENDING"
    ROBOTS_FORBIDDEN = "ROBOTS_FORBIDDEN"
    LEASED = "LEASED"
    FUTURE = "FUTURE"
    SEEN_ALREADY = "SEEN_ALREADY"
    OUT_OF_SCOPE = "OUT_OF_SCOPE"
    NEVER_OFFERED = "NEVER_OFFERED"
    BEHIND_OTHERS = "BEHIND_OTHERS"
    NO_NODE_ASKS = "NO_NODE_ASKS"
    DUE = "DUE"
    KNOWN_PAGES_FIRST = "KNOWN_PAGES_FIRST"
    SHARD_AWAY = "SHARD_AWAY"  # only the front of several shards says so


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason, with a message for people, and the time until which it holds (0: unknown)."""

    why: Why
    message: str
    until_ms: int = 0


@dataclass(frozen=True, slots=True)
class JobView:
    """A job's description."""

    number: int
    kind: str
    state: str
    parameters: Mapping[str, str]
    create_ms: int
    finish_ms: int
    done: int
    changed: int
    total: int
    findings: tuple[str, ...]
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class FetchStatisticsView:
    """Counts of the URIs of a host, or of a source."""

    name: str
    row: FetchStatisticsRow


@dataclass(frozen=True, slots=True)
class RefusalView:
    """A URI that was refused."""

    uri: str
    via: str
    path: str
    refuse_ms: int


@dataclass(frozen=True, slots=True)
class RuleView:
    """A rule that refused URIs, and the latest of them."""

    rule: str
    refused: int
    examples: tuple[RefusalView, ...]
    message: str


class SeedResult(Enum):
    """How far a seed has come; the contract's names."""

    PENDING = "PENDING"
    FETCHED = "FETCHED"
    REDIRECTED = "REDIRECTED"
    ERROR = "ERROR"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class SeedView:
    """A seed and its story."""

    uri: str
    story: UriStory | None  # None: not announced yet
    outcome: str  # in words
    result: SeedResult
    tried_in_vain: bool = False  # so far; it will be tried again
    led_to: str = ""  # where its redirects have led so far


@dataclass(frozen=True, slots=True)
class PoolStatistics:
    """Counts of a node's toe threads."""

    size: int
    alive: int
    died: int
    killed: int
    abandoned: int


class Presence(Enum):
    """Whether a node is there; the contract's names."""

    PRESENT = "PRESENT"
    SILENT = "SILENT"
    LOST = "LOST"
    LEFT = "LEFT"


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node's description."""

    node: str
    session: str
    last_seen_ms: int
    leased: int
    toe_steps: tuple[tuple[str, int], ...]
    pool_size: int | None = None
    pool: PoolStatistics | None = None
    service_address: str = ""
    draining: bool = False
    presence: Presence = Presence.PRESENT
    rival: str = ""  # another session that has called in its name within a lease period


def check_batch(size: int, what: str) -> None:
    """Raise BatchEmpty or BatchTooLarge unless a batch has 1 to MAX_BATCH items."""
    if size == 0:
        raise BatchEmpty(f"a request must have 1 to {MAX_BATCH} {what}, got none", limit=str(MAX_BATCH))
    if size > MAX_BATCH:
        raise BatchTooLarge(
            f"a request must have at most {MAX_BATCH} {what}, got {size}", limit=str(MAX_BATCH)
        )
