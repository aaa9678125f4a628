"""Why nothing of a queue is fetched now: its own reasons, its host's, its group's, and robots.txt."""

from dataclasses import replace

import pytest
from core_doubles.codec import candidate
from core_doubles.explaining import EXPIRE_MS, POLITENESS, SETTINGS, change, crawl, explained
from core_doubles.shell import PERIOD_MS, START_MS, Shell

from frontier_server.core.machines.lifecycle import Input
from frontier_server.core.spec.settings import (
    AddressGroupSettings,
    GroupSettings,
    LimitSettings,
    QueueSettings,
    QuotaSettings,
    RobotsSettings,
)
from frontier_server.core.state import operation
from frontier_server.core.state.model import Reason, Report, Why

# Queues.


def test_a_queue_without_uris() -> None:
    shell = crawl("a/", run_while_empty=True)
    shell.finish(Report(shell.grants()[0].token, fetch_status=200))
    assert explained(shell, queue="a,") == [
        Reason(Why.QUEUE_EXHAUSTED, "queue a, has no URI"),
        Reason(Why.QUEUE_SNOOZED, "queue a, rests: politeness, min_delay_seconds = 1", shell.now_ms + 1_000),
    ]
    shell.now_ms += 1_000
    shell.tick()
    shell.schedule("crawl", "http://b/")
    assert explained(shell, queue="a,") == [Reason(Why.QUEUE_EXHAUSTED, "queue a, has no URI")]


@pytest.mark.parametrize(
    ("status", "rest_ms", "why"),
    [(200, 1_000, "politeness, min_delay_seconds = 1"), (503, 30_000, "fetch status 503")],
)
def test_a_queue_that_rests_with_its_host(status: int, rest_ms: int, why: str) -> None:
    shell = crawl("a/", "a/2")
    shell.finish(Report(shell.grants()[0].token, fetch_status=status))
    expected = Reason(Why.QUEUE_SNOOZED, f"queue a, rests: {why}", shell.now_ms + rest_ms)
    assert explained(shell, "a/2")[0] == explained(shell, queue="a,")[0] == expected
    shell.restart()
    assert explained(shell, queue="a,") == [expected]


def test_a_queue_that_rests_before_a_retry() -> None:
    shell = crawl("a/", "a/2")
    shell.finish(Report(shell.grants()[0].token, fetch_status=-1))
    words = "queue a, rests: retry after fetch status -1: name not found"
    assert explained(shell, "a/") == [Reason(Why.QUEUE_SNOOZED, words, shell.now_ms + 900_000)]


def test_a_queue_that_rests_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """S2.6: there is no difference to be told but where it is."""
    monkeypatch.setattr(operation, "MAX_SNOOZED_IN_MEMORY", 0)
    shell = crawl("a/")
    shell.finish(Report(shell.grants()[0].token, fetch_status=-1))
    wake_ms = shell.now_ms + 900_000
    words = "queue a, rests: retry after fetch status -1: name not found"
    assert explained(shell, queue="a,") == [Reason(Why.QUEUE_SNOOZED, words, wake_ms)]
    assert explained(shell) == [Reason(Why.QUEUE_SNOOZED, "1 queue at rest on disk, for longer", wake_ms)]
    shell.restart()
    assert explained(shell) == [Reason(Why.QUEUE_SNOOZED, "1 queue at rest on disk, for longer", wake_ms)]


def test_a_rest_that_is_over_is_no_reason() -> None:
    """While a crawl is paused nothing wakes its queues."""
    shell = crawl("a/", "a/2")
    shell.finish(Report(shell.grants()[0].token, fetch_status=200))
    shell.request("crawl", Input.PAUSE)
    shell.now_ms += 100_000
    assert explained(shell, queue="a,") == [Reason(Why.PAUSED, "the crawl is paused; resume it")]


def test_a_queue_that_is_over_its_budget() -> None:
    """T8: at its turn, and from then on."""
    shell = crawl("a/", "a/2", "b/", queues=QueueSettings(total_budget=1))
    shell.finish(Report(shell.grants(most=1)[0].token, fetch_status=200))
    shell.now_ms += 1_000
    (reason, _) = explained(shell, queue="a,")
    assert reason == Reason(
        Why.OVER_BUDGET, "queue a, will be retired at its next turn: total budget 1 spent"
    )
    shell.grants()
    words = "queue a, is retired with 1 URI: total budget 1 spent"
    assert explained(shell, "a/2") == [Reason(Why.OVER_BUDGET, words)]


