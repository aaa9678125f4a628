"""Claims: how a process protects its files that rest, which it has not locked.

A claim is a locked file, `.OWNER.SUFFIX.lock`. While it is locked, repairs leave all files of that owner
alone. It is for processes with more files than descriptors. Without it nothing would be lost, but each start
of another process would finish their short files.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from .open_file import OPEN_SUFFIX, is_at

_LOCK_SUFFIX = ".lock"


class Claim:
    """A claim on the files of an owner in a directory. Raises OSError."""

    def __init__(self, directory: Path, owner: str, suffix: str) -> None:
        self._path = directory / f".{owner}{suffix}{_LOCK_SUFFIX}"
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o644)
        # Locked by another process, it protects the files of this one as well.
        with suppress(BlockingIOError):
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def close(self) -> None:
        with suppress(OSError):
            if is_at(self._path, self._descriptor):
                self._path.unlink(missing_ok=True)
        os.close(self._descriptor)


class Claims:
    """The claims in a directory, as they were at a moment. Claims of dead processes are removed."""

    def __init__(self, directory: Path, suffix: str) -> None:
        """Raises OSError."""
        ending = f"{suffix}{_LOCK_SUFFIX}"
        paths = directory.glob(f".*{ending}")
        self._ends = tuple(
            f"-{path.name[1:].removesuffix(ending)}{suffix}{OPEN_SUFFIX}" for path in paths if _is_held(path)
        )

    def protect(self, path: Path) -> bool:
        """Whether a living process claims an open file. (Or one whose owner's name ends like that: its repair
        waits.)"""
        return path.name.endswith(self._ends)


def _is_held(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_WRONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if is_at(path, descriptor):
            path.unlink(missing_ok=True)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False
