"""Schedule: candidates in, verdicts out.

canonical form → scope → seen-set → admission. A slice of a batch is one operation, with one look-up of the
seen-set for all candidates. Most candidates are canonical and have a known origin, for which most is decided
already.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ..robotstxt.robots_table import RobotsTable
from ..rows.records import MAX_COST
from ..rows.store import Family
from ..rules.precedence import MAX_PRECEDENCE
from ..state import landings
from ..state.crawl import Crawl
from ..state.leases import LeaseTable
from ..state.model import HOP_LETTERS, QUEUE_KEY, Candidate, Directive, Verdict
from ..state.operation import Operation
from ..state.origin import Origin, keyed
from ..uri.assign import hash64
from ..uri.canonical import CanonicalUri, Malformed, TooLong, UnsupportedScheme, canonical, plain_from
from ..uri.scope import HOP_RULES, ScopeStanding, add_authority, authority_in_scope, seed_redirect
from . import future
from .admission import Admission, Wanted, Withdraw
from .candidate_problems import field_problem
from .refusals import ROBOTS, RULE_OF, Noting

MAX_SCOPE_CACHE = 20_000
LONG_TEXT = 512  # longer texts are not remembered
SHORT_BYTES = 2048  # the least of all bounds of lengths; shorter records need no check
_HOPS = "".join(sorted(HOP_LETTERS))
_MOST_URGENT, _LEAST_URGENT = int(Directive.HIGHEST), int(Directive.NORMAL)


def schedule(
    op: Operation,
    crawl: Crawl,
    candidates: Sequence[Candidate],
    robots: RobotsTable,
    leases: LeaseTable,
    anew: bool = False,
    withdraw: Withdraw | None = None,
) -> list[Verdict]:
    """Take in a slice of candidates, and count the verdicts; see `take_in`."""
    verdicts = take_in(op, crawl, candidates, robots, leases, anew, withdraw)
    tally = op.counters(crawl).verdicts
    for verdict, count in Counter(verdicts).items():
        tally[verdict.value] = tally.get(verdict.value, 0) + count
    return verdicts


def take_in(
    op: Operation,
    crawl: Crawl,
    candidates: Sequence[Candidate],
    robots: RobotsTable,
    leases: LeaseTable,
    anew: bool = False,
    withdraw: Withdraw | None = None,
) -> list[Verdict]:
    """Take in a slice of candidates; one verdict each, in order.

    `anew` takes their times of refetching as they are. With `withdraw` the candidates replace what the crawl
    has of their URIs (see `Admission`).
    """
    verdicts: list[Verdict] = []
    wanted: list[Wanted] = []
    places: list[int] = []  # their places among the verdicts
    known, refusals = crawl.known_texts, Noting(op, crawl)
    for candidate in candidates:
        if candidate.uri in known and not anew and withdraw is None and _changes_nothing(candidate):
            verdicts.append(Verdict.ALREADY_SEEN)
            continue
        if landings.is_noted(candidate):
            landings.note(op, crawl, leases, candidate)
        judged = judge(op, crawl, candidate)
        if isinstance(judged, RefusedCandidate):
            verdicts.append(judged.verdict)
            refusals.note(judged.rule, candidate)
            continue
        wanted.append(judged)
        places.append(len(verdicts))
        verdicts.append(Verdict.ALREADY_SEEN)  # unless it is admitted
    if wanted:
        rows = op.tx.get_many(Family.SEEN, [item.key for item in wanted])
        op.read_queues(
            crawl, (item.site.place.queue for item, row in zip(wanted, rows, strict=True) if row is None)
        )
        admission = Admission(op, crawl, robots, leases, anew, withdraw)
        for place, item, row in zip(places, wanted, rows, strict=True):
            if row is None or withdraw is not None or _is_forced(item.candidate):
                verdict = verdicts[place] = admission.admit(item, row)
                if verdict is Verdict.ROBOTS_FORBIDDEN:
                    refusals.note(ROBOTS, item.candidate)
        admission.close()
        crawl.remember_texts({text for item in wanted if len(text := item.candidate.uri) <= LONG_TEXT})
    return verdicts


def _is_forced(candidate: Candidate) -> bool:
    """Whether a candidate may be fetched although it has been seen."""
    return candidate.refetch_before_ms is not None or bool(candidate.redirects)


def _changes_nothing(candidate: Candidate) -> bool:
    """Whether a candidate has no effect if it was seen: it is not forced and cannot extend the scope."""
    return not (_is_forced(candidate) or candidate.seed or seed_redirect(candidate.path))


class RefusedCandidate(NamedTuple):
    """A candidate that is refused, and the rule."""

    verdict: Verdict
    rule: str


def judge(op: Operation, crawl: Crawl, candidate: Candidate) -> Wanted | RefusedCandidate:
    """A candidate in scope, or why it is refused."""
    fault = _fault(candidate)
    if fault is not None:
        return RefusedCandidate(fault, RULE_OF[fault])
    text = candidate.uri
    at = plain_from(text)
    origin = crawl.origins.named(text[:at]) if at else None
    uri: CanonicalUri | None = None  # made unless the origin decides all
    if origin is not None and origin.decides:
        standing = origin.standing
        assert standing is not None
    else:
        parsed = parse(text)
        if isinstance(parsed, Verdict):
            return RefusedCandidate(parsed, RULE_OF[parsed])
        uri = parsed
        text, origin, standing = uri.uri, crawl.origins.of(uri), crawl.origins.standing(uri)
    rule = _refusing_rule(op, crawl, origin, standing, text, candidate.path, candidate.seed, candidate.source)
    if rule:
        return RefusedCandidate(
            Verdict.TOO_MANY_HOPS if rule in HOP_RULES else Verdict.OUT_OF_SCOPE, f"scope.{rule}"
        )
    if uri is None:
        assert origin.settings is not None
        settings = origin.settings
        site, fingerprint = crawl.origins.site_of(origin, settings), hash64(text)
    else:
        settings = crawl.settings_for(uri)
        site, fingerprint = crawl.origins.located(uri, settings)
    if candidate.queue_key:
        site = keyed(site, candidate.queue_key)
    return Wanted(candidate, text, origin, settings, site, site.seen_prefix + fingerprint)


def parse(text: str) -> CanonicalUri | Verdict:
    """An offered URI in canonical form, or why it is refused."""
    try:
        return canonical(text)
    except TooLong:
        return Verdict.TOO_LONG
    except UnsupportedScheme:
        return Verdict.UNSUPPORTED_SCHEME
    except Malformed:
        return Verdict.MALFORMED


def _fault(candidate: Candidate) -> Verdict | None:
    """Why a candidate is refused regardless of its URI, if it is."""
    precedence, cost, key = candidate.precedence, candidate.cost, candidate.queue_key
    if (
        len(candidate.record) <= SHORT_BYTES  # then all fields are short
        and not candidate.path.strip(_HOPS)  # no other letters are left
        and (candidate.path or candidate.seed or not candidate.via)
        and (precedence is None or 0 <= precedence <= MAX_PRECEDENCE)
        and (cost is None or 0 <= cost <= MAX_COST)
        and _MOST_URGENT <= candidate.directive <= _LEAST_URGENT
        and 0 <= candidate.not_before_ms <= future.LAST_MS
        and not (key and QUEUE_KEY(key) is None)
        and not candidate.base
    ):
        return None
    found = field_problem(candidate)
    return None if found is None else found[0]


def refusing_rule(
    op: Operation, crawl: Crawl, uri: CanonicalUri, path: str, seed: bool, source: str = ""
) -> str:
    """The rule of the scope that refuses a URI; empty if none does.

    A seed, or a URI that a seed redirects to, brings its host into scope unless a rule refuses the URI.
    """
    origins = crawl.origins
    return _refusing_rule(op, crawl, origins.of(uri), origins.standing(uri), uri.uri, path, seed, source)


def _refusing_rule(
    op: Operation,
    crawl: Crawl,
    origin: Origin,
    standing: ScopeStanding,
    text: str,
    path: str,
    seed: bool,
    source: str,
) -> str:
    widens = seed or (path[:1] == "R" and seed_redirect(path) and _stays(crawl, origin, source))
    # A crawl of a whole domain meets millions of hosts, so look up as few as possible.
    in_scope = (widens or standing.leaves_it_to_hosts) and _in_scope(op, crawl, origin)
    rule = crawl.scope_rules.judge_standing(standing, text, len(origin.name), path, seed, in_scope or widens)
    if widens and not (in_scope or rule):
        add_authority(op.tx, crawl.places, crawl.number, origin.host, origin.authority)
        _remember(crawl, origin.authority, True)
        crawl.note_scope()
    return rule


def _stays(crawl: Crawl, origin: Origin, source: str) -> bool:
    """Whether a seed may bring an origin into scope by a redirect."""
    if not crawl.settings.scope.seed_redirects_within_domain:
        return True
    seed, suffixes = parse(source), crawl.places.suffixes
    return not isinstance(seed, Verdict) and (
        suffixes.registered_domain(seed.host) == suffixes.registered_domain(origin.host)
    )


def _in_scope(op: Operation, crawl: Crawl, origin: Origin) -> bool:
    """Whether the host of an origin is in scope."""
    known = crawl.scope_cache.get(origin.authority)
    if known is None:
        known = authority_in_scope(op.tx, crawl.places, crawl.number, origin.host, origin.authority)
        _remember(crawl, origin.authority, known)
    return known


def _remember(crawl: Crawl, authority: str, in_scope: bool) -> None:
    if len(crawl.scope_cache) >= MAX_SCOPE_CACHE:
        crawl.scope_cache.clear()
    crawl.scope_cache[authority] = in_scope
