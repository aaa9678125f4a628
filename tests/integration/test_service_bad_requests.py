"""Requests that make no sense, over real gRPC: a clear refusal, and a server that goes on serving."""

from collections.abc import Callable
from functools import partial
from typing import Any

import grpc
import pytest
from frontier_harness.calls import (
    INVALID,
    PAUSE,
    TIMEOUT_S,
    Stubs,
    refused,
    report,
    seed_of,
)
from frontier_harness.every_rpc import OF_A_CRAWL, OF_NO_CRAWL, RPCS, ask
from frontier_harness.process import ServerProcess
from frontier_harness.raw_calls import raw_call as call_with_metadata
from frontier_harness.shared import SharedServer
from google.protobuf.descriptor import FieldDescriptor

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

MIB = 1024 * 1024
NOT_FOUND = grpc.StatusCode.NOT_FOUND


def test_no_rpc_is_forgotten() -> None:
    of_a_crawl = {name for name, method in RPCS.items() if "crawl" in method.input_type.fields_by_name}
    assert set(OF_A_CRAWL) == of_a_crawl - {"CreateCrawl"}
    assert set(OF_A_CRAWL) | set(OF_NO_CRAWL) == set(RPCS)


# What is not there.


def test_a_crawl_that_is_not_there_is_named_by_every_rpc(stubs: Stubs) -> None:
    for rpc in OF_A_CRAWL:
        call = partial(ask, stubs, rpc, "no-such-crawl")
        problem = refused(call, NOT_FOUND, "UNKNOWN_CRAWL", "'no-such-crawl'")
        assert problem.metadata["crawl"] == "no-such-crawl", rpc


def test_a_crawl_name_of_any_characters_is_an_unknown_crawl_to_every_rpc(stubs: Stubs) -> None:
    for rpc in OF_A_CRAWL:
        refused(partial(ask, stubs, rpc, "\N{PILE OF POO}\n" * 2000), NOT_FOUND, "UNKNOWN_CRAWL")


def test_seeds_none_of_which_is_a_uri_do_not_hide_that_their_crawl_is_not_there(stubs: Stubs) -> None:
    refused(lambda: stubs.seed("no-such-crawl", "nope"), NOT_FOUND, "UNKNOWN_CRAWL", "'no-such-crawl'")


# Batches.


def test_a_batch_without_items_is_refused(stubs: Stubs, crawl: str) -> None:
    for call in (
        lambda: stubs.schedule(crawl),
        lambda: stubs.finish(),
        lambda: stubs.seed(crawl),
        lambda: stubs.admin.AddSeeds(iter(()), timeout=TIMEOUT_S),
    ):
        refused(call, INVALID, "BATCH_EMPTY", "1000")


def test_a_batch_of_more_than_a_thousand_is_refused_naming_size_and_limit(stubs: Stubs, crawl: str) -> None:
    uris = [f"{seed_of(crawl)}{number}" for number in range(1001)]
    for call in (
        lambda: stubs.schedule(crawl, *uris),
        lambda: stubs.finish(*(report(b"t") for _ in uris)),
        lambda: stubs.seed(crawl, *uris),
    ):
        problem = refused(call, INVALID, "BATCH_TOO_LARGE", "1001", "1000")
        assert problem.metadata == {"limit": "1000"}
    assert stubs.statistics(crawl).discovered_count == 1


def test_a_batch_of_a_thousand_is_taken(stubs: Stubs, crawl: str) -> None:
    uris = [f"{seed_of(crawl)}{number}" for number in range(1000)]
    assert stubs.schedule(crawl, *uris) == ["QUEUED"] * 1000
    assert stubs.seed(crawl, *uris).added_count == 1000
    assert stubs.finish(*(report(b"t") for _ in uris)) == [("UNKNOWN_TOKEN", False)] * 1000


def test_a_heartbeat_of_more_tokens_than_any_node_holds_is_refused(stubs: Stubs) -> None:
    """The server does nothing else while it looks at them."""
    refused(lambda: stubs.heartbeat([b"x" * 37] * 100_000), INVALID, "BATCH_TOO_LARGE", "100000")


