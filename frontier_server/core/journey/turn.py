"""The rules at a work queue's turn, in order. Next obeys the first obstacle; Explain reports them.

The rules of the head's host come first, then the rules of the queue and of the head itself.
"""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from ..opening.shard import Shard
from ..robotstxt.authority import Gate, Standing, standing
from ..rows import keys
from ..rows.records import QueueRow, RobotsRow
from ..rules.outcome_words import words
from ..spec.settings import QueueSettings
from ..state.crawl import Crawl
from ..state.head import Head
from ..state.host import Group, Host, full, rest_of
from ..state.lanes import shares
from ..state.model import Directive
from ..state.operation import Operation, is_ineligible
from ..state.origin import Site
from ..state.pending import first_uri
from ..state.queue import WorkQueue
from ..state.statistics import Spent, over_quota
from .choice import Wait
from .intake import refusing_rule


class Obstacle(Enum):
    """An obstacle to leasing a queue's head as a page now."""

    HOST_BUSY = "its host or a group has as many requests in flight as it may"
    RESTS = "the queue, its host or a group rests"
    FAILS_OVER_QUOTA = "a quota is spent, so its URIs fail"
    INELIGIBLE = "its precedence has reached the floor, or an operator has paused it"
    RETIRES = "its settings, its budget or a quota retire it"
    BUDGET_OUT = "its leases out may spend the rest of its total budget"
    SESSION_SPENT = "it has spent its session budget"
    MISPLACED = "the head now belongs in another queue"
    OUT_OF_SCOPE = "the scope refuses it by now"
    KNOWN_FIRST = "its page is new, and known ones need the rest of the document limit"
    AWAITS_ROBOTS = "its robots.txt must be fetched first"
    ROBOTS_RESTS = "fetching its robots.txt failed, and is tried again later"
    ROBOTS_FAILED = "all tries to fetch its robots.txt have failed"
    FORBIDDEN = "robots.txt forbids it"


class Found(NamedTuple):
    """An obstacle, and the values that explain it."""

    obstacle: Obstacle
    reason: str = ""
    until_ms: int = 0
    host: Host | None = None  # the host or group that is busy or rests
    spent: Spent | None = None  # the quota that is spent
    tries: int = 0  # fetches of robots.txt that brought nothing
    weight: int = 0  # the cost of evaluating the robots.txt rules


class Turn:
    """A queue's turn: its head, and the values that the rules look at."""

    __slots__ = ("crawl", "groups", "head", "host", "op", "queue", "shard", "site")

    def __init__(self, shard: Shard, op: Operation, crawl: Crawl, queue: WorkQueue, head: Head) -> None:
        self.shard, self.op, self.crawl, self.queue, self.head = shard, op, crawl, queue, head
        self.host: Host = shard.hosts.of(op.tx, crawl, head.uri.host)
        self.groups: list[Group] = shard.hosts.groups(op.tx, crawl, head.uri.host, self.host)
        self.site: Site = crawl.origins.site(head.uri, head.settings, head.candidate.queue_key)

    @property
    def robots_key(self) -> bytes:
        """The key of the row of its robots.txt that counts for the crawl."""
        crawl = self.crawl
        return self.shard.robots.key_for(
            self.op.tx, self.site.robots_key, crawl.number, crawl.state_row.bound
        )

    @property
    def awaits_robots(self) -> bool:
        """Whether the crawl is already fetching the robots.txt for another queue."""
        uri = self.head.uri
        return self.shard.leases.robots_out(self.crawl.number, uri.scheme, uri.authority)

    def wait(self) -> Wait | None:
        """The wait of the head's authority, in a queue shared by several hosts; None if it need not wait.

        URIs of other authorities pass a head that waits.
        """
        busy = host_busy(self)
        if busy is not None and busy.host is not None:
            return Wait(0, busy=(busy.host,))
        uri, hosts = self.head.uri, self.shard.hosts
        rest = rest_of(self.queue, self.host, self.groups)
        longest = Wait(rest.until_ms, rest.reason)
        if self.queue.row.authorities_rest:
            own = hosts.authority(self.op.tx, self.crawl, uri.scheme, uri.authority).row
            if own.start_ms > self.queue.row.woken_ms and own.next_allowed_ms > longest.until_ms:
                longest = Wait(own.next_allowed_ms, own.rest_reason)
        if longest.until_ms > self.op.now_ms:
            return longest
        robots = robots_txt(self)
        if robots is None:
            return None
        if robots.obstacle is Obstacle.ROBOTS_RESTS:
            return Wait(robots.until_ms, robots.reason)
        if robots.obstacle is Obstacle.AWAITS_ROBOTS and self.awaits_robots:
            return Wait(0, busy=(hosts.robots_of(self.crawl, uri.scheme, uri.authority),))
        return None


