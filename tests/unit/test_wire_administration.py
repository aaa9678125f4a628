"""What operators ask and are told: the contract's messages and the core's values, nothing lost between."""

from dataclasses import fields
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontier_server import wire
from frontier_server.core.jobs.steering import QueueChange
from frontier_server.core.rows.records import FetchStatisticsRow, OutcomeRow
from frontier_server.core.state.job import JobKind, JobState
from frontier_server.core.state.model import (
    Candidate,
    FetchStatisticsView,
    JobView,
    Reason,
    SeedResult,
    SeedView,
    UriState,
    UriStory,
    UriView,
    Why,
)
from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

CANDIDATE = frontier_pb2.Candidate(uri="http://a.example/", path="L", annotations=b"mine", cost=3)
VIEW = UriView(
    Candidate("http://a.example/", CANDIDATE.SerializeToString()), "example,a,", 3, 2, 4, due_ms=5_000
)


@pytest.mark.parametrize(
    ("ours", "contract", "prefix"),
    [
        (UriState, admin_pb2.UriState, "URI_STATE_"),
        (JobState, admin_pb2.JobState, "JOB_STATE_"),
        (Why, admin_pb2.Why, "WHY_"),
    ],
)
def test_each_value_has_its_counterpart_in_the_contract_and_the_reverse(
    ours: type[Enum], contract: Any, prefix: str
) -> None:
    names = {name.removeprefix(prefix) for name, number in contract.items() if number != 0}
    assert {value.value for value in ours} == names


# Cursors and page tokens.


@given(st.text(max_size=30), st.binary(min_size=1, max_size=40))
def test_a_page_token_leads_back_to_its_place(listing: str, place: bytes) -> None:
    assert wire.place_of(listing, wire.page_token(listing, place)) == place


@given(st.text(max_size=10), st.text(max_size=10), st.binary(min_size=1, max_size=20))
def test_a_page_token_is_good_for_no_other_listing(one: str, other: str, place: bytes) -> None:
    found = wire.place_of(other, wire.page_token(one, place))
    assert found == (place if one == other else None)


@given(st.text(max_size=60))
def test_a_text_that_is_no_page_token_is_none(text: str) -> None:
    assert wire.place_of("queues", text) is None or text == ""


def test_the_end_of_a_listing_has_no_token() -> None:
    assert wire.page_token("queues", b"") == ""
    assert wire.place_of("queues", "") == b""


@given(st.integers(0, 10**18 - 1), st.integers(0, 10**18 - 1))
def test_cursors_lead_back_and_are_of_one_kind(number: int, time_ms: int) -> None:
    assert wire.event_place(wire.cursor(number, time_ms)) == (number, time_ms)
    assert wire.outcome_place(wire.outcome_cursor(number, time_ms)) == (number, time_ms)
    assert wire.event_place(wire.outcome_cursor(number, time_ms)) is None
    assert wire.outcome_place(wire.cursor(number, time_ms)) is None


# What is asked.


@pytest.mark.parametrize(
    ("message", "change"),
    [
        (admin_pb2.QueueChange(), QueueChange()),
        (admin_pb2.QueueChange(precedence=0), QueueChange(precedence=0)),
        (admin_pb2.QueueChange(precedence=-1), QueueChange(precedence=-1)),
        (admin_pb2.QueueChange(session_budget=0, total_budget=-2), QueueChange(None, 0, -2)),
        (admin_pb2.QueueChange(paused=False, retired=False), QueueChange(paused=False, retired=False)),
        (
            admin_pb2.QueueChange(paused=True, retired=True, wake=True),
            QueueChange(None, None, None, True, True, True),
        ),
    ],
)
def test_what_is_not_set_of_a_change_is_left_alone(
    message: admin_pb2.QueueChange, change: QueueChange
) -> None:
    """A zero that is said is another thing than nothing said."""
    assert wire.queue_change(message) == change


PATTERNS = {"queue_pattern": "q", "uri_pattern": "u"}


@pytest.mark.parametrize(
    ("asked", "kind", "parameters"),
    [
        ({"delete_uris": PATTERNS}, JobKind.DELETE_URIS, PATTERNS),
        (
            {"delete_uris": {**PATTERNS, "dry_run": True}},
            JobKind.DELETE_URIS,
            {**PATTERNS, "dry_run": "true"},
        ),
        ({"retire_queues": {"queue_pattern": "q"}}, JobKind.RETIRE_QUEUES, {"queue_pattern": "q"}),
        ({"unretire_queues": {"queue_pattern": "q"}}, JobKind.UNRETIRE_QUEUES, {"queue_pattern": "q"}),
        ({"wake_queues": {"queue_pattern": "q"}}, JobKind.WAKE_QUEUES, {"queue_pattern": "q"}),
        ({"verify": {}}, JobKind.VERIFY, {}),
        ({"verify": {"repair": True}}, JobKind.VERIFY, {"repair": "true"}),
    ],
)
def test_every_job_of_the_contract_is_one_of_ours(
    asked: dict[str, Any], kind: JobKind, parameters: dict[str, str]
) -> None:
    assert wire.job_asked(admin_pb2.StartJobRequest(**asked)) == (kind, parameters)


def test_no_job_of_the_contract_is_forgotten() -> None:
    (oneof,) = admin_pb2.StartJobRequest.DESCRIPTOR.oneofs
    for field in oneof.fields:
        request = admin_pb2.StartJobRequest()
        getattr(request, field.name).SetInParent()
        assert wire.job_asked(request) is not None, field.name
    assert wire.job_asked(admin_pb2.StartJobRequest()) is None


