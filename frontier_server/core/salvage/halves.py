"""Whose a row is when the crawls of a store are divided between two, and what each half then counts.

A row with a partition goes where its slot goes, and a lease's token with it. What many hosts share, or any
page may need, goes to both: rows of hosts, of robots.txt and of scope, overrides, and where seeds were led.
Rows that count the past, or that are numbered, go to the first half alone, so that sums over both halves stay
as they were.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from ..machines.lifecycle import CrawlState
from ..rows import keys
from ..rows.errors import StoreCorrupt
from ..rows.keys import STANDS_BACK, FetchStatisticsOf, IndexSet
from ..rows.records import CountersRow, JobRow, LeaseRow, QueueRow, StateRow, decode, decode_pending, encode
from ..rows.store import Family, Store
from ..spec.settings import CrawlSettings
from ..state.crawl import Crawl
from ..state.life import new_state_row
from ..state.model import CandidateCodec
from ..state.queue import QueueState
from ..uri.canonical import Malformed, TooLong, UnsupportedScheme, canonical

FIRST, SECOND, COORDINATOR = 0, 1, 2
BOTH = (FIRST, SECOND)
PARTITION_BYTES = 8

_PARTED = frozenset((Family.QUEUES, Family.PENDING, Family.SEEN, Family.KEPT_URIS, Family.LEASES))
_OF_A_WHOLE = frozenset((Family.SEEDS, Family.EVENTS, Family.JOBS))
_OF_BOTH = frozenset((Family.HOSTS, Family.OWN_HOSTS, Family.ROBOTS, Family.OVERRIDES))
_PARTITION_AT: Mapping[int, int] = {
    **dict.fromkeys((IndexSet.ACTIVE, IndexSet.RETIRED, IndexSet.INELIGIBLE), 5),
    **dict.fromkeys((IndexSet.LANE, IndexSet.LANE_HEAD), 5),
    **dict.fromkeys((IndexSet.FAR, IndexSet.FUTURE), 13),  # after a time
    IndexSet.NAME: 13,  # after the hash of a queue's key
    IndexSet.INACTIVE: -keys.QUEUE_BYTES,
}
_INDEX_OF_BOTH = frozenset((IndexSet.SCOPE, IndexSet.LED, IndexSet.LANDED))
_HOST_AT = 13  # the name in the key of a host's statistics
# The numbers that a half goes on with; of the second, those of its events, outcomes and logs begin anew.
_SERIALS = (
    "next_lease",
    "next_job",
    "next_inactive",
    "next_seed",
    "announced_seeds",
    "sum_changes",
    "told_ms",
)


def partition_of(family: Family, key: bytes) -> bytes:
    """The partition that a row of a crawl's URIs is in; empty for other rows."""
    if family in _PARTED:
        return key[4:12]
    if family is Family.INDEX:
        at = _PARTITION_AT.get(key[4])
        return b"" if at is None else key[at:][:PARTITION_BYTES]
    return b""


class Halves:
    """Whose the rows of a crawl, and of hosts, are."""

    def __init__(
        self,
        is_second: Callable[[bytes], bool],
        is_here: Callable[[bytes], bool],
        crawls: Mapping[int, Crawl],
        undivided: bool,
    ) -> None:
        """`is_second` tells whether a partition belongs to the second half, `is_here` whether it belongs to
        one of them. `crawls` have their overrides."""
        self._is_second, self._is_here = is_second, is_here
        self._crawls = crawls
        self._undivided = undivided

    def of(self, family: Family, key: bytes) -> tuple[int, ...]:
        """The owners of a row of any family but that of crawls: one half, both, or, if the frontier was
        undivided, its coordinator."""
        if self._undivided and family in _OF_A_WHOLE:
            return (COORDINATOR,)
        if self._undivided and family is Family.OVERRIDES:
            return (*BOTH, COORDINATOR)
        partition = partition_of(family, key)
        if partition:
            return (SECOND,) if self._is_second(partition) else (FIRST,)
        if family in _OF_BOTH or (family is Family.INDEX and key[4] in _INDEX_OF_BOTH):
            return BOTH
        if family is Family.FETCH_STATISTICS and key[4] == FetchStatisticsOf.HOST:
            return self._of_host(int.from_bytes(key[:4], "big"), key[_HOST_AT:])
        return (FIRST,)

    def _of_host(self, number: int, name: bytes) -> tuple[int, ...]:
        """Where the pages of a host are in a crawl, which may be elsewhere than the host's own rows. Of some
        hosts, a rewrite brings a part of the pages into another shard."""
        crawl = self._crawls.get(number)
        try:
            uri = canonical(f"http://{name.decode()}/page")
        except (UnicodeDecodeError, Malformed, TooLong, UnsupportedScheme):
            return (FIRST,)
        if crawl is None:
            return (FIRST,)
        partition = crawl.origins.site(uri, crawl.settings_for(uri)).place.partition
        return (SECOND,) if self._is_here(partition) and self._is_second(partition) else (FIRST,)


