"""The contract's messages as plain dicts."""

import json

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from toehold.frontier.v1.admin_pb2 import Crawl, GetFrontierResponse, Node, WorkQueue
from toehold.frontier.v1.crawl_pb2 import (
    CrawlSpec,
    CrawlState,
    CrawlStatus,
    Event,
    LimitReached,
    ScopeSpec,
    Statistics,
)
from toehold.frontier.v1.frontier_pb2 import Lease, ToeStepCount
from toehold_client.plain import enum_word, set_to_plain, to_plain


def test_large_numbers_stay_numbers() -> None:
    plain = to_plain(Statistics(discovered_count=2**53, fetch_status_counts={200: 5, -2: 1}))
    assert plain["discovered_count"] == 2**53
    assert plain["fetch_status_counts"] == {"-2": 1, "200": 5}
    assert plain["failed_count"] == 0


def test_times_and_durations_say_what_they_are() -> None:
    plain = to_plain(
        Statistics(
            snapshot_time=Timestamp(seconds=1), elapsed_duration=Duration(seconds=1, nanos=500_000_000)
        )
    )
    assert plain["snapshot_time"] == "1970-01-01T00:00:01Z"
    assert plain["elapsed_seconds"] == 1.5
    assert plain["next_due_time"] is None


def test_enums_are_their_short_names_and_unknown_ones_their_numbers() -> None:
    assert to_plain(CrawlStatus(state=CrawlState.CRAWL_STATE_PAUSED))["state"] == "PAUSED"
    assert to_plain(CrawlStatus())["state"] == "UNSPECIFIED"
    assert enum_word(CrawlState.DESCRIPTOR, 99) == "99"
    assert to_plain(CrawlStatus.FromString(b"\x08\x63"))["state"] == "99"


def test_of_a_oneof_only_what_is_set_is_there() -> None:
    plain = to_plain(Event(sequence=3, limit_reached=LimitReached(limit="max_documents", value=5)))
    assert plain["limit_reached"] == {
        "limit": "max_documents",
        "value": 5,
        "reached": 0,
        "leased_count": 0,
    }
    assert "status_changed" not in plain
    assert "seeds_concluded" not in plain


def test_optional_fields_that_are_not_set_are_none() -> None:
    assert to_plain(ScopeSpec())["max_link_hops"] is None
    assert to_plain(ScopeSpec(max_link_hops=0))["max_link_hops"] == 0


def test_only_what_is_set_at_every_depth() -> None:
    assert set_to_plain(CrawlSpec(scope=ScopeSpec(max_link_hops=0))) == {"scope": {"max_link_hops": 0}}
    assert set_to_plain(CrawlSpec()) == {}


def test_every_message_that_is_printed_is_json() -> None:
    frontier = GetFrontierResponse(nodes=[Node(node="n", toe_steps=[ToeStepCount(step="FETCHING", count=2)])])
    for message in (Crawl(spec=CrawlSpec()), WorkQueue(), frontier, Lease(token=b"\xff")):
        assert json.loads(json.dumps(to_plain(message)))
    assert to_plain(frontier)["nodes"][0]["toe_steps"] == [{"step": "FETCHING", "count": 2}]
    assert to_plain(Lease(token=b"\xff"))["token"] == "/w=="
