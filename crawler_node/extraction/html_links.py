"""The links of an HTML document, or of a picture in SVG.

It has a tokenizer and no tree, so that time is in proportion to the length, whatever the nesting. Links in
`<template>`, `<noscript>`, `<noframes>` and `srcdoc` count as well.
"""

import re
from collections.abc import Callable, Iterator, Sequence

import turbohtml

from .css_links import css_references
from .document import Document
from .encoders import encoder_of
from .header_links import refresh_target
from .html_rules import ANY, METAS, PARAMS, RULES, Form, Rule
from .json_links import hop_of_property, json_references
from .links import Hop, Outlink, References, is_plausible
from .relations import hop_of, is_nofollow, words
from .robots_meta import meta_forbids
from .script_links import SCRIPT_TYPES, script_references
from .tokens import tokens

_START_TAG = turbohtml.TokenType.START_TAG
_TEXT = turbohtml.TokenType.TEXT

_FALLBACKS = frozenset({"noscript", "noframes"})
_NOSCRIPT = re.compile("<n(?=oscript)", re.IGNORECASE)
_READ = _FALLBACKS | {"style", "script"}
_JSON_TYPE = "application/ld+json"
_RELATING = ("rel", "rev", "itemprop", "property")
"""What says how a `<link>` relates to the page; without all of them, it is just a link."""
_MAX_CONTEXT_CHARS = 32  # of the names of elements and attributes

# Pages also write data-bg as the style that it becomes, or as a declaration of it.
_STYLE = re.compile(
    r"\s*+(?:[\w-]++\s*+:\s*+)?+"
    r"(?:url|src|(?:-webkit-)?image-set|(?:-\w++-)?(?:repeating-)?(?:linear|radial|conic)-gradient|cross-fade)\(",
    re.IGNORECASE,
)
_SRCSET_URI = re.compile(r"[ \t\n\f\r,]*+([^ \t\n\f\r]++)")  # other blanks are part of a name
_SRCSET_DESCRIPTORS = re.compile(r"(?:[^,(]++|\([^)]*+\)?)*+")


def html_links(document: Document, text: str, is_xml: bool = False) -> Iterator[Outlink]:
    """The document's links, in the order of their appearance.

    The first `<base href>` holds for all links, and so does the page's charset for their queries. If the page
    forbids robots to follow its links, and the settings obey that, `document.follow` is False afterwards.
    """
    page = _Page(document, is_xml)
    page.read(text)
    if document.follow != page.follows:  # the page forbids it, for the links before that as well
        page = _Page(document, is_xml)
        page.read(text)
    base = document.base.written_in(encoder_of(document.codec))
    return page.references.outlinks(base.moved(page.base))


