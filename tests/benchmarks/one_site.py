"""One site over https, for benchmarks: `python -m benchmarks.one_site CA_FILE PAGES`.

Page N links to the ten pages from 10N+1 on. Connections are kept, unless a request says `Connection: close`.
Writes the certificate of its authority, prints its port on 127.0.0.1, and answers each line of its standard
input with a line of JSON: how many requests there were, and how many TLS handshakes. Ends when standard input
does.
"""

import asyncio
import json
import os
import ssl
import sys
import threading
from collections import Counter
from pathlib import Path

import trustme

HOST = "www.one.example"
_FILLER = "<p>" + "A page of about eight kilobytes, as many have. " * 150
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
_ROBOTS = b"User-agent: *\nAllow: /\n"


class _Connection(asyncio.Protocol):
    def __init__(self, counts: Counter[str], pages: int) -> None:
        self._counts, self._pages = counts, pages
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._counts["handshakes"] += 1

    def data_received(self, data: bytes) -> None:
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, _, self._received = self._received.partition(b"\r\n\r\n")
            self._counts["requests"] += 1
            path = head.split(b" ", 2)[1]
            kind = b"text/plain" if path == b"/robots.txt" else b"text/html"
            body = _ROBOTS if path == b"/robots.txt" else self._page(int(path[1:] or b"0"))
            self._transport.write(_HEAD % (kind, len(body)) + body)
            if b"connection: close" in head.lower():
                self._transport.close()

    def _page(self, number: int) -> bytes:
        first = 10 * number + 1
        links = "".join(
            f'<a href="/{each}">{each}</a>' for each in range(first, min(first + 10, self._pages))
        )
        return f"<!DOCTYPE html><title>{number}</title>{links}{_FILLER}".encode()


async def _serve(ca_file: Path, pages: int, counts: Counter[str]) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(ca_file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(HOST).configure_cert(context)
    loop = asyncio.get_running_loop()
    made = await loop.create_server(
        lambda: _Connection(counts, pages), "127.0.0.1", 0, ssl=context, backlog=1000
    )
    print(made.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


def _tell(counts: Counter[str]) -> None:
    for _ in sys.stdin:
        print(json.dumps(counts), flush=True)
    os._exit(0)


if __name__ == "__main__":
    told: Counter[str] = Counter()
    threading.Thread(target=_tell, args=(told,), daemon=True).start()
    asyncio.run(_serve(Path(sys.argv[1]), int(sys.argv[2]), told))
