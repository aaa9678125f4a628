"""Refused URIs: counts by rule, and the latest examples of each.

A rule is a setting of the scope (`scope.max_link_hops`), or one of OTHER_RULES. The counts are exact.
Examples are stored once each; a call that brings many keeps the first ones, so that a swarm of links stays
cheap.
"""

from collections import Counter, OrderedDict

from ..rows import keys
from ..rows.records import RefusalRow, decode, encode
from ..rows.store import Family, Store, Transaction
from ..state.crawl import Crawl
from ..state.model import Candidate, RefusalView, RuleView, Verdict
from ..state.operation import Operation

MAX_RULES = 100  # counted separately
OTHER = "other"
EXAMPLES_KEPT = 100
EXAMPLES_SHOWN = 3  # of each rule in a list of all
EXAMPLES_PER_CALL = 10
MAX_TEXT = 2_048  # characters of a URI or a path
ROBOTS = "robots"
RULE_OF = {
    Verdict.MALFORMED: "malformed",
    Verdict.TOO_LONG: "too-long",
    Verdict.UNSUPPORTED_SCHEME: "unsupported-scheme",
}
OTHER_RULES = {
    "malformed": "not a valid URI, or another field of the candidate is out of its bounds",
    "too-long": "the URI, or another field of the candidate, is too long",
    "unsupported-scheme": "neither http nor https",
    ROBOTS: "robots.txt",
    OTHER: f"rules beyond the first {MAX_RULES}",
    "scope.required_patterns": "none of the required patterns matches it",
    "scope.hosts": "its host is not in scope, and no prefix or pattern of the scope lets it in",
}


class Noting:
    """Notes the refusals of one call."""

    def __init__(self, op: Operation, crawl: Crawl) -> None:
        self._op = op
        self._crawl = crawl
        self._noted: Counter[str] = Counter()

    def note(self, rule: str, candidate: Candidate) -> None:
        """Count a refusal, and keep its URI as an example unless it is one already."""
        counts = self._op.counters(self._crawl).refused
        if rule not in counts and len(counts) >= MAX_RULES:
            rule = OTHER
        counts[rule] = counts.get(rule, 0) + 1
        if self._noted[rule] >= EXAMPLES_PER_CALL:
            return
        text = candidate.uri[:MAX_TEXT]
        latest = _latest(self._op.tx, self._crawl, rule)
        if text in latest:
            return
        self._noted[rule] += 1
        serial = next(reversed(latest.values()), 0) + 1
        latest[text] = serial
        if len(latest) > EXAMPLES_KEPT:
            latest.popitem(last=False)
        via, path = candidate.via[:MAX_TEXT], candidate.path[:MAX_TEXT]
        row = RefusalRow(serial, text, via, path, self._op.now_ms)
        key = keys.refusal_key(self._crawl.number, rule, serial % EXAMPLES_KEPT)
        self._op.tx.put(Family.INDEX, key, encode(row))


def _latest(tx: Transaction, crawl: Crawl, rule: str) -> OrderedDict[str, int]:
    """The URIs of a rule's examples with their numbers, the latest last."""
    latest = crawl.refused.get(rule)
    if latest is None:
        latest = crawl.refused[rule] = OrderedDict(
            (row.uri, row.serial) for row in _rows(tx, crawl.number, rule)
        )
    return latest


def _rows(store: Store | Transaction, crawl: int, rule: str) -> list[RefusalRow]:
    prefix = keys.refusal_prefix(crawl, rule)
    rows = [decode(RefusalRow, value) for _, value in store.scan(Family.INDEX, prefix, prefix)]
    return sorted(rows, key=lambda row: row.serial)


def rules(store: Store, crawl: Crawl, rule: str = "") -> list[RuleView]:
    """The rules that refused URIs, the one that refused most first, with some examples; or one rule with
    all that are kept."""
    counts = crawl.counters.refused
    wanted = [rule] if rule else sorted(counts, key=lambda name: -counts[name])
    shown = EXAMPLES_KEPT if rule else EXAMPLES_SHOWN
    return [
        RuleView(
            name,
            counts[name],
            tuple(
                RefusalView(row.uri, row.via, row.path, row.refuse_ms)
                for row in reversed(_rows(store, crawl.number, name)[-shown:])
            ),
            message(crawl, name),
        )
        for name in wanted
        if name in counts
    ]


def message(crawl: Crawl, rule: str) -> str:
    """A rule with its present value, for people."""
    told = OTHER_RULES.get(rule)
    if told is not None:
        return told
    scope = crawl.settings.scope
    name, _, place = rule.removeprefix("scope.").partition("[")
    value = getattr(scope, name)
    if place:
        number = int(place[:-1])
        return f"{rule} = {value[number]}" if number < len(value) else f"{rule}, which is no longer set"
    if name == "surt_prefixes":
        return "a prefix of scope.surt_prefixes that begins with -"
    return f"{rule} = {', '.join(value) if isinstance(value, tuple) else value}"