def test_a_queue_that_has_spent_the_budget_of_its_session() -> None:
    """T7."""
    settings = QueueSettings(session_budget=1, error_penalty=5)
    shell = crawl(
        "a/", "a/2", queues=settings, politeness=replace(POLITENESS, min_delay_ms=0, max_delay_ms=0)
    )
    shell.finish(Report(shell.grants()[0].token, fetch_status=-4))
    assert explained(shell, queue="a,") == [
        Reason(Why.QUEUE_INACTIVE, "queue a, has spent its session budget, so waiting queues go first"),
        Reason(Why.DUE, "due now, and nodes ask for leases"),
    ]


@pytest.mark.parametrize("fails", [False, True])
def test_a_host_over_its_quota(fails: bool) -> None:
    """Which quota, and whose (Heritrix 2.13)."""
    limits = LimitSettings(host_quota=QuotaSettings(max_successes=1), fail_over_quota=fails)
    shell = crawl("a/", "a/2", "b/", limits=limits)
    shell.finish(Report(shell.grants(most=1)[0].token, fetch_status=200))
    shell.now_ms += 1_000
    then = "fail with fetch status -5003" if fails else "retire its queue"
    quota = "quota limits.host_quota.max_successes 1 of a is spent"
    assert explained(shell, "a/2")[0] == Reason(
        Why.OVER_BUDGET, f"http://a/2 will {then} at its next turn: {quota}"
    )
    shell.grants()
    if fails:
        told = Reason(Why.SEEN_ALREADY, "FAILED with fetch status -5003 (quota spent), 0 s ago")
    else:
        told = Reason(Why.OVER_BUDGET, f"queue a, is retired with 1 URI: {quota}")
    assert explained(shell, "a/2") == [told]


def test_a_source_over_its_quota() -> None:
    limits = LimitSettings(source_quota=QuotaSettings(max_response_bytes=10))
    shell = crawl("a/", limits=limits)
    shell.schedule("crawl", candidate("http://a/2", source="http://a/"))
    shell.finish(Report(shell.grants()[0].token, fetch_status=200, body_bytes=10))
    shell.now_ms += 1_000
    quota = "quota limits.source_quota.max_response_bytes 10 of http://a/ is spent"
    assert explained(shell, "a/2")[0].message == f"http://a/2 will retire its queue at its next turn: {quota}"


def test_a_queue_below_the_floor() -> None:
    """D20: in Heritrix nobody is told."""
    shell = crawl("a/", "b/", queues=QueueSettings(precedence_floor=10))
    change(shell, "a,", precedence=12)
    shell.now_ms += 1_000
    words = "queue a, has precedence 12; it must be below queues.precedence_floor = 10"
    assert explained(shell, "a/")[0] == Reason(Why.QUEUE_INELIGIBLE, words)
    shell.grants()
    assert explained(shell, "a/") == explained(shell, queue="a,") == [Reason(Why.QUEUE_INELIGIBLE, words)]


def test_a_queue_that_an_operator_pauses() -> None:
    shell = crawl("a/", "b/")
    change(shell, "a,", paused=True)
    expected = [Reason(Why.QUEUE_PAUSED, "an operator has paused queue a,")]
    assert explained(shell, "a/") == explained(shell, queue="a,") == expected


def test_a_queue_that_is_paused_or_retired_while_its_uri_is_out() -> None:
    shell = crawl("a/", "a/2", "b/")
    shell.grants()
    change(shell, "a,", paused=True)
    change(shell, "a,", retired=True)
    assert explained(shell, queue="a,") == [
        Reason(Why.QUEUE_PAUSED, "an operator has paused queue a,"),
        Reason(Why.QUEUE_RETIRED, "queue a, will be retired when its lease ends: an operator has retired it"),
        Reason(Why.LEASED, "node node is fetching http://a/", shell.now_ms + PERIOD_MS),
    ]


def test_a_queue_that_somebody_retired() -> None:
    """T12. A node whose name speaks of a budget is no budget."""
    shell = crawl("a/", "a/2", "b/")
    (first, _) = shell.grants(node="budget")
    shell.finish(Report(first.token, fetch_status=200, retire_queue=True), node="budget")
    words = "queue a, is retired with 1 URI: a report of budget retires it"
    assert explained(shell, "a/2") == [Reason(Why.QUEUE_RETIRED, words)]


def test_a_queue_that_waits_for_activation() -> None:
    """T3."""
    shell = Shell()
    shell.create("crawl", SETTINGS)
    shell.launch("crawl", "http://a/", "http://b/")
    change(shell, "b,", precedence=1)
    assert Reason(
        Why.QUEUE_INACTIVE, "queue a, waits for activation at precedence 3, after 1 queue of lower precedence"
    ) in explained(shell, queue="a,")


# Hosts, groups and robots.txt.


