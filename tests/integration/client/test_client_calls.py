"""The clients against a frontier that is scripted to answer, to fail and to be gone."""

import getpass
import socket
import threading
import time
from typing import Any

import grpc
import pytest
from client_doubles.blocking import Connect, of_both_clients
from client_doubles.fake_frontier import SILENCE, UNAVAILABLE, Answer, FakeFrontier, Refusal, serving
from frontier_harness.ports import KeptPort
from frontier_harness.waiting import PATIENCE_S, eventually
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2
from toehold.frontier.v1.admin_pb2 import (
    AddSeedsResponse,
    Crawl,
    GetCrawlResponse,
    GetFrontierResponse,
)
from toehold.frontier.v1.crawl_pb2 import CrawlSpec, CrawlState, CrawlStatus, TargetState, Verdict
from toehold.frontier.v1.frontier_pb2 import (
    Candidate,
    HeartbeatResponse,
    Report,
    ReportResult,
    ScheduleResponse,
)
from toehold_client import FrontierClient, errors
from toehold_client.rpc.batches import MAX_MESSAGE_BYTES

UNKNOWN = Refusal(grpc.StatusCode.NOT_FOUND, "there is no crawl 'c'", "UNKNOWN_CRAWL")
OVERLOADED = Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "too much at once", "OVERLOADED", retry_s=0.05)
RUNNING = CrawlStatus(state=CrawlState.CRAWL_STATE_RUNNING)
FOUND = GetCrawlResponse(crawl=Crawl(crawl="c", status=RUNNING))
LEASES = frontier_pb2.NextResponse(leases=[frontier_pb2.Lease(uri="http://www.example.com/")])
STATISTICS = admin_pb2.GetStatisticsResponse(statistics=crawl_pb2.Statistics(queued_count=3), status=RUNNING)
STALE = ReportResult(disposition=crawl_pb2.DISPOSITION_STALE)
NEXT = {
    "node": "n",
    "session": "s",
    "max_leases": 7,
    "wait_s": 0.25,
    "crawl": "c",
    "known_fetch_policy_ids": ["p"],
}
ASKED_NEXT = frontier_pb2.NextRequest(
    crawl="c",
    node="n",
    session="s",
    max_leases=7,
    wait_duration=Duration(nanos=250_000_000),
    known_fetch_policy_ids=["p"],
)
BEAT = {"node": "n", "session": "s", "tokens": [b"t"], "toe_steps": {"FETCHING": 2}}
ASKED_BEAT = frontier_pb2.HeartbeatRequest(
    node="n", session="s", tokens=[b"t"], toe_steps=[frontier_pb2.ToeStepCount(step="FETCHING", count=2)]
)
GOODBYE = {"node": "n", "session": "s", "tokens": [], "leaving": True}
ASKED_GOODBYE = frontier_pb2.HeartbeatRequest(node="n", session="s", leaving=True)
CHANGE = CrawlSpec(max_toes=3)
TEARING = CrawlStatus(state=CrawlState.CRAWL_STATE_STOPPING, tearing_down=True)
TEARDOWN = admin_pb2.TearDownCrawlResponse(status=TEARING, begun=True)

CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any], str, Message, Message, object]] = [
    ("schedule", ("c", [Candidate(uri="u")]), {}, "Schedule",
     frontier_pb2.ScheduleRequest(crawl="c", candidates=[Candidate(uri="u")]),
     ScheduleResponse(verdicts=[Verdict.VERDICT_QUEUED]), [Verdict.VERDICT_QUEUED]),
    ("next", (), NEXT, "Next", ASKED_NEXT, LEASES, LEASES),
    ("finished", ([Report(token=b"t")],), {"node": "n", "session": "s"}, "Finished",
     frontier_pb2.FinishedRequest(reports=[Report(token=b"t")], node="n", session="s"),
     frontier_pb2.FinishedResponse(results=[STALE]), [STALE]),
    ("heartbeat", (), BEAT, "Heartbeat", ASKED_BEAT, HeartbeatResponse(), HeartbeatResponse()),
    ("heartbeat", (), GOODBYE, "Heartbeat", ASKED_GOODBYE, HeartbeatResponse(), HeartbeatResponse()),
    ("request_state", ("c", TargetState.TARGET_STATE_PAUSE), {}, "RequestState",
     frontier_pb2.RequestStateRequest(crawl="c", target_state=TargetState.TARGET_STATE_PAUSE),
     frontier_pb2.RequestStateResponse(status=RUNNING), RUNNING),
    ("request_state", ("c", TargetState.TARGET_STATE_HOLD), {}, "RequestState",
     frontier_pb2.RequestStateRequest(crawl="c", target_state=TargetState.TARGET_STATE_HOLD),
     frontier_pb2.RequestStateResponse(status=RUNNING), RUNNING),
    ("create_crawl", ("c", CrawlSpec(contact="a@b.example")), {}, "CreateCrawl",
     admin_pb2.CreateCrawlRequest(crawl="c", spec=CrawlSpec(contact="a@b.example")),
     admin_pb2.CreateCrawlResponse(crawl=FOUND.crawl), FOUND.crawl),
    ("launch_crawl", ("c",), {}, "LaunchCrawl", admin_pb2.LaunchCrawlRequest(crawl="c"),
     admin_pb2.LaunchCrawlResponse(status=RUNNING), RUNNING),
    ("get_crawl", ("c",), {}, "GetCrawl", admin_pb2.GetCrawlRequest(crawl="c"), FOUND, FOUND.crawl),
    ("update_crawl", ("c", CHANGE), {}, "UpdateCrawl",
     admin_pb2.UpdateCrawlRequest(crawl="c", spec=CHANGE, update_mask=FieldMask()),
     admin_pb2.UpdateCrawlResponse(crawl=FOUND.crawl), FOUND.crawl),
    ("update_crawl", ("c", CrawlSpec(), ["limits.max_documents", "politeness"]), {}, "UpdateCrawl",
     admin_pb2.UpdateCrawlRequest(
         crawl="c", spec=CrawlSpec(), update_mask=FieldMask(paths=["limits.max_documents", "politeness"])),
     admin_pb2.UpdateCrawlResponse(crawl=FOUND.crawl), FOUND.crawl),
    ("tear_down_crawl", ("c",), {}, "TearDownCrawl", admin_pb2.TearDownCrawlRequest(crawl="c"), TEARDOWN,
     TEARDOWN),
    ("set_pool_size", (0,), {}, "SetPoolSize", admin_pb2.SetPoolSizeRequest(size=0),
     admin_pb2.SetPoolSizeResponse(), None),
    ("set_pool_size", (None, "n"), {}, "SetPoolSize", admin_pb2.SetPoolSizeRequest(node="n"),
     admin_pb2.SetPoolSizeResponse(), None),
    ("drain_node", ("n",), {}, "DrainNode", admin_pb2.DrainNodeRequest(node="n"),
     admin_pb2.DrainNodeResponse(), None),
    ("launch_crawl", ("c", "cp", "other"), {}, "LaunchCrawl",
     admin_pb2.LaunchCrawlRequest(crawl="c", checkpoint="cp", checkpoint_crawl="other"),
     admin_pb2.LaunchCrawlResponse(), admin_pb2.LaunchCrawlResponse().status),
    ("create_checkpoint", (), {}, "CreateCheckpoint", admin_pb2.CreateCheckpointRequest(),
     admin_pb2.CreateCheckpointResponse(checkpoint=admin_pb2.Checkpoint(checkpoint="cp")),
     admin_pb2.Checkpoint(checkpoint="cp")),
    ("delete_checkpoint", ("cp",), {}, "DeleteCheckpoint",
     admin_pb2.DeleteCheckpointRequest(checkpoint="cp"), admin_pb2.DeleteCheckpointResponse(), None),
    ("delete_crawl", ("c",), {}, "DeleteCrawl", admin_pb2.DeleteCrawlRequest(crawl="c"),
     admin_pb2.DeleteCrawlResponse(), None),
    ("get_statistics", ("c",), {}, "GetStatistics", admin_pb2.GetStatisticsRequest(crawl="c"), STATISTICS,
     STATISTICS),
    ("get_frontier", (), {}, "GetFrontier", admin_pb2.GetFrontierRequest(),
     GetFrontierResponse(version="1"), GetFrontierResponse(version="1")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "arguments", "named", "rpc", "asked", "answer", "result"),
    CALLS,
    ids=[f"{call[0]}-{number}" for number, call in enumerate(CALLS)],
)
def test_each_method_says_what_it_was_given_and_returns_what_it_was_told(
    frontier: FakeFrontier,
    address: str,
    connect: Connect,
    method: str,
    arguments: tuple[Any, ...],
    named: dict[str, Any],
    rpc: str,
    asked: Message,
    answer: Message,
    result: object,
) -> None:
    frontier.will(rpc, answer)
    assert getattr(connect(address), method)(*arguments, **named) == result
    assert frontier.asked[rpc] == [asked]


