"""Calls that wait for leases. When there may be some, all ask again: in batches, as they may be thousands.
Those go first whose nodes may be connected to the hosts whose turn it is.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from ..core.state.kinds import Kinds
from .priority_lock import PriorityLock
from .tasks import Tasks

BATCH, MIN_PAUSE_S, MAX_PAUSE_S = 50, 0.001, 0.05  # after a batch others get as much time as it took

Sought = tuple[str | None, Kinds]  # a crawl (None: any), and the kinds of fetchers that the caller offers


class Waiters:
    """Calls that wait for leases, in the order in which they will ask again."""

    def __init__(self, gate: PriorityLock, tasks: Tasks) -> None:
        self._lock = gate
        self._tasks = tasks
        self._asleep: dict[Sought, dict[asyncio.Future[None], str]] = {}  # with the names of the nodes
        self._to_wake: deque[asyncio.Future[None]] = deque()
        self._waking = False

    def __len__(self) -> int:
        """How many wait, without those that are about to be woken."""
        return sum(map(len, self._asleep.values()))

    @property
    def about_to_wake(self) -> int:
        """How many will be woken in turn."""
        return len(self._to_wake)

    @contextmanager
    def one(self, sought: Sought, node: str = "") -> Iterator[asyncio.Future[None]]:
        """A call that waits for leases of a node. The future is done when it should ask again."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asleep.setdefault(sought, {})[waiter] = node
        try:
            yield waiter
        finally:
            asleep = self._asleep.get(sought)
            if asleep is not None:
                asleep.pop(waiter, None)
                if not asleep:
                    del self._asleep[sought]

    def wake(
        self,
        concerns: Callable[[Sought], bool] = lambda sought: True,
        expected: Callable[[Sought], Iterable[str]] = lambda sought: (),
    ) -> None:
        """Let those ask again who seek what it concerns: a batch now, the others in turn. The nodes that are
        expected ask before others that seek the same, in their order."""
        for sought in [each for each in self._asleep if concerns(each)]:
            asleep = self._asleep.pop(sought)
            if len(asleep) > 1:
                places = {node: place for place, node in enumerate(dict.fromkeys(expected(sought)))}
                last = len(places)
                self._to_wake.extend(sorted(asleep, key=lambda waiter: places.get(asleep[waiter], last)))
            else:
                self._to_wake.extend(asleep)
        if not self._to_wake:
            return
        if not self._waking:
            self._wake_batch()
            if self._to_wake:
                self._waking = True
                self._tasks.once("waking of nodes", self._wake_others())

    def wake_at_once(self) -> None:
        """Wake all at once: the server closes."""
        for asleep in self._asleep.values():
            self._to_wake.extend(asleep)
        self._asleep.clear()
        while self._to_wake:
            self._wake_batch()

    def _wake_batch(self) -> None:
        for _ in range(min(BATCH, len(self._to_wake))):
            waiter = self._to_wake.popleft()
            if not waiter.done():
                waiter.set_result(None)

    async def _wake_others(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._to_wake:
                start_s = loop.time()
                await asyncio.sleep(MIN_PAUSE_S)
                async with self._lock:  # waits its turn after the last batch
                    took_s = loop.time() - start_s
                await asyncio.sleep(min(took_s, MAX_PAUSE_S))
                self._wake_batch()
        finally:
            self._waking = False
