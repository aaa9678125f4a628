"""The value of every row: a version byte, then MessagePack of the fields in order.

To change a format: new fields are added at a record's end, with a default (older
rows then still decode); anything else takes a new version byte, and a `decode`
that knows both. FORMAT is the store's as a whole; a server refuses a store of
another format.
"""

import struct
from typing import Any, TypeVar

import msgspec

from .errors import OtherFormat, StoreCorrupt
from .keys import level_of, level_position, ordinal_of
from .sums import MAX_SUM

FORMAT = 2
_VERSION = b"\x01"


class Record(msgspec.Struct, array_like=True, gc=False):
    """A row's value: numbers, texts and tables of them, which the garbage collector need not walk."""


class ServerRow(Record):
    """Of the server as a whole."""

    format: int
    secret: bytes  # tags lease tokens
    next_crawl: int = 1  # crawl numbers are never used again
    time_ms: int = 0  # the server's clock is never below it
    pool_sizes: dict[str, int] = {}  # node → toe threads that it should have; "": any other
    boot: str = ""  # the machine's run that the server was last started in
    boot_ms: int = 0  # the server's time when that began


class SessionRow(Record):
    """Whose a node's name is."""

    session: str  # that was accepted last
    last_seen_ms: int  # when it was, or (to a day) when it was heard last
    superseded: list[bytes] = []  # hashes of those before it, the latest last


class SpecRow(Record):
    """A crawl's name and spec."""

    name: str
    spec: bytes  # the contract's message, untouched
    create_ms: int


class StateRow(Record):
    """A crawl's life."""

    state: str
    exit_status: str
    target: str
    reached: str
    request: int  # number of the last request to the frontier machine
    answered: int  # number of the request that `reached` answers
    reach_ms: int
    launch_ms: int = 0
    finish_ms: int = 0
    running_since_ms: int = 0  # 0 while the clock of the crawl stands
    elapsed_ms: int = 0  # until then, pauses left out
    deleted: bool = False
    round: int = 0  # how often the seeds have been announced anew
    round_ms: int = 0  # when the last round began
    reason: str = ""  # the problem that led to this state, if one did
    interrupt_ms: int = 0  # when somebody asked a second time for the end
    cancelled: int = 0  # number of the request that what was in flight has been cancelled for
    tearing_down: bool = False
    torn_down: bool = False
    deleted_to: bytes = b""  # how far its deletion has come
    nodes: dict[str, str] = {}  # that fetch for it → their sessions
    trouble: str = (
        ""  # what it is paused for, if it may go on when that is over: "disk-reserve" or "node:NAME"
    )


class CountersRow(Record):
    """A crawl's statistics and serial numbers."""

    next_lease: int = 1
    next_event: int = 1
    next_seed: int = 1
    next_job: int = 1
    next_inactive: int = 1
    next_outcome: int = 1
    oldest_outcome: int = 1
    logged_outcome: int = 0  # outcomes up to this one are in the crawl log
    log_bytes: int = 0  # which is this long with them
    discovered: int = 0
    queued: int = 0
    succeeded: int = 0
    failed: int = 0
    disregarded: int = 0
    deferred: int = 0
    lapsed: int = 0
    robots_fetches: int = 0
    bytes: int = 0
    novel: int = 0  # successes whose content was not what it was at the last visit
    novel_bytes: int = 0
    relocated: int = 0
    retired_uris: int = 0  # in retired queues: not among the queued
    ineligible_uris: int = 0  # in queues at the precedence floor: among the queued
    future: int = 0  # URIs that wait for their time
    active_queues: int = 0
    inactive: dict[int, int] = {}  # precedence → queues
    queues: dict[str, int] = {}  # of the other states that are on disk
    announced_seeds: int = 0
    fetch_statuses: dict[int, int] = {}
    verdicts: dict[str, int] = {}
    media_types: dict[str, int] = {}
    sum_changes: int = 0  # of those sums that a verification recounts
    told: dict[str, int] = {}  # what the statistics' events have told so far, together
    told_ms: int = 0  # when the last of them did
    job_log_event: int = 0  # events up to this one are in the job log for good
    job_log_bytes: int = 0  # which is this long with them


