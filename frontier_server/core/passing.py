"""Queues shared by several hosts: URIs of other hosts pass a URI whose host must wait.

A walk looks for the first URI that need not wait. Memory (`queue.Passing`) keeps the end of the walk, the
authorities that must wait, and the first URI of each. So each URI is looked at once; when an authority need
no longer wait, the walk goes back to its first URI.
"""

from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

from .line import Awaited
from .queue import Held, Passing, WorkQueue
from .records import PendingUri
from .spec.settings import CrawlSettings

H = TypeVar("H")

MAX_HELD = 1_000  # waiting authorities; with so many, the whole queue waits
_NOBODY = Held(0, "", b"")
_SHARING = frozenset(("registered-domain", "buckets"))


class Wait(NamedTuple):
    """The wait of an authority: until a time, or for a busy host, group or robots.txt."""

    until_ms: int  # 0 if only `busy` counts
    reason: str = ""
    busy: Awaited | None = None


def shares(queue: WorkQueue, settings: CrawlSettings) -> bool:
    """Whether a queue may contain URIs of several hosts, schemes or ports."""
    return settings.queues.assignment in _SHARING or bool(settings.queues.queue_key) or queue.row.forced


class Walk(Generic[H]):
    """A walk along a queue."""

    def __init__(
        self,
        uris_from: Callable[[bytes], Iterator[tuple[bytes, PendingUri]]],
        read: Callable[[bytes, PendingUri], H],
        authority_of: Callable[[H], str],
        wait_of: Callable[[H], Wait | None],
    ) -> None:
        self._uris_from = uris_from
        self._read = read
        self._authority_of = authority_of
        self._wait_of = wait_of

    def choose(self, queue: WorkQueue, now_ms: int, most: int) -> tuple[H | None, Wait | None, int]:
        """Find the first URI that need not wait. Returns it, the wait if all wait, and the URIs looked at.

        Both are None if `most` URIs were looked at without result: the next call goes on from there.
        """
        passing = queue.passing or Passing()
        passing.let_in(now_ms)
        looked, busy = 0, None
        for position, pending in self._uris_from(passing.walked):
            if looked == most:
                queue.passing = passing
                return None, None, looked
            looked += 1
            passing.walked = position
            head = self._read(position, pending)
            authority = self._authority_of(head)
            held = passing.held.get(authority)
            if held is not None:
                if position < held.position:  # it came later, and is more urgent
                    passing.held[authority] = held._replace(position=position)
                continue
            wait = self._wait_of(head)
            if wait is None:
                queue.passing = passing if passing.held else None
                return head, None, looked
            passing.held[authority] = Held(wait.until_ms, wait.reason, position)
            busy = busy or wait.busy
            if len(passing.held) >= MAX_HELD:
                break
        queue.passing = passing
        first = min((each for each in passing.held.values() if each.until_ms), default=_NOBODY)
        return None, Wait(first.until_ms, first.reason, busy), looked
