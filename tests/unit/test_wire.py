"""The contract's messages and the core's values: each has its counterpart, and nothing is lost between."""

from enum import Enum
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from frontier_server import wire
from frontier_server.core.disposition import Disposition, known_status
from frontier_server.core.lifecycle import CrawlState, ExitStatus, Input
from frontier_server.core.model import DEFAULT_PRECEDENCE, Candidate, Directive, EmptyReason, Verdict
from frontier_server.core.queue import QueueState
from frontier_server.core.records import EventRow
from frontier_server.core.settings import (
    DAY_MS,
    CrawlSettings,
    FetchSettings,
    LimitSettings,
    PolitenessSettings,
    RetrySettings,
    RobotsSettings,
    ScopeSettings,
)
from frontier_server.core.spec_problems import problems
from toehold.frontier.v1 import crawl_pb2, frontier_pb2

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
    names = {name.removeprefix(prefix) for name, number in contract.items() if number != 0}
    assert {value.value for value in ours} == names


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
    assert wire.TARGETS[crawl_pb2.TARGET_STATE_FINISH] is Input.STOP


def test_every_fetch_status_of_the_contract_may_be_reported() -> None:
    assert all(known_status(status) for status in crawl_pb2.FetchStatus.values() if status != 0)


def test_every_truncation_of_the_contract_has_its_word_in_the_log() -> None:
    words = [
        wire.report(frontier_pb2.Report(outcome=frontier_pb2.OUTCOME_FETCHED, truncation=number)).truncated
        for number in frontier_pb2.Truncation.values()
    ]
    assert words == ["", "lenTrunc", "timeTrunc"]


EVENTS = [
    EventRow(5, "status_changed", {"state": "RUNNING", "exit_status": "RUNNING"}),
    EventRow(5, "seeds_concluded", {"seed_count": 3, "queued_count": 2}),
    EventRow(5, "limit_reached", {"limit": "max_documents", "value": 9}),
]


def test_every_kind_of_event_has_its_message() -> None:
    told = [wire.event(number, row) for number, row in enumerate(EVENTS, 1)]
    kinds = [field.name for field in crawl_pb2.Event.DESCRIPTOR.oneofs_by_name["kind"].fields]
    assert [event.WhichOneof("kind") for event in told] == kinds == [row.kind for row in EVENTS]
    assert [event.sequence for event in told] == [1, 2, 3]
    assert told[0].status_changed.reach_time.ToMilliseconds() == 5
    assert (told[1].seeds_concluded.seed_count, told[1].seeds_concluded.queued_count) == (3, 2)
    assert (told[2].limit_reached.limit, told[2].limit_reached.value) == ("max_documents", 9)


def test_a_kind_of_event_that_the_contract_does_not_have_is_a_defect() -> None:
    with pytest.raises(ValueError, match="no_such_kind"):
        wire.event(1, EventRow(5, "no_such_kind", {}))


# Specs.


def lengths(least_ms: int = 0, most_ms: int = DAY_MS) -> st.SearchStrategy[int]:
    return st.integers(least_ms, most_ms)


