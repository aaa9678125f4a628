"""How hosts are treated: requests at once, rests, groups of hosts, robots.txt (Heritrix 2.8, RFC 9309)."""

from core_doubles.model import places
from core_doubles.model.things import Crawl, Host, Model, Queue, Robots
from core_doubles.web import OPEN, RobotsFile, Site

from frontier_server.core.spec.settings import CrawlSettings, PolitenessSettings

OVERLOADED = (429, 503)
UNFETCHABLE = -7
DEFERRED = -50
NOT_FOUND = -404
NO_ANSWER = (-3, -4)
NOT_HTTP = -10


def host_name(crawl: Crawl, site: Site) -> str:
    """Who is asked: the host, which all crawls share, or this crawl's own count of it."""
    if crawl.settings.politeness.across_crawls:
        return site.host
    return f"{crawl.number}\0{site.host}"


def host_of(model: Model, crawl: Crawl, site: Site) -> Host:
    """The host of a site."""
    return model.hosts.setdefault(host_name(crawl, site), Host())


def groups_of(model: Model, crawl: Crawl, site: Site) -> dict[str, tuple[int, int]]:
    """The groups of a site's host: name → most requests at once (0: any number), and least gap."""
    groups = {
        f"{crawl.number}\0group\0{group.name}": (group.max_parallel, group.min_gap_ms)
        for group in crawl.settings.groups
        if site.host in group.hosts
    }
    address, by_address = host_of(model, crawl, site).address, crawl.settings.address_group
    if address and by_address != type(by_address)():
        groups[f"{crawl.number}\0address\0{address}"] = (by_address.max_parallel, by_address.min_gap_ms)
    return groups


def in_flight(model: Model, name: str) -> int:
    """How many leases count for a host or a group."""
    return sum(name in lease.hosts for lease in model.leases.values())


def full(model: Model, crawl: Crawl, site: Site, target: str) -> str:
    """Which of a host and its groups answers as many requests as it may; empty if none does."""
    most = places.settings_for(crawl, site, target).politeness.max_parallel
    if in_flight(model, host_name(crawl, site)) >= most:
        return host_name(crawl, site)
    for name, (most, _) in groups_of(model, crawl, site).items():
        if most and in_flight(model, name) >= most:
            return name
    return ""


def authority_name(crawl: Crawl, site: Site) -> str:
    """Who rests before a retry, where several hosts share a queue."""
    return f"{crawl.number}\0authority\0{site.uri('')}"


def rested_ms(model: Model, crawl: Crawl, queue: Queue, site: Site, shared: bool = True) -> int:
    """From when on a site may be asked for a queue, which others may share, if nothing is in flight."""
    names = [*groups_of(model, crawl, site)]
    authority = model.hosts.get(authority_name(crawl, site), Host())
    if shared and authority.start_ms > queue.woken_ms:
        names.append(authority_name(crawl, site))
    rests = [model.hosts[name].rest_ms for name in names if name in model.hosts]
    return max(queue.rest_ms, host_of(model, crawl, site).rest_ms, *rests, 0)


def rest(
    model: Model,
    crawl: Crawl,
    asked: tuple[Site, str, str],
    lease_ms: int,
    status: int,
    duration_ms: int,
    retry_after_ms: int,
) -> None:
    """A host rests after an answer; where it may answer several at once, from the last start of a request on.

    `asked` is the site, what the host is called, and the target; it was asked when the lease was given.
    """
    site, name, target = asked
    settings = places.settings_for(crawl, site, target)
    host, politeness = model.hosts.setdefault(name, Host()), settings.politeness
    good = robots_of(model, settings, site).good
    rest_ms = polite_rest_ms(duration_ms, good.crawl_delay_ms if good else 0, politeness)
    if politeness.max_parallel > 1:
        host.last_ms = duration_ms
        rest_ms -= model.now_ms - max(host.start_ms, lease_ms)
    if status in OVERLOADED:
        grown_ms = politeness.overload_delay_ms * 2**host.overloads
        host.overloads += 1
        most_ms = politeness.max_overload_delay_ms
        rest_ms = max(rest_ms, min(grown_ms, most_ms), min(retry_after_ms, most_ms))
    elif status > 0:
        host.overloads = 0
    host.rest_ms = max(host.rest_ms, model.now_ms + rest_ms)


def is_silent(model: Model, name: str, uri: str, status: int) -> bool:
    """Whether a host has answered none of the last requests, for three different URIs, this one included."""
    host = model.hosts.setdefault(name, Host())
    if status > 0 or status == NOT_HTTP:
        host.unanswered.clear()
    elif status in NO_ANSWER:
        host.unanswered.add(uri)
    return len(host.unanswered) >= 3


def started(model: Model, crawl: Crawl, site: Site, target: str) -> None:
    """A request begins; where a host may answer several at once, the next one keeps the rest from now on."""
    settings = places.settings_for(crawl, site, target)
    if settings.politeness.max_parallel > 1:
        host, good = host_of(model, crawl, site), robots_of(model, settings, site).good
        delay_ms = good.crawl_delay_ms if good else 0
        host.start_ms = model.now_ms
        host.rest_ms = model.now_ms + polite_rest_ms(host.last_ms, delay_ms, settings.politeness)


def polite_rest_ms(duration_ms: int, crawl_delay_ms: int, politeness: PolitenessSettings) -> int:
    """The least rest after a fetch (Heritrix 2.8)."""
    rest_ms = int(politeness.delay_factor * duration_ms)
    rest_ms = min(max(rest_ms, politeness.min_delay_ms), politeness.max_delay_ms)
    return max(rest_ms, min(crawl_delay_ms, politeness.max_crawl_delay_ms))


# robots.txt.


def robots_of(model: Model, settings: CrawlSettings, site: Site) -> Robots:
    """A site's robots.txt, as a product token reads it."""
    return model.robots.setdefault((site, settings.fetch.product_token), Robots())


def means(model: Model, settings: CrawlSettings, site: Site, queue: Queue | None) -> str:
    """What a robots.txt means for a URI, at the turn of its queue or (None) when it is offered."""
    tried = None if queue is None else queue.robots_tried
    tried_ms = tried[1] if tried is not None and tried[0] == site else None
    return robots_of(model, settings, site).means(model.now_ms, settings.robots, tried_ms)


def forbids(model: Model, settings: CrawlSettings, site: Site, uri: str, queue: Queue | None = None) -> bool:
    """Whether rules that are known and count forbid a URI."""
    robots = robots_of(model, settings, site)
    if means(model, settings, site, queue) != "ask" or robots.good is None:
        return False
    return robots.good.forbids(settings.fetch.product_token, uri.removeprefix(site.uri("")))


def learn(model: Model, settings: CrawlSettings, site: Site, status: int, file: RobotsFile) -> None:
    """What a fetch of robots.txt means (RFC 9309, 2.3.1)."""
    robots = robots_of(model, settings, site)
    if (200 <= status < 500 and status != 429) or status == NOT_FOUND:
        robots.good, robots.good_ms = file if 200 <= status < 300 else OPEN, model.now_ms
        robots.failures_ms.clear()
    else:
        robots.failures_ms.append(model.now_ms)
