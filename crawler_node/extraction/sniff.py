"""The media type of a document by its first bytes, if the server does not tell: WHATWG MIME Sniffing.

`X-Content-Type-Options: nosniff` is ignored: a crawler has no user whom it would protect, and sniffing finds
unwanted links at worst.
"""

import re

HEADER_BYTES = 1445
"""How many bytes of a document are examined (section 5.2)."""

_REGISTERED = frozenset(
    {
        *("application", "audio", "example", "font", "haptics", "image", "message", "model", "multipart"),
        *("text", "video"),
    }
)
_UNKNOWN = frozenset(
    {
        *("", "unknown/unknown", "application/unknown", "application/x-unknown"),
        *("application/octet-stream", "application/x-octet-stream", "application/download"),
        *("application/x-download", "application/force-download"),
        *("application/html", "application/htm", "application/x-html", "application/xhtml", "text/x-html"),
        "application/x-httpd-php",
    }
)
_TEXTS = frozenset(
    {
        *("plain", "html", "xml", "css", "javascript", "ecmascript", "jscript", "rss", "atom", "rdf"),
        *("csv", "tab-separated-values", "markdown", "calendar", "vcard", "vtt", "rtf", "richtext"),
        *("enriched", "uri-list", "troff", "sgml", "turtle", "n3", "cache-manifest", "event-stream", "json"),
    }
)
_PRIVATE_TREES = ("x-", "vnd.", "prs.")

_BLANKS = rb"[\t\n\x0c\r ]*+"
_TAGS = rb"!DOCTYPE HTML|HTML|HEAD|SCRIPT|IFRAME|H1|DIV|FONT|TABLE|A|STYLE|TITLE|BODY|BR|B|P|!--"
_HTML = re.compile(rb"%b<(?:%b)[ >]" % (_BLANKS, _TAGS), re.IGNORECASE)
_XML = re.compile(rb"%b<\?xml" % _BLANKS)
_MARKED = re.compile(rb"(?:\xfe\xff..|\xff\xfe..|\xef\xbb\xbf.)", re.DOTALL)  # by a byte order mark
_BINARY = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")


def says_nothing(media_type: str) -> bool:
    """Whether a media type, in lower case, leaves open what a document is.

    An empty one is missing or malformed (quoted, say). Others stand for anything (`application/octet-stream`)
    or are misspelt: with a top-level type that is not registered (`test/html`), or an unknown kind of text
    (`text/hmtl`).
    """
    top, _, subtype = media_type.partition("/")
    if media_type in _UNKNOWN or top not in _REGISTERED:
        return True
    if top != "text" or subtype in _TEXTS or subtype.endswith("+xml"):
        return False
    return not subtype.startswith(_PRIVATE_TREES)


def sniffed(header: bytes) -> str:
    """The media type of a resource of unknown type (section 7.1), by its first HEADER_BYTES.

    The tables of pictures, sounds, fonts and archives are left out: these are not searched for links, and
    count as `application/octet-stream` here.
    """
    header = header[:HEADER_BYTES]
    if _HTML.match(header):
        return "text/html"
    if _XML.match(header):
        return "text/xml"
    if header.startswith(b"%PDF-"):
        return "application/pdf"
    if header.startswith(b"%!PS-Adobe-"):
        return "application/postscript"
    if _MARKED.match(header) or not _BINARY.search(header):
        return "text/plain"
    return "application/octet-stream"
