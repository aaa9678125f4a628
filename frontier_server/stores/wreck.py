"""Reads a damaged RocksDB as far as possible: unreadable ranges of keys are skipped, and counted.

It opens a copy, with links to the files that never change, so that the damaged store stays as
it is. RocksDB's iterator stops at an unreadable block or file; a bisection then finds the next
key from which it can continue. The range between is left out on all levels, so that no older
version of a row takes the place of a newer one.
"""

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rocksdict import AccessType, Cache, DBRecoveryMode, Options, Rdict

from ..core.rows.store import Family, StoreDamaged
from .rocks import family_names, table_options

CACHE_BYTES = 32 * 1024 * 1024
OPEN_FILES = 64  # few, so that files are opened only when needed: an unreadable one stops no other
KEY_BYTES = 48  # the bytes of a key that the search for the end of a gap tells apart

_PASSED_OVER = ("LOCK", "LOG")


class Gap(NamedTuple):
    """Unreadable keys: after one key, and before another (None: up to the last)."""

    after: bytes
    before: bytes | None


class Wreck:
    """A damaged store, opened as a copy at a new path; `remove` the copy when done."""

    def __init__(self, source: Path, path: Path) -> None:
        """Raises StoreDamaged if no row can be read, and OSError if the copy cannot be made."""
        self.rows: Counter[Family] = Counter()
        self.gaps: dict[Family, list[Gap]] = {family: [] for family in Family}
        self._path = path
        _link(source, path)
        try:
            self._db = _opened(path)
            self.rebuilt = ""
        except Exception as problem:
            # The manifest is unreadable, or names missing files.
            self.rebuilt = str(problem).strip()
            try:
                Rdict.repair(str(path), Options(raw_mode=True))
                self._db = _opened(path)
            except Exception as hopeless:
                shutil.rmtree(path, ignore_errors=True)
                raise StoreDamaged(f"no row of {source} can be read: {hopeless}") from hopeless
        self._families = {
            family: self._db.get_column_family(name) for family, name in family_names(path).items()
        }

    def scan(self, family: Family, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """All readable rows whose keys begin with `prefix`, in key order."""
        rows: Any = self._families[family].iter()
        rows.seek(prefix)
        last = prefix
        while True:
            while rows.valid():
                last = rows.key()
                if not last.startswith(prefix):
                    return
                self.rows[family] += 1
                yield last, rows.value()
                rows.next()
            if _is_at_end(rows):
                return
            following = self._readable_after(family, last)
            rows = self._families[family].iter()
            if following is not None:
                rows.seek(following)
            found = rows.key() if following is not None and rows.valid() else None
            self.gaps[family].append(Gap(last, found))
            if following is None:
                return

    def _readable_after(self, family: Family, key: bytes) -> bytes | None:
        """The next key after this one from which reading can continue, or None."""
        most = (1 << 8 * KEY_BYTES) - 1
        low = int.from_bytes(key[:KEY_BYTES].ljust(KEY_BYTES, b"\0"), "big")
        high, step = low, 1
        while not self._can_read_from(family, high := min(low + step, most)):
            if high == most:
                return None
            step <<= 1
        low += step >> 1
        while high - low > 1:
            middle = (low + high) // 2
            if self._can_read_from(family, middle):
                high = middle
            else:
                low = middle
        return high.to_bytes(KEY_BYTES, "big")

    def _can_read_from(self, family: Family, place: int) -> bool:
        rows: Any = self._families[family].iter()
        rows.seek(place.to_bytes(KEY_BYTES, "big"))
        return bool(rows.valid()) or _is_at_end(rows)

    def remove(self) -> None:
        """Close the copy, and remove it."""
        for family in self._families.values():
            family.close()
        self._families.clear()
        self._db.close()
        shutil.rmtree(self._path)


def _is_at_end(rows: Any) -> bool:
    """Whether an iterator without a row is at the end, rather than at an unreadable block."""
    try:
        rows.status()
    except Exception:  # rocksdict raises bare ones; the caller records a gap
        return False
    return True


def _opened(path: Path) -> Rdict:
    cache = Cache(CACHE_BYTES)
    families = {name: _options(cache) for name in family_names(path).values()}
    return Rdict(str(path), _options(cache), families, AccessType.read_write())


def _options(cache: Cache) -> Options:
    options = table_options(cache)
    options.create_if_missing(False)
    options.create_missing_column_families(True)
    options.set_paranoid_checks(False)
    options.set_max_open_files(OPEN_FILES)
    options.set_disable_auto_compactions(True)
    options.set_wal_recovery_mode(DBRecoveryMode.skip_any_corrupted_record())
    return options


def _link(source: Path, path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)  # left by an interrupted salvage
    path.mkdir()
    for each in source.iterdir():
        if each.name.startswith(_PASSED_OVER) or not each.is_file():
            continue
        if each.suffix == ".sst":
            try:
                os.link(each, path / each.name)
                continue
            except OSError:  # the file system has no links
                pass
        shutil.copyfile(each, path / each.name)
