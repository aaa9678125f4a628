"""The contract's messages and the core's values: each has its counterpart, and nothing is lost between."""

from enum import Enum
from typing import Any

import pytest
from core_doubles.shell import Shell
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from frontier_server import wire
from frontier_server.core.machines.lifecycle import CrawlState, ExitStatus, Input
from frontier_server.core.rows.errors import StoreCorrupt
from frontier_server.core.rows.records import EventRow, ImportRow
from frontier_server.core.rules.disposition import Disposition, known_status
from frontier_server.core.spec.settings import CrawlSettings
from frontier_server.core.state.model import (
    Candidate,
    CrawlView,
    Directive,
    EmptyReason,
    Grant,
    NodeView,
    QueueView,
    Remaining,
    StatisticsView,
    Verdict,
)
from frontier_server.core.state.queue import QueueState
from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

# Enums.


@pytest.mark.parametrize(
    ("ours", "contract", "prefix"),
    [
        (Verdict, crawl_pb2.Verdict, "VERDICT_"),
        (Disposition, crawl_pb2.Disposition, "DISPOSITION_"),
        (CrawlState, crawl_pb2.CrawlState, "CRAWL_STATE_"),
        (ExitStatus, crawl_pb2.ExitStatus, "EXIT_STATUS_"),
        (QueueState, crawl_pb2.QueueState, "QUEUE_STATE_"),
        (EmptyReason, frontier_pb2.EmptyReason, "EMPTY_REASON_"),
    ],
)
def test_each_value_has_its_counterpart_in_the_contract_and_the_reverse(
    ours: type[Enum], contract: Any, prefix: str
) -> None:
    """The front of several shards alone says AWAY and PARKED: a core judges all that it is asked."""
    of_the_front = {Verdict: {"AWAY", "PARKED"}, Disposition: {"AWAY"}}.get(ours, set())
    names = {name.removeprefix(prefix) for name, number in contract.items() if number != 0}
    assert {value.value for value in ours} | of_the_front == names


def test_directives_are_the_contracts_numbers() -> None:
    names = {
        name.removeprefix("DIRECTIVE_"): number
        for name, number in frontier_pb2.Directive.items()
        if number != 0
    }
    assert {directive.name: directive.value for directive in Directive} == names


@pytest.mark.parametrize(
    "table", [wire.VERDICTS, wire.DISPOSITIONS, wire.EMPTY_REASONS, wire.QUEUE_STATES, wire.TARGETS]
)
def test_no_two_values_share_a_number(table: dict[Any, int]) -> None:
    assert len(set(table.values())) == len(table)


def test_every_target_of_the_contract_is_one_of_ours() -> None:
    assert set(wire.TARGETS) == set(crawl_pb2.TargetState.values()) - {0}
    assert wire.TARGETS[crawl_pb2.TARGET_STATE_RUN] is Input.RESUME
    assert wire.TARGETS[crawl_pb2.TARGET_STATE_PAUSE] is Input.PAUSE
    assert wire.TARGETS[crawl_pb2.TARGET_STATE_HOLD] is Input.HOLD
    assert wire.TARGETS[crawl_pb2.TARGET_STATE_FINISH] is Input.STOP


def test_every_fetch_status_of_the_contract_may_be_reported() -> None:
    assert all(known_status(status) for status in crawl_pb2.FetchStatus.values() if status != 0)


def test_every_truncation_of_the_contract_has_its_word_in_the_log() -> None:
    words = [
        wire.report(frontier_pb2.Report(outcome=frontier_pb2.OUTCOME_FETCHED, truncation=number)).truncated
        for number in frontier_pb2.Truncation.values()
    ]
    assert words == ["", "lenTrunc", "timeTrunc", "midFetchAbort", "disconnectTrunc"]


