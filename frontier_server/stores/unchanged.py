"""Opens a store for reading without changing anything in its directory.

RocksDB needs a directory to write to even if it only reads, and a store that a power cut has hit must be
mended first. So the store is opened in a temporary directory, with links to its tables, which never change,
and copies of its small files. RocksDB opens all tables at once. So the directory is needed no longer than
that, and a server that opens the store later may delete tables without harm.
"""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from ..core.rows.store import StoreDamaged
from .locks import ANSWERS, is_locked
from .rocks import RocksStore, StoreUnavailable

_PASSED_OVER = ("LOCK", "LOG", "rocksdict-config.json")


class StoreInUse(StoreUnavailable):
    """A server has the store open, and may change it at any time."""


def open_unchanged(path: Path, cache_bytes: int) -> RocksStore:
    """Open a store as it is now, to read it. Others may read it too, and a server may start on it.

    Raises StoreInUse, StoreUnavailable or StoreDamaged.
    """
    try:
        if not (path / "CURRENT").exists() and not any(path.glob("*.sst")):
            raise StoreUnavailable("there is no store in it")
        _raise_if_in_use(path)
        with TemporaryDirectory(prefix="toehold-frontier-") as directory:
            copy = Path(directory) / path.name
            try:
                _mirror(path, copy)
                return RocksStore(copy, read_only=True, cache_bytes=cache_bytes, is_mirror=True)
            except (StoreUnavailable, StoreDamaged, FileNotFoundError) as problem:
                _raise_if_in_use(path)  # a server that has just started may have changed the files meanwhile
                if isinstance(problem, OSError):
                    raise
                raise type(problem)(str(problem).replace(str(copy), str(path))) from problem
    except OSError as problem:
        raise StoreUnavailable(f"{problem.filename or path}: {problem.strerror}") from problem


def _mirror(path: Path, copy: Path) -> None:
    copy.mkdir()
    for file in path.iterdir():
        if file.suffix == ".sst":
            (copy / file.name).symlink_to(file.absolute())
        elif file.is_file() and not file.name.startswith(_PASSED_OVER):
            shutil.copyfile(file, copy / file.name)


def _raise_if_in_use(path: Path) -> None:
    """Raise StoreInUse if another process holds RocksDB's lock."""
    if is_locked(path / "LOCK"):
        raise StoreInUse(ANSWERS)