def test_a_heartbeat_of_more_idle_crawls_than_it_may_ask_about_is_refused(stubs: Stubs) -> None:
    assert len(stubs.heartbeat(idle_crawls=["x"] * 100).ended_crawls) == 100
    refused(lambda: stubs.heartbeat(idle_crawls=["x"] * 101), INVALID, "BATCH_TOO_LARGE", "101", "100")


def test_a_heartbeat_with_a_name_that_no_crawl_can_have_is_refused(stubs: Stubs) -> None:
    assert len(stubs.heartbeat(idle_crawls=["x" * 64]).ended_crawls) == 1
    asked = ["x", "x" * 65]
    refused(
        lambda: stubs.heartbeat(idle_crawls=asked),
        INVALID,
        "INVALID_ARGUMENT_VALUE",
        "idle_crawls[1]",
        "1 to 64",
    )


@pytest.mark.parametrize(
    "rpc", ["Schedule", "Finished", "Heartbeat", "StateEvents", "CreateCrawl", "ImportUris", "ExportUris"]
)
def test_rpc_refuses_a_message_beyond_the_published_limit(stubs: Stubs, rpc: str) -> None:
    """`Limits.max_message_bytes`: larger requests are refused with BATCH_TOO_LARGE."""
    method = RPCS[rpc]
    usable = {"node": "n", "session": "s", "max_leases": 1, "target_state": PAUSE, "crawl": "c"}
    given = {name: value for name, value in usable.items() if name in method.input_type.fields_by_name}
    request = method.input_type._concrete_class(**given)
    pad(request, 8 * MIB + 100_000)
    call = raw_call(stubs, rpc)
    problem = refused(lambda: call(request.SerializeToString()), INVALID, "BATCH_TOO_LARGE", str(8 * MIB))
    assert problem.metadata["limit"] == str(8 * MIB)


def pad(request: Any, size: int) -> None:
    """Fill the first list of a message, or else its first text, however deep."""
    fields = sorted(request.DESCRIPTOR.fields, key=lambda field: not field.is_repeated)
    for field in fields:
        if field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
            filling: Any = "x" * size if field.type == FieldDescriptor.TYPE_STRING else b"x" * size
            if field.is_repeated:
                getattr(request, field.name).append(filling)
            else:
                setattr(request, field.name, filling)
            return
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            part = getattr(request, field.name)
            pad(part.add() if field.is_repeated else part, size)
            return
    raise AssertionError(f"{request.DESCRIPTOR.name} has no text")


def raw_call(stubs: Stubs, rpc: str) -> Callable[[bytes], object]:
    """An RPC whose request is whatever bytes the test sends."""
    method = RPCS[rpc]
    path = f"/{method.containing_service.full_name}/{method.name}"
    channel: Any = stubs.channel
    if method.server_streaming:
        streamed = channel.unary_stream(path)
        return lambda data: list(streamed(data, timeout=TIMEOUT_S))
    if method.client_streaming:
        gathered = channel.stream_unary(path)
        return lambda data: gathered(iter((data,)), timeout=TIMEOUT_S)
    unary = channel.unary_unary(path)
    return lambda data: unary(data, timeout=TIMEOUT_S)


def test_batches_beyond_eight_mib_are_refused_and_take_nothing_in(stubs: Stubs, crawl: str) -> None:
    offered = frontier_pb2.ScheduleRequest(
        crawl=crawl,
        candidates=[
            frontier_pb2.Candidate(uri=f"{seed_of(crawl)}{number}", via="x" * 9000) for number in range(1000)
        ],
    )
    refused(lambda: stubs.frontier.Schedule(offered, timeout=TIMEOUT_S), INVALID, "BATCH_TOO_LARGE")
    seeds = [f"{seed_of(crawl)}{number}/{'x' * 9000}" for number in range(1000)]
    refused(lambda: stubs.seed(crawl, *seeds), INVALID, "BATCH_TOO_LARGE")
    bodies = report(b"t", robots_body=b"x" * (8 * MIB + 100_000))
    refused(lambda: stubs.finish(bodies), INVALID, "BATCH_TOO_LARGE")
    assert stubs.statistics(crawl).discovered_count == 1
    assert stubs.describe(crawl).seed_count == 1


