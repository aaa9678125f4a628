"""Where the redirects of seeds lead: the rows in the family `index` that the seeds' report follows.

A URI that was reached from a seed by redirects alone leaves two rows. `LED` has, for the URI that redirects,
its target. `LANDED` notes the seed's page beside the target: a page at which several seeds end says nothing
of any of them. It is a login, a wall of consent, or the home page of a site that has lost the pages.

Targets are noted whatever becomes of them: most that are out of scope are in no other row.
"""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple
from urllib.parse import parse_qsl

from ..rows import keys
from ..rows.keys import FetchStatisticsOf
from ..rows.records import FetchStatisticsRow, SeenRow, decode
from ..rows.store import Family
from ..rules.disposition import Disposition
from ..rules.outcome_words import MAX_REASON, is_page, is_redirect
from ..uri.assign import hash64
from ..uri.canonical import CanonicalUri, Malformed, TooLong, UnsupportedScheme, canonical
from ..uri.suffixes import without_www
from . import statistics
from .crawl import Crawl
from .leases import LeaseTable
from .model import Candidate
from .operation import PRESENT, Operation
from .redirects import MAX_LINKS

MOST_SEEDS = 10_000  # of a crawl that has ended are looked at, to find one that was fetched


class Landing(NamedTuple):
    """Where the redirects of a seed have led so far."""

    uri: CanonicalUri
    seen: SeenRow | None  # None: it was not taken in
    shared: bool  # other seeds have ended there, too
    redirects: int  # so many led there
    circle: bool = False  # it has been there before

    @property
    def is_page(self) -> bool:
        """Whether the seed counts as fetched: its redirects have led to a page, and it alone to that one."""
        seen = self.seen
        fetched = seen is not None and seen.disposition == Disposition.SUCCEEDED.value
        return fetched and is_page(self.fetch_status) and not self.shared

    @property
    def fetch_status(self) -> int:
        """The fetch status of the last URI; 0 if it has none."""
        return 0 if self.seen is None else self.seen.fetch_status


def is_noted(candidate: Candidate) -> bool:
    """Whether a candidate was reached from a seed by redirects alone."""
    return bool(candidate.path and candidate.source) and not candidate.path.strip("R")


def note(op: Operation, crawl: Crawl, leases: LeaseTable, candidate: Candidate) -> None:
    """Note where a seed was led to, whether or not the crawl takes that in."""
    source = _source_of(crawl, leases, candidate)
    target, seed = _parsed(candidate.uri), _parsed(candidate.source)
    if not source or target is None or seed is None:
        return
    led = keys.led_key(crawl.number, source)
    text = target.uri.encode()
    before = op.tx.get(Family.INDEX, led)
    if before != text:
        if before is not None:
            _leave(op, crawl, before, seed)
        op.tx.put(Family.INDEX, led, text)
    landed = _landed_key(crawl, target, seed)
    if op.tx.get(Family.INDEX, landed) is None:
        op.tx.put(Family.INDEX, landed, PRESENT)


def forget(op: Operation, crawl: Crawl, candidate: Candidate, uri: CanonicalUri) -> None:
    """Forget where a URI led a seed to: it has not redirected, but asked browsers to, or did so earlier."""
    text = "" if candidate.path.strip("R") else candidate.seed_of(uri.uri)
    led = keys.led_key(crawl.number, hash64(uri.uri)) if text else b""
    before = op.tx.get(Family.INDEX, led) if led else None
    seed = _parsed(text) if before is not None else None
    if before is not None and seed is not None:
        _leave(op, crawl, before, seed)
        op.tx.delete(Family.INDEX, led)


def _leave(op: Operation, crawl: Crawl, target: bytes, seed: CanonicalUri) -> None:
    """Delete what says that a seed has ended at a URI, or where that leads to."""
    told: bytes | None = target
    for _ in range(MAX_LINKS):
        if told is None:
            break
        at = canonical(told.decode())
        op.tx.delete(Family.INDEX, _landed_key(crawl, at, seed))
        told = op.tx.get(Family.INDEX, keys.led_key(crawl.number, hash64(at.uri)))


def _source_of(crawl: Crawl, leases: LeaseTable, candidate: Candidate) -> bytes:
    """The hash of the URI that redirects; empty if it is not known. Some fetchers bring no chain."""
    if candidate.redirects:
        links = leases.chain_to(crawl.number, candidate).links
        return links[-1].text if links else b""
    via = _parsed(candidate.via)
    return b"" if via is None else hash64(via.uri)


