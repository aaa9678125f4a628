"""Copies a RocksDB while it is written: links to its files, as they were at one moment.

RocksDB's own checkpoint does the same, but rocksdict holds the interpreter's lock meanwhile:
on a disk that is slow to sync, the whole server would stand still for seconds. Here other
threads run.

A store is its manifest, the files that the manifest names, and the logs of later writes.
RocksDB appends to the manifest and the logs, changes no other file, and deletes a file only
after the manifest has dropped it. So if the manifest did not grow while the files were linked,
all files that it names are there. A log is complete once a later one begins; so the logs, each
cut to its length at that moment, hold all writes up to one of them.
"""

import errno
import os
import re
import shutil
from pathlib import Path
from typing import NamedTuple

from toehold_base.durable import sync_directory

TRIES = 1000  # each takes milliseconds, and fails if a flush or compaction ends meanwhile

_CANNOT_LINK = (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK)
_NEVER_CHANGED = re.compile(r"\d+\.sst|OPTIONS-\d+")
_LOG = re.compile(r"\d+\.log")
_OWN = re.compile(_LOG.pattern + r"|rocksdict-config\.json")  # written in place: the copy gets its own


class _Version(NamedTuple):
    """A state of the manifest: as long as it stays, the store has the same files."""

    manifest: str
    size: int


def copy_live(source: Path, target: Path) -> None:
    """Make a store at `target` with all writes to the one at `source` before the call, durably.

    Raises OSError; `target` is then not a store. May block.
    """
    target.mkdir()
    for _ in range(TRIES):
        try:
            version = _version(source)
            linked, own = _taken(source, target, _NEVER_CHANGED), _taken(source, target, _OWN)
            sizes = {name: (target / name).stat().st_size for name in own}
            _take(source / version.manifest, target / version.manifest)
            if _version(source) == version:
                break
        except FileNotFoundError:  # deleted since it was listed
            continue
    else:
        raise OSError(errno.EAGAIN, "the files of the store change too fast")
    for name, size in (sizes | {version.manifest: version.size}).items():
        _cut(target / name, size)
    current = target / "CURRENT"
    current.write_text(f"{version.manifest}\n")
    _sync(current)
    for path in list(target.iterdir()):
        if path.name not in linked | own | {version.manifest, current.name}:
            path.unlink()  # left by a failed try
    sync_directory(target)


def _version(source: Path) -> _Version:
    manifest = (source / "CURRENT").read_text().strip()
    return _Version(manifest, (source / manifest).stat().st_size)


def _taken(source: Path, target: Path, names: re.Pattern[str]) -> set[str]:
    """Link all files of a kind; their names."""
    found = {path.name for path in source.iterdir() if names.fullmatch(path.name)}
    for name in found:
        _take(source / name, target / name)
    return found


def _take(source: Path, target: Path) -> None:
    """Link a file, or copy it if the file system has no links, unless an earlier try did."""
    if target.exists() and target.stat().st_size == source.stat().st_size:
        return
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError as problem:
        if problem.errno not in _CANNOT_LINK:
            raise
        shutil.copyfile(source, target)
        _sync(target)


def _cut(path: Path, size: int) -> None:
    """Replace a linked file by a copy of its first bytes, since the file itself grows with the store."""
    part = path.with_name(f"{path.name}.part")
    with path.open("rb") as whole, part.open("wb") as copy:
        left = size
        while left:
            block = whole.read(min(left, 1024 * 1024))
            if not block:
                raise OSError(errno.EIO, f"{path.name} lacks its last {left} bytes")
            copy.write(block)
            left -= len(block)
        copy.flush()
        os.fsync(copy.fileno())
    part.rename(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
