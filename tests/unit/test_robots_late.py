"""A robots.txt that expired before the page that it was fetched for had its turn: it counts for that page."""

from dataclasses import replace

import pytest
from core_doubles.shell import Shell

from frontier_server.core.machines.lifecycle import CrawlState
from frontier_server.core.spec.settings import (
    CrawlSettings,
    GroupSettings,
    PolitenessSettings,
    QueueSettings,
    RobotsSettings,
)
from frontier_server.core.state.model import Report

HOSTS = tuple(f"host{number}.example" for number in range(4))


def crawl(
    politeness: PolitenessSettings,
    groups: tuple[GroupSettings, ...] = (),
    max_attempts: int = 2,
    retry_delay_ms: int = 1_000,
) -> Shell:
    """A crawl that runs, with two pages on each of four hosts; a robots.txt is valid for ten seconds."""
    shell = Shell()
    robots = RobotsSettings(validity_ms=10_000, max_attempts=max_attempts, retry_delay_ms=retry_delay_ms)
    settings = CrawlSettings(
        allowed_addresses=("loopback",), politeness=politeness, groups=groups, robots=robots
    )
    shell.create("crawl", settings)
    shell.launch("crawl", *(f"http://{host}/{number}" for number in range(2) for host in HOSTS))
    return shell


def fetch_all(shell: Shell, robots_status: int = 200) -> list[str]:
    """Let one node fetch until the crawl ends, or for too long; what it fetched."""
    fetched: list[str] = []
    for _ in range(200):
        for grant in shell.grants():
            shell.finish(Report(grant.token, fetch_status=robots_status if grant.robots else 200))
            fetched.append(grant.uri)
        if shell.state("crawl") is CrawlState.FINISHED:
            return fetched
        due_ms = shell.core.upkeep.next_due_ms()
        assert due_ms is not None
        shell.now_ms = max(shell.now_ms, due_ms)
        shell.tick()
    raise AssertionError(f"the crawl has not ended; it fetched {fetched[-10:]}")


POLITE = PolitenessSettings(delay_factor=0, min_delay_ms=15_000, max_delay_ms=15_000)
QUICK = PolitenessSettings(delay_factor=0, min_delay_ms=0, max_delay_ms=0)
ONE_GROUP = (GroupSettings("all", HOSTS, max_parallel=1, min_gap_ms=4_000),)


def test_a_host_that_rests_longer_than_its_robots_txt_is_valid_is_crawled_all_the_same() -> None:
    """Before each page its robots.txt; one is never fetched in vain."""
    fetched = fetch_all(crawl(POLITE))
    for host in HOSTS:
        its = [uri.removeprefix(f"http://{host}") for uri in fetched if f"//{host}/" in uri]
        assert its == ["/robots.txt", "/0", "/robots.txt", "/1"]


def test_so_is_a_group_of_hosts_whose_turns_take_longer() -> None:
    fetched = fetch_all(crawl(QUICK, ONE_GROUP))
    assert len([uri for uri in fetched if not uri.endswith("robots.txt")]) == 8
    assert len(fetched) <= 16


@pytest.mark.parametrize("groups", [(), ONE_GROUP])
def test_the_uris_of_a_host_without_robots_txt_fail_though_their_turn_comes_late(
    groups: tuple[GroupSettings, ...],
) -> None:
    """-61 after the last try: so that a crawl always ends."""
    shell = crawl(QUICK if groups else POLITE, groups)
    fetched = fetch_all(shell, robots_status=500)
    assert all(uri.endswith("robots.txt") for uri in fetched)
    failed = [row.uri for row in shell.outcomes("crawl") if row.fetch_status == -61]
    assert len(failed) == 8


@pytest.mark.parametrize("retry_delay_ms", [0, 1_000])
def test_where_no_try_brings_a_new_copy_the_last_one_counts_for_the_page_that_was_tried_for(
    retry_delay_ms: int,
) -> None:
    """Once for each page, however soon it may be tried again: else only robots.txt is ever asked for."""
    shell = crawl(POLITE, retry_delay_ms=retry_delay_ms)
    shell.finish(*(Report(grant.token, fetch_status=404) for grant in shell.grants()))
    fetched = fetch_all(shell, robots_status=500)
    for host in HOSTS:
        its = [uri.removeprefix(f"http://{host}") for uri in fetched if f"//{host}/" in uri]
        assert its == ["/0", "/robots.txt", "/1"]


@pytest.mark.parametrize("allow_unreachable", [True, False])
@pytest.mark.parametrize("most_requests", [1, 2])
def test_crawls_that_share_a_host_without_robots_txt_end_though_each_tries_after_the_other(
    allow_unreachable: bool, most_requests: int
) -> None:
    """A crawl gives up for its page also where another one has tried since."""
    shell = Shell()
    settings = CrawlSettings(
        allowed_addresses=("loopback",),
        politeness=replace(POLITE, max_parallel=most_requests),
        robots=RobotsSettings(validity_ms=10_000, retry_delay_ms=14_000, allow_unreachable=allow_unreachable),
    )
    names = ("one", "other", "third")
    for name in names:
        shell.create(name, settings)
        shell.launch(name, f"http://{HOSTS[0]}/{name}")
    for _ in range(200):
        for grant in shell.grants():
            shell.finish(Report(grant.token, fetch_status=503 if grant.robots else 200))
        if all(shell.state(name) is CrawlState.FINISHED for name in names):
            break
        due_ms = shell.core.upkeep.next_due_ms()
        assert due_ms is not None
        shell.now_ms = max(shell.now_ms, due_ms)
        shell.tick()
    ends = [[row.fetch_status for row in shell.outcomes(name)][-1:] for name in names]
    assert ends == [[200 if allow_unreachable else -61]] * len(names)


def test_an_old_robots_txt_is_not_taken_for_one_that_was_fetched_for_this_page() -> None:
    """A page that comes a day later has it fetched again."""
    shell = crawl(QUICK)
    fetch_all(shell)
    shell.create("later", CrawlSettings(allowed_addresses=("loopback",), queues=QueueSettings()))
    shell.now_ms += 90_000_000
    shell.launch("later", f"http://{HOSTS[0]}/later")
    assert [grant.uri for grant in shell.grants("later")] == [f"http://{HOSTS[0]}/robots.txt"]
