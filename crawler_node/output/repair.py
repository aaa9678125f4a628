"""Repair: turns the files that a dead process was writing into files like any other.

A repair takes the files that end in `.open` and that no process has locked or claimed. Such a file keeps its
whole records, under its final name, also those behind damage: a turned bit or a hole costs only the record
that it is in. The damaged parts go into a `.torn` file beside it. Its unfinished end is cut off: that was
never made durable, so its pages were never reported. An empty file is removed. A file that has no whole
record, or that cannot be read, becomes a `.torn` file as it is.
"""

import fcntl
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from enum import Enum
from pathlib import Path
from typing import BinaryIO, NamedTuple

import structlog

from toehold_base.durable import sync_directory

from .claim import Claims
from .open_file import OPEN_SUFFIX, is_at

TORN_SUFFIX = ".torn"
_UNDER_WAY_SUFFIX = ".part"
"""The ending of a file that a repair writes, until it is whole."""

MAX_RECORD_HEAD_BYTES = 64 * 1024
"""Headers of our WARC records are at most so long, as their URIs are bounded."""

MAX_WASTED_BYTES = 1024 * 1024 * 1024
"""A search for the next whole record may read so much, in addition to eight times the file: bytes that look
like the beginning of a record may be anything that was fetched."""

_PIECE_BYTES = 64 * 1024
_FIRST_PIECE_BYTES = 1024
"""The first read is small, as most apparent beginnings are none, or have another close behind."""

log = structlog.get_logger()


class State(Enum):
    """The state of a part of a file."""

    WHOLE = "whole"
    HEAD = "whole, with nothing in it that was fetched"
    DAMAGED = "damaged"
    UNFINISHED = "the beginning of something whole, at the end of the file"


class FilePart(NamedTuple):
    begin: int
    end: int
    state: State


Measure = Callable[[BinaryIO], Iterator[FilePart]]
"""Yields the parts of a file, from its start to its end, in time proportional to its length and little
memory."""


def repair(directory: Path, suffix: str, measure: Measure) -> None:
    """Repairs the files in a directory whose final names end in `suffix`. Never raises: it logs a file that
    cannot be repaired, and leaves it for the next start.
    """
    try:
        claims = Claims(directory, suffix)
        paths = sorted(directory.glob(f"*{suffix}{OPEN_SUFFIX}"))
    except OSError as error:
        log.error("leftovers_unreadable", directory=str(directory), error=str(error))
        return
    for path in paths:
        if claims.protect(path):
            continue
        try:
            with _locked(path) as file:
                if file is not None:
                    _repair(path, file, measure)
        except OSError as error:
            log.error("file_not_repaired", file=str(path), error=str(error))


def parts_of_records(file: BinaryIO) -> Iterator[FilePart]:
    """The parts of a WARC file that has a gzip member for each record. A member is whole if it holds exactly
    one record. Behind one that is not, the first bytes of members tell where to look for whole ones."""
    members = _MemberReader(file)
    size = file.seek(0, os.SEEK_END)
    most_wasted = MAX_WASTED_BYTES + 8 * size
    at = 0
    while at < size:
        kind = _record_type(members, at)
        if kind is not None:
            state = State.HEAD if kind == b"warcinfo" else State.WHOLE
            yield FilePart(at, members.end, state)
            at = members.end
            continue
        is_unfinished = members.is_unfinished
        place: int | None = at
        while place is not None:
            place = members.next_beginning(place + 1) if members.wasted_bytes <= most_wasted else None
            if place is not None and _record_type(members, place) is not None:
                break
            members.wasted_bytes += members.piece_bytes
        if place is None:
            yield FilePart(at, size, State.UNFINISHED if is_unfinished else State.DAMAGED)
            return
        yield FilePart(at, place, State.DAMAGED)
        at = place


