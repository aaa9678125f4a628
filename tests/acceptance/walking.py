"""What there is to fetch on a site of plain files, found without the crawler: by Python's own HTML parser and
rules for relative URLs.
"""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, unquote, urldefrag, urljoin, urlsplit

_LINKS = {
    **{(tag, "href"): "one" for tag in ("a", "area", "link")},
    **{
        (tag, "src"): "one"
        for tag in ("img", "script", "source", "iframe", "frame", "embed", "audio", "video")
    },
    **{(tag, "src"): "one" for tag in ("track", "input")},
    **{("object", "data"): "one", ("video", "poster"): "one"},
    **{("img", "srcset"): "set", ("source", "srcset"): "set"},
}
_HINTS = frozenset({"preconnect", "dns-prefetch"})
"""What a <link> may be that leads to no document."""

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_IN_CSS = re.compile(r"""url\(\s*["']?([^"')]*?)["']?\s*\)|@import\s+["']([^"']*)["']""", re.IGNORECASE)


def walk(folder: Path, start: str) -> dict[str, Path | None]:
    """All URLs of the start's host that can be reached from there, with the file that each leads to, if there
    is one. The host serves the folder."""
    found: dict[str, Path | None] = {}
    ahead = [start]
    while ahead:
        url = ahead.pop()
        if url in found:
            continue
        file = folder / unquote(urlsplit(url).path).lstrip("/")
        found[url] = file if file.is_file() else None
        ahead += [link for link in _links(url, file) if urlsplit(link).netloc == urlsplit(start).netloc]
    return found


def _links(url: str, file: Path) -> Iterator[str]:
    if not file.is_file() or file.suffix not in (".html", ".css"):
        return
    text = file.read_text(encoding="utf-8", errors="replace")
    page = _Page()
    if file.suffix == ".html":
        page.feed(text)
        page.close()
    else:
        page.references += _of_css(text)
    for reference in page.references:
        address = urlsplit(urldefrag(urljoin(urljoin(url, page.base), reference.strip())).url)
        yield address._replace(path=quote(address.path or "/", safe="/%:@!$&'()*+,;=~")).geturl()


def _of_css(text: str) -> Iterator[str]:
    return (found[1] or found[2] for found in _IN_CSS.finditer(_COMMENT.sub(" ", text)))


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.base = ""
        self.references: list[str] = []
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._in_style = tag == "style"
        if tag == "base":
            self.base = self.base or given.get("href", "")
        if tag == "link" and set(given.get("rel", "").lower().split()) <= _HINTS:
            return
        for name, value in given.items():
            kind = _LINKS.get((tag, name))
            if kind == "one":
                self.references.append(value)
            elif kind == "set":
                self.references += [
                    candidate.split()[0] for candidate in value.split(",") if candidate.strip()
                ]
        self.references += _of_css(given.get("style", ""))

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.references += _of_css(data)
            self._in_style = False
