"""What a power cut leaves of a store that RocksDB would not open, or would misread; it is mended before.

**Holes.** What was written and not synced yet reaches the disk in any order of pages. Where the page with the
beginning of a record never came there are zeros. RocksDB takes these for room that was set aside, and goes on
with the next block: it would take in later writes without those before them, and nobody would know. So a log
ends, from now on, where its first hole begins. A sync makes all durable that was written before it: nothing
behind the hole was ever acknowledged. One byte of the record is left, so that RocksDB sees a torn end: it
goes on with the next log only if that follows on, and tells if rows are in files that the logs should have
before. Logs behind one with a hole stay as they are: it may be of an earlier start, all of it in files by
now, and be there again because its removal was not durable.

**A name without a file.** At each start RocksDB writes a new MANIFEST, lets CURRENT name it and then syncs
the directory, which has both names. POSIX lets a cut before that leave the second without the first. Nothing
has been done by then that the new MANIFEST alone tells of, and the one before it is there still: RocksDB
deletes it later. So CURRENT names that one again.
"""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from ..durable import sync_directory
from .log_format import cut, parts
from .manifest import is_whole

_SOMETHING = re.compile(rb"[^\0]")
_MANIFEST = re.compile(r"MANIFEST-(\d+)")
_LOG = re.compile(r"(\d+)\.log")

_log = structlog.get_logger()


def mend(store: Path) -> None:
    """Mend a store, unless another process has it: to open it will tell.

    What is cut off logs is kept beside the store. Raises OSError.
    """
    if _former_manifest(store) is None and not _holes(store):
        return
    with _locked(store) as is_ours:
        if not is_ours:
            return
        former = _former_manifest(store)
        if former is not None:
            _let_current_name(store, former)
        for path, at in _holes(store):
            kept = store.with_name(f"{store.name}.{path.name}.cut")
            cut(path, at + 1, kept, "a power cut has left a hole in it")


def hole_at(data: bytes | bytearray) -> int | None:
    """Where the record begins of which a part is missing, though something stands behind it; None if there is
    none."""
    for part in parts(data):
        if part.is_missing and (part.is_amid or _SOMETHING.search(data, part.at)):
            return part.record
    return None


def _holes(store: Path) -> list[tuple[Path, int]]:
    """The logs that have holes, and where the first begins."""
    found = []
    for path in _numbered(store, _LOG):
        try:
            at = hole_at(path.read_bytes())
        except FileNotFoundError:  # whoever has the store has removed it
            continue
        if at is not None:
            found.append((path, at))
    return found


def _former_manifest(store: Path) -> Path | None:
    """The newest MANIFEST that is whole, if CURRENT names none that is there."""
    try:
        named = (store / "CURRENT").read_text("ascii", "replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not _MANIFEST.fullmatch(named) or (store / named).exists():
        return None
    there = reversed(_numbered(store, _MANIFEST))
    return next((path for path in there if is_whole(path.read_bytes())), None)


def _let_current_name(store: Path, manifest: Path) -> None:
    new = store / "CURRENT.dbtmp"
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


@contextmanager
def _locked(store: Path) -> Iterator[bool]:
    """Keep others from opening the store, as RocksDB does; False if another process has it."""
    with (store / "LOCK").open("ab") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