def parts_of_lines(file: BinaryIO) -> Iterator[FilePart]:
    """The parts of a file of lines. A line is whole if it ends and has no NUL, which no line of ours has."""
    at = begin = line = 0  # of the piece, of the part, of the line
    state, is_torn = State.WHOLE, False
    while piece := _read(file, at):
        after = 0
        while (end := piece.find(b"\n", after)) >= 0:
            is_torn = is_torn or piece.find(b"\0", after, end) >= 0
            line_state = State.DAMAGED if is_torn else State.WHOLE
            if line_state is not state:
                if line > begin:
                    yield FilePart(begin, line, state)
                begin, state = line, line_state
            after, is_torn = end + 1, False
            line = at + after
        is_torn = is_torn or piece.find(b"\0", after) >= 0
        at += len(piece)
    if line > begin:
        yield FilePart(begin, line, state)
    if at > line:
        yield FilePart(line, at, State.DAMAGED if is_torn else State.UNFINISHED)


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO | None]:
    """Opens a file that no process writes any more; None while one does, or after another repair was
    faster."""
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
    if final_path.exists():
        _set_aside(path, final_path, "a file of its final name exists")
        return
    with ExitStack() as stack:
        mended = stack.enter_context(_Copy(file, final_path))
        torn = stack.enter_context(_Copy(file, final_path.with_name(final_path.name + TORN_SUFFIX)))
        whole_end, holds_pages = 0, False  # whole from the start up to there
        try:
            for part in measure(file):
                holds_pages = holds_pages or part.state is State.WHOLE
                if part.state is State.DAMAGED:
                    torn.add(part.begin, part.end)
                elif part.state is not State.UNFINISHED and not torn.length:
                    whole_end = part.end
                elif part.state is not State.UNFINISHED:
                    if not mended.length:
                        mended.add(0, whole_end)
                    mended.add(part.begin, part.end)
        except _CannotRead as error:
            _set_aside(path, final_path, f"it cannot be read: {error.__cause__}")
            return
        if size and not holds_pages and (torn.length or not whole_end):
            _set_aside(path, final_path, "nothing in it is whole")
        elif not holds_pages:
            path.unlink()
            log.info("file_removed", file=str(path))
        else:
            kept_bytes = mended.length or whole_end
            torn.keep()
            if mended.length:
                mended.keep()
                path.unlink()
            else:
                file.truncate(whole_end)
                os.fsync(file.fileno())
                path.rename(final_path)
            sync_directory(path.parent)
            cut = {"cut_bytes": size - kept_bytes}
            if torn.length:
                cut["torn_bytes"] = torn.length
            log.warning("file_repaired", file=str(final_path), **cut)


class _CannotRead(Exception):
    """The file cannot be read; the error's cause says why."""


class _Copy:
    """A copy of parts of a file, created with the first part. It is removed unless it is kept."""

    def __init__(self, source: BinaryIO, path: Path) -> None:
        self.length = 0
        self._source = source
        self._path = path
        self._part = path.with_name(path.name + _UNDER_WAY_SUFFIX)
        self._file: BinaryIO | None = None

    def add(self, begin: int, end: int) -> None:
        """Appends a part."""
        if self._file is None:
            self._file = self._part.open("wb")
        while begin < end:
            piece = _read(self._source, begin, min(end - begin, _PIECE_BYTES))
            if not piece:
                raise OSError(f"{self._path.name}: {end - begin} bytes are missing")
            self._file.write(piece)
            self.length += len(piece)
            begin += len(piece)

    def keep(self) -> None:
        """Gives the copy its name, durably, if it has any part."""
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None
            self._part.rename(self._path)

    def __enter__(self) -> "_Copy":
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
            self._part.unlink(missing_ok=True)


def _set_aside(path: Path, final_path: Path, why: str) -> None:
    aside = final_path.with_name(final_path.name + TORN_SUFFIX)
    path.rename(aside)
    sync_directory(path.parent)
    log.error("file_set_aside", file=str(aside), problem=why)


