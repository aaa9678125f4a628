"""Trouble of a crawl that is shown live: what is wrong now, and which events are problems."""

from typing import Any

import pytest
from client_doubles.looks import (
    PAUSED,
    RUNNING,
    at,
    look,
    node,
    problem,
    quiet,
    seed,
    told,
)

from toehold.frontier.v1.admin_pb2 import Crawl, Shard
from toehold.frontier.v1.crawl_pb2 import (
    CrawlSpec,
    CrawlState,
    CrawlStatus,
    FlightsCancelled,
    JobEnded,
    LimitReached,
    LimitSpec,
    NodeLeft,
    Problem,
    Statistics,
    UrisLeft,
)
from toehold_client.events import Event
from toehold_client.watching.look import Look, is_problem
from toehold_client.watching.seeds import Seeds, seeds_text
from toehold_client.watching.trouble import NEWS_S, NODES_START_S, absences, lasting, seed_troubles, troubles


def wrong(shown: Look) -> list[str]:
    return [trouble.text for trouble in (*troubles(shown), *absences(shown), *seed_troubles(shown))]


def test_a_crawl_that_goes_well_has_no_trouble() -> None:
    assert wrong(quiet()) == []


def test_a_crawl_without_nodes_has_trouble_as_soon_as_they_had_time_to_begin() -> None:
    told = ["no node is there, so nothing is fetched"]
    assert wrong(quiet(nodes=[])) == told
    assert wrong(quiet(nodes=[node("north", -7_200, "LOST")])) == told
    begun = CrawlStatus(state=CrawlState.CRAWL_STATE_RUNNING, reach_time=at(-NODES_START_S / 2))
    assert wrong(quiet(nodes=[], status=begun)) == []
    assert wrong(quiet(nodes=[], status=PAUSED)) == []
    assert wrong(quiet(nodes=[], away="no frontier answers")) == []


def test_nodes_that_are_missed_or_share_a_name_or_lose_toe_threads_are_trouble() -> None:
    nodes = [node("north", FETCHING=1), node("south", -12, "SILENT"), node("gone", -200, "LOST")]
    nodes += [node("home", -60, "LEFT"), node("old", -NEWS_S - 1, "LOST")]
    nodes[0].rival_session = "another"
    nodes[0].pool.died_count, nodes[0].pool.abandoned_count = 1, 2
    nodes[1].pool.died_count = 7  # it is not there, with its toe threads
    assert wrong(quiet(nodes=nodes)) == [
        "node north: two processes use this name; give each its own",
        "node north: 1 toe thread died",
        "node north: 2 toe threads left behind",
        "node south: silent for 12 s",
        "node gone: lost 3 min ago",
    ]


def test_a_shard_that_is_away_is_trouble_and_the_others_are_not() -> None:
    shards = [Shard(shard=0, present=True), Shard(shard=1), Shard(shard=2, present=True)]
    assert wrong(quiet(shards=shards)) == [
        "shard 1 is away: its sites wait until it is back; the others go on"
    ]


def test_shards_that_are_all_away_are_one_trouble() -> None:
    shards = [Shard(shard=number) for number in range(3)]
    assert wrong(quiet(shards=shards)) == ["all 3 shards are away: every crawl waits until they are back"]


def test_hooks_and_extractors_that_fail_and_leases_that_lapse_are_trouble() -> None:
    remarks = {"hookFailed": 1, "extractorFailed": 1_200, "truncated": 7}
    statistics = Statistics(snapshot_time=at(0), annotation_counts=remarks, lapsed_count=3)
    assert wrong(quiet(statistics=statistics)) == [
        "the hook or callback failed on 1 page",
        "an extractor failed on 1 200 pages",
        "3 leases lapsed, because nodes fell silent; the URIs are fetched again",
    ]


def test_seeds_that_failed_or_were_answered_with_an_error_are_trouble() -> None:
    seeds = Seeds.of(
        [
            seed("https://a.example/", "FETCHED", "fetched (200)"),
            seed("https://b.example/", "FAILED", "name not found"),
            seed("http://c.example/x", "ERROR", "answered with an error (404)"),
            seed("https://d.example/", "PENDING", "not fetched yet"),
        ]
    )
    assert wrong(quiet(seeds=seeds)) == [
        "seed b.example: name not found",
        "seed http://c.example/x: answered with an error (404)",
    ]
    assert seeds_text(seeds) == "1 of 4 fetched, 1 answered with an error, 1 failed, 1 not fetched yet"


def test_watch_lists_pending_seeds_that_were_tried_in_vain_as_trouble() -> None:
    refused = seed("https://a.example/", "PENDING", "not fetched yet: tried 1 time, in vain")
    refused.tried_in_vain = True
    seeds = Seeds.of([refused, seed("https://b.example/", "PENDING", "not fetched yet")])
    assert wrong(quiet(seeds=seeds)) == ["seed a.example: not fetched yet: tried 1 time, in vain"]