class QueueRow(Record):
    """A work queue."""

    key: str
    host: str  # of its first URI, when that was last looked at
    state: str
    precedence: int
    count: int = 0
    enqueued: int = 0
    failed: int = 0
    next_ordinal: int = 1
    head: bytes = b""  # of a row without `heads`: no URI of the queue sorts before it
    wake_ms: int = 0
    rest_reason: str = ""
    inactive_serial: int = 0
    far_ms: int = 0  # until when it is snoozed on disk; 0 if it is not
    expenditure: int = 0
    session_start: int = 0  # expenditure when it was activated
    session_budget: int | None = None  # its own, if somebody gave it one
    total_budget: int | None = None
    fixed_precedence: int | None = None
    paused: bool = False
    retiring: bool = False  # once its lease has ended
    retire_reason: str = ""
    successes: int = 0
    last_cost: int = 0
    total_cost: int = 0  # of all that was taken in
    uri_precedences: dict[int, int] = {}  # of its URIs → how many
    queue_ms: int = 0  # when a URI was last put into it
    lease_ms: int = 0  # when the last of its leases that have ended was given
    robots_serial: int = 0  # unused: older servers kept the number of a lease for a robots.txt
    heads: dict[int, int] = {}  # level that may have URIs (directive, precedence) → none has a lower ordinal
    woken_ms: int = 0  # when somebody last ended its rests
    robots_of: str = ""  # scheme and authority whose robots.txt was last tried for the next page
    robots_ms: int = 0  # when the lease for that was given

    def __post_init__(self) -> None:
        """Give a row that has none of them the heads that follow from its one head."""
        if self.head and self.count and not self.heads:
            first, ordinal = level_of(self.head), ordinal_of(self.head)
            levels = (directive << 8 | each for directive in range(1, 5) for each in self.uri_precedences)
            self.heads = {level: ordinal if level == first else 0 for level in levels if level >= first}
        self.head = b""

    @property
    def start(self) -> bytes:
        """A place that no URI of the queue sorts before."""
        return min((level_position(*each) for each in self.heads.items()), default=b"")


class SeenRow(Record):
    """What the crawl knows of a URI that it has taken in."""

    position: bytes  # where it is pending; empty when it is not
    fetch_status: int = 0
    disposition: str = ""  # of the last report that counted
    token_serial: int = 0  # of the lease of that report
    finish_ms: int = 0
    future_ms: int = 0  # when it will be put into its queue; 0 if it waits for no time
    interval_ms: int = 0  # until then from the last visit, by the adaptive policy
    etag: str = ""
    last_modified: str = ""
    digest: str = ""
    visits: int = 0  # that succeeded
    queue: bytes = b""  # where it is pending: behind its partition, the other half of the queue's id


class LeaseRow(Record):
    """A URI that is out at a node."""

    node: str
    session: str
    queue: bytes
    position: bytes  # of the pending URI (for robots.txt: of the URI that waits for it)
    fingerprint: bytes
    attempt: int
    lease_ms: int
    scheme: str = ""  # robots.txt: whose
    authority: str = ""
    groups: tuple[str, ...] = ()  # of hosts, that it counts for
    host: str = ""  # that it counts for, as memory calls it
    hard_ms: int = 0  # when it ends at the latest


class HostRow(Record):
    """How a host is treated, by all crawls."""

    next_allowed_ms: int = 0
    overloads: int = 0  # 429s and 503s in a row
    rest_reason: str = ""
    address: str = ""  # that answered last
    start_ms: int = (
        0  # of its last request, where it may answer several at once; or of its rest before a retry
    )
    duration_ms: int = 0  # of the last fetch that ended; likewise


class RobotsRow(Record):
    """What was seen of a robots.txt; each crawl judges it by its own settings (`authority.standing`)."""

    outcome: str  # of the last answer
    rules: str = ""  # the group that applies, cut; see `robots.group_for`
    fetch_ms: int = 0  # when it was last asked for
    expire_ms: int = 0  # unused: older servers stored one crawl's judgement for all
    attempts: int = 0  # since the last answer, that brought none
    next_try_ms: int = 0  # unused likewise
    fetch_status: int = 0
    token_crawl: int = 0  # the lease whose report came last
    token_serial: int = 0
    token_disposition: str = ""
    answer_ms: int = 0  # when the last answer came
    tries_ms: tuple[int, ...] = ()  # when those attempts ended, as far as that is kept
    report_ms: int = 0  # when a report of it last counted, whether or not it said anything
    token_partition: bytes = b""  # of that lease, as its token says it


