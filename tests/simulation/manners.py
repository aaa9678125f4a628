"""How hosts are treated, judged from what was acknowledged alone: rests, requests at once, robots.txt.

The bounds are computed anew, and are lower bounds: a frontier that is more patient is not wrong.
"""

from dataclasses import dataclass, field

from core_doubles.web import ROBOTS_FILES, RobotsFile, Site
from simulation.entry import demand

from frontier_server.core.spec.settings import CrawlSettings
from frontier_server.core.state.model import Report

OVERLOADED = (429, 503)
_BY_BODY = {file.body: file for file in ROBOTS_FILES}


@dataclass
class Host:
    """A host, of all crawls or of one."""

    free_ms: int = 0  # no request before
    out: int = 0
    begin_ms: int = 0  # of the last request
    overloads: int = 0


@dataclass
class Group:
    """A group of hosts of a crawl."""

    out: int = 0
    begin_ms: int = -1_000_000_000


@dataclass
class Manners:
    """All hosts, groups, and robots.txt files."""

    hosts: dict[str, Host] = field(default_factory=dict)
    groups: dict[tuple[int, str], Group] = field(default_factory=dict)
    robots: dict[tuple[str, ...], RobotsFile | None] = field(default_factory=dict)  # None: all is allowed

    def host(self, crawl: int, site: Site, settings: CrawlSettings) -> Host:
        """A host as a crawl sees it."""
        return self.hosts.setdefault(host_name(crawl, site, settings), Host())

    def groups_of(self, crawl: int, site: Site, settings: CrawlSettings) -> list[tuple[Group, int, int]]:
        """The groups of a host: how many requests at once, and which gap between their starts."""
        return [
            (self.groups.setdefault((crawl, group.name), Group()), group.max_parallel, group.min_gap_ms)
            for group in settings.groups
            if site.host in group.hosts
        ]

    def granted(self, now_ms: int, crawl: int, site: Site, settings: CrawlSettings) -> None:
        """A request to a host may begin."""
        host, politeness = self.host(crawl, site, settings), settings.politeness
        early_ms = host.free_ms - now_ms
        demand(early_ms <= 0, f"{site.host} is asked {early_ms} ms too early")
        demand(
            host.out < politeness.max_parallel,
            f"{site.host} is asked for {host.out + 1} at once; {politeness.max_parallel} may be",
        )
        for group, most, gap_ms in self.groups_of(crawl, site, settings):
            demand(group.out < most, f"the group of {site.host} is asked for {group.out + 1} at once")
            demand(group.begin_ms + gap_ms <= now_ms, f"the group of {site.host} is asked too early")
            group.out += 1
            group.begin_ms = now_ms
        host.out += 1
        host.begin_ms = now_ms
        if politeness.max_parallel > 1:
            host.free_ms = max(host.free_ms, now_ms + self._rest_ms(0, site, settings))

    def allowed(self, site: Site, target: str, settings: CrawlSettings) -> None:
        """A page may be fetched, as far as its robots.txt goes."""
        place = _file_of(site, settings)
        if place not in self.robots:
            demand(
                settings.robots.allow_unreachable,
                f"{site.uri(target)} is leased before its robots.txt is known",
            )
            return
        file = self.robots[place]
        forbidden = file is not None and file.forbids(_agent(settings), target)
        demand(not forbidden, f"{site.uri(target)} is leased though robots.txt forbids it")

    def ended(self, crawl: int, site: Site, settings: CrawlSettings) -> Host:
        """A request is not out any more."""
        host = self.host(crawl, site, settings)
        host.out -= 1
        for group, _, _ in self.groups_of(crawl, site, settings):
            group.out -= 1
        return host

    def rests(
        self, now_ms: int, host: Host, site: Site, settings: CrawlSettings, report: Report, begin_ms: int
    ) -> None:
        """A host must be left alone after an answer, or after a lapse."""
        politeness, since_ms = settings.politeness, now_ms
        if politeness.max_parallel > 1:
            since_ms = max(host.begin_ms, begin_ms)
        until_ms = since_ms + self._rest_ms(report.duration_ms, site, settings)
        if report.fetch_status in OVERLOADED:
            host.overloads += 1
            own_ms = min(
                politeness.overload_delay_ms << (host.overloads - 1), politeness.max_overload_delay_ms
            )
            asked_ms = min(report.retry_after_ms, politeness.max_overload_delay_ms)
            until_ms = max(until_ms, now_ms + max(own_ms, asked_ms))
        elif report.fetch_status > 0:
            host.overloads = 0
        host.free_ms = max(host.free_ms, until_ms)

    def _rest_ms(self, duration_ms: int, site: Site, settings: CrawlSettings) -> int:
        politeness, file = settings.politeness, self.robots.get(_file_of(site, settings))
        own_ms = min(
            max(int(politeness.delay_factor * duration_ms), politeness.min_delay_ms), politeness.max_delay_ms
        )
        asked_ms = file.crawl_delay_ms if file is not None else 0
        return max(own_ms, min(asked_ms, politeness.max_crawl_delay_ms))

    def learn(self, site: Site, settings: CrawlSettings, report: Report) -> None:
        """A robots.txt was answered; one that could not be had changes nothing."""
        status, place = report.fetch_status, _file_of(site, settings)
        if 200 <= status < 300:
            self.robots[place] = _BY_BODY[report.robots_body]
        elif (300 <= status < 500 and status != 429) or status == -404:
            self.robots[place] = None


def _agent(settings: CrawlSettings) -> str:
    return settings.fetch.product_token.lower()


def _file_of(site: Site, settings: CrawlSettings) -> tuple[str, ...]:
    """A robots.txt, and who reads it: crawls of other names fetch it for themselves."""
    return site.scheme, site.authority, _agent(settings)


def host_name(crawl: int, site: Site, settings: CrawlSettings) -> str:
    """What memory and store call a host."""
    return site.host if settings.politeness.across_crawls else f"{crawl}\0{site.host}"
