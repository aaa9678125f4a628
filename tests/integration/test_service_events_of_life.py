"""What a crawl's events tell of its life: who asked, what became of URIs, and where they end."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from frontier_harness.calls import (
    FINISH,
    PAUSE,
    TIMEOUT_S,
    Stubs,
    named,
    refused,
    report,
)
from frontier_harness.held_store import HeldStore
from frontier_harness.hosted import Hosted, hosted
from frontier_harness.raw_calls import raw_call
from frontier_harness.waiting import eventually

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

A, B = "http://a.example/", "http://b.example/"


def told(stubs: Stubs, kind: str, crawl: str = "t") -> list[Any]:
    """All events of a kind so far."""
    return [getattr(event, kind) for event in stubs.events_so_far(crawl) if event.HasField(kind)]  # type: ignore[arg-type]  # a field of Event


def follow(stubs: Stubs, crawl: str = "t", cursor: str = "") -> Any:
    """A stream of events, behind the present state."""
    wanted = frontier_pb2.StateEventsRequest(crawl=crawl, cursor=cursor)
    stream = stubs.frontier.StateEvents(wanted, timeout=TIMEOUT_S)
    next(stream)
    return stream


def words(stream: Any) -> list[str]:
    """What it tells until it ends; which it does with OK."""
    found = [named(answer.event) for answer in stream if answer.HasField("event")]
    assert stream.code() == grpc.StatusCode.OK
    return [word for word in found if word not in ("statistics", "node_joined")]


# Where they end.


def test_the_stream_ends_with_the_event_of_finished(at: Hosted) -> None:
    at.stubs.launch("t", A)
    stream = follow(at.stubs)
    at.stubs.request("t", FINISH)
    assert words(stream) == ["by stop", "STOPPING", "FINISHED"]


def test_the_stream_goes_on_to_the_teardown_if_that_was_asked_for_before(tmp_path: Path) -> None:
    with hosted(HeldStore(), tmp_path, logs=False) as at:
        stubs = at.stubs
        stubs.launch("t", A)
        (lease,) = stubs.pages("t")
        stubs.schedule("t", f"{A}more")
        stubs.finish(report(lease))
        early = follow(stubs)
        stubs.ask("TearDownCrawl", "t")
        late = follow(stubs)  # it has finished, and its log is not written
        assert stubs.describe("t").status.state == crawl_pb2.CRAWL_STATE_FINISHED
        at.write_logs()
        assert words(early) == ["by teardown", "STOPPING", "FINISHED", "torn_down"]
        assert words(late) == ["torn_down"]


def test_the_stream_of_a_crawl_that_was_torn_down_has_all_and_ends(at: Hosted) -> None:
    stubs = at.stubs
    stubs.launch("t", A)
    stubs.request("t", FINISH)
    stubs.ask("TearDownCrawl", "t")
    eventually(lambda: stubs.describe("t").status.torn_down)
    whole = words(follow(stubs, cursor="start"))
    assert whole[-4:] == ["STOPPING", "FINISHED", "by teardown", "torn_down"]
    assert words(follow(stubs, cursor=stubs.events("t")[-2].cursor)) == ["torn_down"]
    assert words(follow(stubs)) == words(follow(stubs, cursor=stubs.events("t")[-1].cursor)) == []


def followed(stubs: Stubs, rpc: str) -> Any:
    """A stream of crawl `t` that has begun."""
    stubs.create("t")
    if rpc == "StateEvents":
        return follow(stubs)
    following = admin_pb2.StreamOutcomesRequest(crawl="t", follow=True)
    stream = stubs.admin.StreamOutcomes(following, timeout=TIMEOUT_S)
    next(stream)
    return stream


@pytest.mark.parametrize("rpc", ["StateEvents", "StreamOutcomes"])
def test_who_follows_a_crawl_is_told_when_it_is_deleted(
    at: Hosted, rpc: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frontier_server.shell.followers.HEARTBEAT_S", 0.2)
    stream = followed(at.stubs, rpc)
    at.stubs.ask("DeleteCrawl", "t")
    problem = refused(lambda: list(stream), grpc.StatusCode.NOT_FOUND, "UNKNOWN_CRAWL", "deleted")
    assert problem.metadata == {"crawl": "t"}


@pytest.mark.parametrize("rpc", ["StateEvents", "StreamOutcomes"])
def test_who_follows_a_crawl_is_told_when_another_has_got_its_name(at: Hosted, rpc: str) -> None:
    """It would take the other's events for those of the first."""
    stubs = at.stubs
    stream = followed(stubs, rpc)
    stubs.ask("DeleteCrawl", "t")
    stubs.launch("t", A)
    stubs.finish(*(report(lease) for lease in stubs.pages("t")))
    problem = refused(lambda: list(stream), grpc.StatusCode.NOT_FOUND, "UNKNOWN_CRAWL", "deleted")
    assert problem.metadata == {"crawl": "t"}


