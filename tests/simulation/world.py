"""The simulated web: what each host answers, and what it has seen."""

from collections import Counter
from dataclasses import dataclass

from core_doubles.web import ADDRESSES, ROBOTS_FILES, SITES, Site
from simulation.plan import PagePlan, Plan, SitePlan

from frontier_server.core.state.model import Report

REDIRECTS = (301,)


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer: the report that a node makes of it, and the links (URI, hop)."""

    report: Report
    links: tuple[tuple[str, str], ...]


class World:
    """Hosts, pages and robots.txt files."""

    def __init__(self, plan: Plan) -> None:
        self.sites = {SITES[each.site].uri(""): each for each in plan.sites}
        self.pages: dict[str, tuple[SitePlan, PagePlan]] = {}
        self.links: dict[str, tuple[str, ...]] = {}
        self.asked: Counter[str] = Counter()
        for each in plan.sites:
            for page in each.pages:
                self.pages[SITES[each.site].uri(page.target)] = each, page
        for uri, (_, page) in self.pages.items():
            self.links[uri] = tuple(dict.fromkeys(self._uri(plan, *link) for link in page.links))

    def _uri(self, plan: Plan, site: int, page: int) -> str:
        each = plan.sites[site % len(plan.sites)]
        return SITES[each.site].uri(each.pages[page % len(each.pages)].target)

    def duration_ms(self, uri: str) -> int:
        """How long its host takes."""
        if uri not in self.pages:
            return 100
        site, page = self.pages[uri]
        return page.duration_ms * site.slow

    def fetch(self, token: bytes, uri: str, robots: bool, site: Site, now_ms: int) -> Fetched:
        """Ask a host."""
        self.asked[uri] += 1
        if robots:
            return Fetched(self._robots(token, uri, site), ())
        if uri not in self.pages:
            return Fetched(Report(token, fetch_status=404, duration_ms=100), ())
        plan, page = self.pages[uri]
        status = page.statuses[min(self.asked[uri], len(page.statuses)) - 1]
        answered = status > 0
        report = Report(
            token,
            fetch_status=status,
            duration_ms=page.duration_ms * plan.slow,
            body_bytes=10 if answered else 0,
            digest=f"sha1:{uri}" if status == 200 else "",
            retry_after_ms=page.retry_after_ms if status in (429, 503) else 0,
            peer_address=ADDRESSES.get(site.host, "") if answered else "",
            retire_queue=page.retires and status == 200,
        )
        hop = "R" if status in REDIRECTS else "L"
        found = self.links[uri] if status == 200 else self.links[uri][:1] if status in REDIRECTS else ()
        return Fetched(report, tuple((link, hop) for link in found))

    def _robots(self, token: bytes, uri: str, site: Site) -> Report:
        plan = self.sites.get(site.uri(""))
        sequence = plan.robots if plan is not None else ((404, 0),)
        status, number = sequence[min(self.asked[uri], len(sequence)) - 1]
        has_body = 200 <= status < 300
        body = ROBOTS_FILES[number].body if has_body else b""
        return Report(
            token,
            fetch_status=status,
            duration_ms=60,
            robots_body=body,
            robots_empty=has_body and not body,
            peer_address=ADDRESSES.get(site.host, "") if status > 0 else "",
        )
