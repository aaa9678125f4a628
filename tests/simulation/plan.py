"""What happens in one simulated history, drawn from its seed: the web, the crawls, nodes, wishes and faults.

A plan is plain data. What is left out of it leaves the rest as it was, so that a plan that fails can be made
smaller.
"""

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from core_doubles.web import ROBOTS_FILES, SITES
from simulation.draws import drawn_settings, named_otherwise

from frontier_server.core.spec.settings import CrawlSettings

CHAOS_MS = (30_000, 150_000)  # how long faults and wishes go on
PAGE_STATUSES = (404, 500, 204, 304, 301, 503, 503, 429, 429, -1, -2, -2, -3, -4, -5, -10, -50)
ROBOTS_STATUSES = (404, -404, 403, 500, 503, 429, -1, -2, -4, -10)
WISHES = (
    *("pause", "resume", "hold", "resume", "update", "override", "no-override", "queue", "queue", "schedule")
    * 2,
    *("schedule", "seeds", "delete-uris", "retire-queues", "unretire-queues", "wake-queues", "verify"),
    *("forget", "note", "import", "cancel-job", "stop", "teardown", "delete", "anew", "checkpoint", "copy"),
    *("pool-size", "drain", "resume", "checkpoint", "copy"),
)
FAULTS = (
    *("crash", "crash", "crash", "restart", "node-dies", "node-dies", "node-hangs", "node-hangs"),
    *(
        "stop-server",
        "replay",
        "replay",
        "replay",
        "replay",
        "twin",
        "away",
        "backup",
        "backup",
        "trouble",
        "node-trouble",
    ),
)


@dataclass(frozen=True)
class PagePlan:
    """A page: what its host answers, one fetch after the other, and its links (site, page)."""

    target: str
    statuses: tuple[int, ...]  # the last one for ever
    links: tuple[tuple[int, int], ...]
    duration_ms: int
    retry_after_ms: int
    retires: bool = False


@dataclass(frozen=True)
class SitePlan:
    """A scheme and authority."""

    site: int  # of `core_doubles.web.SITES`
    robots: tuple[tuple[int, int], ...]  # status and file, one fetch after the other
    pages: tuple[PagePlan, ...]
    slow: int = 1  # times


@dataclass(frozen=True)
class CrawlPlan:
    """A crawl, and when it is launched."""

    name: str
    settings: CrawlSettings
    seeds: tuple[tuple[int, int], ...]  # site, page
    launch_ms: int


@dataclass(frozen=True)
class NodePlan:
    """A node."""

    name: str
    toes: int
    begin_ms: int


@dataclass(frozen=True)
class Event:
    """Something that an operator wishes, or that goes wrong."""

    at_ms: int
    kind: str
    picks: tuple[int, ...]  # which crawl, queue, node, …: what there is then decides
    given: Any = None


@dataclass(frozen=True)
class NetworkPlan:
    """How requests and answers travel, in thousandths where it is a chance."""

    delay_ms: int = 5
    slow: int = 0  # that take `slow_ms`
    slow_ms: int = 3_000
    dropped: int = 0
    doubled: int = 0


@dataclass(frozen=True)
class Plan:
    """One history."""

    seed: int
    sites: tuple[SitePlan, ...]
    crawls: tuple[CrawlPlan, ...]
    nodes: tuple[NodePlan, ...]
    wishes: tuple[Event, ...] = ()
    faults: tuple[Event, ...] = ()
    network: NetworkPlan = field(default_factory=NetworkPlan)
    flush_ms: int = 5
    chaos_ms: int = 60_000


