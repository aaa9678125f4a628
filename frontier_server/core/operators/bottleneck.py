"""Says why a running crawl is not going faster, in one line for people.

A table lists conditions in order; the first that holds gives the line. They read the values that decide,
at the moment of the question. That takes time by the number of nodes and leases, and not by that of queues
and URIs: of many resting queues a part is looked at (`resting.sampled`).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..machines.lifecycle import CrawlState
from ..state.crawl import Crawl
from ..state.leases import LeaseTable
from ..state.model import Presence, Remaining
from ..state.queue import QueueState, WorkQueue
from .idle import READ_ONLY, asked_lately, nobody, some, span
from .remaining import BYTES, DOCUMENTS, TIME, eligible
from .resting import Waiters, sampled, waiting, waiting_text

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
    waiters: Sequence[Waiters]  # the hosts that rest
    remaining: Remaining | None  # what the crawl still needs

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
        """Whether most hosts rest for another reason than politeness."""
        return bool(self.waiters) and not self.waiters[0].setting

    def mostly(self, step: str) -> bool:
        """Whether URIs are ready, all toe threads are at work, and most of them are at this step."""
        return self.ready > 0 and self.all_busy and self.steps[step] * 2 > self.toes


class Bottleneck(NamedTuple):
    """Why a crawl is not going faster."""

    text: str = ""
    setting: str = ""  # the setting that limits it, as a spec file names it; empty if none does


def bottleneck(crawl: Crawl, now_ms: int, leases: LeaseTable, remaining: Remaining | None) -> Bottleneck:
    """Why a crawl is not going faster; empty unless it is RUNNING. `remaining` is what it still needs."""
    if crawl.state is not CrawlState.RUNNING:
        return Bottleneck()
    moment = _moment(crawl, now_ms, leases, remaining)
    for holds, message in TABLE:
        if holds(moment):
            polite = message is _politeness
            setting = moment.waiters[0].setting if polite else _SETTINGS.get(message, "")
            return Bottleneck(message(moment), setting)
    raise AssertionError("the last row of the table must hold at every moment")


def _moment(crawl: Crawl, now_ms: int, leases: LeaseTable, remaining: Remaining | None) -> Moment:
    nodes = [
        node
        for node in leases.nodes.views(now_ms)
        if node.node in crawl.state_row.nodes and node.presence is Presence.PRESENT
    ]
    steps: Counter[str] = Counter()
    for node in nodes:
        steps.update(dict(node.toe_steps))
    out_ms = sum(now_ms - lease.row.lease_ms for lease in leases.of_crawl(crawl.number))
    counts, first = crawl.queues.counts, crawl.queues.next_wake()
    in_line = min(len(crawl.queues.ready), counts[QueueState.READY])
    woken = first is not None and first.wake_ms <= now_ms  # it wakes now, or very soon
    return Moment(
        crawl,
        now_ms=now_ms,
        asked=asked_lately(crawl, now_ms, leases),
        nodes=len(nodes),
        steps=steps,
        out_ms=out_ms // max(crawl.leases_out, 1),
        others_out=len(leases) - crawl.leases_out,
        ready=in_line + crawl.waiting_queues + woken,
        blocked=counts[QueueState.READY] - in_line,
        busy=counts[QueueState.BUSY],
        resting=counts[QueueState.SNOOZED] + crawl.counters.queues.get(QueueState.SNOOZED.value, 0),
        first=first,
        waiters=waiting(*sampled(crawl)),
        remaining=remaining,
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
    busy = m.toes - m.steps[_FREE]
    return f"{busy} of {m.toes} {'is' if busy == 1 else 'are'} busy, and {_ready(m)}{others}"


def _filled(m: Moment) -> str:
    most, pages = m.crawl.settings.limits.max_documents, some(m.crawl.documents, "page")
    left = m.remaining.left if m.remaining is not None else 0
    would = f"; {some(left, 'URL')} would be left" if left else ""
    return (
        f"Page limit: {pages} fetched and {m.crawl.pages_out} being fetched fill {DOCUMENTS} = {most}{would}"
    )


def _max_toes(m: Moment) -> str:
    return f"Limited by max_toes = {m.crawl.settings.max_toes}: {_ready(m)}"


def _asked(m: Moment) -> str:
    if m.crawl.asked_of_any.in_vain:
        return READ_ONLY
    if not m.crawl.asked_ms:
        return f"{nobody(m.crawl)} has asked for leases since the server started"
    return f"{nobody(m.crawl)} asks for leases (last asked {span(m.now_ms - m.crawl.asked_ms)} ago)"


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
    wakes = _in(m, m.first.wake_ms if m.first is not None else m.crawl.queues.first_far_ms)
    return f"{rest}, {fetched}; the next wakes {wakes}"


def _politeness(m: Moment) -> str:
    """Which hosts wait, and how long the crawl takes."""
    told = f"Limited by politeness: {waiting_text(m.waiters)}"
    if m.remaining is None:
        return told
    how_long = span(m.remaining.most_ms + 500)
    if m.remaining.limit:
        left = some(m.remaining.left, "URL")
        return f"{told}. {_LIMITS[m.remaining.limit]} in about {how_long}; {left} would be left"
    last = f", {m.remaining.last} last" if m.remaining.last else ""
    return f"{told}. About {how_long} for {some(eligible(m.crawl), 'URL')}{last}"


def _long(m: Moment) -> str:
    return f"{_rest(m)}; {waiting_text(m.waiters)}"


def _in(m: Moment, due_ms: int | None) -> str:
    """`in 2 s`, rounded up. A time of 0 is unknown: nobody has asked for it since the server started."""
    return f"in {span(max(due_ms - m.now_ms, 0) + 999)}" if due_ms else "some time later"


def _paused(m: Moment) -> str:
    uris = some(m.crawl.counters.queued - m.crawl.counters.ineligible_uris, "URI")
    return f"{uris} left, only in queues that an operator has paused"


def later_why(crawl: Crawl) -> str:
    """In brackets, why the first future URI waits, if it was tried before; empty if that is not in memory."""
    due_ms, why = crawl.first_retry
    return f" ({why})" if due_ms and due_ms == crawl.first_future_ms else ""


def _later(m: Moment) -> str:
    future = some(m.crawl.counters.future, "URI")
    return f"{future} to be fetched later, the first {_in(m, m.crawl.first_future_ms)}{later_why(m.crawl)}"


def _jobs(m: Moment) -> str:
    numbers = sorted({*m.crawl.jobs, *m.crawl.receiving})
    jobs = "job" if len(numbers) == 1 else "jobs"
    are = "is" if len(numbers) == 1 else "are"
    return f"No URI waits, and {jobs} {', '.join(map(str, numbers))} {are} under way"


def _round(m: Moment) -> str:
    return f"The seeds are announced again {_in(m, m.crawl.next_round_ms)}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


_SETTINGS: Mapping[Callable[[Moment], str], str] = {_filled: DOCUMENTS, _max_toes: "max_toes"}
_LIMITS = {DOCUMENTS: "Page limit", BYTES: "Limit of bytes", TIME: "Time limit"}

# The first row that holds gives the line. Its first words name the thing to look at, or to change.
TABLE: tuple[tuple[Callable[[Moment], bool], Callable[[Moment], str]], ...] = (
    (lambda m: m.crawl.documents_full, _filled),
    # No node fetches.
    (lambda m: not m.asked and m.nodes > 0 and not m.toes, lambda m: f"No toe thread: {_asked(m)}"),
    (lambda m: not m.asked and not m.all_busy, lambda m: _sentence(_asked(m))),
    # Queues are ready, and wait for nodes.
    (lambda m: m.ready > 0 and m.crawl.full, _max_toes),
    (
        lambda m: m.mostly(_WRITING),
        lambda m: f"Limited by writing: {_at(m, _WRITING, 'writing pages')}",
    ),
    (
        lambda m: m.mostly(_FINISHING),
        lambda m: f"Limited by reports: {_at(m, _FINISHING, 'waiting to hand pages over')}",
    ),
    (
        lambda m: m.mostly(_EXTRACTING),
        lambda m: f"Limited by extraction: {_at(m, _EXTRACTING, 'looking for links')}",
    ),
    (
        lambda m: m.mostly(_FETCHING) and m.slow,
        lambda m: f"Limited by slow pages: {_out(m)}, and {_ready(m)}",
    ),
    (lambda m: m.ready > 0 and m.all_busy, lambda m: f"Limited by toe threads: {_toes(m)}"),
    (
        lambda m: m.ready > 0 and m.toes > 0,
        lambda m: f"Limited by leasing: {_at(m, _FREE, 'waiting for a URI')}",
    ),
    (lambda m: m.ready > 0, lambda m: f"Limited by leasing: {_ready(m)}, and nodes ask for leases"),
    # No queue is ready.
    (lambda m: m.blocked > m.resting, lambda m: f"Limited by busy hosts: {_blocked(m)}"),
    (
        lambda m: m.busy > 0 and not m.resting and m.slow,
        lambda m: f"Limited by slow pages: {_out(m)}; {_no_other(m)}",
    ),
    (lambda m: m.busy > 0 and not m.resting, lambda m: f"Limited by few hosts: {_no_other(m)}"),
    (lambda m: m.unusual and not (m.few and m.busy), lambda m: f"Limited by rests: {_long(m)}"),
    (lambda m: m.unusual, lambda m: f"Limited by few hosts: {_rest(m)}"),
    (lambda m: bool(m.waiters), _politeness),
    (lambda m: m.resting > 0, lambda m: f"Limited by rests: {_rest(m)}"),
    # No queue has a URI to lease.
    (lambda m: bool(m.crawl.jobs or m.crawl.receiving), _jobs),
    (lambda m: m.crawl.counters.queued > m.crawl.counters.ineligible_uris, _paused),
    (lambda m: m.crawl.counters.future > 0, _later),
    (lambda m: m.crawl.awaits_round, _round),
    (lambda _: True, lambda _: "No URI is left to fetch"),
)
