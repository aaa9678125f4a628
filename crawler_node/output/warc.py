"""Writes what was fetched to WARC files (WARC/1.1, a gzip member for each record).

rotation names the files, closes them and makes them durable; repair sees to those of a dead process.
"""

import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from io import BytesIO
from pathlib import Path
from tempfile import SpooledTemporaryFile

from ..fetching.answer_head import Header, renamed
from ..fetching.fetch import NOT_MODIFIED, FetchResult
from ..fetching.outcome import Truncation
from .open_file import OutputError
from .records import (
    DIGEST_OF_NOTHING,
    FIELDS_TYPE,
    REQUEST_TYPE,
    RESPONSE_TYPE,
    RecordIds,
    RecordWriter,
)
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

_LENGTH = re.compile(rb"[0-9]{1,19}")
_SPOOL_BYTES = 1024 * 1024


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
    zlib's, 1 to 9. Raises ValueError, and OutputError when the directory can be neither created
    nor written to.
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
                    count = self._write(RecordWriter(records, self._gzip_level), visit, f"<{file_id}>")
                    length = records.tell()
                    records.seek(0)
                except OSError as problem:
                    raise OutputError(
                        f"cannot make the records of {fetch.uri}: {problem.strerror or problem}"
                    ) from problem
                return Piece(records, length, count)

            self.add(Series(visit.lease.crawl, visit.provenance), make)
            return True

    def _write(self, out: RecordWriter, visit: PageVisit, warcinfo_id: str) -> int:
        """Writes the records of a visit; how many."""
        for hop in visit.fetch.hops:
            _write_exchange(out, PageVisit(visit.lease, hop), warcinfo_id, Metadata.NONE)
        if visit.fetch.status > 0:
            _write_exchange(out, visit, warcinfo_id, self._metadata)
        return out.count

    def repair(self) -> None:
        """Repairs the files that dead processes left in the directory; see repair."""
        repair(self.directory, SUFFIX, parts_of_records)


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


def _write_exchange(out: RecordWriter, visit: PageVisit, warcinfo_id: str, metadata: Metadata) -> None:
    fetch = visit.fetch
    common = {
        "WARC-Date": utc_text(fetch.start_time_ms),
        "WARC-Target-URI": "".join(fetch.uri.split()),
        "WARC-Warcinfo-ID": warcinfo_id,
    }
    answer_id, answer = _ids.make(), dict(common)
    request = common | {"WARC-Concurrent-To": answer_id, "WARC-Payload-Digest": DIGEST_OF_NOTHING}
    if fetch.peer_address is not None:
        answer["WARC-IP-Address"] = request["WARC-IP-Address"] = fetch.peer_address
    if visit.is_revisit:
        # With the head of the 304, replay tools would show an empty page instead of that of the capture.
        head = b"" if fetch.unchanged else stored_head(fetch)
        out.write("revisit", answer_id, answer | _reference(visit), RESPONSE_TYPE, head)
    else:
        answer["WARC-Payload-Digest"] = fetch.digest
        if fetch.truncation is not Truncation.NONE:
            answer["WARC-Truncated"] = fetch.truncation.value
        head = stored_head(fetch)
        out.write("response", answer_id, answer, RESPONSE_TYPE, head, fetch.body, fetch.body_bytes)
    out.write("request", _ids.make(), request, REQUEST_TYPE, fetch.request_head)
    if metadata is Metadata.NONE:
        return
    lines = "".join(f"{name}: {_one_line(text)}\r\n" for name, text in _metadata(visit, metadata)).encode()
    out.write("metadata", _ids.make(), common | {"WARC-Concurrent-To": answer_id}, FIELDS_TYPE, lines)


_ids = RecordIds()


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
    fields = {"WARC-Date": utc_text(now_ms), "WARC-Filename": name}
    lines = "".join(f"{field}: {value}\r\n" for field, value in info.items() if value)
    RecordWriter(out, gzip_level).write("warcinfo", f"<{file_id}>", fields, FIELDS_TYPE, lines.encode())
    return out.getvalue()


def _one_line(text: str) -> str:
    return re.sub(r"[\x00-\x20\x7f]+", " ", text[:16_384])
