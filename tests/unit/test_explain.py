"""Why something is not fetched now: a true and specific answer for each reason that there is."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from core_doubles.codec import candidate, override_of
from core_doubles.shell import PERIOD_MS, START_MS, Shell
from scenarios.player import STEP, Player

from frontier_server.core import operation
from frontier_server.core.job import Kind
from frontier_server.core.jobs.steering import QueueChange
from frontier_server.core.machines.lifecycle import CrawlState, Input
from frontier_server.core.model import Reason, Report, Why
from frontier_server.core.spec.settings import (
    AddressGroupSettings,
    CrawlSettings,
    GroupSettings,
    LimitSettings,
    PolitenessSettings,
    QueueSettings,
    QuotaSettings,
    ReseedSettings,
    RetrySettings,
    RevisitSettings,
    RobotsSettings,
    ScopeSettings,
)
from frontier_server.core.store import Family

POLITENESS = PolitenessSettings(delay_factor=0, min_delay_ms=1_000, max_delay_ms=1_000)
SETTINGS = CrawlSettings(allowed_addresses=("loopback",), politeness=POLITENESS)
EXPIRE_MS = START_MS + PERIOD_MS


def crawl(*seeds: str, ready: bool = True, **parts: Any) -> Shell:
    """A crawl that runs; if `ready`, no robots.txt forbids anything and all hosts have rested."""
    shell = Shell()
    shell.create("crawl", replace(SETTINGS, **parts))
    shell.launch("crawl", *(f"http://{seed}" for seed in seeds))
    if ready:
        shell.finish(*(Report(grant.token, fetch_status=404) for grant in shell.grants()))
        shell.now_ms += 1_000
        shell.tick()
    return shell


def explained(shell: Shell, uri: str = "", queue: str = "", name: str = "crawl") -> list[Reason]:
    """All reasons."""
    full = f"http://{uri}" if uri else ""
    return shell.core.administration.explain(name, queue, full, shell.now_ms)


def change(shell: Shell, key: str, **what: Any) -> None:
    """Change a queue."""
    wanted = QueueChange(**what)
    shell.do(lambda core, now: core.administration.change_queue("crawl", key, wanted, now))


def put_override(shell: Shell, prefix: str, override: bytes) -> None:
    """Put an override."""
    shell.do(lambda core, now: core.administration.put_override("crawl", prefix, override, now))


# The life of a crawl holds for all that is in it.


def test_a_crawl_that_was_not_launched() -> None:
    shell = Shell()
    shell.create("crawl", SETTINGS)
    assert explained(shell) == [Reason(Why.NOT_LAUNCHED, "the crawl has not been launched")]


def test_a_crawl_whose_seeds_are_being_announced() -> None:
    shell = Shell()
    shell.create("crawl", SETTINGS)
    seeds = [f"http://a/{number}" for number in range(150)]
    shell.do(lambda core, now: core.control.add_seeds("crawl", seeds, now))
    shell.do(lambda core, now: core.control.launch("crawl", now))
    shell.do(lambda core, now: core.upkeep.work(now))
    assert explained(shell) == [
        Reason(Why.PREPARING, "100 of 150 seeds announced"),
        Reason(Why.JOB_RUNS, "job 1 (seed) runs"),
    ]


def test_a_paused_crawl() -> None:
    shell = crawl("a/", "a/2")
    shell.grants()
    shell.request("crawl", Input.PAUSE)
    assert explained(shell) == [
        Reason(
            Why.PAUSED,
            "the crawl is pausing, with 1 lease still out",
            shell.now_ms + CrawlSettings().pause_timeout_ms,
        ),
    ]
    shell.now_ms += PERIOD_MS
    shell.tick()
    for asked in (explained(shell), explained(shell, "a/"), explained(shell, queue="a,")):
        assert asked[0] == Reason(Why.PAUSED, "the crawl is paused; resume it")


def test_a_crawl_that_paused_as_only_uris_are_left_that_nobody_gets() -> None:
    """D20."""
    shell = crawl("a/", pause_with_uris_left=True)
    change(shell, "a,", retired=True)
    shell.tick()
    assert shell.state("crawl") is CrawlState.PAUSED
    assert explained(shell) == [
        Reason(Why.PAUSED, "the crawl is paused: only URIs of retired or ineligible queues are left"),
        Reason(Why.URIS_LEFT, "1 URI in retired queues"),
    ]


def test_a_crawl_that_is_held_and_one_that_will_be() -> None:
    shell = crawl("a/", "b/")
    (grant,) = shell.grants(most=1)
    shell.finish(Report(grant.token, fetch_status=200))
    shell.request("crawl", Input.HOLD)
    assert explained(shell)[0] == Reason(Why.PAUSED, "the crawl will be held when its crawl log is written")
    number = shell.core.views.crawl("crawl").number
    last = shell.core.upkeep.last_outcome(number)
    shell.do(lambda core, now: core.upkeep.note_logged(number, last, 100, now))
    assert explained(shell)[0] == Reason(
        Why.PAUSED, "the crawl is held; resume it, or pause it to allow changes"
    )


def test_a_crawl_that_may_have_no_more_toes() -> None:
    shell = crawl("a/", "b/", max_toes=1)
    shell.grants()
    assert explained(shell)[0] == Reason(Why.LIMIT_REACHED, "1 lease out, as many as max_toes allows")


def test_a_crawl_that_a_problem_paused() -> None:
    shell = crawl("a/")
    shell.do(lambda core, now: core.upkeep.note_trouble(("disk-reserve", "no room"), now))
    assert explained(shell)[0] == Reason(Why.PAUSED, "the crawl is paused: no room")
    assert "no room" in shell.core.views.statistics("crawl", shell.now_ms).waiting_for


def test_a_crawl_that_somebody_stopped() -> None:
    shell = crawl("a/")
    (grant,) = shell.grants()
    shell.request("crawl", Input.STOP)
    (reason,) = explained(shell)
    assert reason == Reason(
        Why.FINISHED,
        "the crawl is stopping, with 1 lease still out: it was stopped",
        shell.now_ms + CrawlSettings().stop_timeout_ms,
    )
    shell.finish(Report(grant.token, fetch_status=200))
    assert explained(shell) == [Reason(Why.FINISHED, "the crawl has finished: it was stopped")]


def test_a_crawl_that_has_ended_with_uris_left() -> None:
    """D20: what it left behind, and where."""
    shell = crawl("a/", "b/", "b/2")
    change(shell, "a,", retired=True)
    change(shell, "b,", precedence=255)
    shell.now_ms += 1_000
    assert shell.grants() == []
    assert explained(shell) == [
        Reason(Why.FINISHED, "the crawl has finished: no URI was left to fetch"),
        Reason(Why.URIS_LEFT, "1 URI in retired queues"),
        Reason(Why.QUEUE_INELIGIBLE, "2 URIs in queues at or over the precedence floor"),
    ]


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (LimitSettings(max_documents=1), "1 document of limits.max_documents 1"),
        (LimitSettings(max_bytes=100), "250 bytes of limits.max_bytes 100"),
        (LimitSettings(max_elapsed_ms=2_000), "limits.max_elapsed of 2 s has passed"),
    ],
    ids=["documents", "bytes", "time"],
)
def test_a_limit_that_has_ended_the_crawl(limits: LimitSettings, words: str) -> None:
    shell = crawl("a/", "a/2", limits=limits)
    (grant,) = shell.grants()
    shell.now_ms = START_MS + 2_000
    shell.finish(Report(grant.token, fetch_status=200, body_bytes=250))
    shell.tick()
    assert shell.state("crawl") is CrawlState.FINISHED
    expected = Reason(Why.LIMIT_REACHED, f"the crawl has finished: {words}")
    assert explained(shell) == [expected]
    assert explained(shell, "a/2")[0] == expected


def test_a_document_limit_that_leases_out_fill() -> None:
    shell = crawl("a/", "b/", "c/", limits=LimitSettings(max_documents=2))
    shell.finish(Report(shell.grants(most=1)[0].token, fetch_status=200))
    shell.grants()
    expected = Reason(Why.LIMIT_REACHED, "1 document and 1 lease out reach limits.max_documents 2")
    assert explained(shell)[0] == explained(shell, "c/")[0] == expected


def test_a_job_that_runs() -> None:
    shell = crawl("a/")
    shell.do(
        lambda core, now: core.administration.start_job(
            "crawl", Kind.RETIRE_QUEUES, {"queue_pattern": "x"}, now
        )
    )
    assert Reason(Why.JOB_RUNS, "job 2 (retire-queues) runs") in explained(shell)


# What a crawl that runs waits for.


def test_nothing_wrong_but_no_node_asking() -> None:
    shell = crawl("a/")
    shell.now_ms = START_MS + 90_000
    words = "due now, but no node has asked for leases for 90 s"
    assert explained(shell) == [Reason(Why.NO_NODE_ASKS, words)]
    assert explained(shell, "a/") == explained(shell, queue="a,") == [Reason(Why.NO_NODE_ASKS, words)]
    shell.restart()
    assert explained(shell, "a/") == [
        Reason(Why.NO_NODE_ASKS, "due now, but no node has asked for leases since the server started")
    ]


def test_nodes_ask_and_have_others_first() -> None:
    shell = crawl("a/", "a/2")
    assert explained(shell) == [Reason(Why.DUE, "due now, and nodes ask for leases")]
    assert explained(shell, "a/2") == [
        Reason(Why.DUE, "due now, and nodes ask for leases"),
        Reason(Why.BEHIND_OTHERS, "behind 1 URI of queue a,"),
    ]


def test_a_crawl_that_is_empty_and_waits_for_more() -> None:
    shell = crawl("a/", run_while_empty=True)
    shell.finish(Report(shell.grants()[0].token, fetch_status=200))
    assert shell.state("crawl") is CrawlState.EMPTY
    assert explained(shell) == [
        Reason(Why.EMPTY, "no URI is left to fetch; run_while_empty keeps the crawl waiting for more")
    ]


def test_a_crawl_that_awaits_its_next_round() -> None:
    """S3.2: the seeds are announced anew, not sooner than the interval allows."""
    shell = crawl("a/", reseed=ReseedSettings(max_rounds=3, min_interval_ms=60_000))
    shell.finish(Report(shell.grants()[0].token, fetch_status=200))
    assert explained(shell) == [
        Reason(
            Why.AWAITS_ROUND, "no URI is left to fetch; round 1 of the seeds comes next", START_MS + 60_000
        )
    ]


def test_a_crawl_whose_queues_rest() -> None:
    shell = crawl("a/", "b/", retry=RetrySettings(delay_ms=500_000))
    for grant in shell.grants():
        shell.finish(Report(grant.token, fetch_status=-2))
    words = "2 queues at rest; a, wakes first (retry after fetch status -2)"
    assert explained(shell) == [Reason(Why.QUEUE_SNOOZED, words, shell.now_ms + 500_000)]


def test_a_crawl_whose_leases_are_out_or_whose_uris_are_to_be_fetched_later() -> None:
    shell = crawl("a/")
    shell.schedule("crawl", candidate("http://a/later", not_before_ms=START_MS + 10**6))
    shell.grants()
    out = "1 lease out; the first lapses if its node stays silent"
    reasons = [
        Reason(Why.LEASED, out, shell.now_ms + PERIOD_MS),
        Reason(Why.FUTURE, "1 URI to be fetched later", START_MS + 10**6),
    ]
    assert explained(shell) == reasons
    shell.restart()
    assert explained(shell) == reasons, "also when nothing has been looked at since the server started"


def test_a_crawl_that_another_one_of_the_same_host_holds_up() -> None:
    shell = crawl("a/")
    shell.create("other", SETTINGS)
    shell.launch("other", "http://a/")
    assert shell.grants("other")[0].crawl == "other"
    assert shell.grants("crawl") == []
    words = "1 queue ready, but the hosts or groups are busy with other queues"
    assert explained(shell) == [Reason(Why.HOST_BUSY, words)]
    (reason,) = explained(shell, "a/")
    assert reason == Reason(
        Why.HOST_BUSY, "host a: 1 of at most 1 requests in flight, at node node", shell.now_ms + PERIOD_MS
    )


def test_a_crawl_with_nothing_but_queues_that_an_operator_pauses() -> None:
    shell = crawl("a/", "a/2", "b/")
    change(shell, "a,", paused=True)
    change(shell, "b,", paused=True)
    assert explained(shell) == [Reason(Why.QUEUE_PAUSED, "3 URIs in 2 queues that an operator has paused")]


# Queues.


def test_a_queue_without_uris() -> None:
    shell = crawl("a/", run_while_empty=True)
    shell.finish(Report(shell.grants()[0].token, fetch_status=200))
    assert explained(shell, queue="a,") == [
        Reason(Why.QUEUE_EXHAUSTED, "queue a, has no URI"),
        Reason(Why.QUEUE_SNOOZED, "queue a, rests: politeness", shell.now_ms + 1_000),
    ]
    shell.now_ms += 1_000
    shell.tick()
    shell.schedule("crawl", "http://b/")
    assert explained(shell, queue="a,") == [Reason(Why.QUEUE_EXHAUSTED, "queue a, has no URI")]


@pytest.mark.parametrize(
    ("status", "rest_ms", "why"), [(200, 1_000, "politeness"), (503, 30_000, "fetch status 503")]
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
    words = "queue a, rests: retry after fetch status -1"
    assert explained(shell, "a/") == [Reason(Why.QUEUE_SNOOZED, words, shell.now_ms + 900_000)]


def test_a_queue_that_rests_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """S2.6: there is no difference to be told but where it is."""
    monkeypatch.setattr(operation, "MAX_SNOOZED_IN_MEMORY", 0)
    shell = crawl("a/")
    shell.finish(Report(shell.grants()[0].token, fetch_status=-1))
    wake_ms = shell.now_ms + 900_000
    words = "queue a, rests: retry after fetch status -1"
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
    then = "fail with -5003" if fails else "retire its queue"
    quota = "quota limits.host_quota.max_successes 1 of a is spent"
    assert explained(shell, "a/2")[0] == Reason(
        Why.OVER_BUDGET, f"http://a/2 will {then} at its next turn: {quota}"
    )
    shell.grants()
    if fails:
        told = Reason(Why.SEEN_ALREADY, "FAILED with fetch status -5003, 0 s ago")
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
    words = "precedence 12 of queue a, must be below queues.precedence_floor 10"
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
        Reason(Why.LEASED, "http://a/ is out at node node", shell.now_ms + PERIOD_MS),
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
    words = "group site: 2 of at most 2 requests in flight, at node north, south"
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
        Reason(Why.ROBOTS_PENDING, "http://a:8080/robots.txt is out at node node", EXPIRE_MS)
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
    words = "http://a/robots.txt could not be fetched in 1 attempt (fetch status -2)"
    assert explained(shell, "a/")[0] == Reason(Why.ROBOTS_PENDING, words, retry_ms)
    assert shell.grants() == []
    assert explained(shell, "a/") == [Reason(Why.ROBOTS_PENDING, words, retry_ms)]
    shell.now_ms = retry_ms
    (grant, _) = shell.grants()
    shell.finish(Report(grant.token, fetch_status=-2))
    shell.now_ms += 1_000
    assert explained(shell, "a/")[0] == Reason(
        Why.ROBOTS_PENDING,
        "http://a/robots.txt could not be fetched in 2 attempts (fetch status -2); its URIs fail with -61",
    )
    shell.grants()
    assert explained(shell, "a/") == [Reason(Why.SEEN_ALREADY, "FAILED with fetch status -61, 0 s ago")]


def test_a_robots_txt_that_forbids() -> None:
    shell = crawl("a/private", "a/", ready=False)
    (grant,) = shell.grants()
    shell.finish(Report(grant.token, fetch_status=200, robots_body=b"User-agent: *\nDisallow: /private\n"))
    forbids = Reason(Why.ROBOTS_FORBIDDEN, "http://a/robots.txt forbids http://a/private")
    assert explained(shell, "a/private")[0] == forbids, "while it still waits"
    shell.now_ms += 1_000
    shell.grants()
    assert explained(shell, "a/private") == [
        Reason(Why.SEEN_ALREADY, "DISREGARDED with fetch status -9998, 0 s ago"),
        forbids,
    ]
    assert explained(shell, "a/private/never-offered")[-1].why is Why.ROBOTS_FORBIDDEN


# URIs.


def test_a_uri_that_is_out() -> None:
    """To whom, and until when its lease lasts if the node keeps silent."""
    shell = crawl("a/", "a/2")
    (grant,) = shell.grants(node="north")
    leased_ms = shell.now_ms
    expected = Reason(Why.LEASED, "it is out at node north", leased_ms + PERIOD_MS)
    assert explained(shell, "a/") == [expected]
    shell.now_ms += 20_000
    shell.do(lambda core, now: core.frontier.heartbeat("north", "1", [grant.token], [], now))
    assert explained(shell, "a/") == [replace(expected, until_ms=shell.now_ms + PERIOD_MS)]
    assert explained(shell, "a/2") == [
        Reason(Why.LEASED, "http://a/ is out at node north", shell.now_ms + PERIOD_MS),
        Reason(Why.BEHIND_OTHERS, "behind 1 URI of queue a,"),
    ]


def test_a_uri_that_waits_for_its_time() -> None:
    """S2.7."""
    shell = crawl("a/")
    shell.schedule("crawl", candidate("http://a/later", not_before_ms=START_MS + 10**6))
    assert explained(shell, "a/later") == [Reason(Why.FUTURE, "it waits for its time", START_MS + 10**6)]


def test_a_uri_that_waits_for_its_next_visit() -> None:
    """S1.15: and what became of the last one."""
    shell = crawl("a/", revisit=RevisitSettings(policy="fixed", interval_ms=86_400_000))
    shell.finish(Report(shell.grants()[0].token, fetch_status=200))
    finish_ms = shell.now_ms
    shell.now_ms += 7_200_000
    words = "it waits for its time; last visit: SUCCEEDED with fetch status 200, 2 h ago"
    assert explained(shell, "a/") == [Reason(Why.FUTURE, words, finish_ms + 86_400_000)]


def test_a_uri_whose_answer_was_no_http() -> None:
    """S1.18: it rests alone, also if an earlier visit went well."""
    shell = crawl("a/", revisit=RevisitSettings(policy="fixed", interval_ms=3_600_000))
    words = "its answer was not HTTP (-10); it will be tried again, while its queue goes on"
    for status in (-10, 200, -10):
        (grant,) = shell.grants()
        shell.finish(Report(grant.token, fetch_status=status))
        (reason,) = explained(shell, "a/")
        assert (reason.message == words) == (status == -10)
        shell.now_ms = reason.until_ms


@pytest.mark.parametrize(
    ("later_ms", "ago"),
    [(0, "0 s"), (119_000, "119 s"), (120_000, "2 min"), (7_200_000, "2 h"), (2 * 86_400_000, "2 days")],
)
def test_a_uri_that_was_seen_already(later_ms: int, ago: str) -> None:
    """When, and with what result."""
    shell = crawl("a/", run_while_empty=True)
    shell.finish(Report(shell.grants()[0].token, fetch_status=404))
    shell.now_ms += later_ms
    words = f"SUCCEEDED with fetch status 404, {ago} ago"
    assert explained(shell, "a/") == [Reason(Why.SEEN_ALREADY, words)]


def test_a_uri_that_somebody_noted_as_seen() -> None:
    shell = crawl("a/")
    shell.do(lambda core, now: core.administration.note_seen("crawl", ["http://a/x"], now))
    assert explained(shell, "a/x") == [Reason(Why.SEEN_ALREADY, "somebody noted it as seen, 0 s ago")]


SCOPE = ScopeSettings(
    hosts=("news.example",),
    surt_prefixes=("-http://news.example/private/",),
    reject_patterns=(r".*\.gif", r".*calendar.*"),
    max_path_segments=3,
)


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("other.example/", "no host, prefix or pattern of the scope lets other.example in"),
        ("a:81/", "no host, prefix or pattern of the scope lets a:81 in"),
        (
            "news.example/private/x",
            "scope.surt_prefixes refuses it: -http://(example,news,)/private/",
        ),
        ("news.example/a/calendar", "scope.reject_patterns[1] refuses it: .*calendar.*"),
        ("news.example/a/b/c/d/e", "scope.max_path_segments refuses it: 3"),
        ("news.example/a/a/a/a/a", "scope.max_path_repetitions refuses it: 2"),
    ],
)
def test_a_uri_that_is_out_of_scope(uri: str, words: str) -> None:
    """By which rule, and what it says."""
    shell = crawl("a/", scope=SCOPE)
    assert explained(shell, uri) == [Reason(Why.OUT_OF_SCOPE, words)]


def test_a_scheme_that_is_out_of_scope() -> None:
    shell = crawl("a/", scope=ScopeSettings(schemes=("http",)))
    (reason,) = shell.core.administration.explain("crawl", "", "https://a/", shell.now_ms)
    assert reason == Reason(Why.OUT_OF_SCOPE, "scope.schemes refuses it: http")


def test_a_uri_that_nobody_has_offered() -> None:
    shell = crawl("a/")
    words = "nobody has offered it, or only with more hops than the scope allows"
    assert explained(shell, "a/x") == [Reason(Why.NEVER_OFFERED, words)]


def test_a_uri_that_its_settings_retire() -> None:
    shell = crawl("a/", "b/")
    put_override(shell, "a", override_of(queues={"retire": True}))
    shell.work()
    assert explained(shell, "a/")[0] == Reason(
        Why.QUEUE_RETIRED, "queue a, will be retired at its next turn: its settings retire it"
    )


def test_asking_changes_nothing() -> None:
    shell = crawl("a/", "b/")
    before = [list(shell.store.scan(family, b"", b"")) for family in Family]
    for uri in ("", "a/", "other/", "a/x"):
        explained(shell, uri)
    explained(shell, queue="a,")
    assert [list(shell.store.scan(family, b"", b"")) for family in Family] == before
    assert [grant.uri for grant in shell.grants()] == ["http://a/", "http://b/"]


TRANSCRIPTS = sorted((Path(__file__).parents[1] / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda path: path.stem)
def test_there_is_a_reason_for_everything_at_every_moment(transcript: Path) -> None:
    """Of crawls, queues and URIs, after each step of each transcript; and none until a time gone by."""
    player = Player()
    for line in transcript.read_text().splitlines():
        if match := STEP.match(line):
            player.play(match["second"], match["command"], match["rest"] or "")
            everything_has_a_reason(player.shell, player.crawls)


def everything_has_a_reason(shell: Shell, crawls: list[str]) -> None:
    """Assert that there is one."""
    administration = shell.core.administration
    for name in crawls:
        uris = [view.candidate.uri for view in administration.uris(name, "", 500, b"")[0]]
        keys = [view.key for view in administration.queues(name, None, 500, b"")[0]]
        for key, uri in [("", ""), *((key, "") for key in keys), *(("", uri) for uri in uris)]:
            reasons = administration.explain(name, key, uri, shell.now_ms)
            assert reasons, f"{name} {key}{uri}"
            for reason in reasons:
                assert reason.message and (not reason.until_ms or reason.until_ms >= shell.now_ms), reason
