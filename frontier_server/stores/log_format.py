"""How RocksDB writes its logs and its MANIFEST: records, cut where a block ends."""

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec
import structlog

BLOCK = 32 * 1024  # no part of a record crosses the end of a block
HEADER = struct.Struct("<IHB")  # checksum, length, kind
FULL, FIRST, MIDDLE, LAST = range(1, 5)  # the kinds: of records, and of parts of them

_GOING_ON = (FIRST, MIDDLE)

_log = structlog.get_logger()


class Part(msgspec.Struct, frozen=True, gc=False):
    """A part of a record, or the zeros that stand in its place."""

    record: int  # where its record begins
    at: int  # where it begins itself, with its header
    checksum: int
    length: int
    kind: int

    @property
    def is_missing(self) -> bool:
        """Whether RocksDB takes it for room that was set aside, and looks for another in the next block."""
        return not (self.length or self.kind)

    @property
    def is_amid(self) -> bool:
        """Whether its record has begun before it."""
        return self.record != self.at

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.at + HEADER.size + self.length


def parts(data: bytes | bytearray) -> Iterator[Part]:
    """The parts of a log, up to the first that is missing or of no known kind."""
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
        yield Part(record, at, checksum, length, kind)
        if not FULL <= kind <= LAST:
            return
        at += HEADER.size + length
        goes_on = kind in _GOING_ON


def cut(path: Path, at: int, kept: Path, problem: str) -> None:
    """Let a file end there. As it was it is kept at another path.

    Raises OSError.
    """
    with kept.open("wb") as copy:
        copy.write(path.read_bytes())
        copy.flush()
        os.fsync(copy.fileno())
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.truncate(at)
        os.fsync(file.fileno())
    _log.warning("log_cut", file=path.name, problem=problem, bytes=size - at, kept=str(kept))
