"""Serves a folder of pages to a benchmark: `python -m benchmarks.page_server FOLDER`.

Any host has all the pages, and a robots.txt that allows them. Answers are made beforehand, and cost as little
as may be: the machine is for those who are measured. Connections are kept, unless a request says
`Connection: close`. Prints its port on 127.0.0.1; ends when standard input does.
"""

import asyncio
import os
import sys
import threading
from pathlib import Path

_TYPES = {".css": b"text/css", ".js": b"text/javascript", ".png": b"image/png"}
_ROBOTS = b"User-agent: *\nAllow: /\n"


def answers(folder: Path) -> dict[bytes, bytes]:
    """Whole answers by path."""
    made = {
        b"/" + str(file.relative_to(folder)).encode(): _answer(
            _TYPES.get(file.suffix, b"text/html; charset=utf-8"), file.read_bytes()
        )
        for file in folder.rglob("*")
        if file.is_file() and not file.name.startswith(".")
    }
    return made | {b"/robots.txt": _answer(b"text/plain", _ROBOTS)}


def _answer(media_type: bytes, body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s" % (
        media_type,
        len(body),
        body,
    )


class _Connection(asyncio.Protocol):
    def __init__(self, by_path: dict[bytes, bytes]) -> None:
        self._by_path = by_path
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, _, self._received = self._received.partition(b"\r\n\r\n")
            path = head.split(b" ", 2)[1]
            self._transport.write(self._by_path.get(path) or _NOT_FOUND)
            if b"connection: close" in head.lower():
                self._transport.close()


_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


async def _serve(folder: Path) -> None:
    by_path = answers(folder)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(by_path), "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


def _end_with_stdin() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    asyncio.run(_serve(Path(sys.argv[1])))
