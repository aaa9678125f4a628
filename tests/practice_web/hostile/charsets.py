"""Pages in other charsets than they say, or in none."""

from practice_web.hostile.nastiness import LEAF, Nastiness, answers

_PAGE = '<!DOCTYPE html><p>caf\u00e9 <a href="/behind?\u00e9">on</a>'
_TARGET = "/behind?%C3%A9"
"""Written in UTF-8, as it is for every page whose text was understood as Unicode."""


def _charset(name: str, does: str, body: bytes, said: str, found: str = _TARGET) -> Nastiness:
    """A page whose Content-Type says `said`; `found` is the link that a right reading has."""
    return Nastiness(
        name,
        does,
        {"/": 200, found: 200},
        {"/": answers(body, media_type=f"text/html{said}"), found: LEAF},
    )


CHARSETS = (
    _charset("utf-16", "is in UTF-16 and says so", _PAGE.encode("utf-16"), "; charset=utf-16"),
    _charset(
        "utf-16-unmarked",
        "is in UTF-16 without a byte order mark, and says so",
        _PAGE.encode("utf-16-le"),
        "; charset=utf-16le",
    ),
    _charset(
        "utf-16-unsaid", "is in UTF-16, which only its byte order mark says", _PAGE.encode("utf-16"), ""
    ),
    _charset(
        "mark-against-header",
        "has the byte order mark of UTF-8 and declares UTF-16",
        _PAGE.encode("utf-8-sig"),
        "; charset=utf-16",
    ),
    _charset(
        "mark-16-against-header",
        "has the byte order mark of UTF-16 and declares UTF-8",
        _PAGE.encode("utf-16"),
        "; charset=utf-8",
    ),
    _charset(
        "meta-against-bytes",
        "is in UTF-8, as its header says, and its meta says UTF-16",
        b'<meta charset="utf-16">' + _PAGE.encode(),
        "; charset=utf-8",
    ),
    _charset(
        "latin-1-as-utf-8",
        "declares UTF-8 and is in Latin-1",
        _PAGE.encode("latin-1"),
        "; charset=utf-8",
        "/behind?%EF%BF%BD",
    ),
    _charset(
        "latin-1",
        "is in Latin-1 and says so, as is a query",
        _PAGE.encode("latin-1"),
        "; charset=iso-8859-1",
        "/behind?%E9",
    ),
    _charset(
        "utf-7",
        "declares UTF-7, in which its text would be a link",
        b"+ADw-a href+AD0-/hidden+AD4-on+ADw-/a+AD4-" + b'<a href="/behind">on</a>',
        "; charset=utf-7",
        "/behind",
    ),
    _charset(
        "charset-unknown",
        "declares a charset that does not exist",
        b'<a href="/behind">on</a>',
        "; charset=klingon",
        "/behind",
    ),
    _charset(
        "charset-garbage",
        "declares a charset of 10 KB",
        b'<a href="/behind">on</a>',
        "; charset=" + "../" * 3000 + '"',
        "/behind",
    ),
    _charset(
        "charset-codec",
        "declares a charset that is only a codec of Python",
        b'<a href="/behind">on</a>',
        "; charset=unicode_escape",
        "/behind",
    ),
    _charset(
        "charset-idna",
        "declares a charset whose codec takes quadratic time",
        b"x" * 300_000 + b'<a href="/behind">on</a>',
        "; charset=idna",
        "/behind",
    ),
    _charset(
        "lone-bytes",
        "ends within a character",
        b'<a href="/behind">on</a>\xf0\x9f',
        "; charset=utf-8",
        "/behind",
    ),
    _charset(
        "every-byte",
        "has all byte values, in an unusual order",
        b'<a href="/behind">on</a>' + bytes(n * 37 % 256 for n in range(100_000)),
        "",
        "/behind",
    ),
)
