"""The scope: decides which URIs belong to a crawl.

Hosts in scope are rows of the store, as there may be millions of seeds. All other rules
are settings of the crawl, and decide without the store.
"""

import sys
from typing import NamedTuple

from ..rows.keys import scope_key
from ..rows.store import Family, Transaction
from ..spec.settings import ScopeSettings
from .assign import Places, hash64
from .canonical import CanonicalUri, Malformed, TooLong, UnsupportedScheme, canonical
from .patterns import PatternList
from .surt import SurtPrefixes, surt_of, surt_prefix
from .traps import path_repeats, too_many_segments

EMBEDDED = "EXI"
MAX_SHOWN = 80
MAX_SEED_REDIRECTS = 5  # Heritrix's seedsRedirectNewSeeds
HOP_RULES = frozenset({"max_link_hops", "max_embed_hops", "max_redirect_hops"})
"""The rules whose verdict is TOO_MANY_HOPS."""


def hop_rule(path: str, scope: ScopeSettings) -> str:
    """The rule that a discovery path exceeds, or "".

    As in Heritrix, all links and manifests count, redirects count while they follow each
    other, and embeds count since the last link. Prerequisites and submissions are free.
    """
    if not path:
        return ""
    if path.count("L") + path.count("M") > scope.max_link_hops:
        return "max_link_hops"
    redirects = len(path) - len(path.rstrip("R"))
    if redirects > scope.max_redirect_hops:
        return "max_redirect_hops"
    since_link = path[max(path.rfind("L"), path.rfind("M")) + 1 :]
    if sum(since_link.count(hop) for hop in EMBEDDED) > scope.max_embed_hops:
        return "max_embed_hops"
    return ""


def seed_redirect(path: str) -> bool:
    """Whether a URI was reached from a seed by at most five redirects and nothing else."""
    return 0 < len(path) <= MAX_SEED_REDIRECTS and path.strip("R") == ""


def requisite(path: str) -> bool:
    """Whether a URI is embedded in a page, by itself or after redirects."""
    return "E" in path[len(path.rstrip("ER")) :]


def authority_in_scope(tx: Transaction, places: Places, crawl: int, host: str, authority: str) -> bool:
    """Whether a host (and port, if not the scheme's own) has been added to the scope."""
    return tx.get(Family.INDEX, scope_key(crawl, places.of_host(host), hash64(authority))) is not None


def add_authority(tx: Transaction, places: Places, crawl: int, host: str, authority: str) -> None:
    """Add a host to the scope."""
    tx.put(Family.INDEX, scope_key(crawl, places.of_host(host), hash64(authority)), b"\x01")


def parse_authority(text: str) -> tuple[str, str]:
    """The host and authority of a spec's `host` or `host:port`. Raises Malformed."""
    wrong = f"{text[:MAX_SHOWN]!r} is not HOST or HOST:PORT"
    if not text or any(mark in text for mark in "/?#@\\ \t\r\n"):
        raise Malformed(wrong)
    try:
        uri = canonical(f"http://{text}/")
    except (Malformed, UnsupportedScheme, TooLong) as problem:
        raise Malformed(wrong) from problem
    # `:443` is the default port of https: it means the host itself.
    return uri.host, uri.authority.removesuffix(":443")


def parse_prefix(text: str) -> tuple[bool, str]:
    """Whether a spec's `+PREFIX`, `-PREFIX` or `PREFIX` lets URIs in, and its SURT prefix.

    Raises Malformed.
    """
    sign = text[:1] if text[:1] in ("+", "-") else ""
    return sign != "-", surt_prefix(text[len(sign) :])


class ScopeStanding(NamedTuple):
    """The scope's answer by a URI's scheme and prefixes, before its host, path and discovery path count."""

    refused_by: str  # the rule that refuses it in any case, or ""
    let_in: bool = False  # by a prefix

    @property
    def leaves_it_to_hosts(self) -> bool:
        """Whether it matters that its host is in scope."""
        return not (self.refused_by or self.let_in)


_NO_SCHEME, _KEPT_OUT = ScopeStanding("schemes"), ScopeStanding("surt_prefixes")
_LET_IN, _NOTHING_SAID = ScopeStanding("", True), ScopeStanding("")


