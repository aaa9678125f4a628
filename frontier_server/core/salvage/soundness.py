"""Which rows of a damaged store can be used, each judged by itself: its key has its parts, and its value can
be read.

What a row says may still be wrong. Rows of URIs that wait also need their crawl's settings, so `rebuild`
judges those where it reads them.
"""

from collections.abc import Mapping

from ..machines.lifecycle import CrawlState, ExitStatus
from ..machines.target import Reached, Target
from ..rows.errors import StoreCorrupt
from ..rows.keys import IndexSet
from ..rows.records import (
    CountersRow,
    EventRow,
    FetchStatisticsRow,
    HostRow,
    ImportRow,
    JobRow,
    KeptRow,
    OutcomeRow,
    QueueRow,
    Record,
    RefusalRow,
    RobotsRow,
    SeenRow,
    StateRow,
    decode,
)
from ..rows.store import Family
from ..rows.sums import MAX_SUM
from ..state.job import ENDED, JobKind, JobState
from ..state.model import CandidateCodec
from ..state.queue import QueueState
from ..uri.canonical import canonical

# The bytes of a family's keys, and whether a text follows them.
_KEYS: Mapping[Family, tuple[int, bool]] = {
    Family.SEEDS: (12, False),
    Family.QUEUES: (20, False),
    Family.PENDING: (28, False),
    Family.SEEN: (20, False),
    Family.HOSTS: (8, True),
    Family.OWN_HOSTS: (12, True),
    Family.ROBOTS: (8, True),
    Family.EVENTS: (12, False),
    Family.OUTCOMES: (12, False),
    Family.JOBS: (12, False),
    Family.IMPORTS: (20, False),
    Family.FETCH_STATISTICS: (13, True),
    Family.OVERRIDES: (4, True),
    Family.KEPT_URIS: (20, False),
}
_RECORDS: Mapping[Family, type[Record]] = {
    Family.QUEUES: QueueRow,
    Family.SEEN: SeenRow,
    Family.HOSTS: HostRow,
    Family.OWN_HOSTS: HostRow,
    Family.ROBOTS: RobotsRow,
    Family.EVENTS: EventRow,
    Family.OUTCOMES: OutcomeRow,
    Family.JOBS: JobRow,
    Family.IMPORTS: ImportRow,
    Family.FETCH_STATISTICS: FetchStatisticsRow,
    Family.KEPT_URIS: KeptRow,
}
_SCOPE_KEY_BYTES = 21
_FUTURE_KEY_BYTES = 29
_LED_KEY_BYTES = 13
_LANDED_KEY_BYTES = 21
# Numbers of nodes and operators that may be below 0.
_SIGNED = frozenset(
    ("fetch_status", "toe_number", "start_ms", "duration_ms", "body_bytes", "session_budget", "total_budget")
)
_MOST = {
    **dict.fromkeys(("precedence", "fixed_precedence"), 2**8 - 1),
    **dict.fromkeys(("next_ordinal", "enqueued"), 2**48 - 1),
    **dict.fromkeys(("token_serial", "robots_serial"), 2**64 - 1),  # they begin with the bits of a start
}
_RULE_AT = 6  # the text of a rule in the key of an example, after its length


def is_sound(family: Family, key: bytes, value: bytes, codec: CandidateCodec) -> bool:
    """Whether a row of a family, other than those of crawls and leases, can be used."""
    try:
        if family is Family.INDEX:
            return _is_sound_in_index(key, value)
        return _has_its_parts(family, key) and _can_be_read(family, value, codec)
    except (StoreCorrupt, ValueError):
        return False


def read_state(value: bytes) -> StateRow:
    """The life of a crawl. Raises StoreCorrupt or ValueError."""
    row = decode(StateRow, value)
    _check_numbers(row)
    CrawlState(row.state)
    ExitStatus(row.exit_status)
    Target(row.target)
    if row.reached:
        Reached(row.reached)
    return row


def read_counters(value: bytes) -> CountersRow:
    """The counters of a crawl. Raises StoreCorrupt or ValueError."""
    row = decode(CountersRow, value)
    _check_numbers(row)
    return row


def read_job(value: bytes) -> JobRow:
    """A job. Raises StoreCorrupt or ValueError."""
    row = decode(JobRow, value)
    if JobKind(row.kind) is JobKind.RESTORE and JobState(row.state).value not in ENDED:
        int(row.parameters.get("crawl", ""))
        if not row.parameters.get("checkpoint"):
            raise ValueError("a job that restores a crawl must name its checkpoint")
    return row


def _has_its_parts(family: Family, key: bytes) -> bool:
    size, has_text = _KEYS[family]
    key[size:].decode()
    return len(key) > size if has_text else len(key) == size


def _can_be_read(family: Family, value: bytes, codec: CandidateCodec) -> bool:
    if family is Family.SEEDS:
        value.decode()
    if family is Family.JOBS:
        read_job(value)
    kind = _RECORDS.get(family)
    if kind is None:
        return True
    row = decode(kind, value)
    _check_numbers(row)
    if isinstance(row, QueueRow):
        QueueState(row.state)
    elif isinstance(row, ImportRow):
        codec.decode(row.record)
    elif isinstance(row, KeptRow):
        canonical(row.uri)
    return True


def _check_numbers(row: Record) -> None:
    """Raise ValueError for a time, serial number or count that no server stores: keys are made of some."""
    for name in row.__struct_fields__:
        number, most = getattr(row, name), _MOST.get(name, MAX_SUM)
        if isinstance(number, int) and name not in _SIGNED and not 0 <= number <= most:
            raise ValueError(f"{name} must be between 0 and {most}, got {number}")


def _is_sound_in_index(key: bytes, value: bytes) -> bool:
    index = key[4]
    if index == IndexSet.SCOPE:
        return len(key) == _SCOPE_KEY_BYTES
    if index == IndexSet.FUTURE:
        return len(key) == _FUTURE_KEY_BYTES
    if index == IndexSet.LED:
        return len(key) == _LED_KEY_BYTES and bool(canonical(value.decode()).uri)
    if index == IndexSet.LANDED:
        return len(key) == _LANDED_KEY_BYTES
    if index == IndexSet.REFUSED and len(key) > _RULE_AT:
        end = _RULE_AT + key[_RULE_AT - 1]
        key[_RULE_AT:end].decode()
        decode(RefusalRow, value)
        return len(key) == end + 1
    return False
