"""Writes what was fetched to WARC files (WARC/1.1, a gzip member for each record).

A file ends in `.open` while it is written and is renamed when it is closed; those that a dead process left
are nobody's to touch, and read well up to their last record.
"""

import os
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from shutil import copyfileobj
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from warcio.warcwriter import WARCWriter

from .fetch import Fetch
from .outcome import Truncation
from .visit import Visit

DEFAULT_MAX_BYTES = 1_000_000_000
"""A file is closed, and the next one begun, when more would make it longer than this."""

REVISIT_PROFILE = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
"""Of the record of a 304: the page is what it was at the last visit (WARC 1.1, 6.7)."""

_SPOOL_BYTES = 1024 * 1024
_PIECE_BYTES = 64 * 1024


class WarcError(OSError):
    """A fetch could not be stored, or not be made durable."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where a fetch's records begin: a file, by the name that it has when closed, and an offset in bytes."""

    file_name: str
    offset: int


class WarcWriter:
    """Appends fetches to the WARC files of one process. Thread-safe.

    Files are named `toehold-<UTC time>-<serial>-<node>~<process id>.warc.gz`. The first is begun with the
    first record. `software` and `clock_ms` (since the epoch) go into the records.

    Raises WarcError when the directory can be neither made nor written to.
    """

    def __init__(
        self,
        directory: Path,
        node: str,
        *,
        software: str = "Toehold",
        process_id: int | None = None,
        max_bytes: int = DEFAULT_MAX_BYTES,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._directory = directory
        self._owner = f"{_name(node)}~{os.getpid() if process_id is None else process_id}"
        self._software = software
        self._max_bytes = max_bytes
        self._clock_ms = clock_ms
        self._lock = threading.Lock()
        self._serial = 0
        self._file: _File | None = None
        self._doubt: WarcError | None = None
        self._closed = False
        try:
            directory.mkdir(parents=True, exist_ok=True)
            directory_is_writable = os.access(directory, os.W_OK | os.X_OK)
        except OSError as problem:
            raise WarcError(f"WARC directory {str(directory)!r} cannot be made: {problem}") from problem
        if not directory_is_writable:
            raise WarcError(f"WARC directory {str(directory)!r} is not writable")

    def append(self, visit: Visit) -> Location | None:
        """Stores a fetch: request and response records, of its hops too; of a page that has not changed since
        the last visit a revisit record instead of the response. None if nothing was answered.

        All of it is stored or nothing: after a failed write the file is cut back to where it was. Not
        durable before `sync`. Raises WarcError.
        """
        fetch = visit.fetch
        with SpooledTemporaryFile(_SPOOL_BYTES, dir=str(self._directory)) as records:
            # Compressed before the file's turn comes: threads do that side by side.
            try:
                for each in (*fetch.hops, fetch):
                    if each.status > 0:
                        _write_exchange(records, each)
            except OSError as problem:
                raise WarcError(f"records of {fetch.uri} cannot be made: {problem}") from problem
            length = records.tell()
            if length == 0:
                return None
            records.seek(0)
            with self._lock:
                return self._append(records, length)

    def sync(self) -> None:
        """Makes all that was appended so far durable.

        Raises WarcError. Then no record appended since the last sync that succeeded may be counted on, and
        the file is given up: it stays behind as `.open`, and the next record begins a new one.
        """
        with self._lock:
            file = self._file
            descriptor = None if file is None else os.dup(file.descriptor)
        problem: OSError | None = None
        if descriptor is not None:
            try:
                os.fsync(descriptor)  # without the lock: appends go on
            except OSError as error:
                problem = error
            finally:
                os.close(descriptor)
        with self._lock:
            if problem is not None:
                self._give_up(file, problem)
            # Looked at last: an append that closed the file may have been told of the failure in our place.
            doubt, self._doubt = self._doubt, None
        if doubt is not None:
            raise doubt

    def close(self) -> None:
        """Closes the present file under its final name; nothing can be appended after. Raises WarcError."""
        with self._lock:
            self._closed = True
            if self._file is not None:
                self._finish(self._file)

    def _append(self, records: IO[bytes], length: int) -> Location:
        if self._closed:
            raise WarcError("the WARC writer is closed")
        file = self._file
        if file is not None and not file.is_empty and file.length + length > self._max_bytes:
            self._finish(file)
        file = self._file or self._begin()
        offset = file.length
        try:
            copyfileobj(records, file, _PIECE_BYTES)
        except OSError as problem:
            self._take_back(file, offset)
            raise WarcError(f"{file.name}: cannot be written: {problem}") from problem
        return Location(file.name, offset)

    def _begin(self) -> "_File":
        now_ms = self._clock_ms()
        stamp = re.sub(r"[^0-9]", "", _date(now_ms))
        name = f"toehold-{stamp}-{self._serial:05}-{self._owner}.warc.gz"
        try:
            file = _File(self._directory, name)
        except OSError as problem:
            raise WarcError(f"{name}: cannot be created: {problem}") from problem
        self._serial += 1
        try:
            _write_warcinfo(file, name, self._software, now_ms)
            file.mark_empty()
            _sync_directory(self._directory)
        except OSError as problem:
            file.remove()
            raise WarcError(f"{name}: cannot be written: {problem}") from problem
        self._file = file
        return file

    def _finish(self, file: "_File") -> None:
        try:
            file.finish()
            _sync_directory(self._directory)
        except OSError as problem:
            raise self._give_up(file, problem) from problem
        self._file = None

    def _take_back(self, file: "_File", offset: int) -> None:
        """Cuts off what was written since `offset`, so that the next record does not follow half a one."""
        try:
            file.cut(offset)
        except OSError as problem:
            self._give_up(file, problem)

    def _give_up(self, file: "_File | None", problem: OSError) -> WarcError:
        """Leaves a file alone that the disk may not hold as it was written (a later fsync would not tell)."""
        self._doubt = WarcError(f"{file.name if file else 'WARC'}: cannot be made durable: {problem}")
        if file is not None and file is self._file:
            self._file = None
            file.close()
        return self._doubt


class _File:
    """One WARC file while it is written, unbuffered: what failed to be written is not written later."""

    def __init__(self, directory: Path, name: str) -> None:
        self.name = name
        self.length = 0
        self._final_path = directory / name
        self._path = directory / f"{name}.open"
        self._empty_length = 0
        self.descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)

    @property
    def is_empty(self) -> bool:
        """Whether it holds nothing that was fetched."""
        return self.length <= self._empty_length

    def mark_empty(self) -> None:
        """Says that what was written so far is only the file's own head."""
        self._empty_length = self.length

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            written = os.write(self.descriptor, rest)
            self.length += written
            rest = rest[written:]

    def flush(self) -> None:
        """Nothing is held back; warcio calls it after each record."""

    def cut(self, offset: int) -> None:
        os.ftruncate(self.descriptor, offset)
        self.length = offset

    def finish(self) -> None:
        """Makes it durable under its final name; a file that holds nothing goes."""
        if self.is_empty:
            self.remove()
            return
        os.fsync(self.descriptor)
        self._path.rename(self._final_path)
        self.close()

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        os.close(self.descriptor)


