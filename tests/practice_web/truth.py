"""Judges a crawl of the practice web by its access log.

Every judge takes requests by their start (as `log.read` gives them) and returns its complaints as sentences;
none is good. None of them reads anything that the crawler says of itself, nor shares code with it.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from practice_web import robots, traps
from practice_web.links import links
from practice_web.log import Entry
from practice_web.web import Origin, Web

LATE = 1_000
"""The number of a request so late that a page which is busy at first has recovered."""

LINK_HOPS = "LM"
"""The hop letters that count towards the limit of link hops; embedded things and redirects do not."""


@dataclass(frozen=True, slots=True)
class Expected:
    """URLs that a crawl must ask for, and those that it may ask for besides."""

    required: frozenset[str]
    optional: frozenset[str]


def expected_pages(web: Web, max_link_hops: int, seeds: Iterable[str] | None = None) -> Expected:
    """What links reach from the seeds (default: all) within scope, robots and the hop limit.

    A page counts by its shortest path. A crawler counts by the path that it found first, so near the limit
    the two may differ; library pages are all within four hops, and trap pages have one path only.
    """
    depths: dict[str, int] = {}
    queue = deque((seed, 0) for seed in (web.seeds if seeds is None else seeds))
    scope = {(origin.name, web.ports[origin.key]) for origin in _origins(web, [seed for seed, _ in queue])}
    required: set[str] = set()
    optional: set[str] = set()
    while queue:
        url, hops = queue.popleft()
        found = web.find(url)
        if found is None or hops > max_link_hops or hops >= depths.get(url, max_link_hops + 1):
            continue
        origin, target = found
        if (origin.name, web.ports[origin.key]) not in scope or not robots.allows(origin.key, target):
            continue
        depths[url] = hops
        trap = traps.find(origin.key, target)
        (required if trap is None or trap.required else optional).add(url)
        for letter, link in _links(web, url, origin, target):
            if letter in LINK_HOPS:
                queue.append((link, hops + 1))
            else:
                queue.appendleft((link, hops))
    return Expected(frozenset(required), frozenset(optional))


def missing_pages(expected: Expected, log: Iterable[Entry]) -> list[str]:
    """Pages that links reach and nobody asked for."""
    asked = {entry.url for entry in log}
    return [f"never requested: {url}" for url in sorted(expected.required - asked)]


def unexpected_requests(web: Web, expected: Expected, log: Iterable[Entry]) -> list[str]:
    """Requests for what no link within scope, robots and hop limit leads to, or sent to the wrong host."""
    known = expected.required | expected.optional
    return [
        f"requested without reason: {entry.url} ({entry.status})"
        for entry in log
        if entry.status == 421 or not (entry.url in known or _is_robots(web, entry))
    ]


def forbidden_requests(web: Web, log: Iterable[Entry]) -> list[str]:
    """Requests that the origin's robots.txt forbids; one that answers 503 forbids everything."""
    complaints = []
    for entry in log:
        origin, target = _place(web, entry)
        if not (robots.allows(origin.key, target) or _is_robots(web, entry)):
            complaints.append(f"robots.txt forbids {entry.url}")
    return complaints


def robots_first_violations(web: Web, log: Iterable[Entry]) -> list[str]:
    """Pages asked for before their origin had answered for its robots.txt."""
    complaints = []
    answered: dict[str, float] = {}
    for entry in log:
        origin, target = _place(web, entry)
        if target == robots.PATH:
            answered.setdefault(origin.key, entry.end)
        elif not _is_robots(web, entry) and entry.start < answered.get(origin.key, float("inf")):
            complaints.append(f"requested before {robots.PATH} was answered: {entry.url}")
    return complaints


def overlaps_and_gaps(web: Web, log: Iterable[Entry], min_delay_s: float | Mapping[str, float]) -> list[str]:
    """Requests to one host name, over all of its ports, that overlap or follow each other too soon.

    `min_delay_s` is due from the end of a request to the start of the next, for all hosts or by host name;
    where robots.txt asks for a longer Crawl-delay, that is due once robots.txt is known. Not judged: when a
    request ended that the crawler broke off (its start counts instead), and hops on the way to a
    robots.txt.
    """
    complaints = []
    by_name: dict[str, list[Entry]] = {}
    for entry in log:
        if not _is_robots_hop(web, entry):
            by_name.setdefault(entry.host, []).append(entry)
    for name, entries in by_name.items():
        given = min_delay_s if isinstance(min_delay_s, float | int) else min_delay_s[name]
        for earlier, later in pairwise(entries):
            origin, target = _place(web, earlier)
            asked = 0.0 if target == robots.PATH else robots.ROBOTS[origin.key].crawl_delay_s
            delay_s = max(given, asked)
            end = earlier.start if _breaks_off(web, earlier) else earlier.end
            gap_s = later.start - end
            if gap_s < 0:
                complaints.append(f"overlap on {name}: {later.path} began before {earlier.path} had ended")
            elif gap_s < delay_s:
                complaints.append(
                    f"too soon on {name}: {later.path} came {gap_s:.3f} s after {earlier.path},"
                    f" {delay_s:.3f} s were due"
                )
    return complaints


