"""Strings in scripts that look like URIs. They are guesses: many of them lead nowhere.

A string counts only if it is whole (not concatenated with others), has only characters of URIs, and begins
like a URI or ends in the name of a document. Scripts are not parsed, so a quote in a regular expression can
hide the rest of its line. Takes time in proportion to the length.
"""

import re
from collections.abc import Iterator

SCRIPT_TYPES = frozenset(
    {
        *("", "module", "text/javascript", "application/javascript", "application/x-javascript"),
        *("text/ecmascript", "application/ecmascript", "text/jscript"),
    }
)
"""The types of a `<script>` that is JavaScript."""

MAX_CHARS = 2048
"""Longer strings are ignored."""

_TOKEN = re.compile(
    r"""
    [/"'`](?:
        (?<=/)(?:/[^\n]*+|\*(?:[^*]++|\*(?!/))*+(?:\*/)?)     # comments
      | (?<=")(?P<double>(?:[^"\\\n]++|\\.)*+)"?
      | (?<=')(?P<single>(?:[^'\\\n]++|\\.)*+)'?
      | (?<=`)(?P<template>(?:[^`\\]++|\\.)*+)`?
    )
    """,
    re.VERBOSE | re.DOTALL,
)
_JOINED_BEFORE = re.compile(r"\+\s*+\Z")
_JOINED_AFTER = re.compile(r"\s{0,20}+\+")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_SEGMENT = r"(?!:)[\w~%.,@:;!&=+-]++"
_QUERY = r"(?:\?[^\s<>{}|\\^`\"']*+)?(?:\#[^\s<>{}|\\^`\"']*+)?"
_PATH = rf"{_SEGMENT}(?:/{_SEGMENT})*+/?{_QUERY}"
_ABSOLUTE = rf"(?:https?:)?//[\w-]++(?:\.[\w-]++)+(?::\d{{1,5}})?(?:/(?:{_PATH})?)?{_QUERY}"
_ROOTED = rf"/(?=[\w~%.-]{{2}}){_PATH}"
_DOTTED = rf"(?:\.\.?/)++{_PATH}"
_DOCUMENT = rf"(?=\w)[\w~%./-]++(?<=\.html|.\.htm|.\.php|.\.asp|\.aspx|.\.jsp|.\.pdf|\.json|.\.xml){_QUERY}"
_OF_A_SCRIPT = re.compile(rf"{_ABSOLUTE}|{_ROOTED}|{_DOTTED}", re.ASCII)
_OF_A_PAGE = re.compile(rf"{_ABSOLUTE}|{_ROOTED}|{_DOTTED}|{_DOCUMENT}", re.ASCII)


def script_references(script: str, inline: bool) -> Iterator[str]:
    """The strings of a script that are likely to be URIs, in their order, with repetitions.

    `inline`: the script is in a page, to which a mere file name is relative. The base of one in a separate
    script is unknown, so it is left out.
    """
    likely = _OF_A_PAGE if inline else _OF_A_SCRIPT
    for token in _TOKEN.finditer(script):
        string = token[token.lastgroup] if token.lastgroup else ""
        if not 3 <= len(string) <= MAX_CHARS or ("/" not in string and "." not in string):
            continue
        if "\\" in string:
            string = _ESCAPE.sub(_character, string)
        if likely.fullmatch(string) and not _is_joined(script, token):
            yield string


def _is_joined(script: str, string: re.Match[str]) -> bool:
    """Whether a string is a part of something longer: `"/user/" + name`."""
    before = script[max(0, string.start() - 20) : string.start()]
    return bool(_JOINED_BEFORE.search(before) or _JOINED_AFTER.match(script, string.end()))


def _character(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2]
    if code:
        return chr(int(code, 16))
    return {"\n": "", "n": " ", "r": " ", "t": " "}.get(escape[3], escape[3])
