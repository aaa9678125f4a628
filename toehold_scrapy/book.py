"""The leases that this process holds. Thread-safe: its threads take in, extend and end them."""

import threading
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import Enum

from scrapy import Request

from toehold.frontier.v1.crawl_pb2 import FetchPolicy
from toehold.frontier.v1.frontier_pb2 import PURPOSE_ROBOTS, Candidate, Lease

from .fetches import FetchClock, SpiderFetch

MAX_HELD_PER_FETCH = 8
"""Most leases held for each fetch at once, pages that callbacks and pipelines still work on included."""


class SpiderStage(Enum):
    """How far a lease is."""

    WAITING = "ABOUT_TO_GET_URI"
    FETCHING = "FETCHING"
    PROCESSING = "EXTRACTING"


@dataclass(slots=True, eq=False)
class SpiderLease:
    """A lease in this process. `request` and what follows belong to the reactor's thread."""

    lease: Lease
    policy: FetchPolicy
    stage: SpiderStage = SpiderStage.WAITING
    ended: bool = False
    """The frontier has ended it: whatever is reported of it would come too late."""
    links_refused: bool = False
    """The frontier has not taken requests that were found on its page."""
    reported: bool = False
    """Its report is on its way."""
    request: Request | None = None
    """The request that Scrapy has for it."""
    clock: FetchClock = field(default_factory=FetchClock)
    fetch: SpiderFetch | None = None
    """How its fetch ended."""
    wants_whole: bool = False
    """A body that breaks off is an error to the spider."""
    hook_failed: bool = False
    """A callback or an item pipeline has raised an error on its page."""
    put_off: bool = False
    """The frontier will have it fetched again, so the spider is told nothing."""
    again: list[tuple[Request, Candidate]] = field(default_factory=list)
    """Requests for its own URI, which the frontier can take only after its report."""

    @property
    def is_robots(self) -> bool:
        """Whether it is for a robots.txt."""
        return self.lease.purpose == PURPOSE_ROBOTS


class Book:
    """All leases held, by token, and room for more: `max_fetches` may be fetched at once."""

    def __init__(self, max_fetches: int) -> None:
        self._changed = threading.Condition()
        self._held: dict[bytes, SpiderLease] = {}
        self._waiting: deque[SpiderLease] = deque()
        self.max_fetches = max_fetches
        self._closed = False

    def wait_for_room(self, timeout_s: float) -> int:
        """How many more leases can be used soon; waits for some. 0 if there was no room in that time."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._room() > 0, timeout_s)
            return 0 if self._closed else max(0, self._room())

    def add(self, arrived: Iterable[SpiderLease]) -> None:
        """Takes in leases. Those of pages wait; those of robots.txt files count as begun."""
        with self._changed:
            for held in arrived:
                self._held[held.lease.token] = held
                if held.is_robots:
                    held.stage = SpiderStage.FETCHING
                else:
                    self._waiting.append(held)

    def take(self) -> SpiderLease | None:
        """The next lease of a page to fetch."""
        with self._changed:
            if not self._waiting:
                return None
            held = self._waiting.popleft()
            held.stage = SpiderStage.FETCHING
            return held

    def has_waiting(self) -> bool:
        """Whether there is a lease to fetch."""
        return bool(self._waiting)

    def fetched(self, held: SpiderLease) -> None:
        """Notes that a fetch has ended, and the page is being worked on."""
        with self._changed:
            held.stage = SpiderStage.PROCESSING
            self._changed.notify_all()

    def settle(self, settled: Iterable[SpiderLease]) -> None:
        """Forgets leases: they have been reported, or are over."""
        with self._changed:
            for held in settled:
                self._held.pop(held.lease.token, None)
            self._changed.notify_all()

    def end(self, tokens: Collection[bytes]) -> None:
        """Notes that the frontier has ended leases. Those that wait are not fetched."""
        with self._changed:
            for token in tokens:
                held = self._held.get(token)
                if held is not None:
                    held.ended = True
                    if held in self._waiting:
                        self._waiting.remove(held)
                        del self._held[token]
            self._changed.notify_all()

    def withdraw(self, tokens: Collection[bytes] | None = None) -> list[SpiderLease]:
        """The leases among these (by default all) that wait: they will not be fetched, but are still held."""
        with self._changed:
            waiting = [held for held in self._waiting if tokens is None or held.lease.token in tokens]
            for held in waiting:
                self._waiting.remove(held)
            return waiting

    def begun(self, tokens: Collection[bytes]) -> list[SpiderLease]:
        """The leases among these whose fetch has begun."""
        with self._changed:
            named = (self._held.get(token) for token in tokens)
            return [held for held in named if held is not None and held.stage is not SpiderStage.WAITING]

    def tokens(self) -> list[bytes]:
        """The tokens of all leases held."""
        with self._changed:
            return list(self._held)

    def stages(self) -> dict[str, int]:
        """How many leases are at each stage."""
        with self._changed:
            counts = dict.fromkeys((stage.value for stage in SpiderStage), 0)
            for held in self._held.values():
                counts[held.stage.value] += 1
            return counts

    def resize(self, max_fetches: int) -> None:
        """Changes how many fetches there may be at once."""
        with self._changed:
            self.max_fetches = max_fetches
            self._changed.notify_all()

    def close(self) -> None:
        """No lease will be used any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _room(self) -> int:
        unfetched = sum(
            held.stage is not SpiderStage.PROCESSING and not held.reported for held in self._held.values()
        )
        return min(self.max_fetches - unfetched, MAX_HELD_PER_FETCH * self.max_fetches - len(self._held))
