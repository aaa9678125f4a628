"""The rules at a work queue's turn, in order: Next obeys the first that is in the way, Explain tells them.

First those of the head's host, then those of the queue and of the head itself.
"""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from .crawl import Crawl
from .head import Head
from .host import Group, Host, full, rest_of
from .operation import Operation, is_ineligible
from .origin import Site
from .passing import Wait
from .queue import WorkQueue
from .records import QueueRow, RobotsRow
from .robotstxt.authority import Gate, Standing, standing
from .shard import Shard
from .spec.settings import QueueSettings
from .statistics import Spent, over_quota
from .uri.canonical import CanonicalUri


class Obstacle(Enum):
    """What keeps a queue's head from being leased as a page now."""

    HOST_BUSY = "its host or a group answers as many requests as it may"
    RESTS = "the queue, its host or a group rests"
    FAILS_OVER_QUOTA = "a quota is spent, and its URIs fail"
    INELIGIBLE = "its precedence is at the floor, or somebody pauses it"
    RETIRES = "its settings, its budget or a quota retire it"
    SESSION_SPENT = "it has spent the budget of its session"
    MISPLACED = "the head belongs into another queue by now"
    AWAITS_ROBOTS = "its robots.txt is fetched first"
    ROBOTS_RESTS = "its robots.txt could not be had, and is tried again later"
    ROBOTS_FAILED = "its robots.txt could not be had"
    FORBIDDEN = "robots.txt forbids it"


class Found(NamedTuple):
    """An obstacle, with the values that decide."""

    obstacle: Obstacle
    reason: str = ""
    until_ms: int = 0
    host: Host | None = None  # who is busy, or rests
    weight: int = 0  # what it took to find out: of robots.txt rules


class Turn:
    """A queue's turn: its head, and what the rules look at. Each value is read when it is first asked for."""

    __slots__ = ("_site", "_spent", "_standing", "crawl", "groups", "head", "host", "op", "queue", "shard")

    def __init__(self, shard: Shard, op: Operation, crawl: Crawl, queue: WorkQueue, head: Head) -> None:
        self.shard, self.op, self.crawl, self.queue, self.head = shard, op, crawl, queue, head
        self.host: Host = shard.hosts.of(op.tx, crawl, head.uri.host)
        self.groups: list[Group] = shard.hosts.groups(op.tx, crawl, head.uri.host, self.host)
        self._site: Site | None = None
        self._spent: tuple[Spent | None] | None = None
        self._standing: Standing | None = None

    @property
    def site(self) -> Site:
        """What the head's origin decides: its place, and where its robots.txt is."""
        if self._site is None:
            self._site = self.crawl.origins.site(self.head.uri, self.head.settings)
        return self._site

    @property
    def spent(self) -> Spent | None:
        """Which quota is spent for the head, if one is."""
        if self._spent is None:
            head = self.head
            spent = over_quota(self.op.tx, self.crawl, head.settings, head.uri.host, head.source)
            self._spent = (spent,)
        return self._spent[0]

    @property
    def robots(self) -> RobotsRow | None:
        """What was seen of the head's robots.txt."""
        return self.shard.robots.row(self.op.tx, self.site.robots_key)

    @property
    def standing(self) -> Standing:
        """What the robots.txt lets the crawl do now."""
        if self._standing is None:
            tried_ms = _tried_ms(self.queue.row, self.head.uri)
            self._standing = standing(self.robots, self.op.now_ms, self.head.settings.robots, tried_ms)
        return self._standing

    @property
    def awaits_robots(self) -> bool:
        """Whether the robots.txt is being fetched for another queue of the crawl."""
        uri = self.head.uri
        return self.shard.leases.robots_out(self.crawl.number, uri.scheme, uri.authority)

    def wait(self) -> Wait | None:
        """What the head's authority waits for, in a queue that several hosts share; None if for nothing.

        Others of the queue pass a head that waits.
        """
        busy = host_busy(self)
        if busy is not None:
            return Wait(0, busy=busy.host)
        uri, hosts = self.head.uri, self.shard.hosts
        rest = rest_of(self.queue, self.host, self.groups)
        own = hosts.authority(self.op.tx, self.crawl, uri.scheme, uri.authority).row
        waits = [Wait(rest.until_ms, rest.reason)]
        if own.start_ms > self.queue.row.woken_ms:
            waits.append(Wait(own.next_allowed_ms, own.rest_reason))
        longest = max(waits, key=lambda each: each.until_ms)
        if longest.until_ms > self.op.now_ms:
            return longest
        robots = robots_txt(self)
        if robots is None:
            return None
        if robots.obstacle is Obstacle.ROBOTS_RESTS:
            return Wait(robots.until_ms, robots.reason)
        if robots.obstacle is Obstacle.AWAITS_ROBOTS and self.awaits_robots:
            return Wait(0, busy=hosts.robots_of(self.crawl, uri.scheme, uri.authority))
        return None


