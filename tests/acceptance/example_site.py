"""The sites of the cookbook, www.example.org and its neighbours, behind a proxy on loopback.

A crawl reaches them under their own names, on the usual port, by `proxy` in its spec. Nothing leaves this
machine.
"""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import trustme

WWW, DOCS, OLD = "www.example.org", "docs.example.org", "old.example.org"
"""The last has a certificate that nobody trusts."""

ROBOTS = "/robots.txt"
PRIVATE = "/private/diary.html"
NEWS = [f"/news/{number}.html" for number in range(1, 13)]
MANUAL = [f"/docs/{name}.html" for name in ("install", "use", "faq")]
_CHAPTERS = [f"/{number}.html" for number in range(1, 11)]
_MISSING = "/docs/1999.html"

_LINKS = {
    (WWW, "/"): ["/docs/", "/news/", "/about.html", "/broken.html", PRIVATE, f"https://{DOCS}/"],
    (WWW, "/docs/"): [*MANUAL, "/", _MISSING],
    (WWW, "/news/"): NEWS,
    (DOCS, "/"): [*_CHAPTERS, "/missing.html"],
    **{(WWW, path): ["/"] for path in (*MANUAL, *NEWS, "/about.html", PRIVATE)},
    **{(DOCS, path): ["/"] for path in _CHAPTERS},
}
_PICTURE = "/static/logo.png"


@dataclass(frozen=True, slots=True)
class Request:
    """A request, and its answer."""

    host: str
    path: str
    status: int


@dataclass(slots=True)
class Sites:
    """The sites while they are served."""

    proxy: str
    """Its URL."""
    ca_file: Path
    requests: list[Request] = field(default_factory=list)
    has_changed: bool = False
    """Whether the news have changed since the first visit."""
    _gate: threading.Event = field(default_factory=threading.Event)
    _free: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def close_after(self, count: int) -> None:
        """From now on answers so many requests, and then none until `open`."""
        with self._lock:
            self._free = len(self.requests) + count
            self._gate.clear()

    def open(self) -> None:
        """Answers all that wait, and all further ones."""
        self._gate.set()

    def paths(self, host: str = WWW, since: int = 0) -> list[str]:
        """The paths that a host was asked for, but for its robots.txt, in order; from a number of requests
        on.
        """
        found = self.requests[since:]
        return [each.path for each in found if each.host == host and each.path != ROBOTS]

    def answer(self, host: str, path: str, validator: str) -> tuple[int, str, bytes, str]:
        """The status, media type, body and ETag for a request."""
        status, media_type, body = self._content(host, path)
        tag = f'"{sha1(body).hexdigest()[:8]}"' if status == 200 else ""
        if tag and validator == tag:
            status, body = 304, b""
        with self._lock:
            self.requests.append(Request(host, path, status))
            waits = len(self.requests) > self._free
        if waits:
            self._gate.wait()
        return status, media_type, body, tag

    def _content(self, host: str, path: str) -> tuple[int, str, bytes]:
        if path == ROBOTS:
            return 200, "text/plain", b"User-agent: *\nDisallow: /private/\n"
        if path == _PICTURE:
            return 200, "image/png", b"a picture"
        if path == "/broken.html":
            return 500, "text/html", b"broken"
        links = _LINKS.get((host, path))
        if links is None:
            return 404, "text/html", b"no such page"
        news = " and more" if self.has_changed and path == "/news/" else ""
        page = "".join(f'<a href="{link}">{link}</a>\n' for link in links)
        picture = f'<img src="{_PICTURE}">' if host == WWW else ""
        return 200, "text/html", f"<title>{host}{path}</title>{picture}{page}Text{news}.".encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    sites: Sites
    contexts: ClassVar[dict[str, ssl.SSLContext]]
    _host = ""

    def do_CONNECT(self) -> None:
        self._host = self.path.partition(":")[0]
        context = self.contexts.get(self._host)
        if context is None:
            self.send_error(502)
            return
        self.send_response(200)
        self.end_headers()
        try:
            self.request = context.wrap_socket(self.connection, server_side=True)
        except OSError:  # it does not trust the certificate, or has been killed
            self.close_connection = True
            return
        self.setup()
        self.close_connection = False

    def do_GET(self) -> None:
        validator = self.headers.get("If-None-Match", "")
        status, media_type, body, tag = self.sites.answer(self._host, self.path, validator)
        with suppress(OSError):  # the crawler may have been killed
            self.send_response(status)
            if tag:
                self.send_header("ETag", tag)
            if status != 304:
                self.send_header("Content-Type", media_type)
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def handle(self) -> None:
        with suppress(OSError):
            super().handle()

    def finish(self) -> None:
        with suppress(OSError):
            super().finish()
        with suppress(OSError):
            self.request.close()

    def log_message(self, *_: object) -> None:
        """Prints nothing."""


@contextmanager
def serve_sites(folder: Path) -> Iterator[Sites]:
    """Serves the sites inside the context."""
    trusted, unknown = trustme.CA(), trustme.CA()
    ca_file = folder / "ca.pem"
    trusted.cert_pem.write_to_path(str(ca_file))

    class Handler(_Handler):
        contexts: ClassVar[dict[str, ssl.SSLContext]] = {
            WWW: _context(WWW, trusted),
            DOCS: _context(DOCS, trusted),
            OLD: _context(OLD, unknown),
        }

    class Server(ThreadingHTTPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        sites = Handler.sites = Sites(f"http://127.0.0.1:{server.server_port}", ca_file)
        sites.open()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield sites
        finally:
            sites.open()
            server.shutdown()


def _context(host: str, authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(host).configure_cert(context)
    return context
