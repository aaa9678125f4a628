"""Charset: turns the bytes of a document into text. Takes time in proportion to their number."""

import re

from turbohtml.detect import detect

_SAMPLE_BYTES = 32 * 1024
_DECLARED_WITHIN_BYTES = 1024  # where the WHATWG standard looks for <meta charset>

_LABEL = re.compile(r"[a-z0-9_:.-]{1,40}")
_XML_DECLARATION = re.compile(
    rb"""\s*+<\?xml[^>]{1,100}?\sencoding\s*+=\s*+["']([\w.:-]{1,40})["']""", re.ASCII
)
_META = re.compile(
    rb"""<meta\s[^<>]*?\bcharset\s*+=\s*+["']?+\s*+([\w:.-]{1,40})""", re.IGNORECASE | re.ASCII
)
_COMMENT = re.compile(rb"<!--(?:.*?-->|.*)", re.DOTALL)
_NO_TAGS = re.compile(rb"<!--(?:.*?-->|.*)|<(script|style)\b(?:.*?</\1|.*)", re.IGNORECASE | re.DOTALL)
_NOT_ASCII = re.compile(rb"[\x80-\xff]")


def text_of(body: bytes, charset: str | None) -> str:
    """A document's text, in the charset of its byte order mark, else of the Content-Type, else of its own
    declaration (`<meta charset>`, `<?xml encoding?>`), else by a guess. Bytes that cannot be decoded become
    U+FFFD."""
    return body.decode(codec_of(body, charset), "replace")


def xml_charset(body: bytes) -> str | None:
    """The charset that the XML declaration names (XML 1.0 section 4.3.3)."""
    declaration = _XML_DECLARATION.match(body)
    return declaration[1].decode("ascii") if declaration else None


def codec_of(body: bytes, charset: str | None) -> str:
    """The codec of the charset that `text_of` uses."""
    label = (charset or _declared(body) or "").lower()
    marked = detect(body[:4])
    if marked.bom and marked.codec is not None:
        return marked.codec
    if label in ("utf-8", "utf8"):
        return "utf-8"
    if label in ("utf-16", "utf-16le", "utf-16be"):  # as a declaration these would mean UTF-8
        return f"whatwg-{label}"
    # The Content-Type's label goes before the document's own declaration, and so wins if it is known.
    # Python's
    # codecs are out of the question: some take quadratic time, and Python remembers every name it lacks.
    declaration = b'<meta charset="%s">' % label.encode() if _LABEL.fullmatch(label) else b""
    return detect(declaration + _sample(body)).codec or "utf-8"


def _declared(body: bytes) -> str | None:
    """The charset that HTML declares elsewhere than in a `<meta>` of its first bytes, which `detect` finds:
    in an XML declaration, or in a later `<meta>`, for which browsers read a page again."""
    if _META.search(_COMMENT.sub(b"", body[:_DECLARED_WITHIN_BYTES])):
        return None
    label = xml_charset(body)
    if label is None and (match := _META.search(_NO_TAGS.sub(b"", body[:_SAMPLE_BYTES]))):
        label = match[1].decode("ascii")
    return "utf-8" if label and label.lower().startswith("utf-16") else label


def _sample(body: bytes) -> bytes:
    """The bytes for guessing a charset: the head, and the text from the first byte that is not ASCII."""
    if len(body) <= _SAMPLE_BYTES:
        return body
    head = body[:_DECLARED_WITHIN_BYTES]
    match = _NOT_ASCII.search(body, _DECLARED_WITHIN_BYTES)
    start = match.start() if match else _DECLARED_WITHIN_BYTES
    text = body[start : start + _SAMPLE_BYTES]
    # The cut is not within a character: no charset has ">" as a later byte of one.
    return head + (text[: text.rfind(b">") + 1] or text)
