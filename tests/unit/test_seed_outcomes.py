"""Seeds with their outcomes in words, and why a crawl counts as failed."""

import pytest
from core_doubles.lives import NAME, launched
from core_doubles.shell import Shell

from frontier_server.core.machines.lifecycle import CrawlState, Input
from frontier_server.core.spec.settings import LimitSettings, RetrySettings, RobotsSettings, ScopeSettings
from frontier_server.core.state.model import Report, SeedResult

HOST = "http://alpha.example"
ONCE = RetrySettings(max_attempts=1)
IGNORED = RobotsSettings(policy="ignore")


def told(shell: Shell) -> list[tuple[str, SeedResult]]:
    """The outcomes of the seeds."""
    seeds, _ = shell.core.administration.seeds(NAME, 100, 0, shell.now_ms)
    return [(seed.outcome, seed.result) for seed in seeds]


def failure(shell: Shell) -> str:
    """Why the crawl counts as failed."""
    return shell.core.views.crawl(NAME).failure


def fetched(status: int, reason: str = "") -> Shell:
    """A crawl whose only seed has been fetched once."""
    shell = launched(f"{HOST}/", retry=ONCE, robots=IGNORED)
    (grant,) = shell.grants(NAME)
    shell.finish(Report(grant.token, fetch_status=status, reason=reason))
    return shell


@pytest.mark.parametrize(
    ("status", "reason", "outcome", "result"),
    [
        (200, "", "fetched (200)", SeedResult.FETCHED),
        (304, "", "fetched (304)", SeedResult.FETCHED),
        (301, "", "redirected (301)", SeedResult.REDIRECTED),
        (302, "mailto:a@b.example", "redirected to mailto:a@b.example (302)", SeedResult.REDIRECTED),
        (404, "", "answered with an error (404)", SeedResult.ERROR),
        (-1, "", "name not found", SeedResult.FAILED),
        (-7, "127.0.0.1 is not public", "address refused: 127.0.0.1 is not public", SeedResult.FAILED),
    ],
)
def test_a_seed_that_ended_tells_how(status: int, reason: str, outcome: str, result: SeedResult) -> None:
    assert told(fetched(status, reason)) == [(outcome, result)]


@pytest.mark.parametrize(("status", "failed"), [(200, False), (404, True), (301, True), (-1, True)])
def test_a_crawl_that_fetched_no_page_has_failed(status: int, failed: bool) -> None:
    shell = fetched(status)
    assert shell.state(NAME) is CrawlState.FINISHED
    assert bool(failure(shell)) is failed
    assert not failed or failure(shell).startswith("no page was fetched: ")


def test_a_crawl_whose_seed_is_an_error_page_with_links_has_failed() -> None:
    shell = launched(f"{HOST}/", robots=IGNORED)
    shell.finish(Report(shell.grants(NAME)[0].token, fetch_status=404))
    shell.do(lambda core, now: core.control.reopen(NAME, lambda spec: (spec, ()), True, now))
    shell.schedule(NAME, f"{HOST}/linked")
    shell.request(NAME, Input.RESUME)
    shell.now_ms += 60_000
    shell.tick()
    shell.finish(Report(shell.grants(NAME)[0].token, fetch_status=200))
    assert shell.state(NAME) is CrawlState.FINISHED
    assert failure(shell) == "no seed was fetched: answered with an error (404)"


def test_a_crawl_that_goes_on_has_not_failed() -> None:
    shell = launched(f"{HOST}/")
    assert failure(shell) == ""


def test_a_crawl_that_was_stopped_by_a_request_has_not_failed() -> None:
    shell = launched(f"{HOST}/")
    shell.request(NAME, Input.STOP)
    assert shell.state(NAME) is CrawlState.FINISHED and failure(shell) == ""


def test_a_crawl_that_ended_at_a_limit_without_a_page_has_failed() -> None:
    shell = launched(f"{HOST}/", f"{HOST}/2", robots=IGNORED, limits=LimitSettings(max_documents=1))
    shell.finish(Report(shell.grants(NAME, most=1)[0].token, fetch_status=404))
    assert shell.state(NAME) is CrawlState.FINISHED
    assert failure(shell) == "no page was fetched: answered with an error (404)"


def test_a_seed_that_waits_says_what_for() -> None:
    shell = launched(f"{HOST}/", robots=IGNORED)
    assert told(shell) == [("not fetched yet", SeedResult.PENDING)]
    (grant,) = shell.grants(NAME)
    assert told(shell) == [("being fetched by node node", SeedResult.PENDING)]
    shell.finish(Report(grant.token, fetch_status=-1))
    waits = "not fetched yet: queue example,alpha, rests: retry after fetch status -1: name not found"
    assert told(shell) == [(waits, SeedResult.PENDING)]


def test_a_seed_whose_robots_txt_cannot_be_fetched_says_so() -> None:
    shell = launched(f"{HOST}/", robots=RobotsSettings(max_attempts=1))
    (grant,) = shell.grants(NAME)
    shell.finish(Report(grant.token, fetch_status=503))
    shell.now_ms += 3_600_000
    shell.tick()
    shell.grants(NAME)
    assert told(shell) == [("robots.txt could not be fetched: status 503", SeedResult.FAILED)]


