"""Document: a fetched document, as extractors get it, with their failures kept apart."""

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import chain
from typing import ParamSpec, Self, TypeVar
from urllib.parse import urlsplit

from ..fetching.decode import Break, decoding
from ..fetching.fetch import ExtractSettings, FetchResult
from ..fetching.outcome import Truncation, note
from ..fetching.references import Base
from .charset import codec_of
from .links import Outlink, Reference, References
from .robots_meta import header_forbids

MAX_BYTES = 50 * 1024 * 1024
"""How much of a document, decoded, is read; sitemaps may not be longer."""

MAX_TEXT_BYTES = 8 * 1024 * 1024
"""How much of a document other than a sitemap is searched for links."""

_LARGE_BYTES = 1024 * 1024
# Text and tokens take several times a document's size, so few large ones are in memory at a time.
_large_documents = threading.BoundedSemaphore(2)
_TURN_TIMEOUT_S = 30.0  # then it goes ahead, as the thread that holds the turn may have been left behind

ZIPPED_TYPES = frozenset({"application/gzip", "application/x-gzip"})
_ZIPPED_NAME = re.compile(r"\.xml\.gz$", re.IGNORECASE)

Parameters = ParamSpec("Parameters")
Item = TypeVar("Item")


class Document:
    """One fetched document. Use it in a `with`, as a large one holds back others.

    `is_listed`: robots.txt or a sitemap names it. A Content-Encoding that the server was not offered leaves
    it empty. Raises ValueError unless its URI is an absolute http or https URI.
    """

    def __init__(
        self, fetch: FetchResult, settings: ExtractSettings, product_token: str, is_listed: bool = False
    ) -> None:
        self.fetch = fetch
        self.is_listed = is_listed
        self.settings = settings
        self.product_token = product_token
        self.base = Base(fetch.uri)
        self.path = urlsplit(fetch.uri).path
        self.follow = not (settings.obey_robots_meta and header_forbids(_robots_tags(fetch), product_token))
        """Whether its links may be followed. HTML may forbid it later."""
        self.notes: list[str] = []
        """Annotations for the crawl log about oddities of the document."""
        self.codec = "utf-8"
        """The codec of its text, known after `text`."""
        self.broken: list[str] = []
        """The names of the extractors that it broke, each once."""
        self.error: Exception | None = None
        """The error of the last one of them."""
        encoding = fetch.content_encoding
        pieces = None
        if self.has_zipped_name or fetch.media_type in ZIPPED_TYPES or is_listed:
            # The file itself may be zipped; one that is not is left alone.
            pieces = decoding(fetch.body, "gzip," + encoding, MAX_BYTES, self._coding_broke)
        pieces = pieces or decoding(fetch.body, encoding, MAX_BYTES, self._coding_broke)
        self._pieces = pieces or iter(())
        self._turn = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._turn.close()

    @property
    def has_zipped_name(self) -> bool:
        """Whether its name is that of a zipped XML file."""
        return _ZIPPED_NAME.search(self.path) is not None

    def beginning(self, length: int) -> bytes:
        """Its first `length` bytes, or fewer if it is shorter. They are not taken off the later reads."""
        first = b""
        while len(first) < length and (piece := next(self._pieces, b"")):
            first += piece
        self._pieces = chain([first] if first else [], self._pieces)
        return first[:length]

    def pieces(self) -> Iterator[bytes]:
        """All of it, once."""
        return self._pieces

    def body(self) -> bytes:
        """Its first MAX_TEXT_BYTES, once. Waits for its turn if it is large."""
        body = bytearray()
        for piece in self._pieces:
            if len(body) <= _LARGE_BYTES < len(body) + len(piece):
                self._wait_for_turn()
            body += piece
            if len(body) >= MAX_TEXT_BYTES:
                break
        return bytes(body[:MAX_TEXT_BYTES])

    def text(self, declared_charset: Callable[[bytes], str | None] = lambda body: None) -> str:
        """As `body`, decoded; if the Content-Type has no charset, by the declaration of this kind of
        document."""
        body = self.body()
        self.codec = codec_of(body, self.fetch.charset or declared_charset(body))
        return body.decode(self.codec, "replace")

    def xml_broke(self, why: str) -> None:
        """Notes that its XML is broken."""
        self.notes.append(note(f"xmlError:{why}"))

    def links(self, references: Iterable[Reference]) -> Iterator[Outlink]:
        """The links of references that are relative to its own URI, within the limit."""
        collected = References(self.settings.max_links, self.follow)
        for reference in references:
            collected.add(*reference)
            if collected.full:
                break
        return collected.outlinks(self.base)

    def attempt(
        self,
        name: str,
        extractor: Callable[Parameters, Iterable[Item]],
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Iterator[Item]:
        """The finds of an extractor, up to an error if the document breaks it; then `error` and `broken` tell
        so."""
        try:
            yield from extractor(*args, **kwargs)
        except MemoryError:
            raise
        except Exception as error:
            self.error = error
            if name not in self.broken:
                self.broken.append(name)

    def _coding_broke(self, where: Break) -> None:
        is_told = where is Break.END and self.fetch.truncation is not Truncation.NONE
        if not is_told and where.note not in self.notes:
            self.notes.append(where.note)

    def _wait_for_turn(self) -> None:
        if _large_documents.acquire(timeout=_TURN_TIMEOUT_S):
            self._turn.callback(_large_documents.release)


def _robots_tags(fetch: FetchResult) -> Iterator[str]:
    return (value.decode("latin-1") for name, value in fetch.headers if name.lower() == b"x-robots-tag")
