"""Mends a store that a power cut has left in a state that RocksDB would refuse, or misread.

**Holes.** Unsynced writes reach the disk in any order of pages. If the page with the beginning of a record
never arrived, zeros stand there. RocksDB takes them for preallocated room, and continues with the next block:
it would silently apply later writes without the earlier ones. So the log is cut where its first hole begins.
A sync makes all earlier writes durable, so nothing after the hole was ever acknowledged. One byte of the
record stays, so that RocksDB sees a torn end: it then continues with the next log only if that one follows
on, and reports rows in files that the logs should have had first. Logs after one with a hole stay as they
are: the one with the hole may be from an earlier start, with all its rows in files by now, and be there again
because its removal was not durable.

**A name without a file.** At each start RocksDB writes a new MANIFEST, makes CURRENT name it, and then syncs
the directory with both names. POSIX lets a power cut before that keep the second name without the first. No
other change depends on the new MANIFEST by then, and RocksDB has yet to delete the one before it. So CURRENT
is made to name that one again.
"""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from toehold_base.durable import sync_directory

from .log_format import cut, fragments
from .manifest import is_whole

_SOMETHING = re.compile(rb"[^\0]")
_MANIFEST = re.compile(r"MANIFEST-(\d+)")
_LOG = re.compile(r"(\d+)\.log")

_log = structlog.get_logger()


def mend(store: Path) -> None:
    """Mend a store, unless another process uses it: opening it will say so.

    Logs that are cut are kept beside the store. Raises OSError.
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
    """Where the first record begins that lacks a part although other bytes follow; None if there is none."""
    for part in fragments(data):
        if part.is_missing and (part.is_amid or _SOMETHING.search(data, part.at)):
            return part.record
    return None


def _holes(store: Path) -> list[tuple[Path, int]]:
    """The logs that have holes, each with the offset of its first one."""
    found = []
    for path in _numbered(store, _LOG):
        try:
            at = hole_at(path.read_bytes())
        except FileNotFoundError:  # the process that uses the store has removed it
            continue
        if at is not None:
            found.append((path, at))
    return found


def _former_manifest(store: Path) -> Path | None:
    """The newest whole MANIFEST, if the one that CURRENT names is missing."""
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
    _log.warning(
        "manifest_replaced", problem="a power cut has left CURRENT without its file", now=manifest.name
    )


def _numbered(store: Path, name: re.Pattern[str]) -> list[Path]:
    """The files whose names match, by their number."""
    found = [(int(match[1]), path) for path in store.glob("*") if (match := name.fullmatch(path.name))]
    return [path for _, path in sorted(found)]


@contextmanager
def _locked(store: Path) -> Iterator[bool]:
    """Lock the store, as RocksDB does; False if another process has it."""
    with (store / "LOCK").open("ab") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
