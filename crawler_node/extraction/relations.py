"""Link relations: the `rel` of `<link>`, of the Link header and of Atom's `<link>`."""

from .links import Hop

_MAX_REL_CHARS = 1000

# Other relations (preconnect, dns-prefetch, pingback, hub, EditURI) lead to no document.
_EMBEDDED = (
    *("stylesheet", "icon", "mask-icon", "fluid-icon", "manifest", "preload", "modulepreload", "import"),
    *(
        "apple-touch-icon",
        "apple-touch-icon-precomposed",
        "apple-touch-startup-image",
        "image_src",
        "enclosure",
    ),
)
_LINKED = (
    *("canonical", "alternate", "amphtml", "shortlink", "help", "search", "author", "license", "related"),
    *("next", "prev", "previous", "first", "last", "start", "up", "top", "index", "contents", "toc"),
    *("chapter", "section", "subsection", "appendix", "glossary", "copyright", "archives", "bookmark"),
    *("privacy-policy", "terms-of-service", "prefetch", "prerender"),
)
_HOPS = dict.fromkeys(_EMBEDDED, Hop.EMBED) | dict.fromkeys(_LINKED, Hop.LINK)


def hop_of(rel: str) -> Hop | None:
    """The hop of a `rel`. A part of the page goes before another page. None when there is no document to
    follow."""
    hops = {_HOPS[word] for word in words(rel) if word in _HOPS}
    return Hop.EMBED if Hop.EMBED in hops else next(iter(hops), None)


def is_nofollow(rel: str) -> bool:
    """Whether a `rel` says nofollow."""
    return "nofollow" in words(rel)


def words(rel: str) -> list[str]:
    """The relations that a `rel` names, in lower case."""
    return rel[:_MAX_REL_CHARS].lower().split()
