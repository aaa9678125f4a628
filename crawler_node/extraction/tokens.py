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
_FOREIGN = ("svg", "math")


def tokens(text: str, is_xml: bool = False) -> Iterator[turbohtml.Token]:
    """The tokens of a document, with character references resolved."""
    if is_xml:
        text = _closed(text)
    else:
        for tag in _FOREIGN:
            if f"<{tag}" in text:
                text = "".join(_closed_within(tag, text))
    return iter(turbohtml.tokenize(text))


def _closed(text: str) -> str:
    return _CLOSED.sub(r"<\1\2></\1>", text)


def _closed_within(tag: str, text: str) -> Iterator[str]:
    at = 0
    while (start := text.find(f"<{tag}", at)) >= 0 and (end := text.find(f"</{tag}", start)) >= 0:
        yield text[at:start]
        yield _closed(text[start:end])
        at = end
    yield text[at:]
