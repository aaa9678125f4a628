"""WARC records as bytes: WARC/1.1, each in a gzip member of its own (Annex D of the specification).

A record that fits into memory is compressed by one call, which costs the least; of a longer one, pieces are.
"""

import hashlib
import os
import threading
import zlib
from collections.abc import Iterator, Mapping
from typing import IO
from uuid import UUID

from zlib_ng import zlib_ng

from ..fetching.fetch import digest_text

MOST_IN_MEMORY_BYTES = 1024 * 1024
"""A body of at most so many bytes is compressed by one call."""

DIGEST_OF_NOTHING = "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"
"""The digest of no bytes, such as the payload of a GET."""

FIELDS_TYPE = "application/warc-fields"
REQUEST_TYPE, RESPONSE_TYPE = "application/http; msgtype=request", "application/http; msgtype=response"

_PIECE_BYTES = 256 * 1024
_ID_BYTES, _IDS = 16, 256
_GZIP = 16  # what zlib takes to mean a gzip member, beside the bits of its window
# Small records take little memory: to clear much, for each of them, takes longer than to compress them, and
# drives all else from the processor's cache.
_SMALL_BYTES = 2 * 1024
_SMALL_WINDOW_BITS = 11  # as many bytes
_SMALL_MEMORY_LEVEL = 4
_END = b"\r\n\r\n"


class RecordWriter:
    """Writes records to a file. `gzip_level` is zlib's, from 1, the fastest, to 9."""

    def __init__(self, out: IO[bytes], gzip_level: int) -> None:
        self._out = out
        self._gzip_level = gzip_level
        self.count = 0
        """The records so far."""

    def write(
        self,
        kind: str,
        record_id: str,
        fields: Mapping[str, str],
        content_type: str,
        block: bytes,
        body: IO[bytes] | None = None,
        body_bytes: int = 0,
    ) -> None:
        """Write a record of a type with its named fields. Its block is `block`, and behind that the bytes of
        `body`, from its beginning. Raises OSError."""
        self.count += 1
        if body is None or body_bytes <= MOST_IN_MEMORY_BYTES:
            if body is not None:
                body.seek(0)
                block += body.read(body_bytes)
            head = _head(kind, record_id, fields, content_type, len(block), _sha1(block))
            self._out.write(self._member(b"".join((head, block, _END))))
            return
        length, digest = 0, _sha1()
        for piece in _pieces(block, body, body_bytes):
            length += len(piece)
            digest.update(piece)
        head = _head(kind, record_id, fields, content_type, length, digest)
        member = self._large()
        self._out.write(member.compress(head))
        for piece in _pieces(block, body, body_bytes):
            self._out.write(member.compress(piece))
        self._out.write(member.compress(_END) + member.flush())

    def _member(self, record: bytes) -> bytes:
        if len(record) > _SMALL_BYTES:
            large = self._large()
            return large.compress(record) + large.flush()
        small = zlib.compressobj(
            self._gzip_level, zlib.DEFLATED, _GZIP + _SMALL_WINDOW_BITS, memLevel=_SMALL_MEMORY_LEVEL
        )
        return small.compress(record) + small.flush()

    def _large(self) -> "zlib_ng._Compress":
        return zlib_ng.compressobj(self._gzip_level, zlib_ng.DEFLATED, _GZIP + zlib_ng.MAX_WBITS)


class RecordIds:
    """Makes ids of records: random UUIDs (RFC 9562, version 4). The system gives the bytes of many at once.
    Thread-safe, also in a process that is forked."""

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._random = b""

    def make(self) -> str:
        """An id, as `<urn:uuid:…>`."""
        with self._lock:
            if not self._random:
                self._random = os.urandom(_ID_BYTES * _IDS)
            mine, self._random = self._random[:_ID_BYTES], self._random[_ID_BYTES:]
        return f"<{UUID(bytes=mine, version=4).urn}>"


def _sha1(data: bytes = b"") -> "hashlib._Hash":
    return hashlib.sha1(data, usedforsecurity=False)


def _head(
    kind: str,
    record_id: str,
    fields: Mapping[str, str],
    content_type: str,
    length: int,
    digest: "hashlib._Hash",
) -> bytes:
    lines = ["WARC/1.1", f"WARC-Type: {kind}", f"WARC-Record-ID: {record_id}"]
    lines += [f"{name}: {_printable(value)}" for name, value in fields.items()]
    lines += [
        f"WARC-Block-Digest: {digest_text(digest)}",
        f"Content-Type: {content_type}",
        f"Content-Length: {length}\r\n\r\n",
    ]
    return "\r\n".join(lines).encode()


def _printable(text: str) -> str:
    """The text with a space for each character that is not printable, as it might end a line."""
    return text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text)


def _pieces(block: bytes, body: IO[bytes], body_bytes: int) -> Iterator[bytes]:
    yield block
    body.seek(0)
    left = body_bytes
    while left and (piece := body.read(min(left, _PIECE_BYTES))):
        left -= len(piece)
        yield piece
