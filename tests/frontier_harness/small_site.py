"""A small site on this machine under as many names as wanted, whose answers a test chooses as it goes."""

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from frontier_harness.waiting import PATIENCE_S


class SmallSite(ThreadingHTTPServer):
    """Answers `/` with links to pages, which have no links. All its names share the answers.

    `statuses` has the paths whose answer is not 200 OK, `links` what a page shows besides text, and `robots`
    the robots.txt of hosts that have one. A page has an ETag, another one if it is in `changed`, and is
    answered with 304 to whoever knows it. `redirects` has the URLs that redirect, and
    `cookie_walls` the paths that do so, with a cookie, until it comes back.
    """

    daemon_threads = True

    def __init__(self, pages: int) -> None:
        self.statuses = {"/robots.txt": 404}
        self.links: dict[str, str] = {"/": "".join(f'<a href="/page/{n}">{n}</a> ' for n in range(pages))}
        self.robots: dict[str, str] = {}
        self.changed: set[str] = set()
        self.redirects: dict[str, str] = {}
        self.cookie_walls: set[str] = set()
        self.answer_s = 0.0
        self.requests: list[tuple[str, str]] = []
        """Host name and path of each request so far."""
        self.spans_s: list[tuple[float, float]] = []
        """When each request for a page came, and when it was answered."""
        self.agents: set[str] = set()
        self.headers: dict[str, Message] = {}
        """Those of the last request for each path."""
        self.at_once = self.most_at_once = 0
        self.answered: Counter[int] = Counter()
        """How often a page was answered with each status."""
        self._held: dict[str, threading.Event] = {}
        super().__init__(("127.0.0.1", 0), _Answers)

    @property
    def asked(self) -> Counter[str]:
        """How often each path was asked for."""
        return Counter(path for _, path in self.requests)

    def url(self, host: str = "127.0.0.1", path: str = "/") -> str:
        """The URL of a path under one of the site's names."""
        return f"http://{host}:{self.server_port}{path}"

    def resolve(self, hosts: Iterable[str]) -> list[str]:
        """Options that tell a node where these names are."""
        entries = (f"{host}:{self.server_port}:127.0.0.1" for host in hosts)
        return [argument for entry in entries for argument in ("--resolve", entry)]

    def hold(self, path: str) -> threading.Event:
        """From now on `path` is answered only once the event is set."""
        return self._held.setdefault(path, threading.Event())

    def await_release(self, path: str) -> None:
        """Waits while a path is held."""
        if path in self._held:
            self._held[path].wait(PATIENCE_S)

    def let_all_go(self) -> None:
        """Answers whatever is held."""
        for event in self._held.values():
            event.set()


class _Answers(BaseHTTPRequestHandler):
    server: SmallSite
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        site, came_s = self.server, time.monotonic()
        site.requests.append((self.headers["Host"].partition(":")[0], self.path))
        site.agents.add(self.headers["User-Agent"])
        site.headers[self.path] = self.headers
        site.at_once += 1
        site.most_at_once = max(site.most_at_once, site.at_once)
        time.sleep(site.answer_s)
        site.await_release(self.path)
        site.at_once -= 1
        try:
            self._answer(site)
        except OSError:
            self.close_connection = True  # the node broke off
        if self.path != "/robots.txt":
            site.spans_s.append((came_s, time.monotonic()))

    def _answer(self, site: SmallSite) -> None:
        robots = site.robots.get(self.headers["Host"].partition(":")[0])
        if robots is not None and self.path == "/robots.txt":
            self._send(200, "text/plain", robots.encode())
            return
        target = site.redirects.get(site.url(self.headers["Host"].partition(":")[0], self.path))
        wall = self.path in site.cookie_walls
        if target is not None and not (wall and self.headers["Cookie"]):
            self.send_response(302)
            self.send_header("Location", target)
            if wall:
                self.send_header("Set-Cookie", "seen=1; Path=/")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        version = "new" if self.path in site.changed else "old"
        etag = f'"{version}"'
        status = site.statuses.get(self.path, 200)
        if status == 200 and self.headers["If-None-Match"] == etag:
            status = 304
        if self.path != "/robots.txt":
            site.answered[status] += 1
        body = f"<!DOCTYPE html><title>{self.path} {version}</title>{site.links.get(self.path, '')}".encode()
        self._send(status, "text/html", body, etag)

    def _send(self, status: int, media_type: str, body: bytes, etag: str = "") -> None:
        self.send_response(status)
        if etag:
            self.send_header("ETag", etag)
        self.send_header("Content-Type", media_type)
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if status != 304:
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[None]:
    """Lets a server answer inside the context."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()


@contextmanager
def small_site(pages: int = 8) -> Iterator[SmallSite]:
    """A site that is served inside the context."""
    with SmallSite(pages) as site, serving(site):
        try:
            yield site
        finally:
            site.let_all_go()