class Recount(msgspec.Struct):
    """The counters of a crawl that follow from its rows."""

    discovered: int = 0
    queued: int = 0
    retired_uris: int = 0
    ineligible_uris: int = 0
    future: int = 0
    active_queues: int = 0
    inactive: dict[int, int] = {}  # rank → queues
    queues: dict[str, int] = {}  # other states on disk → queues

    def plus(self, other: "Recount") -> "Recount":
        """The sum of both."""
        return Recount(
            **{name: _sum(getattr(self, name), getattr(other, name)) for name in self.__struct_fields__}
        )

    def differences(self, counters: "CountersRow | Recount") -> list[str]:
        """Where these differ from others, in words."""
        return [
            f"{name} must be {getattr(self, name)}, got {getattr(counters, name)}"
            for name in self.__struct_fields__
            if getattr(self, name) != getattr(counters, name)
        ]


def recount(store: Store, number: int) -> Recount:
    """Count the rows of a crawl. Raises StoreCorrupt."""
    prefix = keys.crawl_prefix(number)
    found = Recount(discovered=sum(1 for _ in store.scan(Family.SEEN, prefix, prefix)))
    for _, value in store.scan(Family.QUEUES, prefix, prefix):
        row = decode(QueueRow, value)
        if row.state == QueueState.RETIRED.value:
            found.retired_uris += row.count
        else:
            found.queued += row.count
        if row.state == QueueState.INELIGIBLE.value and not row.paused:
            found.ineligible_uris += row.count
        if row.state == QueueState.EXHAUSTED.value:
            _one_more(found.queues, row.state)
    for key, _ in store.scan(Family.INDEX, prefix, prefix):
        index = key[4]
        if index == IndexSet.FUTURE:
            found.future += 1
        elif index == IndexSet.ACTIVE:
            found.active_queues += 1
        elif index == IndexSet.INACTIVE:
            _one_more(found.inactive, _rank_in(key))
        elif index in _STATE_OF_SET:
            _one_more(found.queues, _STATE_OF_SET[index])
    return found


_STATE_OF_SET: Mapping[int, str] = {
    IndexSet.FAR: QueueState.SNOOZED.value,
    IndexSet.RETIRED: QueueState.RETIRED.value,
    IndexSet.INELIGIBLE: QueueState.INELIGIBLE.value,
}


def to_revisit(store: Store, crawl: Crawl, codec: CandidateCodec) -> int:
    """How many of a crawl's known pages wait that its present recrawl fetches again."""
    prefix = keys.crawl_prefix(crawl.number)
    future = keys.set_prefix(crawl.number, IndexSet.FUTURE)
    scans = (store.scan(Family.PENDING, prefix, prefix), store.scan(Family.INDEX, future, future))
    try:
        return sum(
            crawl.revisits(codec.decode(decode_pending(value).candidate))
            for rows in scans
            for _, value in rows
        )
    except ValueError as problem:
        raise StoreCorrupt(f"crawl {crawl.name}: a URI that waits cannot be read: {problem}") from problem


