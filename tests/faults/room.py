"""A disk that fills up and gets room again: a large file stands in for what fills it."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MIB = 1024 * 1024
MARGIN_MIB = 256
"""More than others take of the disk, or give back, while a test runs. Tests that fill it do not run together,
see `filling`."""


def free_mib(folder: Path) -> int:
    """How much room there is."""
    space = os.statvfs(folder)
    return space.f_bavail * space.f_frsize // MIB


def reserve_mib(folder: Path) -> int:
    """A reserve that there is room for until the disk is `filled`."""
    found = free_mib(folder) - MARGIN_MIB
    assert found > 2 * MARGIN_MIB, f"the disk of {folder} is too full for this test"
    return found


@contextmanager
def filled(folder: Path) -> Iterator[None]:
    """There is less room than that reserve until the block ends."""
    filler = folder / "filler"
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 2 * MARGIN_MIB * MIB)
    try:
        yield
    finally:
        filler.unlink()


@contextmanager
def filling() -> Iterator[None]:
    """No other test fills the disk meanwhile, be it of this run or of one beside it."""
    lock = os.open(tempfile.gettempdir(), os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