def host_busy(turn: Turn) -> Found | None:
    """A host, or a group of hosts, may have only so many requests in flight."""
    busy = full(turn.host, turn.head.settings.politeness.max_parallel, turn.groups)
    return None if busy is None else Found(Obstacle.HOST_BUSY, host=busy)


def rests(turn: Turn) -> Found | None:
    """A queue, a host or a group of hosts may rest until a time."""
    queue = turn.queue
    if queue.rest_reason:  # the queue is snoozed: memory has the reason
        until_ms, reason, host = queue.wake_ms, queue.rest_reason, None
    else:
        until_ms, reason, host = rest_of(queue, turn.host, turn.groups)
    return Found(Obstacle.RESTS, reason, until_ms, host) if until_ms > turn.op.now_ms else None


def fails_over_quota(turn: Turn) -> Found | None:
    """A spent quota fails its URIs, if the settings say so."""
    if not turn.head.settings.limits.fail_over_quota:
        return None
    spent = over_quota(turn.op.tx, turn.crawl, turn.head)
    return None if spent is None else Found(Obstacle.FAILS_OVER_QUOTA, f"quota:{spent.field}", spent=spent)


def ineligible(turn: Turn) -> Found | None:
    """A queue gets no turns if it is paused, or if its precedence has reached the floor."""
    return Found(Obstacle.INELIGIBLE) if is_ineligible(turn.queue, turn.head.settings.queues) else None


def retires(turn: Turn) -> Found | None:
    """Settings, a spent total budget or a spent quota retire a queue."""
    reason, spent = _retire_reason(turn.queue.row, turn.head.settings.queues), None
    if not reason:
        spent = over_quota(turn.op.tx, turn.crawl, turn.head)
        reason = "" if spent is None else spent.message
    return Found(Obstacle.RETIRES, reason, spent=spent) if reason else None


def budget_out(turn: Turn) -> Found | None:
    """URIs that are out may spend the rest of a total budget: their results decide."""
    queue = turn.queue
    budget = _total_budget(queue.row, turn.head.settings.queues)
    reaches = queue.cost_out > 0 and budget >= 0 and queue.row.expenditure + queue.cost_out >= budget
    return Found(Obstacle.BUDGET_OUT, f"total budget {budget}") if reaches else None


def session_spent(turn: Turn) -> Found | None:
    """A queue that has spent more than its session budget lets others go first."""
    row, settings = turn.queue.row, turn.head.settings.queues
    budget = settings.session_budget if row.session_budget is None else row.session_budget
    spent = budget > 0 and row.expenditure - row.session_start > budget
    return Found(Obstacle.SESSION_SPENT) if spent else None


def misplaced(turn: Turn) -> Found | None:
    """A URI whose settings have changed may belong in another queue."""
    return None if turn.site.place.queue == turn.queue.queue else Found(Obstacle.MISPLACED)


