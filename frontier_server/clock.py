"""The frontier's own time: the wall clock's once, then what the machine's boot clock says has passed.

The boot clock goes on while a server is down or a machine sleeps, and nobody can set it. So
while the machine is up a jump of the wall clock changes nothing, over restarts, too: rests
last as long as they should. After the machine was booted anew the wall clock is all that
there is; the frontier's time then never stands below the last that was stored.
"""

import time
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Clock:
    """Milliseconds since the epoch, as this server reckons them.

    `boot` and `boot_ms` are what an earlier server stored: which run of the machine it was
    in, and this clock's time at its beginning.
    """

    def __init__(self, least_ms: int = 0, boot: str = "", boot_ms: int = 0) -> None:
        passed_ms = _passed_ms()
        self.boot = boot_id()
        start_ms = boot_ms + passed_ms if boot and boot == self.boot else wall_ms()
        self.boot_ms = max(start_ms, least_ms) - passed_ms

    def now_ms(self) -> int:
        """Now. Never less than before."""
        return self.boot_ms + _passed_ms()

    def ahead_ms(self) -> int:
        """How far it is ahead of the wall clock; below zero if it is behind."""
        return self.now_ms() - wall_ms()


def wall_ms() -> int:
    """What the wall clock says."""
    return time.time_ns() // 1_000_000


def iso(moment_ms: int) -> str:
    """A moment for people, in UTC."""
    return f"{_second(moment_ms // 1000)[0]}.{moment_ms % 1000:03d}Z"


def digits(moment_ms: int) -> str:
    """The same as 17 digits, as Heritrix's logs have it."""
    return f"{_second(moment_ms // 1000)[1]}{moment_ms % 1000:03d}"


@lru_cache(maxsize=256)  # lines of logs come by the hundred in a second
def _second(moment_s: int) -> tuple[str, str]:
    moment = datetime.fromtimestamp(moment_s, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}", f"{moment:%Y%m%d%H%M%S}"


def boot_id() -> str:
    """Which run of the machine this is; empty if it does not tell."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def _passed_ms() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
