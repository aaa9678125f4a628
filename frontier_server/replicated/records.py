"""Records as bytes, the same in every kind of storage.

A record begins with a magic number, the format and its kind, and ends with a digest of all before it.
"""

from hashlib import blake2b

import msgspec

from .log import Kind, LaterFormat, LogDamaged, OtherCluster, Record

MAGIC = b"THLR"
FORMAT = 1
"""Raised when an older version would misread what a newer one writes."""
DIGEST_BYTES = 16
_HEAD_BYTES = len(MAGIC) + 2


class _Fields(msgspec.Struct, array_like=True, gc=False):
    cluster: str
    log: str
    number: int
    epoch: int
    base: int
    version: str
    nonce: bytes
    payload: bytes


class Form:
    """Writes and reads the records of one log."""

    def __init__(self, cluster: str, log: str, version: str) -> None:
        """`version` is that of the program, for people: the format alone decides who can read."""
        self._cluster, self._log, self._version = cluster, log, version
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(_Fields).decode

    def written(self, record: Record, nonce: bytes = b"") -> bytes:
        """A record as bytes. With a nonce no other process writes the same bytes."""
        body = self._encode(
            _Fields(
                self._cluster,
                self._log,
                record.number,
                record.epoch,
                record.base,
                self._version,
                nonce,
                record.payload,
            )
        )
        data = b"".join((MAGIC, bytes((FORMAT, record.kind)), body))
        return data + blake2b(data, digest_size=DIGEST_BYTES).digest()

    def read(self, data: bytes, number: int) -> Record:
        """The record of that number in some bytes. Raises LogDamaged, OtherCluster or LaterFormat."""
        where = f"record {number} of log {self._log}"
        if len(data) < _HEAD_BYTES + DIGEST_BYTES or data[: len(MAGIC)] != MAGIC:
            raise LogDamaged(f"{where} is damaged: it must begin with {MAGIC.decode()}, got {data[:8]!r}")
        if data[len(MAGIC)] > FORMAT:
            raise LaterFormat(
                f"{where} has format {data[len(MAGIC)]}, and this version of Toehold reads {FORMAT} at most: "
                "start the version that wrote it, or a later one"
            )
        content, digest = data[:-DIGEST_BYTES], data[-DIGEST_BYTES:]
        if blake2b(content, digest_size=DIGEST_BYTES).digest() != digest:
            raise LogDamaged(f"{where} is damaged: its digest does not fit its {len(data)} bytes")
        try:
            kind = Kind(data[len(MAGIC) + 1])
            body = self._decode(content[_HEAD_BYTES:])
        except (ValueError, msgspec.DecodeError) as problem:
            raise LogDamaged(f"{where} is damaged: {problem}") from None
        if body.cluster != self._cluster:
            raise OtherCluster(f"{where} is of cluster {body.cluster}, and this is cluster {self._cluster}")
        if (body.log, body.number) != (self._log, number):
            raise OtherCluster(f"in the place of {where} is record {body.number} of log {body.log}")
        return Record(number, body.epoch, kind, body.base, body.payload)