def test_an_entry_of_an_import_is_stored_as_a_candidate() -> None:
    row = wire.import_row(admin_pb2.ImportEntry(candidate=CANDIDATE))
    assert not isinstance(row, str)
    assert (row.record, row.seen) == (CANDIDATE.SerializeToString(), False)
    seen = admin_pb2.SeenUri(
        uri="http://a.example/", fetch_status=-4, disposition=crawl_pb2.DISPOSITION_FAILED
    )
    row = wire.import_row(admin_pb2.ImportEntry(seen=seen))
    assert not isinstance(row, str)
    assert (row.seen, row.fetch_status, row.disposition) == (True, -4, "FAILED")
    assert wire.ContractCodec().decode(row.record).uri == "http://a.example/"


@pytest.mark.parametrize("number", [n for n in crawl_pb2.Disposition.values() if n not in (0, 1, 2, 3)])
def test_what_was_seen_has_a_final_disposition_or_none(number: crawl_pb2.Disposition.ValueType) -> None:
    problem = wire.import_row(admin_pb2.ImportEntry(seen=admin_pb2.SeenUri(uri="u", disposition=number)))
    assert isinstance(problem, str) and str(number) in problem


# What is told.


def test_a_waiting_uri_is_told_as_it_was_offered() -> None:
    told = wire.waiting_uri(VIEW)
    assert told.candidate == CANDIDATE
    assert (told.queue_key, told.cost, told.precedence, told.attempt_count) == ("example,a,", 3, 2, 4)
    assert told.due_time.ToMilliseconds() == 5_000


def test_a_story_tells_every_field_of_its_own() -> None:
    view = UriStory(
        "http://a.example/",
        "a",
        UriState.LEASED,
        "example,a,",
        "hosts",
        fetch_status=200,
        disposition="SUCCEEDED",
        finish_ms=1_000,
        visits=2,
        etag="e",
        last_modified="l",
        digest="d",
        due_ms=3_000,
        waiting=VIEW,
        node="node",
        lease_ms=4_000,
        expire_ms=5_000,
        discover_ms=6_000,
        reason="no route",
    )
    assert all(getattr(view, field.name) for field in fields(view))
    told = wire.story(view)
    assert len(told.ListFields()) == len(admin_pb2.UriStory.DESCRIPTOR.fields)
    assert told.disposition == crawl_pb2.DISPOSITION_SUCCEEDED
    assert told.waiting == wire.waiting_uri(VIEW)
    assert (told.lease.node, told.lease.lease_time.seconds, told.lease.expire_time.seconds) == ("node", 4, 5)
    assert wire.seed(SeedView("http://a.example/", view, "fetched (200)", SeedResult.FETCHED)).story == told
    unannounced = wire.seed(SeedView("http://a.example/", None, "not announced yet", SeedResult.PENDING))
    assert not unannounced.HasField("story")


def test_a_story_of_a_uri_that_was_never_seen_tells_little() -> None:
    told = wire.story(UriStory("http://a.example/", "a", UriState.NEVER_SEEN, "example,a,", ""))
    assert [field.name for field, _ in told.ListFields()] == ["uri", "identity", "state", "queue_key"]


def test_a_job_tells_every_field_of_its_own() -> None:
    view = JobView(3, "verify", "DONE", {"repair": "true"}, 1_000, 2_000, 4, 5, 6, ("found",), {"queues": 7})
    told = wire.job(view)
    assert len(told.ListFields()) == len(admin_pb2.Job.DESCRIPTOR.fields)
    assert (told.done_count, told.changed_count, told.total_count) == (4, 5, 6)
    assert told.state == admin_pb2.JOB_STATE_DONE


def test_statistics_tell_every_field_of_a_row_under_its_own_name() -> None:
    row = FetchStatisticsRow(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11_000)
    told = wire.fetch_statistics(FetchStatisticsView("a.example", row))
    assert len(told.ListFields()) == len(admin_pb2.FetchStatistics.DESCRIPTOR.fields)
    assert (told.succeeded_count, told.failed_count, told.disregarded_count) == (1, 2, 3)
    assert (told.response_count, told.robots_denied_count) == (4, 5)
    assert (told.succeeded_bytes_count, told.response_bytes_count, told.non_response_count) == (6, 7, 8)
    assert (told.novel_count, told.novel_bytes_count, told.last_success_time.seconds) == (9, 10, 11)


def test_an_outcome_tells_every_field_of_a_row() -> None:
    row = OutcomeRow(
        1_000,
        "http://a.example/",
        200,
        "SUCCEEDED",
        body_bytes=2,
        path="L",
        via="http://b.example/",
        media_type="text/html",
        node="node",
        toe_number=3,
        start_ms=4_000,
        duration_ms=5,
        digest="sha1:A",
        annotations=("one", "two"),
        source="http://c.example/",
        reason="no route",
    )
    told = wire.outcome(7, row)
    assert len(told.ListFields()) == len(admin_pb2.UriOutcome.DESCRIPTOR.fields)
    assert told.cursor == wire.outcome_cursor(7, row.time_ms) and list(told.annotations) == ["one", "two"]
    assert (told.start_time.seconds, told.fetch_duration.ToMilliseconds()) == (4, 5)


def test_the_range_of_outcomes_that_is_kept_may_be_empty() -> None:
    kept = wire.kept_outcomes(1, 0, 0)
    assert (kept.oldest_cursor, kept.last_cursor, kept.outcome_count) == ("o0", "o0", 0)
    kept = wire.kept_outcomes(6, 9, 1_000)
    assert (kept.oldest_cursor, kept.last_cursor, kept.outcome_count) == ("o5", "o9-1000", 4)


def test_a_reason_without_an_end_has_no_time() -> None:
    assert not wire.reason(Reason(Why.PAUSED, "it is paused")).HasField("until_time")
    assert wire.reason(Reason(Why.LEASED, "it is out", 9_000)).until_time.seconds == 9
