"""A crawl and its recrawl as an archive's users see them: replayed in pywb, byte for byte."""

from __future__ import annotations

import gzip
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from frontier_harness.embedded import BRISK, toehold
from frontier_harness.replay import Pywb
from node_doubles.warcs import check

LAST_MODIFIED = "Sat, 01 Jan 2022 00:00:00 GMT"
HTML = b"<!DOCTYPE html><title>%s</title><p>%s" + b" words" * 200


@dataclass(frozen=True)
class Answer:
    """What a path is answered with. `etag` and `last_modified` are honoured: then a 304 comes."""

    body: bytes = b""
    status: int = 200
    media_type: str = "text/html"
    coding: str = ""
    location: str = ""
    etag: str = ""
    last_modified: str = ""


def text(name: str) -> bytes:
    return HTML % (name.encode(), name.encode())


ANSWERS = {
    "/etag": Answer(text("etag"), etag='"1"'),
    "/weak": Answer(text("weak"), etag='W/"1"'),
    "/date": Answer(text("date"), last_modified=LAST_MODIFIED),
    "/both": Answer(text("both"), etag='"2"', last_modified=LAST_MODIFIED),
    "/none": Answer(text("none")),
    "/gzip": Answer(gzip.compress(text("gzip"), mtime=0), coding="gzip"),
    "/gzip-etag": Answer(gzip.compress(text("gzip-etag"), mtime=0), coding="gzip", etag='"3"'),
    "/deflate": Answer(zlib.compress(text("deflate")), coding="deflate", etag='"4"'),
    "/image.png": Answer(bytes(range(256)) * 8, media_type="image/png", etag='"5"'),
    "/style.css": Answer(b"body{color:red}", media_type="text/css", last_modified=LAST_MODIFIED),
    "/old": Answer(b"moved", 301, location="/etag"),
    "/moved": Answer(b"", 302, location="/none"),
    "/missing": Answer(text("missing"), 404),
    "/changes": Answer(text("first"), etag='"6"'),
}
LATER = {"/changes": Answer(text("second"), etag='"7"')}
UNCHANGED = {path for path, answer in ANSWERS.items() if answer.etag or answer.last_modified} - set(LATER)


class Site(ThreadingHTTPServer):
    """Serves the answers, and a first page that links to all of them."""

    daemon_threads = True

    def __init__(self) -> None:
        links = "".join(f'<a href="{path}">{path}</a>' for path in ANSWERS)
        self.answers = {"/": Answer(links.encode(), etag='"0"'), **ANSWERS}
        self.statuses: list[tuple[str, int]] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Site
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        answer = self.server.answers.get(self.path, Answer(status=404))
        fresh = answer.etag and self.headers["If-None-Match"] == answer.etag
        fresh = fresh or (answer.last_modified and self.headers["If-Modified-Since"] == answer.last_modified)
        status = 304 if fresh else answer.status
        self.server.statuses.append((self.path, status))
        self.send_response(status)
        self.send_header("Content-Type", answer.media_type)
        named = {"ETag": answer.etag, "Last-Modified": answer.last_modified, "Location": answer.location}
        if not fresh:
            named |= {"Content-Encoding": answer.coding, "Content-Length": str(len(answer.body))}
        for name, value in named.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        if not fresh:
            self.wfile.write(answer.body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def serving() -> Iterator[Site]:
    with Site() as site:
        thread = threading.Thread(target=site.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield site
        finally:
            site.shutdown()
            thread.join()


def crawled(folder: Path, site: Site, *options: str) -> dict[str, int]:
    """The statuses of the site's answers to a run of `toehold crawl`."""
    site.statuses.clear()
    code, stdout, stderr = toehold(folder, "crawl", f"{site.url}/", "--dir", "it", *BRISK, *options)
    assert (code, stderr) == (0, ""), stdout
    return dict(site.statuses)


@pytest.mark.parametrize("runs", [2, 3])
def test_pages_of_a_recrawl_replay_as_the_server_has_them(tmp_path: Path, runs: int) -> None:
    with serving() as site:
        crawled(tmp_path, site)
        first = dict(site.answers)
        site.answers |= LATER
        for run in range(2, runs + 1):
            statuses = crawled(tmp_path, site, "--recrawl")
            unchanged = {path for path, status in statuses.items() if status == 304}
            assert unchanged == UNCHANGED | {"/"} | (set(LATER) if run > 2 else set())
        files = sorted((tmp_path / "it" / "warcs").glob("*.warc.gz"))
        for file in files:
            check(file)
        with Pywb(tmp_path / "pywb", files) as replay:
            for date, answers in (("20000101000000", first), ("20991231000000", site.answers)):
                for path, answer in answers.items():
                    page = replay.page(site.url + path, date)
                    assert (page.status, page.body) == (answer.status, answer.body), (path, date)
                    assert page.headers.get("content-encoding", "") == answer.coding, path
                    assert page.headers.get("location", "").endswith(answer.location), path
