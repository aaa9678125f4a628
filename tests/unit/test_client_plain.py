"""The contract's messages as plain dicts."""

import json
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from toehold.frontier.v1.admin_pb2 import Crawl, GetFrontierResponse, Node, WaitingUri, WorkQueue
from toehold.frontier.v1.crawl_pb2 import (
    CrawlSpec,
    CrawlState,
    CrawlStatus,
    Event,
    LimitReached,
    ScopeSpec,
    Statistics,
)
from toehold.frontier.v1.frontier_pb2 import DIRECTIVE_HIGH, Candidate, Lease, ToeStepCount
from toehold_client.spec.plain import enum_word, from_plain, set_to_plain, to_plain


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


@pytest.mark.parametrize(
    "message",
    [
        WaitingUri(),
        WaitingUri(candidate=Candidate(uri="é", annotations=b"\0\xff", directive=DIRECTIVE_HIGH, cost=0)),
        WaitingUri(due_time=Timestamp(seconds=5, nanos=123_000_000), cost=3),
        WorkQueue(queue_key="q", average_cost=0.1, paused=True, total_budget=-1),
        Node(node="n", toe_steps=[ToeStepCount(step="FETCHING", count=2), ToeStepCount()]),
        CrawlSpec(allowed_addresses=["loopback"], scope=ScopeSpec(max_link_hops=0)),
        GetFrontierResponse(lease_duration=Duration(seconds=2, nanos=500_000_000)),
    ],
)
def test_a_message_comes_back_from_its_plain_form(message: Any) -> None:
    again = type(message)()
    from_plain(json.loads(json.dumps(to_plain(message))), again)
    assert to_plain(again) == to_plain(message)
    only_set = type(message)()
    from_plain(json.loads(json.dumps(set_to_plain(message))), only_set)
    assert only_set == message


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"color": "red"}, "there is no field 'color'"),
        ({"cost": "much"}, "^cost: "),
        ({"cost": 2**40}, "^cost: "),
        ({"candidate": []}, "candidate"),
        ({"candidate": {"seed": 1.5}}, "seed"),
        ({"candidate": {"directive": "SOON"}}, "there is no Directive 'SOON'"),
        ({"candidate": {"annotations": "%"}}, "^candidate: annotations: "),
        ({"due_time": 5}, "^due_time: "),
        ({"due_time": "tomorrow"}, "^due_time: "),
    ],
)
def test_what_is_no_plain_form_is_a_value_error(said: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        from_plain(said, WaitingUri())
