"""What a crawl's events tell of its life: who asked, what became of URIs, and where they end."""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from frontier_harness.calls import (
    FINISH,
    HOLD,
    PAUSE,
    PRECONDITION,
    RUN,
    TIMEOUT_S,
    Stubs,
    named,
    refused,
    released,
    report,
    seconds,
    seed_of,
    spec,
)
from frontier_harness.every_rpc import READING, ask, request
from frontier_harness.held_store import HeldStore
from frontier_harness.hosted import Hosted, hosted
from frontier_harness.raw_call import raw_call
from frontier_harness.waiting import PATIENCE_S, eventually

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

A, B = "http://a.example/", "http://b.example/"


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Hosted]:
    with hosted(HeldStore(), tmp_path) as made:
        yield made


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


def test_the_events_of_a_crawl_that_ends_to_be_torn_down_say_so(at: Hosted) -> None:
    """A reader knows from the event of FINISHED whether more is to come."""
    for crawl, rpc in (("t", "TearDownCrawl"), ("u", "")):
        at.stubs.launch(crawl, A)
        stream = follow(at.stubs, crawl)
        if rpc:
            at.stubs.ask(rpc, crawl)
        else:
            at.stubs.request(crawl, FINISH)
        changes = [
            answer.event.status_changed for answer in stream if answer.event.HasField("status_changed")
        ]
        assert [change.tearing_down for change in changes] == [bool(rpc)] * 2


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


def test_a_crawl_that_is_torn_down_before_it_was_launched_tells_its_whole_life(at: Hosted) -> None:
    """D14: its end is published."""
    at.stubs.create("t")
    stream = follow(at.stubs, cursor="start")
    at.stubs.ask("TearDownCrawl", "t")
    assert words(stream) == ["by create", "NASCENT", "by teardown", "FINISHED", "torn_down"]


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
    monkeypatch.setattr("frontier_server.following.HEARTBEAT_S", 0.2)
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
    return at.served.runner.job_logs.path("t").read_text().splitlines()


def test_everything_that_an_operator_does_is_told_with_what_it_was_done_to(at: Hosted) -> None:
    stubs = at.stubs
    stubs.create("t", spec())
    stubs.seed("t", A)
    stubs.ask("LaunchCrawl", "t")
    stubs.until("t", crawl_pb2.CRAWL_STATE_RUNNING)
    (lease,) = stubs.pages("t")
    done: list[Callable[[], object]] = [
        lambda: ask(stubs, "UpdateCrawl", "t"),
        lambda: ask(stubs, "UpdateQueue", "t"),
        lambda: ask(stubs, "PutOverride", "t"),
        lambda: ask(stubs, "DeleteOverride", "t"),
        lambda: ask(stubs, "NoteUris", "t"),
        lambda: ask(stubs, "ForgetUris", "t"),
        lambda: ask(stubs, "ImportUris", "t"),
        lambda: ask(stubs, "StartJob", "t"),
        lambda: ask(stubs, "AddSeeds", "t"),
        lambda: stubs.request("t", PAUSE),
        lambda: stubs.request("t", RUN),
        lambda: stubs.request("t", HOLD),
        lambda: stubs.request("t", FINISH),
        lambda: stubs.request("t", FINISH),
        lambda: ask(stubs, "TearDownCrawl", "t"),
    ]
    for do in done:
        do()
    stubs.finish(released(lease))
    assert [(acted.action, acted.detail) for acted in told(stubs, "operator_acted")] == [
        *(("create", ""), ("add-seeds", ""), ("launch", "")),
        *(("update", "weight"), ("change-queue", "example,a,")),
        *(("put-override", "http://(example,a,"), ("delete-override", "http://(example,a,")),
        *(("note-uris", "http://a.example/noted"), ("forget-uris", A)),
        *(("import", ""), ("start-job", "verify"), ("add-seeds", "")),
        *(("pause", ""), ("resume", ""), ("hold", ""), ("stop", ""), ("interrupt", ""), ("teardown", "")),
    ]


def test_what_is_refused_is_told_of_nobody(at: Hosted) -> None:
    stubs = at.stubs
    stubs.launch("t", A)
    stubs.pages("t")
    stubs.request("t", FINISH)
    before = stubs.events_so_far("t")
    refused(lambda: ask(stubs, "LaunchCrawl", "t"), PRECONDITION, "ILLEGAL_STATE")
    refused(lambda: ask(stubs, "DeleteCrawl", "t"), PRECONDITION, "CRAWL_ACTIVE")
    for target in (RUN, PAUSE, HOLD):
        refused(lambda target=target: stubs.request("t", target), PRECONDITION, "ILLEGAL_STATE")  # type: ignore[misc]  # as above
    not_found = grpc.StatusCode.NOT_FOUND
    refused(lambda: stubs.ask("CancelJob", "t", job=99), not_found, "UNKNOWN_JOB")
    refused(lambda: ask(stubs, "DeleteOverride", "t"), not_found, "UNKNOWN_OVERRIDE")
    refused(
        lambda: stubs.ask("UpdateQueue", "t", queue_key="none", change={"wake": True}),
        not_found,
        "UNKNOWN_QUEUE",
    )
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    refused(
        lambda: stubs.ask("UpdateCrawl", "t", spec=crawl_pb2.CrawlSpec(weight=-1)), invalid, "INVALID_SPEC"
    )
    refused(
        lambda: stubs.ask("NoteUris", "t", uris=["http://a.example/", "nope"]),
        invalid,
        "INVALID_ARGUMENT_VALUE",
    )
    refused(
        lambda: stubs.ask("StartJob", "t", wake_queues={"queue_pattern": "("}),
        invalid,
        "INVALID_ARGUMENT_VALUE",
    )
    assert stubs.events_so_far("t") == before