@of_both_clients
def test_a_frontier_that_was_away_is_asked_again(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    frontier.will("GetCrawl", UNAVAILABLE, UNAVAILABLE, FOUND)
    assert connect(address, patience_s=PATIENCE_S).get_crawl("c") == FOUND.crawl
    assert len(frontier.asked["GetCrawl"]) == 3


@of_both_clients
def test_an_overloaded_frontier_is_asked_again_when_it_says(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    frontier.will("Schedule", OVERLOADED, ScheduleResponse(verdicts=[Verdict.VERDICT_QUEUED]))
    began_s = time.monotonic()
    assert connect(address, patience_s=PATIENCE_S).schedule("c", [Candidate(uri="u")]) == [
        Verdict.VERDICT_QUEUED
    ]
    assert time.monotonic() - began_s >= 0.05


@of_both_clients
def test_a_refusal_is_told_in_the_frontiers_words(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    frontier.will("GetCrawl", UNKNOWN)
    with pytest.raises(errors.UnknownCrawl, match="there is no crawl 'c'"):
        connect(address, patience_s=PATIENCE_S).get_crawl("c")


@pytest.mark.parametrize(
    ("settings", "operator"),
    [({"operator": "night shift"}, "night shift"), ({}, f"{getpass.getuser()}@{socket.gethostname()}")],
    ids=["named", "by default"],
)
def test_every_call_tells_who_makes_it(
    frontier: FakeFrontier, address: str, connect: Connect, settings: dict[str, str], operator: str
) -> None:
    streams = {
        "state_events": "StateEvents",
        "stream_outcomes": "StreamOutcomes",
        "export_uris": "ExportUris",
    }
    frontier.will("GetCrawl", FOUND, FOUND, FOUND)
    frontier.will("AddSeeds", AddSeedsResponse())
    frontier.will("ImportUris", admin_pb2.ImportUrisResponse())
    client = connect(address, **settings)
    client.get_crawl("c")
    client.add_seeds("c", ["http://www.example.com/"])
    client.import_uris("c", [])
    for method, rpc in streams.items():
        frontier.will(rpc, [])
        list(getattr(client, method)("c"))
    rpcs = ("GetCrawl", "AddSeeds", "ImportUris", *streams.values())
    assert {rpc: set(frontier.operators[rpc]) for rpc in rpcs} == {rpc: {operator} for rpc in rpcs}


@of_both_clients
def test_a_stream_tells_who_reads_it_again_when_it_reconnects(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    frontier.will("StateEvents", UNAVAILABLE, [])
    list(connect(address, operator="me", patience_s=PATIENCE_S).state_events("c"))
    assert frontier.operators["StateEvents"] == ["me", "me"]


@pytest.mark.parametrize("operator", ["Zoë", "two\nlines", "x" * 129, " ", "ends with a blank "])
def test_what_cannot_be_an_operators_name_is_told(connect: Connect, operator: str) -> None:
    with pytest.raises(
        errors.InvalidArgument, match="an operator's name must have at most 128 printable ASCII"
    ):
        connect("127.0.0.1:7707", operator=operator)


@of_both_clients
def test_silence_ends_at_the_deadline(frontier: FakeFrontier, address: str, connect: Connect) -> None:
    frontier.will("GetCrawl", SILENCE)
    with pytest.raises(errors.DeadlineExceeded, match=f"{address} did not answer within 0.2 s"):
        connect(address, timeout_s=0.2, patience_s=PATIENCE_S).get_crawl("c")


@of_both_clients
def test_a_long_poll_outlives_the_deadline_of_other_calls(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    frontier.will("Next", SILENCE)
    began_s = time.monotonic()
    with pytest.raises(errors.DeadlineExceeded):
        connect(address, timeout_s=0.1).next(node="n", session="s", max_leases=1, wait_s=0.4)
    assert time.monotonic() - began_s >= 0.5


@of_both_clients
def test_no_frontier_there_is_told_at_once_and_by_its_address(connect: Connect) -> None:
    with KeptPort() as nobodys:
        began_s = time.monotonic()
        with pytest.raises(errors.FrontierUnavailable, match=f"no frontier answers at {nobodys.address} "):
            connect(nobodys.address, timeout_s=600).get_frontier()
        assert time.monotonic() - began_s < PATIENCE_S


def test_what_accepts_connections_but_is_no_frontier_is_told_before_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        began_s = time.monotonic()
        with FrontierClient(address, timeout_s=600) as client:
            with pytest.raises(errors.FrontierUnavailable, match=f"no frontier answers at {address} "):
                client.get_frontier()
            assert time.monotonic() - began_s < PATIENCE_S


@of_both_clients
def test_a_frontier_that_comes_back_at_its_address_is_found_again(
    frontier: FakeFrontier, connect: Connect
) -> None:
    frontier.will("GetCrawl", FOUND, FOUND)
    answers: list[Crawl] = []
    with KeptPort() as kept:
        with serving(frontier, kept.address):
            client = connect(kept.address, patience_s=PATIENCE_S)
            client.get_crawl("c")
        asking = threading.Thread(target=lambda: answers.append(client.get_crawl("c")))
        asking.start()
        with serving(frontier, kept.address):
            asking.join(PATIENCE_S)
    assert answers == [FOUND.crawl]


@pytest.mark.parametrize(
    "address",
    [
        *("", "localhost", "localhost:", "localhost:0", "localhost:70000", ":7707", "dns:///x:1"),
        *("unix:", "::1:80"),
    ],
)
def test_what_is_no_address_is_told(connect: Connect, address: str) -> None:
    with pytest.raises(errors.InvalidArgument, match="the address of a frontier must be HOST:PORT"):
        connect(address)


def test_proxies_for_the_web_are_not_used(
    frontier: FakeFrontier, address: str, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    frontier.will("GetCrawl", FOUND)
    assert connect(address).get_crawl("c") == FOUND.crawl


@of_both_clients
def test_thousands_of_candidates_go_in_batches_and_come_back_in_order(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    def judge(request: frontier_pb2.ScheduleRequest) -> ScheduleResponse:
        even = [int(candidate.uri) % 2 == 0 for candidate in request.candidates]
        return ScheduleResponse(
            verdicts=[Verdict.VERDICT_QUEUED if e else Verdict.VERDICT_ALREADY_SEEN for e in even]
        )

    frontier.will("Schedule", judge, judge, judge)
    verdicts = connect(address).schedule("c", [Candidate(uri=str(number)) for number in range(2500)])
    assert verdicts == [Verdict.VERDICT_QUEUED, Verdict.VERDICT_ALREADY_SEEN] * 1250
    assert [len(request.candidates) for request in frontier.asked["Schedule"]] == [1000, 1000, 500]


def test_messages_of_nearly_8_mib_go_both_ways(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    large = bytes(7 * 1024 * 1024)
    frontier.will("Finished", frontier_pb2.FinishedResponse(results=[ReportResult(problem="x" * len(large))]))
    (result,) = connect(address).finished([Report(robots_body=large)], node="n", session="s")
    assert len(result.problem) == len(large)


def test_an_item_beyond_8_mib_is_refused_before_anything_is_sent(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    with pytest.raises(errors.BatchTooLarge, match="item 1002 alone"):
        connect(address).schedule("c", [Candidate()] * 1001 + [Candidate(uri="x" * MAX_MESSAGE_BYTES)])
    assert not frontier.asked


def test_a_spec_with_many_problems_is_told_whole(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    """More than gRPC's own limit for trailing metadata, 8 KiB."""
    problems = {f"scope.hosts[{number}]": "x" * 200 for number in range(200)}
    frontier.will("CreateCrawl", Refusal(grpc.StatusCode.INVALID_ARGUMENT, "many", "INVALID_SPEC", problems))
    with pytest.raises(errors.InvalidSpec) as caught:
        connect(address).create_crawl("c", CrawlSpec())
    assert caught.value.problems == problems


def test_text_that_cannot_be_sent_is_an_invalid_argument(address: str, connect: Connect) -> None:
    with pytest.raises(errors.InvalidArgument, match="is not valid Unicode text"):
        connect(address).get_crawl("\udcff")


@of_both_clients
@pytest.mark.parametrize(
    ("method", "rpc", "items", "found"),
    [
        ("list_crawls", "ListCrawls", "crawls", [Crawl(crawl=name) for name in "abc"]),
        (
            "list_checkpoints",
            "ListCheckpoints",
            "checkpoints",
            [admin_pb2.Checkpoint(checkpoint=n) for n in "abc"],
        ),
    ],
)
def test_all_pages_of_a_frontiers_listings_are_read(
    frontier: FakeFrontier,
    address: str,
    connect: Connect,
    method: str,
    rpc: str,
    items: str,
    found: list[Message],
) -> None:
    page = getattr(admin_pb2, f"{rpc}Response")
    last = page(**{items: found[2:]})
    frontier.will(rpc, page(**{items: found[:2]}, next_page_token="b"), UNAVAILABLE, last)
    assert list(getattr(connect(address, patience_s=PATIENCE_S), method)()) == found
    assert [request.page_token for request in frontier.asked[rpc]] == ["", "b", "b"]


@pytest.mark.parametrize("method", ["add_seeds", "note_uris", "forget_uris", "schedule", "import_uris"])
def test_one_text_in_place_of_many_is_refused_before_anything_is_sent(
    method: str, frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    with pytest.raises(
        errors.InvalidArgument, match=r"must be an iterable of \w+, got one string; put it into a list"
    ):
        getattr(connect(address), method)("c", "https://a.example/")
    assert not frontier.asked


@of_both_clients
def test_a_closed_client_says_so(frontier: FakeFrontier, address: str, connect: Connect) -> None:
    client = connect(address, patience_s=PATIENCE_S)
    client.close()
    client.close()
    with pytest.raises(errors.ClientClosed, match=f"{address} is closed"):
        client.get_crawl("c")
    with pytest.raises(errors.ClientClosed, match=f"{address} is closed"):
        next(client.state_events("c"))
    assert not frontier.asked


@of_both_clients
@pytest.mark.parametrize("line", [[SILENCE], [UNAVAILABLE] * 500], ids=["waits", "rests"])
def test_closing_a_client_ends_a_call_that_waits(
    frontier: FakeFrontier, address: str, connect: Connect, line: list[Answer]
) -> None:
    frontier.will("GetCrawl", *line)
    client = connect(address, patience_s=PATIENCE_S)
    failures: list[Exception] = []

    def ask() -> None:
        try:
            client.get_crawl("c")
        except errors.ClientClosed as failure:
            failures.append(failure)

    asking = threading.Thread(target=ask)
    asking.start()
    eventually(lambda: frontier.asked["GetCrawl"])
    client.close()
    asking.join(PATIENCE_S)
    assert len(failures) == 1


def test_a_call_that_the_fake_does_not_expect_fails(address: str, connect: Connect) -> None:
    with pytest.raises(errors.UnexpectedAnswer, match="nothing is in line for GetCrawl"):
        connect(address).get_crawl("c")


@of_both_clients
def test_all_tries_of_a_call_carry_one_request_id(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    client = connect(address, patience_s=PATIENCE_S)
    frontier.will("GetFrontier", OVERLOADED, UNAVAILABLE, GetFrontierResponse(), GetFrontierResponse())
    client.get_frontier()
    client.get_frontier()
    first, second, third, other = frontier.request_ids["GetFrontier"]
    assert first == second == third and other not in (first, None)


@of_both_clients
def test_errors_of_all_kinds_of_calls_carry_the_request_id(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    """Also where the server tells none, as gRPC's own failures."""
    client = connect(address)
    calls: dict[str, Any] = {
        "GetCrawl": lambda: client.get_crawl("c"),
        "StateEvents": lambda: next(client.state_events("c", reconnect_s=0)),
        "AddSeeds": lambda: client.add_seeds("c", ["http://h.example/"]),
    }
    frontier.will("GetCrawl", FOUND, UNKNOWN)
    frontier.will("StateEvents", [UNKNOWN])
    frontier.will_refuse_stream("AddSeeds", UNKNOWN)
    for rpc in ("AddSeeds", "StateEvents", "GetCrawl"):
        with pytest.raises(errors.UnknownCrawl) as failure:
            calls[rpc]()
        assert failure.value.request_id == frontier.request_ids[rpc][-1] != ""
