"""Writes what was fetched to WARC files (WARC/1.1, a gzip member for each record).

rotation names the files, closes them and makes them durable; repair sees to those of a dead process.
"""

import re
import socket
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from io import BytesIO
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from warcio.warcwriter import WARCWriter
from zlib_ng import zlib_ng

from ..fetching.answer_head import Header, renamed
from ..fetching.fetch import NOT_MODIFIED, FetchResult
from ..fetching.outcome import Truncation
from .open_file import OutputError
from .repair import parts_of_records, repair
from .rotation import DEFAULT_ROTATION, Piece, RollingFiles, Rotation, Series, utc_text
from .visit import PageVisit

SUFFIX = ".warc.gz"

DEFAULT_GZIP_LEVEL = 6
"""Level 4 would make files of HTML 5 % larger, for two thirds of the work."""

NOT_MODIFIED_PROFILE = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
"""The profile of a 304: the page is unchanged since the last visit (WARC 1.1, 6.7)."""

IDENTICAL_PROFILE = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
"""The profile of a body that is byte for byte that of the last visit (WARC 1.1, 6.7)."""

ORIGINAL = b"X-Archive-Orig-"
"""Begins the name of a header that is false of the body in its record, as in Wayback machines."""

_FORMAT = "WARC File Format 1.1"
_CONFORMS_TO = "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"

_DIGEST_OF_NOTHING = "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"
"""The payload digest of a request: GET has no body. warcio would compute it each time."""

_LENGTH = re.compile(rb"[0-9]{1,19}")
_SPOOL_BYTES = 1024 * 1024
_PIECE_BYTES = 256 * 1024

_GZIP = 16  # what zlib takes to mean a gzip member, beside the bits of its window
_SMALL_BYTES = 2 * 1024
_SMALL_WINDOW_BITS = 11  # as many bytes
_SMALL_MEMORY_LEVEL = 4


class Metadata(StrEnum):
    """The content of the metadata record of a page. Its fields are those of Heritrix."""

    NONE = "none"
    """There is no metadata record."""
    VISIT = "visit"
    """How the page was found and how long it took: `seed` or `via` and `hopsFromSeed`, `fetchTimeMs`."""
    OUTLINKS = "outlinks"
    """Also its links, as `outlink: URI HOP CONTEXT`."""