def drawn(seed: int) -> Plan:
    """The plan of a seed."""
    rng = Random(seed)
    sites = _web(rng)
    chaos_ms = rng.randint(*CHAOS_MS)
    crawls = tuple(_crawl(rng, f"crawl{number}", sites) for number in range(rng.choice((1, 1, 1, 2, 2, 3))))
    nodes = tuple(
        NodePlan(name, rng.choice((1, 2, 4)), rng.choice((0, 0, 0, 20_000)))
        for name in ("north", "south", "west", "east")[: rng.choice((1, 1, 2, 2, 3, 4))]
    )
    wishes = sorted(
        (_event(rng, WISHES, chaos_ms) for _ in range(rng.choice((0, 1, 3, 6, 12)))),
        key=lambda event: event.at_ms,
    )
    faults = sorted(
        (_event(rng, FAULTS, chaos_ms) for _ in range(rng.choice((0, 1, 2, 3, 6)))),
        key=lambda event: event.at_ms,
    )
    odd = rng.random() < 0.5
    network = NetworkPlan(
        rng.choice((2, 20, 100)),
        slow=rng.choice((0, 20, 100)) if odd else 0,
        slow_ms=rng.choice((3_000, 15_000)),
        dropped=rng.choice((0, 10, 100)) if odd else 0,
        doubled=rng.choice((0, 10, 50)) if odd else 0,
    )
    flush_ms = rng.choice((1, 5, 50))
    crawls = tuple(replace(crawl, settings=named_otherwise(rng, crawl.settings)) for crawl in crawls)
    return Plan(seed, sites, crawls, nodes, tuple(wishes), tuple(faults), network, flush_ms, chaos_ms)


def _event(rng: Random, kinds: tuple[str, ...], chaos_ms: int) -> Event:
    kind = rng.choice(kinds)
    picks = tuple(rng.randrange(1_000) for _ in range(6))
    given = drawn_settings(rng) if kind in ("update", "anew") else None
    # Early more often, as long as there is most to do.
    return Event(int(chaos_ms * rng.random() ** 2), kind, picks, given)


def _web(rng: Random) -> tuple[SitePlan, ...]:
    chosen = rng.sample(range(len(SITES)), rng.choice((1, 2, 2, 3, 4, 5)))
    pages_of = [rng.choice((2, 4, 6, 8, 14)) for _ in chosen]
    calm = rng.random() < 0.5
    sites = []
    for place, site in enumerate(chosen):
        robots: list[tuple[int, int]] = []
        if rng.random() < 0.3:
            robots = [(rng.choice(ROBOTS_STATUSES), 0) for _ in range(rng.choice((1, 1, 2, 4)))]
        if not robots or rng.random() < 0.7:
            robots.append((200, rng.choice((0, 0, 0, 1, 1, 2, 3))))
        pages = tuple(_page(rng, number, place, pages_of, calm) for number in range(pages_of[place]))
        sites.append(SitePlan(site, tuple(robots), pages, rng.choice((1, 1, 1, 1, 1, 20))))
    assert len(ROBOTS_FILES) == 4
    return tuple(sites)


def _page(rng: Random, number: int, place: int, pages_of: list[int], calm: bool) -> PagePlan:
    prefix = rng.choice(("/", "/", "/", "/private/", "/b?q="))
    target = "/" if not number else f"{prefix}{number}"
    statuses: list[int] = []
    if rng.random() < (0.1 if calm else 0.35):
        statuses = [rng.choice(PAGE_STATUSES) for _ in range(rng.choice((1, 1, 2, 5)))]
    if not statuses or rng.random() < 0.8:
        statuses.append(200)
    links = []
    for _ in range(rng.choice((0, 1, 2, 3, 5))):
        to = place if rng.random() < 0.6 else rng.randrange(len(pages_of))
        links.append((to, rng.randrange(pages_of[to])))
    if number + 1 < pages_of[place]:
        links.append((place, number + 1))
    return PagePlan(
        target,
        tuple(statuses),
        tuple(links),
        rng.choice((50, 100, 300, 1_500)),
        rng.choice((0, 0, 5_000, 40_000)),
        rng.random() < 0.01,
    )


def _crawl(rng: Random, name: str, sites: tuple[SitePlan, ...]) -> CrawlPlan:
    seeds = [(place, 0) for place in range(len(sites)) if not place or rng.random() < 0.7]
    seeds += [(0, rng.randrange(len(sites[0].pages))) for _ in range(rng.choice((0, 0, 1, 3)))]
    return CrawlPlan(name, drawn_settings(rng), tuple(dict.fromkeys(seeds)), rng.choice((0, 0, 0, 15_000)))
