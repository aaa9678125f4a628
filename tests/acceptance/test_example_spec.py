"""The example of a spec that uses most settings, run on a site that shows what each of them does."""

import re
import threading
import time
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from acceptance.outcomes import Exchange, LogLine, all_exchanges, crawl_log, pages
from acceptance.programs import Programs, json_of, toehold
from frontier_harness.divided import SHARDS
from frontier_harness.waiting import eventually

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
LIBRARY, PICTURES = "www.library.example", "img.library.example"
NEWS = "/news/today.html"
STOPPED = 8
"""How `toehold run` ends when somebody stops the crawl."""

MEMBER = b64encode(b"archive:open sesame").decode()
MAX_BYTES, LONG_BYTES, HUGE_BYTES = 150_000, 200_000, 2_000_000
"""Where the spec cuts a body; a page that is longer; one that is not read at all."""
LONG_S = 1.0
"""What so much takes at least at 100 kB a second, though it may begin with a burst. No rest is as long."""

FRONT = f"""<html><head><script src="/catalogue.js"></script></head><body>
<a href="{NEWS}"></a> <a href="/members/"></a> <a href="/film"></a> <a href="/long.html"></a>
<a href="/huge.html"></a> <a href="/once-broken.html"></a> <a href="/shelves.html"></a>
<a href="/book.html?sid=0123456789abcdef0123456789abcdef"></a> <a href="/book.html"></a>
<a href="/letter.html?utm_source=mail"></a> <a href="/letter.html?utm_source=front"></a>
<a href="/staff/rota.html"></a> <a href="/calendar/2031.html"></a> <a href="/drafts/one.html"></a>
<a href="/a/a/a/loop.html"></a> <a href="/advertised.html" rel="nofollow"></a> <a href="/quiet.html"></a>
<img src="http://{PICTURES}:PORT/door.png"> <a href="http://elsewhere.example:PORT/"></a>
</body></html>"""
QUIET = '<meta name="robots" content="nofollow"><a href="/beyond-quiet.html"></a>'
SHELVES = "".join(f'<a href="/shelf-{number}.html"></a>' for number in range(30))


@dataclass(frozen=True, slots=True)
class Asked:
    """A request."""

    began_s: float
    host: str
    path: str
    agent: str
    cookie: str
    authorization: str
    validator: str


@dataclass(slots=True)
class Library:
    """The site: two hosts on one port."""

    port: int
    asked: list[Asked] = field(default_factory=list)
    answered_s: dict[int, float] = field(default_factory=dict)
    """When each of them had all of its answer but the last bytes."""

    def of(self, path: str, host: str = LIBRARY) -> list[Asked]:
        """The requests for a path."""
        return [each for each in self.asked if (each.host, each.path) == (host, path)]

    @property
    def paths(self) -> list[str]:
        """What was asked of the first host, in order."""
        return [each.path for each in self.asked if each.host == LIBRARY]


