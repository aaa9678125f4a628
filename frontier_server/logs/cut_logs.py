"""Finds lines at the end of a log that the store does not know, and keeps them aside."""

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from shutil import copyfileobj
from typing import BinaryIO, NamedTuple

from toehold_base.durable import sync_directory

CUT = ".cut-"
"""Stands between the log's name and the time, in the name of such a file."""

_PIECE_BYTES = 1024 * 1024


class LogAhead(NamedTuple):
    """The lines at the end of a log that the store does not know."""

    path: Path
    offset: int  # where they begin
    lines: int


def first_unknown(path: Path, size: int, is_unknown: Callable[[int, bytes], bool]) -> LogAhead | None:
    """The unknown whole lines beyond a length; `is_unknown` gets a line's place among them, and its text."""
    try:
        file = path.open("rb")
    except OSError:
        return None  # there is no log; or it cannot be read, which its writer will report
    with file:
        if file.seek(0, os.SEEK_END) <= size:
            return None
        file.seek(size)
        offset, count = 0, 0
        for index, (begin, text) in enumerate(_whole_lines(file)):
            if is_unknown(index, text):
                offset, count = offset or begin, count + 1
        return LogAhead(path, offset, count) if count else None


def keep(ahead: LogAhead) -> Path:
    """Copy the end of the log, from these lines on, to a file beside it, durably. Raises OSError."""
    aside = _aside(ahead.path)
    with ahead.path.open("rb") as file, aside.open("xb") as kept:
        file.seek(ahead.offset)
        copyfileobj(file, kept, _PIECE_BYTES)
        kept.flush()
        os.fsync(kept.fileno())
    sync_directory(aside.parent)
    return aside


def keep_whole(path: Path) -> Path:
    """Give a log another name, durably. Raises OSError."""
    aside = _aside(path)
    path.rename(aside)
    sync_directory(path.parent)
    return aside


def remove(path: Path) -> None:
    """Remove a log, its cut ends, and its directory if that is empty then. Raises OSError."""
    for each in (path, *path.parent.glob(f"{path.name}{CUT}*")):
        each.unlink(missing_ok=True)
    if path.parent.is_dir() and not any(path.parent.iterdir()):
        path.parent.rmdir()


def _whole_lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Whole lines, each with its offset. Lines with a hole from a power cut are left out."""
    at, torn = file.tell(), False
    while piece := file.readline(_PIECE_BYTES):
        ended = piece.endswith(b"\n")
        if ended and not torn and b"\0" not in piece:
            yield at, piece
        torn = not ended
        at += len(piece)


def _aside(path: Path) -> Path:
    stem = f"{path.name}{CUT}{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    names = (stem, *(f"{stem}-{number}" for number in range(2, 1000)))
    return next(aside for name in names if not (aside := path.with_name(name)).exists())