EVENTS = [
    EventRow(5, "status_changed", {"state": "RUNNING", "exit_status": "RUNNING"}),
    EventRow(5, "seeds_concluded", {"seed_count": 3, "queued_count": 2}),
    EventRow(5, "limit_reached", {"limit": "max_bytes", "value": 9, "reached": 12, "leased_count": 4}),
    EventRow(5, "round_begun", {"round": 7}),
    EventRow(5, "uris_left", {"retired_count": 8, "ineligible_count": 0}),
    EventRow(5, "job_ended", {"job": 6, "kind": "deletion", "outcome": "done"}),
    EventRow(
        5,
        "statistics",
        {
            "interval_ms": 20_500,
            "succeeded_count": 1,
            "failed_count": 2,
            "disregarded_count": 3,
            "deferred_count": 4,
            "lapsed_count": 5,
            "bytes_count": 6,
            "discovered_count": 7,
            "queued_count": 8,
        },
    ),
    EventRow(5, "node_joined", {"node": "n", "session": "s"}),
    EventRow(5, "node_left", {"node": "n", "session": "s", "reason": "silent"}),
    EventRow(5, "operator_acted", {"operator": "me@here", "action": "update", "detail": "max_toes"}),
    EventRow(5, "problem", {"kind": "disk-reserve", "detail": "no room"}),
    EventRow(5, "held", {}),
    EventRow(5, "released", {}),
    EventRow(5, "checkpointed", {"checkpoint": "first"}),
    EventRow(5, "flights_cancelled", {"leased_count": 9, "bound": "stop_timeout"}),
    EventRow(5, "torn_down", {}),
]
MESSAGES_OF_EVENTS = [
    crawl_pb2.SeedsConcluded(seed_count=3, queued_count=2),
    crawl_pb2.LimitReached(limit="max_bytes", value=9, reached=12, leased_count=4),
    crawl_pb2.RoundBegun(round=7),
    crawl_pb2.UrisLeft(retired_count=8),
    crawl_pb2.JobEnded(job=6, kind="deletion", outcome="done"),
    crawl_pb2.IntervalStatistics(
        interval_duration=Duration(seconds=20, nanos=500_000_000),
        succeeded_count=1,
        failed_count=2,
        disregarded_count=3,
        deferred_count=4,
        lapsed_count=5,
        bytes_count=6,
        discovered_count=7,
        queued_count=8,
    ),
    crawl_pb2.NodeJoined(node="n", session="s"),
    crawl_pb2.NodeLeft(node="n", session="s", reason="silent"),
    crawl_pb2.OperatorActed(operator="me@here", action="update", detail="max_toes"),
    crawl_pb2.Problem(kind="disk-reserve", detail="no room"),
    crawl_pb2.Held(),
    crawl_pb2.Released(),
    crawl_pb2.Checkpointed(checkpoint="first"),
    crawl_pb2.FlightsCancelled(leased_count=9, bound="stop_timeout"),
    crawl_pb2.TornDown(),
]
"""Of all but the first."""


def test_every_kind_of_event_has_its_message() -> None:
    """S0.9: one stream of typed messages, each with its number."""
    told = [wire.event(number, row) for number, row in enumerate(EVENTS, 1)]
    kinds = [field.name for field in crawl_pb2.Event.DESCRIPTOR.oneofs_by_name["kind"].fields]
    assert [event.WhichOneof("kind") for event in told] == kinds == [row.kind for row in EVENTS]
    assert [event.sequence for event in told] == list(range(1, len(EVENTS) + 1))
    assert {event.event_time.ToMilliseconds() for event in told} == {5}
    assert [getattr(event, event.WhichOneof("kind") or "") for event in told[1:]] == MESSAGES_OF_EVENTS


def test_an_event_of_a_status_tells_all_of_it_that_was_so_then() -> None:
    event = wire.event(1, EVENTS[0])
    assert event.status_changed == crawl_pb2.CrawlStatus(
        state=crawl_pb2.CRAWL_STATE_RUNNING,
        exit_status=crawl_pb2.EXIT_STATUS_RUNNING,
        reach_time=Timestamp(nanos=5_000_000),
    )
    fields: dict[str, str | int] = {"state": "PAUSED", "exit_status": "PAUSED"}
    fields |= {"reason": "no room", "tearing_down": 1}
    status = wire.event(2, EventRow(5, "status_changed", fields)).status_changed
    assert (status.reason, status.tearing_down, status.held, status.torn_down) == (
        "no room",
        True,
        False,
        False,
    )


@pytest.mark.parametrize(
    "row",
    [
        EventRow(5, "no_such_kind", {}),
        EventRow(5, "sequence", {"no": 1}),
        EventRow(5, "round_begun", {"no_such_field": 1}),
    ],
)
def test_an_event_that_the_contract_does_not_have_is_a_defect(row: EventRow) -> None:
    with pytest.raises((ValueError, AttributeError), match=f"{row.kind}|no_such_field"):
        wire.event(1, row)


# Candidates and reports.

