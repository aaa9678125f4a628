"""The tokens of an HTML document.

turbohtml's tokenizer makes no tree, and does not know the context of a tag. In XML, and within `<svg>` and
`<math>`, `<script/>` is a whole element, but to the tokenizer, as in HTML, the text up to an end tag is its
content. So this module writes the end tag out, lest the element hide the rest of the document. Within `<svg>`
and `<math>` even the content of a `<title>` or `<iframe>` is markup, and no element is open behind their end
tag.
"""

import re
from collections import deque
from collections.abc import Iterator

import turbohtml

_MARKUP = "iframe|noembed|noframes|noscript|textarea|title|xmp"  # the content of these within SVG and MathML
_ATTRIBUTES = r"""(?:[^<>"']++|"[^"<]*+"|'[^'<]*+')*+"""
_CLOSED = re.compile(rf"<({_MARKUP}|script|style)\b({_ATTRIBUTES})(?<=/)>", re.IGNORECASE)
_CLOSED_WITHIN = re.compile(
    rf"<(?:({_MARKUP})\b({_ATTRIBUTES})|(script|style)\b({_ATTRIBUTES})(?<=/))>", re.IGNORECASE
)
# The start and the end of the elements with rules of their own.
_FOREIGN = tuple(
    (re.compile(rf"<{tag}\b(?!{_ATTRIBUTES}(?<=/)>)"), re.compile(f"</{tag}"))
    for tag in ("[sS][vV][gG]", "[mM][aA][tT][hH]")
)
_OPEN, _CLOSE = (re.compile(rf"<{slash}(script|style)\b", re.IGNORECASE) for slash in ("", "/"))


def tokens(text: str, is_xml: bool = False) -> Iterator[turbohtml.Token]:
    """The tokens of a document, with character references resolved."""
    if is_xml:
        text = _CLOSED.sub(r"<\1\2></\1>", text)
    else:
        for start, end in _FOREIGN:
            if start.search(text):
                text = "".join(_closed_within(start, end, text))
    return iter(turbohtml.tokenize(text))


def _closed_within(start: re.Pattern[str], end: re.Pattern[str], text: str) -> Iterator[str]:
    at = 0
    while (first := start.search(text, at)) and (last := end.search(text, first.end())):
        yield text[at : first.start()]
        inner = _CLOSED_WITHIN.sub(r"<\1\3\2\4></\1\3>", text[first.start() : last.start()])
        yield inner
        opened, closed = (_last(pattern, inner) for pattern in (_OPEN, _CLOSE))
        if opened is not None and (closed is None or closed.start() < opened.start()):
            yield f"</{opened[1]}>"
        at = last.start()
    yield text[at:]


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    return next(iter(deque(pattern.finditer(text), maxlen=1)), None)
