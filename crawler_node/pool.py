"""ToePool: toe threads, their number changed while they work. It does not know what they do."""

import threading
from collections import Counter
from collections.abc import Callable

import structlog

from .toe import ToeThread

log = structlog.get_logger()


class ToePool:
    """Toe threads, as many as were asked for last (S4.1 to S4.7). A new pool has none (S4.2).

    Threads beyond a smaller size retire: while they wait for a lease at once (D25), else after the one
    that they are at (S4.14). `mend` replaces those that died (D12).
    """

    def __init__(self, new_toe: Callable[[int], ToeThread], on_size: Callable[[int], object]) -> None:
        """`new_toe` makes a thread, not started, of a serial number. `on_size` is told each new size,
        after the threads that must go were told; it lets those that wait look."""
        self._new_toe = new_toe
        self._on_size = on_size
        self._lock = threading.Lock()
        self._toes: list[ToeThread] = []
        self._next_serial = 1
        self._size = 0
        self._closed = False

    @property
    def size(self) -> int:
        """How many threads there should be."""
        return self._size

    def set_size(self, size: int) -> None:
        """Starts threads, or retires the youngest, until `size` work on (S4.3, S4.4). May be called at
        any time (S4.5); once the pool is closed it changes nothing.

        Raises RuntimeError when the system has no more threads; `mend` tries again.
        """
        if size < 0:
            raise ValueError(f"a pool cannot have {size} toe threads")
        with self._lock:
            if not self._closed:
                self._resize(size)

    def close(self) -> None:
        """Retires all threads, for good."""
        with self._lock:
            self._closed = True
            self._resize(0)

    def mend(self) -> None:
        """Replaces the threads that died, and starts those that could not be started."""
        with self._lock:
            missing = self._size - len(self._working())
            if missing > 0:
                log.error("toe threads are missing and are replaced", missing=missing)
                try:
                    self._adapt()
                except RuntimeError as error:
                    log.error("toe threads cannot be replaced now", error=str(error))

    def steps(self) -> Counter[str]:
        """What the live threads are doing."""
        with self._lock:
            return Counter(toe.step for toe in self._toes if toe.is_alive())

    def serials(self) -> list[int]:
        """The numbers of the threads that work on, in their order."""
        with self._lock:
            return [toe.serial for toe in self._working()]

    def join(self) -> None:
        """Waits until every thread has ended, retired ones included."""
        with self._lock:
            toes = list(self._toes)
        for toe in toes:
            toe.join()

    # under the lock

    def _resize(self, size: int) -> None:
        self._size = size
        try:
            self._adapt()
        finally:
            self._on_size(size)

    def _adapt(self) -> None:
        self._toes = [toe for toe in self._toes if toe.is_alive()]
        working = self._working()
        for toe in working[self._size :]:
            toe.retire()
        for _ in range(self._size - len(working)):
            # The number is used up whatever comes of the thread (S4.7).
            toe, self._next_serial = self._new_toe(self._next_serial), self._next_serial + 1
            toe.start()
            self._toes.append(toe)

    def _working(self) -> list[ToeThread]:
        return [toe for toe in self._toes if toe.is_alive() and not toe.retired]
