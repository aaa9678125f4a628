"""The values of all rows: a version byte, then MessagePack of the fields in order.

To change a record, add new fields at its end, with a default (older rows then still decode).
Any other change takes a new version byte, and a `decode` that knows both.

FORMAT is that of the whole store. A release that changes any record, or adds a family, raises
it: an older server would drop the new fields when it writes their rows again. A server opens
stores since OLDEST_FORMAT, and marks them with its own. Every version must be able to read
the first field of the server's row, and reads it first: an unknown version byte in any row is
damage.
"""

import struct
from typing import Any, TypeVar

import msgspec

from .errors import StoreCorrupt
from .keys import level_of, level_position, ordinal_of
from .sums import MAX_SUM

FORMAT = 3
OLDEST_FORMAT = 2
_VERSION = b"\x01"


class Record(msgspec.Struct, array_like=True, gc=False):
    """A row's value: numbers, texts and tables of them, so the garbage collector can skip it."""


class ServerRow(Record):
    """The server as a whole."""

    format: int
    secret: bytes  # tags lease tokens
    next_crawl: int = 1  # crawl numbers are never used again
    time_ms: int = 0  # the server's clock is never below it
    pool_sizes: dict[str, int] = {}  # node → toe threads that it should have; "": all other nodes
    boot: str = ""  # id of the machine's boot at the server's last start
    boot_ms: int = 0  # the server's time at that boot
    version: str = ""  # Toehold's, of the last server that wrote to the store
    term: int = 0  # how often a coordinator has begun to lead
    # A coordinator's salvage may have lost the crawls in these ranges of numbers; shards keep their parts.
    spared: list[tuple[int, int]] = []


class PlacesRow(Record):
    """What the places of all rows follow, for ever. Written once."""

    suffixes: bytes  # the list of public suffixes, packed (see `uri.suffixes`)
    by_site: bool  # whether partitions begin with bits of the site; not in stores from before format 3


class SessionRow(Record):
    """The session that has a node's name."""

    session: str  # the last accepted one
    last_seen_ms: int  # when it was accepted, or (to a minute) last seen
    superseded: list[bytes] = []  # hashes of earlier sessions, the latest last
    left: bool = False  # it has said goodbye
    forgotten: bool = False  # an operator had it removed from listings


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
    running_since_ms: int = 0  # 0 while the crawl's clock stands
    elapsed_ms: int = 0  # until then, without pauses
    deleted: bool = False
    round: int = 0  # how often the seeds have been announced anew
    round_ms: int = 0  # when the last round began
    reason: str = ""  # the problem that led to this state, or ""
    interrupt_ms: int = 0  # when a second stop was asked for
    cancelled: int = 0  # number of the request for which the leases were cancelled
    tearing_down: bool = False
    torn_down: bool = False
    deleted_to: bytes = b""  # how far its deletion has come
    nodes: dict[str, str] = {}  # nodes that fetch for it → their sessions
    trouble: str = ""  # passing trouble that has paused it: "disk-reserve" or "node:NAME"
    # Whether a caller that may act on some crawls only has fetched for it: what such a caller says of hosts
    # counts for this crawl alone, in rows of its own.
    bound: bool = False
    scope_changed: bool = False  # whether URIs may wait that another scope has let in
    recrawl_ms: int = 0  # known pages fetched before are fetched again; 0: it was never crawled again
    elapsed_before_ms: int = 0  # of earlier crawls, which limits do not count
    no_seed_fetched: bool = False  # it has ended, and its seeds have redirected elsewhere or failed
    order: int = 0  # number of the last order of whoever leads it; 0: nobody does
    documents_lent: int = 0  # what it may fetch of the whole crawl's document limit, if somebody leads it
    toes_lent: int = 0  # likewise of `max_toes`
    heard: dict[int, int] = {}  # part of the crawl → the last of its events that is among the crawl's own
    why_left: dict[str, str] = {}  # nodes of it that have left some of its parts → why
    # Part of the crawl → the number of the first link that waits for it, and the number of the next to come.
    parked: dict[int, tuple[int, int]] = {}
    parts_copied: bool = False  # its parts have what a checkpoint has of them; its own rows follow
    suspicion: tuple[str, ...] = ()  # the kind and text of the problem that pauses it once it is seeded


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
    log_bytes: int = 0  # the log's length with them
    discovered: int = 0
    queued: int = 0
    succeeded: int = 0
    failed: int = 0
    disregarded: int = 0
    deferred: int = 0
    lapsed: int = 0
    robots_fetches: int = 0
    bytes: int = 0
    novel: int = 0  # successes whose content differs from that of the last visit
    novel_bytes: int = 0
    relocated: int = 0
    retired_uris: int = 0  # in retired queues; not counted as queued
    ineligible_uris: int = 0  # in queues at or over the precedence floor; counted as queued, too
    future: int = 0  # URIs that wait for their time
    active_queues: int = 0
    inactive: dict[int, int] = {}  # rank → queues
    queues: dict[str, int] = {}  # other states on disk → queues
    announced_seeds: int = 0
    fetch_statuses: dict[int, int] = {}
    verdicts: dict[str, int] = {}
    media_types: dict[str, int] = {}
    sum_changes: int = 0  # changes of the sums that a verification recounts
    told: dict[str, int] = {}  # sums over the events of statistics so far
    told_ms: int = 0  # when the last of these events was
    job_log_event: int = 0  # events up to this one are durable in the job log
    job_log_bytes: int = 0  # the log's length with them
    noted: int = 0  # URIs noted as seen without a lease
    refused: dict[str, int] = {}  # rule → candidates that it refused
    annotations: dict[str, int] = {}  # remark of a node → outcomes that have it
    seed_statuses: dict[int, int] = {}  # fetch status → final dispositions of seeds
    succeeded_before: int = 0  # of earlier crawls, which limits do not count
    bytes_before: int = 0  # likewise
    to_revisit: int = 0  # known pages that the present recrawl fetches again
    revisited: int = 0  # those of them that have their final disposition
    kept_room: int = 0  # those that the document limit is kept for: new pages must leave room for them
    connections: int = 0  # that fetchers made
    tls_handshakes: int = 0
    kept_connections: int = 0  # requests over connections that earlier fetches had left