def test_a_seed_names_the_reason_that_its_robots_txt_has() -> None:
    shell = launched(f"{HOST}/", robots=RobotsSettings(max_attempts=1))
    (grant,) = shell.grants(NAME)
    shell.finish(Report(grant.token, fetch_status=-2, reason="TLS: the certificate has expired"))
    shell.restart()
    reason = "robots.txt could not be fetched: connection failed: TLS: the certificate has expired"
    shell.now_ms += 3_600_000
    shell.tick()
    shell.grants(NAME)
    assert told(shell) == [(reason, SeedResult.FAILED)]


def test_a_seed_that_the_scope_refuses_names_the_rule() -> None:
    shell = launched(f"{HOST}/private", f"{HOST}/", scope=ScopeSettings(reject_patterns=(".*private",)))
    assert told(shell)[0] == ("refused by scope.reject_patterns[0]", SeedResult.FAILED)


def test_the_reason_of_a_failure_stays_with_the_uri_after_a_restart() -> None:
    shell = fetched(-2, "192.0.2.1:80: connection refused")
    shell.restart()
    story = shell.core.administration.story(NAME, f"{HOST}/", shell.now_ms)
    assert story.reason == "192.0.2.1:80: connection refused"
    assert shell.outcomes(NAME)[-1].reason == "192.0.2.1:80: connection refused"
    (reason,) = (
        each
        for each in shell.core.administration.explain(NAME, "", f"{HOST}/", shell.now_ms)
        if each.message.startswith("FAILED")
    )
    assert "(connection failed: 192.0.2.1:80: connection refused)" in reason.message


def test_remarks_of_nodes_are_counted_by_name() -> None:
    shell = launched(f"{HOST}/", f"{HOST}/2", robots=IGNORED)
    for remarks in (("hookFailed",), ("hookFailed", "linksCut:12")):
        (grant,) = shell.grants(NAME)
        shell.finish(Report(grant.token, fetch_status=200, annotations=remarks))
        shell.now_ms += 60_000
        shell.tick()
    counted = shell.core.views.statistics(NAME, shell.now_ms).annotations
    assert counted == {"hookFailed": 2, "linksCut": 1}


def in_vain(shell: Shell) -> list[tuple[str, bool]]:
    """The outcomes of the seeds, and whether they are tried in vain."""
    seeds, _ = shell.core.administration.seeds(NAME, 100, 0, shell.now_ms)
    assert {seed.result for seed in seeds} == {SeedResult.PENDING}
    return [(seed.outcome, seed.tried_in_vain) for seed in seeds]


@pytest.mark.parametrize(
    ("status", "words"),
    [(-1, "name not found"), (-2, "connection failed: refused"), (-3, "connection lost")],
)
def test_a_seed_tried_in_vain_stays_so_through_rests_and_further_tries(status: int, words: str) -> None:
    shell = launched(f"{HOST}/", robots=IGNORED)
    assert in_vain(shell) == [("not fetched yet", False)]
    (grant,) = shell.grants(NAME)
    assert in_vain(shell) == [("being fetched by node node", False)]
    shell.finish(Report(grant.token, fetch_status=status, reason="refused" if status == -2 else ""))
    tried = f"tried 1 time, in vain ({words})"
    rests = tried  # by itself, or with its queue
    if status != -3:
        rests = f"queue example,alpha, rests: retry after fetch status {status}: {words}"
    assert in_vain(shell) == [(f"not fetched yet: {rests}", True)]
    shell.restart()
    assert in_vain(shell) == [(f"not fetched yet: {rests}", True)]
    shell.now_ms += 3_600_000
    shell.tick()
    assert in_vain(shell) == [(f"not fetched yet: {tried}", True)]
    shell.grants(NAME)
    assert in_vain(shell) == [(f"being fetched by node node: {tried}", True)]
    shell.request(NAME, Input.STOP)
    shell.request(NAME, Input.STOP)
    shell.now_ms += 3_600_000
    shell.tick()
    assert shell.state(NAME) is CrawlState.FINISHED
    ((outcome, vain),) = in_vain(shell)
    assert outcome.startswith("not fetched before the crawl ended: tried ") and vain


def test_a_seed_whose_robots_txt_is_asked_for_in_vain_is_tried_in_vain() -> None:
    shell = launched(f"{HOST}/", f"{HOST}/2")
    (grant,) = shell.grants(NAME)
    assert in_vain(shell) == [("not fetched yet", False)] * 2
    shell.finish(Report(grant.token, fetch_status=-2, reason="refused"))
    tried = f"{HOST}/robots.txt could not be fetched in 1 attempt (connection failed: refused)"
    assert in_vain(shell) == [(f"not fetched yet: {tried}", True)] * 2
    shell.now_ms += 3_600_000
    shell.tick()
    shell.grants(NAME)
    assert in_vain(shell) == [(f"not fetched yet: {tried}", True)] * 2


def test_a_seed_that_is_fetched_after_tries_in_vain_is_fetched() -> None:
    shell = launched(f"{HOST}/", robots=IGNORED)
    shell.finish(Report(shell.grants(NAME)[0].token, fetch_status=-2))
    shell.now_ms += 3_600_000
    shell.tick()
    shell.finish(Report(shell.grants(NAME)[0].token, fetch_status=200))
    seeds, _ = shell.core.administration.seeds(NAME, 100, 0, shell.now_ms)
    assert [(seed.result, seed.tried_in_vain) for seed in seeds] == [(SeedResult.FETCHED, False)]