class _Torn(Exception):
    """A gzip member is not whole."""


class _MemberReader:
    """The gzip members of a file, each read in pieces from where it begins."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.end = 0
        """Where the last member that was read to its end ended."""
        self.is_unfinished = False
        """Whether the last member that was not is sound up to the end of the file."""
        self.piece_bytes = 0
        """How many bytes the last member cost to read, packed and unpacked."""
        self.wasted_bytes = 0
        """How many bytes were read that led to no member."""

    def pieces(self, begin: int) -> Iterator[bytes]:
        """The content of the member at an offset; none at the end of the file. Raises _Torn."""
        self.is_unfinished, self.piece_bytes = False, 0
        read_bytes, data, most = begin, b"", _FIRST_PIECE_BYTES
        member = zlib.decompressobj(zlib.MAX_WBITS + 16)
        while not member.eof:
            if not data:
                data = _read(self._file, read_bytes, most)
                most = _more(most)
                read_bytes += len(data)
                self.piece_bytes += len(data)
                if not data:
                    self.is_unfinished = True
                    raise _Torn
            try:
                piece = member.decompress(data, _PIECE_BYTES)
            except zlib.error as error:
                raise _Torn from error
            data = member.unconsumed_tail or member.unused_data
            if piece:
                self.piece_bytes += len(piece)
                yield piece
        self.end = read_bytes - len(data)

    def next_beginning(self, offset: int) -> int | None:
        """The offset of the next bytes that begin a member of ours, from an offset on."""
        data, most = b"", _FIRST_PIECE_BYTES
        while piece := _read(self._file, offset + len(data), most):
            most = _more(most)
            self.wasted_bytes += len(piece)
            data += piece
            if (match := _MEMBER_HEAD.search(data)) is not None:
                return offset + match.start()
            offset += max(len(data) - _MEMBER_HEAD_BYTES + 1, 0)
            data = data[-_MEMBER_HEAD_BYTES + 1 :]
        return None


def _more(piece_bytes: int) -> int:
    """How much to read after a piece of this size."""
    return min(4 * piece_bytes, _PIECE_BYTES)


def _read(file: BinaryIO, offset: int, most: int = _PIECE_BYTES) -> bytes:
    """A piece of a file from an offset on; empty at its end. Raises _CannotRead."""
    try:
        file.seek(offset)
        return file.read(most)
    except OSError as error:
        raise _CannotRead from error


def _record_type(members: _MemberReader, begin: int) -> bytes | None:
    """The WARC-Type of the record of the member at an offset; None if there is no whole record."""
    try:
        pieces = members.pieces(begin)
        head = b""
        while (match := _RECORD_HEAD.match(head)) is None:
            piece = next(pieces, b"")
            if not piece or len(head) > MAX_RECORD_HEAD_BYTES:
                return None
            head += piece
        rest = head[match.end() :]
        length, tail = len(rest), rest[-4:]
        for piece in pieces:
            length += len(piece)
            tail = (tail + piece)[-4:]
    except _Torn:
        return None
    fields = {name.lower(): value for name, value in _FIELD.findall(match[0])}
    announced = fields.get(b"content-length", b"")
    whole = re.fullmatch(rb"[0-9]{1,18}", announced) and length == int(announced) + 4 and tail == b"\r\n\r\n"
    return fields.get(b"warc-type", b"") if whole else None


_MEMBER_HEAD = re.compile(rb"\x1f\x8b\x08\x00\x00{4}[\x00\x02\x04]\x03", re.DOTALL)
"""No name, no time, zlib's own flags, Unix: as zlib and zlib-ng begin a member."""
_MEMBER_HEAD_BYTES = 10
_RECORD_HEAD = re.compile(rb"WARC/1\.[01]\r\n(?:[^\r\n]++\r\n)*+\r\n")
_FIELD = re.compile(rb"^([A-Za-z-]{1,64}): ([^\r\n]*)\r$", re.MULTILINE)