MESSAGES = st.builds(
    frontier_pb2.Candidate,
    uri=st.text(max_size=20),
    via=st.text(max_size=20),
    path=st.text("LER", max_size=5),
    directive=st.integers(0, 4),
    seed=st.booleans(),
    refetch_before_time=st.none() | st.builds(Timestamp, seconds=st.integers(0, 2**40)),
    precedence=st.none() | st.integers(0, 127),
    annotations=st.binary(max_size=20),
    cost=st.none() | st.integers(0, 255),
    not_before_time=st.none() | st.builds(Timestamp, seconds=st.integers(0, 2**40)),
    source=st.text(max_size=20),
)


@given(MESSAGES)
def test_a_stored_candidate_is_read_as_it_was_offered(message: frontier_pb2.Candidate) -> None:
    offered = wire.candidate(message)
    assert wire.ContractCodec().decode(offered.record) == offered
    assert frontier_pb2.Candidate.FromString(offered.record) == message


def test_a_stored_candidate_that_cannot_be_read_is_damage_of_the_store() -> None:
    with pytest.raises(StoreCorrupt, match="a stored candidate of 3 bytes cannot be read"):
        wire.ContractCodec().decode(b"\xff\xff\xff")


def test_what_this_version_does_not_know_of_a_candidate_is_stored_with_it() -> None:
    unknown = b"\xfa\x3f\x03new"  # field 1023, text
    message = frontier_pb2.Candidate.FromString(
        frontier_pb2.Candidate(uri="http://a.example/").SerializeToString() + unknown
    )
    assert unknown in wire.candidate(message).record


def test_defaults_of_a_candidate() -> None:
    plain = wire.candidate(frontier_pb2.Candidate(uri="u"))
    assert plain == Candidate("u", plain.record, directive=Directive.NORMAL)
    assert (plain.precedence, plain.cost, plain.not_before_ms) == (None, None, 0), "the policies decide"
    assert wire.candidate(frontier_pb2.Candidate(seed=True)).directive == Directive.MEDIUM
    assert wire.candidate(frontier_pb2.Candidate(precedence=0)).precedence == 0
    assert wire.candidate(frontier_pb2.Candidate(cost=0)).cost == 0
    forced = frontier_pb2.Candidate()
    forced.refetch_before_time.SetInParent()
    assert (wire.candidate(forced).refetch_before_ms, plain.refetch_before_ms) == (0, None)
    seed = wire.ContractCodec().seed("http://a.example/")
    assert (seed.seed, seed.directive, seed.path, seed.via) == (True, Directive.MEDIUM, "", "")


@pytest.mark.parametrize("number", [0, 3, 99, -1])
def test_an_outcome_that_there_is_not_makes_a_report_a_problem(number: int) -> None:
    message = frontier_pb2.Report(token=b"t")
    message.outcome = number  # type: ignore[assignment]  # any number may come
    assert (
        f"outcome must be OUTCOME_FETCHED or OUTCOME_RELEASED, got {number}" in wire.report(message).problem
    )


def fetched(**more: Any) -> frontier_pb2.Report:
    return frontier_pb2.Report(token=b"t", outcome=frontier_pb2.OUTCOME_FETCHED, fetch_status=200, **more)


def test_what_a_report_says_of_its_page_and_of_its_queue() -> None:
    told = wire.report(
        fetched(etag='"7"', last_modified="yesterday", retire_queue=True, revisit_time=Timestamp(seconds=9))
    )
    assert not told.problem
    assert (told.etag, told.last_modified, told.retire_queue, told.revisit_ms) == (
        '"7"',
        "yesterday",
        True,
        9_000,
    )
    plain = wire.report(fetched())
    assert (plain.etag, plain.retire_queue, plain.revisit_ms, plain.peer_address) == ("", False, 0, "")


def test_a_validator_that_is_too_long_is_dropped_since_a_cut_one_matches_nothing() -> None:
    assert wire.report(fetched(etag="e" * 1024)).etag == "e" * 1024
    assert wire.report(fetched(etag="e" * 1025)).etag == ""
    assert wire.report(fetched(last_modified="ü" * 513)).last_modified == "", "1026 bytes"


@pytest.mark.parametrize(
    ("said", "address"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:DB8:0:0::1", "2001:db8::1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("", ""),
    ],
)
def test_an_address_has_one_spelling_so_that_hosts_share_it_or_do_not(said: str, address: str) -> None:
    told = wire.report(fetched(peer_address=said))
    assert (told.peer_address, told.problem) == (address, "")


