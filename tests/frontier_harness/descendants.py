"""The processes that a process has started, as the system knows them."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path


def children(parent: int) -> list[int]:
    """The process ids of a process's children, and of theirs."""
    parents = dict(_processes())
    found = [parent]
    for pid in found:
        found += [child for child, of in parents.items() if of == pid]
    return found[1:]


def signal_all(parent: int, number: signal.Signals) -> None:
    """Send a signal to a process and its children: those that start others first."""
    for pid in (parent, *children(parent)):
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            os.kill(pid, number)


def kill_all(parent: int) -> None:
    """`kill -9` of a process and its children, as when their machine fails."""
    signal_all(parent, signal.SIGKILL)


def _processes() -> Iterator[tuple[int, int]]:
    """Every process and its parent."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has just ended
            yield int(status.parent.name), int(status.read_text().rpartition(")")[2].split()[1])