class _Head:
    """An HTTP head for warcio, byte for byte as it was: warcio's own would encode it anew."""

    def __init__(self, head: bytes) -> None:
        self.headers_buff = head

    def compute_headers_buffer(self, header_filter: object = None) -> None:
        """There is nothing to compute."""


def _write_exchange(out: IO[bytes], fetch: Fetch) -> None:
    writer = _writer(out)
    uri = "".join(fetch.uri.split())  # a line end would end the header
    headers = {"WARC-Date": _date(fetch.start_time_ms)}
    if fetch.peer_address is not None:
        headers["WARC-IP-Address"] = fetch.peer_address
    request = writer.create_warc_record(
        uri, "request", http_headers=_Head(fetch.request_head), warc_headers_dict=dict(headers)
    )
    if fetch.unchanged:
        # The payload is that of the last visit; the record has no digest of it (nor does warcio make one).
        headers["WARC-Profile"] = REVISIT_PROFILE
        kind, payload, length = "revisit", None, None
    else:
        headers["WARC-Payload-Digest"] = fetch.digest
        if fetch.truncation is not Truncation.NONE:
            headers["WARC-Truncated"] = fetch.truncation.value
        fetch.body.seek(0)
        kind, payload, length = "response", fetch.body, fetch.body_bytes
    answer = writer.create_warc_record(
        uri,
        kind,
        payload=payload,
        length=length,
        http_headers=_Head(fetch.response_head),
        warc_headers_dict=headers,
    )
    writer.write_request_response_pair(request, answer)


def _write_warcinfo(out: "_File", name: str, software: str, now_ms: int) -> None:
    writer = _writer(out)
    record = writer.create_warcinfo_record(
        name,
        {
            "software": software,
            "format": "WARC File Format 1.1",
            "conformsTo": "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/",
        },
    )
    record.rec_headers.replace_header("WARC-Date", _date(now_ms))
    writer.write_record(record)


def _writer(out: Any) -> Any:
    return WARCWriter(out, gzip=True, warc_version="1.1")


def _date(time_ms: int) -> str:
    moment = datetime.fromtimestamp(time_ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03}Z"


def _name(node: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "_", node)[:64] or "node"


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
