"""DiskWatch: whether there is room where the node writes."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

DEFAULT_RESERVE_BYTES = 512 * 1024 * 1024
"""The frontier's own default."""


MAX_MORE_BYTES = 64 * 1024 * 1024
"""At most so much more than the reserve must be free before a low disk counts as low no more."""


class Space(Protocol):
    """The part of os.statvfs's answer that is needed."""

    @property
    def f_bavail(self) -> int: ...

    @property
    def f_frsize(self) -> int: ...


class DiskWatch:
    """Watches the free space of directories. A disk is low below a reserve, and then until a tenth more is
    free, or MAX_MORE_BYTES more."""

    def __init__(
        self,
        directories: Iterable[Path],
        reserve_bytes: int = DEFAULT_RESERVE_BYTES,
        space: Callable[[Path], Space] = os.statvfs,
    ) -> None:
        """Raises ValueError for a reserve below 0; 0 watches nothing."""
        if reserve_bytes < 0:
            raise ValueError(f"reserve_bytes must be at least 0, got {reserve_bytes}")
        self._low = dict.fromkeys(directories, "")
        self._reserve_bytes = reserve_bytes
        # Otherwise a node at the edge of the reserve would stop and go on with every page.
        self._more_bytes = min(reserve_bytes // 10, MAX_MORE_BYTES)
        self._space = space

    def check(self) -> str:
        """Looks at all directories. Returns a message that says which is low; empty if none is. A directory
        that cannot be read counts as it did at the last look."""
        if self._reserve_bytes:
            for directory, low in self._low.items():
                enough = self._reserve_bytes + (self._more_bytes if low else 0)
                try:
                    space = self._space(directory)
                except OSError:
                    continue
                free = space.f_bavail * space.f_frsize
                self._low[directory] = self._problem(directory, free) if free < enough else ""
        return next(filter(None, self._low.values()), "")

    def _problem(self, directory: Path, free: int) -> str:
        needed_mib = -(-(self._reserve_bytes + self._more_bytes) >> 20)
        free_mib = free >> 20
        are = "is" if free_mib == 1 else "are"
        return f"only {free_mib} MiB {are} free in {directory}; {needed_mib} MiB are needed to continue"
