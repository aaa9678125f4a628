"""The URIs that sites list for crawlers: sitemaps (https://www.sitemaps.org/protocol.html) in XML and as
plain lists, and the sitemaps that robots.txt names.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice

from ..fetching.references import MAX_URI_BYTES, Base, reference_of
from .links import Hop, Outlink, Reference, is_plausible
from .relations import hop_of
from .xml_reader import NothingMore, XmlReader, small

MAX_URIS = 50_000
"""The most entries read of one sitemap, also those that add nothing; the protocol allows no more."""

MAX_PARTS_CHARS = 8 * 1024 * 1024
"""The most characters of pictures, videos and alternates, which wait in memory until the pages are read."""

MAX_ROBOTS_SITEMAPS = 100
"""The most sitemaps taken from one robots.txt."""

_ENTRIES = {"urlset": "url", "sitemapindex": "sitemap"}
# Extensions by Google: the element of an entry, and one in it that holds a URI.
_PARTS = frozenset(
    (("image", "loc"), *(("video", name) for name in ("thumbnail_loc", "content_loc", "player_loc")))
)
_LIST_LINE = re.compile(rb"^(?:[ \t\r\v\f]|\xef\xbb\xbf)*+(https?:[^\n]*+)", re.IGNORECASE | re.MULTILINE)
_SITEMAP_LINE = re.compile(  # also misspelt, as Google's parser takes it, or without a colon
    rb"(?:[ \t]|\xef\xbb\xbf)*+site-?map[^\s:#]*+(?:[ \t]*+(?P<colon>:)|[ \t])[ \t]*+(?P<uri>[^\r\n#]++)",
    re.IGNORECASE,
)
_ABSOLUTE = re.compile(r"https?:|[/\\]", re.IGNORECASE)  # with or without its origin
# https://www.w3.org/TR/NOTE-datetime, and common mistakes: a blank, no zone, or no colon in the zone.
_DATETIME = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?)?)?)?",
    re.ASCII,
)
_DAY = timedelta(days=1)


def links_of_xml(
    base: Base,
    pieces: Iterable[bytes],
    lastmod_until_ms: int | None = None,
    broke: Callable[[str], None] = lambda why: None,
) -> Iterator[Outlink]:
    """The URIs of a sitemap or sitemap index that comes in pieces; none for other XML (see XmlReader). Behind
    the pages come their pictures and videos, as embeds, and their `hreflang` alternates.

    With `lastmod_until_ms`, the present, each also has the time of its `lastmod` (see `last_modified_ms`).
    `broke` gets the reason if the XML is broken.
    """
    reader = _SitemapReader()
    for location, lastmod in reader.read(pieces, broke):
        uri = base.resolve(location)
        if uri is not None:
            changed_ms = None if lastmod_until_ms is None else last_modified_ms(lastmod, lastmod_until_ms)
            yield Outlink(uri, Hop.SITEMAP, "loc", changed_ms)
    for reference, hop, context in reader.parts:
        uri = base.resolve(reference)
        if uri is not None:
            yield Outlink(uri, hop, context)


def links_of_list(base: Base, pieces: Iterable[bytes]) -> Iterator[Outlink]:
    """The URIs of a sitemap that is a plain text with one URI a line. Skips other lines."""
    for line in islice(_lines(pieces), MAX_URIS):
        uri = base.resolve(reference_of(line.strip()))
        if uri is not None:
            yield Outlink(uri, Hop.SITEMAP, "line")


def sitemaps_of_robots(robots_uri: str, body: bytes) -> list[str]:
    """The sitemaps that a decoded robots.txt names in any group, up to MAX_ROBOTS_SITEMAPS.

    The protocol wants absolute URIs; paths are common, and relative to `robots_uri`, where the file was. A
    relative path counts if it looks like one, as `Sitemap: none` names no file. Raises ValueError unless
    `robots_uri` is an absolute http or https URI.
    """
    base = Base(robots_uri)
    uris: dict[str, None] = {}
    for line in body.splitlines():
        match = _SITEMAP_LINE.match(line)
        if match is None:
            continue
        reference = reference_of(match["uri"]).strip()
        if not (_ABSOLUTE.match(reference) or (match["colon"] and is_plausible(reference))):
            continue
        uri = base.resolve(reference)
        if uri is not None:
            uris[uri] = None
            if len(uris) == MAX_ROBOTS_SITEMAPS:
                break
    return list(uris)


def last_modified_ms(lastmod: str, now_ms: int) -> int | None:
    """The last moment at which a page can have changed according to its `lastmod`, in milliseconds since the
    epoch: an earlier fetch may be out of date. None for a `lastmod` that makes no sense.

    A date without a time, in UTC, means the end of that day, month or year, or its beginning until it is
    over: otherwise the page would be fetched anew all day. A moment within the next day means `now_ms`, as
    clocks and zones differ; a later one makes no sense.
    """
    match = _DATETIME.fullmatch(lastmod.strip()[:64])
    if match is None:
        return None
    year, month, day, hour, minute, second, zone = match.groups()
    try:
        first = datetime(
            int(year),
            int(month or 1),
            int(day or 1),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
            tzinfo=UTC,
        )
        if hour is not None:
            after = first = first - _offset(zone)
        elif day is not None:
            after = first + _DAY
        else:
            after = (first + (31 if month else 366) * _DAY).replace(day=1)
        first_ms, after_ms = (int(time.timestamp() * 1000) for time in (first, after))
    except (ValueError, OverflowError):
        return None
    if first_ms < 0 or first_ms > now_ms + _DAY // timedelta(milliseconds=1):
        return None
    return after_ms if after_ms <= now_ms else min(first_ms, now_ms)


class _SitemapReader(XmlReader[tuple[str, str]]):
    """Finds the locations of a sitemap, each with its lastmod, which may be empty."""

    roots = parents = frozenset(_ENTRIES)

    def __init__(self) -> None:
        super().__init__()
        self._entry = self._location_name = self._lastmod_name = ""
        self._part = ""  # the local name of the current element of an entry
        self._in_entry = False
        self._entries = 0
        self._location: str | None = None
        self._lastmod = ""
        self.parts: list[Reference] = []
        """The pictures, videos and alternates of the entries, unresolved (MAX_URIS, MAX_PARTS_CHARS)."""
        self._parts_chars = 0

    def is_entry(self, name: str) -> bool:
        return name == self._entry

    def opened(self, name: str, attributes: dict[str, str]) -> bool:
        if self.depth == 1:
            namespace, space, local = name.rpartition(" ")
            self._entry = namespace + space + _ENTRIES[local.lower()]
            self._location_name = namespace + space + "loc"
            self._lastmod_name = namespace + space + "lastmod"
        elif self.depth == 2:
            self._in_entry = name == self._entry
            if self._in_entry:
                self._count()
        if not self._in_entry or self.depth < 3:
            return False
        if self.depth == 3:
            self._part = _local(name)
            if self._part == "link" and hop_of(attributes.get("rel", "")) is Hop.LINK:
                self._add_part(attributes.get("href", ""), Hop.SITEMAP, "link/@href")
            return name in (self._location_name, self._lastmod_name)
        return self.depth == 4 and (self._part, _local(name)) in _PARTS

    def closed(self, name: str, text: str | None) -> None:
        if self.depth == 1:
            self.ended()
        elif text is not None and self.depth == 3:
            self._add_part(text, Hop.EMBED, f"{self._part}/{_local(name)}")
        elif text is not None and name == self._lastmod_name:
            self._lastmod = text
        elif text is not None:
            if self._location is not None:
                self.ended()
                self._count()
            self._location = text

    def _count(self) -> None:
        """Counts an entry, whether it has a location or not; another location within one begins one, too."""
        self._entries += 1
        if self._entries > MAX_URIS:
            raise NothingMore

    def _add_part(self, reference: str, hop: Hop, context: str) -> None:
        self._parts_chars += len(reference)
        is_full = len(self.parts) >= MAX_URIS or self._parts_chars > MAX_PARTS_CHARS
        if not is_full and 0 < len(reference) <= MAX_URI_BYTES:
            self.parts.append((reference, hop, context))

    def ended(self) -> None:
        if self._location is not None:
            self.found.append((self._location, self._lastmod))
        self._location = None
        self._lastmod = ""


def _local(name: str) -> str:
    return name.rpartition(" ")[2]


def _offset(zone: str | None) -> timedelta:
    if zone is None or zone == "Z":
        return timedelta()
    offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))
    return -offset if zone[0] == "-" else offset


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The lines that look like URIs. A search finds them, as there may be millions of others."""
    rest = b""
    for piece in small(pieces):
        lines, line_end, rest = (rest + piece).rpartition(b"\n")
        if line_end:
            yield from _LIST_LINE.findall(lines)
        rest = rest[: MAX_URI_BYTES + 1]  # a line that is too long stays so
    yield from _LIST_LINE.findall(rest)
