"""The candidates that finished pages offer to Schedule: their links, each once, without those it knows."""

from collections.abc import Iterable, Iterator, Sequence

from cachetools import LRUCache

from toehold.frontier.v1.crawl_pb2 import (
    VERDICT_ALREADY_QUEUED,
    VERDICT_ALREADY_SEEN,
    VERDICT_AWAY,
    VERDICT_OUT_OF_SCOPE,
    VERDICT_QUEUED,
    VERDICT_ROBOTS_FORBIDDEN,
    VERDICT_TOO_MANY_HOPS,
    Verdict,
)
from toehold.frontier.v1.frontier_pb2 import Candidate
from toehold_client.verdicts import Verdicts

from ..extraction.links import LOCATION, Hop, Outlink
from .report import FinishedPage

MAX_KNOWN_LINKS = 50_000
"""The most links remembered for one crawl."""

MAX_KNOWN_CRAWLS = 4
"""The most crawls whose links are remembered."""

MAX_KNOWN_LINK_CHARS = 512
"""Longer links are not remembered, lest a hostile site fill the memory with them."""

REDIRECT_LOOP = "redirectLoop"
"""Annotates a page that redirects to where the frontier does not go once more."""

_KNOWN_BEFORE = frozenset((VERDICT_ALREADY_SEEN, VERDICT_ALREADY_QUEUED))
# Verdicts that no later offer can change, and those that only another path or another scope can change.
_SETTLED = frozenset((VERDICT_QUEUED, VERDICT_ALREADY_SEEN, VERDICT_ALREADY_QUEUED, VERDICT_ROBOTS_FORBIDDEN))
_REFUSED = frozenset((VERDICT_OUT_OF_SCOPE, VERDICT_TOO_MANY_HOPS))


class RecentLinks:
    """Texts of links that were added or asked for lately: the last MAX_KNOWN_LINKS, or half as many.

    Two sets take the place of a cache that knows the order of all: it would take longer than all else that is
    done with a known link.
    """

    __slots__ = ("_before", "_now")

    def __init__(self) -> None:
        self._now: set[str] = set()
        self._before: set[str] = set()

    def __contains__(self, uri: str) -> bool:
        if uri in self._now:
            return True
        if uri not in self._before:
            return False
        self.add(uri)
        return True

    def add(self, uri: str) -> None:
        """Note a link."""
        if len(self._now) >= MAX_KNOWN_LINKS // 2:
            self._now, self._before = set(), self._now
        self._now.add(uri)


class KnownLinks:
    """The links of a crawl that the frontier has judged: they let the node offer a link once that every page
    has. The links not seen for longest are forgotten first.
    """

    def __init__(self) -> None:
        self.settled = RecentLinks()
        """Those that the crawl has in its memory, by their raw text."""
        self._refused = RecentLinks()
        self._scope_version = b""

    def refused_under(self, scope_version: bytes) -> RecentLinks | None:
        """What a scope of this version has refused, as `attempt` spells it; None if that is not known."""
        return self._refused if scope_version and scope_version == self._scope_version else None

    def learn(self, offered: Iterable[Candidate], verdicts: Verdicts) -> None:
        """Remembers the verdicts on candidates."""
        if verdicts.scope_version != self._scope_version:
            self._refused, self._scope_version = RecentLinks(), verdicts.scope_version
        for candidate, verdict in zip(offered, verdicts, strict=True):
            uri = candidate.uri
            if len(uri) + len(candidate.path) > MAX_KNOWN_LINK_CHARS:
                continue
            if verdict in _SETTLED:
                self.settled.add(uri)
            elif verdict in _REFUSED and self._scope_version and not candidate.redirects:
                self._refused.add(attempt(candidate.path, uri))


class KnownOfCrawls:
    """The known links of a few crawls.

    What is known holds as long as the crawl's memory has the same version (Lease.seen_version). A frontier of
    several shards never tells that with its verdicts: then it holds for a spell of holding leases of the
    crawl (see HeldLease.spell).
    """

    def __init__(self) -> None:
        self._by_key: LRUCache[bytes | int, KnownLinks] = LRUCache(MAX_KNOWN_CRAWLS)
        self._is_told = False

    def of(self, spell: int, seen_version: bytes) -> KnownLinks:
        """The known links of the crawl of a spell, whose newest lease has that version."""
        return self._by_key.get(seen_version if self._is_told else spell) or KnownLinks()

    def learn(self, spell: int, offered: Iterable[Candidate], verdicts: Verdicts) -> None:
        """Remembers the verdicts on candidates that were offered in a spell."""
        self._is_told = self._is_told or bool(verdicts.seen_version)
        key = verdicts.seen_version if self._is_told else spell
        if key:
            known = self._by_key.get(key)
            if known is None:
                known = self._by_key[key] = KnownLinks()
            known.learn(offered, verdicts)

    def forget(self, spell: int) -> None:
        """Forgets what is known for a spell alone."""
        self._by_key.pop(spell, None)