@pytest.mark.sampled("rpc", ["Schedule", "StateEvents", "AddSeeds"])
@pytest.mark.sampled(
    "data",
    [b"\x0a\x03\xed\xa0\x80", b"\xff" * 50, b"\x0a\x80\x80\x80\x80\x08"],
)
def test_bytes_that_are_no_message_are_refused(shared_server: SharedServer, rpc: str, data: bytes) -> None:
    """The log tells of nothing."""
    stubs = shared_server.running.stubs
    refused(lambda: raw_call(stubs, rpc)(data), INVALID, "INVALID_ARGUMENT_VALUE")
    shared_server.check()


@pytest.mark.parametrize(
    "path",
    [
        "health.v1.Health/Check",
        "health.v1.Health/Watch",
        "reflection.v1.ServerReflection/ServerReflectionInfo",
        "reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    ],
)
def test_bytes_that_are_no_message_are_refused_by_grpcs_own_services(
    server: ServerProcess, path: str
) -> None:
    """By themselves they would take them for an error of the server, and tell of each in its log."""
    call: Any = server.stubs.channel.stream_stream(f"/grpc.{path}")
    refused(lambda: list(call(iter([b"\xff" * 50]), timeout=TIMEOUT_S)), INVALID, "INVALID_ARGUMENT_VALUE")
    too_long = call(iter([b"\x0a\x80\x80\x08" + b"x" * 128 * 1024]), timeout=TIMEOUT_S)
    refused(lambda: list(too_long), INVALID, "BATCH_TOO_LARGE")


def test_metadata_that_are_no_text_leave_nothing_in_the_log(server: ServerProcess) -> None:
    """gRPC would tell of each, with a trace."""
    path = "/toehold.frontier.v1.FrontierAdminService/ListCrawls"
    call_with_metadata(server.address, path, b"", (b"toehold-operator", b"\xff\xfe"))


@pytest.mark.parametrize("most", [0, -1, 1001, 10**9, -(2**31)])
def test_a_number_of_leases_that_cannot_be_given_is_refused(stubs: Stubs, crawl: str, most: int) -> None:
    refused(lambda: stubs.next(crawl, most), INVALID, "INVALID_ARGUMENT_VALUE", str(most), "1000")


@pytest.mark.parametrize("size", [-1, -(2**31), 1001, 2**31 - 1])
def test_a_page_size_that_cannot_be_had_is_refused(stubs: Stubs, crawl: str, size: int) -> None:
    queues = admin_pb2.ListQueuesRequest(crawl=crawl, page_size=size)
    listing = admin_pb2.ListCrawlsRequest(page_size=size)
    for call in (lambda: stubs.admin.ListQueues(queues), lambda: stubs.admin.ListCrawls(listing)):
        refused(call, INVALID, "INVALID_ARGUMENT_VALUE", str(size), "1000")


@pytest.mark.parametrize("number", [99, -1, 2**31 - 1])
def test_enum_values_that_the_contract_does_not_have_are_refused(
    stubs: Stubs, crawl: str, number: int
) -> None:
    # Any number may stand for an enum on the wire, whatever the stubs' types say.
    state: Any = number
    queues = admin_pb2.ListQueuesRequest(crawl=crawl, state=state)
    refused(
        lambda: stubs.admin.ListQueues(queues),
        INVALID,
        "INVALID_ARGUMENT_VALUE",
        f"state must be a QueueState, got {number}",
    )
    refused(
        lambda: stubs.request(crawl, state),
        INVALID,
        "INVALID_ARGUMENT_VALUE",
        f"HOLD or FINISH, got {number}",
    )
    before = stubs.describe(crawl)
    assert before.status.state == crawl_pb2.CRAWL_STATE_RUNNING


def test_a_target_that_is_not_set_is_refused(stubs: Stubs, crawl: str) -> None:
    unset = crawl_pb2.TARGET_STATE_UNSPECIFIED
    refused(lambda: stubs.request(crawl, unset), INVALID, "INVALID_ARGUMENT_VALUE", "target_state")


@pytest.mark.parametrize(
    "cursor", ["x", "e", "e-1", "e1x", "e 1", "1", "E1", "START", "e" + "9" * 30, "é" * 999]
)
def test_a_cursor_that_is_none_is_refused(stubs: Stubs, crawl: str, cursor: str) -> None:
    request = frontier_pb2.StateEventsRequest(crawl=crawl, cursor=cursor)
    problem = refused(
        lambda: list(stubs.frontier.StateEvents(request, timeout=TIMEOUT_S)),
        INVALID,
        "INVALID_ARGUMENT_VALUE",
    )
    assert repr(cursor[:20])[1:-1] in problem.message


def test_a_cursor_ahead_of_the_last_event_is_refused(stubs: Stubs, crawl: str) -> None:
    request = frontier_pb2.StateEventsRequest(crawl=crawl, cursor="e999")
    stream = stubs.frontier.StateEvents(request, timeout=TIMEOUT_S)
    refused(lambda: list(stream), INVALID, "INVALID_ARGUMENT_VALUE", "999")


@pytest.mark.parametrize("token", ["x", "zz" * 16, "00", "0" * 31, "0" * 34, "é", "00 " * 15])
def test_a_page_token_of_queues_that_is_none_is_refused(stubs: Stubs, crawl: str, token: str) -> None:
    request = admin_pb2.ListQueuesRequest(crawl=crawl, page_token=token)
    refused(lambda: stubs.admin.ListQueues(request), INVALID, "INVALID_ARGUMENT_VALUE", "page_token")


def test_a_page_token_of_crawls_may_be_any_name(stubs: Stubs, crawl: str) -> None:
    first = stubs.admin.ListCrawls(admin_pb2.ListCrawlsRequest(), timeout=TIMEOUT_S)
    assert first.crawls
    for token, page in (
        ("\x00", first),
        ("~" * MIB, admin_pb2.ListCrawlsResponse()),
        ("\N{SNOWMAN}", admin_pb2.ListCrawlsResponse()),
    ):
        request = admin_pb2.ListCrawlsRequest(page_token=token)
        assert stubs.admin.ListCrawls(request, timeout=TIMEOUT_S) == page


@pytest.mark.parametrize("name", ["", "x" * 129, "x" * 1000])
def test_a_node_needs_a_name_and_a_session_of_bounded_length(stubs: Stubs, crawl: str, name: str) -> None:
    calls = {
        "node": [
            lambda: stubs.next(crawl, node=name),
            lambda: stubs.finish(report(b"t"), node=name),
            lambda: stubs.heartbeat(node=name),
        ],
        "session": [
            lambda: stubs.next(crawl, session=name),
            lambda: stubs.finish(report(b"t"), session=name),
            lambda: stubs.heartbeat(session=name),
        ],
    }
    for field, refused_calls in calls.items():
        for call in refused_calls:
            problem = refused(call, INVALID, "INVALID_ARGUMENT_VALUE", field, str(len(name)), "128")
            assert problem.metadata == {"field": field}


def test_steps_of_toe_threads_are_kept_within_bounds(stubs: Stubs) -> None:
    steps = [frontier_pb2.ToeStepCount(step="\N{SNOWMAN}" * 999, count=-(2**31)) for _ in range(500)]
    request = frontier_pb2.HeartbeatRequest(node="stepper", session="s", toe_steps=steps)
    stubs.frontier.Heartbeat(request, timeout=TIMEOUT_S)
    answer = stubs.admin.GetFrontier(admin_pb2.GetFrontierRequest(), timeout=TIMEOUT_S)
    (shown,) = [node for node in answer.nodes if node.node == "stepper"]
    assert len(shown.toe_steps) <= 32
    assert all(len(step.step) <= 64 for step in shown.toe_steps)