class JobRow(Record):
    """Work in slices."""

    kind: str
    create_ms: int
    parameters: dict[str, str] = {}
    state: str = "RUNNING"
    finish_ms: int = 0
    cursor: bytes = b""
    done: int = 0  # looked at
    changed: int = 0
    total: int = 0  # to look at; 0 if that is not known
    findings: list[str] = []  # the first of them
    counts: dict[str, int] = {}


class ImportRow(Record):
    """What is to be taken in by a job."""

    record: bytes  # a candidate
    seen: bool = False  # it is only noted, not scheduled
    fetch_status: int = 0
    disposition: str = ""


class FetchStatisticsRow(Record):
    """What happened to the URIs of a host, or of a source (Heritrix's FetchStats)."""

    successes: int = 0
    failures: int = 0
    disregards: int = 0
    responses: int = 0
    robots_denials: int = 0
    success_bytes: int = 0
    response_bytes: int = 0
    non_responses: int = 0
    novel: int = 0
    novel_bytes: int = 0
    last_success_ms: int = 0

    def __post_init__(self) -> None:
        """Sums that were stored before they had an end are brought back to it."""
        self.success_bytes = min(self.success_bytes, MAX_SUM)
        self.response_bytes = min(self.response_bytes, MAX_SUM)
        self.novel_bytes = min(self.novel_bytes, MAX_SUM)


class EventRow(Record):
    """Something that happened to a crawl."""

    time_ms: int
    kind: str
    fields: dict[str, str | int]


class OutcomeRow(Record):
    """A final disposition, with what the crawl log says of it."""

    time_ms: int
    uri: str
    fetch_status: int
    disposition: str
    body_bytes: int = 0
    path: str = ""
    via: str = ""
    media_type: str = ""
    node: str = ""
    toe_number: int = 0
    start_ms: int = 0
    duration_ms: int = 0
    digest: str = ""
    annotations: tuple[str, ...] = ()
    source: str = ""


R = TypeVar("R", bound=Record)

_encoder = msgspec.msgpack.Encoder()
_decoders: dict[type[Record], msgspec.msgpack.Decoder[Any]] = {}


def encode(record: Record) -> bytes:
    """A record as it is stored."""
    return _VERSION + _encoder.encode(record)


def decode(kind: type[R], value: bytes) -> R:
    """A stored record of a known kind."""
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.msgpack.Decoder(kind)
    if value[:1] != _VERSION:
        raise OtherFormat(f"a {kind.__name__} has version {value[:1]!r}; this server knows {_VERSION!r}")
    try:
        record: R = decoder.decode(memoryview(value)[1:])
    except msgspec.DecodeError as problem:
        raise StoreCorrupt(f"a {kind.__name__} cannot be read: {problem}") from problem
    return record


class PendingUri(msgspec.Struct, frozen=True, gc=False):
    """A URI that waits or is out. `candidate` is the caller's message, untouched."""

    attempts: int  # that were reported or lapsed
    lapses: int
    cost: int
    precedence: int
    visited: bool  # before: the seen-set has what its server said then
    fingerprint: bytes  # fingerprint
    candidate: bytes
    deferrals: int = 0  # that were reported (-50), as long as they are free


MAX_COST = 255
_PENDING = struct.Struct(">BHBBB?8s")
_DEFERRED = struct.Struct(">BHBBB?8sB")  # version 2: of one that was put off


def encode_pending(uri: PendingUri) -> bytes:
    """A pending URI as it is stored: a fixed head, then the candidate."""
    head = uri.attempts, uri.lapses, uri.cost, uri.precedence, uri.visited, uri.fingerprint
    if uri.deferrals:
        return _DEFERRED.pack(2, *head, uri.deferrals) + uri.candidate
    return _PENDING.pack(1, *head) + uri.candidate


def decode_pending(value: bytes) -> PendingUri:
    """A stored pending URI."""
    if len(value) < _PENDING.size:
        raise StoreCorrupt(f"a pending URI of {len(value)} bytes; the head alone has {_PENDING.size}")
    version, attempts, lapses, cost, precedence, visited, fingerprint = _PENDING.unpack_from(value)
    layout, deferrals = _PENDING, 0
    if version == 2 and len(value) >= _DEFERRED.size:
        layout, deferrals = _DEFERRED, value[_PENDING.size]
    elif version != 1:
        raise OtherFormat(
            f"a pending URI of {len(value)} bytes has version {version}; this server knows 1 and 2"
        )
    candidate = value[layout.size :]
    return PendingUri(attempts, lapses, cost, precedence, visited, fingerprint, candidate, deferrals)
