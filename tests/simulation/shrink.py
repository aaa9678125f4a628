"""Makes a plan that fails smaller, as long as it fails in the same way."""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace

from simulation.draws import drawn_settings
from simulation.plan import NetworkPlan, Plan, SitePlan

from frontier_server.core.spec.settings import CrawlSettings

MOST_TRIES = 600


def smaller(plan: Plan, said: str, fault_of: Callable[[Plan], str]) -> tuple[Plan, str]:
    """The smallest plan that was found to fail in the same place, and what it says."""
    tries, place = 0, said.partition(":")[0]
    found = True
    while found and tries < MOST_TRIES:
        found = False
        for candidate in _simpler(plan):
            tries += 1
            told = fault_of(candidate)
            if told.partition(":")[0] == place:
                plan, said, found = candidate, told, True
                break
            if tries >= MOST_TRIES:
                break
    return plan, said


def _simpler(plan: Plan) -> Iterator[Plan]:
    """Plans with a bit less in them, the largest steps first."""
    for part in ("wishes", "faults"):
        events = getattr(plan, part)
        size = len(events)
        while size:
            for start in range(0, len(events), size):
                yield replace(plan, **{part: events[:start] + events[start + size :]})
            size //= 2
    if plan.network != NetworkPlan():
        yield replace(plan, network=NetworkPlan())
        for name in ("slow", "dropped", "doubled"):
            if getattr(plan.network, name):
                yield replace(plan, network=replace(plan.network, **{name: 0}))
    for part in ("nodes", "crawls"):
        each = getattr(plan, part)
        for place in range(len(each)) if len(each) > 1 else ():
            yield replace(plan, **{part: each[:place] + each[place + 1 :]})
    for place, site in enumerate(plan.sites):
        for simpler in _simpler_sites(site):
            yield replace(plan, sites=(*plan.sites[:place], simpler, *plan.sites[place + 1 :]))
    for place, crawl in enumerate(plan.crawls):
        for number in range(len(crawl.seeds)) if len(crawl.seeds) > 1 else ():
            less = replace(crawl, seeds=crawl.seeds[:number] + crawl.seeds[number + 1 :])
            yield replace(plan, crawls=(*plan.crawls[:place], less, *plan.crawls[place + 1 :]))
        for settings in _simpler_settings(crawl.settings):
            usual = replace(crawl, settings=settings)
            yield replace(plan, crawls=(*plan.crawls[:place], usual, *plan.crawls[place + 1 :]))


def _simpler_sites(site: SitePlan) -> Iterator[SitePlan]:
    for number in range(len(site.pages)) if len(site.pages) > 1 else ():
        yield replace(site, pages=site.pages[:number] + site.pages[number + 1 :])
    if site.robots != ((200, 0),):
        yield replace(site, robots=((200, 0),))
    for number, page in enumerate(site.pages):
        for change in ({"statuses": (200,)}, {"links": ()}):
            less = replace(page, **change)
            if less != page:
                yield replace(site, pages=(*site.pages[:number], less, *site.pages[number + 1 :]))


def _simpler_settings(settings: CrawlSettings) -> Iterator[CrawlSettings]:
    """Part by part as usual."""
    for field in fields(CrawlSettings):
        if getattr(settings, field.name) != getattr(USUAL, field.name):
            yield replace(settings, **{field.name: getattr(USUAL, field.name)})


class _Usual:
    """Dice that always show what is usual."""

    def random(self) -> float:
        return 1.0

    def choice(self, options: tuple[float, ...]) -> float:
        return options[0]


USUAL = drawn_settings(_Usual())  # type: ignore[arg-type]  # all that it uses of dice