class Handler(BaseHTTPRequestHandler):
    library: Library

    def do_GET(self) -> None:
        host = (self.headers["Host"] or "").partition(":")[0]
        said = [
            self.headers.get(name, "") for name in ("User-Agent", "Cookie", "Authorization", "If-None-Match")
        ]
        self._number = len(self.library.asked)
        self.library.asked.append(Asked(time.monotonic(), host, self.path, *said))
        self._answer(host)

    def _answer(self, host: str) -> None:
        path, page = self.path, "text/html"
        if path == "/robots.txt":
            self._send(200, "text/plain", "User-agent: library-archive\nDisallow: /drafts/\n")
        elif host == PICTURES:
            self._send(200, "image/png", "a picture")
        elif path == "/":
            front = FRONT.replace("PORT", str(self.library.port))
            self._send(200, page, front, ("Set-Cookie", "reader=7; Path=/"))
        elif path == "/members/" and self.library.of(path)[-1].authorization != f"Basic {MEMBER}":
            self._send(401, page, "members only", ("WWW-Authenticate", 'Basic realm="members"'))
        elif path == NEWS and self.library.of(path)[-1].validator:
            self._send(304, page, "")
        elif path == NEWS:
            self._send(200, page, "all is well", ("ETag", '"1"'))
        elif path == "/once-broken.html" and len(self.library.of(path)) == 1:
            self._send(500, page, "broken")
        else:
            self._send(200, *_PLAIN.get(path, (page, f"this is {path}")))

    def _send(self, status: int, media_type: str, text: str, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        for name, value in headers:
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.library.answered_s[self._number] = time.monotonic()
        with suppress(OSError):  # the crawler may have hung up: it wants no more
            self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Nothing is told."""


_PLAIN = {
    "/catalogue.js": ("text/javascript", 'fetch("/from-the-script.html")'),
    "/film": ("video/mp4", "a film"),
    "/long.html": ("text/html", "x" * LONG_BYTES),
    "/huge.html": ("text/html", "x" * HUGE_BYTES),
    "/shelves.html": ("text/html", SHELVES),
    "/quiet.html": ("text/html", QUIET),
}


@pytest.fixture
def library() -> Iterator[Library]:
    class Bound(Handler):
        pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Bound) as server:
        Bound.library = Library(server.server_port)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Bound.library
        server.shutdown()


def test_each_setting_of_the_example_does_what_it_says(
    library: Library, programs: Programs, tmp_path: Path
) -> None:
    for example in EXAMPLES.glob("*.toml"):
        (tmp_path / example.name).write_text(example.read_text().replace(":8080", f":{library.port}"))
    spec, news = str(tmp_path / "library.toml"), str(tmp_path / "news.toml")
    if SHARDS > 1:
        _leave_out_what_several_shards_refuse(tmp_path / "library.toml")
    there = ("--frontier", programs.frontier(tmp_path / "data").address)
    warcs = tmp_path / "warcs"
    resolve = [f"--resolve={host}:{library.port}:127.0.0.1" for host in (LIBRARY, PICTURES)]
    programs.node("archive", there[1], warcs, *resolve)
    for command in (
        ("create", spec),
        ("overrides", "put", f"http://{LIBRARY}:{library.port}/news/", news),
    ):
        done = toehold(*command, *there)
        assert done.returncode == 0, done.stderr
    crawl = programs.toehold("run", spec, *there)
    eventually(lambda: _is_through(library, *there), "the whole site, and the news once more")
    assert toehold("stop", *there).returncode == 0
    assert crawl.wait() == STOPPED, crawl.complaints

    _check_what_is_fetched(library)
    _check_how_it_is_fetched(library)
    log = pages(crawl_log(tmp_path / "data" / "crawls" / "library" / "crawl.log"))
    _check_what_is_kept(all_exchanges(warcs), log)


def _leave_out_what_several_shards_refuse(spec: Path) -> None:
    before, quota, behind = spec.read_text().partition("[limits.source_quota]\n")
    assert quota
    spec.write_text(before + behind.partition("\n\n")[2])


def _is_through(library: Library, *there: str) -> bool:
    if len(library.of(NEWS)) < 2 or not library.of("/shelf-19.html"):
        return False
    statistics = json_of("status", *there)["statistics"]
    return not statistics["queued_count"] and not statistics["leased_count"]


def _check_what_is_fetched(library: Library) -> None:
    asked = set(library.paths)
    assert "/staff/rota.html" not in asked, "scope.surt_prefixes"
    assert "/calendar/2031.html" not in asked, "scope.reject_patterns"
    assert "/a/a/a/loop.html" not in asked, "scope.max_path_repetitions"
    assert "/drafts/one.html" not in asked, "fetch.product_token, by robots.txt"
    assert "/advertised.html" not in asked, "extract.obey_nofollow"
    assert "/quiet.html" in asked and "/beyond-quiet.html" not in asked, "extract.obey_robots_meta"
    assert "/from-the-script.html" in asked, "extract.javascript"
    assert library.of("/door.png", PICTURES), "scope.hosts"
    assert {each.host for each in library.asked} == {LIBRARY, PICTURES}, "scope"
    shelves = {path for path in asked if path.startswith("/shelf-")}
    assert shelves == {f"/shelf-{number}.html" for number in range(20)}, "extract.max_links"
    assert sum(path.startswith("/book.html") for path in library.paths) == 1, "identity.rules"
    assert sum(path.startswith("/letter.html") for path in library.paths) == 1, "identity.rewrites"


def _check_how_it_is_fetched(library: Library) -> None:
    asked = library.asked
    agents = {each.agent for each in asked}
    assert len(agents) == 1 and re.search(r"library-archive.*https://archive\.example/about", agents.pop())
    front = asked.index(library.of("/")[0])
    later = [each for each in asked[front + 1 :] if each.host == LIBRARY and each.path != "/robots.txt"]
    assert later and {each.cookie for each in later} == {"reader=7"}, "fetch.cookies"
    assert all(not each.cookie for each in asked if each.host == PICTURES), "a cookie is its host's"
    assert [bool(each.authorization) for each in library.of("/members/")] == [False, True], (
        "fetch.credentials"
    )
    assert len(library.of("/once-broken.html")) == 2, "retry.statuses"
    # one at a time to both hosts, and a rest between: groups, politeness
    begun_s = [each.began_s for each in asked]
    answered_s = [library.answered_s[number] for number in range(len(asked))]
    assert all(later >= sooner for sooner, later in zip(answered_s, begun_s[1:], strict=False)), "groups"
    long = asked.index(library.of("/long.html")[0])
    assert begun_s[long + 1] - begun_s[long] > LONG_S, "politeness.max_bytes_per_second"

    first, *again = library.of(NEWS)
    assert not first.validator and {each.validator for each in again} == {'"1"'}, "revisit"


def _check_what_is_kept(stored: Sequence[Exchange], log: Sequence[LogLine]) -> None:
    answers = {(urlsplit(each.url).path, each.status): each for each in stored}
    annotations = {urlsplit(line.url).path: line.annotations for line in log}
    long = answers["/long.html", 200]
    assert (len(long.payload), long.truncated) == (MAX_BYTES, "length"), "fetch.max_bytes"
    for path, setting in (("/film", "reject_media_types"), ("/huge.html", "max_content_length")):
        assert answers[path, 200].payload == b"", f"fetch.{setting}"
        assert "midFetchAbort" in annotations[path], f"fetch.{setting}"
    assert answers["/members/", 200].payload, "fetch.credentials"
