"""The leases that this node holds, from Next's answer until their report is settled.

One lock decides who has which lease. The poller adds leases, toes take them, the reporter settles them, and
the heartbeat names them all. This module does not call the frontier, fetch or log.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from toehold.frontier.v1.frontier_pb2 import Lease

from ..fetching.cancellation import Cancellation
from ..fetching.fetch import FetchPolicy
from ..tracing import LeaseTrace

MAX_HELD = 10_000
"""The most leases held at a time, as a heartbeat names no more."""

FIRST_LEASE_PERIOD_S = 30.0
"""The assumed life of a lease before the frontier's first heartbeat answer tells it."""


class LeaseStage(Enum):
    """How far a held lease has come."""

    QUEUED = "queued"
    """Taken from the frontier, not started."""
    STARTED = "started"
    """A toe works on it."""
    DONE = "done"
    """The reporter has it: its page is finished, or it goes back unstarted."""


@dataclass(slots=True, eq=False)
class HeldLease:
    """One lease that this node holds. Only the book changes its fields."""

    lease: Lease
    policy: FetchPolicy | None
    """None if the frontier named a policy that it never sent, or one that makes no sense."""
    lived_at_s: float
    """The last time at which it certainly lived: when the node asked for it, later when the node sent a
    heartbeat that named it and was answered. The answer itself may have been long on its way."""
    spell: int
    """The unbroken stretch of holding leases of its crawl that it belongs to. Knowledge of a crawl holds for
    one spell: between two, the crawl may have been deleted, and another created under its name."""
    stage: LeaseStage = LeaseStage.QUEUED
    ended: bool = False
    """The frontier says that the lease is over, so the reporter drops its page."""
    killed: bool = False
    """Its fetch is to be broken off for good, and fails if it is."""
    broken_off_at_s: float | None = None
    """When its toe was told to end with it; None if it was not."""
    claimed: bool = False
    """Its toe has brought its page, which counts."""
    cancellation: Cancellation = field(default_factory=Cancellation)
    trace: LeaseTrace | None = None

    def __repr__(self) -> str:
        flags = ("ended", self.ended), ("killed", self.killed), ("claimed", self.claimed)
        state = ", ".join([self.stage.value, *(name for name, holds in flags if holds)])
        return f"<HeldLease {self.lease.uri} of crawl {self.lease.crawl!r}: {state}>"


