"""Locks of files, which others may ask about without hindering anybody."""

import fcntl
import os
import struct
from pathlib import Path

ANSWERS = "a frontier runs on it, and answers questions too; ask that one"
"""Why what is locked is not read."""

_FLOCK = struct.Struct("hhqqi4x")  # struct flock of Linux, on all 64-bit machines


def is_locked(path: Path) -> bool:
    """Whether another process holds a lock of a file, as RocksDB does of a store's `LOCK`. Takes none. Raises
    OSError if the file cannot be read; one that is missing is not locked."""
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:  # the store may be a copy
        return False
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, *_ = _FLOCK.unpack(fcntl.fcntl(file, fcntl.F_GETLK, asked))
    finally:
        os.close(file)
    return bool(kind != fcntl.F_UNLCK)
