"""The queues of a crawl that memory holds: active ones, each where its state says, and those that changed
recently.
"""

from collections import Counter, OrderedDict
from heapq import heappop, heappush

from .largest import Largest, time_of, uris_of
from .line import Lines
from .queue import QueueState, WorkQueue
from .ready import ReadyQueues

MAX_RECENT = 4_096


class QueueSet:
    """The queues of a crawl that memory holds."""

    def __init__(self, crawl: int) -> None:
        self.active: dict[bytes, WorkQueue] = {}
        self.ready = ReadyQueues(self.active)
        self.lines = Lines(crawl)  # of queues that wait only for hosts or groups
        self.snoozed: list[tuple[int, int, int, WorkQueue]] = []  # heap: wake, tie, serial
        self.recent: OrderedDict[bytes, WorkQueue] = OrderedDict()  # other queues that changed recently
        # How many are READY, BUSY, SNOOZED. The counts of other states are stored.
        self.counts: Counter[QueueState] = Counter()
        self.inactive_heads: dict[int, bytes] = {}  # rank → lower bound of its inactive queues' keys
        self.far_head = b""  # lower bound of the far snoozes' keys
        self.first_far_ms: int | None = 0  # no far snooze is due earlier; None: there is none
        self.largest = Largest(uris_of)
        self.largest_stored = Largest(uris_of)  # as they were when somebody asked
        self.longest = Largest(time_of)
        self._ties = 0

    def push_snoozed(self, queue: WorkQueue, wake_ms: int) -> None:
        """Add a snoozed queue; its earlier entry becomes void."""
        self._ties += 1
        queue.snooze_serial += 1
        heappush(self.snoozed, (wake_ms, self._ties, queue.snooze_serial, queue))

    def next_wake(self) -> WorkQueue | None:
        """The queue that wakes first among those snoozed in memory."""
        while self.snoozed:
            _, _, serial, queue = self.snoozed[0]
            if serial == queue.snooze_serial and queue.state is QueueState.SNOOZED:
                return queue
            heappop(self.snoozed)
        return None

    def last_nodes(self) -> list[str]:
        """The nodes that had the queues last whose turns are next, in the order of the queues."""
        if self.ready:
            return self.ready.last_nodes()
        first = self.next_wake()
        return [] if first is None else [first.last_node]

    def known(self, queue: bytes) -> WorkQueue | None:
        """A queue, if it is active or changed recently, so that memory has it."""
        return self.active.get(queue) or self.recent.get(queue)

    def remember(self, queue: WorkQueue, still: bool) -> None:
        """Keep a queue that changed but is not active, because its links come in swarms; drop it if they
        come no more."""
        recent = self.recent
        if not still:
            recent.pop(queue.queue, None)
            return
        recent[queue.queue] = queue
        recent.move_to_end(queue.queue)
        if len(recent) > MAX_RECENT:
            recent.popitem(last=False)

    def forget(self, queue: bytes) -> None:
        """Drop a queue that no longer exists."""
        self.recent.pop(queue, None)
        self.largest.forget(queue)
        self.largest_stored.forget(queue)
        self.longest.forget(queue)

    def record_size(self, queue: WorkQueue) -> None:
        """Update the lists of the largest queues, and of those that need longest."""
        self.largest.note(queue)
        self.longest.note(queue)
