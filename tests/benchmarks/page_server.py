"""Serves a folder of pages to a benchmark: `python -m benchmarks.page_server FOLDER`.

Any host has all the pages, and a robots.txt that allows them. Answers are made beforehand. Prints its port on
127.0.0.1; ends when standard input does. See `serving`.
"""

import asyncio
import sys
from pathlib import Path

from benchmarks.serving import end_with_stdin, serve

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


_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


if __name__ == "__main__":
    end_with_stdin()
    by_path = answers(Path(sys.argv[1]))
    asyncio.run(serve(lambda host, path: by_path.get(path) or _NOT_FOUND, None))
