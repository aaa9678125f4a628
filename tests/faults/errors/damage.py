"""Files of a data directory that are damaged: flipped, cut, or missing."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

LOST_STORE = "A file of rows, or the list of them, is damaged: `*.sst`, `MANIFEST-*`, `CURRENT`"
LOST_END = "RocksDB's log is damaged, cut or missing"
OPTIONS = "`OPTIONS-*` is damaged or missing"
CRAWL_LOG_CUT = "`crawl.log` is shorter than it was"
LOG_GONE = "`crawl.log` or `job.log` is gone, or lines of it are damaged"
CHECKPOINT = "A checkpoint is damaged"

Damage = Callable[[Path], None]


class Case(NamedTuple):
    """A damage to files of one pattern in the data directory, and the row of the manual that tells of it."""

    row: str
    files: str
    damage: Damage
    saved: str = ""  # a pattern of what `--salvage` prints, where that is the way out


def flipped(path: Path) -> None:
    """A bit in its middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


def holed(path: Path) -> None:
    """Zeros in its middle, as a power cut leaves them."""
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 64] = bytes(64)
    path.write_bytes(content)


def flipped_at_the_end(path: Path) -> None:
    """A bit of a file of rows that is read whenever it is opened."""
    content = bytearray(path.read_bytes())
    content[-5] ^= 0x10
    path.write_bytes(content)


def cut(path: Path) -> None:
    """Half of it is gone."""
    os.truncate(path, path.stat().st_size // 2)


def emptied(path: Path) -> None:
    """All of it is gone but the name."""
    os.truncate(path, 0)


def missing(path: Path) -> None:
    """It is not there."""
    path.unlink()


ALL = r"known losses: none"
SOME = r"crawl t: \d+ URIs"
CASES = (
    Case(LOST_STORE, "store/*.sst", flipped_at_the_end, SOME),
    Case(LOST_STORE, "store/*.sst", cut, SOME),
    Case(LOST_STORE, "store/*.sst", missing, SOME),
    Case(LOST_STORE, "store/MANIFEST-*", flipped, SOME),
    Case(LOST_STORE, "store/MANIFEST-*", emptied, ALL),
    Case(LOST_STORE, "store/MANIFEST-*", missing, ALL),
    Case(LOST_STORE, "store/CURRENT", flipped, ALL),
    Case(LOST_STORE, "store/CURRENT", emptied, ALL),
    Case(LOST_STORE, "store/CURRENT", missing, ALL),
    Case(LOST_END, "store/*.log", flipped),
    Case(LOST_END, "store/*.log", cut),
    Case(LOST_END, "store/*.log", missing),
    Case(OPTIONS, "store/OPTIONS-*", flipped),
    Case(OPTIONS, "store/OPTIONS-*", cut),
    Case(OPTIONS, "store/OPTIONS-*", missing),
    Case(CRAWL_LOG_CUT, "crawls/t/crawl.log", cut),
    Case(LOG_GONE, "crawls/t/crawl.log", flipped),
    Case(LOG_GONE, "crawls/t/crawl.log", missing),
    Case(LOG_GONE, "crawls/t/job.log", flipped),
    Case(LOG_GONE, "crawls/t/job.log", cut),
    Case(LOG_GONE, "crawls/t/job.log", missing),
    Case(CHECKPOINT, "checkpoints/*/*.sst", flipped_at_the_end),
    Case(CHECKPOINT, "checkpoints/*/*.sst", missing),
    Case(CHECKPOINT, "checkpoints/*/MANIFEST-*", emptied),
    Case(CHECKPOINT, "checkpoints/*/CURRENT", missing),
)
