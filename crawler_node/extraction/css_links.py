"""The references of style sheets: `url()`, `src()`, `@import`, and the strings of `image-set()` (CSS
Syntax 3, CSS Images 4).

One pass over the tokens that matter ignores comments, strings and namespaces, and takes time in proportion to
the length, even if many of them are never closed.
"""

import re
from collections.abc import Iterator

from ..fetching.references import MAX_URI_BYTES

_COMMENT = r"\*(?:[^*]++|\*(?!/))*+(?:\*/)?"  # without its first slash
_ESCAPED = r"\\(?:[0-9a-fA-F]{1,6}+(?:\r\n|\s)?+|.)"
# A search looks for the rare first character of a token, and a look-behind tells to what a bracket belongs.
# Anything may follow that character, so no part is searched twice.
_TOKENS = rf"""
      (?<=/){_COMMENT}
    | (?<=@)[iI][mM][pP][oO][rR][tT](?:\s++|/{_COMMENT})*+(?P<import>["']?)
    | (?<=@)[nN][aA][mM][eE][sS][pP][aA][cC][eE][^;{{}}]*+
    | (?:(?<=[uU][rR][lL]\()|(?<=[sS][rR][cC]\())\s*+
      (?:(?P<url>["'])|(?P<bare>(?:[^\s"'()\\]++|{_ESCAPED})*+))
    | (?P<set>(?<=[iI][mM][aA][gG][eE]-[sS][eE][tT]\())
    | (?P<string>(?<=["']))
"""
_BRACKETS = r"| (?P<open>(?<=\()) | (?P<close>(?<=\))) | (?P<end>(?<=[;{}]))"
_FLAGS = re.VERBOSE | re.DOTALL | re.ASCII  # other blanks than those of ASCII are part of a name
_TOKEN = re.compile(rf"""[/@("'](?:{_TOKENS})""", _FLAGS)
_SET_TOKEN = re.compile(rf"""[/@("');{{}}](?:{_TOKENS}{_BRACKETS})""", _FLAGS)
_STRINGS = {
    '"': re.compile(r'(?:[^"\\\n\r\f]++|\\(?:\r\n|.))*+', re.DOTALL),
    "'": re.compile(r"(?:[^'\\\n\r\f]++|\\(?:\r\n|.))*+", re.DOTALL),
}
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})(?:\r\n|\s)?|\r\n|[\n\r\f]|(.))", re.DOTALL | re.ASCII)
_CHARSET_RULE = re.compile(rb'@charset "([\w.:-]{1,40})";', re.ASCII)


def css_references(css: str) -> Iterator[str]:
    """The references of a style sheet or a `style` attribute, in their order, with repetitions."""
    if "(" not in css and "@" not in css:
        return
    at = 0
    depth = 0  # of brackets within an image-set; 0 outside
    while token := (_SET_TOKEN if depth else _TOKEN).search(css, at):
        at = token.end()
        kind = token.lastgroup
        if kind == "bare":
            yield from _unescaped(token["bare"])
            depth += depth > 0
        elif kind in ("url", "import", "string"):
            quote = css[at - 1]
            if quote not in _STRINGS:  # @import url(…)
                continue
            string = _STRINGS[quote].match(css, at)
            assert string is not None  # it also matches an empty string
            at = string.end() + 1
            if kind != "string" or depth == 1:
                yield from _unescaped(string[0])
            depth += depth > 0 and kind == "url"
        elif kind == "set" or kind == "open":
            depth += 1
        elif kind == "close":
            depth -= 1
        elif kind == "end":  # an image-set that is not closed ends with its declaration
            depth = 0


def declared_charset(css: bytes) -> str | None:
    """The charset that a style sheet declares (CSS Syntax 3.2)."""
    match = _CHARSET_RULE.match(css)
    return match[1].decode("ascii") if match else None


def _unescaped(reference: str) -> Iterator[str]:
    if len(reference) > 8 * MAX_URI_BYTES:  # an escape is at most 8 characters long
        return
    if "\\" in reference:
        reference = _ESCAPE.sub(_character, reference)
    if reference:
        yield reference


def _character(escape: re.Match[str]) -> str:
    if escape[1] is None:
        return escape[2] or ""  # an escaped line end vanishes
    code = int(escape[1], 16)
    return chr(code) if 0 < code < 0xD800 or 0xE000 <= code <= 0x10FFFF else "\ufffd"
