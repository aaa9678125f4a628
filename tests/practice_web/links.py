"""Reads the links of the practice web's own answers, by regular expressions: good enough for pages that we
wrote, shared with nobody.

It is the judge's reader, so it must not be the crawler's. Pages that need a whole URL parser say their
links in `traps`.
"""

import html
import re
from collections.abc import Iterator
from urllib.parse import urldefrag, urljoin

from practice_web.reply import Reply
from practice_web.traps import Link

_NOT_MARKUP = re.compile(r"<!--.*?-->|(?<=<script>).*?(?=</script>)", re.DOTALL)
_TAG = re.compile(r"<(a|area|base|iframe|img|link|meta|script|source)\s([^>]*)>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""([a-z-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE)
_REFRESH = re.compile(r"url\s*=\s*['\"]?([^'\"]+)", re.IGNORECASE)
_LOC = re.compile(r"<loc>\s*(.*?)\s*</loc>")


def links(url: str, reply: Reply) -> set[Link]:
    """What a crawler should find in the answer to `url`: absolute URLs without fragments, and how each was
    found.
    """
    if 300 <= reply.status < 400:
        return {("R", urldefrag(urljoin(url, reply.location)).url)} if reply.location else set()
    if reply.status != 200:
        return set()
    media_type = (reply.media_type or "").partition(";")[0]
    text = reply.body.decode("utf-8", "replace")
    if media_type == "application/xml":
        return {("M", html.unescape(loc)) for loc in _LOC.findall(text)}
    if media_type != "text/html":
        return set()
    return set(_in_page(url, _NOT_MARKUP.sub("", text)))


def _in_page(url: str, text: str) -> Iterator[Link]:
    base = url
    for tag, raw in _TAG.findall(text):
        attributes = {
            name.lower(): html.unescape(double or single or bare).strip()
            for name, double, single, bare in _ATTRIBUTE.findall(raw)
        }
        if tag.lower() == "base":
            base = urljoin(url, attributes["href"])
            continue
        for letter, reference in _references(tag.lower(), attributes):
            yield letter, urldefrag(urljoin(base, reference)).url


def _references(tag: str, attributes: dict[str, str]) -> Iterator[Link]:
    match tag:
        case "a" | "area" if "href" in attributes:
            yield "L", attributes["href"]
        case "link":
            yield "E" if attributes["rel"] in ("stylesheet", "icon") else "L", attributes["href"]
        case "meta" if attributes.get("http-equiv", "").lower() == "refresh":
            yield from (("R", target) for target in _REFRESH.findall(attributes["content"]))
        case _:
            if "src" in attributes:
                yield "E", attributes["src"]
    for candidate in attributes.get("srcset", "").split(","):
        if candidate.strip():
            yield "E", candidate.split()[0]