class QueueRow(Record):
    """A work queue."""

    key: str
    host: str  # of its first URI, as of the last look
    state: str
    precedence: int
    count: int = 0
    enqueued: int = 0
    failed: int = 0
    next_ordinal: int = 1
    head: bytes = b""  # in rows without `heads`: no URI of the queue sorts before it
    wake_ms: int = 0
    rest_reason: str = ""
    inactive_serial: int = 0
    far_ms: int = 0  # until when it is snoozed on disk; 0 if it is not
    expenditure: int = 0
    session_start: int = 0  # expenditure when it was activated
    session_budget: int | None = None  # set by an operator
    total_budget: int | None = None
    fixed_precedence: int | None = None
    paused: bool = False
    retiring: bool = False  # it will be retired when its lease has ended
    retire_reason: str = ""
    successes: int = 0
    last_cost: int = 0
    total_cost: int = 0  # of all URIs ever put into it
    uri_precedences: dict[int, int] = {}  # precedence → URIs
    queue_ms: int = 0  # when a URI was last put into it
    lease_ms: int = 0  # when the last of its ended leases was given
    robots_serial: int = 0  # unused: older servers stored a robots.txt's lease here
    heads: dict[int, int] = {}  # level (directive, precedence) with URIs → a lower bound of their ordinals
    woken_ms: int = 0  # when an operator last ended its rests
    robots_of: str = ""  # scheme and authority whose robots.txt was last tried for the next page
    robots_ms: int = 0  # when that lease was given
    forced: bool = False  # callers chose its key for URIs of it, so these may be of several hosts
    min_gap_ms: int | None = None  # set by an operator
    authorities_rest: bool = True  # an authority of it may rest before a retry (older rows do not tell)
    filed: bytes = b""  # up to this position all URIs are in the lanes of their authorities
    stands_back: bool = False  # inactive: it has new pages only, and known ones need the rest of the limit

    def __post_init__(self) -> None:
        """Convert the single head of an older row to heads."""
        if self.head and self.count and not self.heads:
            first, ordinal = level_of(self.head), ordinal_of(self.head)
            levels = (directive << 8 | each for directive in range(1, 5) for each in self.uri_precedences)
            self.heads = {level: ordinal if level == first else 0 for level in levels if level >= first}
        self.head = b""

    @property
    def start(self) -> bytes:
        """A position with no URI of the queue before it."""
        return min((level_position(*each) for each in self.heads.items()), default=b"")