@pytest.mark.parametrize(
    "said", ["www.example.com", "192.0.2.1:80", "[::1]", "1", " 192.0.2.1", "x" * 10_000]
)
def test_an_address_that_is_none_makes_a_report_a_problem(said: str) -> None:
    problem = wire.report(fetched(peer_address=said)).problem
    assert problem.startswith("peer_address ") and said[:80] in problem and len(problem) < 150


def test_of_two_problems_of_a_report_the_first_is_told() -> None:
    message = frontier_pb2.Report(peer_address="none")
    assert "OUTCOME_RELEASED, got 0" in wire.report(message).problem


@pytest.mark.parametrize(
    ("seconds", "ms"), [(-5, 1), (0, 1), (1, 1_000), (2**40, 253_402_300_799_999), (-(2**62), 1)]
)
def test_a_time_that_is_asked_for_is_one_that_can_be_kept_and_told(seconds: int, ms: int) -> None:
    moment = Timestamp(seconds=seconds)
    assert wire.candidate(frontier_pb2.Candidate(not_before_time=moment)).not_before_ms == ms
    assert wire.report(fetched(revisit_time=moment)).revisit_ms == ms
    assert wire.timestamp(ms)


def test_a_lease_has_its_source_and_the_validators_of_the_last_visit() -> None:
    offered = wire.candidate(frontier_pb2.Candidate(uri="http://a.example/", annotations=b"mine"))
    grant = Grant(
        b"t",
        "crawl",
        "http://a.example/",
        False,
        offered,
        2,
        "example,a,",
        9_000,
        "policy",
        source="http://seed.example/",
        etag='"7"',
        last_modified="yesterday",
        last_digest="sha1:ABC",
    )
    (told,) = wire.leases([grant]).leases
    assert told == frontier_pb2.Lease(
        token=b"t",
        crawl="crawl",
        uri="http://a.example/",
        purpose=frontier_pb2.PURPOSE_PAGE,
        attempt=2,
        queue_key="example,a,",
        expire_time=Timestamp(seconds=9),
        annotations=b"mine",
        fetch_policy_id="policy",
        source="http://seed.example/",
        etag='"7"',
        last_modified="yesterday",
        last_digest="sha1:ABC",
    )


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1))
def test_any_length_and_any_moment_is_a_number_of_milliseconds(seconds: int, nanos: int) -> None:
    length = wire.milliseconds(Duration(seconds=seconds, nanos=nanos))
    assert length == wire.moment_ms(Timestamp(seconds=seconds, nanos=nanos))
    assert abs(length - seconds * 1000) <= 2_148


@given(st.integers(1, 4_000_000_000_000))
def test_a_moment_survives_the_way_out_and_back(moment_ms: int) -> None:
    message = wire.timestamp(moment_ms)
    assert message is not None and wire.moment_ms(message) == moment_ms
    assert wire.milliseconds(wire.duration(moment_ms)) == moment_ms


def test_no_moment_is_no_message() -> None:
    assert wire.timestamp(0) is None


# Cursors.


@given(st.text(max_size=25))
def test_no_text_is_taken_for_a_cursor_that_is_none(text: str) -> None:
    place = wire.event_place(text)
    if text == wire.START_CURSOR:
        assert place == (0, 0)
    elif place is not None:
        assert text.startswith("e") and text.isascii() and place.number >= 0


@pytest.mark.parametrize(
    "text", ["e", "e-1", "e1-", "e1-2-3", "e1 ", "e1\n", "e²", "e" + "9" * 19, "e1-" + "9" * 19]
)
def test_a_text_that_looks_like_a_cursor_is_none(text: str) -> None:
    assert wire.event_place(text) is None


def test_what_toe_threads_do_is_cut_to_its_bounds() -> None:
    steps = wire.toe_steps([frontier_pb2.ToeStepCount(step="x" * 100, count=3)])
    assert steps == [("x" * 64, 3)]


# Descriptions.


