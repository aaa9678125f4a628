"""A crawl and its recrawl as an archive's users see them: replayed in pywb, byte for byte."""

import gzip
import subprocess
import zlib
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from acceptance.judging import seeds_of
from fastwarc.warc import ArchiveIterator, WarcRecordType
from frontier_harness.divided import of_toehold
from frontier_harness.embedded import BRISK, TOEHOLD, toehold
from frontier_harness.replay import Pywb
from frontier_harness.small_site import serving
from frontier_harness.waiting import WHOLE_CRAWL_S
from node_doubles.warcs import check

from practice_web.practice import PracticeWeb

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


def crawled(folder: Path, site: Site, *options: str) -> dict[str, int]:
    """The statuses of the site's answers to a run of `toehold crawl`."""
    site.statuses.clear()
    code, stdout, stderr = toehold(folder, "crawl", f"{site.url}/", "--dir", "it", *BRISK, *options)
    assert (code, stderr) == (0, ""), stdout
    return dict(site.statuses)


def test_pages_of_recrawls_replay_as_the_server_has_them(tmp_path: Path) -> None:
    with Site() as site, serving(site):
        crawled(tmp_path, site)
        first = dict(site.answers)
        site.answers |= LATER
        for run in (2, 3):
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


SPEC = Path(__file__).resolve().parents[1] / "practice_web" / "spec.toml"


def archived(files: list[Path]) -> tuple[dict[str, tuple[int, bytes]], dict[str, str]]:
    """The status and body of each page that was answered, and the date of its last record, by URL."""
    answers: dict[str, tuple[int, bytes]] = {}
    dates: dict[str, str] = {}
    kinds = WarcRecordType.response | WarcRecordType.revisit
    for file in files:
        with file.open("rb") as stream:
            for record in ArchiveIterator(stream, record_types=kinds, parse_http=True):
                url, date = str(record.headers["WARC-Target-URI"]), str(record.headers["WARC-Date"])
                if record.record_type == WarcRecordType.response and date > dates.get(url, ""):
                    assert record.http_headers is not None
                    answers[url] = (record.http_headers.status_code or 0, record.reader.read())
                dates[url] = max(date, dates.get(url, ""))
    return answers, dates


def unmodified(files: list[Path]) -> set[str]:
    """The URLs that a recrawl found unchanged."""
    found = set()
    for file in files:
        with file.open("rb") as stream:
            for record in ArchiveIterator(stream, record_types=WarcRecordType.revisit):
                if "server-not-modified" in str(record.headers["WARC-Profile"]):
                    found.add(str(record.headers["WARC-Target-URI"]))
    return found


ALIKE = {"alpha", "beta", "delta", "epsilon", "zeta", "eta"}
"""Hosts of documentation as `gamma`, which compresses its pages, and `theta`, which wants https, have it."""


@pytest.mark.parametrize(
    ("left_out", "least", "least_unmodified"),
    [(ALIKE, 230, 100), pytest.param(set(), 700, 500, marks=pytest.mark.soak("resuming"))],
    ids=["some hosts", "all hosts"],
)
def test_practice_web_replays_after_its_recrawl(
    web: PracticeWeb, tmp_path: Path, left_out: set[str], least: int, least_unmodified: int
) -> None:
    """What the files have of each page is compared with the servers' own elsewhere (`outcomes`)."""
    seeds = seeds_of(web, [key for key in web.web.origins if key not in left_out])
    resolve = [argument for entry in web.resolve for argument in ("--resolve", entry)]
    options = ["--spec", str(SPEC), "--dir", "it", "--ca-file", str(web.ca_file), *resolve]
    for more in ([], ["--recrawl"]):
        command = [*TOEHOLD, *of_toehold(("crawl", *options, *more, *seeds))]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=WHOLE_CRAWL_S, check=False)
        assert (done.returncode, done.stderr) == (0, b""), done.stdout
    files = sorted((tmp_path / "it" / "warcs").glob("*.warc.gz"))
    check(*files)
    answers, dates = archived(files)
    assert len(answers) > least
    assert len(unmodified(files)) > least_unmodified, "most pages of the recrawl refer to those of the crawl"
    # pywb refuses a page that redirects to itself.
    del answers[web.web.url("iota", "/traps/loop/self")]
    with Pywb(tmp_path / "pywb", files) as replay:
        for url, answer in answers.items():
            date = "".join(char for char in dates[url] if char.isdigit())[:14]
            page = replay.page(url, date)
            assert (page.status, page.body) == answer, url
