"""The title and the text of an HTML page, for users who want data and not archives.

It has a tokenizer and no tree, so that time is in proportion to the length, whatever the nesting.
"""

from dataclasses import dataclass

import turbohtml

from .charset import text_of
from .tokens import tokens

MAX_PAGE_BYTES = 8 * 1024 * 1024
"""How much of a page, decoded, is read."""

MAX_TITLE_CHARS = 1000

MAX_TEXT_CHARS = 1_000_000

_START_TAG = turbohtml.TokenType.START_TAG
_END_TAG = turbohtml.TokenType.END_TAG
_TEXT = turbohtml.TokenType.TEXT

# Their content is one text to the tokenizer, and invisible to a reader.
_UNREAD = frozenset({"iframe", "noembed", "noframes", "noscript", "script", "style"})
# They can be nested, and their content has markup.
_UNSHOWN = frozenset({"template", "svg", "math"})
# Their lines and blanks are shown as they are written.
_WRITTEN = frozenset({"listing", "plaintext", "pre", "textarea", "xmp"})
_CELLS = frozenset({"td", "th", "option"})
_TEXTS = {"address", "blockquote", "br", "center", "figcaption", "figure", "hr", "p"}
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6", "hgroup", "legend", "summary", "caption", "title"}
_SECTIONS = {"article", "aside", "body", "details", "dialog", "div", "fieldset", "footer", "form", "head"}
_MORE_SECTIONS = {"header", "html", "main", "nav", "search", "section", "select"}
_LISTS = {"dd", "dir", "dl", "dt", "li", "menu", "ol", "optgroup", "ul"}
_TABLES = {"table", "tbody", "tfoot", "thead", "tr"}
_BLOCKS = frozenset(_WRITTEN | _TEXTS | _HEADINGS | _SECTIONS | _MORE_SECTIONS | _LISTS | _TABLES)


@dataclass(frozen=True, slots=True)
class PageText:
    """The title and the text of a page. `text` has a line for each block, with blanks collapsed, and no empty
    lines. A `<pre>` has its own lines, with their indentation and the empty ones between them.

    They are at most MAX_TITLE_CHARS and MAX_TEXT_CHARS long; the rest is cut off.
    """

    title: str
    text: str


def page_text(body: bytes, charset: str | None) -> PageText:
    """The title and the text of an HTML page, as a browser without scripts and pictures would show them, but
    without the substitutes for scripts and frames.

    `body` is without Content-Encoding; `charset` is that of the Content-Type. A page without a title has an
    empty one. Never raises, whatever the page contains.
    """
    title = ""
    parts: list[str] = []  # of the text, each in lines
    pieces: list[str] = []  # of the part that is being read
    written = 0  # how many elements around it keep their lines
    within = ""  # the last tag, if it was a start tag
    depths = dict.fromkeys(_UNSHOWN, 0)
    shown = True
    source = text_of(body[:MAX_PAGE_BYTES], charset)
    is_xml = source[:100].lstrip().startswith("<?xml")
    for token in tokens(source, is_xml):
        kind = token.type
        if kind is _TEXT:
            if shown and within not in _UNREAD:
                data = token.data or ""
                if within != "title":
                    pieces.append(data if written else data.replace("\n", " "))
                elif not title:
                    title = " ".join(data.split())
        elif kind is _START_TAG or kind is _END_TAG:
            tag = token.tag or ""
            within = tag if kind is _START_TAG else ""
            if tag in _WRITTEN and not (is_xml and token.self_closing):
                inner = max(0, written + (1 if within else -1))
                if not (written and inner):
                    parts.append(_as_written(pieces) if written else _collapsed(pieces))
                    pieces.clear()
                written = inner
            elif tag in _BLOCKS and not written:
                pieces.append("\n")
            elif tag in _BLOCKS and shown:
                # Its own line, and no empty one between it and the line before.
                if tag == "br" or (pieces and not pieces[-1].endswith("\n")):
                    pieces.append("\n")
            elif tag in _CELLS:
                pieces.append(" ")
            elif tag in _UNSHOWN and not token.self_closing:
                depths[tag] = max(0, depths[tag] + (1 if within else -1))
                shown = not any(depths.values())
    parts.append(_as_written(pieces) if written else _collapsed(pieces))
    text = "\n".join(part for part in parts if part)
    return PageText(title[:MAX_TITLE_CHARS], text[:MAX_TEXT_CHARS])


def _collapsed(pieces: list[str]) -> str:
    lines = (" ".join(line.split()) for line in "".join(pieces).split("\n"))
    return "\n".join(line for line in lines if line)


def _as_written(pieces: list[str]) -> str:
    text = "".join(pieces).replace("\r\n", "\n").replace("\r", "\n").replace("\xa0", " ")
    lines = "\n".join(line.rstrip() for line in text.split("\n"))
    return lines.strip("\n")
