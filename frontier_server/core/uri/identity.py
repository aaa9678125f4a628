r"""Rules that make a crawl treat two different URIs as the same.

By default there are none: two URIs are the same when their canonical forms are, and
no page is lost. Each rule avoids duplicates, but may lose pages; a crawl's spec names
the rules that it wants. They affect only the seen-set and the partition: the crawl
fetches the canonical form of the first URI that came.

Rewrites follow the rules, in their order: each match of an RE2 pattern is replaced
(`^https?://m\.` → `http://`). What they leave is tidied by `fix-query` and
`percent-encoding`, if the spec names these.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from string import ascii_letters, digits
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
_UNRESERVED = frozenset(ascii_letters + digits + "-._~")
_ODD = re.compile(r"%([0-9A-Fa-f]{2})|[%\"<>\\^`{|}]")
_COLD_FUSION = frozenset({"cfid", "cftoken"})


def identity_of(uri: CanonicalUri, settings: IdentitySettings) -> CanonicalUri:
    """The URI that stands for all URIs that are the same as this one.

    It is canonical, too, and the very same object if no rule changes it. If the rules turn
    it into something that is not a URI, it stands for itself.
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
    """Turns the whole URI into lower case.

    Loses pages on case-sensitive file systems, and pages with case-sensitive ids (short
    links, video ids): `/A` and `/a` are often two pages there.
    """
    return uri.lower()


def strip_www(uri: str) -> str:
    """Removes `www.`, `www2.` and the like from the host, unless it is the home page.

    Loses the pages of one host if both hosts answer, and differ. The two home pages stay
    different: if only one of the hosts answers, the crawl still finds it.
    """
    match = _WWW.fullmatch(uri)
    return match[1] + match[2] if match else uri


def strip_session_ids(uri: str) -> str:
    """Removes session ids of Java, PHP and ASP: the query's fields `jsessionid`, `phpsessid`
    and `sid` with 32 letters and digits, and `aspsessionid` plus eight letters, with 24 letters;
    also `;jsessionid=…` and `;phpsessid=…` in the path.

    Loses pages if such a field is more than a session: a `sid` that names a story or a
    station. (Heritrix removes one of each, and any field that ends in `sid`.)
    """
    return _without_fields(
        _SESSION_PARAMETER.sub("", uri), lambda fields: [f for f in fields if not _SESSION_FIELD.fullmatch(f)]
    )


def strip_cf_ids(uri: str) -> str:
    """Removes ColdFusion's session: `cfid` and `cftoken`, if the query has both, and their
    `jsessionid`.

    Loses almost no page: only ColdFusion uses the two together.
    """
    return _without_fields(uri, _without_cold_fusion)


def strip_extra_slashes(uri: str) -> str:
    """Turns several slashes in a row of the path into one.

    Loses pages of servers that treat an empty segment as a value (`/search//2`), or have
    another URL in their path (`/save/http://…`).
    """
    start = uri.find("/", uri.index("://") + 3) if "://" in uri else -1
    if start < 0:
        return uri
    path, mark, query = uri[start:].partition("?")
    return uri[:start] + _SLASHES.sub("/", path) + mark + query


def fix_query(uri: str) -> str:
    """Removes `&` at the ends of the query, and then a `?` without a query.

    Loses almost no page: hardly any server tells an empty field from none.
    """
    before, mark, query = uri.partition("?")
    query = query.strip("&")
    return before + mark + query if query else before


def percent_encoding(uri: str) -> str:
    """Gives each character one form (RFC 3986, 6.2.2): `%7E` becomes `~`, `%e3` becomes `%E3`, and what a URI
    cannot have (`|`) is escaped.

    Loses almost no page: servers decode escapes before they look for a page.
    """
    return _ODD.sub(_one_form, uri)


def _one_form(match: re.Match[str]) -> str:
    if match[1] is None:
        return f"%{ord(match[0]):02X}"
    character = chr(int(match[1], 16))
    return character if character in _UNRESERVED else match[0].upper()


def heritrix(uri: str) -> str:
    """Applies Heritrix's default chain: lower-case, strip-www, strip-session-ids,
    strip-cf-ids, fix-query. (A canonical URI never has a user name or password.)
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
        "percent-encoding": percent_encoding,
        "heritrix": heritrix,
    }
)


TIDYING: Mapping[str, Rule] = MappingProxyType(
    {"fix-query": fix_query, "percent-encoding": percent_encoding, "heritrix": fix_query}
)
"""What rules do once more after rewrites, which may leave ends of queries and other spellings."""


@lru_cache(maxsize=256)
def _chain(settings: IdentitySettings) -> tuple[Rule, ...]:
    """All rules, rewrites, and rules that tidy up after these, in order."""
    rules = [RULES[name] for name in settings.rules]
    if settings.rewrites:
        pairs = [(rewrite.pattern, rewrite.replacement) for rewrite in settings.rewrites]
        rules.append(compile_rewrites(pairs, MAX_URI_BYTES))
        rules += [TIDYING[name] for name in settings.rules if name in TIDYING]
    return tuple(rules)


def _without_fields(uri: str, kept: Callable[[list[str]], list[str]]) -> str:
    """A URI with only the kept fields of its query."""
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
