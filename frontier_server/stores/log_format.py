"""The format of RocksDB's logs and MANIFEST: records, cut into parts where a block ends."""

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec
import structlog

BLOCK = 32 * 1024  # no part of a record crosses the end of a block
HEADER = struct.Struct("<IHB")  # checksum, length, kind
FULL, FIRST, MIDDLE, LAST = range(1, 5)  # the kinds: a whole record, or a part of one

_GOING_ON = (FIRST, MIDDLE)

_log = structlog.get_logger()


class Fragment(msgspec.Struct, frozen=True, gc=False):
    """A part of a record, or zeros in its place."""

    record: int  # where the record begins
    at: int  # where this part begins, with its header
    checksum: int
    length: int
    kind: int

    @property
    def is_missing(self) -> bool:
        """Whether it is zeros: RocksDB treats them as preallocated, and continues with the next block."""
        return not (self.length or self.kind)

    @property
    def is_amid(self) -> bool:
        """Whether its record begins before it."""
        return self.record != self.at

    @property
    def end(self) -> int:
        """Where this part ends."""
        return self.at + HEADER.size + self.length


def fragments(data: bytes | bytearray) -> Iterator[Fragment]:
    """The parts of a log, up to the first one that is missing or of an unknown kind."""
    at = record = 0
    goes_on = False
    last = len(data) - HEADER.size
    while at <= last:
        left = BLOCK - at % BLOCK
        if left < HEADER.size:
            at += left
            continue
        if not goes_on:
            record = at
        checksum, length, kind = HEADER.unpack_from(data, at)
        yield Fragment(record, at, checksum, length, kind)
        if not FULL <= kind <= LAST:
            return
        at += HEADER.size + length
        goes_on = kind in _GOING_ON


def cut(path: Path, at: int, kept: Path, problem: str) -> None:
    """Cut a file at an offset, and keep the old file at another path. Raises OSError."""
    with kept.open("wb") as copy:
        copy.write(path.read_bytes())
        copy.flush()
        os.fsync(copy.fileno())
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.truncate(at)
        os.fsync(file.fileno())
    _log.warning("log_cut", file=path.name, problem=problem, bytes=size - at, kept=str(kept))