class SeenRow(Record):
    """A URI that the crawl has taken in."""

    position: bytes  # where it is pending; empty if it is not
    fetch_status: int = 0
    disposition: str = ""  # of the last report that counted
    token_serial: int = 0  # of that report's lease
    finish_ms: int = 0
    future_ms: int = 0  # when a future URI will be put into its queue; otherwise 0
    interval_ms: int = 0  # from the last visit until then, by the adaptive policy
    etag: str = ""
    last_modified: str = ""
    digest: str = ""
    visits: int = 0  # successful ones
    queue: bytes = b""  # where it is pending: the second half of the queue's id, after the partition
    reason: str = ""  # why the last visit failed, for people
    # The number in its crawl of the last lease whose redirect had this identity fetched again.
    redirect: int = 0
    capture_ms: int = 0  # the date of the record that archives its page; 0: there is none
    capture_uri: str = ""  # the URI of that record, if identity rules give it several spellings


class KeptRow(Record):
    """The URI of a row of the seen-set, for a crawl that keeps them."""

    uri: str
    create_ms: int  # when the crawl took it in
    queue_key: str = ""  # set if its caller chose it


class RefusalRow(Record):
    """An example of a URI that a rule refused."""

    serial: int  # among the examples of the rule
    uri: str
    via: str
    path: str
    refuse_ms: int


class LeaseRow(Record):
    """A URI that is out at a node."""

    node: str
    session: str
    queue: bytes
    position: bytes  # of the pending URI (for a robots.txt: of the URI that waits for it)
    fingerprint: bytes
    attempt: int
    lease_ms: int
    scheme: str = ""  # only for a robots.txt
    authority: str = ""  # likewise
    groups: tuple[str, ...] = ()  # the groups of hosts that it counts for
    host: str = ""  # the host that it counts for, by its name in memory
    hard_ms: int = 0  # when it ends at the latest
    target: bytes = b""  # the candidate that its page redirects to, if it is the same URI by its identity
    bound: bool = False  # whether its caller may act on some crawls only
    cost: int = 1  # of its URI, to its queue's total budget
    known: bool = False  # whether a recrawl fetches its page again


class HostRow(Record):
    """The state of a host, shared by all crawls."""

    next_allowed_ms: int = 0
    overloads: int = 0  # 429s and 503s in a row
    rest_reason: str = ""
    address: str = ""  # the one that answered last
    start_ms: int = 0  # of its last request, if requests may overlap; or of its rest before a retry
    duration_ms: int = 0  # of the last fetch that ended; likewise
    strain: int = 100  # percent of the usual rest that it gets, if rests are adaptive
    usual_ms: int = 0  # its usual duration of an answer; likewise
    unanswered: bytes = b""  # the hashes of the last URIs in a row that it has left without an answer


class RobotsRow(Record):
    """Observations of a robots.txt; each crawl judges them by its own settings (`authority.standing`)."""

    outcome: str  # of the last answer
    rules: str = ""  # the group for us, cut; see `robots.group_for`
    fetch_ms: int = 0  # when it was last asked for
    expire_ms: int = 0  # unused: older servers stored one crawl's judgement for all
    attempts: int = 0  # failed ones since the last answer
    next_try_ms: int = 0  # unused likewise
    fetch_status: int = 0
    token_crawl: int = 0  # this and the next two: the lease of the last report
    token_serial: int = 0
    token_disposition: str = ""
    answer_ms: int = 0  # when the last answer came
    tries_ms: tuple[int, ...] = ()  # when the failed attempts ended; old ones are dropped
    report_ms: int = 0  # when a report last counted, with or without an answer
    token_partition: bytes = b""  # of the last report's lease, as in its token
    reason: str = ""  # why the last fetch brought no answer, for people


