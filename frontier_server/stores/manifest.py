"""Cuts a record off the end of RocksDB's MANIFEST that a power cut has torn.

RocksDB syncs each record of its MANIFEST before it acts on the record. A power cut before that may leave any
pages of the record. If its beginning or its end is missing, RocksDB stops at the record before. But if a page
in its middle is missing (zeros stand there), or the beginning of a part in the next block, RocksDB takes the
whole store for damaged. In all these cases everything durable is still there, so the record is cut off.

A record with another fault stays: RocksDB may have acted on it, and a store without it would silently lack
rows.
"""

import re
from itertools import pairwise
from pathlib import Path

from .log_format import BLOCK, FULL, HEADER, LAST, Fragment, cut, fragments

SECTOR = 512  # a disk writes it whole, or not at all
MOST_UNSYNCED = 16 * 1024  # of a MANIFEST: several times its growth between two syncs
_CURRENT = re.compile(rb"MANIFEST-\d+\n")


def cut_torn_end(store: Path) -> bool:
    """Cut a torn record off the MANIFEST of a store; whether there was one.

    The old file is kept beside the store. Raises OSError.
    """
    current = (store / "CURRENT").read_bytes()
    if not _CURRENT.fullmatch(current):
        return False
    path = store / current.decode().strip()
    data = path.read_bytes()
    at = torn_at(data)
    if at is None:
        return False
    cut(path, at, store.with_name(f"{store.name}.{path.name}.cut"), "a power cut has torn its last record")
    return True


def torn_at(data: bytes) -> int | None:
    """Where the torn record at the end of a MANIFEST begins; None if there is none."""
    for fragment in fragments(data):
        if fragment.is_missing:
            # RocksDB takes zeros for the end, unless they are amid a record or before other bytes.
            lacks = fragment.is_amid or any(data[fragment.at :])
        elif not _is_whole(data, fragment):
            lacks = _lacks_a_sector(data, fragment.at, min(fragment.end, len(data)))
        else:
            continue
        return fragment.record if lacks and len(data) - fragment.record <= MOST_UNSYNCED else None
    return None


def is_whole(data: bytes) -> bool:
    """Whether a MANIFEST has records, each complete."""
    last = None
    for last in fragments(data):
        if not _is_whole(data, last):
            return False
    return last is not None and last.kind in (FULL, LAST)


def _is_whole(data: bytes, fragment: Fragment) -> bool:
    in_block = fragment.at % BLOCK + HEADER.size + fragment.length <= BLOCK and fragment.end <= len(data)
    known = FULL <= fragment.kind <= LAST
    return in_block and known and _masked(crc32c(data[fragment.at + 6 : fragment.end])) == fragment.checksum


def _lacks_a_sector(data: bytes, begin: int, end: int) -> bool:
    """Whether one of a part's sectors has only zeros of it."""
    cuts = [begin, *range(begin - begin % SECTOR + SECTOR, end, SECTOR), end]
    return any(not any(data[one:following]) for one, following in pairwise(cuts))


def crc32c(data: bytes) -> int:
    """The checksum of RFC 3720, appendix B.4 (Castagnoli)."""
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
    """A checksum as RocksDB stores it: masked, since checksums of data with checksums are weak."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
