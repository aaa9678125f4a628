"""ToePool: toe threads, whose number changes while they work. It does not know what they do."""

import threading
import time
from collections import Counter
from collections.abc import Callable

import structlog

from toehold.frontier.v1.frontier_pb2 import PoolStatistics

from ..leases.book import HeldLease
from .chain import Step
from .frames import thread_frames
from .toe import ToeReport, ToeThread

GRACE_S = 5.0
"""How long a toe thread may take to end a lease that was broken off, before it is left behind."""

EXTRACT_S = 120.0
"""How long a toe thread may read a page. Honest pages take milliseconds."""

log = structlog.get_logger()


class ToePool:
    """Toe threads, as many as the last size. A new pool has none.

    When the size shrinks, the youngest threads retire: those that wait for a lease at once, the others after
    their lease. `watch` replaces threads that died, and leaves threads behind that do not end a lease that
    was broken off.
    """

    def __init__(
        self,
        new_toe: Callable[[int], ToeThread],
        on_size: Callable[[int], object],
        on_abandoned: Callable[[HeldLease, int], object],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`new_toe` makes a thread of a serial number, and does not start it. `on_size` gets each new size,
        after the threads that must go were told, and makes those that wait look. `on_abandoned` gets the
        lease that was taken away from a thread left behind, and that thread's number."""
        self._new_toe = new_toe
        self._on_size = on_size
        self._on_abandoned = on_abandoned
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._toes: list[ToeThread] = []
        self._left_behind: list[ToeThread] = []
        self._next_serial = 1
        self._size = self._died = self._killed = self._abandoned = 0
        self._closed = False

    def __repr__(self) -> str:  # without the lock, which may be held where a debugger stops
        state = ", closed" if self._closed else ""
        counts = f"{len(self._toes)} threads, {len(self._left_behind)} left behind"
        return f"<ToePool of {self._size}: {counts}{state}>"

    @property
    def size(self) -> int:
        """How many threads there should be."""
        return self._size

    def set_size(self, size: int) -> None:
        """Starts threads, or retires the youngest, until `size` work on. May be called at any time. Does
        nothing once the pool is closed.

        Raises RuntimeError when the system has no more threads; `watch` tries again.
        """
        if size < 0:
            raise ValueError(f"size must be at least 0, got {size}")
        with self._lock:
            if not self._closed:
                self._resize(size)

    def close(self) -> None:
        """Retires all threads, for good."""
        with self._lock:
            self._closed = True
            self._resize(0)

    def kill(self, serial: int, replace: bool) -> None:
        """Breaks off the lease of a thread, which fails with -7000, and ends the thread. With `replace` the
        pool gets another one at once; otherwise it is one smaller. Raises LookupError.
        """
        with self._lock:
            toe = next((toe for toe in self._toes + self._left_behind if toe.serial == serial), None)
            if toe is None or not toe.is_alive():
                raise LookupError(f"there is no toe thread {serial}")
            if toe.killed:
                return
            working = not toe.retired
            toe.kill()
            self._killed += 1
            log.warning("toe_killed", toe=serial, replaced=replace)
            self._resize(self._size if replace or not working else max(0, self._size - 1))

    def watch(self) -> None:
        """Leaves threads behind that do not come to an end, replaces those that died, and starts those that
        could not be started."""
        with self._lock:
            for toe in list(self._toes):
                if self._is_lost_in_a_page(toe):
                    log.error(
                        "toe_overdue",
                        toe=toe.serial,
                        stack=toe.stack(),
                    )
                    toe.break_off()
                if self._is_overdue(toe):
                    self._leave_behind(toe)
            self._left_behind = [toe for toe in self._left_behind if toe.is_alive()]
            try:
                self._adapt()
            except RuntimeError as error:
                log.error("toes_not_started", error=str(error))

    @property
    def left_behind_count(self) -> int:
        """How many threads run that were left behind."""
        with self._lock:
            return sum(toe.is_alive() for toe in self._left_behind)

    def steps(self) -> Counter[str]:
        """How many threads are at each step, without those left behind."""
        with self._lock:
            return Counter(toe.step for toe in self._toes if toe.is_alive())

    def statistics(self) -> PoolStatistics:
        """How many threads there are, and how many died, were killed, and were left behind since the
        start."""
        with self._lock:
            alive = sum(toe.is_alive() for toe in self._toes)
            return PoolStatistics(
                size=self._size,
                alive_count=alive,
                died_count=self._died,
                killed_count=self._killed,
                abandoned_count=self._abandoned,
            )

    def reports(self, stacks: bool = False) -> list[tuple[ToeReport, str]]:
        """All threads that run, in the order of their numbers, with their stacks if `stacks`."""
        with self._lock:
            toes = sorted(self._toes + self._left_behind, key=lambda toe: toe.serial)
        frames = thread_frames() if stacks else {}
        return [(toe.report(), toe.stack(frames)) for toe in toes if toe.is_alive()]

    def join(self) -> None:
        """Waits until every thread has ended, retired ones too, but not those left behind."""
        for toe in self._present():
            while toe.is_alive() and toe in self._present():
                toe.join(0.2)

    # under the lock

    def _present(self) -> list[ToeThread]:
        with self._lock:
            return list(self._toes)

    def _resize(self, size: int) -> None:
        self._size = size
        try:
            self._adapt()
        finally:
            self._on_size(size)

    def _adapt(self) -> None:
        ended = [toe for toe in self._toes if not toe.is_alive()]  # once, as others may end meanwhile
        dead = [toe.serial for toe in ended if not toe.retired]
        if dead:
            self._died += len(dead)
            log.error("toes_died", toes=dead)
        self._toes = [toe for toe in self._toes if toe not in ended]
        working = self._working()
        for toe in working[self._size :]:
            toe.retire()
        for _ in range(self._size - len(working)):
            # The number is used up, even if the thread does not start.
            toe, self._next_serial = self._new_toe(self._next_serial), self._next_serial + 1
            toe.start()
            self._toes.append(toe)

    def _working(self) -> list[ToeThread]:
        return [toe for toe in self._toes if toe.is_alive() and not toe.retired]

    def _is_lost_in_a_page(self, toe: ToeThread) -> bool:
        # Fetches have deadlines of their own, and a hanging disk is not the page's fault.
        return toe.step is Step.EXTRACTING and self._clock_s() >= toe.step_since_s + EXTRACT_S

    def _is_overdue(self, toe: ToeThread) -> bool:
        held = toe.held
        since_s = held.broken_off_at_s if held is not None else None
        return since_s is not None and self._clock_s() >= since_s + GRACE_S

    def _leave_behind(self, toe: ToeThread) -> None:
        held = toe.abandon()
        if held is None:
            return
        self._abandoned += 1
        self._toes.remove(toe)
        self._left_behind.append(toe)
        log.error(
            "toe_left_behind",
            toe=toe.serial,
            uri=held.lease.uri,
            step=toe.step,
            stack=toe.stack(),
        )
        self._on_abandoned(held, toe.serial)
