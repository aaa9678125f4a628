"""The lanes of a queue shared by several hosts, while some of them wait and others pass (see `choice`)."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import NamedTuple

MAX_KNOWN_LANES = 1_000


class HeldLane(NamedTuple):
    """The lane of an authority that must wait: until when, why, and its first URI in the queue."""

    until_ms: int  # 0: until `busy` may have room
    reason: str
    position: bytes
    busy: str = ""  # the name of the host, group or robots.txt that it waits for


class Passing:
    """The lanes of a queue.

    One is held, or may have its turn, or is unknown: then its first URI is not before `walked`.
    """

    __slots__ = ("_busy", "_may_go", "_out", "_turns", "_wakes", "held", "walked")

    def __init__(self, start: bytes) -> None:
        self.held: dict[bytes, HeldLane] = {}
        self.walked = start
        self._may_go: dict[bytes, bytes] = {}  # lane → a lower bound of its first free URI's position
        self._out: set[bytes] = set()  # lanes whose URIs are all out
        self._turns: list[tuple[bytes, bytes]] = []  # heap of these, and of entries that no longer hold
        self._wakes: list[tuple[int, bytes]] = []  # heap: until when lanes are held; likewise
        # Host, group or robots.txt → when a request of it had ended last, and the lanes that wait for it.
        self._busy: dict[str, tuple[int, list[bytes]]] = {}

    def __contains__(self, lane: bytes) -> bool:
        return lane in self.held or lane in self._may_go or lane in self._out

    def arrived(self, lane: bytes, position: bytes) -> None:
        """Note that a URI waits at a position of a lane: a new one, or one that comes back."""
        held = self.held.get(lane)
        if held is not None:
            if position < held.position:
                self.held[lane] = held._replace(position=position)
        elif lane in self._may_go:
            if position < self._may_go[lane]:
                self.let_go(lane, position)
        elif lane in self._out:
            self.let_go(lane, position)
        elif position < self.walked:
            if len(self._may_go) < MAX_KNOWN_LANES:
                self.let_go(lane, position)
            else:
                self.walked = position

    def let_go(self, lane: bytes, position: bytes) -> None:
        """Let a lane have its turn; none of its free URIs is before the position."""
        self.held.pop(lane, None)
        self._out.discard(lane)
        self._may_go[lane] = position
        heappush(self._turns, (position, lane))
        if len(self._turns) > MAX_KNOWN_LANES + 4 * len(self._may_go):
            self._turns = [(first, each) for each, first in self._may_go.items()]
            heapify(self._turns)

    def hold(self, lane: bytes, held: HeldLane, ended: int = 0) -> None:
        """Let a lane wait. `ended` says when a request of what it waits for had ended last."""
        self._may_go.pop(lane, None)
        self.held[lane] = held
        if held.busy:
            self._busy.setdefault(held.busy, (ended, []))[1].append(lane)
        else:
            heappush(self._wakes, (held.until_ms, lane))

    def all_out(self, lane: bytes) -> None:
        """Note that a lane has no free URI."""
        self._may_go.pop(lane, None)
        self._out.add(lane)

    def forget(self, lane: bytes) -> None:
        """Forget a lane that has no URI."""
        self.held.pop(lane, None)
        self._may_go.pop(lane, None)
        self._out.discard(lane)

    def end_waits(self, now_ms: int, ended_of: Callable[[str], int]) -> None:
        """Let the lanes go that need no longer wait, by the time and by when requests have ended."""
        due: list[bytes] = []
        for name in [name for name, (ended, _) in self._busy.items() if ended_of(name) != ended]:
            due += self._busy.pop(name)[1]
        while self._wakes and self._wakes[0][0] <= now_ms:
            due.append(heappop(self._wakes)[1])
        for lane in due:
            held = self.held.get(lane)
            if held is not None and held.until_ms <= now_ms and held.busy not in self._busy:
                self.let_go(lane, held.position)

    def busy(self, most: int) -> list[str]:
        """The hosts, groups and robots.txt files that lanes have waited for longest, `most` at most."""
        found: list[str] = []
        for name, (_, lanes) in list(self._busy.items()):
            if len(found) == most:
                break
            waiting = [lane for lane in lanes if lane in self.held and self.held[lane].busy == name]
            if waiting:
                found.append(name)
            else:
                del self._busy[name]
        return found

    @property
    def first(self) -> tuple[bytes, bytes] | None:
        """The position and the lane whose turn is first."""
        while self._turns:
            position, lane = self._turns[0]
            if self._may_go.get(lane) == position:
                return position, lane
            heappop(self._turns)
        return None

    @property
    def next_wake(self) -> HeldLane | None:
        """The lane that waits least; None if none has a time."""
        while self._wakes:
            until_ms, lane = self._wakes[0]
            held = self.held.get(lane)
            if held is not None and held.until_ms == until_ms:
                return held
            heappop(self._wakes)
        return None