@st.composite
def usable(draw: st.DrawFn) -> CrawlSettings:
    """Settings without problems."""
    min_delay_ms, overload_delay_ms, delay_ms = draw(lengths()), draw(lengths()), draw(lengths())
    hosts = st.lists(st.from_regex(r"[a-z]{1,8}\.example(:8[0-9]{3})?", fullmatch=True), max_size=3)
    return CrawlSettings(
        contact=draw(st.sampled_from(["https://example.org/bot", "bot@example.org"])),
        allowed_addresses=draw(st.sampled_from([("loopback",), ("public",), ("10.0.0.0/8", "::1/128")])),
        scope=ScopeSettings(
            tuple(draw(hosts)),
            draw(st.integers(0, 10_000)),
            draw(st.integers(0, 100)),
            draw(st.integers(0, 100)),
        ),
        politeness=PolitenessSettings(
            draw(st.floats(0, 1000)),
            min_delay_ms,
            draw(lengths(min_delay_ms)),
            draw(lengths()),
            overload_delay_ms,
            draw(lengths(overload_delay_ms)),
        ),
        robots=RobotsSettings(
            draw(st.booleans()), draw(st.integers(1, 1000)), draw(lengths()), draw(lengths(1000))
        ),
        retry=RetrySettings(
            draw(st.integers(1, 10_000)), delay_ms, draw(st.floats(1, 100)), draw(lengths(delay_ms))
        ),
        fetch=FetchSettings(
            draw(lengths(1)),
            draw(st.integers(1, 1 << 40)),
            draw(st.from_regex(r"[A-Za-z_-]{1,9}", fullmatch=True)),
        ),
        limits=LimitSettings(draw(st.integers(0, 1 << 62))),
    )


@given(usable())
def test_settings_survive_the_way_to_a_spec_and_back(settings: CrawlSettings) -> None:
    assert not problems(settings)
    shown = wire.spec(settings)
    assert wire.settings(shown.SerializeToString()) == settings
    assert wire.spec(wire.settings_of(shown)) == shown


def test_a_spec_that_says_nothing_means_the_defaults() -> None:
    assert wire.settings_of(crawl_pb2.CrawlSpec()) == CrawlSettings()


def test_the_defaults_are_those_that_the_contracts_comments_name() -> None:
    shown = wire.spec(CrawlSettings())
    told = {
        (part.name, field.name): getattr(getattr(shown, part.name), field.name)
        for part in crawl_pb2.CrawlSpec.DESCRIPTOR.fields
        if part.message_type is not None
        for field in part.message_type.fields
    }
    plain = {
        path: value.ToMilliseconds() / 1000 if isinstance(value, Duration) else value
        for path, value in told.items()
    }
    assert plain == {
        ("scope", "hosts"): [],
        ("scope", "max_link_hops"): 20,
        ("scope", "max_embed_hops"): 5,
        ("scope", "max_redirect_hops"): 10,
        ("politeness", "delay_factor"): 5,
        ("politeness", "min_delay"): 3,
        ("politeness", "max_delay"): 30,
        ("politeness", "max_crawl_delay"): 300,
        ("politeness", "overload_delay"): 30,
        ("politeness", "max_overload_delay"): 3600,
        ("robots", "unreachable"): crawl_pb2.ROBOTS_UNREACHABLE_FORBID,
        ("robots", "max_attempts"): 5,
        ("robots", "retry_delay"): 30,
        ("robots", "validity"): 86_400,
        ("retry", "max_attempts"): 30,
        ("retry", "delay"): 900,
        ("retry", "growth"): 1,
        ("retry", "max_delay"): 14_400,
        ("fetch", "timeout"): 1200,
        ("fetch", "max_bytes"): 100 * 1024 * 1024,
        ("fetch", "product_token"): "toehold",
        ("limits", "max_documents"): 0,
    }
    assert list(shown.allowed_addresses) == ["public"]


def test_zero_is_a_value_and_not_the_default() -> None:
    spec = crawl_pb2.CrawlSpec()
    spec.scope.max_link_hops = spec.scope.max_embed_hops = spec.scope.max_redirect_hops = 0
    spec.politeness.delay_factor = 0
    for part, field in (
        (spec.politeness.min_delay, "min_delay"),
        (spec.politeness.max_crawl_delay, "max_crawl_delay"),
        (spec.retry.delay, "delay"),
    ):
        part.SetInParent()
        assert part.ToMilliseconds() == 0, field
    settings = wire.settings_of(spec)
    assert settings.scope == ScopeSettings((), 0, 0, 0)
    assert (settings.politeness.delay_factor, settings.politeness.min_delay_ms) == (0, 0)
    assert (settings.politeness.max_crawl_delay_ms, settings.retry.delay_ms) == (0, 0)


