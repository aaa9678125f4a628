"""The links that a browser sees in a page, by parsers that others have written: html5lib (HTML and charsets),
tinycss2 (styles) and Upa (URLs). Shares no code with the node.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from xml.etree.ElementTree import Element

import html5lib
import tinycss2
import webencodings
from upa_url import URL

XLINK_HREF = "{http://www.w3.org/1999/xlink}href"

_SCHEMES = ("http:", "https:")
_HTML_SPACE = " \t\n\f\r"


class Seen(NamedTuple):
    """A link: where it is (`a/@href`), what more is known of that (the `rel` of a `<link>`, the method of a
    form), and its absolute URI without fragment, or what keeps it from being one."""

    place: str
    detail: str
    reference: str
    uri: str | None


class Page(NamedTuple):
    """A page as a browser reads it."""

    root: Element
    charset: str
    base: str

    def resolved(self, reference: str) -> str | None:
        """The http or https URI of a reference, without fragment."""
        return resolved(_with_query_in(reference, self.charset), self.base)


def read(body: bytes, uri: str, transport_charset: str | None = None) -> Page:
    """Parses a page, and finds its base (HTML 4.2.3)."""
    parser = html5lib.HTMLParser(namespaceHTMLElements=False)
    options = {"transport_encoding": transport_charset} if transport_charset else {}
    root = parser.parse(body, **options)
    charset = parser.documentEncoding or "windows-1252"
    for element in root.iter("base"):
        if (href := element.get("href")) is not None:
            base = joined(_with_query_in(href, charset), uri)
            if base is not None and base.protocol not in ("data:", "javascript:"):
                return Page(root, charset, base.href)
            break
    return Page(root, charset, uri)


def resolved(reference: str, base: str) -> str | None:
    """The http or https URI of a reference, without fragment."""
    url = joined(reference, base)
    if url is None or url.protocol not in _SCHEMES:
        return None
    url.hash = ""
    return str(url.href)


def joined(reference: str, base: str) -> URL | None:
    """A reference against a base, as the WHATWG URL standard says; None if that is no URL."""
    try:
        return URL.parse(reference, base)
    except UnicodeError:  # a lone surrogate
        return None


def links(page: Page) -> Iterator[Seen]:
    """All links of a page, in the order of the tree, with repetitions."""
    for place, detail, reference in _references(page.root):
        yield Seen(place, detail, reference, page.resolved(reference))


def style_links(css: str) -> Iterator[str]:
    """The references of a style sheet, or of declarations."""
    yield from _of_components(tinycss2.parse_component_value_list(css))


_Found = tuple[str, str, str]

# The attributes that lead somewhere, by element (HTML's index of attributes, SVG 2, and what browsers still
# honour: 16.2 of HTML).
_URL_ATTRIBUTES: dict[str, tuple[str, ...]] = {
    **{"a": ("href",), "area": ("href",), "img": ("src", "longdesc"), "source": ("src",)},
    **{"video": ("src", "poster"), "audio": ("src",), "track": ("src",), "embed": ("src",)},
    **{"object": ("data",), "iframe": ("src",), "frame": ("src",), "script": ("src",)},
    **dict.fromkeys(("body", "table", "thead", "tbody", "tfoot", "tr", "td", "th"), ("background",)),
    **dict.fromkeys(("blockquote", "q", "ins", "del"), ("cite",)),
}
_SVG_HREFS = frozenset(
    {"a", "image", "use", "feImage", "script", "pattern", "linearGradient", "radialGradient"}
)


def _references(root: Element) -> Iterator[_Found]:
    method = "get"  # of the last form
    for element in root.iter():
        name_of: object = element.tag
        if not isinstance(name_of, str):  # a comment
            continue
        namespace, _, tag = name_of.rpartition("}")
        get = element.get
        if namespace.endswith("/svg") and tag in _SVG_HREFS:
            for name in ("href", XLINK_HREF):
                if value := get(name):
                    yield f"svg {tag}/@href", "", value
        if not namespace:
            for name in _URL_ATTRIBUTES.get(tag, ()):
                if value := get(name):
                    yield f"{tag}/@{name}", "", value
        if tag == "link" and (value := get("href")):
            yield "link/@href", (get("rel") or (f"rev {get('rev')}" if get("rev") else "")).lower(), value
        for name in ("srcset", "imagesrcset"):
            if (name == "imagesrcset") == (tag == "link") and (value := get(name)):
                for reference in srcset(value):
                    yield f"{tag}/@{name}", "", reference
        if tag == "form":
            method = _method(get("method"))
            if value := get("action"):
                yield "form/@action", method, value
        if tag in ("button", "input") and (value := get("formaction")):
            given = get("formmethod")
            yield f"{tag}/@formaction", method if given is None else _method(given), value
        if tag == "input" and (get("type") or "").lower() == "image" and (value := get("src")):
            yield "input/@src", "", value
        is_refresh = tag == "meta" and (get("http-equiv") or "").lower() == "refresh"
        if is_refresh and (target := refresh(get("content") or "")):
            yield "meta/@content", "", target
        if value := get("style"):
            for reference in style_links(value):
                yield f"{tag}/@style", "", reference
        if tag == "style":
            for reference in style_links(element.text or ""):
                yield "style", "", reference
        if tag == "iframe" and (value := get("srcdoc")):
            yield from _references(html5lib.parse(value, namespaceHTMLElements=False))


def _method(value: str | None) -> str:
    """Methods that do not exist are GET (HTML 4.10.21.6)."""
    said = (value or "").lower()
    return said if said in ("post", "dialog") else "get"


def srcset(value: str) -> Iterator[str]:
    """HTML 4.8.4.3.10, parse a srcset attribute, without its check of descriptors."""
    at, end = 0, len(value)
    while True:
        while at < end and value[at] in _HTML_SPACE + ",":
            at += 1
        if at == end:
            return
        start = at
        while at < end and value[at] not in _HTML_SPACE:
            at += 1
        reference = value[start:at]
        if reference.endswith(","):
            yield reference.rstrip(",")
            continue
        yield reference
        depth = 0
        while at < end and (depth or value[at] != ","):
            depth += (value[at] == "(" and not depth) - (value[at] == ")" and depth > 0)
            at += 1


def refresh(content: str) -> str | None:
    """HTML 4.2.5.3, the shared declarative refresh steps, as far as the URL. None without a URL."""
    rest = content.lstrip(_HTML_SPACE)
    time = re.match(r"[0-9]+|(?=\.)", rest)
    if time is None:
        return None
    rest = rest[time.end() :].lstrip("0123456789.")
    if not rest or rest[0] not in ";," + _HTML_SPACE:
        return None
    rest = rest.lstrip(_HTML_SPACE)
    if rest[:1] in (";", ","):
        rest = rest[1:]
    rest = rest.lstrip(_HTML_SPACE)
    named = re.match(rf"url[{_HTML_SPACE}]*=[{_HTML_SPACE}]*", rest, re.IGNORECASE)
    rest = rest[named.end() :] if named else rest
    if rest[:1] in ("'", '"'):
        rest = rest[1:].partition(rest[0])[0]
    return rest or None


def _of_components(nodes: Iterable[tinycss2.ast.Node]) -> Iterator[str]:
    after_import = False
    for node in nodes:
        kind = node.type
        if kind == "url" or (kind == "string" and after_import):
            yield node.value
        elif kind == "function":
            yield from _of_function(node)
        elif kind in ("[] block", "{} block", "() block"):
            yield from _of_components(node.content)
        if kind not in ("whitespace", "comment"):
            after_import = kind == "at-keyword" and node.lower_value == "import"


def _of_function(node: tinycss2.ast.FunctionBlock) -> Iterator[str]:
    name = node.lower_name
    arguments = [each for each in node.arguments if each.type not in ("whitespace", "comment")]
    strings = [each.value for each in arguments if each.type == "string"]
    if name in ("url", "src"):
        yield from strings[:1] if arguments[:1] and arguments[0].type == "string" else ()
    elif name in ("image-set", "-webkit-image-set"):
        yield from strings
    if name not in ("url", "src"):
        yield from _of_components(node.arguments)


_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_ENCODED_IN_QUERIES = re.compile(rb"[^!$-&(-;=?-~]")


def _with_query_in(reference: str, charset: str) -> str:
    """With the query's characters beyond ASCII percent-encoded in the page's charset (URL 1.3)."""
    before, mark, rest = reference.partition("?")
    encoding = webencodings.lookup(charset)
    if not mark or "#" in before or encoding is None or encoding.name in ("utf-8", "utf-16le", "utf-16be"):
        return reference

    def encoded(found: re.Match[str]) -> str:
        octets: bytes = encoding.codec_info.encode(found[0], "xmlcharrefreplace")[0]
        octets = octets.replace(b"&#", b"%26%23").replace(b";", b"%3B")
        return _ENCODED_IN_QUERIES.sub(lambda octet: b"%%%02X" % ord(octet[0]), octets).decode("ascii")

    query, hash_mark, fragment = rest.partition("#")
    return before + "?" + _NOT_ASCII.sub(encoded, query) + hash_mark + fragment