def impatient_requests(log: Iterable[Entry], unreported: Collection[str] = ()) -> list[str]:
    """Requests to a host that had asked for patience by Retry-After.

    What was asked for in answers from URLs in `unreported` binds nobody: who heard it was killed.
    """
    complaints = []
    until: dict[str, float] = {}
    for entry in log:
        early_s = until.get(entry.host, 0.0) - entry.start_time
        if early_s > 0:
            complaints.append(f"requested {early_s:.3f} s before Retry-After had passed: {entry.url}")
        if entry.retry_until is not None and entry.url not in unreported:
            until[entry.host] = max(entry.retry_until, until.get(entry.host, 0.0))
    return complaints


def repeated_requests(
    web: Web, log: Sequence[Entry], max_attempts: int, again: Collection[str] = ()
) -> list[str]:
    """Pages asked for more often than right: once, or up to `max_attempts` where the answer is one to retry.

    Each mention of a URL in `again` allows one more request: those in flight when a process was killed.
    The retrieval of a robots.txt is judged by nothing but its manners.
    """
    more = Counter(again)
    complaints = []
    for url, count in sorted(request_counts(entry for entry in log if not _is_robots(web, entry)).items()):
        found = web.find(url)
        trap = traps.find(found[0].key, found[1]) if found else None
        right = max_attempts if trap and trap.retried else trap.most if trap else 1
        if count > right + more[url]:
            complaints.append(f"requested {count} times instead of at most {right + more[url]}: {url}")
    return complaints


def early_retries(
    web: Web, log: Iterable[Entry], min_rest_s: float, unreported: Collection[str] = ()
) -> list[str]:
    """Retries of one page that came sooner than `min_rest_s` after the attempt before.

    URLs in `unreported` are not judged: of one of their attempts nobody may have told.
    """
    complaints = []
    last: dict[str, Entry] = {}
    for entry in fetches(log):
        if entry.url in unreported or not is_retried(web, entry.url):
            continue
        rest_s = entry.start - last[entry.url].end if entry.url in last else min_rest_s
        if rest_s < min_rest_s:
            complaints.append(f"retried after {rest_s:.3f} s, {min_rest_s:.3f} s were due: {entry.url}")
        last[entry.url] = entry
    return complaints


def request_counts(log: Iterable[Entry]) -> Counter[str]:
    """How often each URL was fetched."""
    return Counter(entry.url for entry in fetches(log))


def fetches(log: Iterable[Entry]) -> Iterator[Entry]:
    """The last request of each fetch. One that gets no answer over a connection that has served others is
    repeated in the same fetch, after the host's rest."""
    served: set[int] = set()
    for entry in log:
        if entry.status or entry.connection not in served:
            yield entry
        if entry.connection:
            served.add(entry.connection)


def is_retried(web: Web, url: str) -> bool:
    """Whether the page answers in a way that is to be tried again."""
    found = web.find(url)
    trap = traps.find(found[0].key, found[1]) if found else None
    return trap is not None and trap.retried


# --- helpers ------------------------------------------------------------------------------------


def _links(web: Web, url: str, origin: Origin, target: str) -> Iterable[traps.Link]:
    trap = traps.find(origin.key, target)
    if trap is not None and trap.links is not None:
        return [(letter, web.with_ports(link.encode()).decode()) for letter, link in trap.links]
    return links(url, web.reply(origin, target, LATE))


def _origins(web: Web, urls: Iterable[str]) -> list[Origin]:
    return [found[0] for url in urls if (found := web.find(url))]


def _place(web: Web, entry: Entry) -> tuple[Origin, str]:
    """Origin and request target of a request. The log holds only our own."""
    found = web.find(entry.url)
    if found is None:
        raise ValueError(f"the access log is of another web: {entry.url} belongs to no host of this one")
    return found[0], entry.path


def _is_robots(web: Web, entry: Entry) -> bool:
    return entry.path == robots.PATH or _is_robots_hop(web, entry)


def _is_robots_hop(web: Web, entry: Entry) -> bool:
    return entry.url in web.robots_hops


def _breaks_off(web: Web, entry: Entry) -> bool:
    origin, target = _place(web, entry)
    trap = traps.find(origin.key, target)
    return entry.aborted or (trap is not None and trap.aborted)
