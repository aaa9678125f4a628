"""The tags and texts of broken XML, as far as they can be made out.

It has no errors: a `<` that begins no tag and a `&` that begins no reference are text. Takes time in
proportion to the length, and keeps one token at a time.
"""

import re
from collections.abc import Iterable, Iterator
from html.entities import html5
from typing import NamedTuple, TypeAlias

MAX_TOKEN_BYTES = 256 * 1024
"""Longer tags and texts are skipped."""

_MARK = re.compile(
    rb"""<(?=[!?/A-Za-z_:\x80-\xff])
         (?: (?P<comment>!--) | (?P<cdata>!\[CDATA\[) | (?P<instruction>\?) | (?P<doctype>!DOCTYPE)
           | (?P<end>/)?(?P<name>[A-Za-z_:\x80-\xff][^\s/<>"'=]{0,250}+)(?P<rest>[^<>]*+)> )""",
    re.VERBOSE,
)
_ENDS = {"comment": b"-->", "cdata": b"]]>", "instruction": b"?>", "overlong": b"]]>"}
# The value may be missing, so that no part is searched twice.
_ATTRIBUTE = re.compile(r"""([^\s<>"'=/]++)(?:\s*+=\s*+(?:"([^"]*+)|'([^']*+)|([^\s"']++)))?+""")
_REFERENCE = re.compile(r"&(?:#([0-9]{1,7})|#[xX]([0-9a-fA-F]{1,6})|([A-Za-z][A-Za-z0-9]{0,30}));")


class StartTag(NamedTuple):
    """The beginning of an element, or the whole of an empty one. The name is as written."""

    name: str
    attributes: dict[str, str]
    is_empty: bool


class EndTag(NamedTuple):
    """The end of an element."""

    name: str


Token: TypeAlias = StartTag | EndTag | str
"""A token of broken XML; a str is a piece of text."""


class Doctype(Exception):
    """The document has a document type."""


def broken_tokens(pieces: Iterable[bytes]) -> Iterator[Token]:
    """The tokens of XML that comes in pieces, in UTF-8; other bytes count as windows-1252. Raises Doctype."""
    rest = b""
    inside = ""  # the kind of the open mark
    is_overlong = False  # the current text
    for piece in pieces:
        data, at = rest + piece, 0
        while True:
            if inside:
                end = data.find(_ENDS[inside], at)
                if end < 0:
                    break
                if inside == "cdata":
                    yield _decoded(data[at:end])
                at = end + len(_ENDS[inside])
                inside = ""
            mark = _MARK.search(data, at)
            if mark is None:
                break
            start = mark.start()
            if at < start and not is_overlong and not (text := data[at:start]).isspace():
                yield _resolved(_decoded(text))
            is_overlong = False
            at = mark.end()
            kind = mark.lastgroup or ""
            if kind == "doctype":
                raise Doctype
            if kind in _ENDS:
                inside = kind
            elif mark["end"]:
                yield EndTag(_decoded(mark["name"]))
            else:
                rest = mark["rest"]
                yield StartTag(_decoded(mark["name"]), _attributes(rest), rest.endswith(b"/"))
        if inside in ("comment", "instruction", "overlong"):
            rest = data[max(at, len(data) - 2) :]  # may be the beginning of its end
        elif len(data) - at <= MAX_TOKEN_BYTES:
            rest = data[at:]
        elif inside:
            inside, rest = "overlong", data[-2:]
        else:
            is_overlong = True
            last = data.rfind(b"<", max(at + 1, len(data) - MAX_TOKEN_BYTES))
            rest = data[last:] if last >= 0 else b""


def _attributes(rest: bytes) -> dict[str, str]:
    attributes: dict[str, str] = {}
    if b"=" in rest:
        for name, *values in _ATTRIBUTE.findall(_decoded(rest)):
            attributes.setdefault(name, _resolved("".join(values)))
    return attributes


def _resolved(text: str) -> str:
    return _REFERENCE.sub(_character, text) if "&" in text else text


def _character(reference: re.Match[str]) -> str:
    decimal, hexadecimal, name = reference.groups()
    if name:
        return html5.get(name + ";", reference[0])
    code = int(decimal) if decimal else int(hexadecimal, 16)
    return chr(code) if 0 < code < 0xD800 or 0xE000 <= code <= 0x10FFFF else "\ufffd"


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")
