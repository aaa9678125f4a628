"""Repair: what a dead process left of the files that it wrote becomes files like any other.

Of a file that ends in `.open` and that no process has locked, what is whole is kept, under its final name;
the torn rest was never made durable, so its pages were never reported. A file with nothing in it is removed;
one of which nothing is whole, or that cannot be read, is set aside as `.torn`.
"""

import fcntl
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import structlog

from toehold_client.durable import sync_directory

from .rolling import OPEN_SUFFIX, is_at

TORN_SUFFIX = ".torn"

MAX_RECORD_HEAD_BYTES = 64 * 1024
"""No header of a WARC record of ours is longer: its URIs are bounded."""

_PIECE_BYTES = 64 * 1024

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Whole:
    """The part of a file, from its start, that is as its writer meant it to be."""

    length: int
    is_empty: bool
    """There is nothing in it that was fetched."""


Measure = Callable[[BinaryIO], Whole]
"""Finds the whole part of a file, in time proportional to its length and in little memory."""


def repair(directory: Path, suffix: str, measure: Measure) -> None:
    """Repairs the files of one kind in a directory; `suffix` is how their final names end. Never raises:
    what cannot be repaired is logged and left for the next start.
    """
    try:
        paths = sorted(directory.glob(f"*{suffix}{OPEN_SUFFIX}"))
    except OSError as error:
        log.error("files left behind cannot be looked for", directory=str(directory), error=str(error))
        return
    for path in paths:
        try:
            with _locked(path) as file:
                if file is not None:
                    _repair(path, file, measure)
        except OSError as error:
            log.error("a file left behind cannot be repaired", file=str(path), error=str(error))


def whole_records(file: BinaryIO) -> Whole:
    """The whole part of a WARC file that has a gzip member for each record: up to the first member that is
    torn, or does not hold one record and nothing else."""
    members = _Members(file)
    length, is_empty = 0, True
    while (kind := _record_type(members)) is not None:
        length = members.end_of_last
        is_empty = is_empty and kind == b"warcinfo"
    return Whole(length, is_empty)


def whole_lines(file: BinaryIO) -> Whole:
    """The whole part of a file of lines: up to the last line end before a byte that no line has, a NUL."""
    length = at = 0
    while piece := file.read(_PIECE_BYTES):
        text, nul, _ = piece.partition(b"\0")
        if (last := text.rfind(b"\n")) >= 0:
            length = at + last + 1
        if nul:
            break
        at += len(piece)
    return Whole(length, length == 0)


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO | None]:
    """A file that nobody writes any more; None while somebody does, or when another repair was faster."""
    try:
        file = path.open("r+b")
    except FileNotFoundError:
        yield None
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        yield file if is_at(path, file.fileno()) else None


def _repair(path: Path, file: BinaryIO, measure: Measure) -> None:
    size = os.fstat(file.fileno()).st_size
    final_path = path.with_name(path.name.removesuffix(OPEN_SUFFIX))
    try:
        whole = measure(file)
    except OSError as error:
        _set_aside(path, final_path, f"it cannot be read: {error}")
        return
    if size and not whole.length:
        _set_aside(path, final_path, "nothing in it is whole")
    elif final_path.exists():
        _set_aside(path, final_path, "there is a file of its final name")
    elif whole.is_empty:
        path.unlink()
        log.info("an empty file that was left behind is removed", file=str(path))
    else:
        file.truncate(whole.length)
        os.fsync(file.fileno())
        path.rename(final_path)
        sync_directory(path.parent)
        log.warning("a file left behind is repaired", file=str(final_path), cut_bytes=size - whole.length)


def _set_aside(path: Path, final_path: Path, why: str) -> None:
    aside = final_path.with_name(final_path.name + TORN_SUFFIX)
    path.rename(aside)
    log.error("a file left behind is set aside", file=str(aside), problem=why)


class _Torn(Exception):
    """A gzip member is not whole."""


class _Members:
    """The gzip members of a file, one after the other, each read in pieces."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._input = b""
        self._read_bytes = 0
        self.end_of_last = 0
        """Where the last member that was read to its end has ended."""

    def pieces(self) -> Iterator[bytes]:
        """What the next member holds; nothing at the end of the file. Raises _Torn."""
        if not self._fill():
            return
        member = zlib.decompressobj(zlib.MAX_WBITS + 16)
        while not member.eof:
            if not self._fill():
                raise _Torn
            try:
                piece = member.decompress(self._input, _PIECE_BYTES)
            except zlib.error as error:
                raise _Torn from error
            self._input = member.unconsumed_tail or member.unused_data
            if piece:
                yield piece
        self.end_of_last = self._read_bytes - len(self._input)

    def _fill(self) -> bool:
        if not self._input:
            self._input = self._file.read(_PIECE_BYTES)
            self._read_bytes += len(self._input)
        return bool(self._input)


def _record_type(members: _Members) -> bytes | None:
    """The WARC-Type of the next member's record; None if there is no whole one."""
    try:
        pieces = members.pieces()
        head = b""
        while (found := _RECORD_HEAD.match(head)) is None:
            piece = next(pieces, b"")
            if not piece or len(head) > MAX_RECORD_HEAD_BYTES:
                return None
            head += piece
        rest = head[found.end() :]
        length, tail = len(rest), rest[-4:]
        for piece in pieces:
            length += len(piece)
            tail = (tail + piece)[-4:]
    except _Torn:
        return None
    fields = {name.lower(): value for name, value in _FIELD.findall(found[0])}
    said = fields.get(b"content-length", b"")
    whole = re.fullmatch(rb"[0-9]{1,18}", said) and length == int(said) + 4 and tail == b"\r\n\r\n"
    return fields.get(b"warc-type", b"") if whole else None


_RECORD_HEAD = re.compile(rb"WARC/1\.[01]\r\n(?:[^\r\n]++\r\n)*+\r\n")
_FIELD = re.compile(rb"^([A-Za-z-]{1,64}): ([^\r\n]*)\r$", re.MULTILINE)
