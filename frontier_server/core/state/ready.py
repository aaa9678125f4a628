"""The queues of a crawl whose turn may come: ready ones, and BUSY ones that may have room for more leases."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from itertools import islice

from ..rows.keys import STANDS_BACK
from ..spec.settings import CrawlSettings
from .queue import QueueState, WorkQueue

FIRST_IN_LINE = 32
CONNECTION_MS = 15_000  # the longest that a node keeps a connection to a host that it has no lease of
MOST_OVERTAKEN = 8  # turns of others that a queue may be left to its last node for
ABOVE_ALL = 2 * STANDS_BACK  # ranks: an inactive queue of any goes first


class Ranked:
    """Queues by rank, the lowest rank first; first come, first served within a rank."""

    def __init__(self) -> None:
        self._rank_of: dict[WorkQueue, int] = {}
        self._ranks: dict[int, OrderedDict[WorkQueue, None]] = {}

    def __len__(self) -> int:
        return len(self._rank_of)

    def __contains__(self, queue: WorkQueue) -> bool:
        return queue in self._rank_of

    def put(self, queue: WorkQueue, rank: int) -> None:
        """Add a queue, or change its rank."""
        if self._rank_of.get(queue) != rank:
            self.discard(queue)
            self._rank_of[queue] = rank
            self._ranks.setdefault(rank, OrderedDict())[queue] = None

    def discard(self, queue: WorkQueue) -> None:
        """Remove a queue, if it is there."""
        rank = self._rank_of.pop(queue, None)
        if rank is not None:
            del self._ranks[rank][queue]
            if not self._ranks[rank]:
                del self._ranks[rank]

    def take(self, end: int | None) -> WorkQueue | None:
        """Take the first queue out whose rank is below `end` (None: any)."""
        first = min(self._ranks, default=None)
        if first is None or (end is not None and first >= end):
            return None
        queue = next(iter(self._ranks[first]))
        self.discard(queue)
        return queue

    def clear(self) -> None:
        """Remove all."""
        self._rank_of.clear()
        self._ranks.clear()


class ReadyQueues:
    """The queues of a crawl whose turn may come, in order."""

    def __init__(self, queues: Mapping[bytes, WorkQueue]) -> None:
        # BUSY queues that had a turn, and get no other one until its outcome may be another.
        self._full = Ranked()  # by their leases out: a request wanted no more at once
        self._behind = Ranked()  # by the rank from which on inactive queues no longer go first
        self._queues = queues  # the crawl's active ones
        self._line: OrderedDict[WorkQueue, None] = OrderedDict()  # a set in order, which any queue may leave
        self._naps: list[tuple[int, bytes]] = []  # heap: when to offer BUSY queues again

    def __len__(self) -> int:
        return len(self._line)

    def __iter__(self) -> Iterator[WorkQueue]:
        return iter(self._line)

    def put(self, queue: WorkQueue) -> None:
        """Put a queue last in line. One that is there already keeps its place."""
        self.leave_held_back(queue)
        self._line[queue] = None

    def put_first(self, queue: WorkQueue) -> None:
        """Put a queue first in line."""
        self.leave_held_back(queue)
        self._line[queue] = None
        self._line.move_to_end(queue, last=False)

    def take(self, node: str, now_ms: int) -> WorkQueue | None:
        """Take a queue out, if there is one: its turn is now.

        It is the first one, unless another node may be connected to its host: then the first behind it of
        which that is not so, if it is near. After some such turns a queue goes to whoever asks, so no host
        waits for long for a node that does not come.
        """
        if not self._line:
            return None
        overtaken: list[WorkQueue] = []
        for queue in islice(self._line, FIRST_IN_LINE):
            is_left = queue.last_node != node and now_ms - queue.last_lease_ms <= CONNECTION_MS
            if not is_left or queue.overtaken == MOST_OVERTAKEN:
                break
            overtaken.append(queue)
        else:
            queue = overtaken[0]
            overtaken.clear()
        for each in overtaken:
            each.overtaken += 1
        del self._line[queue]
        queue.overtaken = 0
        return queue

    def last_nodes(self) -> list[str]:
        """The nodes that had the first queues in line last, in the order of the queues."""
        return [queue.last_node for queue in islice(self._line, FIRST_IN_LINE)]

    @property
    def lowest_precedence(self) -> int | None:
        """The lowest precedence among the first queues in line."""
        return min((queue.row.precedence for queue in islice(self._line, FIRST_IN_LINE)), default=None)

    def leave(self, queue: WorkQueue) -> None:
        """Take a queue out, if it is there."""
        self._line.pop(queue, None)

    def let_in(self, queue: WorkQueue) -> None:
        """Put a queue that was in line for a host among those whose turn may come."""
        queue.lines = ()
        self.put(queue)

    def clear(self) -> None:
        """Forget all queues: none of them is active any more."""
        self._line.clear()
        self._naps.clear()
        self._full.clear()
        self._behind.clear()

    # BUSY queues. A turn shows whether they may have more leases.

    def offer(self, queue: WorkQueue, settings: CrawlSettings, first: bool = False) -> None:
        """Give a BUSY queue another turn if it may have more leases."""
        self.leave_held_back(queue)
        if queue in self._line or queue.leases_out >= settings.queues.max_leases_per_queue:
            return
        if first:
            self.put_first(queue)
        else:
            self.put(queue)

    @property
    def held_back(self) -> int:
        """How many BUSY queues get no turns until a request wants more of them, or none goes before them."""
        return len(self._full) + len(self._behind)

    def wants_no_more(self, queue: WorkQueue) -> None:
        """Give a BUSY queue no turns until a request wants more leases of it at once, or one of them ends."""
        self._full.put(queue, queue.leases_out)

    def give_way(self, queue: WorkQueue, rank: int) -> None:
        """Give a BUSY queue no turns while an inactive queue below a rank waits."""
        self._behind.put(queue, rank)

    def leave_held_back(self, queue: WorkQueue) -> None:
        """Forget that a queue was held back: something has changed."""
        self._full.discard(queue)
        self._behind.discard(queue)

    def gives_way(self, queue: WorkQueue) -> bool:
        """Whether a queue is held back because others go first."""
        return queue in self._behind

    def end_holding_back(self, most: int, per_queue: int, waiting_rank: int | None) -> None:
        """Put queues last in line whose holding back is over, up to `most` of either kind.

        It is over if a request wants more leases of a queue at once (`per_queue`; 0: any number), or if no
        inactive queue goes first any more (`waiting_rank` is their lowest; None: there are none).
        """
        for held, end in (
            (self._full, per_queue or None),
            (self._behind, None if waiting_rank is None else waiting_rank + 1),
        ):
            for _ in range(most):
                queue = held.take(end)
                if queue is None:
                    break
                self._line[queue] = None

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
