"""XmlReader: reads sitemaps and feeds. XML comes in pieces and is not kept.

Broken XML is read on from the last start tag before the break, as far as it can be made out. A document type
is skipped, and one with declarations counts as a break: entities are a means of attack, so none is expanded,
and nothing outside the document is read.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import chain
from typing import Generic, TypeAlias, TypeVar
from xml.parsers import expat

from .broken_xml import EndTag, StartTag, broken_tokens, resolved

_PIECE_BYTES = 64 * 1024
# The parser reads an unfinished tag, comment or the like again with every piece that is added.
_MAX_TOKEN_BYTES = 256 * 1024

MAX_BROKEN_TOKENS = 700_000
"""The most tags and texts that are read after a break: those of the longest sitemap with all its elements."""

MAX_ELEMENTS = 1_500_000
"""The most elements that are read of XML without a break: twice those of a sitemap of 50 000 entries that
each name their page in ten languages."""

_Namespaces: TypeAlias = dict[str, str]
"""By prefix; names without a prefix have an empty one."""

_MAX_NAMESPACES = 100
_NO_NAMESPACES = {"xml": "http://www.w3.org/XML/1998/namespace"}
_END = EndTag("")

Item = TypeVar("Item")


class NothingMore(Exception):
    """A reader has read enough of this XML."""


class _Odd(Exception):
    """The XML is well-formed but not as it should be, which counts as a break."""


class XmlReader(ABC, Generic[Item]):
    """Reads one document, in UTF-8 whatever it declares. Subclasses put their finds into `found`.

    Names are `namespace local`, or `local` without a namespace. `depth` is the number of open elements, at
    most `max_depth`.
    """

    max_depth = 32
    roots: frozenset[str]
    """The local names, in lower case, of the elements that a document may begin with; others are skipped."""
    parents: frozenset[str]
    """The local names, in lower case, of the elements that contain entries. An entry within another element
    is a break, and ends the elements between."""

    def __init__(self) -> None:
        # Python would look up a declared charset among its codecs, and remember every name it lacks.
        parser = expat.ParserCreate("UTF-8", " ")
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = self._doctype
        parser.SkippedEntityHandler = self._skipped
        parser.StartNamespaceDeclHandler = self._declare
        parser.StartElementHandler = self._start_well_formed
        parser.EndElementHandler = self._end_well_formed
        parser.CharacterDataHandler = self._characters
        self._parser = parser
        # The open elements: name, namespaces within, and whether an entry may begin there.
        self._elements: list[tuple[str, _Namespaces, bool]] = []
        self.depth = 0
        self._declared: _Namespaces = {}  # for the next element
        self._left = MAX_ELEMENTS
        self._last_start_at = 0  # the position of the last start tag
        self._ends: int | None = None  # how many elements ended since; None before the first start tag
        self._text: list[str] | None = None  # of the current element, if its text is wanted
        self.found: list[Item] = []

    def read(
        self, pieces: Iterable[bytes], broke: Callable[[str], None] = lambda why: None
    ) -> Iterator[Item]:
        """Yields items while it reads the document. `broke` gets the reason if the XML is broken."""
        pieces = small(_without_blanks(pieces))
        try:
            unread = yield from self._read_well_formed(pieces, broke)
            if unread is not None:
                yield from self._read_broken(chain([unread], pieces), broke)
        except NothingMore:
            pass
        self.ended()
        yield from self._take()

    @abstractmethod
    def is_entry(self, name: str) -> bool:
        """Whether elements of this name are the entries of the document."""

    def opened(self, name: str, attributes: dict[str, str]) -> bool:
        """An element begins. Returns whether to collect its text, without that of the elements in it."""
        raise NotImplementedError

    def closed(self, name: str, text: str | None) -> None:
        """An element ends. `text` is its text if `opened` asked for it."""
        raise NotImplementedError

    def ended(self) -> None:
        """The document ends."""

    def _read_well_formed(
        self, pieces: Iterator[bytes], broke: Callable[[str], None]
    ) -> Generator[Item, None, bytes | None]:
        """Reads to the end, or to a break. Then it returns the bytes from the last start tag on."""
        recent, recent_at = b"", 0  # from the last start tag on, and where that is
        for piece in chain(pieces, [b""]):
            recent += piece
            try:
                self._parser.Parse(piece, not piece)
            except (expat.ExpatError, _Odd) as error:
                why = str(error) if isinstance(error, _Odd) else expat.ErrorString(error.code)
                broke(f"line {self._parser.CurrentLineNumber}, {why}")
                yield from self._take()
                return recent[self._last_start_at - recent_at :]
            yield from self._take()
            recent, recent_at = recent[self._last_start_at - recent_at :], self._last_start_at
            if len(recent) > _MAX_TOKEN_BYTES:
                broke(f"line {self._parser.CurrentLineNumber}, too long")
                return recent
        return None

    def _read_broken(self, pieces: Iterable[bytes], broke: Callable[[str], None]) -> Iterator[Item]:
        """Reads on from the last start tag, without the part behind it that was already read."""
        tokens = broken_tokens(pieces)
        if self._ends is not None:
            last = next(tokens, None)
            left = self._ends - (isinstance(last, StartTag) and last.is_empty)
            while left > 0:
                left -= isinstance(next(tokens, _END), EndTag)
            self._text = None if self._text is None else []
        open_names: dict[str, int] = dict(Counter(name for name, *_ in self._elements))
        for number, token in enumerate(tokens):
            if number == MAX_BROKEN_TOKENS:
                broke(f"given up after {MAX_BROKEN_TOKENS} tags and texts")
                break
            if isinstance(token, str):
                self._characters(token)
            elif isinstance(token, StartTag):
                self._start_broken(token, open_names)
            else:
                self._end_broken(_qualified(token.name, self._namespaces()), open_names)
            if self.found:
                yield from self._take()

    def _take(self) -> list[Item]:
        found, self.found = self.found, []
        return found

    def _start_well_formed(self, name: str, attributes: dict[str, str]) -> None:
        self._left -= 1
        if self._left < 0:
            raise NothingMore
        if not self.depth and _local(name) not in self.roots:
            raise _Odd(f"begins with {_local(name)}")
        if self.is_entry(name) and not self._is_at_its_place():
            raise _Odd(f"{_local(name)} out of place")
        self._last_start_at, self._ends = self._parser.CurrentByteIndex, 0
        namespaces = self._namespaces()
        if self._declared:
            namespaces, self._declared = _with(namespaces, self._declared), {}
        if self.depth == self.max_depth:
            raise NothingMore
        self._start(name, namespaces, attributes)

    def _end_well_formed(self, name: str) -> None:
        assert self._ends is not None
        self._ends += 1
        self._end()

    def _start_broken(self, tag: StartTag, open_names: dict[str, int]) -> None:
        namespaces, attributes = self._namespaces(), tag.attributes
        if attributes:
            declared = {
                name.removeprefix("xmlns").removeprefix(":"): value
                for name, value in attributes.items()
                if name.startswith("xmlns")
            }
            namespaces = _with(namespaces, declared)
            attributes = {
                _qualified(name, namespaces) if ":" in name else name: value
                for name, value in attributes.items()
            }
        name = _qualified(tag.name, namespaces)
        if self.is_entry(name):
            while self._elements and not self._is_at_its_place():
                self._end_broken(self._elements[-1][0], open_names)
        if self.depth == self.max_depth or (not self.depth and _local(name) not in self.roots):
            return
        open_names[name] = open_names.get(name, 0) + 1
        self._start(name, namespaces, attributes)
        if tag.is_empty:
            self._end_broken(name, open_names)

    def _end_broken(self, name: str, open_names: dict[str, int]) -> None:
        """Ends an element and all open elements in it; does nothing if there is no such element."""
        if name in open_names:
            ended = ""
            while ended != name:
                ended = self._elements[-1][0]
                if open_names[ended] == 1:
                    del open_names[ended]  # a document may have millions of names
                else:
                    open_names[ended] -= 1
                self._end()

    def _is_at_its_place(self) -> bool:
        """Whether an entry may begin here."""
        return bool(self._elements) and self._elements[-1][2]

    def _namespaces(self) -> _Namespaces:
        return self._elements[-1][1] if self._elements else _NO_NAMESPACES

    def _start(self, name: str, namespaces: _Namespaces, attributes: dict[str, str]) -> None:
        self._elements.append((name, namespaces, _local(name) in self.parents))
        self.depth += 1
        self._text = [] if self.opened(name, attributes) else None

    def _end(self) -> None:
        name = self._elements.pop()[0]
        self.depth -= 1
        text = None if self._text is None else "".join(self._text)
        self._text = None
        self.closed(name, text)

    def _characters(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)

    def _declare(self, prefix: str | None, uri: str | None) -> None:
        self._declared[prefix or ""] = uri or ""

    def _doctype(self, name: str, system: str | None, public: str | None, has_declarations: bool) -> None:
        if has_declarations:
            raise _Odd("declarations of the document type are not read")

    def _skipped(self, name: str, is_parameter: bool) -> None:
        """An entity that the parser does not know, perhaps from a document type elsewhere."""
        if not is_parameter:
            self._characters(resolved(f"&{name};", has_entities=True))


def _with(namespaces: _Namespaces, declared: _Namespaces) -> _Namespaces:
    """The namespaces within an element that declares some. If that makes too many, its own are ignored, as
    each open element keeps its namespaces."""
    if not declared or len(namespaces) + len(declared) > _MAX_NAMESPACES:
        return namespaces
    return namespaces | declared


def _local(name: str) -> str:
    return name.rpartition(" ")[2].lower()


def _qualified(name: str, namespaces: _Namespaces) -> str:
    """A name in the parser's form. A prefix that was never declared counts as a namespace."""
    prefix, local = "", name
    if ":" in name:
        prefix, _, local = name.rpartition(":")
    namespace = namespaces.get(prefix, prefix)
    return f"{namespace} {local}" if namespace else local


def _without_blanks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Removes blanks before the XML, which are an error, and common."""
    begun = False
    for piece in pieces:
        rest = piece if begun else piece.lstrip()
        begun = begun or bool(rest)
        yield rest


def small(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces that each cost little memory."""
    for piece in pieces:
        for at in range(0, len(piece), _PIECE_BYTES):
            yield piece[at : at + _PIECE_BYTES]
