"""Checkpoints: copies of the store as it was at some moment, under `<data>/checkpoints/<name>`.

Each is a complete store, made of links to files of the serving one. It gets its name when it is
complete (`.tmp` before), and loses it before its files are deleted (`.deleted`): a checkpoint
with its name is always whole.
"""

import asyncio
import re
import shutil
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import structlog

from toehold_base.durable import make_directory, sync_directory

from ..core.opening.opening import read_server_row
from ..core.rows.errors import StoreCorrupt, UnknownCheckpoint
from ..core.rows.store import Family, Store, StoreFailed
from .rocks import RocksStore

_NAME = re.compile(r"cp(\d{5,})-(\d{14})")
_LEFTOVER = re.compile(rf"(?:{_NAME.pattern})\.(?:tmp|deleted)")

_log = structlog.get_logger()


class Kept(NamedTuple):
    name: str
    create_ms: int
    path: Path


class _Reader:
    """A checkpoint's store. Damage raises UnknownCheckpoint, since it must not end the server."""

    def __init__(self, name: str, store: RocksStore) -> None:
        self._name = name
        self._store = store
        self.close = store.close

    def get(self, family: Family, key: bytes) -> bytes | None:
        try:
            return self._store.get(family, key)
        except StoreFailed as problem:
            raise _unreadable(self._name, problem) from problem

    def get_many(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        try:
            return self._store.get_many(family, keys)
        except StoreFailed as problem:
            raise _unreadable(self._name, problem) from problem

    def scan(self, family: Family, start: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        try:
            yield from self._store.scan(family, start, prefix)
        except StoreFailed as problem:
            raise _unreadable(self._name, problem) from problem


def _unreadable(name: str, problem: Exception) -> UnknownCheckpoint:
    return UnknownCheckpoint(f"checkpoint {name} cannot be read: {problem}", checkpoint=name)


class Checkpoints:
    """The checkpoints of a data directory. Thread-safe; making one delays no other use."""

    def __init__(self, data: Path, store: RocksStore) -> None:
        self._directory = data.resolve() / "checkpoints"
        self._store = store
        self._making = threading.Lock()
        self._reading = threading.Lock()  # never held while a store is opened or closed
        self._readers: dict[str, _Reader] = {}

    def clear(self) -> None:
        """Remove checkpoints that a crash has left unfinished or half deleted. May block."""
        if not self._directory.is_dir():
            return
        for path in sorted(self._directory.iterdir()):
            if _LEFTOVER.fullmatch(path.name):
                _log.warning("checkpoints", removed=str(path), problem="a crash left it incomplete")
                try:
                    shutil.rmtree(path)
                except OSError as problem:
                    _log.error("checkpoints", not_removed=str(path), problem=str(problem))

    def create(self, now_ms: int, name: str = "") -> Kept:
        """Make one, durably; under a name that another one's was made with, or a new one. Raises OSError. May
        block."""
        return self.complete(self.begin(now_ms, name))

    def begin(self, now_ms: int, name: str = "") -> str:
        """Copy the store, as `create` does; the name that `complete` gives the copy. Until then it is none of
        those that are kept, and the next start removes it."""
        with self._making:
            make_directory(self._directory)
            names = [path.name.partition(".")[0] for path in self._directory.iterdir()]
            number = max([_number(each) for each in names if _NAME.fullmatch(each)], default=0) + 1
            moment = datetime.fromtimestamp(now_ms / 1000, UTC)
            name = name or f"cp{number:05d}-{moment:%Y%m%d%H%M%S}"
            unfinished = self._unfinished(name)
            try:
                self._store.checkpoint(unfinished)
            except BaseException:
                shutil.rmtree(unfinished, ignore_errors=True)
                raise
            return name

    def complete(self, name: str) -> Kept:
        """Keep a copy that was begun. Raises OSError; then no checkpoint remains. May block."""
        path, unfinished = self._directory / name, self._unfinished(name)
        try:
            unfinished.rename(path)
            sync_directory(self._directory)
        except BaseException:
            for left in (unfinished, path):
                shutil.rmtree(left, ignore_errors=True)
            raise
        return _kept(path)

    def give_up(self, name: str) -> None:
        """Remove a copy that was begun. May block."""
        shutil.rmtree(self._unfinished(name), ignore_errors=True)

    def _unfinished(self, name: str) -> Path:
        return self._directory / f"{name}.tmp"

    def kept(self) -> list[Kept]:
        """All of them, the oldest first."""
        if not self._directory.is_dir():
            return []
        found = [_kept(path) for path in self._directory.iterdir() if _NAME.fullmatch(path.name)]
        return sorted(found, key=lambda kept: _number(kept.name))

    def path(self, name: str) -> Path:
        """A checkpoint's directory. Raises UnknownCheckpoint."""
        path = self._directory / name
        if not _NAME.fullmatch(name) or not path.is_dir():
            raise UnknownCheckpoint(f"there is no checkpoint {name[:80]!r}", checkpoint=name[:80])
        return path

    def open(self, name: str) -> Store:
        """A checkpoint's store, readable until `close_readers`. Raises UnknownCheckpoint, also for damage."""
        with self._reading:
            reader = self._readers.get(name)
        if reader is not None:
            return reader
        try:
            opened = _Reader(name, RocksStore(self.path(name), read_only=True))
        except StoreFailed as problem:
            raise _unreadable(name, problem) from problem
        try:
            read_server_row(opened)
        except StoreCorrupt as problem:
            opened.close()
            raise _unreadable(name, problem) from problem
        with self._reading:
            reader = self._readers.setdefault(name, opened)
        if reader is not opened:  # another thread was faster
            opened.close()
        return reader

    async def close_readers(self) -> None:
        """Close the stores that were opened. Call it from the task that reads them, between two reads."""
        with self._reading:
            readers, self._readers = self._readers, {}
        for reader in readers.values():
            await asyncio.to_thread(reader.close)

    def delete(self, name: str) -> None:
        """Delete one. Raises UnknownCheckpoint or OSError. May block."""
        path = self.path(name)
        gone = path.with_name(f"{name}.deleted")  # not a checkpoint any more, even if a crash follows
        path.rename(gone)
        sync_directory(self._directory)  # otherwise a power cut might bring back the name of a partial one
        shutil.rmtree(gone)


def check_name(name: str) -> str:
    """The name, if a checkpoint may have it. Raises UnknownCheckpoint."""
    if _NAME.fullmatch(name) is None:
        raise UnknownCheckpoint(f"no checkpoint can be called {name[:80]!r}", checkpoint=name[:80])
    return name


def _number(name: str) -> int:
    match = _NAME.fullmatch(name)
    assert match is not None
    return int(match[1])


def _kept(path: Path) -> Kept:
    created = datetime.strptime(path.name.partition("-")[2], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    return Kept(path.name, int(created.timestamp() * 1000), path)
