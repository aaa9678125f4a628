"""A frontier that stands still, and whose wall clock is set while it serves and while it is down."""

import signal
import struct
import time
from pathlib import Path
from typing import ClassVar

from faults.kills.campaign import LEASE_S, Life
from faults.kills.crowd import HEARTBEAT_S, NODES, Crowd
from faults.power.campaign import build
from faults.power.program import NONE

SOURCE = str(Path(__file__).with_name("clock.c"))
JUMPS_S = (2, 90, 3600, 6 * 3600, 86_400, 40 * 86_400)
LONGEST_S = 0.8
TOLERATED_S = 2 * HEARTBEAT_S  # for so long it may stand still and nobody gets more time


class WrongClock(Life):
    """Whatever becomes of the wall clock, and however long nobody moves, time goes on as it did."""

    later: ClassVar[tuple[str, ...]] = ("set", "late", "stopped", "asleep")

    def __init__(self, folder: Path, seed: int, mutant: str = NONE) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._library = build(folder, SOURCE)
        self._ahead = folder / "ahead"
        self._set(0)
        self.jumps = 0
        super().__init__(folder, seed, mutant)

    def _environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "CLOCK_AHEAD_MS": str(self._ahead)}

    def _set(self, ahead_ms: int) -> None:
        with self._ahead.open(
            "r+b" if self._ahead.exists() else "wb"
        ) as file:  # it is shared: never a new one
            file.write(struct.pack("=q", ahead_ms))

    def _jump(self) -> None:
        self._set(
            self._chance.choice(JUMPS_S) * self._chance.choice((-1000, 1000)) + self._chance.randrange(1000)
        )
        self.jumps += 1

    def _mend(self) -> None:
        """While it is down, its machine's clock is set now and then."""
        if self._chance.random() < 0.4:
            self._jump()

    def _at_set(self, _: Crowd) -> None:
        for _each in range(2):
            time.sleep(self._chance.uniform(0, LONGEST_S))
            self._jump()
        time.sleep(self._chance.uniform(0, LONGEST_S))

    def _at_late(self, _: Crowd) -> None:
        """What is due comes too late, again and again."""
        for _each in range(3):
            self._stand_still(self._chance.uniform(0.1, LEASE_S / 2))
            time.sleep(self._chance.uniform(0, LONGEST_S / 2))

    def _at_stopped(self, _: Crowd) -> None:
        self._stand_still(LEASE_S + self._chance.uniform(0.5, 2))
        time.sleep(self._chance.uniform(0, LONGEST_S))

    def _stand_still(self, length_s: float) -> None:
        """Stopped, and perhaps set meanwhile."""
        child = self._server.child
        child.send_signal(signal.SIGSTOP)
        time.sleep(length_s)
        if self._chance.random() < 0.3:
            self._jump()
        excused_s = max(length_s - TOLERATED_S, 0)
        self._notary.hears("stopped", excused_ms=int(excused_s * 1000))
        child.send_signal(signal.SIGCONT)

    def _at_asleep(self, crowd: Crowd) -> None:
        """A node stands still for longer than its leases live: others fetch what it holds."""
        crowd.sleep(self._chance.choice(NODES), LEASE_S + self._chance.uniform(0.5, 2))
        time.sleep(self._chance.uniform(0, LONGEST_S))
