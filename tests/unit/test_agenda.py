"""What an operation costs for crawls that it has nothing to do with: nothing."""

from collections import Counter

import pytest
from core_doubles.shell import Shell

from frontier_server.core.spec.settings import CrawlSettings, PolitenessSettings
from frontier_server.core.state.agenda import Soonest
from frontier_server.core.state.crawl import Crawl
from frontier_server.core.state.model import Report

SETTINGS = CrawlSettings(
    allowed_addresses=("loopback",),
    politeness=PolitenessSettings(delay_factor=0, min_delay_ms=0, max_delay_ms=0),
    run_while_empty=True,
)


def test_the_soonest_comes_first_and_a_moment_that_changes_counts_once() -> None:
    soonest = Soonest()
    for number in range(5000):
        soonest.put(number % 7, 10_000 - number)
    soonest.put(3, None)
    assert soonest.first_ms() == 10_000 - 4999
    assert [number for number in soonest.take_due(10_000) if number == 3] == []
    assert soonest.first_ms() is None
    soonest.put(1, 5)
    soonest.put(1, 9)
    assert soonest.take_due(6) == [] and soonest.take_due(9) == [1]


@pytest.mark.interpreted
def test_crawls_that_have_nothing_to_do_cost_an_operation_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Shell()
    for number in range(40):
        shell.create(f"idle-{number}", SETTINGS)
        shell.launch(f"idle-{number}", f"http://idle-{number}.example/")
    for _ in range(2):
        for grant in shell.grants():
            shell.finish(Report(grant.token, fetch_status=404 if grant.robots else 200))
    shell.create("busy", SETTINGS)
    shell.launch("busy", *(f"http://h{number}.example/" for number in range(50)))
    looked: Counter[str] = Counter()
    for name in ("next_due_ms", "next_chance_ms"):
        counted = getattr(Crawl, name)

        def counting(crawl: Crawl, ask: object = counted) -> object:
            looked[crawl.name] += 1
            return ask(crawl)  # type: ignore[operator]  # a method

        monkeypatch.setattr(Crawl, name, counting)
    for _ in range(20):
        (grant,) = shell.grants(most=1)
        shell.finish(Report(grant.token, fetch_status=404 if grant.robots else 200))
        shell.schedule("busy", f"http://h{grant.attempt}.example/page")
        shell.do(lambda core, now: core.frontier.heartbeat("node", "1", [], [], now))
        assert not shell.core.upkeep.has_work and shell.core.frontier.leasable()
        assert shell.core.upkeep.next_due_ms() is not None
    assert set(looked) == {"busy"}


def test_a_crawl_that_fell_behind_is_asked_as_soon_as_it_has_something_again() -> None:
    shell = Shell()
    for name in ("one", "two"):
        shell.create(name, SETTINGS)
        shell.launch(name, f"http://{name}.example/")
    for _ in range(4):
        for grant in shell.grants():
            shell.finish(Report(grant.token, fetch_status=404 if grant.robots else 200))
    assert shell.grants() == []
    shell.schedule("two", "http://two.example/more")
    assert [grant.crawl for grant in shell.grants()] == ["two"]
