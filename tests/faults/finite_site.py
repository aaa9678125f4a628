"""A site of some hosts on loopback with so many pages each, and what it was asked for."""

import threading
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class FiniteSite:
    """A site that serves within a `with` block. Each host has `/` and these pages; none links anywhere.

    While `gate` is cleared, nothing but robots.txt is answered.
    """

    def __init__(self, host_count: int, pages: list[str]) -> None:
        self.hosts = [f"h{number}.finite.test" for number in range(host_count)]
        self.pages = pages
        self.gate = threading.Event()
        self.gate.set()
        self._lock = threading.Lock()
        self._asked: Counter[str] = Counter()
        site = self

        class Server(ThreadingHTTPServer):
            request_queue_size = 512
            daemon_threads = True

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.answer(self)

            def log_message(self, *args: object) -> None:
                """Nobody reads it."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.gate.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def url(self, host: str, path: str) -> str:
        return f"http://{host}:{self.port}{path}"

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
        if path != "/robots.txt":
            self.gate.wait()
        known = path == "/" or path in self.pages
        body = f"<!doctype html><title>{path}</title><p>{path}".encode()
        with suppress(OSError):  # whoever asked may have gone
            self._send(request, body, known)

    def _send(self, request: BaseHTTPRequestHandler, body: bytes, known: bool) -> None:
        request.send_response(200 if known else 404)
        request.send_header("Content-Type", "text/html")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)
