"""A site of some hosts on loopback with so many pages each, and what it was asked for."""

from __future__ import annotations

import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self


class FiniteSite:
    """A site that serves within a `with` block. `/` of each host links to its `pages`, which link nowhere."""

    def __init__(self, host_count: int, pages: list[str]) -> None:
        self.hosts = [f"h{number}.finite.test" for number in range(host_count)]
        self.pages = pages
        self._lock = threading.Lock()
        self._asked: Counter[str] = Counter()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.answer(self)

            def log_message(self, *args: object) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def url(self, host: str, path: str) -> str:
        return f"http://{host}:{self.port}{path}"

    @property
    def seeds(self) -> list[str]:
        return [self.url(host, "/") for host in self.hosts]

    @property
    def urls(self) -> set[str]:
        """Everything that there is."""
        return {self.url(host, path) for host in self.hosts for path in ("/", *self.pages)}

    @property
    def resolve(self) -> list[str]:
        """What a node must know to find it."""
        return [each for host in self.hosts for each in ("--resolve", f"{host}:{self.port}:127.0.0.1")]

    def asked(self) -> Counter[str]:
        """How often each URL was asked for."""
        with self._lock:
            return Counter(self._asked)

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        host, path = request.headers["Host"].partition(":")[0], request.path
        with self._lock:
            self._asked[self.url(host, path)] += 1
        known = path == "/" or path in self.pages
        links = "".join(f'<a href="{page}">{page}</a>' for page in self.pages) if path == "/" else path
        body = f"<!doctype html><title>{path}</title><p>{links}".encode()
        request.send_response(200 if known else 404)
        request.send_header("Content-Type", "text/html")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)
