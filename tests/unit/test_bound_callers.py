"""A caller who may act on some crawls only does not decide what other crawls fetch, and when."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from core_doubles.shell import Shell

from frontier_server.core.journey.dispatch import Want
from frontier_server.core.rows.store import Family
from frontier_server.core.spec.settings import CrawlSettings, PolitenessSettings, RobotsSettings
from frontier_server.core.state.model import Grant, Report

HOST = "http://alpha.example"
POLITE = PolitenessSettings(delay_factor=0, min_delay_ms=2_000, max_delay_ms=2_000, overload_delay_ms=30_000)
SETTINGS = CrawlSettings(
    allowed_addresses=("loopback",),
    politeness=POLITE,
    robots=RobotsSettings(max_attempts=2, retry_delay_ms=1_000),
    run_while_empty=True,
)
HOUR_MS = 3_600_000


def frontier(settings: CrawlSettings = SETTINGS) -> Shell:
    """A frontier with a crawl of a bound caller, and one of others, with two pages each of one host."""
    shell = Shell()
    for name in ("bound", "other"):
        shell.create(name, settings)
        shell.launch(name, f"{HOST}/{name}", f"{HOST}/{name}/2")
    return shell


def lease(shell: Shell, crawl: str, most: int = 1, bound: bool | None = None) -> Sequence[Grant]:
    """The leases that a caller gets for a crawl; that of crawl `bound` is bound, unless told otherwise."""
    is_bound = crawl == "bound" if bound is None else bound
    return shell.do(
        lambda core, now: core.frontier.next(crawl, "1", Want(most), crawl, now, bound=is_bound)
    ).grants


def finish(shell: Shell, crawl: str, report: Report, bound: bool | None = None) -> None:
    is_bound = crawl == "bound" if bound is None else bound
    shell.do(lambda core, now: core.frontier.finished([report], crawl, "1", now, bound=is_bound))


def answers(
    shell: Shell,
    crawl: str,
    status: int,
    body: bytes = b"",
    *,
    wait_ms: int = 2_000,
    bound: bool | None = None,
) -> None:
    """A crawl asks for the robots.txt of the host, gets this answer, and waits."""
    (grant,) = lease(shell, crawl, bound=bound)
    assert grant.robots, grant.uri
    finish(shell, crawl, Report(grant.token, fetch_status=status, robots_body=body), bound)
    assert not shell.core.nodes.leases_out
    shell.now_ms += wait_ms


def page(shell: Shell, crawl: str) -> Grant:
    (grant,) = lease(shell, crawl)
    assert not grant.robots
    return grant


def waits_ms(shell: Shell, crawl: str) -> int:
    """How long a crawl that gets nothing now waits for the host."""
    assert not lease(shell, crawl)
    before_ms = shell.now_ms
    for _ in range(20):
        if grants := lease(shell, crawl):
            shell.take_back([grant.token for grant in grants])
            return shell.now_ms - before_ms
        due_ms = shell.core.shard.registry.named(crawl).next_chance_ms()
        assert due_ms is not None
        shell.now_ms = max(due_ms, shell.now_ms + 1)
    raise AssertionError(f"{crawl} waits on and on")


@pytest.mark.sampled("restart", [False, True])
@pytest.mark.sampled(
    ("status", "body"),
    [
        (200, b"User-agent: *\nDisallow: /\n"),
        (200, b"User-agent: *\nAllow: /\n"),
        (404, b""),
        (503, b""),
        (-2, b""),
    ],
)
def test_a_robots_txt_that_a_bound_caller_reports_decides_for_its_crawl_alone(
    status: int, body: bytes, restart: bool
) -> None:
    shell = frontier()
    answers(shell, "bound", status, body, wait_ms=HOUR_MS)
    if restart:
        shell.restart()
    answers(shell, "other", 200, b"User-agent: *\nDisallow: /other/\n")
    assert page(shell, "other").uri == f"{HOST}/other"


def test_the_crawl_of_a_bound_caller_judges_urls_and_links_by_its_robots_txt() -> None:
    shell = frontier()
    answers(shell, "bound", 200, b"User-agent: *\nDisallow: /bound\n")
    assert not lease(shell, "bound")
    shell.schedule("bound", f"{HOST}/bound/3")
    shell.schedule("other", f"{HOST}/bound/3")
    assert shell.count("bound", "disregarded_count") == 3
    answers(shell, "other", 404)
    assert shell.count("other", "disregarded_count") == 0
    uri = f"{HOST}/bound/3"
    for crawl, is_forbidden in (("bound", True), ("other", False)):
        told = shell.core.administration.explain(crawl, "", uri, shell.now_ms)
        assert any("forbidden by robots.txt" in each.message for each in told) is is_forbidden, told


def test_a_robots_txt_that_others_report_decides_for_the_crawl_of_a_bound_caller_too() -> None:
    shell = frontier()
    answers(shell, "other", 200, b"User-agent: *\nDisallow: /bound/2\n")
    grant = page(shell, "bound")
    assert grant.uri == f"{HOST}/bound"
    finish(shell, "bound", Report(grant.token, fetch_status=200))
    shell.now_ms += 2_000
    finish(shell, "other", Report(page(shell, "other").token, fetch_status=200))
    shell.now_ms += SETTINGS.robots.validity_ms
    answers(shell, "bound", 200, b"User-agent: *\nDisallow: /other\n")
    answers(shell, "other", 404)
    assert page(shell, "other").uri == f"{HOST}/other/2"


def test_a_robots_txt_that_an_unbound_node_reports_for_a_bound_callers_crawl_decides_for_all() -> None:
    shell = frontier()
    answers(shell, "bound", 503, wait_ms=HOUR_MS)
    answers(shell, "bound", 404, bound=False)
    assert not page(shell, "other").robots


def test_a_bound_caller_that_reports_for_the_lease_of_others_decides_for_its_crawl_alone() -> None:
    shell = frontier()
    (grant,) = lease(shell, "bound", bound=False)
    finish(shell, "bound", Report(grant.token, fetch_status=404))
    shell.now_ms += 2_000
    answers(shell, "other", 404)


def test_robots_attempts_of_a_bound_caller_do_not_count_as_attempts_of_other_crawls() -> None:
    shell = frontier()
    for _ in range(2):
        assert lease(shell, "bound")
        shell.now_ms += 2 * shell.period_ms
        shell.tick()
        shell.now_ms += 5_000
    for _ in range(10):
        shell.now_ms += 10_000
        if grants := lease(shell, "bound"):
            finish(shell, "bound", Report(grants[0].token, fetch_status=-2))
    shell.now_ms += 60_000
    answers(shell, "other", 404)
    assert page(shell, "other").uri


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_from_a_bound_caller_exceeds_the_usual_rest_for_its_crawl_alone(
    status: int, restart: bool
) -> None:
    shell = frontier()
    answers(shell, "bound", 404)
    finish(shell, "bound", Report(page(shell, "bound").token, fetch_status=status, retry_after_ms=HOUR_MS))
    if restart:
        shell.restart()
    shell.now_ms += 10_000
    answers_after_ms = waits_ms(shell, "other")
    assert answers_after_ms == 20_000, "the rest after an overload counts for all"
    assert waits_ms(shell, "bound") == HOUR_MS - 30_000


def test_overloads_in_a_row_that_a_bound_caller_reports_count_for_all_crawls() -> None:
    shell = frontier()
    answers(shell, "bound", 404)
    for _ in range(2):
        finish(shell, "bound", Report(page(shell, "bound").token, fetch_status=503, retry_after_ms=1_000))
        shell.now_ms += 30_000
    assert waits_ms(shell, "other") == 30_000, "the second rest is twice as long"


def test_retry_after_from_an_unbound_caller_counts_for_all_crawls() -> None:
    shell = frontier()
    answers(shell, "other", 404)
    finish(shell, "other", Report(page(shell, "other").token, fetch_status=503, retry_after_ms=HOUR_MS))
    shell.now_ms += 10_000
    assert waits_ms(shell, "bound") == HOUR_MS - 10_000


@pytest.mark.parametrize("max_parallel", [1, 2])
def test_a_crawl_delay_that_a_bound_caller_reports_counts_for_its_crawl_alone(max_parallel: int) -> None:
    shell = frontier(replace(SETTINGS, politeness=replace(POLITE, max_parallel=max_parallel)))
    answers(shell, "bound", 200, b"User-agent: *\nCrawl-delay: 100\n", wait_ms=0)
    assert waits_ms(shell, "other") == 2_000
    assert waits_ms(shell, "bound") == 98_000
    shell.now_ms += 100_000
    finish(shell, "bound", Report(page(shell, "bound").token, fetch_status=200))
    assert waits_ms(shell, "other") == 2_000
    assert waits_ms(shell, "bound") == 98_000


def test_a_crawl_delay_that_others_reported_counts_after_fetches_of_a_bound_caller() -> None:
    shell = frontier()
    answers(shell, "other", 200, b"User-agent: *\nCrawl-delay: 100\n", wait_ms=100_000)
    finish(shell, "bound", Report(page(shell, "bound").token, fetch_status=200))
    assert waits_ms(shell, "other") == 100_000


def test_requests_and_usual_rests_of_a_bound_caller_keep_all_crawls_off_the_host() -> None:
    shell = frontier()
    answers(shell, "bound", 404)
    grant = page(shell, "bound")
    assert not lease(shell, "other")
    finish(shell, "bound", Report(grant.token, fetch_status=200))
    assert waits_ms(shell, "other") == 2_000


def test_a_crawl_without_across_crawls_keeps_every_rest_to_itself() -> None:
    shell = frontier(replace(SETTINGS, politeness=replace(POLITE, across_crawls=False)))
    answers(shell, "bound", 200, b"User-agent: *\nCrawl-delay: 100\n", wait_ms=100_000)
    finish(shell, "bound", Report(page(shell, "bound").token, fetch_status=503, retry_after_ms=HOUR_MS))
    assert waits_ms(shell, "bound") == HOUR_MS
    answers(shell, "other", 404)


def test_explain_names_the_rest_that_a_bound_caller_caused() -> None:
    shell = frontier()
    answers(shell, "bound", 404)
    finish(shell, "bound", Report(page(shell, "bound").token, fetch_status=503, retry_after_ms=HOUR_MS))
    told = shell.core.administration.explain("bound", "", "", shell.now_ms)
    assert any("fetch status 503" in each.message and each.until_ms for each in told), told


def test_rows_of_a_bound_caller_are_deleted_with_its_crawl() -> None:
    shell = frontier()
    answers(shell, "bound", 200, b"User-agent: *\nCrawl-delay: 100\n", wait_ms=100_000)
    finish(shell, "bound", Report(page(shell, "bound").token, fetch_status=503, retry_after_ms=HOUR_MS))
    shell.do(lambda core, now: core.control.delete_crawl("bound", now, force=True))
    shell.work()
    assert not list(shell.store.scan(Family.OWN_HOSTS, b"", b""))
    shell.now_ms += 30 * 24 * HOUR_MS
    shell.tick()
    shell.work()
    assert not list(shell.store.scan(Family.ROBOTS, b"", b""))


def test_a_seed_tells_of_the_tries_that_count_for_its_crawl() -> None:
    shell = frontier()
    answers(shell, "bound", 503)
    told = [shell.core.administration.seeds(name, 10, 0, shell.now_ms)[0][0] for name in ("bound", "other")]
    assert [each.tried_in_vain for each in told] == [True, False], told
