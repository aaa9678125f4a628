"""Trouble that pauses many crawls and may pass: a full disk, or a node that cannot continue.

Crawls are paused, and go on when the trouble is over and their specs say so. Both are sweeps; a trouble that
is over leaves the rest of its crawls running.
"""

from collections.abc import Iterable

from ..state import life
from ..state.operation import Operation
from ..state.sweeps import Act
from .shard import Shard

DISK_RESERVE = "disk-reserve"  # the trouble of all crawls while the frontier's disk is nearly full


def begin(op: Operation, shard: Shard, trouble: str, crawls: Iterable[int], pause: Act) -> None:
    """Pause the crawls that a trouble concerns."""
    shard.sweeps.drop(_end_of(trouble))
    shard.sweep(op, _begin_of(trouble), crawls, pause)


def end(op: Operation, shard: Shard, trouble: str) -> None:
    """Let those crawls go on that only this trouble has paused, if their specs say so."""
    shard.sweeps.drop(_begin_of(trouble))
    paused = shard.agenda.troubled.get(trouble)
    if paused:
        shard.sweep(op, _end_of(trouble), paused, lambda op, crawl: life.go_on_after(op, crawl, trouble))


def _begin_of(trouble: str) -> str:
    return f"{trouble} begins"


def _end_of(trouble: str) -> str:
    return f"{trouble} ends"
