"""NodeService over real gRPC: what a node tells of itself, and what it can be told."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from frontier_harness.calls import Refusal, refused
from frontier_harness.odd_values import odd_numbers, put
from frontier_harness.waiting import PATIENCE_S, eventually
from google.protobuf import message_factory
from grpc_health.v1 import health_pb2, health_pb2_grpc
from node_doubles.frontier import FakeFrontier
from node_doubles.leases import lease
from node_doubles.node import Run
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from crawler_node.control.handler import MAX_POOL_SIZE
from crawler_node.control.service import SERVICE, NodeServer, listen_address
from crawler_node.control.single_process import SingleProcessControl
from crawler_node.process import NodeExitCode
from toehold.node.v1 import node_pb2, node_pb2_grpc
from toehold_base.serving.addresses import Address
from toehold_client import NodeClient, request_id
from toehold_client.errors import UnknownToe


class Served:
    """A node of two toe threads that fetch nothing real, and its service."""

    def __init__(self, frontier: FakeFrontier, folder: Path) -> None:
        self.frontier = frontier
        self.run = Run(frontier, folder)
        self.server = NodeServer()
        self.server.bind(Address("127.0.0.1", 0))
        self.server.start(SingleProcessControl(self.run.node, "n1", frontier.address, "s1"))
        self.server.serving()
        self.run.node.when_draining(self.server.not_serving)
        self.channel = grpc.insecure_channel(self.server.address)
        self.stub = node_pb2_grpc.NodeServiceStub(self.channel)

    def pool(self) -> node_pb2.GetPoolResponse:
        return self.stub.GetPool(node_pb2.GetPoolRequest(), timeout=PATIENCE_S)

    def toes(self, stacks: bool = False) -> list[node_pb2.Toe]:
        return list(self.stub.ListToes(node_pb2.ListToesRequest(stacks=stacks), timeout=PATIENCE_S).toes)

    def resize(self, size: int) -> None:
        self.stub.SetPoolSize(node_pb2.SetPoolSizeRequest(size=size), timeout=PATIENCE_S)

    def kill(self, serial: int, replace: bool = True, worker: int = 0) -> None:
        request = node_pb2.KillToeRequest(worker=worker, serial=serial, replace=replace)
        self.stub.KillToe(request, timeout=PATIENCE_S)

    def drain(self) -> None:
        self.stub.Drain(node_pb2.DrainRequest(), timeout=PATIENCE_S)

    def health(self, name: str = SERVICE) -> int:
        request = health_pb2.HealthCheckRequest(service=name)
        stub: Any = health_pb2_grpc.HealthStub(self.channel)
        status: int = stub.Check(request, timeout=PATIENCE_S).status
        return status

    def busy(self, *uris: str) -> None:
        """Lets threads stay at these URIs."""
        self.run.fetcher.hold()
        self.frontier.give(*map(lease, uris))
        eventually(lambda: set(uris) <= {toe.uri for toe in self.toes()} & {*self.run.fetcher.asked})


@pytest.fixture
def served(frontier: FakeFrontier, tmp_path: Path) -> Iterator[Served]:
    served = Served(frontier, tmp_path)
    served.run.start()
    eventually(lambda: served.pool().pool.alive_count == 2)
    yield served
    served.run.fetcher.let_go()
    if not served.run.node.draining:
        served.run.node.drain()
    served.run.exit_code()
    served.channel.close()
    served.server.stop()


def test_it_describes_the_node_and_its_pool(served: Served) -> None:
    """S4.1: the pool is there with the node, in its size. Section 2.20: the line of the pool."""
    pool = served.pool()
    assert (pool.node, pool.frontier_address) == ("n1", served.frontier.address)
    assert (pool.pool.size, pool.pool.alive_count, pool.draining) == (2, 2, False)
    assert {each.step: each.count for each in pool.toe_steps} == {"ABOUT_TO_GET_URI": 2}
    (worker,) = pool.workers
    assert (worker.worker, worker.session, worker.restart_count, worker.silent) == (1, "s1", 0, False)


def test_each_thread_tells_what_it_is_at_for_how_long_and_where_in_the_program(served: Served) -> None:
    """2.20/reports: its serial, URI, step and stack."""
    served.busy("http://h/a")
    (busy,) = [toe for toe in served.toes(stacks=True) if toe.uri]
    assert (busy.uri, busy.crawl, busy.step, busy.worker, busy.attempt) == (
        "http://h/a",
        "crawl",
        "FETCHING",
        1,
        1,
    )
    assert "in fetch" in busy.stack
    before = busy.uri_duration.ToNanoseconds()
    eventually(lambda: next(t for t in served.toes() if t.uri).uri_duration.ToNanoseconds() > before)
    assert all(toe.stack == "" for toe in served.toes())


def test_the_pool_grows_and_shrinks_at_any_time(served: Served) -> None:
    """S4.5: again and again, while it runs."""
    served.resize(5)
    assert [toe.serial for toe in served.toes()] == [1, 2, 3, 4, 5]
    served.resize(1)
    eventually(lambda: served.pool().pool.alive_count == 1)
    served.resize(0)
    eventually(lambda: served.pool().pool.alive_count == 0)


@pytest.mark.parametrize("size", [-1, MAX_POOL_SIZE + 1])
def test_a_size_that_no_pool_can_have_is_refused(served: Served, size: int) -> None:
    refused(
        partial(served.resize, size),
        grpc.StatusCode.INVALID_ARGUMENT,
        "INVALID_ARGUMENT_VALUE",
        str(size),
        str(MAX_POOL_SIZE),
    )
    assert served.pool().pool.size == 2


def test_a_killed_thread_is_replaced_if_wanted_and_its_uri_has_failed(served: Served) -> None:
    """2.20/kill: the URI with -7000; without the wish the pool is smaller."""
    served.busy("http://h/a", "http://h/b")
    first, second = sorted(toe.serial for toe in served.toes() if toe.uri)
    served.kill(first)
    served.kill(second, replace=False, worker=1)
    eventually(lambda: served.frontier.statuses() == {"http://h/a": -7000, "http://h/b": -7000})
    eventually(lambda: [toe.serial for toe in served.toes()] == [3])
    assert (served.pool().pool.size, served.pool().pool.killed_count) == (1, 2)


@pytest.mark.parametrize(("worker", "serial"), [(0, 99), (1, 0), (2, 1)])
def test_a_thread_that_there_is_not_cannot_be_killed(served: Served, worker: int, serial: int) -> None:
    refused(
        partial(served.kill, serial, worker=worker), grpc.StatusCode.NOT_FOUND, "UNKNOWN_TOE", str(serial)
    )


def test_drained_it_ends_in_order_and_tells_so_meanwhile(served: Served) -> None:
    served.busy("http://h/a")
    assert served.health() == served.health("") == health_pb2.HealthCheckResponse.SERVING
    served.drain()
    served.drain()
    eventually(lambda: served.health() == health_pb2.HealthCheckResponse.NOT_SERVING)
    assert served.pool().draining
    refused(lambda: served.resize(3), grpc.StatusCode.FAILED_PRECONDITION, "DRAINING")
    served.run.fetcher.let_go()
    assert served.run.exit_code() is NodeExitCode.DRAINED
    assert served.frontier.statuses() == {"http://h/a": 200}, "asked twice, it does not hurry"


@pytest.mark.parametrize("text", ["0.0.0.0:7708", "192.0.2.7:7708", "[::]:7708", "node.example:7708"])
def test_an_address_beyond_loopback_needs_a_word_of_consent(text: str) -> None:
    with pytest.raises(ValueError, match="--insecure"):
        listen_address(text, insecure=False)
    assert str(listen_address(text, insecure=True)) == text


@pytest.mark.parametrize("rpc", ["SetPoolSize", "KillToe"])
def test_no_number_in_a_request_ends_the_node(served: Served, rpc: str) -> None:
    """The cases are read from the contract, as those of `test_extremes` are."""
    method = node_pb2.DESCRIPTOR.services_by_name["NodeService"].methods_by_name[rpc]
    for path, value in odd_numbers(method.input_type):
        request: Any = message_factory.GetMessageClass(method.input_type)()
        put(request, path, value)
        try:
            getattr(served.stub, rpc)(request, timeout=PATIENCE_S)
        except grpc.RpcError as problem:
            told = Refusal.of(problem)
            known = ("INVALID_ARGUMENT_VALUE", "UNKNOWN_TOE")
            assert told.reason in known, (path, value, told)
        assert served.health() == health_pb2.HealthCheckResponse.SERVING
    served.resize(2)
    eventually(lambda: served.pool().pool.alive_count == 2)


def test_no_rpc_of_a_node_that_takes_a_number_is_forgotten() -> None:
    methods = node_pb2.DESCRIPTOR.services_by_name["NodeService"].methods
    with_numbers = {method.name for method in methods if any(True for _ in odd_numbers(method.input_type))}
    assert with_numbers == {"SetPoolSize", "KillToe"}


@pytest.mark.parametrize(
    "path",
    [
        *(f"{SERVICE}/{name}" for name in ("GetPool", "SetPoolSize", "ListToes", "KillToe", "Drain")),
        *("grpc.health.v1.Health/Check", "grpc.health.v1.Health/Watch"),
        *(f"grpc.reflection.{each}.ServerReflection/ServerReflectionInfo" for each in ("v1", "v1alpha")),
    ],
)
def test_bytes_that_are_no_message_are_refused_and_told_in_no_log(
    served: Served, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    """gRPC by itself would take them for errors of the node."""
    call: Any = served.channel.stream_stream(f"/{path}")
    for data in (b"\xff" * 50, b"\x0a\x80\x80\x06" + b"x" * 96 * 1024):
        answer = call(iter([data]), timeout=PATIENCE_S)
        refused(partial(list, answer), grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT_VALUE")
    assert not served.run.node.draining and served.health() == health_pb2.HealthCheckResponse.SERVING
    assert "Traceback" not in caplog.text and "Exception" not in caplog.text


def test_lines_and_errors_of_a_call_have_its_request_id(served: Served) -> None:
    with NodeClient(served.server.address) as client, capture_logs([merge_contextvars]) as lines:
        with request_id("night-1"), pytest.raises(UnknownToe) as failure:
            client.kill_toe(9999)
        assert failure.value.request_id == "night-1"
        with request_id("night-2"):
            client.kill_toe(client.list_toes()[0].serial)
    killed = [line for line in lines if line["event"] == "toe_killed"]
    assert [(line["method"], line["request_id"]) for line in killed] == [("KillToe", "night-2")]


def test_health_tells_that_a_node_serves_only_once_it_does(frontier: FakeFrontier, tmp_path: Path) -> None:
    run, server = Run(frontier, tmp_path), NodeServer()
    server.bind(Address("127.0.0.1", 0))
    server.start(SingleProcessControl(run.node, "n1", frontier.address, "s1"))
    try:
        with grpc.insecure_channel(server.address) as channel:
            stub: Any = health_pb2_grpc.HealthStub(channel)
            for expected in (
                health_pb2.HealthCheckResponse.NOT_SERVING,
                health_pb2.HealthCheckResponse.SERVING,
            ):
                answer = stub.Check(health_pb2.HealthCheckRequest(service=SERVICE), timeout=PATIENCE_S)
                assert answer.status == expected
                server.serving()
    finally:
        server.stop()
