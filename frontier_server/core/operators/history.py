"""The events and final dispositions of crawls, as far as they are kept."""

from collections.abc import Iterator
from itertools import islice

from ..opening.shard import Shard
from ..rows import keys
from ..rows.errors import CursorTooOld, InvalidRequest
from ..rows.records import EventRow, OutcomeRow, decode
from ..rows.store import Family, Store
from ..state.crawl import Crawl
from ..state.operation import EVENTS_KEPT

EVENTS_PER_READ = 200
_RENAMED_KINDS = {"figures": "statistics"}  # of events that an older version stored


class History:
    """Events and outcomes of crawls."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def event_time(self, name: str, sequence: int) -> int:
        """When an event happened; 0 if it is not kept."""
        crawl = self._shard.registry.named(name)
        value = self._shard.store.get(Family.EVENTS, keys.serial_key(crawl.number, sequence))
        return decode(EventRow, value).time_ms if value is not None else 0

    def check_event(self, name: str, sequence: int, read_ms: int) -> None:
        """Raise CursorTooOld unless the event that a reader has read is the one with that number here.

        `read_ms` is the time of that event; 0 if the reader does not know it.
        """
        last = self._shard.registry.named(name).counters.next_event - 1
        if read_ms and (sequence > last or self.event_time(name, sequence) not in (0, read_ms)):
            raise _other_history("event", sequence, max(last - EVENTS_KEPT + 1, 1))

    def events_after(self, name: str, sequence: int) -> list[tuple[int, EventRow]]:
        """Some events after a sequence number, as the function `events_after` returns them."""
        return events_after(self._shard.store, self._shard.registry.named(name), sequence)

    def outcomes(self, name: str, after: int, most: int) -> list[tuple[int, OutcomeRow]]:
        """Final dispositions after a number, as far as they are kept."""
        return outcomes_after(self._shard.store, self._shard.registry.named(name), after, most)

    def outcome_range(self, name: str) -> tuple[int, int]:
        """The numbers of the oldest outcome that is kept, and of the last."""
        counters = self._shard.registry.named(name).counters
        return counters.oldest_outcome, counters.next_outcome - 1

    def outcome_time(self, name: str, number: int) -> int:
        """When a final disposition was; 0 if it is not kept."""
        crawl = self._shard.registry.named(name)
        value = self._shard.store.get(Family.OUTCOMES, keys.serial_key(crawl.number, number))
        return decode(OutcomeRow, value).time_ms if value is not None else 0

    def check_outcome(self, name: str, number: int, read_ms: int) -> None:
        """Check a final disposition as `check_event` checks an event."""
        oldest, last = self.outcome_range(name)
        if read_ms and (number > last or self.outcome_time(name, number) not in (0, read_ms)):
            raise _other_history("outcome", number, oldest)


def _other_history(what: str, number: int, oldest: int) -> CursorTooOld:
    return CursorTooOld(
        f"{what} {number} is not the one that was read; the frontier may have gone back to a checkpoint, or "
        f"another crawl may have its name now; 'start' begins at the oldest {what} that is kept, {oldest}",
        oldest=str(oldest),
    )


def events_after(store: Store, crawl: Crawl, sequence: int) -> list[tuple[int, EventRow]]:
    """Events after a sequence number, in order; at most EVENTS_PER_READ at a time.

    Raises CursorTooOld if one of these events is no longer kept.
    """
    last = crawl.counters.next_event - 1
    if sequence > last:
        raise InvalidRequest(f"cursor must be at most the last event, {last}, got {sequence}", field="cursor")
    if sequence < last - EVENTS_KEPT:
        raise CursorTooOld(
            f"events after {sequence} are no longer kept; the oldest kept is {last - EVENTS_KEPT + 1}",
            oldest=str(last - EVENTS_KEPT + 1),
        )
    rows = _serial_rows(store, Family.EVENTS, crawl, sequence)
    return [(number, _event(value)) for number, value in islice(rows, EVENTS_PER_READ)]


def _event(value: bytes) -> EventRow:
    row = decode(EventRow, value)
    row.kind = _RENAMED_KINDS.get(row.kind, row.kind)
    return row


def outcomes_after(store: Store, crawl: Crawl, number: int, most: int) -> list[tuple[int, OutcomeRow]]:
    """Final dispositions after a number, in order. Raises CursorTooOld if one is no longer kept."""
    oldest, last = crawl.counters.oldest_outcome, crawl.counters.next_outcome - 1
    if number > last:
        raise InvalidRequest(f"cursor must be at most the last outcome, {last}, got {number}", field="cursor")
    if number < oldest - 1:
        raise CursorTooOld(
            f"outcomes after {number} are no longer kept; the oldest kept is {oldest}",
            oldest=str(oldest),
        )
    if crawl.unlogged and crawl.unlogged[0][0] <= number + 1:
        start = number + 1 - crawl.unlogged[0][0]
        return list(islice(crawl.unlogged, start, start + most))
    rows = _serial_rows(store, Family.OUTCOMES, crawl, number)
    return [(serial, decode(OutcomeRow, value)) for serial, value in islice(rows, most)]


def _serial_rows(store: Store, family: Family, crawl: Crawl, after: int) -> Iterator[tuple[int, bytes]]:
    prefix = keys.crawl_prefix(crawl.number)
    for key, value in store.scan(family, keys.serial_key(crawl.number, after + 1), prefix):
        yield keys.serial_of(key), value
