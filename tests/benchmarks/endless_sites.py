"""Sites without an end, for benchmarks: `python -m benchmarks.endless_sites CA_FILE HOSTS NEW`.

Each page of 38 KiB has 169 references: a menu and pictures that all pages have, links to the NEW pages that
no page before it has, and links to pages before it. Pages are numbered as a crawl by hops meets them. Writes
the certificate of its authority, and prints its ports on 127.0.0.1: that of http and that of https. Ends when
standard input does. See `serving`.
"""

from __future__ import annotations

import asyncio
import random
import ssl
import sys
from functools import cache
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from zlib import crc32

import trustme
from benchmarks.serving import end_with_stdin, serve

from practice_web.practice import PAGES

REFERENCES = 169
BODY_BYTES = 38 * 1024
SECTIONS, PICTURES, SITE_FILES = 60, 8, 2

_LINKS = REFERENCES - SECTIONS - PICTURES - SITE_FILES
_HEAD = (
    "HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Thu, 26 Nov 2026 22:00:00 GMT\r\n"
    "Content-Type: {type}\r\nContent-Length: {length}\r\nLast-Modified: Thu, 26 Nov 2026 22:00:00 GMT\r\n"
    'ETag: "6565c1a0-9800"\r\nAccept-Ranges: bytes\r\n\r\n'
)
_HTML = "text/html; charset=utf-8"


def host_name(number: int) -> str:
    """The host of a site."""
    return f"www.endless-{number}.example"


class Sites:
    """The answers of all sites."""

    def __init__(self, new: int) -> None:
        """Each page has so many links that are new."""
        self._new = new
        chance = random.Random(new)
        self._texts = _texts()
        self._orders = [chance.sample(range(_LINKS), _LINKS) for _ in range(64)]
        menu = "".join(
            f'<li class="menu-item menu-item-{n}"><a class="nav-link" href="/section/{n}/">'
            f"Section {n}</a></li>"
            for n in range(SECTIONS)
        )
        self._start = (
            '<link rel="stylesheet" href="/static/site.css"><script src="/static/site.js"></script></head>'
            f"<body><nav><ul>{menu}</ul></nav><main>"
        )
        self._pictures = [f'<img src="/static/{n}.png" alt="picture" width="300">\n' for n in range(PICTURES)]
        section = (
            f'<!DOCTYPE html><html lang="en"><head><title>A section</title>{self._start}</main></body></html>'
        )
        self._section = answer(section, _HTML)
        self._others = {
            "/robots.txt": answer("User-agent: *\nAllow: /\n", "text/plain"),
            "/static/site.css": answer("body { margin: 0 }\n", "text/css"),
            "/static/site.js": answer("void 0;\n", "text/javascript"),
        }

    def at(self, host: str, path: str) -> bytes:
        """The answer to a request."""
        _, kind, name, *_ = f"{path}/".split("/")
        if kind == "p":
            return answer(self.page(host, int(name)), _HTML)
        if kind == "section":
            return self._section
        return self._others.get(path) or answer("not a picture", "image/png")

    def page(self, host: str, number: int) -> str:
        """A page of a site."""
        first, at = number * self._new + 1, crc32(f"{host}/{number}".encode())
        numbers = [
            *range(first, first + self._new),
            *(max(0, number - n) for n in range(1, _LINKS - self._new + 1)),
        ]
        parts = [
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
            f"<title>Page {number} of {host}</title>",
            self._start,
        ]
        for place in self._orders[at % len(self._orders)]:
            text, last = self._texts[(at + place) % len(self._texts)]
            parts.append(f'{text}<a href="/p/{numbers[place]}" title="read more">{last}</a></p>\n')
        parts += self._pictures
        parts.append("</main></body></html>\n")
        return "".join(parts)


def answer(body: str, media_type: str) -> bytes:
    """A whole answer."""
    data = body.encode()
    return _HEAD.format(type=media_type, length=len(data)).encode() + data


@cache
def _texts() -> list[tuple[str, str]]:
    """Paragraphs of the practice pages' words, each up to its last word, and that word."""
    words: list[str] = []
    for file in sorted(PAGES.rglob("*.html"))[:60]:
        reader = _Words()
        reader.feed(file.read_text(errors="replace"))
        words += reader.words
    size = (BODY_BYTES - 7000) // _LINKS - 60
    texts: list[tuple[str, str]] = []
    text: list[str] = []
    for word in words:
        text.append(word)
        if sum(map(len, text)) + len(text) >= size:
            texts.append((f'<p class="text">{escape(" ".join(text[:-1]))} ', escape(text[-1])))
            text = []
    return texts


class _Words(HTMLParser):
    """The words of a page's text."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []

    def handle_data(self, data: str) -> None:
        self.words += data.split()


async def _serve(ca_file: Path, hosts: int, new: int) -> None:
    sites = Sites(new)
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(ca_file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*map(host_name, range(hosts))).configure_cert(context)
    await serve(lambda host, path: sites.at(host.decode(), path.decode()), None, context)


if __name__ == "__main__":
    end_with_stdin()
    asyncio.run(_serve(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