def led_row(family: Family, value: bytes) -> bytes:
    """A row of a crawl that was undivided, as the coordinator has it. A job was somewhere in a store, and has
    ended there; the coordinator's jobs are in parts."""
    return encode(replace(decode(JobRow, value), cursor=b"")) if family is Family.JOBS else value


def halved_counters(
    whole: CountersRow, recounts: tuple[Recount, Recount], revisits: int
) -> tuple[CountersRow, CountersRow]:
    """The counters of both halves. `revisits` is `to_revisit` of the second."""
    ours, theirs = recounts
    discovered = whole.told.get("discovered", 0)
    first = replace(
        whole, **_counted(ours), told={**whole.told, "discovered": discovered - theirs.discovered}
    )
    second = CountersRow(
        **{name: getattr(whole, name) for name in _SERIALS},
        **_counted(theirs),
        told={"discovered": theirs.discovered},
    )
    revisits = min(revisits, whole.to_revisit - whole.revisited)
    first.to_revisit, second.to_revisit = whole.to_revisit - revisits, revisits
    second.kept_room = min(revisits, whole.kept_room)
    first.kept_room = whole.kept_room - second.kept_room
    return first, second


class Out(NamedTuple):
    """The leases that are out."""

    leases: int
    pages: int  # those of them that are no fetches of robots.txt


def leases_out(store: Store, number: int) -> Out:
    """Count the leases of a crawl."""
    prefix = keys.crawl_prefix(number)
    rows = [decode(LeaseRow, value) for _, value in store.scan(Family.LEASES, prefix, prefix)]
    return Out(len(rows), sum(not row.scheme for row in rows))


def halved_states(whole: StateRow, out: Out) -> tuple[StateRow, StateRow]:
    """The lives of both halves. `out` is what the second has out: so much of what the crawl may fetch is lent
    to it, and the rest to the first. Whoever leads the crawl divides that anew."""
    documents, toes = min(out.pages, whole.documents_lent), min(out.leases, whole.toes_lent)
    first = replace(whole, documents_lent=whole.documents_lent - documents, toes_lent=whole.toes_lent - toes)
    return first, replace(whole, documents_lent=documents, toes_lent=toes)


def led_state(whole: StateRow, settings: CrawlSettings, create_ms: int) -> StateRow:
    """The life of a crawl that was undivided, as a part that a coordinator leads from now on."""
    row = new_state_row(create_ms) if whole.state == CrawlState.PREPARING.value else replace(whole)
    row.order = 1  # the first coordinator's orders come after it
    row.documents_lent, row.toes_lent = settings.limits.max_documents, settings.max_toes
    row.deleted, row.bound = whole.deleted, whole.bound
    return row


def led_counters(whole: CountersRow) -> tuple[CountersRow, CountersRow]:
    """The counters of a crawl that was undivided: those of all its parts, and those of its coordinator."""
    of_parts = replace(whole, **dict.fromkeys(("next_event", "next_seed", "next_job"), 1))
    of_parts.announced_seeds = of_parts.job_log_event = of_parts.job_log_bytes = 0
    of_whole = replace(whole, next_outcome=1, oldest_outcome=1, logged_outcome=0, log_bytes=0)
    of_whole.active_queues, of_whole.inactive = 0, {}
    return of_parts, of_whole


def _counted(found: Recount) -> dict[str, Any]:
    return {name: getattr(found, name) for name in found.__struct_fields__}


def _rank_in(key: bytes) -> int:
    """The rank in the key of an inactive queue (see `keys.rank_prefix`)."""
    stands_back = key[5] == 255 and key[6] == 128
    return key[7] + STANDS_BACK if stands_back else key[5]


def _one_more(counts: Any, of: int | str) -> None:
    counts[of] = counts.get(of, 0) + 1


def _sum(one: Any, other: Any) -> Any:
    if isinstance(one, int):
        return one + other
    return {each: one.get(each, 0) + other.get(each, 0) for each in one | other}
