"""The queues of a crawl with the most of something, among those that changed since the server started."""

from collections.abc import Callable

from .queue import WorkQueue

MOST = 20  # as in Heritrix


class Largest:
    """At most `MOST` queues. A queue that is noted is among them if it has more than the last of them."""

    def __init__(self, size_of: Callable[[WorkQueue], int]) -> None:
        self.queues: dict[bytes, WorkQueue] = {}
        self._size_of = size_of
        self._least = 0  # a lower bound of their sizes
        self.unread: bytes | None = b""  # where a reader of all queues continues; None at the end

    def note(self, queue: WorkQueue) -> None:
        """Note a queue that may have changed."""
        size, known = self._size_of(queue), self.queues
        if queue.queue in known or len(known) < MOST:
            known[queue.queue] = queue
            self._least = min(self._least, size)
        elif size > self._least:
            smallest = min(known.values(), key=self._size_of)
            if size > self._size_of(smallest):
                del known[smallest.queue]
                known[queue.queue] = queue
            self._least = min(map(self._size_of, known.values()))

    def forget(self, queue: bytes) -> None:
        """Drop a queue that no longer exists."""
        self.queues.pop(queue, None)

    @property
    def most(self) -> int:
        """The size of the largest; 0 if there is none."""
        return max(map(self._size_of, self.queues.values()), default=0)


def uris_of(queue: WorkQueue) -> int:
    return queue.row.count


def time_of(queue: WorkQueue) -> int:
    """How many milliseconds a queue needs for its URIs, one after the other."""
    return queue.row.count * queue.interval_ms
