"""The queues of a crawl whose turn may come: ready ones, and BUSY ones that may have room for more leases."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from heapq import heappop, heappush

from .queue import QueueState, WorkQueue
from .spec.settings import CrawlSettings


class ReadyQueues:
    """The queues of a crawl whose turn may come, in order."""

    def __init__(self, queues: Mapping[bytes, WorkQueue]) -> None:
        # BUSY queues of which a request wanted no more leases at once, and the most that it wanted.
        self.held_back: dict[bytes, int] = {}
        self._queues = queues  # the crawl's active ones
        self._line: OrderedDict[WorkQueue, None] = OrderedDict()  # a set in order, which any queue may leave
        self._naps: list[tuple[int, bytes]] = []  # heap: when to offer BUSY queues again

    def __len__(self) -> int:
        return len(self._line)

    def __iter__(self) -> Iterator[WorkQueue]:
        return iter(self._line)

    def put(self, queue: WorkQueue) -> None:
        """Put a queue last in line. One that is there already keeps its place."""
        self._line[queue] = None

    def put_first(self, queue: WorkQueue) -> None:
        """Put a queue first in line."""
        self._line[queue] = None
        self._line.move_to_end(queue, last=False)

    def take(self) -> WorkQueue | None:
        """Take the first queue out, if there is one: its turn is now."""
        return self._line.popitem(last=False)[0] if self._line else None

    def leave(self, queue: WorkQueue) -> None:
        """Take a queue out, if it is there."""
        self._line.pop(queue, None)

    def let_in(self, queue: WorkQueue) -> None:
        """Put a queue that was in line for a host among those whose turn may come."""
        queue.line = None
        self._line[queue] = None

    def clear(self) -> None:
        """Forget all queues: none of them is active any more."""
        self._line.clear()
        self._naps.clear()
        self.held_back.clear()

    # BUSY queues. A turn shows whether they may have more leases.

    def offer(self, queue: WorkQueue, settings: CrawlSettings, first: bool = False) -> None:
        """Give a BUSY queue another turn if it may have more leases."""
        self.held_back.pop(queue.queue, None)
        if queue in self._line or queue.leases_out >= settings.queues.max_leases_per_queue:
            return
        if first:
            self.put_first(queue)
        else:
            self.put(queue)

    def hold_back(self, queue: WorkQueue, wanted: int) -> None:
        """Give a BUSY queue no turns until a request wants more leases of it at once, or one of them ends.

        With 0 the next request gives it one: other queues go first in this one.
        """
        self.held_back[queue.queue] = wanted

    def end_holding_back(self, wanted: int) -> None:
        """Offer the queues again that were held back, if a request wants more leases of a queue (0: all)."""
        if not self.held_back:
            return
        for queue_id, before in list(self.held_back.items()):
            if not wanted or wanted > before:
                del self.held_back[queue_id]
                queue = self._queues.get(queue_id)
                if queue is not None and queue.state is QueueState.BUSY:
                    self.put(queue)

    def nap(self, queue: WorkQueue, until_ms: int) -> None:
        """Give a BUSY queue another turn at a time."""
        if queue.nap_ms != until_ms:
            queue.nap_ms = until_ms
            heappush(self._naps, (until_ms, queue.queue))

    def end_naps(self, now_ms: int) -> None:
        """Give the BUSY queues their turns whose time has come."""
        while self._naps and self._naps[0][0] <= now_ms:
            queue = self._queues.get(heappop(self._naps)[1])
            if queue is not None and queue.state is QueueState.BUSY:
                self.put(queue)

    @property
    def next_nap_ms(self) -> int | None:
        """When the first BUSY queue has its next turn."""
        return self._naps[0][0] if self._naps else None
