"""Says why a running crawl is not going faster, in one line for people.

A table lists conditions in order; the first that holds gives the line. They read the values that decide,
at the moment of the question. That takes time by the number of nodes and leases, and not by that of queues
and URIs.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from ..crawl import Crawl
from ..leases import LeaseTable
from ..machines.lifecycle import CrawlState
from ..model import Presence
from ..queue import QueueState, WorkQueue
from ..rules.politeness import setting_in
from .idle import READ_ONLY, asked_lately, some, span
from .remaining import eligible, remaining_ms

SLOW_PAGE_MS = 5_000  # URIs that are out for longer, on average, are slow
ONE_BETWEEN = 10  # all toe threads count as busy if at most one in so many is between two URIs
_FREE, _FETCHING = "ABOUT_TO_GET_URI", "FETCHING"
_EXTRACTING, _WRITING, _FINISHING = "EXTRACTING", "WRITING", "FINISHING"


@dataclass(frozen=True, slots=True)
class Moment:
    """The values that decide how fast a crawl goes, at one moment."""

    crawl: Crawl
    now_ms: int
    asked: bool  # whether a node that is there has asked for leases lately
    nodes: int  # those that fetch for it and are there
    steps: Counter[str]  # of their toe threads
    out_ms: int  # how long its leases have been out, on average
    others_out: int  # leases of other crawls
    ready: int  # queues with a URI that could be leased now
    blocked: int  # queues that wait for other requests to the same host or group
    busy: int
    resting: int
    first: WorkQueue | None  # the first to wake, among those in memory

    @property
    def toes(self) -> int:
        """Toe threads; 0 if the nodes report none."""
        return self.steps.total()

    @property
    def all_busy(self) -> bool:
        """Whether almost all toe threads are at work."""
        return self.toes > 0 and self.steps[_FREE] * ONE_BETWEEN <= self.toes

    @property
    def slow(self) -> bool:
        """Whether its leases have been out for long."""
        return self.out_ms >= SLOW_PAGE_MS

    @property
    def few(self) -> bool:
        """Whether there are fewer queues than toe threads."""
        return self.busy + self.resting + self.blocked < self.toes

    @property
    def unusual(self) -> bool:
        """Whether the first queue to wake rests for another reason than politeness."""
        return self.first is not None and not setting_in(self.first.rest_reason)

    def mostly(self, step: str) -> bool:
        """Whether URIs are ready, all toe threads are at work, and most of them are at this step."""
        return self.ready > 0 and self.all_busy and self.steps[step] * 2 > self.toes


def limited_by(crawl: Crawl, now_ms: int, leases: LeaseTable) -> str:
    """Why a crawl is not going faster; empty unless it is RUNNING."""
    if crawl.state is not CrawlState.RUNNING:
        return ""
    moment = _moment(crawl, now_ms, leases)
    return next(message(moment) for holds, message in TABLE if holds(moment))


def _moment(crawl: Crawl, now_ms: int, leases: LeaseTable) -> Moment:
    nodes = [
        node
        for node in leases.nodes(now_ms)
        if node.node in crawl.state_row.nodes and node.presence is Presence.PRESENT
    ]
    steps: Counter[str] = Counter()
    for node in nodes:
        steps.update(dict(node.toe_steps))
    out_ms = sum(now_ms - lease.row.lease_ms for lease in leases.of_crawl(crawl.number))
    counts, first = crawl.active_counts, crawl.next_wake()
    in_line = min(len(crawl.ready), counts[QueueState.READY])
    woken = first is not None and first.wake_ms <= now_ms  # it wakes now, or very soon
    return Moment(
        crawl,
        now_ms=now_ms,
        asked=asked_lately(crawl, now_ms, leases),
        nodes=len(nodes),
        steps=steps,
        out_ms=out_ms // max(crawl.leases_out, 1),
        others_out=len(leases) - crawl.leases_out,
        ready=in_line + crawl.inactive_queues + woken,
        blocked=counts[QueueState.READY] - in_line,
        busy=counts[QueueState.BUSY],
        resting=counts[QueueState.SNOOZED] + crawl.counters.queues.get(QueueState.SNOOZED.value, 0),
        first=first,
    )


# Parts of sentences.


def _ready(m: Moment) -> str:
    return f"{some(m.ready, 'queue')} {'is' if m.ready == 1 else 'are'} ready"


def _toes_are(m: Moment, number: int) -> str:
    return f"{number} of {some(m.toes, 'toe thread')} {'is' if number == 1 else 'are'}"


def _at(m: Moment, step: str, doing: str) -> str:
    return f"{_toes_are(m, m.steps[step])} {doing}, and {_ready(m)}"


def _toes(m: Moment) -> str:
    others = f"; {some(m.others_out, 'URI')} of other crawls being fetched" if m.others_out else ""
    return f"{_toes_are(m, m.toes - m.steps[_FREE])} busy, and {_ready(m)}{others}"


def _max_toes(m: Moment) -> str:
    return f"max_toes = {m.crawl.settings.max_toes} is reached, and {_ready(m)}"


def _filled(m: Moment) -> str:
    most, documents = m.crawl.settings.limits.max_documents, some(m.crawl.counters.succeeded, "document")
    return f"{documents} fetched and {m.crawl.pages_out} being fetched reach limits.max_documents = {most}"


def _asked(m: Moment) -> str:
    if m.crawl.asked_of_any.in_vain:
        return READ_ONLY
    if not m.crawl.asked_ms:
        return "no node has asked for leases since the server started"
    return f"no node asks for leases (last asked {span(m.now_ms - m.crawl.asked_ms)} ago)"


def _out(m: Moment) -> str:
    return f"{some(m.crawl.leases_out, 'URI')} being fetched for {span(m.out_ms)} on average"


def _no_other(m: Moment) -> str:
    return f"{some(m.busy, 'queue')} being fetched from, and no other is ready"


def _blocked(m: Moment) -> str:
    wait = "waits" if m.blocked == 1 else "wait"
    return f"{some(m.blocked, 'queue')} {wait} for others of the same host or group"


def _rest(m: Moment) -> str:
    """How many queues rest, and until when the first of them does."""
    rest = f"{some(m.resting, 'queue')} {'rests' if m.resting == 1 else 'rest'}"
    fetched = f"{m.busy or 'none'} {'are' if m.busy > 1 else 'is'} being fetched from"
    wakes = _in(m, m.first.wake_ms if m.first is not None else m.crawl.first_far_ms)
    return f"{rest}, {fetched}; the next wakes {wakes}"


def _setting(m: Moment) -> str:
    """The setting that lets hosts rest, and how long the crawl takes at its present rate."""
    assert m.first is not None
    if m.unusual:
        return _rest(m)
    setting, queues = setting_in(m.first.rest_reason), m.crawl.settings.queues
    by_host = queues.assignment in ("surt-authority", "host") and queues.parallel_queues == 1
    told = f"{setting} on {some(m.resting, 'host' if by_host else 'queue')}"
    remaining = remaining_ms(m.crawl, m.now_ms)
    if remaining is None:
        return told
    uris = some(eligible(m.crawl), "URI")
    return f"{told}; at this rate about {span(remaining[1])} for {uris}"


def _long(m: Moment) -> str:
    assert m.first is not None
    return f"{_rest(m)} ({m.first.row.key}: {m.first.rest_reason or 'rest'})"


def _in(m: Moment, due_ms: int | None) -> str:
    """`in 2 s`, rounded up. A time of 0 is unknown: nobody has asked for it since the server started."""
    return f"in {span(max(due_ms - m.now_ms, 0) + 999)}" if due_ms else "some time later"


def _paused(m: Moment) -> str:
    uris = some(m.crawl.counters.queued - m.crawl.counters.ineligible_uris, "URI")
    return f"paused queues: {uris} left, only in queues that an operator has paused"


def _later(m: Moment) -> str:
    future = some(m.crawl.counters.future, "URI")
    return f"{future} to be fetched later, the first {_in(m, m.crawl.first_future_ms)}"


def _jobs(m: Moment) -> str:
    numbers = sorted({*m.crawl.jobs, *m.crawl.receiving})
    jobs = "job" if len(numbers) == 1 else "jobs"
    are = "is" if len(numbers) == 1 else "are"
    return f"{jobs} {', '.join(map(str, numbers))} {are} under way, and no URI waits"


def _round(m: Moment) -> str:
    return f"the seeds are announced again {_in(m, m.crawl.next_round_ms)}"


# The first row that holds gives the line. Its first words name the thing to look at, or to change.
TABLE: tuple[tuple[Callable[[Moment], bool], Callable[[Moment], str]], ...] = (
    (lambda m: m.crawl.documents_full, lambda m: f"limit: {_filled(m)}"),
    # No node fetches.
    (lambda m: not m.asked and m.nodes > 0 and not m.toes, lambda m: f"no toe threads: {_asked(m)}"),
    (lambda m: not m.asked and not m.all_busy, _asked),
    # Queues are ready, and wait for nodes.
    (lambda m: m.ready > 0 and m.crawl.full, _max_toes),
    (lambda m: m.mostly(_WRITING), lambda m: f"writing: {_at(m, _WRITING, 'writing pages')}"),
    (
        lambda m: m.mostly(_FINISHING),
        lambda m: f"reports: {_at(m, _FINISHING, 'waiting to hand pages over')}",
    ),
    (lambda m: m.mostly(_EXTRACTING), lambda m: f"links: {_at(m, _EXTRACTING, 'looking for links')}"),
    (lambda m: m.mostly(_FETCHING) and m.slow, lambda m: f"slow pages: {_out(m)}, and {_ready(m)}"),
    (lambda m: m.ready > 0 and m.all_busy, lambda m: f"toes: {_toes(m)}"),
    (lambda m: m.ready > 0 and m.toes > 0, lambda m: f"leasing: {_at(m, _FREE, 'waiting for a URI')}"),
    (lambda m: m.ready > 0, lambda m: f"leasing: {_ready(m)}, and nodes ask for leases"),
    # No queue is ready.
    (lambda m: m.blocked > m.resting, lambda m: f"same host: {_blocked(m)}"),
    (lambda m: m.busy > 0 and not m.resting and m.slow, lambda m: f"slow pages: {_out(m)}; {_no_other(m)}"),
    (lambda m: m.busy > 0 and not m.resting, lambda m: f"few hosts: {_no_other(m)}"),
    (lambda m: m.unusual and not (m.few and m.busy), lambda m: f"rests: {_long(m)}"),
    (lambda m: m.first is not None and m.few, lambda m: f"few hosts for {m.toes} toe threads: {_setting(m)}"),
    (lambda m: m.first is not None, lambda m: f"politeness: {_setting(m)}"),
    (lambda m: m.resting > 0, lambda m: f"rests: {_rest(m)}"),
    # No queue has a URI to lease.
    (lambda m: bool(m.crawl.jobs or m.crawl.receiving), lambda m: f"jobs: {_jobs(m)}"),
    (lambda m: m.crawl.counters.queued > m.crawl.counters.ineligible_uris, _paused),
    (lambda m: m.crawl.counters.future > 0, lambda m: f"later: {_later(m)}"),
    (lambda m: m.crawl.awaits_round, lambda m: f"round: {_round(m)}"),
    (lambda _: True, lambda _: "no URI is left to fetch"),
)
