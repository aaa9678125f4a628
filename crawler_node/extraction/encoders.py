"""Encoders: Python's codecs that write the charsets in which documents' links have their queries.

turbohtml's codecs only read. Python's own mostly write the same, in linear time at most, but its EUC-JP lacks
characters that people use, and its Big5 has others elsewhere. These two are turned round from what reads
them.
"""

import codecs
from collections.abc import Iterator
from functools import cache

import turbohtml.detect  # noqa: F401  brings the codecs that read

_TURNED = {"toehold.euc_jp": "whatwg-euc-jp", "toehold.big5": "whatwg-big5"}
_ENCODERS = {
    f"whatwg-{label}": encoder
    for label, encoder in (
        *((f"windows-125{n}", f"cp125{n}") for n in range(9)),
        *((f"iso-8859-{n}", f"iso8859_{n}") for n in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)),
        *(("iso-8859-8-i", "iso8859_8"), ("windows-874", "cp874"), ("ibm866", "cp866")),
        *(("koi8-r", "koi8_r"), ("koi8-u", "koi8_u")),
        *(("macintosh", "mac_roman"), ("x-mac-cyrillic", "mac_cyrillic")),
        *(("gbk", "gbk"), ("gb18030", "gb18030"), ("big5", "toehold.big5"), ("euc-kr", "cp949")),
        *(("shift_jis", "cp932"), ("euc-jp", "toehold.euc_jp"), ("iso-2022-jp", "iso2022_jp")),
    )
}
# Of two places in Big5 these have the last one, and others the first (WHATWG Encoding 5).
_LAST = frozenset("\u2550\u255e\u2561\u256a\u5341\u5345")
# In EUC-JP these are written as others (12.1.2).
_ALIKE = {"\u00a5": b"\\", "\u203e": b"~", "\u2212": b"\xa1\xdd"}


def encoder_of(codec: str) -> str | None:
    """Python's codec that writes the charset that a codec of `codec_of` reads, for the queries of a
    document's links. None for UTF-8 and UTF-16, for which URIs use UTF-8 (WHATWG Encoding section 4.3)."""
    return _ENCODERS.get(codec)


@cache
def _table(name: str) -> dict[int, bytes]:
    """The bytes of each character. Takes some 20 ms."""
    reader = codecs.lookup(_TURNED[name])
    table = {octet: bytes([octet]) for octet in range(0x80)}
    for octets in _places(name):
        character = reader.decode(octets, "replace")[0]
        if (
            len(character) == 1
            and character != "\ufffd"
            and (ord(character) not in table or character in _LAST)
        ):
            table[ord(character)] = octets
    if name == "toehold.euc_jp":
        table |= {ord(character): octets for character, octets in _ALIKE.items()}
    return table


def _places(name: str) -> Iterator[bytes]:
    """The places of characters in the order of their pointers. Big5 begins behind Hong Kong's additions."""
    for lead in range(0xA1, 0xFF):
        if name == "toehold.big5":
            yield from (bytes((lead, trail)) for trail in range(0x40, 0x7F))
        yield from (bytes((lead, trail)) for trail in range(0xA1, 0xFF))
    if name == "toehold.euc_jp":
        yield from (bytes((0x8E, trail)) for trail in range(0xA1, 0xE0))  # half-width katakana


def _codec(name: str) -> codecs.CodecInfo | None:
    if name not in _TURNED:
        return None

    def encode(text: str, errors: str = "strict") -> tuple[bytes, int]:
        return codecs.charmap_encode(text, errors, _table(name))

    return codecs.CodecInfo(encode, codecs.lookup(_TURNED[name]).decode, name=name)


codecs.register(_codec)
