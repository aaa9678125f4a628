"""Link relations: the `rel` of `<link>`, of the Link header and of Atom's `<link>`."""

from .links import Hop

_MAX_REL_CHARS = 1000

# Other relations (preconnect, dns-prefetch, pingback, hub, self, edit, EditURI) lead to no other document.
_EMBEDDED = (
    *("stylesheet", "stylesheet/less", "icon", "mask-icon", "fluid-icon", "manifest", "preload"),
    *("modulepreload", "import", "apple-touch-icon", "apple-touch-icon-precomposed"),
    *("apple-touch-startup-image", "image_src", "video_src", "audio_src", "thumbnail", "enclosure"),
)
_LINKED = (
    *("canonical", "alternate", "amphtml", "shortlink", "help", "search", "author", "license", "related"),
    *("next", "prev", "previous", "first", "last", "start", "up", "top", "index", "contents", "toc"),
    *("chapter", "section", "subsection", "appendix", "glossary", "copyright", "archives", "bookmark"),
    *("privacy-policy", "terms-of-service", "prefetch", "prerender"),
    *("home", "parent", "child", "begin", "end", "origin", "made", "me", "tag", "about", "disclosure"),
    *("item", "collection", "describedby", "describes", "cite-as", "linkset", "service-doc", "service-desc"),
    *("prev-archive", "next-archive", "current", "replies", "via"),  # RFC 5005, 4685 and 4287, of feeds
    *("latest-version", "predecessor-version", "successor-version", "version-history"),  # RFC 5829
    *("original", "memento"),  # RFC 7089
)
_HOPS = {
    **dict.fromkeys(_EMBEDDED, Hop.EMBED),
    **dict.fromkeys(_LINKED, Hop.LINK),
    "sitemap": Hop.SITEMAP,
}
_BEST_FIRST = (Hop.EMBED, Hop.SITEMAP, Hop.LINK)


def hop_of(rel: str) -> Hop | None:
    """The hop of a `rel`. A part of the page goes before a sitemap, and that before another page. None when
    there is no document to follow."""
    hops = {_HOPS[word] for word in words(rel) if word in _HOPS}
    return next((hop for hop in _BEST_FIRST if hop in hops), None)


def is_nofollow(rel: str) -> bool:
    """Whether a `rel` says nofollow."""
    return "nofollow" in words(rel)


def words(rel: str) -> list[str]:
    """The relations that a `rel` names, in lower case."""
    return rel[:_MAX_REL_CHARS].lower().split()
