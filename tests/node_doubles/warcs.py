"""Visits to store, and what two independent readers find in WARC files."""

import base64
import hashlib
from argparse import Namespace
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import BytesIO, StringIO
from pathlib import Path
from typing import BinaryIO

from click.testing import CliRunner
from fastwarc.cli import check as fastwarc_check
from fastwarc.warc import ArchiveIterator, WarcRecordType
from node_doubles.leases import lease
from warcio.checker import Checker

from crawler_node.fetching.fetch import NO_PROVENANCE, FetchResult, Provenance
from crawler_node.fetching.outcome import Truncation
from crawler_node.output.repair import parts_of_records, repair
from crawler_node.output.visit import PageVisit
from crawler_node.output.warc import SUFFIX, WarcWriter

START_MS = 1_700_000_000_123
CAPTURE_MS, CAPTURE_DATE = 1_690_000_000_456, "2023-07-22T04:26:40.456Z"
BODY = b"<html>caf\xe9</html>\r\n\r\n"


def fetch(
    uri: str = "http://a.example/x?y=z",
    body: bytes | BinaryIO = BODY,
    *,
    status: int = 200,
    truncation: Truncation = Truncation.NONE,
    hops: tuple[FetchResult, ...] = (),
    conditional: bool = False,
) -> FetchResult:
    content = body if isinstance(body, bytes) else body.read()
    return FetchResult(
        uri,
        start_time_ms=START_MS,
        status=status,
        request_head=b"GET /x?y=z HTTP/1.1\r\nHost: a.example\r\n\r\n",
        response_head=b"HTTP/1.1 %d All  is well\r\ncontent-TYPE: text/html\r\nX-Odd: caf\xe9\r\n\r\n"
        % max(status, 0),
        body=BytesIO(body) if isinstance(body, bytes) else body,
        body_bytes=len(content),
        truncation=truncation,
        digest=digest_of(content),
        peer_address="192.0.2.1",
        hops=hops,
        conditional=conditional,
    )


def digest_of(body: bytes) -> str:
    return "sha1:" + base64.b32encode(hashlib.sha1(body).digest()).decode()


def visit(
    uri: str = "http://a.example/x?y=z",
    body: bytes | BinaryIO = BODY,
    *,
    status: int = 200,
    truncation: Truncation = Truncation.NONE,
    hops: tuple[FetchResult, ...] = (),
    conditional: bool = False,
    last_digest: str = "",
    capture_ms: int = 0,
    crawl: str = "crawl",
    provenance: Provenance = NO_PROVENANCE,
) -> PageVisit:
    made = fetch(uri, body, status=status, truncation=truncation, hops=hops, conditional=conditional)
    found = lease(uri, crawl=crawl, last_digest=last_digest, capture_ms=capture_ms)
    return PageVisit(found, made, provenance=provenance)


@dataclass(frozen=True)
class Record:
    kind: str
    headers: dict[str, str]
    block: bytes
    offset: int

    @property
    def uri(self) -> str:
        return self.headers["WARC-Target-URI"]


def read(path: Path) -> list[Record]:
    """All records of a file; their digests are checked on the way."""
    records = []
    with path.open("rb") as file:
        for each in ArchiveIterator(file, parse_http=False):
            assert each.verify_block_digest(), each.record_id
            headers = dict(each.headers.items())
            records.append(Record(headers["WARC-Type"], headers, each.reader.read(), each.stream_pos))
    return records


def check(*paths: Path) -> None:
    """Has both readers' own tools check files. Checks the payloads of all records but revisits, which have
    none (the tools would look for it)."""
    for path in paths:
        with path.open("rb") as file:
            for each in ArchiveIterator(file, record_types=WarcRecordType.response):
                assert each.verify_payload_digest(), each.record_id
        done = CliRunner().invoke(fastwarc_check, [str(path)])
        assert (done.exit_code, "fail" in done.stdout.lower()) == (0, False), done.output
    said = StringIO()
    with redirect_stdout(said):
        code = Checker(Namespace(inputs=[*map(str, paths)], verbose=False)).process_all()
    assert (code, "fail" in said.getvalue().lower()) == (0, False), said.getvalue()


def files(directory: Path) -> list[Path]:
    return sorted(directory.iterdir())


def left_behind(directory: Path, pages: int = 3) -> Path:
    """A WARC file as a process leaves it that dies after its last page."""
    writer = WarcWriter(directory, "node")
    for n in range(pages):
        writer.append(visit(f"http://a.example/{n}", b"page %d" % n))
    (path,) = directory.glob("*.open")
    content = path.read_bytes()
    writer.close()
    path.with_suffix("").unlink()
    path.write_bytes(content)
    return path


def mend(directory: Path) -> None:
    """Repairs the WARC files in a directory."""
    repair(directory, SUFFIX, parts_of_records)


def bodies(directory: Path) -> dict[str, bytes]:
    """The bodies of all pages, by URI. Every file is checked."""
    found = {}
    paths = sorted(directory.glob("*.warc.gz"))
    check(*paths)
    for path in paths:
        with path.open("rb") as file:
            for each in ArchiveIterator(file, record_types=WarcRecordType.response):
                found[each.headers["WARC-Target-URI"]] = each.reader.read()
    return found
