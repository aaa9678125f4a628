"""The verdict on a crawl: one sentence for each state, and the setting that limits it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from toehold.frontier.v1.admin_pb2 import Crawl, Node, NodePresence, Seed, SeedResult
from toehold.frontier.v1.crawl_pb2 import (
    CrawlSpec,
    CrawlState,
    CrawlStatus,
    Event,
    ExitStatus,
    OperatorActed,
    Statistics,
)
from toehold_client import events
from toehold_client.watching.look import Look
from toehold_client.watching.seeds import Seeds
from toehold_console.verdict import limit_reached, next_step, verdict

NOW = Timestamp(seconds=10_000)
NORTH = Node(node="north", presence=NodePresence.NODE_PRESENCE_PRESENT, last_seen_time=NOW)
WHY = "Limited by politeness: 12 hosts wait 3 s. About 2 h for 900 URLs"


def seen(
    state: str,
    exit_status: str = "RUNNING",
    *,
    since_s: int = 100,
    reason: str = "",
    failure: str = "",
    held: bool = False,
    torn_down: bool = False,
    rate: float = 41.2,
    failed: int = 0,
    lapsed: int = 0,
    estimated: bool = False,
    seed_count: int = 2,
    why: str = "",
    nodes: Sequence[Node] = (NORTH,),
) -> Look:
    """A look at a crawl in a state, with a node that is there."""
    status = CrawlStatus(
        state=CrawlState.Value(f"CRAWL_STATE_{state}"),
        exit_status=ExitStatus.Value(f"EXIT_STATUS_{exit_status}"),
        reach_time=Timestamp(seconds=NOW.seconds - since_s),
        reason=reason,
        failure=failure,
        held=held,
        torn_down=torn_down,
    )
    statistics = Statistics(
        snapshot_time=NOW,
        succeeded_count=780,
        limited_count=780,
        leased_count=2,
        queued_count=934,
        bytes_count=12_000,
        limited_bytes_count=12_000,
        succeeded_per_second=rate,
        elapsed_duration=Duration(seconds=90),
        limited_duration=Duration(seconds=90),
        failed_count=failed,
        lapsed_count=lapsed,
    )
    if estimated:
        statistics.remaining_min_duration.seconds = statistics.remaining_max_duration.seconds = 7200
    spec = CrawlSpec(stop_timeout=Duration(seconds=120))
    return Look(
        address="127.0.0.1:7707",
        crawl=Crawl(crawl="docs", spec=spec, seed_count=seed_count),
        status=status,
        statistics=statistics,
        why=why,
        nodes=nodes,
    )


def act(action: str, ago_s: int = 300) -> events.Event:
    return events.Event(
        Event(
            event_time=Timestamp(seconds=NOW.seconds - ago_s),
            operator_acted=OperatorActed(operator="alice", action=action),
        )
    )


ACTS = [act("pause"), act("stop"), act("hold"), act("update", 1)]
FAILED_SEED = Seeds({SeedResult.SEED_RESULT_FAILED: 1, SeedResult.SEED_RESULT_FETCHED: 17}, [Seed(uri="x")])
VAIN_SEED = Seeds.of(
    [
        Seed(uri="x", result=SeedResult.SEED_RESULT_PENDING, tried_in_vain=True),
        Seed(uri="y", result=SeedResult.SEED_RESULT_FETCHED),
    ]
)
FAILED_AND_VAIN = Seeds.of(
    [
        Seed(uri="x", result=SeedResult.SEED_RESULT_PENDING, tried_in_vain=True),
        Seed(uri="y", result=SeedResult.SEED_RESULT_FAILED),
        Seed(uri="z", result=SeedResult.SEED_RESULT_FETCHED),
    ]
)
ALL_KINDS = Seeds.of(
    [
        *FAILED_AND_VAIN.troubled,
        Seed(uri="v", result=SeedResult.SEED_RESULT_REDIRECTED),
        Seed(uri="w", result=SeedResult.SEED_RESULT_ERROR),
    ]
)
TABLE: list[tuple[Callable[[], Look], str, str]] = [
    (
        lambda: seen("NASCENT", "CREATED", seed_count=0),
        "waiting",
        "Not launched yet: it has no seed. Add one, then launch it",
    ),
    (
        lambda: seen("NASCENT", "CREATED", seed_count=1),
        "waiting",
        "Not launched yet: 1 seed waits for the launch",
    ),
    (lambda: seen("PREPARING"), "good", "Preparing: 2 seeds being announced"),
    (
        lambda: seen("RUNNING", why=WHY, estimated=True),
        "good",
        "Healthy: 41 pages/s, limited by politeness: 12 hosts wait 3 s; about 2 h left",
    ),
    (
        lambda: seen("RUNNING", rate=4.25, why="Limited by toe threads: 9 of 9 are busy"),
        "good",
        "Healthy: 4.2 pages/s, limited by toe threads: 9 of 9 are busy",
    ),
    (
        lambda: seen("RUNNING", why=WHY.replace("12 hosts wait", "127.0.11.3 waits")),
        "good",
        "Healthy: 41 pages/s, limited by politeness: 127.0.11.3 waits 3 s",
    ),
    (
        lambda: seen("RUNNING", why="Limited by max_toes = 5: 2 queues are ready"),
        "good",
        "Healthy: 41 pages/s, limited by max_toes = 5: 2 queues are ready",
    ),
    (
        lambda: seen("RUNNING", rate=0, nodes=[], why="No node has asked for leases"),
        "bad",
        "Trouble: no node is there, so nothing is fetched. 0.0 pages/s; No node has asked for leases",
    ),
    (
        lambda: replace(seen("RUNNING"), seeds=FAILED_SEED),
        "good",
        "Healthy: 41 pages/s; 1 of 18 seeds failed",
    ),
    (
        lambda: replace(seen("RUNNING"), seeds=VAIN_SEED),
        "good",
        "Healthy: 41 pages/s; 1 of 2 seeds tried in vain so far",
    ),
    (
        lambda: replace(seen("RUNNING"), seeds=FAILED_AND_VAIN),
        "good",
        "Healthy: 41 pages/s; 1 of 3 seeds failed, 1 tried in vain so far",
    ),
    (
        lambda: replace(seen("RUNNING"), seeds=ALL_KINDS),
        "good",
        "Healthy: 41 pages/s; 2 of 4 seeds failed, 1 redirected elsewhere, 1 tried in vain so far",
    ),
    (lambda: seen("RUNNING", rate=0, why="few hosts"), "waiting", "Waiting: few hosts"),
    (lambda: seen("RUNNING", rate=0, since_s=3), "good", "Starting: no page for some seconds"),
    (
        lambda: seen("RUNNING", nodes=[]),
        "bad",
        "Trouble: no node is there, so nothing is fetched. 41 pages/s",
    ),
    (lambda: seen("RUNNING", lapsed=2), "good", "Healthy: 41 pages/s"),
    (lambda: replace(seen("RUNNING", nodes=[]), sees_nodes=False), "good", "Healthy: 41 pages/s"),
    (lambda: seen("EMPTY", why="later: 3 URIs"), "waiting", "Waiting: later: 3 URIs"),
    (lambda: seen("PAUSING"), "waiting", "Pausing by alice 5 min ago: 2 URIs still being fetched"),
    (lambda: seen("PAUSED"), "waiting", "Paused by alice 5 min ago"),
    (
        lambda: seen("PAUSED", estimated=True),
        "waiting",
        "Paused by alice 5 min ago; about 2 h left once it goes on",
    ),
    (lambda: seen("PAUSED", reason="the disk is nearly full"), "bad", "Paused: the disk is nearly full"),
    (
        lambda: seen("STOPPING"),
        "waiting",
        "Stopping by alice 5 min ago: 2 URIs still being fetched, for at most 2 min 00 s. "
        "Interrupt to break them off",
    ),
    (
        lambda: seen("RUNNING", held=True),
        "waiting",
        "Held by alice 5 min ago: nothing of it is written until its release",
    ),
    (
        lambda: seen("FINISHED", "FINISHED", failed=3),
        "ended",
        "Finished, nothing is left to fetch: 780 pages, 3 URIs failed in 1 min 30 s",
    ),
    (
        lambda: seen("FINISHED", "ABORTED", torn_down=True),
        "ended",
        "Stopped by alice 5 min ago, torn down: 780 pages in 1 min 30 s",
    ),
    (
        lambda: seen("FINISHED", "FINISHED_TIME_LIMIT"),
        "ended",
        "Finished: 1 min 30 s, the limit; 780 pages; 934 URLs left (limits.max_elapsed_seconds)",
    ),
    (
        lambda: seen("FINISHED", "FINISHED_DOCUMENT_LIMIT", failed=3),
        "ended",
        "Finished: 780 pages, the limit, 3 URIs failed; 934 URLs left (limits.max_documents)",
    ),
    (
        lambda: seen("FINISHED", "FINISHED_DATA_LIMIT"),
        "ended",
        "Finished: 12.0 kB, the limit, of 780 pages; 934 URLs left (limits.max_bytes)",
    ),
    (
        lambda: seen("FINISHED", "FINISHED", failure="no page was fetched"),
        "bad",
        "Failed: no page was fetched",
    ),
    (
        lambda: replace(seen("RUNNING"), away="no frontier answers", away_s=12.0),
        "bad",
        "No answer from the frontier for 12.0 s: no frontier answers. The rest is as it was before",
    ),
]


@pytest.mark.parametrize(("made", "tone", "text"), TABLE, ids=[row[2][:30] for row in TABLE])
def test_each_state_has_its_sentence(made: Callable[[], Look], tone: str, text: str) -> None:
    found = verdict(made(), ACTS)
    assert (found.tone, found.text) == (tone, text)


def test_a_request_that_no_longer_holds_is_nobodys() -> None:
    acts = [act("stop", 300), act("reopen", 200), act("teardown", 100)]
    made = seen("FINISHED", "ABORTED")
    assert verdict(made, acts).text.startswith("Stopped by alice 2 min ago: ")
    assert verdict(made, acts[:2]).text.startswith("Stopped: ")


def test_every_state_has_a_sentence() -> None:
    for state in CrawlState.DESCRIPTOR.values:
        assert verdict(seen(state.name.removeprefix("CRAWL_STATE_"))).text


def test_the_setting_that_limits_a_crawl_is_that_of_the_frontier() -> None:
    look = seen("RUNNING", why=WHY)
    assert verdict(look).setting == ""
    look.statistics.limiting_setting = "politeness.min_delay_seconds"
    assert verdict(look).setting == "politeness.min_delay_seconds"


def test_the_verdict_on_a_pause_says_what_the_crawl_waits_for() -> None:
    why = "the crawl is pausing: no room; 2 URIs were fetched, and the frontier refuses the links"
    made = verdict(seen("PAUSING", reason="no room", why=why), ACTS)
    assert (made.tone, made.text) == ("bad", why.replace("the crawl is pausing", "Pausing"))


@pytest.mark.parametrize(
    ("exit_status", "text"),
    [
        ("FINISHED_DOCUMENT_LIMIT", "Finished: 300 pages, the limit; 934 URLs left (limits.max_documents)"),
        (
            "FINISHED_DATA_LIMIT",
            "Finished: 5.0 kB, the limit, of 300 pages; 934 URLs left (limits.max_bytes)",
        ),
        (
            "FINISHED_TIME_LIMIT",
            "Finished: 40.0 s, the limit; 300 pages; 934 URLs left (limits.max_elapsed_seconds)",
        ),
    ],
)
def test_the_verdict_on_a_recrawl_at_its_limit_counts_the_recrawl_alone(exit_status: str, text: str) -> None:
    look = seen("FINISHED", exit_status)
    statistics = look.statistics
    statistics.limited_count, statistics.limited_bytes_count = 300, 5_000
    statistics.limited_duration.seconds = 40
    assert verdict(look, ACTS).text == text


def ended(exit_status: str = "FINISHED", left: int = 0, **more: Any) -> Look:
    """A crawl that has ended, with URLs left."""
    look = seen("FINISHED", exit_status, **more)
    look.statistics.queued_count = left
    return look


@pytest.mark.parametrize(
    ("look", "begins"),
    [
        (ended(), "Everything in its scope was fetched. "),
        (ended("ABORTED", 934), "Reopen fetches the 934 URLs left. "),
        (
            ended("FINISHED_DOCUMENT_LIMIT", 934),
            "Reopen fetches the 934 URLs left, up to a higher limits.max_documents. ",
        ),
        (ended(failure="no page was fetched"), "Failures and Seeds say why. "),
        (ended("ABORTED", 934, torn_down=True), "It is torn down: "),
        (seen("RUNNING"), ""),
        (seen("PAUSED"), ""),
        (replace(ended(), away="no frontier answers"), ""),
    ],
)
def test_a_crawl_that_has_ended_says_what_to_do_next(look: Look, begins: str) -> None:
    assert next_step(look).startswith(begins) and bool(next_step(look)) is bool(begins)


@pytest.mark.parametrize(
    ("exit_status", "limit"),
    [
        ("FINISHED_DOCUMENT_LIMIT", ("limits.max_documents", "maxDocuments", "", 400)),
        ("FINISHED_DATA_LIMIT", ("limits.max_bytes", "maxBytes", "", 9_000)),
        ("FINISHED_TIME_LIMIT", ("limits.max_elapsed_seconds", "maxElapsed", "s", 90)),
        ("FINISHED", None),
        ("ABORTED", None),
    ],
)
def test_the_limit_that_ended_a_crawl_can_be_raised(
    exit_status: str, limit: tuple[str, str, str, float] | None
) -> None:
    look = ended(exit_status)
    limits = look.crawl.spec.limits
    limits.max_documents, limits.max_bytes, limits.max_elapsed.seconds = 400, 9_000, 90
    found = limit_reached(look)
    assert (tuple(found.values()) if found else None) == limit
    assert limit_reached(seen("RUNNING", exit_status)) is None
