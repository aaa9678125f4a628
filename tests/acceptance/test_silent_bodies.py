"""A site whose server keeps connections open behind its pages, crawled and recrawled by real programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from fastwarc.warc import ArchiveIterator, WarcRecordType
from frontier_harness.embedded import BRISK, toehold
from frontier_harness.small_site import serving
from node_doubles.warcs import check

PAGE = b"<!DOCTYPE html><title>It</title><p>" + b"words " * 100
SPEC = '[fetch]\nread_timeout_seconds = 1.0\n[scope]\naccept_patterns = [".*"]\n'

STALLS = {
    "/length": (1,),
    "/chunks": (1,),
    "/plain": (1, 2),
    "/later": (2,),
}
"""The crawls at which pages stall: with too large a length, without last chunk, without length, and only at
the second crawl, when all has come."""


class Site(ThreadingHTTPServer):
    """Pages that have an ETag, link to the next, and stall at some crawls."""

    daemon_threads = True

    def __init__(self) -> None:
        self.crawl = 0
        self.asked: list[tuple[int, str, str | None]] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Site
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        crawl, asks = self.server.crawl, self.headers["If-None-Match"]
        self.server.asked.append((crawl, self.path, asks))
        if self.path not in ("/", *STALLS):
            self.send_error(404)
            return
        stalls = crawl in STALLS.get(self.path, ())
        names = sorted(STALLS) if self.path == "/" else [f"{self.path}/behind"]
        body = PAGE + "".join(f'<a href="{name}">on</a>' for name in names).encode()
        self.send_response(304 if asks else 200)
        self.send_header("ETag", '"1"')
        self.send_header("Content-Type", "text/html")
        if asks:
            self.end_headers()
            return
        self._send(body, stalls)
        if stalls:
            self.rfile.read(1)
        self.close_connection = True

    def _send(self, body: bytes, stalls: bool) -> None:
        if self.path == "/chunks":
            self.send_header("Transfer-Encoding", "chunked")
            body = b"%x\r\n%s\r\n" % (len(body), body) + (b"" if stalls else b"0\r\n\r\n")
        elif self.path != "/plain":
            self.send_header("Content-Length", str(len(body) + (100 if stalls else 0)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Path]]:
    """A crawl and two recrawls."""
    folder = tmp_path_factory.mktemp("silent")
    (folder / "spec.toml").write_text(SPEC)
    site = Site()
    with site, serving(site):
        for crawl in (1, 2, 3):
            site.crawl = crawl
            further = ["--recrawl"] if crawl > 1 else []
            options = ["--dir", "it", "--spec", "spec.toml", "--pages", "--mirror", *BRISK, *further]
            code, stdout, stderr = toehold(folder, "crawl", f"{site.url}/", *options)
            assert (code, stderr) == (0, ""), stdout
            if crawl == 1:
                (folder / "it" / "mirror").rename(folder / "mirror-1")
        yield site, folder


def records(crawled: tuple[Site, Path], path: str) -> list[tuple[str, str | None]]:
    """The records of a page in the archive, in their order: kinds, and why they are cut."""
    site, folder = crawled
    found = []
    for file in sorted((folder / "it" / "warcs").glob("*.warc.gz")):
        with file.open("rb") as stream:
            for record in ArchiveIterator(
                stream, parse_http=False, record_types=WarcRecordType.response | WarcRecordType.revisit
            ):
                if record.headers["WARC-Target-URI"] == site.url + path:
                    kind = record.headers["WARC-Type"]
                    found.append((record.headers["WARC-Date"], kind, record.headers.get("WARC-Truncated")))
    return [(kind, cut) for _, kind, cut in sorted(found)]


def test_links_of_a_part_are_followed(crawled: tuple[Site, Path]) -> None:
    asked = {path for crawl, path, _ in crawled[0].asked if crawl == 1}
    assert asked >= {f"{path}/behind" for path in STALLS}


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/length", [("response", "time"), ("response", None), ("revisit", None)]),
        ("/chunks", [("response", "time"), ("response", None), ("revisit", None)]),
        ("/plain", [("response", "time"), ("response", "time"), ("response", None)]),
        ("/later", [("response", None), ("revisit", None), ("revisit", None)]),
    ],
)
def test_a_part_is_archived_and_no_later_record_refers_to_it(
    crawled: tuple[Site, Path], path: str, kept: list[tuple[str, str | None]]
) -> None:
    assert records(crawled, path) == kept


def test_the_visit_after_a_part_asks_for_the_whole_page(crawled: tuple[Site, Path]) -> None:
    asked = {(crawl, path): tag for crawl, path, tag in crawled[0].asked}
    assert [asked[crawl, "/length"] for crawl in (1, 2, 3)] == [None, None, '"1"']
    assert [asked[crawl, "/plain"] for crawl in (1, 2, 3)] == [None, None, None]


def test_json_lines_say_which_pages_are_parts(crawled: tuple[Site, Path]) -> None:
    site, folder = crawled
    lines = [
        json.loads(line)
        for file in (folder / "it" / "pages").glob("*.jsonl*")
        for line in file.read_text().splitlines()
    ]
    lines.sort(key=lambda line: line["time"])
    told = [(line["status"], line["truncated"]) for line in lines if line["url"] == f"{site.url}/length"]
    assert told == [(200, "time"), (200, None), (304, None)]
    assert all(line["text"] and line["links"] for line in lines if line["truncated"])


def test_the_crawl_log_says_that_it_was_silence(crawled: tuple[Site, Path]) -> None:
    site, folder = crawled
    lines = [line.split() for file in folder.rglob("crawl.log") for line in file.read_text().splitlines()]
    first = min(line for line in lines if line[3] == f"{site.url}/length")
    assert first[1] == "200"
    assert {"timeTrunc", "Stalled:nothing_received_for_1_s"} <= set(first[-1].split(","))


def test_plain_files_are_those_of_whole_pages(crawled: tuple[Site, Path]) -> None:
    _, folder = crawled
    names = [
        {path.name for path in mirror.rglob("*") if path.is_file() and path.parent.name.startswith("127.")}
        for mirror in (folder / "mirror-1", folder / "it" / "mirror")
    ]
    assert (names[0], names[1] & {"length", "chunks", "plain", "later"}) == (
        {"index.html", "later"},
        {"length", "chunks", "plain"},
    )


def test_independent_readers_accept_the_archive(crawled: tuple[Site, Path]) -> None:
    for file in (crawled[1] / "it" / "warcs").glob("*.warc.gz"):
        check(file)
