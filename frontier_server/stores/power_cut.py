"""What a power cut leaves of a store that RocksDB would not open, or would misread; it is mended before.

**Holes.** What was written and not synced yet reaches the disk in any order of pages. Where the page with the
beginning of a record never came there are zeros. RocksDB takes these for room that was set aside, and goes on
with the next block: it would take in later writes without those before them, and nobody would know. So a log
ends, from now on, where its first hole begins. A sync makes all durable that was written before it: nothing
behind the hole was ever acknowledged. Logs that follow it stay as they are: the one with the hole may be of
an earlier start, all of it in files by now, and be there again because its removal was not durable.

**A name without a file.** At each start RocksDB writes a new MANIFEST, lets CURRENT name it and then syncs
the directory, which has both names. POSIX lets a cut before that leave the second without the first. Nothing
has been done by then that the new MANIFEST alone tells of, and the one before it is there still: RocksDB
deletes it later. So CURRENT names that one again.
"""

import fcntl
import mmap
import os
import re
from pathlib import Path

import structlog

from ..durable import sync_directory
from .log_format import cut, parts

_SOMETHING = re.compile(rb"[^\0]")
_MANIFEST = re.compile(r"MANIFEST-(\d+)")
_LOG = re.compile(r"(\d+)\.log")

_log = structlog.get_logger()


def mend(store: Path) -> None:
    """Mend a store, unless another process has it: to open it will tell.

    What is cut off logs is kept beside the store. Raises OSError.
    """
    former, holes = _former_manifest(store), _holes(store)
    if not (former or holes) or _is_in_use(store):
        return
    if former is not None:
        _let_current_name(store, former)
    for path, at in holes:
        kept = store.with_name(f"{store.name}.{path.name}.cut")
        cut(path, at, kept, "a power cut has left a hole in it")


def hole_at(data: bytes | bytearray | mmap.mmap) -> int | None:
    """Where the record begins of which a part is missing, though something stands behind it; None if there is
    none."""
    for part in parts(data):
        if part.is_missing and (part.is_amid or _SOMETHING.search(data, part.at)):
            return part.record
    return None


def _holes(store: Path) -> list[tuple[Path, int]]:
    """The logs that have holes, and where the first begins."""
    holes = [(path, _hole_of(path)) for path in _numbered(store, _LOG)]
    return [(path, at) for path, at in holes if at is not None]


def _hole_of(path: Path) -> int | None:
    if not path.stat().st_size:
        return None  # there is nothing to map
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return hole_at(data)


def _former_manifest(store: Path) -> Path | None:
    """The newest MANIFEST, if CURRENT names none that is there."""
    try:
        named = (store / "CURRENT").read_text("ascii", "replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
    there = _numbered(store, _MANIFEST)
    if not there or not _MANIFEST.fullmatch(named) or store / named in there:
        return None
    return there[-1]


def _let_current_name(store: Path, manifest: Path) -> None:
    new = store / "CURRENT.dbtmp"  # as RocksDB calls it, which deletes one that is left
    with new.open("w") as file:
        file.write(f"{manifest.name}\n")
        file.flush()
        os.fsync(file.fileno())
    new.rename(store / "CURRENT")
    sync_directory(store)
    _log.warning("manifest_named", problem="a power cut has left CURRENT without its file", now=manifest.name)


def _numbered(store: Path, name: re.Pattern[str]) -> list[Path]:
    """The files of such a name, by their number."""
    found = [(int(match[1]), path) for path in store.glob("*") if (match := name.fullmatch(path.name))]
    return [path for _, path in sorted(found)]


def _is_in_use(store: Path) -> bool:
    """Whether another process has locked the store, as RocksDB does."""
    try:
        with (store / "LOCK").open("r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