def landing_of(op: Operation, crawl: Crawl, seed: CanonicalUri) -> Landing | None:
    """Where a seed that redirects was led to; None if nobody has said."""
    at, passed, landing = seed, {seed.uri}, None
    seen, shared = seen_row(op, crawl, seed), False
    while len(passed) <= MAX_LINKS:
        target = _target_of(op, crawl, at, seen)
        if target is None:
            break
        at = target
        shared = shared or _is_shared(op, crawl, at, seed)
        seen = seen_row(op, crawl, at)
        landing = Landing(at, seen, shared, len(passed), at.uri in passed)
        if landing.circle or seen is None or not is_redirect(seen.fetch_status):
            break
        passed.add(at.uri)
    return landing


def _target_of(op: Operation, crawl: Crawl, uri: CanonicalUri, seen: SeenRow | None) -> CanonicalUri | None:
    """What a URI redirects to, as noted; else what its report has named, as in stores of earlier versions."""
    told = op.tx.get(Family.INDEX, keys.led_key(crawl.number, hash64(uri.uri)))
    if told is not None:
        return canonical(told.decode())
    if seen is None or not is_redirect(seen.fetch_status) or not 0 < len(seen.reason) < MAX_REASON:
        return None
    named = _parsed(uri.origin + seen.reason if seen.reason.startswith("/") else seen.reason)
    return named if named is not None and seen_row(op, crawl, named) is not None else None


def no_seed_is_fetched(op: Operation, crawl: Crawl) -> bool:
    """Whether each seed of a crawl that has ended was led elsewhere or failed."""
    statuses = crawl.counters.seed_statuses
    if any(is_page(each) for each in statuses) or not any(is_redirect(each) for each in statuses):
        return False
    seeds = list(islice(_seeds(op, crawl), MOST_SEEDS))
    return len(seeds) < MOST_SEEDS and not any(_is_fetched(op, crawl, seed) for seed in seeds)


def _is_fetched(op: Operation, crawl: Crawl, seed: CanonicalUri) -> bool:
    seen = seen_row(op, crawl, seed)
    if seen is None or seen.disposition != Disposition.SUCCEEDED.value:
        return False
    if not is_redirect(seen.fetch_status):
        return is_page(seen.fetch_status)
    landing = landing_of(op, crawl, seed)
    return landing is not None and landing.is_page


def _seeds(op: Operation, crawl: Crawl) -> Iterator[CanonicalUri]:
    for _, value in op.tx.scan(
        Family.SEEDS, keys.serial_key(crawl.number, 1), keys.crawl_prefix(crawl.number)
    ):
        yield canonical(value.decode())


def seen_row(op: Operation, crawl: Crawl, uri: CanonicalUri) -> SeenRow | None:
    """The row of a URI in the seen-set."""
    site, fingerprint = crawl.origins.located(uri, crawl.settings_for(uri))
    value = op.tx.get(Family.SEEN, keys.seen_key(crawl.number, site.place.partition, fingerprint))
    return None if value is None else decode(SeenRow, value)


def _is_shared(op: Operation, crawl: Crawl, uri: CanonicalUri, seed: CanonicalUri) -> bool:
    """Whether several seeds have been led to a page, or one to the page of another."""
    if _is_the_same_page(seed, uri):
        return False
    prefix = keys.landed_prefix(crawl.number, _landing_hash(uri, seed))
    seeds = sum([1 for _ in islice(op.tx.scan(Family.INDEX, prefix, prefix), 2)])
    is_seed = statistics.of(op.tx, crawl, FetchStatisticsOf.SOURCE, uri.uri) != FetchStatisticsRow()
    return seeds + is_seed > 1


def _is_the_same_page(seed: CanonicalUri, uri: CanonicalUri) -> bool:
    """Whether a redirect has changed no more than the scheme, the port, `www.` or a slash at the end."""
    return _page(seed) == _page(uri)


def _page(uri: CanonicalUri) -> str:
    """What all spellings of a page have in common."""
    return without_www(uri.host) + uri.target.rstrip("/")


def _landed_key(crawl: Crawl, uri: CanonicalUri, seed: CanonicalUri) -> bytes:
    """The row of a seed that has ended at a URI. Seeds that are spellings of one page have one row."""
    return keys.landed_prefix(crawl.number, _landing_hash(uri, seed)) + hash64(_page(seed))


def _landing_hash(uri: CanonicalUri, seed: CanonicalUri) -> bytes:
    """The hash of a page; without its query if that has the seed's address, as `/login?next=/a` has."""
    text, _, query = uri.uri.partition("?")
    addresses = (seed.uri, seed.uri.rstrip("/"), seed.target, seed.host + seed.target)
    carries = query and any(value in addresses for _, value in parse_qsl(query))
    return hash64(text if carries else uri.uri)


def _parsed(text: str) -> CanonicalUri | None:
    try:
        return canonical(text)
    except (Malformed, TooLong, UnsupportedScheme):
        return None
