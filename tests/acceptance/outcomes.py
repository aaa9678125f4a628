"""Reads what a crawl leaves behind, crawl.log and WARC files, with other readers than those that wrote it."""

import subprocess
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from acceptance.programs import script
from fastwarc.warc import ArchiveIterator, WarcRecordType
from frontier_harness.divided import log_files

from practice_web.reply import Reply
from practice_web.truth import LATE
from practice_web.web import Web

ROBOTS_PATH_ENDS = "P"
"""How the discovery path of a robots.txt ends: a prerequisite."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of crawl.log."""

    time: datetime
    status: int
    url: str
    path: str
    annotations: tuple[str, ...]

    @property
    def disposition(self) -> str:
        """Its first annotation."""
        return self.annotations[0]

    @property
    def node(self) -> str:
        """Who fetched it; empty if nobody did."""
        named = [note.removeprefix("node:") for note in self.annotations if note.startswith("node:")]
        return named[0] if named else ""

    @property
    def is_robots(self) -> bool:
        """Whether it tells of the retrieval of a robots.txt, not of a page."""
        return self.path.endswith(ROBOTS_PATH_ENDS)


def crawl_log(file: Path) -> list[LogLine]:
    """All whole lines, in their order; none if there is no file."""
    found = [
        _line(line) for part in log_files(file) if part.exists() for line in part.read_text().split("\n")[:-1]
    ]
    return found if len(log_files(file)) == 1 else sorted(found, key=lambda line: line.time)


def pages(lines: Iterable[LogLine]) -> list[LogLine]:
    """The lines that tell of pages."""
    return [line for line in lines if not line.is_robots]


def _line(line: str) -> LogLine:
    columns = line.split()
    assert len(columns) == 12, f"a line of crawl.log has {len(columns)} columns: {line}"
    time, status, _, url, path, *_, annotations = columns
    return LogLine(datetime.fromisoformat(time), int(status), url, path, tuple(annotations.split(",")))


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its response, as a WARC file has them."""

    url: str
    request: str
    """The request's head; empty if its record was torn off."""
    response: str
    """The response's head."""
    payload: bytes
    """The response's body as stored."""
    truncated: str
    """The response record's WARC-Truncated."""
    date: str
    """Its WARC-Date."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        return int(self.response.split(maxsplit=2)[1])

    def shows(self, reply: Reply) -> bool:
        """Whether the body is the one that the web serves; of a truncated one, its beginning."""
        served = reply.body * reply.repeat
        encoding = "" if reply.encoded_as else _header(self.response, "Content-Encoding")
        body = _decoded(self.payload, encoding) if encoding else self.payload
        return served.startswith(body) if self.truncated else served == body


def exchanges(file: Path) -> list[Exchange]:
    """All exchanges of a WARC file. Of one that a dead process left, those before the torn record, which
    must be the last.
    """
    requests: dict[str, str] = {}
    responses: dict[str, tuple[str, str, bytes, str, str]] = {}
    torn = False
    with file.open("rb") as stream:
        for record in ArchiveIterator(stream, parse_http=False):
            assert not torn, f"{file.name} goes on after a torn record"
            content, headers = record.reader.read(), record.headers
            torn = len(content) != record.content_length
            if torn:
                continue
            head, _, body = content.partition(b"\r\n\r\n")
            if record.record_type == WarcRecordType.request:
                requests[headers["WARC-Concurrent-To"]] = head.decode("latin-1")
            elif record.record_type == WarcRecordType.response:
                url, truncated = headers["WARC-Target-URI"], headers.get("WARC-Truncated") or ""
                said = url, head.decode("latin-1"), body, truncated, headers["WARC-Date"]
                responses[headers["WARC-Record-ID"]] = said
    assert not torn or file.suffix == ".open", f"{file.name} was closed with a torn record"
    return [
        Exchange(url, requests.get(name, ""), head, body, truncated, date)
        for name, (url, head, body, truncated, date) in responses.items()
    ]


def all_exchanges(folder: Path) -> list[Exchange]:
    """The exchanges of all WARC files in a folder, closed or not, in the order of their dates: each process
    has files of its own."""
    found = [one for file in sorted(folder.glob("*.warc.gz*")) for one in exchanges(file)]
    return sorted(found, key=lambda one: one.date)


def closed_files(folder: Path) -> list[Path]:
    """The WARC files that were closed."""
    return sorted(folder.glob("*.warc.gz"))


def open_files(folder: Path) -> list[Path]:
    """The WARC files that were not."""
    return sorted(folder.glob("*.warc.gz.open"))


def unstored_pages(web: Web, lines: Iterable[LogLine], folder: Path) -> list[str]:
    """Pages that crawl.log has as fetched, and whose bytes are not in the WARC files of this folder."""
    found: dict[tuple[str, int], list[Exchange]] = {}
    for exchange in all_exchanges(folder):
        found.setdefault((exchange.url, exchange.status), []).append(exchange)
    missing = []
    for line in lines:
        place = web.find(line.url)
        assert place is not None, line.url
        reply = web.reply(*place, LATE)
        if line.status > 0 and not any(each.shows(reply) for each in found.get((line.url, line.status), ())):
            missing.append(f"{line.url} ({line.status}) is not in the WARC files of {line.node}")
    return missing


def check_failures(file: Path) -> list[str]:
    """What two independent readers have to complain about a closed WARC file."""
    checks = ([script("fastwarc"), "check", "--quiet"], [script("warcio"), "check"])
    done = [subprocess.run([*check, str(file)], capture_output=True, text=True) for check in checks]
    with file.open("rb") as stream:  # the tool would look for the payloads of revisits, which have none
        odd = [
            f"{file.name}: {record.record_id} has another payload than it says"
            for record in ArchiveIterator(stream, record_types=WarcRecordType.response)
            if not record.verify_payload_digest()
        ]
    return odd + [f"{each.args}: {each.stdout}{each.stderr}" for each in done if each.returncode != 0]


def _header(head: str, name: str) -> str:
    values = [
        line.partition(":")[2].strip()
        for line in head.split("\r\n")[1:]
        if line.partition(":")[0].lower() == name.lower()
    ]
    return values[0] if values else ""


def _decoded(payload: bytes, encoding: str) -> bytes:
    """What was encoded; of a truncated body, as much as there is."""
    if encoding == "gzip":
        return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS).decompress(payload)
    assert encoding == "deflate", encoding
    try:
        return zlib.decompressobj().decompress(payload)
    except zlib.error:
        return zlib.decompressobj(wbits=-zlib.MAX_WBITS).decompress(payload)