@pytest.mark.parametrize("rpc", [*READING, "Schedule", "Next"])
def test_who_looks_or_fetches_is_no_operator(at: Hosted, rpc: str) -> None:
    at.stubs.launch("t", A)
    before = len(told(at.stubs, "operator_acted"))
    if rpc == "StateEvents":
        follow(at.stubs).cancel()
    else:
        ask(at.stubs, rpc, "t")
    assert len(told(at.stubs, "operator_acted")) == before


@pytest.mark.parametrize("target", [RUN, PAUSE, HOLD])
def test_what_is_so_already_or_under_way_is_told_of_nobody(
    at: Hosted, target: crawl_pb2.TargetState.ValueType
) -> None:
    stubs = at.stubs
    stubs.launch("t", A)
    stubs.pages("t")
    stubs.request("t", target)
    before = stubs.events_so_far("t")
    stubs.request("t", target)
    assert stubs.events_so_far("t") == before


def test_who_tears_down_is_the_first_that_asks(at: Hosted) -> None:
    at.stubs.launch("t", A)
    for name in ("ann", "bob"):
        by(name, at.stubs.admin.TearDownCrawl, request("TearDownCrawl", "t"))
    acted = [each for each in told(at.stubs, "operator_acted") if each.action == "teardown"]
    assert [each.operator for each in acted] == ["ann"]


# What became of URIs.

FIGURES = [
    field.name for field in crawl_pb2.IntervalStatistics.DESCRIPTOR.fields if field.name.endswith("_count")
]


def sums(stubs: Stubs) -> Counter[str]:
    """The sums over all statistics so far; the last number of URIs queued."""
    found: Counter[str] = Counter()
    for statistics in told(stubs, "statistics"):
        found.update({name: getattr(statistics, name) for name in FIGURES if name != "queued_count"})
        found["queued_count"] = statistics.queued_count
    return found


def counted(stubs: Stubs) -> Counter[str]:
    """The same, as the statistics have it."""
    statistics = stubs.statistics("t")
    return Counter({name: getattr(statistics, name) for name in FIGURES})


def test_the_figures_of_all_events_are_the_statistics_whenever_it_is_paused_or_has_finished(
    at: Hosted,
) -> None:
    stubs = at.stubs
    chance = random.Random(7)
    hosts = [seed_of("t", f"{letter}.") for letter in "abcde"]
    retry = crawl_pb2.RetrySpec(max_attempts=3, delay=seconds(0.05))
    # A slow machine may have fetched all before it is paused, which is no end yet.
    settings = spec(
        retry=retry, statistics_interval=seconds(1), pause_timeout=seconds(1), run_while_empty=True
    )
    stubs.launch("t", *hosts, of=settings)
    for pause_number in range(4):
        for host in hosts:
            stubs.schedule("t", *(f"{host}{pause_number}/{number}" for number in range(6)))
        for _ in range(12):
            leases = stubs.next("t", 4, 0.2).leases
            statuses = [chance.choice((200, 200, 404, 500, -2, -4, -7000)) for _ in leases]
            reports = [
                report(lease, status, body_bytes=9) for lease, status in zip(leases, statuses, strict=True)
            ]
            if reports:
                stubs.finish(*reports)
        stubs.schedule("t", *(f"{host}{pause_number}/last" for host in hosts))
        assert stubs.next("t", 2, PATIENCE_S).leases  # which nobody reports: they lapse with the pause
        stubs.request("t", PAUSE)
        stubs.until("t", crawl_pb2.CRAWL_STATE_PAUSED)
        assert sums(stubs) == counted(stubs)
        stubs.request("t", RUN)
    stubs.request("t", FINISH)
    stubs.until("t", crawl_pb2.CRAWL_STATE_FINISHED)
    made = sums(stubs)
    assert made == counted(stubs)
    assert all(made[name] for name in ("succeeded_count", "failed_count", "deferred_count", "lapsed_count"))


def test_figures_are_told_each_interval_in_which_something_happened_and_in_no_other(at: Hosted) -> None:
    stubs = at.stubs
    stubs.launch("t", A, of=spec(statistics_interval=seconds(1)))
    eventually(lambda: len(told(stubs, "statistics")) == 1, "statistics")
    (first,) = told(stubs, "statistics")
    assert first.interval_duration.ToMilliseconds() >= 1000
    assert (first.discovered_count, first.queued_count) == (1, 1)
    (lease,) = stubs.pages("t")
    stubs.schedule("t", f"{A}more")
    stubs.finish(report(lease, body_bytes=7))

    def since() -> tuple[int, int, int]:
        """Told after the first interval; a slow machine may need more than one for all of it."""
        later = told(stubs, "statistics")[1:]
        names = ("succeeded_count", "bytes_count", "discovered_count")
        succeeded, received, discovered = (sum(getattr(each, name) for each in later) for name in names)
        return succeeded, received, discovered

    eventually(lambda: since() == (1, 7, 1), "statistics")
    count = len(told(stubs, "statistics"))
    quiet_ms = stubs.statistics("t").snapshot_time.ToMilliseconds() + 2_200
    eventually(lambda: stubs.statistics("t").snapshot_time.ToMilliseconds() > quiet_ms)
    assert len(told(stubs, "statistics")) == count
