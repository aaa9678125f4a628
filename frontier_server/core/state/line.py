"""Lines of ready queues that wait for a busy or resting host or group of hosts.

Each crawl has its own line at each host or group, first come first served. A line opens when
there may be room (a request has ended, or the rest is over). The dispatcher takes one queue at
a time from open lines, and closes a line if its first queue must wait again. Thus one free
place costs one turn, however many queues wait for it. A queue that several hosts share may be in several
lines; it leaves them all for its turn.
"""

from collections import OrderedDict
from heapq import heappop, heappush

from .queue import QueueState, WorkQueue


class Awaited:
    """A host or a group of hosts that queues may wait for."""

    __slots__ = ("ended", "lines", "name", "sleepers")

    def __init__(self, name: str) -> None:
        self.name = name
        self.ended = 0  # when a request of it ended last, in the order of all ends
        self.lines: dict[int, OrderedDict[WorkQueue, None]] = {}  # crawl → its queues in line
        self.sleepers: dict[int, WorkQueue] = {}  # crawl → the last queue snoozed until it has rested

    def has_line(self, crawl: int) -> bool:
        """Whether a queue of a crawl waits already: in line, or snoozed until the rest is over."""
        sleeper = self.sleepers.get(crawl)
        if sleeper is not None and sleeper.state is not QueueState.SNOOZED:
            del self.sleepers[crawl]
            sleeper = None
        return sleeper is not None or crawl in self.lines


class Lines:
    """The lines of one crawl."""

    def __init__(self, crawl: int) -> None:
        self._crawl = crawl
        self._open: dict[str, Awaited] = {}
        self._resting: list[tuple[int, str, Awaited]] = []  # heap: until when
        self._until_ms: dict[str, int] = {}  # valid entries of that heap

    def __bool__(self) -> bool:
        """Whether any line is open."""
        return bool(self._open)

    def join(self, awaited: Awaited, queue: WorkQueue, first: bool = False) -> None:
        """Put a queue last in line, or first again. One that is in line already keeps its place."""
        if awaited in queue.lines:
            return
        line = awaited.lines.setdefault(self._crawl, OrderedDict())
        queue.lines = (*queue.lines, awaited)
        line[queue] = None
        if first:
            line.move_to_end(queue, last=False)

    def take(self) -> tuple[WorkQueue, Awaited] | None:
        """Take the first queue from an open line. Returns the queue and the host or group."""
        while self._open:
            awaited = next(iter(self._open.values()))
            line = awaited.lines.get(self._crawl)
            while line:
                queue, _ = line.popitem(last=False)
                if awaited in queue.lines:  # else it has left this line
                    queue.lines = ()
                    return queue, awaited
            awaited.lines.pop(self._crawl, None)
            del self._open[awaited.name]
        return None

    def open(self, awaited: Awaited) -> None:
        """Open a line, if there is one: there may be room."""
        if self._crawl in awaited.lines:
            self._open[awaited.name] = awaited

    def close(self, awaited: Awaited, until_ms: int = 0) -> None:
        """Close a line until a request ends, or until a time."""
        self._open.pop(awaited.name, None)
        if until_ms and self._until_ms.get(awaited.name, until_ms + 1) > until_ms:
            self._until_ms[awaited.name] = until_ms
            heappush(self._resting, (until_ms, awaited.name, awaited))

    def open_due(self, now_ms: int) -> None:
        """Open the lines of hosts and groups whose rests are over."""
        while (due_ms := self.next_ms()) is not None and due_ms <= now_ms:
            _, name, awaited = heappop(self._resting)
            del self._until_ms[name]
            self.open(awaited)

    def next_ms(self) -> int | None:
        """When the first rest ends that opens a line."""
        while self._resting:
            until_ms, name, _ = self._resting[0]
            if self._until_ms.get(name) == until_ms:
                return until_ms
            heappop(self._resting)
        return None

    def clear(self) -> None:
        """Forget all lines: no queue is in line any more."""
        self._open.clear()
        self._resting.clear()
        self._until_ms.clear()
