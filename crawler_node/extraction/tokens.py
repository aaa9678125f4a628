"""The tokens of an HTML document.

turbohtml's tokenizer makes no tree, and does not know the context of a tag. In XML, and within `<svg>` and
`<math>`, `<script/>` is a whole element, but to the tokenizer, as in HTML, the text up to an end tag is its
content. So this module writes the end tag out, lest the element hide the rest of the document.
"""

import re
from collections.abc import Iterator

import turbohtml

_RAW = "iframe|noembed|noframes|noscript|script|style|textarea|title|xmp"
_CLOSED = re.compile(rf"<({_RAW})\b([^<>]*+)(?<=/)>", re.IGNORECASE)
# The start and the end of the elements with rules of their own.
_FOREIGN = tuple(
    (re.compile(f"<{tag}"), re.compile(f"</{tag}")) for tag in ("[sS][vV][gG]", "[mM][aA][tT][hH]")
)


def tokens(text: str, is_xml: bool = False) -> Iterator[turbohtml.Token]:
    """The tokens of a document, with character references resolved."""
    if is_xml:
        text = _closed(text)
    else:
        for start, end in _FOREIGN:
            if start.search(text):
                text = "".join(_closed_within(start, end, text))
    return iter(turbohtml.tokenize(text))


def _closed(text: str) -> str:
    return _CLOSED.sub(r"<\1\2></\1>", text)


def _closed_within(start: re.Pattern[str], end: re.Pattern[str], text: str) -> Iterator[str]:
    at = 0
    while (first := start.search(text, at)) and (last := end.search(text, first.end())):
        yield text[at : first.start()]
        yield _closed(text[first.start() : last.start()])
        at = last.start()
    yield text[at:]
