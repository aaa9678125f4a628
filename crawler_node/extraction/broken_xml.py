"""The tags and texts of broken XML, as far as they can be made out.

It has no errors: a `<` that begins no tag and a `&` that begins no reference are text. The declarations of a
document type are skipped, and no entity is expanded. Takes time in proportion to the length, and keeps one
token at a time.
"""

import re
from collections.abc import Iterable, Iterator
from html.entities import html5
from typing import NamedTuple, TypeAlias

MAX_TOKEN_BYTES = 256 * 1024
"""Longer tags and texts are skipped."""

_MARK = re.compile(
    rb"""<(?=[!?/A-Za-z_:\x80-\xff])
         (?: (?P<comment>!--) | (?P<cdata>!\[CDATA\[) | (?P<instruction>\?) | (?P<doctype>!(?i:DOCTYPE)\b)
           | (?P<end>/)?(?P<name>[A-Za-z_:\x80-\xff][^\s/<>"'=]{0,250}+)(?P<rest>[^<>]*+)> )""",
    re.VERBOSE,
)
_ENDS = {
    "comment": re.compile(rb"-->"),
    "cdata": re.compile(rb"\]\]>"),
    "instruction": re.compile(rb"\?>"),
    "doctype": re.compile(rb"[\[>]"),
    "declarations": re.compile(rb"\]\s{0,9}>"),
    "overlong": re.compile(rb"\]\]>"),
}
_LONGEST_END_BYTES = 11
# The value may be missing, so that no part is searched twice.
_ATTRIBUTE = re.compile(r"""([^\s<>"'=/]++)(?:\s*+=\s*+(?:"([^"]*+)|'([^']*+)|([^\s"']++)))?+""")
_REFERENCE = re.compile(r"&(?:#([0-9]{1,7})|#[xX]([0-9a-fA-F]{1,6})|([A-Za-z_:][\w.:-]{0,60}+));")

UNREAD = "\ud800"
"""Stands for an entity that is not expanded. No URI can have it, so nobody asks for a half of one."""


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


def broken_tokens(pieces: Iterable[bytes]) -> Iterator[Token]:
    """The tokens of XML that comes in pieces, in UTF-8; other bytes count as windows-1252."""
    rest = b""
    inside = ""  # the kind of the open mark
    is_overlong = False  # the current text
    has_entities = False  # of its own
    for piece in pieces:
        data, at = rest + piece, 0
        while True:
            if inside:
                end = _ENDS[inside].search(data, at)
                if end is None:
                    break
                if inside == "cdata":
                    yield _decoded(data[at : end.start()])
                at = end.end()
                inside = "declarations" if end[0] == b"[" else ""
                has_entities = has_entities or inside != ""
                if inside:
                    continue
            mark = _MARK.search(data, at)
            if mark is None:
                break
            start = mark.start()
            if at < start and not is_overlong and not (text := data[at:start]).isspace():
                yield resolved(_decoded(text), has_entities)
            is_overlong = False
            at = mark.end()
            kind = mark.lastgroup or ""
            if kind in _ENDS:
                inside = kind
            elif mark["end"]:
                yield EndTag(_decoded(mark["name"]))
            else:
                rest = mark["rest"]
                yield StartTag(_decoded(mark["name"]), _attributes(rest, has_entities), rest.endswith(b"/"))
        if inside and inside != "cdata":
            rest = data[max(at, len(data) - _LONGEST_END_BYTES) :]  # may be the beginning of its end
        elif len(data) - at <= MAX_TOKEN_BYTES:
            rest = data[at:]
        elif inside:
            inside, rest = "overlong", data[-2:]
        else:
            is_overlong = True
            last = data.rfind(b"<", max(at + 1, len(data) - MAX_TOKEN_BYTES))
            rest = data[last:] if last >= 0 else b""


def resolved(text: str, has_entities: bool) -> str:
    """Text with its references to characters resolved, also by their names in HTML. Other names stay as they
    are; UNREAD stands for them if the document `has_entities` of its own."""
    if "&" not in text:
        return text
    return _REFERENCE.sub(_character if not has_entities else _character_or_unread, text)


def _attributes(rest: bytes, has_entities: bool) -> dict[str, str]:
    attributes: dict[str, str] = {}
    if b"=" in rest:
        for name, *values in _ATTRIBUTE.findall(_decoded(rest)):
            attributes.setdefault(name, resolved("".join(values), has_entities))
    return attributes


def _character(reference: re.Match[str]) -> str:
    decimal, hexadecimal, name = reference.groups()
    if name:
        return html5.get(name + ";", reference[0])
    code = int(decimal) if decimal else int(hexadecimal, 16)
    return chr(code) if 0 < code < 0xD800 or 0xE000 <= code <= 0x10FFFF else "\ufffd"


def _character_or_unread(reference: re.Match[str]) -> str:
    character = _character(reference)
    return UNREAD if character == reference[0] else character


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")