def test_every_figure_of_the_contract_is_told() -> None:
    statistics = {
        field.name: number
        for number, field in enumerate(crawl_pb2.Statistics.DESCRIPTOR.fields, 1)
        if field.name.endswith("_count") and field.name not in ("deepest_queue_count", "remaining_uri_count")
    }
    view = StatisticsView(
        now_ms=1_000,
        counts=statistics,
        fetch_statuses={200: 3, -2: 1},
        verdicts={"QUEUED": 4},
        queue_states={QueueState.READY: 1, QueueState.RETIRED: 2},
        elapsed_ms=5_000,
        next_due_ms=9_000,
        waiting_for="patience",
        media_types={"text/html": 3},
        current_per_second=1.5,
        current_bytes_per_second=2.5,
        deepest_queue=7,
        congestion=3.5,
        round=8,
        limited_by="no node asks",
        annotations={"hookFailed": 9},
        remaining=Remaining(10_000, 11_000, "a.example", "limits.max_documents", 12),
        limiting_setting="politeness.min_delay_seconds",
    )
    told = wire.statistics(view)
    assert (told.remaining_min_duration.seconds, told.remaining_max_duration.seconds) == (10, 11)
    assert (told.remaining_host, told.remaining_limit) == ("a.example", "limits.max_documents")
    assert (told.remaining_uri_count, told.limiting_setting) == (12, "politeness.min_delay_seconds")
    assert dict(told.annotation_counts) == {"hookFailed": 9}
    assert {name: getattr(told, name) for name in statistics} == statistics
    assert dict(told.queue_state_counts) == {"READY": 1, "RETIRED": 2}
    assert (dict(told.fetch_status_counts), dict(told.media_type_counts)) == (
        {200: 3, -2: 1},
        {"text/html": 3},
    )
    assert (told.succeeded_per_second, told.bytes_per_second, told.congestion_ratio) == (1.5, 2.5, 3.5)
    assert (told.deepest_queue_count, told.round, told.limited_by) == (7, 8, "no node asks")
    assert all(field in [each for each, _ in told.ListFields()] for field in told.DESCRIPTOR.fields)


def test_all_that_is_known_of_a_crawls_status_is_told() -> None:
    view = CrawlView(
        *(7, "crawl", b"", CrawlState.PAUSED, ExitStatus.PAUSED),
        *(5_000, 1_000, 2_000, 0),
        *(3, 2, 1, 9),
        reason="no room",
        held=True,
        tearing_down=True,
        torn_down=True,
    )
    assert wire.crawl_status(view) == crawl_pb2.CrawlStatus(
        state=crawl_pb2.CRAWL_STATE_PAUSED,
        exit_status=crawl_pb2.EXIT_STATUS_PAUSED,
        reach_time=Timestamp(seconds=5),
        reason="no room",
        held=True,
        tearing_down=True,
        torn_down=True,
    )


def test_a_size_of_a_pool_that_nobody_asked_for_is_not_told_and_none_at_all_is() -> None:
    assert not wire.node(NodeView("n", "s", 5_000, 1, ())).HasField("pool_size")
    told = wire.node(NodeView("n", "s", 5_000, 1, (("fetch", 2),), 0))
    assert (told.HasField("pool_size"), told.pool_size) == (True, 0)


def test_all_that_is_known_of_a_queue_is_told() -> None:
    view = QueueView(
        "com,example,",
        "example.com",
        QueueState.SNOOZED,
        *(1, 2, 3, 4, 5_000),
        "retry",
        7,
        *(8, 9, 10, 11, 12, 13),
        average_cost=1.5,
        paused=True,
        precedence_fixed=True,
        queue_ms=14_000,
        lease_ms=15_000,
    )
    told = wire.queue(view)
    assert all(field in [each for each, _ in told.ListFields()] for field in told.DESCRIPTOR.fields)
    assert (told.succeeded_count, told.expenditure, told.session_expenditure) == (8, 9, 10)
    assert (told.session_budget, told.total_budget, told.last_cost, told.average_cost) == (11, 12, 13, 1.5)
    assert (told.queue_time.seconds, told.lease_time.seconds, told.wake_time.seconds) == (14, 15, 5)


@pytest.mark.parametrize("field", ["uri", "via", "source", "path"])
def test_what_is_too_long_to_be_taken_in_is_imported_as_too_long_and_no_longer(field: str) -> None:
    """The job tells of it; the rest of the import goes on."""
    offered = frontier_pb2.Candidate(uri="http://a.example/", path="L")
    setattr(offered, field, ("http://a.example/" if field != "path" else "") + "L" * 1_000_000)
    row = wire.import_row(admin_pb2.ImportEntry(candidate=offered))
    assert isinstance(row, ImportRow) and len(row.record) < 10_000
    shell = Shell()
    shell.create("crawl", CrawlSettings(allowed_addresses=("loopback",)))
    assert shell.schedule("crawl", wire.ContractCodec().decode(row.record)) == [Verdict.TOO_LONG]
