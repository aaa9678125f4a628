"""The processes that a process has started, as the system knows them."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from .waiting import eventually


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


@contextlib.contextmanager
def stopped(parent: int) -> Iterator[None]:
    """Nothing of a process and its children runs meanwhile: none of their threads."""
    signal_all(parent, signal.SIGSTOP)
    try:
        eventually(lambda: all(_is_stopped(pid) for pid in (parent, *children(parent))), "processes to stop")
        yield
    finally:
        signal_all(parent, signal.SIGCONT)


def kill_all(parent: int) -> None:
    """`kill -9` of a process and its children, as when their machine fails."""
    signal_all(parent, signal.SIGKILL)


def _processes() -> Iterator[tuple[int, int]]:
    """Every process and its parent."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has just ended
            yield int(status.parent.name), int(_facts(status)[1])


def _is_stopped(pid: int) -> bool:
    return all(_facts(thread / "stat")[0] == "T" for thread in Path(f"/proc/{pid}/task").iterdir())


def _facts(status: Path) -> list[str]:
    """What the system tells of a process or thread after its name: its state, its parent, and so on."""
    return status.read_text().rpartition(")")[2].split()
