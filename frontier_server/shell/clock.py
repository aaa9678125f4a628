"""The frontier's own time: read once from the wall clock, then advanced by the machine's boot clock.

The boot clock goes on while a server is down or a machine sleeps, and nobody can set it. So
while the machine is up, a jump of the wall clock has no effect, even over restarts: rests last
as long as they should. After a boot of the machine the wall clock counts again; but the
frontier's time never goes back behind the last stored one.
"""

import time
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Clock:
    """Milliseconds since the epoch, by the frontier's own time.

    `boot` and `boot_ms` are stored by an earlier server: the id of the machine's boot, and the
    frontier's time at that boot.
    """

    def __init__(self, least_ms: int = 0, boot: str = "", boot_ms: int = 0) -> None:
        passed_ms = _passed_ms()
        self.boot = boot_id()
        start_ms = boot_ms + passed_ms if boot and boot == self.boot else wall_ms()
        self.boot_ms = max(start_ms, least_ms) - passed_ms

    def now_ms(self) -> int:
        """Now. Never goes back."""
        return self.boot_ms + _passed_ms()

    def ahead_ms(self) -> int:
        """How far it is ahead of the wall clock; below zero if it is behind."""
        return self.now_ms() - wall_ms()


def wall_ms() -> int:
    """The wall clock's time."""
    return time.time_ns() // 1_000_000


def iso(moment_ms: int) -> str:
    """A moment in ISO 8601, in UTC."""
    return f"{_second(moment_ms // 1000)[0]}.{moment_ms % 1000:03d}Z"


def digits(moment_ms: int) -> str:
    """A moment as 17 digits, as in Heritrix's logs."""
    return f"{_second(moment_ms // 1000)[1]}{moment_ms % 1000:03d}"


@lru_cache(maxsize=256)  # logs get hundreds of lines in a second
def _second(moment_s: int) -> tuple[str, str]:
    moment = datetime.fromtimestamp(moment_s, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}", f"{moment:%Y%m%d%H%M%S}"


def boot_id() -> str:
    """The id of the machine's boot; empty if unknown."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def _passed_ms() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