def host_busy(turn: Turn) -> Found | None:
    """A host, and a group of hosts, answers so many requests at once."""
    busy = full(turn.host, turn.head.settings.politeness.max_parallel, turn.groups)
    return None if busy is None else Found(Obstacle.HOST_BUSY, host=busy)


def rests(turn: Turn) -> Found | None:
    """A queue, a host and a group of hosts rest until a time."""
    queue = turn.queue
    if queue.rest_reason:  # it is snoozed, and memory knows what for
        until_ms, reason, host = queue.wake_ms, queue.rest_reason, None
    else:
        until_ms, reason, host = rest_of(queue, turn.host, turn.groups)
    return Found(Obstacle.RESTS, reason, until_ms, host) if until_ms > turn.op.now_ms else None


def fails_over_quota(turn: Turn) -> Found | None:
    """A spent quota fails its URIs, where the crawl wants that."""
    if not turn.head.settings.limits.fail_over_quota or turn.spent is None:
        return None
    return Found(Obstacle.FAILS_OVER_QUOTA, f"quota:{turn.spent.field}")


def ineligible(turn: Turn) -> Found | None:
    """A queue that somebody pauses, or whose precedence is at the floor, has no turns."""
    return Found(Obstacle.INELIGIBLE) if is_ineligible(turn.queue, turn.head.settings.queues) else None


def retires(turn: Turn) -> Found | None:
    """Settings, a total budget or a quota retire a queue."""
    reason = _retire_reason(turn.queue.row, turn.head.settings.queues)
    if not reason and turn.spent is not None:
        reason = turn.spent.message
    return Found(Obstacle.RETIRES, reason) if reason else None


def session_spent(turn: Turn) -> Found | None:
    """A queue that has spent more than its session's budget lets others go first."""
    row, settings = turn.queue.row, turn.head.settings.queues
    budget = settings.session_budget if row.session_budget is None else row.session_budget
    spent = budget > 0 and row.expenditure - row.session_start > budget
    return Found(Obstacle.SESSION_SPENT) if spent else None


def misplaced(turn: Turn) -> Found | None:
    """Settings may have changed since a URI was put into its queue."""
    return None if turn.site.place.queue == turn.queue.queue else Found(Obstacle.MISPLACED)


def robots_txt(turn: Turn) -> Found | None:
    """robots.txt is fetched before any page of its authority."""
    its = turn.standing
    match its.gate:
        case Gate.FETCH:
            return Found(Obstacle.AWAITS_ROBOTS)
        case Gate.WAIT:
            return Found(Obstacle.ROBOTS_RESTS, f"its robots.txt ({_status(turn)})", its.next_try_ms)
        case Gate.FAIL:
            return Found(Obstacle.ROBOTS_FAILED, f"robots:{_status(turn)}")
        case Gate.OPEN:
            return None


def forbidden(turn: Turn) -> Found | None:
    """robots.txt says what may be fetched."""
    rules = turn.shard.robots.rules(turn.op.tx, turn.site.robots_key)
    return None if rules.allows(turn.head.uri.target) else Found(Obstacle.FORBIDDEN, weight=rules.weight)


Rule = Callable[[Turn], Found | None]
HOST_RULES: tuple[Rule, ...] = (host_busy, rests)
QUEUE_RULES: tuple[Rule, ...] = (
    fails_over_quota,
    ineligible,
    retires,
    session_spent,
    misplaced,
    robots_txt,
    forbidden,
)


def first(rules: tuple[Rule, ...], turn: Turn) -> Found | None:
    """The first obstacle that rules find."""
    for rule in rules:
        found = rule(turn)
        if found is not None:
            return found
    return None


def _status(turn: Turn) -> int:
    return 0 if turn.robots is None else turn.robots.fetch_status


def _tried_ms(row: QueueRow, uri: CanonicalUri) -> int:
    """When the last try began to fetch the robots.txt of a queue's head for it; 0 if there was none."""
    return row.robots_ms if row.robots_of == uri.origin else 0


def _retire_reason(row: QueueRow, settings: QueueSettings) -> str:
    if settings.retire:
        return "its settings retire it"
    budget = settings.total_budget if row.total_budget is None else row.total_budget
    if budget >= 0 and row.expenditure >= budget:
        return f"total budget {budget} spent"
    return ""