def out_of_scope(turn: Turn) -> Found | None:
    """The scope may refuse a URI by now that it let in before."""
    head, crawl = turn.head, turn.crawl
    if not (crawl.state_row.scope_changed and crawl.settings.scope.recheck):
        return None  # by the same rules, it would be let in again
    candidate = head.candidate
    rule = refusing_rule(turn.op, crawl, head.uri, candidate.path, candidate.seed, candidate.source)
    return Found(Obstacle.OUT_OF_SCOPE, f"scope.{rule}") if rule else None


def known_first(turn: Turn) -> Found | None:
    """Within a document limit, a recrawl fetches known pages before new ones, except urgent ones.

    In a queue that several hosts share, new pages of one may pass known ones of another that rests.
    """
    crawl, queue = turn.crawl, turn.queue
    if crawl.room_for_new or turn.head.candidate.directive <= Directive.HIGH:
        return None
    if shares(queue, turn.head.settings):
        position, _ = first_uri(turn.op, crawl, queue)
        if keys.level_of(position) >> 8 <= Directive.HIGH:
            return None
    return Found(Obstacle.KNOWN_FIRST)


def robots_txt(turn: Turn) -> Found | None:
    """The robots.txt of an authority is fetched before its pages, unless the crawl ignores it."""
    if turn.head.settings.robots.ignored:
        return None
    row, its = robots_standing(turn)
    status = 0 if row is None else row.fetch_status
    match its.gate:
        case Gate.OPEN:
            return None
        case Gate.FETCH:
            return Found(Obstacle.AWAITS_ROBOTS, tries=its.tries)
        case Gate.WAIT:
            return Found(Obstacle.ROBOTS_RESTS, f"its robots.txt ({status})", its.next_try_ms)
        case Gate.FAIL:
            return Found(Obstacle.ROBOTS_FAILED, f"robots:{status}")


def robots_standing(turn: Turn) -> tuple[RobotsRow | None, Standing]:
    """The robots.txt row of the head's authority, and its meaning for the crawl now."""
    row, queue = turn.shard.robots.row(turn.op.tx, turn.robots_key), turn.queue.row
    # When the last fetch of it for just this head began; 0 if there was none.
    tried_ms = queue.robots_ms if queue.robots_of == turn.head.uri.origin else 0
    return row, standing(row, turn.op.now_ms, turn.head.settings.robots, tried_ms)


def robots_failure(row: RobotsRow | None) -> str:
    """Why a robots.txt could not be fetched: the answer's status, or words."""
    if row is None:
        return words(0)
    return f"status {row.fetch_status}" if row.fetch_status > 0 else words(row.fetch_status, row.reason)


def forbidden(turn: Turn) -> Found | None:
    """robots.txt may forbid the head."""
    if turn.head.settings.robots.ignored:
        return None
    rules = turn.shard.robots.rules(turn.op.tx, turn.robots_key)
    return None if rules.allows(turn.head.uri.target) else Found(Obstacle.FORBIDDEN, weight=rules.weight)


Rule = Callable[[Turn], Found | None]
HOST_RULES: tuple[Rule, ...] = (host_busy, rests)
QUEUE_RULES: tuple[Rule, ...] = (
    fails_over_quota,
    ineligible,
    retires,
    budget_out,
    session_spent,
    misplaced,
    out_of_scope,
    known_first,
    robots_txt,
    forbidden,
)


def first(rules: tuple[Rule, ...], turn: Turn) -> Found | None:
    """The first obstacle that the rules find."""
    for rule in rules:
        found = rule(turn)
        if found is not None:
            return found
    return None


def _retire_reason(row: QueueRow, settings: QueueSettings) -> str:
    if settings.retire:
        return "its settings retire it"
    budget = _total_budget(row, settings)
    if budget >= 0 and row.expenditure >= budget:
        return f"total budget {budget} spent"
    return ""


def _total_budget(row: QueueRow, settings: QueueSettings) -> int:
    """The total budget of a queue; negative if it has none."""
    return settings.total_budget if row.total_budget is None else row.total_budget
