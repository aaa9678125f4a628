r"""Finds patterns that match no canonical URI, because they are written as people write URLs or globs.

`https://bücher\.example/.*` is a valid pattern, but canonical URIs have `xn--bcher-kva` there.
Characters in classes (`[^ "]`) may be any: other members can match.
"""

import re

# From its scheme to its path, if a pattern begins with a plain host.
_BEGINNING = re.compile(
    r"\^?(?P<scheme>https?\??)\\?:\\?/\\?/(?P<host>(?:[A-Za-z0-9_-]|\\[.-]|\.)+)(?::(?P<port>[0-9]+))?(?:\\?/|\$?\Z)"
)
_BEGINS_WITH_PATH = re.compile(r"\^?\\?/")
_CLASS = re.compile(r"\[\^?\]?(?:\[:\^?[a-z]+:\]|\\.|[^\]\\])*+\]", re.DOTALL)
_QUOTATION = re.compile(r"\\Q(.*?)(?:\\E|\Z)", re.DOTALL)
_GROUP_NAME = re.compile(r"\(\?P?<[^>]*+>")
_SPECIAL_ESCAPE = re.compile(r"\\(?:[pPx]\{[^}]*+\}|x[0-9A-Fa-f]{2}|[A-Za-z0-9])")
_DEFAULT_PORTS = {"http": "80", "https": "443"}
_NEVER_RAW = frozenset('"<>#\x7f')


def slip(pattern: str) -> str:
    """The problem of a valid pattern that matches no canonical URI, or is a glob; "" if it has none."""
    if _BEGINS_WITH_PATH.match(pattern) is not None:
        return "must match a URI as a whole, which begins with http, got a path; begin with https?://[^/]*"
    beginning = _BEGINNING.match(pattern)
    if beginning is not None:
        host, port = beginning["host"], beginning["port"]
        if host != host.lower():
            return f"must have the host in lower case, as canonical URIs have it, got {host[:80]!r}"
        if port and _DEFAULT_PORTS.get(beginning["scheme"]) == port:
            return f"must not have the default port :{port}, which canonical URIs leave out"
    place = 0
    before = ""  # the literal character before this place
    while place < len(pattern):
        character = pattern[place]
        skipped = _without_literals(pattern, place)
        if skipped:
            place, before = skipped, ""
            continue
        quotation = _QUOTATION.match(pattern, place)
        if quotation is not None:
            for each in quotation[1]:
                if odd(each):
                    return _told(each, pattern.index(each, place))
            place, before = quotation.end(), ""
            continue
        if character == "\\":
            place += 1
            character = pattern[place : place + 1]
        elif character == "*" and before in ("/", "=", "&"):
            return f"must be a pattern, got a glob at character {place + 1}; any text is .*"
        if odd(character):
            return _told(character, place)
        before = character
        place += 1
    return ""


def odd(character: str) -> bool:
    """Whether no canonical URI has a character."""
    return character in _NEVER_RAW or not "!" <= character <= "~"


def _without_literals(pattern: str, place: int) -> int:
    """The end of a class, the name of a group or an escape that stands for several characters; 0 if none
    begins here."""
    for syntax in (_CLASS, _GROUP_NAME, _SPECIAL_ESCAPE):
        match = syntax.match(pattern, place)
        if match is not None and not match[0].startswith(r"\Q"):
            return match.end()
    return 0


def _told(character: str, place: int) -> str:
    at = f"got {character!r} at character {place + 1}"
    if character == "#":
        return f"must match canonical URIs, which have no fragment, {at}"
    escaped = "".join(f"%{octet:02X}" for octet in character.encode("utf-8", "replace"))
    in_host = ", and a host in punycode" if ord(character) > 127 else ""
    return f"must match canonical URIs, which have {escaped} in a path{in_host}, {at}"