class ScopeRules:
    """A crawl's scope without its hosts, compiled once.

    A URI is out, in this order,

    1. if its scheme is not among `schemes`;
    2. if the longest of `surt_prefixes` that its SURT begins with is a `-`;
    3. unless it is a seed, its host is in scope, that longest prefix is a `+`, one of
       `accept_patterns` matches it, or it is a page's requisite and `page_requisites` is set
       (`hosts`);
    4. if there are `required_patterns` and none matches it, unless it is a seed, a seed
       redirects to it, or it is a page's requisite and `page_requisites` is set;
    5. if one of `reject_patterns` matches it;
    6. unless it is a seed: if its path repeats itself or has too many segments, or its
       discovery path has too many hops.
    """

    def __init__(self, settings: ScopeSettings) -> None:
        """Raises Malformed or BadPattern for settings that `spec_problems` refuses."""
        self._settings = settings
        self._schemes = frozenset(settings.schemes)
        self._prefixes: SurtPrefixes[bool] = SurtPrefixes()
        for text in settings.surt_prefixes:
            lets_in, prefix = parse_prefix(text)
            self._prefixes.put(prefix, lets_in)
        self._accepting = PatternList(settings.accept_patterns) if settings.accept_patterns else None
        self._required = PatternList(settings.required_patterns) if settings.required_patterns else None
        self._rejecting = PatternList(settings.reject_patterns) if settings.reject_patterns else None
        # Up to so many slashes and hops no rule can refuse a URI: most have no more.
        slashes = []
        if settings.max_path_repetitions:
            slashes.append(settings.max_path_repetitions + 1)
        if settings.max_path_segments:
            slashes.append(settings.max_path_segments)
        self._few_slashes = min(slashes, default=sys.maxsize)
        self._few_hops = min(settings.max_link_hops, settings.max_embed_hops, settings.max_redirect_hops)

    def judge(self, uri: CanonicalUri, path: str, seed: bool, host_in_scope: bool) -> str:
        """The rule that refuses a URI with this discovery path; "" if it belongs to the crawl.

        The rule is a field of the contract's ScopeSpec, for a pattern with its place
        (`reject_patterns[2]`). For a redirected seed pass a true `host_in_scope`, and add its
        host to the scope unless it is refused.
        """
        return self.judge_standing(self.standing(uri), uri.uri, len(uri.origin), path, seed, host_in_scope)

    def standing(self, uri: CanonicalUri) -> ScopeStanding:
        """The standing of a URI: by its scheme and the longest prefix of its SURT."""
        return self.standing_of(uri.scheme, surt_of(uri))

    def standing_of(self, scheme: str, surt: str) -> ScopeStanding:
        if scheme not in self._schemes:
            return _NO_SCHEME
        found = self._prefixes.longest(surt)
        if found is None:
            return _NOTHING_SAID
        return _LET_IN if found[1] else _KEPT_OUT

    @property
    def has_prefixes(self) -> bool:
        """Whether SURTs matter."""
        return len(self._prefixes) > 0

    def tells_apart(self, surt: str) -> bool:
        """Whether URIs of a SURT's origin may differ in their standing."""
        return self._prefixes.tells_apart(surt)

    def judge_standing(
        self, standing: ScopeStanding, text: str, target_at: int, path: str, seed: bool, host_in_scope: bool
    ) -> str:
        """`judge` for a canonical URI with this standing, whose path begins at `target_at`."""
        if standing.refused_by:
            return standing.refused_by
        if not (host_in_scope or seed or standing.let_in or self._accepts(text, path)):
            return "hosts"
        if not (self._required is None or seed or self._satisfies(self._required, text, path)):
            return "required_patterns"
        if self._rejecting is not None and (place := self._rejecting.first(text)) is not None:
            return f"reject_patterns[{place}]"
        if seed:
            return ""
        if text.count("/", target_at) > self._few_slashes and (trap := self._trap(text[target_at:])):
            return trap
        return hop_rule(path, self._settings) if len(path) > self._few_hops else ""

    def _accepts(self, text: str, path: str) -> bool:
        if self._wants_requisite(path):
            return True
        return self._accepting is not None and self._accepting.first(text) is not None

    def _satisfies(self, required: PatternList, text: str, path: str) -> bool:
        return seed_redirect(path) or self._wants_requisite(path) or required.first(text) is not None

    def _wants_requisite(self, path: str) -> bool:
        return self._settings.page_requisites and requisite(path)

    def longest_prefix(self, uri: CanonicalUri) -> str:
        """The longest of `surt_prefixes` that a URI begins with, or ""."""
        found = self._prefixes.longest(surt_of(uri))
        return found[0] if found is not None else ""

    def _trap(self, target: str) -> str:
        path = target.partition("?")[0]
        if path_repeats(path, self._settings.max_path_repetitions):
            return "max_path_repetitions"
        if too_many_segments(path, self._settings.max_path_segments):
            return "max_path_segments"
        return ""
