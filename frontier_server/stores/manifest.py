"""The end of RocksDB's MANIFEST, where a power cut has torn it.

RocksDB syncs each record of its MANIFEST before anything that follows from it is done. A power cut before
that may leave any pages of the record. Where its beginning or its end is missing RocksDB stops at the record
before; where a page amid it is missing (so that zeros stand there), or the beginning of a part of one that
lies in two blocks, it takes the whole store for damaged. Nothing that was durable is gone in any of these
cases, so the record is cut off here.

A record that is wrong for another reason stays: what it says may have been done, and a store without it would
silently lack rows.
"""

import os
import re
import struct
from itertools import pairwise
from pathlib import Path

import structlog

BLOCK = 32 * 1024  # records do not cross the end of a block
SECTOR = 512  # is written whole, or not at all
MOST_UNSYNCED = 16 * 1024  # of a MANIFEST: several times what it gets before each sync
_HEADER = struct.Struct("<IHB")  # checksum, length, kind
_FULL, _FIRST, _MIDDLE, _LAST = range(1, 5)  # the kinds of records, or of parts of them
_CURRENT = re.compile(rb"MANIFEST-\d+\n")

_log = structlog.get_logger()


def cut_torn_end(store: Path) -> bool:
    """Cut a torn record off the MANIFEST of a store, and keep the file as it was beside the store; whether
    there was one.

    Raises OSError.
    """
    current = (store / "CURRENT").read_bytes()
    if not _CURRENT.fullmatch(current):
        return False
    path = store / current.decode().strip()
    data = path.read_bytes()
    at = torn_at(data)
    if at is None:
        return False
    kept = store.with_name(f"{store.name}.{path.name}.cut")
    kept.write_bytes(data)
    with path.open("r+b") as file:
        file.truncate(at)
        os.fsync(file.fileno())
    _log.warning(
        "manifest_cut", problem="a power cut has torn its last record", bytes=len(data) - at, kept=str(kept)
    )
    return True


def torn_at(data: bytes) -> int | None:
    """Where the torn record begins at the end of a MANIFEST; None if there is none."""
    at = begin = 0  # of the part that is looked at, and of its record
    amid = False  # whether the record has more parts than those before it
    while at + _HEADER.size <= len(data):
        left = BLOCK - at % BLOCK
        if left < _HEADER.size:
            at += left
            continue
        begin = begin if amid else at
        checksum, length, kind = _HEADER.unpack_from(data, at)
        end = at + _HEADER.size + length
        whole = _FULL <= kind <= _LAST and _HEADER.size + length <= left and end <= len(data)
        if not (checksum or length or kind):
            # RocksDB takes zeros for the end, unless its record is to go on, or something stands behind them.
            lacks = amid or any(data[at:])
        elif not whole or _masked(crc32c(data[at + 6 : end])) != checksum:
            lacks = _lacks_a_sector(data, at, min(end, len(data)))
        else:
            at, amid = end, kind in (_FIRST, _MIDDLE)
            continue
        return begin if lacks and len(data) - begin <= MOST_UNSYNCED else None
    return None


def _lacks_a_sector(data: bytes, begin: int, end: int) -> bool:
    """Whether a record has zeros for all that it should have in one of its sectors."""
    cuts = [begin, *range(begin - begin % SECTOR + SECTOR, end, SECTOR), end]
    return any(not any(data[one:following]) for one, following in pairwise(cuts))


def crc32c(data: bytes) -> int:
    """The checksum of RFC 3720, appendix B.4 (Castagnoli's)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _row(value: int) -> int:
    for _ in range(8):
        value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value


_TABLE = tuple(map(_row, range(256)))


def _masked(crc: int) -> int:
    """As RocksDB stores checksums, so that one of data that hold some is as good as any."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