class WarcWriter(RollingFiles):
    """Appends visits to the WARC files of one process, a series for each crawl. Thread-safe.

    `software` and `node` go into each file's warcinfo record, with the name of this host, the crawl and its
    provenance. Each other record of the file names that record (WARC-Warcinfo-ID). `gzip_level` is
    zlib's, 1 to 9. Raises ValueError, and OutputError when the directory can be neither created nor written
    to.
    """

    archives = True

    def __init__(
        self,
        directory: Path,
        node: str,
        *,
        software: str = "Toehold",
        metadata: Metadata = Metadata.VISIT,
        gzip_level: int = DEFAULT_GZIP_LEVEL,
        rotation: Rotation = DEFAULT_ROTATION,
        process_id: int | None = None,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        if not 1 <= gzip_level <= 9:
            raise ValueError(f"gzip_level must be between 1 and 9, got {gzip_level}")
        self._metadata = metadata
        self._gzip_level = gzip_level
        info = {
            "software": software,
            "format": _FORMAT,
            "conformsTo": _CONFORMS_TO,
            "hostname": socket.gethostname(),
            "node": _one_line(node),
        }
        super().__init__(
            directory,
            node,
            SUFFIX,
            head=lambda series, name, file_id, now_ms: _warcinfo(
                name, file_id, now_ms, info | _whose(series), gzip_level
            ),
            rotation=rotation,
            process_id=process_id,
            clock_ms=clock_ms,
        )

    def append(self, visit: PageVisit) -> bool:
        """Stores a visit: request and response records, of its redirects too; a revisit record instead of the
        response if the page is what it was at the last visit; and a metadata record. False if nothing was
        answered.

        Stores all of them or none. Not durable before `sync`. Raises OutputError.
        """
        fetch = visit.fetch
        if not fetch.hops and fetch.status <= 0:
            return False
        with SpooledTemporaryFile(_SPOOL_BYTES, dir=str(self.directory)) as records:

            def make(file_id: str) -> Piece:
                try:
                    records.seek(0)
                    records.truncate()
                    count = self._write(records, visit, f"<{file_id}>")
                    length = records.tell()
                    records.seek(0)
                except OSError as problem:
                    raise OutputError(
                        f"cannot make the records of {fetch.uri}: {problem.strerror or problem}"
                    ) from problem
                return Piece(records, length, count)

            self.add(Series(visit.lease.crawl, visit.provenance), make)
            return True

    def _write(self, out: IO[bytes], visit: PageVisit, warcinfo_id: str) -> int:
        """Writes the records of a visit; how many."""
        count = 0
        for hop in visit.fetch.hops:
            count += _write_exchange(
                out, PageVisit(visit.lease, hop), warcinfo_id, Metadata.NONE, self._gzip_level
            )
        if visit.fetch.status > 0:
            count += _write_exchange(out, visit, warcinfo_id, self._metadata, self._gzip_level)
        return count

    def repair(self) -> None:
        """Repairs the files that dead processes left in the directory; see repair."""
        repair(self.directory, SUFFIX, parts_of_records)


class _MemberWriter:
    """Writes a gzip member for each record: warcio flushes after each. (warcio's own compression always works
    as hard as it can.)

    The pieces that warcio writes are compressed together, and small records with little memory, as allocating
    and clearing much memory takes longer than compressing them.
    """

    def __init__(self, out: IO[bytes], level: int) -> None:
        self._out = out
        self._level = level
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._member: zlib_ng._Compress | None = None

    def write(self, data: bytes) -> None:
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes >= _PIECE_BYTES:
            self._out.write(self._large().compress(self._taken()))

    def flush(self) -> None:
        if self._member is None and self._held_bytes <= _SMALL_BYTES:
            member: zlib._Compress | zlib_ng._Compress = zlib.compressobj(
                self._level, zlib.DEFLATED, _GZIP + _SMALL_WINDOW_BITS, memLevel=_SMALL_MEMORY_LEVEL
            )
        else:
            member = self._large()
        self._out.write(member.compress(self._taken()) + member.flush())
        self._member = None

    def _large(self) -> "zlib_ng._Compress":
        if self._member is None:
            self._member = zlib_ng.compressobj(self._level, zlib_ng.DEFLATED, _GZIP + zlib_ng.MAX_WBITS)
        return self._member

    def _taken(self) -> bytes:
        data = b"".join(self._held)
        self._held.clear()
        self._held_bytes = 0
        return data


def stored_head(fetch: FetchResult) -> bytes:
    """The head of an answer as its record has it: as it came, except that what it says of the body's length
    and framing is true of the body in the record, or has a name that tells readers nothing: ORIGINAL before
    its own.

    A server may name several lengths, or another than it sends; a body may be cut, or left unread; and the
    body of a record has no chunks. The length in a 304 is that of the page, as it should be.
    """

    def is_false(header: Header) -> bool:
        name, value = header[0].lower(), header[1]
        if name == b"content-length":
            is_true = _LENGTH.fullmatch(value) and int(value) == fetch.body_bytes
            return fetch.status != NOT_MODIFIED and not is_true
        return name == b"transfer-encoding" and value.lower() not in (b"", b"identity")

    return renamed(fetch.response_head, ORIGINAL, is_false)


class _Head:
    """An HTTP head for warcio, byte for byte as it was; warcio's own class would encode it anew."""

    def __init__(self, head: bytes) -> None:
        self.headers_buff = head

    def compute_headers_buffer(self, header_filter: object = None) -> None:
        """Does nothing, as the buffer is set."""


def _write_exchange(
    out: IO[bytes], visit: PageVisit, warcinfo_id: str, metadata: Metadata, gzip_level: int
) -> int:
    """Writes the records of an exchange; how many."""
    fetch = visit.fetch
    writer = _writer(out, gzip_level)
    uri = "".join(fetch.uri.split())  # a line end would end the header
    common = {"WARC-Date": utc_text(fetch.start_time_ms), "WARC-Warcinfo-ID": warcinfo_id}
    headers = dict(common)
    if fetch.peer_address is not None:
        headers["WARC-IP-Address"] = fetch.peer_address
    request = writer.create_warc_record(
        uri,
        "request",
        http_headers=_Head(fetch.request_head),
        warc_headers_dict=headers | {"WARC-Payload-Digest": _DIGEST_OF_NOTHING},
    )
    kind, payload, length = "revisit", None, None
    head: _Head | None = _Head(stored_head(fetch))
    if visit.is_revisit:
        headers |= _reference(visit)
        if fetch.unchanged:
            # With the head of the 304, replay tools would show an empty page instead of that of the capture.
            head = None
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
        http_headers=head,
        warc_headers_dict=headers,
    )
    writer.write_request_response_pair(request, answer)
    if metadata is Metadata.NONE:
        return 2
    fields = "".join(f"{name}: {_one_line(text)}\r\n" for name, text in _metadata(visit, metadata)).encode()
    concurrent_to = answer.rec_headers.get_header("WARC-Record-ID")
    writer.write_record(
        writer.create_warc_record(
            uri,
            "metadata",
            payload=BytesIO(fields),
            length=len(fields),
            warc_headers_dict=common | {"WARC-Concurrent-To": concurrent_to},
        )
    )
    return 3


