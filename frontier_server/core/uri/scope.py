"""Which URIs belong to a crawl.

Hosts in scope are rows of the store, as there may be millions of seeds. All other rules
are the crawl's settings, and decide without the store.
"""

import sys

from ..keys import scope_key
from ..spec.settings import ScopeSettings
from ..store import Family, Transaction
from .assign import hash64, partition_of
from .canonical import CanonicalUri, Malformed, TooLong, UnsupportedScheme, canonical
from .patterns import PatternList
from .surt import SurtPrefixes, surt_of, surt_prefix
from .traps import path_repeats, too_many_segments

EMBEDDED = "EXI"
MAX_SHOWN = 80
MAX_SEED_REDIRECTS = 5  # Heritrix 2.2, seedsRedirectNewSeeds
MAX_ORIGINS = 20_000
HOP_RULES = frozenset({"max_link_hops", "max_embed_hops", "max_redirect_hops"})
"""The rules whose verdict is TOO_MANY_HOPS."""


def hops_exceeded(path: str, scope: ScopeSettings) -> bool:
    """Whether a discovery path is longer than the scope allows."""
    return hop_rule(path, scope) != ""


def hop_rule(path: str, scope: ScopeSettings) -> str:
    """The rule by which a discovery path is too long, "" if it is not.

    Heritrix 2.10: links and manifests count for ever, redirects as long as they follow
    each other, what is embedded since the last link. Prerequisites and speculation are free.
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


def authority_in_scope(tx: Transaction, crawl: int, host: str, authority: str) -> bool:
    """Whether a host (and port, if not the scheme's own) has been added to the scope."""
    return tx.get(Family.INDEX, scope_key(crawl, partition_of(host), hash64(authority))) is not None


def add_authority(tx: Transaction, crawl: int, host: str, authority: str) -> None:
    """Add a host to the scope."""
    tx.put(Family.INDEX, scope_key(crawl, partition_of(host), hash64(authority)), b"\x01")


def parse_authority(text: str) -> tuple[str, str]:
    """`host` or `host:port` of a spec → host and authority. Raises Malformed."""
    wrong = f"{text[:MAX_SHOWN]!r} is not HOST or HOST:PORT"
    if not text or any(mark in text for mark in "/?#@\\ \t\r\n"):
        raise Malformed(wrong)
    try:
        uri = canonical(f"http://{text}/")
    except (Malformed, UnsupportedScheme, TooLong) as problem:
        raise Malformed(wrong) from problem
    # `:443` is https's own port: the host itself is meant.
    return uri.host, uri.authority.removesuffix(":443")


def parse_prefix(text: str) -> tuple[bool, str]:
    """`+PREFIX`, `-PREFIX` or `PREFIX` of a spec → whether it lets in, and its SURT prefix.

    Raises Malformed.
    """
    sign = text[:1] if text[:1] in ("+", "-") else ""
    return sign != "-", surt_prefix(text[len(sign) :])


class ScopeRules:
    """A crawl's scope but for its hosts, made ready once.

    The order of decision:

    1. A scheme that is not among `schemes` is out.
    2. The longest of `surt_prefixes` that the URI's SURT begins with: if it is a `-`, the URI is out.
    3. In is a seed, a host in scope, what the longest prefix is a `+` of, and what
       matches one of `accept_patterns`. All else is out (`hosts`).
    4. What matches one of `reject_patterns` is out.
    5. A seed is in, whatever its path. Of all others a path that repeats itself or has too
       many segments is out, and so is a discovery path with too many hops.
    """

    def __init__(self, settings: ScopeSettings) -> None:
        """Raises Malformed or BadPattern for settings that `spec_problems` would refuse."""
        self._settings = settings
        self._schemes = frozenset(settings.schemes)
        self._prefixes: SurtPrefixes[bool] = SurtPrefixes()
        self._deep: set[str] = set()  # SURTs of authorities, of prefixes with a path
        for text in settings.surt_prefixes:
            lets_in, prefix = parse_prefix(text)
            self._prefixes.put(prefix, lets_in)
            authority, closed, path = prefix.partition(")")
            if len(path) > 1:
                self._deep.add(authority + closed)
        self._origins: dict[str, bool | None] = {}  # of which the path decides nothing → what `_let_in` says
        self._accepting = PatternList(settings.accept_patterns)
        self._rejecting = PatternList(settings.reject_patterns)
        # So many slashes, and so many hops, are well whatever they are: most URIs have no more.
        slashes = []
        if settings.max_path_repetitions:
            slashes.append(settings.max_path_repetitions + 1)
        if settings.max_path_segments:
            slashes.append(settings.max_path_segments)
        self._few_slashes = min(slashes, default=sys.maxsize)
        self._few_hops = min(settings.max_link_hops, settings.max_embed_hops, settings.max_redirect_hops)

    def judge(self, uri: CanonicalUri, path: str, seed: bool, host_in_scope: bool) -> str:
        """The rule that refuses a URI with this discovery path; "" if it belongs to the crawl.

        The rule is a field of the contract's ScopeSpec, a pattern with its place
        (`reject_patterns[2]`). For a redirected seed `host_in_scope` is true; its host is
        to be added to the scope only when it is not refused.
        """
        if uri.scheme not in self._schemes:
            return "schemes"
        lets_in = self._let_in(uri)
        if lets_in is False:
            return "surt_prefixes"
        if not (host_in_scope or seed or lets_in) and self._accepting.first(uri.uri) is None:
            return "hosts"
        if (place := self._rejecting.first(uri.uri)) is not None:
            return f"reject_patterns[{place}]"
        if seed:
            return ""
        if uri.target.count("/") > self._few_slashes and (trap := self._trap(uri.target)):
            return trap
        return hop_rule(path, self._settings) if len(path) > self._few_hops else ""

    def _let_in(self, uri: CanonicalUri) -> bool | None:
        """Whether the longest prefix of a URI lets it in; None if it begins with none.

        Remembered for origins of which no prefix has a path, for links come in swarms.
        """
        if uri.origin in self._origins:
            return self._origins[uri.origin]
        if not len(self._prefixes):
            return None
        surt = surt_of(uri)
        found = self._prefixes.longest(surt)
        lets_in = found[1] if found is not None else None
        if surt[: surt.index(")") + 1] not in self._deep:
            if len(self._origins) >= MAX_ORIGINS:
                self._origins.clear()
            self._origins[uri.origin] = lets_in
        return lets_in

    def longest_prefix(self, uri: CanonicalUri) -> str:
        """The longest of `surt_prefixes` that a URI begins with; "" if none does."""
        found = self._prefixes.longest(surt_of(uri))
        return found[0] if found is not None else ""

    def _trap(self, target: str) -> str:
        path = target.partition("?")[0]
        if path_repeats(path, self._settings.max_path_repetitions):
            return "max_path_repetitions"
        if too_many_segments(path, self._settings.max_path_segments):
            return "max_path_segments"
        return ""