class _Page:
    """Reads a document from its start to its end, or until it has enough links."""

    def __init__(self, document: Document, is_xml: bool) -> None:
        self.base: str | None = None
        self.follows = document.follow
        self.references = References(document.settings.max_links, document.follow)
        self._add = self.references.add
        self._document = document
        self._settings = document.settings
        self._is_xml = is_xml
        self._script_type = ""  # of the last <script>
        self._is_get_form = True  # the last <form>
        self._is_inner = False
        self._javascript = document.settings.javascript
        self._rules: dict[tuple[str, str], tuple[Rule | None, str]] = {}
        self._elements: dict[str, Callable[[turbohtml.Token], None]] = {
            **dict.fromkeys(_READ, _pass),
            "base": self._read_base,
            "meta": self._read_meta,
            "link": self._read_link,
            "form": self._read_form,
            "button": self._read_button,
            "input": self._read_input,
            "param": self._read_param,
            "iframe": self._read_frame,
            "script": self._read_script,
        }

    def read(self, text: str) -> None:
        """Reads a document."""
        elements, references = self._elements, self.references
        every_name = self._javascript
        content = ""  # the element whose content the next text is, if it is one that is read
        for token in tokens(text, self._is_xml):
            kind = token.type
            if kind is _START_TAG:
                tag = token.tag or ""
                attributes = token.attrs or ()
                for name, _ in attributes:
                    if name in RULES or every_name:  # most elements have nothing but a class or an id
                        self._read_attributes(tag, attributes)
                        break
                if references.full:
                    return
                content = ""
                if tag in elements:
                    elements[tag](token)
                    if self.follows != self._document.follow:
                        return
                    content = tag if tag in _READ else ""
            elif kind is not _TEXT:
                content = ""
            elif content:
                self._read_content(content, token.data or "")

    def _read_inner(self, text: str) -> None:
        """Reads a document that is one text to the tokenizer. Ignores documents within that, lest nesting
        take quadratic time."""
        if not self._is_inner:
            self._is_inner = True
            self.read(text)
            self._is_inner = False

    def _read_content(self, tag: str, text: str) -> None:
        if tag in _FALLBACKS:
            # One that is not closed has the next one in it, whose content must not be one text again.
            self._read_inner(_NOSCRIPT.sub("<x", text))
        elif tag == "style":
            self._read_css(text, "style")
        elif self._script_type == _JSON_TYPE:
            for reference, hop in self._document.attempt("json", json_references, text):
                self._add(reference, hop, "json-ld")
        elif self._settings.javascript and self._script_type in SCRIPT_TYPES:
            self._search_script(text, "script")

    def _read_attributes(self, tag: str, attributes: Sequence[tuple[str, str]]) -> None:
        found = self.references.found
        forbids_links = self._settings.obey_nofollow and is_nofollow(_value(attributes, "rel"))
        for name, value in attributes:
            if name not in RULES:
                if self._javascript and name.startswith("on"):
                    self._search_script(value, f"@{name}"[:_MAX_CONTEXT_CHARS])
                continue
            rule, context = self._rules.get((name, tag)) or self._rule_of(name, tag)
            if rule is None or not value:
                continue
            form, hop = rule
            if hop is Hop.LINK and forbids_links:
                continue
            if form is Form.URI:
                if value not in found:  # pages repeat themselves, and this is the rule
                    self._add(value, hop, context)
                if self._javascript and value[:11].lower() == "javascript:":
                    self._search_script(value[11:], context)
            elif form is Form.CSS or (name.startswith("data-") and _STYLE.match(value)):
                self._read_css(value, context)
            elif form is Form.SRCSET:
                for reference in _srcset(value):
                    self._add(reference, hop, context)
            elif is_plausible(value):
                self._add(value, hop, context)

    def _rule_of(self, name: str, tag: str) -> tuple[Rule | None, str]:
        """The rule for an attribute of a tag, and its context; cached, as pages repeat themselves."""
        rules = RULES[name]
        known = rules[tag] if tag in rules else rules.get(ANY), f"{tag[:_MAX_CONTEXT_CHARS]}/@{name}"
        self._rules[name, tag] = known
        return known

    def _read_css(self, css: str, context: str) -> None:
        if "(" in css or "@" in css:
            for reference in self._document.attempt("css", css_references, css):
                self._add(reference, Hop.EMBED, context)

    def _search_script(self, script: str, context: str) -> None:
        for reference in self._document.attempt("javascript", script_references, script, inline=True):
            self._add(reference, Hop.SPECULATIVE, context)

    def _read_base(self, token: turbohtml.Token) -> None:
        if self.base is None and not self._is_inner:
            self.base = token.attr("href")

    def _read_meta(self, token: turbohtml.Token) -> None:
        content = token.attr("content") or ""
        if (token.attr("http-equiv") or "").lower() == "refresh":
            if target := refresh_target(content):
                self._add(target, Hop.REDIRECT, "meta/@content")
            return
        name = (token.attr("name") or "").lower()
        if self._settings.obey_robots_meta and meta_forbids(name, content, self._document.product_token):
            self._document.follow = False
        hop = METAS.get(name) or METAS.get((token.attr("property") or "").lower())
        hop = hop or hop_of_property(token.attr("itemprop") or "")
        if hop and is_plausible(content):
            self._add(content, hop, "meta/@content")

    def _read_link(self, token: turbohtml.Token) -> None:
        rel = token.attr("rel") or ""
        hop = hop_of(rel) or hop_of_property(token.attr("itemprop") or "")
        if hop is None and not any(words(token.attr(name) or "") for name in _RELATING):
            hop = Hop.LINK
        if hop and not (hop is Hop.LINK and self._settings.obey_nofollow and is_nofollow(rel)):
            self._add_if_any(token.attr("href"), hop, "link/@href")

    def _read_form(self, token: turbohtml.Token) -> None:
        self._is_get_form = _is_get(token.attr("method"))
        if self._is_get_form:
            self._add_action(token, "action")

    def _read_button(self, token: turbohtml.Token) -> None:
        method = token.attr("formmethod")
        if self._is_get_form if method is None else _is_get(method):
            self._add_action(token, "formaction")

    def _add_action(self, token: turbohtml.Token, name: str) -> None:
        """Adds the target of a form that gets a page. Forms that post might change something."""
        if not (self._settings.obey_nofollow and is_nofollow(token.attr("rel") or "")):
            self._add_if_any(token.attr(name), Hop.LINK, f"{token.tag}/@{name}")

    def _read_input(self, token: turbohtml.Token) -> None:
        if (token.attr("type") or "").lower() == "image":
            self._add_if_any(token.attr("src"), Hop.EMBED, "input/@src")
        self._read_button(token)

    def _read_param(self, token: turbohtml.Token) -> None:
        value = token.attr("value") or ""
        if (token.attr("name") or "").lower() in PARAMS and is_plausible(value):
            self._add(value, Hop.EMBED, "param/@value")

    def _read_frame(self, token: turbohtml.Token) -> None:
        self._read_inner(token.attr("srcdoc") or "")

    def _read_script(self, token: turbohtml.Token) -> None:
        self._script_type = (token.attr("type") or "").split(";")[0].strip().lower()

    def _add_if_any(self, reference: str | None, hop: Hop, context: str) -> None:
        if reference:
            self._add(reference, hop, context)


def _pass(token: turbohtml.Token) -> None:
    """Does nothing, as only the content of the element matters."""


def _is_get(method: str | None) -> bool:
    """Whether a form with this method gets a page: methods that do not exist mean GET."""
    return (method or "").strip().lower() not in ("post", "dialog")


def _value(attributes: Sequence[tuple[str, str]], wanted: str) -> str:
    return next((value for name, value in attributes if name == wanted), "")


def _srcset(value: str) -> Iterator[str]:
    """The URIs of a srcset, each followed by descriptors up to a comma out of brackets (WHATWG HTML
    4.8.4.2.1)."""
    at = 0
    while found := _SRCSET_URI.match(value, at):
        uri, at = found[1], found.end()
        if uri.endswith(","):
            uri = uri.rstrip(",")
        else:
            descriptors = _SRCSET_DESCRIPTORS.match(value, at)
            assert descriptors is not None  # it also matches nothing
            at = descriptors.end()
        yield uri