def test_an_upper_bound_that_is_not_set_gives_way_to_a_longer_lower_one() -> None:
    spec = crawl_pb2.CrawlSpec(allowed_addresses=["loopback"])
    spec.politeness.min_delay.FromSeconds(3600)
    spec.politeness.overload_delay.FromSeconds(7200)
    spec.retry.delay.FromSeconds(20_000)
    settings = wire.settings_of(spec)
    assert settings.politeness.max_delay_ms == 3_600_000
    assert settings.politeness.max_overload_delay_ms == 7_200_000
    assert settings.retry.max_delay_ms == 20_000_000
    assert not problems(settings)


@pytest.mark.parametrize("number", [-1, 3, 99])
def test_only_the_wire_sees_an_enum_value_that_there_is_not(number: int) -> None:
    spec = crawl_pb2.CrawlSpec()
    spec.robots.unreachable = number  # type: ignore[assignment]  # any number may come
    assert set(wire.spec_problems(spec)) == {"robots.unreachable"}
    assert str(number) in wire.spec_problems(spec)["robots.unreachable"]
    assert not wire.spec_problems(crawl_pb2.CrawlSpec())


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
)


@given(MESSAGES)
def test_a_stored_candidate_is_read_as_it_was_offered(message: frontier_pb2.Candidate) -> None:
    offered = wire.candidate(message)
    assert wire.ContractCodec().decode(offered.record) == offered
    assert frontier_pb2.Candidate.FromString(offered.record) == message


def test_what_this_version_does_not_know_of_a_candidate_is_stored_with_it() -> None:
    unknown = b"\xfa\x3f\x03new"  # field 1023, text
    message = frontier_pb2.Candidate.FromString(
        frontier_pb2.Candidate(uri="http://a.example/").SerializeToString() + unknown
    )
    assert unknown in wire.candidate(message).record


def test_defaults_of_a_candidate() -> None:
    plain = wire.candidate(frontier_pb2.Candidate(uri="u"))
    assert plain == Candidate("u", plain.record, directive=Directive.NORMAL, precedence=DEFAULT_PRECEDENCE)
    assert wire.candidate(frontier_pb2.Candidate(seed=True)).directive == Directive.MEDIUM
    assert wire.candidate(frontier_pb2.Candidate(precedence=0)).precedence == 0
    forced = frontier_pb2.Candidate()
    forced.refetch_before_time.SetInParent()
    assert (wire.candidate(forced).refetch_before_ms, plain.refetch_before_ms) == (0, None)
    seed = wire.ContractCodec().seed("http://a.example/")
    assert (seed.seed, seed.directive, seed.path, seed.via) == (True, Directive.MEDIUM, "", "")


@pytest.mark.parametrize("number", [0, 3, 99, -1])
def test_an_outcome_that_there_is_not_makes_a_report_a_problem(number: int) -> None:
    message = frontier_pb2.Report(token=b"t")
    message.outcome = number  # type: ignore[assignment]  # any number may come
    assert f"outcome {number}" in wire.report(message).problem


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


@given(st.integers(0, 10**18 - 1))
def test_a_cursor_is_read_as_it_was_written(sequence: int) -> None:
    assert wire.sequence_of(wire.cursor(sequence)) == sequence


@given(st.text(max_size=25))
def test_no_text_is_taken_for_a_cursor_that_is_none(text: str) -> None:
    sequence = wire.sequence_of(text)
    if text == wire.START_CURSOR:
        assert sequence == 0
    elif sequence is not None:
        assert text.startswith("e") and int(text[1:]) == sequence >= 0


def test_what_toe_threads_do_is_cut_to_its_bounds() -> None:
    steps = wire.toe_steps([frontier_pb2.ToeStepCount(step="x" * 100, count=3)])
    assert steps == [("x" * 64, 3)]