def attempt(path: str, uri: str) -> str:
    """A URI together with the path that it is offered by, as one text."""
    return f"{path} {uri}"


def candidates(
    pages: Iterable[FinishedPage], known: KnownLinks, scope_version: bytes = b""
) -> list[Candidate]:
    """The candidates that pages of one crawl offer: each URI once, by the path with the fewest hops.

    Redirects come first, even when their URI is known or linked to: a seed's redirect widens the scope that
    links are judged by. Each of them is offered: what the target is fetched for depends on its source. A
    Location comes after the refreshes of its page, because the frontier takes the last one for where a seed
    leads. Known URIs that may have changed since their fetch are offered again. What the scope has refused is
    not, if the scope has this version still, and no page among these may widen it.
    """
    refreshes: list[Candidate] = []
    redirects: list[Candidate] = []
    links: dict[str, tuple[FinishedPage, Outlink]] = {}
    by_hops = sorted(pages, key=lambda page: len(page.held.lease.path))
    settled, refused = known.settled, known.refused_under(scope_version)
    if any(map(_may_widen_the_scope, by_hops)):
        refused = None
    for page in by_hops:
        path = page.held.lease.path
        for link in page.links:
            if link.hop is Hop.REDIRECT:
                (redirects if link.context == LOCATION else refreshes).append(_redirected(link, page))
            elif (link.refetch_before_ms is not None or link.uri not in settled) and (
                refused is None or attempt(path + link.hop, link.uri) not in refused
            ):
                links.setdefault(link.uri, (page, link))
    linked = [_candidate(uri, page, link.hop, link.refetch_before_ms) for uri, (page, link) in links.items()]
    return refreshes + redirects + linked


def _may_widen_the_scope(page: FinishedPage) -> bool:
    """Whether a page is a seed, or a seed redirects to it, and redirects."""
    return not page.held.lease.path.strip(Hop.REDIRECT) and any(
        link.hop is Hop.REDIRECT for link in page.links
    )


def ends_of_loops(
    pages: Iterable[FinishedPage], offered: Iterable[Candidate], verdicts: Iterable[Verdict.ValueType]
) -> Iterator[FinishedPage]:
    """The pages that redirect to themselves, or to the page that redirects to them, where the frontier does
    not go once more. It alone knows longer loops."""
    by_uri = {page.held.lease.uri: page for page in pages}
    for candidate, verdict in zip(offered, verdicts, strict=True):
        page = by_uri.get(candidate.via) if candidate.redirects and verdict in _KNOWN_BEFORE else None
        if page is None:
            continue
        lease = page.held.lease
        was_redirected = lease.path.endswith(Hop.REDIRECT)  # else `via` only links to the page
        if candidate.uri == lease.uri or (was_redirected and candidate.uri == lease.via):
            yield page


def waiting_links(
    pages: Iterable[FinishedPage], offered: Iterable[Candidate], verdicts: Iterable[Verdict.ValueType]
) -> Iterator[tuple[FinishedPage, Sequence[Outlink]]]:
    """The pages with links that a shard must judge which is away, and these links. A link that several pages
    have was offered for one of them, and holds up all: the lease of that one may end."""
    away = {
        (candidate.uri, candidate.path.endswith(Hop.REDIRECT))
        for candidate, verdict in zip(offered, verdicts, strict=True)
        if verdict == VERDICT_AWAY
    }
    for page in pages if away else ():
        links = [link for link in page.links if (link.uri, link.hop is Hop.REDIRECT) in away]
        if links:
            yield page, links


def _redirected(link: Outlink, page: FinishedPage) -> Candidate:
    lease = page.held.lease
    offer = _candidate(link.uri, page, Hop.REDIRECT)
    sent, now = page.cookies_sent, page.cookies_now.get(link.uri, b"")
    # A page that only asks browsers to load it again, every minute say, needs no second fetch. If it has just
    # set the first cookie, it may be a cookie wall.
    if link.context == LOCATION or link.uri != lease.uri or (now and not sent):
        offer.redirects, offer.cookies_sent, offer.cookies_now = lease.redirects, sent, now
    return offer


def _candidate(uri: str, page: FinishedPage, hop: Hop, refetch_before_ms: int | None = None) -> Candidate:
    lease = page.held.lease
    offer = Candidate(uri=uri, via=lease.uri, path=lease.path + hop, source=lease.source)
    if refetch_before_ms is not None:
        offer.refetch_before_time.FromMilliseconds(refetch_before_ms)
    return offer