class LeaseBook:
    """Every lease that this node holds, and the bounded queue of those that wait for a toe.

    It takes in as many as toes can start soon: one lease for each toe, and a small look-ahead (a quarter of
    the toes) that keeps them busy while the poller asks for more.
    """

    def __init__(
        self,
        clock_s: Callable[[], float] = time.monotonic,
        trace_of: Callable[[Lease], LeaseTrace | None] | None = None,
    ) -> None:
        self._clock_s = clock_s
        self._trace_of = trace_of
        lock = threading.Lock()
        self._work = threading.Condition(lock)
        self._room = threading.Condition(lock)
        self._lock = lock
        self._held: dict[bytes, HeldLease] = {}
        self._queue: deque[HeldLease] = deque()
        self._started_count = 0
        self._spells: dict[str, _Spell] = {}
        self._spell_count = 0
        self._toe_count = 0
        self._accepting = True
        self._closed = False
        self._period_s = FIRST_LEASE_PERIOD_S

    def __repr__(self) -> str:  # without the lock, which may be held where a debugger stops
        queued, started = len(self._queue), self._started_count
        done = len(self._held) - queued - started
        state = "" if self._accepting else ", closed" if self._closed else ", suspended"
        counts = f"{queued} queued, {started} started, {done} done"
        return f"<LeaseBook for {self._toe_count} toes: {counts}{state}>"

    # the poller's side

    def wait_for_room(self) -> int:
        """Waits for room. Returns how many leases to ask for; 0 while the book takes in none.

        There is room again when half of the look-ahead is used up, so that one request brings several leases.
        """
        with self._lock:
            while self._accepting:
                if self._room_count() >= max(1, (self._look_ahead() + 1) // 2):
                    return self._room_count()
                self._room.wait()
            return 0

    @property
    def period_s(self) -> float:
        """How long a lease lives without a heartbeat, as far as the node knows."""
        with self._lock:
            return self._period_s

    def add(
        self, leases: Iterable[tuple[Lease, FetchPolicy | None]], asked_at_s: float | None = None
    ) -> list[HeldLease]:
        """Queues new leases that were asked for at `asked_at_s` (default: now).

        Returns those to hand back: all while the book takes in none, and those that are too many for the
        toes.
        """
        asked_at_s = self._clock_s() if asked_at_s is None else asked_at_s
        with self._lock:
            new = [HeldLease(lease, policy, asked_at_s, self._join_spell(lease)) for lease, policy in leases]
            if self._trace_of is not None:
                for held in new:
                    held.trace = self._trace_of(held.lease)
            self._held.update((held.lease.token, held) for held in new)
            if not self._accepting:
                return self._take_out(new)
            self._queue.extend(new)
            self._work.notify(len(new))
            return self._surplus()

    # the toes' side

    def take(self, leaving: threading.Event) -> HeldLease | None:
        """Waits for a lease and starts it; None once `leaving` is set, at which waiting toes look when
        `resize` is called.

        A lease that no answered heartbeat has extended for a whole period comes back with the stage DONE, as
        the frontier may have given it to another node.
        """
        with self._lock:
            while not leaving.is_set():
                if self._queue:
                    held = self._queue.popleft()
                    if self._lives(held):
                        held.stage = LeaseStage.STARTED
                        self._started_count += 1
                    else:
                        held.stage = LeaseStage.DONE
                    self._room.notify()
                    return held
                self._work.wait()
            return None

    def claim(self, held: HeldLease) -> bool:
        """Says that a toe brings the page of a started lease; False if the lease was taken away from it."""
        with self._lock:
            if held.stage is LeaseStage.STARTED and not held.claimed:
                held.claimed = True
                return True
            return False

    def take_away(self, held: HeldLease) -> bool:
        """Takes a started lease away from a toe that does not end, to report it without the toe; False if the
        toe has brought its page."""
        with self._lock:
            if held.stage is not LeaseStage.STARTED or held.claimed:
                return False
            self._finish_started(held)
            return True

    def done(self, held: HeldLease) -> None:
        """Says that a toe is done with a lease that it has claimed. The lease stays held until it is
        settled."""
        with self._lock:
            self._finish_started(held)

    def resize(self, toe_count: int) -> list[HeldLease]:
        """Sets how many toes start leases, and makes those that wait look whether they should leave.

        Returns the unstarted leases to hand back, as they are too many for the toes.
        """
        with self._lock:
            self._toe_count = toe_count
            self._room.notify()
            self._work.notify_all()
            return self._surplus()

    # the reporter's side

    def settle(self, held: Iterable[HeldLease]) -> None:
        """Says that leases are reported, handed back or dropped."""
        with self._lock:
            for one in held:
                self._drop(one)
            self._room.notify()

    def newest_versions(self, crawl: str) -> tuple[bytes, bytes]:
        """The scope_version and the seen_version of the newest lease of a crawl; empty if none is held."""
        with self._lock:
            spell = self._spells.get(crawl)
            return (b"", b"") if spell is None else spell.versions

    # the side of those who watch

    def counts(self) -> dict[LeaseStage, int]:
        with self._lock:
            queued, started = len(self._queue), self._started_count
            return {
                LeaseStage.QUEUED: queued,
                LeaseStage.STARTED: started,
                LeaseStage.DONE: len(self._held) - queued - started,
            }

    # the heartbeat's side

    def tokens(self) -> list[bytes]:
        """The tokens of all leases held."""
        with self._lock:
            return list(self._held)

    def vouch(self, tokens: Iterable[bytes], sent_at_s: float, period_s: float) -> None:
        """Says that a heartbeat sent at `sent_at_s` named these leases and was answered, so that they live a
        period from there."""
        with self._lock:
            self._period_s = period_s
            for token in tokens:
                held = self._held.get(token)
                if held is not None:
                    held.lived_at_s = max(held.lived_at_s, sent_at_s)

    def end(self, tokens: Iterable[bytes]) -> None:
        """Says that leases are over. Drops those that are unstarted, and interrupts running fetches."""
        running: list[HeldLease] = []
        with self._lock:
            ended = [held for token in tokens if (held := self._held.get(token))]
            for held in ended:
                held.ended = True
                if held.stage is LeaseStage.STARTED:
                    running.append(held)
            for held in self._unqueue(ended):
                self._drop(held)
        self._break_off(running)

    def give_back(self, tokens: Iterable[bytes]) -> list[HeldLease]:
        """Takes leases that have not been started out of the queue, and returns them, to hand them back."""
        with self._lock:
            named = [held for token in tokens if (held := self._held.get(token))]
            return self._take_out(self._unqueue(named))

    def kill(self, tokens: Iterable[bytes]) -> list[HeldLease]:
        """Interrupts the running fetches of leases for good. Takes unstarted ones out of the queue, and
        returns them, to hand them back."""
        with self._lock:
            named = [held for token in tokens if (held := self._held.get(token))]
            running = [held for held in named if held.stage is LeaseStage.STARTED]
            for held in running:
                held.killed = True
            unstarted = self._take_out(self._unqueue(named))
        self._break_off(running)
        return unstarted

    # the node's side

    def suspend(self) -> list[HeldLease]:
        """Takes in no more leases until `resume`. Returns the unstarted ones, to hand them back."""
        with self._lock:
            self._accepting = False
            self._room.notify_all()
            unstarted = list(self._queue)
            self._queue.clear()
            return self._take_out(unstarted)

    def resume(self) -> None:
        """Takes in leases again, unless the book is closed."""
        with self._lock:
            self._accepting = not self._closed
            self._room.notify_all()

    def close(self) -> list[HeldLease]:
        """Takes in no more leases, ever. Returns the unstarted ones, to hand them back."""
        with self._lock:
            self._closed = True
        return self.suspend()

    def break_off(self, held: HeldLease) -> None:
        """Interrupts the running fetch of a lease for good."""
        held.killed = True
        self._break_off([held])

    def interrupt_started(self) -> None:
        """Interrupts every running fetch."""
        with self._lock:
            running = self._started()
        self._break_off(running)

    def _break_off(self, running: Iterable[HeldLease]) -> None:
        now_s = self._clock_s()
        for held in running:
            held.broken_off_at_s = held.broken_off_at_s or now_s
            held.cancellation.cancel()

    # under the lock

    def _finish_started(self, held: HeldLease) -> None:
        held.stage = LeaseStage.DONE
        self._started_count -= 1
        self._room.notify()

    def _started(self) -> list[HeldLease]:
        return [held for held in self._held.values() if held.stage is LeaseStage.STARTED]

    def _look_ahead(self) -> int:
        return self._toe_count // 4 + 1 if self._toe_count else 0

    def _spare_count(self) -> int:
        """How many more leases the toes can take; below zero, how many are too many for them."""
        return self._toe_count + self._look_ahead() - self._started_count - len(self._queue)

    def _room_count(self) -> int:
        return min(self._spare_count(), MAX_HELD - len(self._held))

    def _surplus(self) -> list[HeldLease]:
        """Takes out the queued leases that are too many for the toes, the latest first."""
        too_many = min(max(0, -self._spare_count()), len(self._queue))
        return self._take_out([self._queue.pop() for _ in range(too_many)])

    def _lives(self, held: HeldLease) -> bool:
        return self._clock_s() < held.lived_at_s + self._period_s

    def _unqueue(self, held: Sequence[HeldLease]) -> list[HeldLease]:
        waiting = [one for one in held if one.stage is LeaseStage.QUEUED]
        for one in waiting:
            self._queue.remove(one)
        if waiting:
            self._room.notify()
        return waiting

    def _take_out(self, held: list[HeldLease]) -> list[HeldLease]:
        for one in held:
            one.stage = LeaseStage.DONE
        return held

    def _drop(self, held: HeldLease) -> None:
        if self._held.pop(held.lease.token, None) is None:
            return
        spell = self._spells[held.lease.crawl]
        spell.held_count -= 1
        if not spell.held_count:
            del self._spells[held.lease.crawl]

    def _join_spell(self, lease: Lease) -> int:
        spell = self._spells.get(lease.crawl)
        if spell is None:
            self._spell_count += 1
            spell = self._spells[lease.crawl] = _Spell(self._spell_count)
        spell.held_count += 1
        spell.versions = lease.scope_version, lease.seen_version
        return spell.number


@dataclass(slots=True)
class _Spell:
    number: int
    held_count: int = 0
    versions: tuple[bytes, bytes] = b"", b""