def test_a_host_that_answers_another_queue() -> None:
    shell = Shell()
    shell.create("crawl", SETTINGS)
    shell.launch("crawl", "http://a/", "https://a/")
    shell.grants(node="north")
    assert shell.grants(node="south") == []
    words = "host a: 1 of at most 1 requests in flight, at node north"
    assert explained(shell, queue="a,#443") == [Reason(Why.HOST_BUSY, words, EXPIRE_MS)]


def test_a_group_that_is_busy() -> None:
    """Which group, who keeps it busy, and until when."""
    group = GroupSettings("site", ("a", "b", "c"), max_parallel=2, min_gap_ms=0)
    shell = crawl("a/", "b/", "c/", ready=False, groups=(group,))
    shell.grants(most=1, node="north")
    shell.grants(most=1, node="south")
    words = "group site: 2 of at most 2 requests in flight, at nodes north, south"
    assert explained(shell, "c/")[0] == Reason(Why.GROUP_BUSY, words, EXPIRE_MS)


def test_a_group_whose_gap_is_not_over() -> None:
    group = GroupSettings("site", ("a", "b"), max_parallel=1, min_gap_ms=5_000)
    shell = crawl("a/", "b/", ready=False, groups=(group,))
    (grant,) = shell.grants()
    shell.finish(Report(grant.token, fetch_status=404))
    words = "queue b, rests: group site: gap"
    assert explained(shell, "b/")[0] == Reason(Why.GROUP_BUSY, words, START_MS + 5_000)


def test_an_address_that_is_busy() -> None:
    shell = crawl("a/", "b/", ready=False, address_group=AddressGroupSettings(max_parallel=1))
    for grant in shell.grants():
        shell.finish(Report(grant.token, fetch_status=404, peer_address="192.0.2.1"))
    shell.now_ms += 1_000
    shell.grants()
    words = "hosts at 192.0.2.1: 1 of at most 1 requests in flight, at node node"
    assert explained(shell, "b/")[0] == Reason(Why.GROUP_BUSY, words, shell.now_ms + PERIOD_MS)


def test_a_robots_txt_that_has_not_been_fetched() -> None:
    shell = crawl("a:8080/", ready=False)
    assert explained(shell, "a:8080/")[0] == Reason(
        Why.ROBOTS_PENDING, "http://a:8080/robots.txt must be fetched first"
    )
    shell.grants()
    assert explained(shell, "a:8080/") == [
        Reason(Why.ROBOTS_PENDING, "node node is fetching http://a:8080/robots.txt", EXPIRE_MS)
    ]


def test_a_robots_txt_that_cannot_be_had() -> None:
    """D23: how often it was tried, and when it is tried again."""
    robots = RobotsSettings(max_attempts=2, retry_delay_ms=30_000)
    shell = crawl("a/", "b/", ready=False, robots=robots)
    for grant in shell.grants():
        shell.finish(Report(grant.token, fetch_status=-2))
    retry_ms = START_MS + 30_000
    shell.now_ms += 1_000
    shell.tick()
    words = "http://a/robots.txt could not be fetched in 1 attempt (connection failed)"
    assert explained(shell, "a/")[0] == Reason(Why.ROBOTS_PENDING, words, retry_ms)
    assert shell.grants() == []
    assert explained(shell, "a/") == [Reason(Why.ROBOTS_PENDING, words, retry_ms)]
    shell.now_ms = retry_ms
    (grant, _) = shell.grants()
    shell.finish(Report(grant.token, fetch_status=-2))
    shell.now_ms += 1_000
    assert explained(shell, "a/")[0] == Reason(
        Why.ROBOTS_PENDING,
        "http://a/robots.txt could not be fetched in 2 attempts (connection failed); "
        "URIs of that host fail with fetch status -61",
    )
    shell.grants()
    words = "FAILED with fetch status -61 (robots.txt could not be fetched: connection failed), 0 s ago"
    assert explained(shell, "a/") == [Reason(Why.SEEN_ALREADY, words)]


def test_a_robots_txt_that_forbids() -> None:
    shell = crawl("a/private", "a/", ready=False)
    (grant,) = shell.grants()
    shell.finish(Report(grant.token, fetch_status=200, robots_body=b"User-agent: *\nDisallow: /private\n"))
    forbids = Reason(Why.ROBOTS_FORBIDDEN, "http://a/robots.txt forbids http://a/private")
    assert explained(shell, "a/private")[0] == forbids, "while it still waits"
    shell.now_ms += 1_000
    shell.grants()
    assert explained(shell, "a/private") == [
        Reason(Why.SEEN_ALREADY, "DISREGARDED with fetch status -9998 (forbidden by robots.txt), 0 s ago"),
        forbids,
    ]
    assert explained(shell, "a/private/never-offered")[-1].why is Why.ROBOTS_FORBIDDEN