# Who asked.


def by(operator: str | Sequence[tuple[str, str]], call: Any, message: Any) -> Any:
    """Make a call in somebody's name."""
    metadata = [("toehold-operator", operator)] if isinstance(operator, str) else list(operator)
    return call(message, timeout=TIMEOUT_S, metadata=metadata)


def pause(at: Hosted, operator: str | Sequence[tuple[str, str]]) -> str:
    """Pause crawl `t` in somebody's name; who is told to have done it."""
    message = frontier_pb2.RequestStateRequest(crawl="t", target_state=PAUSE)
    by(operator, at.stubs.frontier.RequestState, message)
    name: str = told(at.stubs, "operator_acted")[-1].operator
    return name


ADDRESS = r"ipv4:127\.0\.0\.1:\d+"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("ann@desk", "ann@desk"),
        ("  two words  ", "two words"),
        ("x" * 128, "x" * 128),
        ("x" * 129, "x" * 128),
        ("x" * 4000, "x" * 128),
        ("HELD\\n2026-01-01T00:00:00.000Z 9 HELD", "HELD\\n2026-01-01T00:00:00.000Z 9 HELD"),
        ('"; DROP TABLE {operator} %s', '"; DROP TABLE {operator} %s'),
        ([("toehold-operator", "first"), ("toehold-operator", "second")], "first"),
    ],
)
def test_a_caller_may_say_who_it_is(at: Hosted, said: Any, shown: str) -> None:
    at.stubs.launch("t", A)
    assert pause(at, said) == shown
    (line,) = [line for line in job_log(at) if line.endswith(" pause")]
    assert line.split()[2:] == ["OPERATOR", shown.replace(" ", "_"), "pause"]


@pytest.mark.parametrize("said", [[], "", "   ", [("toehold-operator-bin", b"ann")], [("operator", "ann")]])
def test_a_caller_that_does_not_say_is_known_by_where_it_called_from(at: Hosted, said: Any) -> None:
    at.stubs.launch("t", A)
    assert re.fullmatch(ADDRESS, pause(at, said))


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (b"new\nline", "newline"),
        (b"a\r\nb", "ab"),
        (b"\0nul\x7f", "nul"),
        (b"\x1b[31mred", "[31mred"),
        (b"\t\t", ADDRESS),
        (b"\xff\xfe", "ÿþ"),
        (b"x" * 6000, "x" * 128),
    ],
)
def test_whatever_bytes_a_caller_says_make_one_line_and_no_trouble(
    at: Hosted, said: bytes, shown: str
) -> None:
    """No gRPC library sends such metadata, and anybody can."""
    at.stubs.launch("t", A)
    message = frontier_pb2.RequestStateRequest(crawl="t", target_state=PAUSE).SerializeToString()
    path = "/toehold.frontier.v1.FrontierService/RequestState"
    raw_call(at.served.address, path, message, (b"toehold-operator", said))
    acted = told(at.stubs, "operator_acted")[-1]
    assert acted.action == "pause" and re.fullmatch(
        shown if shown == ADDRESS else re.escape(shown), acted.operator
    )
    (line,) = [line for line in job_log(at) if line.endswith(" pause")]
    assert line.split(" ")[3] == acted.operator


def job_log(at: Hosted) -> list[str]:
    return at.served.job_logs.path("t").read_text().splitlines()


# What became of URIs.