def _reference(visit: PageVisit) -> dict[str, str]:
    """The headers of a revisit record: which capture has the page (WARC 1.1, 5.7, 5.16 to 5.18)."""
    fetch, lease = visit.fetch, visit.lease
    headers = {
        "WARC-Profile": NOT_MODIFIED_PROFILE if fetch.unchanged else IDENTICAL_PROFILE,
        "WARC-Refers-To-Target-URI": "".join(lease.capture_uri.split()),
        "WARC-Refers-To-Date": utc_text(lease.capture_time.ToMilliseconds()),
    }
    digest = lease.last_digest if fetch.unchanged else fetch.digest
    return headers | ({"WARC-Payload-Digest": digest} if digest else {})


def _metadata(visit: PageVisit, metadata: Metadata) -> Iterator[tuple[str, str]]:
    lease = visit.lease
    if lease.seed:
        yield "seed", ""
    if lease.via:
        yield "via", lease.via
    if lease.path:
        yield "hopsFromSeed", lease.path
    if lease.source:
        yield "sourceTag", lease.source
    yield "fetchTimeMs", str(visit.fetch.duration_ms)
    if visit.is_revisit and visit.fetch.unchanged:
        for line in visit.fetch.response_head.decode("latin-1").splitlines():
            if line:
                yield "responseHead", line
    if metadata is Metadata.OUTLINKS:
        for link in visit.links:
            yield "outlink", f"{link.uri} {link.hop} {link.context}"


def _whose(series: Series) -> dict[str, str]:
    """The fields of a warcinfo record that tell whose records follow (WARC 1.1, 6.2). An empty one is left
    out. `contact` and `launched` are our own."""
    whose = series.provenance
    fields = {
        "isPartOf": series.crawl,
        "launched": utc_text(whose.launch_ms) if whose.launch_ms else "",
        "operator": whose.operator or whose.contact,
        "contact": whose.contact,
        "description": whose.description,
        "robots": whose.robots_policy,
        "http-header-user-agent": whose.user_agent,
    }
    # No character that any reader takes for the end of a line.
    return {name: " ".join(_one_line(value).split()) for name, value in fields.items()}


def _warcinfo(name: str, file_id: str, now_ms: int, info: Mapping[str, str], gzip_level: int) -> bytes:
    out = BytesIO()
    writer = _writer(out, gzip_level)
    record = writer.create_warcinfo_record(name, info)
    record.rec_headers.replace_header("WARC-Record-ID", f"<{file_id}>")
    record.rec_headers.replace_header("WARC-Date", utc_text(now_ms))
    writer.write_record(record)
    return out.getvalue()


def _writer(out: IO[bytes], gzip_level: int) -> Any:
    writer = WARCWriter(_MemberWriter(out, gzip_level), gzip=False, warc_version="1.1")
    writer.NO_PAYLOAD_DIGEST_TYPES = ("warcinfo", "revisit", "metadata")  # their blocks are not payloads
    return writer


def _one_line(text: str) -> str:
    return re.sub(r"[\x00-\x20\x7f]+", " ", text[:16_384])
