r"""Which URIs are the same: rules under which a crawl takes two of them for one (Heritrix 2.4).

By default there is none: two URIs are the same when their canonical forms are, and
no page is lost. Each rule here trades pages for fewer doubles; a crawl names those it
wants. They decide sameness only, so the seen-set and the partition: what is fetched
is the canonical form of the first URI that came.

Rewrites come after the rules, in their order: a pattern (RE2), and what each place
that it matches becomes (`^https?://m\.` → `http://`).
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType

from ..spec.settings import IdentitySettings
from .canonical import MAX_URI_BYTES, CanonicalUri, Malformed, TooLong, UnsupportedScheme, canonical
from .patterns import compile_rewrites

Rule = Callable[[str], str]

_WWW = re.compile(r"(https?://)www[0-9]*\.([^/]*/.+)")
_SLASHES = re.compile(r"/{2,}")
_SESSION_PARAMETER = re.compile(r";(?:jsessionid|phpsessid)=[0-9a-z]{32}(?=[/;?]|$)", re.IGNORECASE)
_SESSION_FIELD = re.compile(
    r"(?:jsessionid|phpsessid|sid)=[0-9a-z]{32}|aspsessionid[a-z]{8}=[a-z]{24}", re.IGNORECASE
)
_COLD_FUSION = frozenset({"cfid", "cftoken"})


def identity_of(uri: CanonicalUri, settings: IdentitySettings) -> CanonicalUri:
    """The URI that stands for all that are the same as this one.

    It is a canonical URI, too, and the very same object when no rule changes it. If the
    rules make something of it that is no URI, it stands for itself.
    """
    if not settings.rules and not settings.rewrites:
        return uri
    text = uri.uri
    for rule in _chain(settings):
        text = rule(text)
    if text == uri.uri:
        return uri
    try:
        return canonical(text)
    except (Malformed, UnsupportedScheme, TooLong):
        return uri


def lower_case(uri: str) -> str:
    """All in lower case.

    Loses pages of servers on case-sensitive file systems, and of ids that case tells
    apart (short links, video ids): `/A` and `/a` are often two pages there.
    """
    return uri.lower()


def strip_www(uri: str) -> str:
    """`www.`, `www2.` and the like off the host, unless it is the home page.

    Loses the pages of the one host when both answer and differ. Home pages stay two:
    if only one of the hosts answers, the crawl still finds it.
    """
    match = _WWW.fullmatch(uri)
    return match[1] + match[2] if match else uri


def strip_session_ids(uri: str) -> str:
    """Session ids of Java, PHP and ASP: `jsessionid`, `phpsessid` and `sid` of 32 letters
    and digits, `aspsessionid` and eight letters with 24; as fields of the query, the
    first two also as `;jsessionid=…` in the path.

    Loses pages where such a field is more than a session: a `sid` that names a story or
    a station. (Heritrix takes one of each, and any field that ends in `sid`.)
    """
    return _without_fields(
        _SESSION_PARAMETER.sub("", uri), lambda fields: [f for f in fields if not _SESSION_FIELD.fullmatch(f)]
    )


def strip_cf_ids(uri: str) -> str:
    """ColdFusion's session: `cfid` and `cftoken`, where both are in the query, and the
    `jsessionid` that goes with them.

    Loses next to nothing: the two together are ColdFusion's.
    """
    return _without_fields(uri, _without_cold_fusion)


def strip_extra_slashes(uri: str) -> str:
    """One slash for several in the path.

    Loses pages of servers that take an empty segment for a value (`/search//2`), or have
    another URL in their path (`/save/http://…`).
    """
    start = uri.find("/", uri.index("://") + 3) if "://" in uri else -1
    if start < 0:
        return uri
    path, mark, query = uri[start:].partition("?")
    return uri[:start] + _SLASHES.sub("/", path) + mark + query


def fix_query(uri: str) -> str:
    """`&` off the beginning and the end of the query, and `?` when nothing follows it.

    Loses next to nothing: hardly a server tells an empty field from none.
    """
    before, mark, query = uri.partition("?")
    query = query.strip("&")
    return before + mark + query if query else before


def heritrix(uri: str) -> str:
    """Heritrix's default chain: lower-case, strip-www, strip-session-ids, strip-cf-ids,
    fix-query. (User names and passwords are never part of a canonical URI.)
    """
    return fix_query(strip_cf_ids(strip_session_ids(strip_www(lower_case(uri)))))


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "lower-case": lower_case,
        "strip-www": strip_www,
        "strip-session-ids": strip_session_ids,
        "strip-cf-ids": strip_cf_ids,
        "strip-extra-slashes": strip_extra_slashes,
        "fix-query": fix_query,
        "heritrix": heritrix,
    }
)


@lru_cache(maxsize=256)
def _chain(settings: IdentitySettings) -> tuple[Rule, ...]:
    """All that is done to a URI, in order."""
    rules = [RULES[name] for name in settings.rules]
    if settings.rewrites:
        pairs = [(rewrite.pattern, rewrite.replacement) for rewrite in settings.rewrites]
        rules.append(compile_rewrites(pairs, MAX_URI_BYTES))
    return tuple(rules)


def _without_fields(uri: str, kept: Callable[[list[str]], list[str]]) -> str:
    """A URI with some of its query's fields."""
    before, mark, query = uri.partition("?")
    if not mark:
        return uri
    fields = kept(query.split("&"))
    return before + mark + "&".join(fields) if fields else before


def _without_cold_fusion(fields: list[str]) -> list[str]:
    names = [field.partition("=")[0].lower() for field in fields]
    if not _COLD_FUSION.issubset(names):
        return fields
    return [
        field
        for field, name in zip(fields, names, strict=True)
        if name not in _COLD_FUSION and name != "jsessionid"
    ]
