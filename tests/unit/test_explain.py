"""Why nothing of a crawl is fetched now: a true and specific answer for each reason that there is."""

from pathlib import Path

import pytest
from core_doubles.codec import candidate
from core_doubles.explaining import SETTINGS, change, crawl, explained
from core_doubles.shell import PERIOD_MS, START_MS, Shell
from scenarios.player import STEP, Player

from frontier_server.core.machines.lifecycle import CrawlState, Input
from frontier_server.core.rows.store import Family
from frontier_server.core.spec.settings import CrawlSettings, LimitSettings, ReseedSettings, RetrySettings
from frontier_server.core.state.job import JobKind
from frontier_server.core.state.model import Reason, Report, Why

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
            "the crawl is pausing, with 1 URI still being fetched",
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
    shell.do(lambda core, now: core.upkeep.record_logged(number, last, 100, now))
    assert explained(shell)[0] == Reason(
        Why.PAUSED, "the crawl is held; resume it, or pause it to allow changes"
    )


def test_a_crawl_that_may_have_no_more_toes() -> None:
    shell = crawl("a/", "b/", max_toes=1)
    shell.grants()
    assert explained(shell)[0] == Reason(Why.LIMIT_REACHED, "1 URI being fetched, as many as max_toes allows")


def test_a_crawl_that_a_problem_paused() -> None:
    shell = crawl("a/")
    shell.do(lambda core, now: core.upkeep.record_trouble(("disk-reserve", "no room"), now))
    assert explained(shell)[0] == Reason(Why.PAUSED, "the crawl is paused: no room")
    assert "no room" in shell.core.views.statistics("crawl", shell.now_ms).waiting_for


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        (
            {"ABOUT_TO_GET_URI": 8},
            "2 URIs were fetched, and the frontier refuses the links until its disk has room",
        ),
        (
            {"ABOUT_TO_GET_URI": 6, "FINISHING": 2},
            "2 URIs were fetched, and the frontier refuses the links until its disk has room",
        ),
        ({"ABOUT_TO_GET_URI": 7, "FETCHING": 1}, "2 URIs still being fetched"),
        ({}, "2 URIs still being fetched"),
    ],
)
def test_a_crawl_that_a_full_disk_pauses_says_whether_its_pages_are_still_being_fetched(
    steps: dict[str, int], told: str
) -> None:
    shell = crawl("a/", "b/")
    tokens = [grant.token for grant in shell.grants()]
    shell.do(lambda core, now: core.upkeep.record_trouble(("disk-reserve", "no room"), now))
    shell.do(lambda core, now: core.frontier.heartbeat("node", "1", tokens, list(steps.items()), now))
    assert explained(shell)[0].message == f"the crawl is pausing: no room; {told}"


def test_a_crawl_that_somebody_stopped() -> None:
    shell = crawl("a/")
    (grant,) = shell.grants()
    shell.request("crawl", Input.STOP)
    (reason,) = explained(shell)
    assert reason == Reason(
        Why.FINISHED,
        "the crawl is stopping, with 1 URI still being fetched: it was stopped",
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
        (LimitSettings(max_documents=1), "1 document reached limits.max_documents = 1"),
        (LimitSettings(max_bytes=100), "250 bytes reached limits.max_bytes = 100"),
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
    expected = Reason(
        Why.LIMIT_REACHED, "1 document fetched and 1 being fetched reach limits.max_documents = 2"
    )
    assert explained(shell)[0] == explained(shell, "c/")[0] == expected


def test_a_job_that_runs() -> None:
    shell = crawl("a/")
    shell.do(
        lambda core, now: core.administration.start_job(
            "crawl", JobKind.RETIRE_QUEUES, {"queue_pattern": "x"}, now
        )
    )
    assert Reason(Why.JOB_RUNS, "job 2 (retire-queues) runs") in explained(shell)


# What a crawl that runs waits for.


def test_nothing_wrong_but_no_node_asking() -> None:
    shell = crawl("a/")
    shell.now_ms = START_MS + 90_000
    words = "due now, but no node has asked for leases for 90 s: start toehold-node"
    assert explained(shell) == [Reason(Why.NO_NODE_ASKS, words)]
    assert explained(shell, "a/") == explained(shell, queue="a,") == [Reason(Why.NO_NODE_ASKS, words)]
    shell.restart()
    assert explained(shell, "a/") == [
        Reason(
            Why.NO_NODE_ASKS,
            "due now, but no node has asked for leases since the server started: start toehold-node",
        )
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
    words = "2 queues at rest; a, wakes first (retry after fetch status -2: connection failed)"
    assert explained(shell) == [Reason(Why.QUEUE_SNOOZED, words, shell.now_ms + 500_000)]


def test_a_crawl_whose_leases_are_out_or_whose_uris_are_to_be_fetched_later() -> None:
    shell = crawl("a/")
    shell.schedule("crawl", candidate("http://a/later", not_before_ms=START_MS + 10**6))
    shell.grants()
    out = "1 URI being fetched; the first lease lapses if its node stays silent"
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
    words = "1 queue ready, but their hosts or groups are busy with other queues"
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


# For all.


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