LIMIT: dict[str, Any] = {"limit": "max_documents", "value": 400, "reached": 400}
FINISHED = CrawlState.CRAWL_STATE_FINISHED
# What an event told of, how the crawl is then, and whether it is a problem still.
LASTING: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    ({"limit_reached": LimitReached(**LIMIT)}, {"state": FINISHED, "max_documents": 400}, True),
    ({"limit_reached": LimitReached(**LIMIT)}, {"state": FINISHED, "max_documents": 1000}, False),
    ({"limit_reached": LimitReached(**LIMIT)}, {"state": FINISHED, "max_documents": 0}, False),
    ({"limit_reached": LimitReached(**LIMIT)}, {"max_documents": 1000}, False),
    ({"limit_reached": LimitReached(**LIMIT)}, {"state": PAUSED.state, "max_documents": 1000}, False),
    ({"limit_reached": LimitReached(limit="max_bytes", value=9)}, {"state": FINISHED, "max_bytes": 9}, True),
    (
        {"limit_reached": LimitReached(limit="max_bytes", value=9)},
        {"state": FINISHED, "max_bytes": 10},
        False,
    ),
    (
        {"limit_reached": LimitReached(limit="max_elapsed", value=9000)},
        {"state": FINISHED, "elapsed_s": 9},
        True,
    ),
    (
        {"limit_reached": LimitReached(limit="max_elapsed", value=9000)},
        {"state": FINISHED, "elapsed_s": 8},
        False,
    ),
    ({"problem": Problem(kind="disk-reserve")}, {"state": PAUSED.state}, True),
    ({"problem": Problem(kind="disk-reserve")}, {}, False),
    ({"problem": Problem(kind="disk-reserve")}, {"reached_s": -100}, True),  # it has only just been told
    ({"problem": Problem(kind="clock")}, {}, True),
    ({"problem": Problem(kind="robots-ignored")}, {"policy": "ignore"}, True),
    ({"problem": Problem(kind="robots-ignored")}, {"policy": "obey"}, False),
    ({"problem": Problem(kind="node-name")}, {}, False),
    ({"problem": Problem(kind="node-name")}, {"rival": True}, True),
    ({"uris_left": UrisLeft(retired_count=1)}, {"retired": 1}, True),
    ({"uris_left": UrisLeft(retired_count=1)}, {}, False),
    ({"flights_cancelled": FlightsCancelled(leased_count=3)}, {"state": PAUSED.state}, True),
    ({"flights_cancelled": FlightsCancelled(leased_count=3)}, {}, False),
    ({"node_left": NodeLeft(node="north", reason="silent")}, {}, False),
    ({"node_left": NodeLeft(node="gone", reason="silent")}, {}, True),
]


@pytest.mark.parametrize(("event", "then", "lasts"), LASTING)
def test_watch_shows_a_problem_until_it_is_mended(
    event: dict[str, Any], then: dict[str, Any], lasts: bool
) -> None:
    spec = CrawlSpec(limits=LimitSpec(max_bytes=then.get("max_bytes", 0)))
    spec.limits.max_documents = then.get("max_documents", 0)
    spec.limits.max_elapsed.seconds = then.get("elapsed_s", 0)
    spec.robots.policy = then.get("policy", "obey")
    status = CrawlStatus(state=then.get("state", RUNNING.state), reach_time=at(then.get("reached_s", -30)))
    north = node("north", FETCHING=1)
    north.rival_session = "another" if "rival" in then else ""
    statistics = Statistics(snapshot_time=at(0), retired_uri_count=then.get("retired", 0))
    shown = quiet(
        crawl=Crawl(spec=spec),
        status=status,
        nodes=[north],
        statistics=statistics,
        problems=[told(event_time=at(-60), **event)],
    )
    assert bool(lasting(shown)) is lasts


@pytest.mark.parametrize(
    ("event", "wanted"),
    [
        (problem(1), True),
        (told(flights_cancelled=FlightsCancelled(leased_count=3, bound="pause_timeout")), True),
        (told(limit_reached=LimitReached(limit="max_bytes")), True),
        (told(uris_left=UrisLeft(retired_count=1)), True),
        (told(node_left=NodeLeft(node="north", reason="silent")), True),
        (told(node_left=NodeLeft(node="north", reason="left")), False),
        (told(status_changed=RUNNING), False),
        (told(job_ended=JobEnded(job=1)), False),
    ],
)
def test_which_events_are_problems(event: Event, wanted: bool) -> None:
    assert is_problem(event) is wanted


@pytest.mark.parametrize(
    ("state", "tearing_down", "torn_down", "ended"),
    [
        (CrawlState.CRAWL_STATE_STOPPING, False, False, False),
        (CrawlState.CRAWL_STATE_FINISHED, False, False, True),
        (CrawlState.CRAWL_STATE_FINISHED, True, False, False),
        (CrawlState.CRAWL_STATE_FINISHED, True, True, True),
    ],
)
def test_a_crawl_has_ended_with_its_last_event(
    state: CrawlState.ValueType, tearing_down: bool, torn_down: bool, ended: bool
) -> None:
    status = CrawlStatus(state=state, tearing_down=tearing_down, torn_down=torn_down)
    assert look(status=status).ended is ended
