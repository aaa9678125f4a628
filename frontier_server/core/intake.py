"""Schedule: candidates in, verdicts out.

canonical form → scope → seen-set → robots.txt, if known → its work queue, or until its
time comes among the future URIs. A slice of a batch is one operation with one look-up
of the seen-set for all.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from . import future, keys
from .conclusion import Final, record
from .crawl import Crawl
from .enqueue import price, put_in, queue_at
from .model import (
    HOP_LETTERS,
    MAX_ANNOTATIONS_BYTES,
    MAX_PATH_CHARACTERS,
    MAX_PRECEDENCE,
    Candidate,
    Directive,
    Verdict,
)
from .operation import Operation
from .queue import WorkQueue
from .records import MAX_COST, PendingUri, SeenRow, decode, encode
from .robotstxt.robots_table import RobotsTable
from .rules.disposition import ROBOTS_PRECLUDED, Disposition
from .site import Site
from .spec.settings import CrawlSettings
from .store import Family
from .uri.canonical import (
    MAX_URI_BYTES,
    CanonicalUri,
    Malformed,
    TooLong,
    UnsupportedScheme,
    canonical,
    longer_than,
)
from .uri.scope import HOP_RULES, add_authority, authority_in_scope, seed_redirect

LIGHT_RULES = 500  # heavier rules are asked only at the head of the queue
MAX_SCOPE_CACHE = 20_000
MAX_REMEMBERED_TEXT = 512
SHORT_BYTES = MAX_ANNOTATIONS_BYTES  # the least of all bounds of lengths
_HOPS = "".join(sorted(HOP_LETTERS))
_MOST_URGENT, _LEAST_URGENT = int(Directive.HIGHEST), int(Directive.NORMAL)
MAX_RECORD_BYTES = 24 * 1024  # fields that the contract does not have are stored, too


class _Wanted(NamedTuple):
    """A candidate in scope."""

    number: int
    uri: CanonicalUri
    site: Site
    fingerprint: bytes
    settings: CrawlSettings


def schedule(
    op: Operation, crawl: Crawl, candidates: Sequence[Candidate], robots: RobotsTable, anew: bool = False
) -> list[Verdict]:
    """Take in a slice of candidates; one verdict each, in order. `anew`: though they were fetched before."""
    verdicts: list[Verdict | None] = [None] * len(candidates)
    wanted: list[_Wanted] = []
    seen_keys: list[bytes] = []
    known = crawl.known_texts
    for number, candidate in enumerate(candidates):
        if candidate.uri in known and not anew and _changes_nothing(candidate):
            verdicts[number] = Verdict.ALREADY_SEEN
            continue
        judged = judge(op, crawl, candidate)
        if isinstance(judged, Verdict):
            verdicts[number] = judged
            continue
        settings = crawl.settings_for(judged)
        site, fingerprint = crawl.sites.located(judged, settings)
        wanted.append(_Wanted(number, judged, site, fingerprint, settings))
        seen_keys.append(keys.seen_key(crawl.number, site.place.partition, fingerprint))
    if wanted:
        rows = op.tx.get_many(Family.SEEN, seen_keys)
        taken: set[bytes] = set()  # by this slice
        queues: dict[bytes, WorkQueue] = {}
        op.read_queues(
            crawl, (item.site.place.queue for item, value in zip(wanted, rows, strict=True) if value is None)
        )
        for item, key, value in zip(wanted, seen_keys, rows, strict=True):
            candidate = candidates[item.number]
            if key in taken:
                value = op.tx.get(Family.SEEN, key)
            verdicts[item.number] = _admit(op, crawl, candidate, item, key, value, robots, queues, anew)
            taken.add(key)
            if len(candidate.uri) <= MAX_REMEMBERED_TEXT:
                crawl.remember_text(candidate.uri)
    tally = op.counters(crawl).verdicts
    answer = [verdict for verdict in verdicts if verdict is not None]
    for verdict, count in Counter(answer).items():
        tally[verdict.value] = tally.get(verdict.value, 0) + count
    return answer


def _changes_nothing(candidate: Candidate) -> bool:
    """Whether a candidate that has been seen is over with that: it is not forced, nor extends the scope."""
    return candidate.refetch_before_ms is None and not (candidate.seed or seed_redirect(candidate.path))


def judge(op: Operation, crawl: Crawl, candidate: Candidate) -> CanonicalUri | Verdict:
    """The canonical form of a candidate in scope, or why it is refused."""
    path, precedence, cost = candidate.path, candidate.precedence, candidate.cost
    # The record has all the others in it: where it is short they are, too.
    if len(candidate.record) > SHORT_BYTES and (
        longer_than(candidate.via, MAX_URI_BYTES)
        or longer_than(candidate.source, MAX_URI_BYTES)
        or len(candidate.annotations) > MAX_ANNOTATIONS_BYTES
        or len(path) > MAX_PATH_CHARACTERS
        or len(candidate.record) > MAX_RECORD_BYTES
    ):
        return Verdict.TOO_LONG
    if (
        path.strip(_HOPS)  # what is left has other letters
        or (precedence is not None and not 0 <= precedence <= MAX_PRECEDENCE)
        or (cost is not None and not 0 <= cost <= MAX_COST)
        or not _MOST_URGENT <= candidate.directive <= _LEAST_URGENT
        or not 0 <= candidate.not_before_ms <= future.LAST_MS
    ):
        return Verdict.MALFORMED
    try:
        uri = canonical(candidate.uri)
    except TooLong:
        return Verdict.TOO_LONG
    except UnsupportedScheme:
        return Verdict.UNSUPPORTED_SCHEME
    except Malformed:
        return Verdict.MALFORMED
    rule = refusing_rule(op, crawl, uri, candidate.path, candidate.seed)
    if rule:
        return Verdict.TOO_MANY_HOPS if rule in HOP_RULES else Verdict.OUT_OF_SCOPE
    return uri


def refusing_rule(op: Operation, crawl: Crawl, uri: CanonicalUri, path: str, seed: bool) -> str:
    """The rule of the scope that refuses a URI; empty if none does.

    The host of a seed, or of what a seed redirects to, is in scope from then on, if
    nothing else refuses the URI.
    """
    cache = crawl.scope_cache
    known = cache.get(uri.authority)
    if known is None:
        known = authority_in_scope(op.tx, crawl.number, uri.host, uri.authority)
        if len(cache) >= MAX_SCOPE_CACHE:
            cache.clear()
        cache[uri.authority] = known
    extends = not known and (seed or seed_redirect(path))
    rule = crawl.scope_rules.judge(uri, path, seed, known or extends)
    if extends and not rule:
        add_authority(op.tx, crawl.number, uri.host, uri.authority)
        cache[uri.authority] = True
    return rule


def _admit(
    op: Operation,
    crawl: Crawl,
    candidate: Candidate,
    wanted: _Wanted,
    key: bytes,
    value: bytes | None,
    robots: RobotsTable,
    queues: dict[bytes, WorkQueue],
    anew: bool,
) -> Verdict:
    """Take in a URI in scope unless it has been seen."""
    _, uri, site, fingerprint, settings = wanted
    place, before = site.place, candidate.refetch_before_ms
    if value is not None and before is None and not anew:
        return Verdict.ALREADY_SEEN
    seen = decode(SeenRow, value) if value is not None else None
    if seen is not None:
        if seen.suffix:
            return Verdict.ALREADY_QUEUED
        # A time ahead of our clock would let a repeated request fetch twice.
        if before is not None and seen.finish_ms >= min(before, op.now_ms):
            return Verdict.ALREADY_SEEN
        if seen.future_ms:
            if not seen.finish_ms:
                return Verdict.ALREADY_QUEUED  # it waits for the first time
            future.drop(op, crawl, seen.future_ms, place.partition, fingerprint)
            seen.future_ms = 0
    cost, precedence = price(candidate, uri, settings)
    visited = seen is not None and seen.visits > 0
    pending = PendingUri(0, 0, cost, precedence, visited, fingerprint, candidate.record)
    if seen is None:
        op.sums(crawl).discovered += 1
        seen = SeenRow(b"")
    if robots.forbids(op.tx, site.robots_key, uri.target, settings, op.now_ms, LIGHT_RULES):
        final = Final(ROBOTS_PRECLUDED, Disposition.DISREGARDED, uri, candidate)
        record(op, crawl, place.partition, pending, final, settings)
        return Verdict.ROBOTS_FORBIDDEN
    if candidate.not_before_ms > op.now_ms:
        future.keep(op, crawl, candidate.not_before_ms, place.partition, pending)
        seen.future_ms = candidate.not_before_ms
    else:
        queue = queues.get(place.queue)
        if queue is None:
            queue = queues[place.queue] = queue_at(op, crawl, place, uri.host)
        seen.suffix = put_in(op, crawl, queue, pending, candidate.directive, settings)
        seen.queue = place.queue[8:]
    op.tx.put(Family.SEEN, key, encode(seen))
    return Verdict.QUEUED
