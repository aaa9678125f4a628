"""XmlReader: what sitemaps and feeds are read with. XML comes in pieces and is not kept.

Broken XML gives what comes before the break. A document type is taken for a break: what robots are given has
none, and entities are what XML is attacked with.
"""

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar
from xml.parsers import expat

_PIECE_BYTES = 64 * 1024
# The parser looks at an unfinished tag, comment or the like again for every piece that is added to it.
_MAX_TOKEN_BYTES = 256 * 1024

Item = TypeVar("Item")


class NothingMore(Exception):
    """Raised by a reader: nothing more is to be had from this XML."""


class XmlReader(Generic[Item]):
    """Reads one document, in UTF-8 whatever it declares. Subclasses put what they find into `found`.

    Names are `namespace local`, or `local` without a namespace. `depth` is how many elements are open; no
    more than `max_depth` ever are.
    """

    max_depth = 32

    def __init__(self) -> None:
        # A declared charset would be looked up among Python's codecs, which remember every name they lack.
        parser = expat.ParserCreate("UTF-8", " ")
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = self._doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        self._parser = parser
        self._tags = 0
        self._text: list[str] | None = None  # of the element that it is wanted of
        self.depth = 0
        self.found: list[Item] = []

    def read(self, pieces: Iterable[bytes]) -> Iterator[Item]:
        """What there is, while it is read."""
        tags = unfinished = 0
        for piece in small(_without_blanks(pieces)):
            try:
                self._parser.Parse(piece, False)
            except (expat.ExpatError, NothingMore):
                break
            unfinished = unfinished + len(piece) if self._tags == tags else 0
            if unfinished > _MAX_TOKEN_BYTES:
                break
            tags = self._tags
            yield from self._take()
        self.ended()
        yield from self._take()

    def opened(self, name: str, attributes: dict[str, str]) -> bool:
        """An element begins. True if its text is wanted; that of the elements within it is not."""
        raise NotImplementedError

    def closed(self, name: str, text: str | None) -> None:
        """An element ends; with its text, if that was wanted."""
        raise NotImplementedError

    def ended(self) -> None:
        """Nothing more will come."""

    def _take(self) -> list[Item]:
        found, self.found = self.found, []
        return found

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._tags += 1
        self.depth += 1
        if self.depth > self.max_depth:
            raise NothingMore
        self._text = [] if self.opened(name, attributes) else None

    def _characters(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)

    def _end(self, name: str) -> None:
        self._tags += 1
        self.depth -= 1
        text = None if self._text is None else "".join(self._text)
        self._text = None
        self.closed(name, text)

    def _doctype(self, *declaration: object) -> None:
        raise NothingMore


def _without_blanks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Blanks before XML are an error, and common."""
    begun = False
    for piece in pieces:
        rest = piece if begun else piece.lstrip()
        begun = begun or bool(rest)
        yield rest


def small(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces that cost little memory each."""
    for piece in pieces:
        for at in range(0, len(piece), _PIECE_BYTES):
            yield piece[at : at + _PIECE_BYTES]
