"""Content: the body, the text and the title of a page, decoded on demand."""

import threading
from functools import cached_property

from ..extraction.charset import text_of
from ..extraction.page_text import MAX_PAGE_BYTES, MAX_TEXT_CHARS, PageText, page_text
from ..extraction.sniff import HEADER_BYTES, says_nothing, sniffed
from ..fetching.decode import decoded, is_credible
from ..fetching.fetch import FetchResult

_LARGE_BYTES = 1024 * 1024
# Tokens and text take several times a page's size, so few large ones are in memory at a time.
_large_pages = threading.BoundedSemaphore(2)

_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
_PLAIN_TYPE = "text/plain"
_COMPRESSED = (b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd")  # gzip and zstd, without a label; no text begins so


class Content:
    """The content of a fetch, until that is closed."""

    def __init__(self, fetch: FetchResult) -> None:
        self._fetch = fetch

    def body(self, limit: int = MAX_PAGE_BYTES) -> bytes:
        """The first `limit` bytes, decoded, or as they came if their Content-Encoding cannot be undone."""
        fetch = self._fetch
        body = decoded(fetch.body, fetch.content_encoding, limit)
        if body is None or (not body and not is_credible(fetch.body, fetch.content_encoding, body)):
            fetch.body.seek(0)
            body = fetch.body.read(limit)
        return body

    @cached_property
    def text(self) -> PageText | None:
        """Title and text of a page with a status from 200 to 299 that is HTML or plain text; None for others.
        Its media type tells what it is, or if that says nothing its first bytes (see sniff). At most
        MAX_TEXT_CHARS long, of the first MAX_PAGE_BYTES. None too if its Content-Encoding cannot be undone;
        decode.coding_note tells why."""
        body = self._written
        if body is None:
            return None
        if len(body) <= _LARGE_BYTES:
            return self._text(body)
        with _large_pages:
            return self._text(body)

    @cached_property
    def source(self) -> str | None:
        """The page as it is written, HTML with its tags, for the pages that have a `text`, and as long at
        most."""
        body = self._written
        return None if body is None else text_of(body, self._fetch.charset)[:MAX_TEXT_CHARS]

    @property
    def _written(self) -> bytes | None:
        """The body of a page that has a text, without its Content-Encoding; None for others."""
        fetch = self._fetch
        if not (200 <= fetch.status < 300 and self._media_type in (*_HTML_TYPES, _PLAIN_TYPE)):
            return None
        body = decoded(fetch.body, fetch.content_encoding, MAX_PAGE_BYTES)
        if body is None or body.startswith(_COMPRESSED):
            return None
        return body if is_credible(fetch.body, fetch.content_encoding, body) else None

    @cached_property
    def _media_type(self) -> str:
        """Its media type, or if that says nothing the one that its first bytes look like."""
        media_type = self._fetch.media_type
        header = self.body(HEADER_BYTES) if says_nothing(media_type) else b""
        return sniffed(header) if header else media_type

    def _text(self, body: bytes) -> PageText:
        if self._media_type == _PLAIN_TYPE:
            return PageText("", text_of(body, self._fetch.charset)[:MAX_TEXT_CHARS])
        return page_text(body, self._fetch.charset)