class JobRow(Record):
    """Work in slices."""

    kind: str
    create_ms: int
    parameters: dict[str, str] = {}
    state: str = "RUNNING"
    finish_ms: int = 0
    cursor: bytes = b""
    done: int = 0  # rows that it has looked at
    changed: int = 0
    total: int = 0  # rows to look at; 0 if unknown
    findings: list[str] = []  # the first ones
    counts: dict[str, int] = {}


class ImportRow(Record):
    """An entry of an import."""

    record: bytes  # a candidate
    seen: bool = False  # note it as seen; otherwise schedule it
    fetch_status: int = 0
    disposition: str = ""


class FetchStatisticsRow(Record):
    """Counts of the URIs of a host, or of a source (Heritrix's FetchStats)."""

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
        """Bring sums of older servers, which had no end, within bounds."""
        self.success_bytes = min(self.success_bytes, MAX_SUM)
        self.response_bytes = min(self.response_bytes, MAX_SUM)
        self.novel_bytes = min(self.novel_bytes, MAX_SUM)


class EventRow(Record):
    """An event of a crawl."""

    time_ms: int
    kind: str
    fields: dict[str, str | int]


class OutcomeRow(Record):
    """A final disposition, with all columns of its line in the crawl log."""

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
    reason: str = ""  # why it failed, for people


R = TypeVar("R", bound=Record)

_encoder = msgspec.msgpack.Encoder()
_decoders: dict[type[Record], msgspec.msgpack.Decoder[Any]] = {}


def encode(record: Record) -> bytes:
    return _VERSION + _encoder.encode(record)


def decode(kind: type[R], value: bytes) -> R:
    """A record from bytes."""
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.msgpack.Decoder(kind)
    if value[:1] != _VERSION:
        raise StoreCorrupt(f"a {kind.__name__} must have version {_VERSION!r}, got {value[:1]!r}")
    try:
        record: R = decoder.decode(memoryview(value)[1:])
    except msgspec.DecodeError as problem:
        raise StoreCorrupt(f"a {kind.__name__} cannot be read: {problem}") from problem
    return record


class PendingUri(msgspec.Struct, frozen=True, gc=False):
    """A URI that waits or is out. `candidate` is the caller's message, untouched."""

    attempts: int  # reported or lapsed ones
    lapses: int
    cost: int
    precedence: int
    visited: bool  # it has succeeded before: the seen-set has its validators
    fingerprint: bytes
    candidate: bytes
    deferrals: int = 0  # reported ones (-50), while they are free
    lane: bytes = b""  # of its authority (see `lanes`), in a queue shared by several


MAX_COST = 255
_PENDING = struct.Struct(">BHBBB?8s")
_DEFERRED = struct.Struct(">BHBBB?8sB")  # version 2, with deferrals
_FILED = struct.Struct(">BHBBB?8sB8s")  # version 3, with a lane, too


def encode_pending(uri: PendingUri) -> bytes:
    """A pending URI in bytes: a fixed head, then the candidate."""
    head = uri.attempts, uri.lapses, uri.cost, uri.precedence, uri.visited, uri.fingerprint
    if uri.lane:
        return _FILED.pack(3, *head, uri.deferrals, uri.lane) + uri.candidate
    if uri.deferrals:
        return _DEFERRED.pack(2, *head, uri.deferrals) + uri.candidate
    return _PENDING.pack(1, *head) + uri.candidate


def decode_pending(value: bytes) -> PendingUri:
    """A pending URI from bytes."""
    if len(value) < _PENDING.size:
        raise StoreCorrupt(f"a pending URI must have at least {_PENDING.size} bytes, got {len(value)}")
    version, attempts, lapses, cost, precedence, visited, fingerprint = _PENDING.unpack_from(value)
    layout, deferrals, lane = _PENDING, 0, b""
    if version == 2 and len(value) >= _DEFERRED.size:
        layout, deferrals = _DEFERRED, value[_PENDING.size]
    elif version == 3 and len(value) >= _FILED.size:
        layout, deferrals, lane = _FILED, value[_PENDING.size], value[_DEFERRED.size : _FILED.size]
    elif version != 1:
        raise StoreCorrupt(f"a pending URI must have version 1 to 3, got {version} with {len(value)} bytes")
    candidate = value[layout.size :]
    return PendingUri(attempts, lapses, cost, precedence, visited, fingerprint, candidate, deferrals, lane)
