"""Which attributes of HTML and SVG elements hold references, in which form, and how they are followed.

A reference to another page is a link (`L`), one to a part of the page an embed (`E`), as in Heritrix.
"""

from collections.abc import Mapping
from enum import Enum

from .links import Hop


class Form(Enum):
    """How a value holds references."""

    URI = "one"
    SRCSET = "several, each with descriptors"
    CSS = "declarations of a style"
    LAZY = "one, if it looks like one; scripts may use it in other ways"


Rule = tuple[Form, Hop]
Rules = Mapping[str, Rule | None]

ANY = ""
"""Stands for every tag without a rule of its own."""

_LINK: Rule = (Form.URI, Hop.LINK)
_EMBED: Rule = (Form.URI, Hop.EMBED)

# SVG's elements draw the target of their href or xlink:href.
_DRAWN = ("image", "use", "feimage", "script", "lineargradient", "radialgradient", "pattern", "textpath")
_HREFS: Rules = {"a": _LINK, "area": _LINK, **dict.fromkeys(_DRAWN, _EMBED)}
_LINKS: Rules = {ANY: _LINK}
_EMBEDS: Rules = {ANY: _EMBED}
_SRCSETS: Rules = {ANY: (Form.SRCSET, Hop.EMBED)}
_STYLES: Rules = {ANY: (Form.CSS, Hop.EMBED)}
_LAZY: Rules = {ANY: (Form.LAZY, Hop.EMBED)}

RULES: dict[str, Rules] = {
    **dict.fromkeys(("href", "xlink:href"), _HREFS),
    # Every element loads its src, custom elements included, but an <input> only as a picture.
    "src": {ANY: _EMBED, "input": None},
    **dict.fromkeys(("background", "poster", "lowsrc", "dynsrc"), _EMBEDS),
    **dict.fromkeys(("srcset", "imagesrcset"), _SRCSETS),
    **dict.fromkeys(("longdesc", "cite"), _LINKS),
    "data": {"object": _EMBED},
    **dict.fromkeys(("style", "data-style", "data-lazy-style"), _STYLES),
    # Pictures and frames that scripts load when they come into view: lazysizes, lozad, vanilla-lazyload,
    # jQuery.lazyload (data-original), WordPress (data-lazy-src), backgrounds (data-bg). Left out: data-url
    # and data-link, which are as often a URI to call or to share.
    **dict.fromkeys(
        (
            *("data-src", "data-original", "data-lazy", "data-lazy-src", "data-lazyload", "data-poster"),
            *("data-full-src", "data-large-src", "data-hi-res-src", "data-src-retina", "data-thumb"),
            *("data-bg", "data-background", "data-background-image", "data-bg-src", "data-image"),
            *("data-bg-image", "data-bg-url", "data-bg-hidpi", "data-bg-multi", "data-bg-multi-hidpi"),
            *("data-lazy-bg", "data-lazy-background", "data-lazy-background-image", "data-ll-bg"),
        ),
        _LAZY,
    ),
    **dict.fromkeys(("data-srcset", "data-lazy-srcset", "data-original-set", "data-bgset"), _SRCSETS),
    # Rows and cards that a script makes clickable.
    "data-href": {ANY: (Form.LAZY, Hop.LINK)},
}
"""By attribute, then by tag: how the value refers. None: it does not."""

METAS: dict[str, Hop] = {
    **dict.fromkeys(
        (
            *("og:image", "og:image:url", "og:image:secure_url", "og:audio", "og:audio:secure_url"),
            *("og:video", "og:video:url", "og:video:secure_url", "twitter:image", "twitter:image:src"),
            *("twitter:player", "twitter:player:stream", "thumbnail", "msapplication-tileimage"),
            *("msapplication-square70x70logo", "msapplication-square150x150logo"),
            *("msapplication-wide310x150logo", "msapplication-square310x310logo"),
        ),
        Hop.EMBED,
    ),
    "og:url": Hop.LINK,
}
"""The `<meta>`s, by name or property, whose content is a URI."""

PARAMS = frozenset({"movie", "src", "filename", "url"})
"""The `<param>`s of plugins whose value is the file that they play."""
