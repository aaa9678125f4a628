"""AsyncNodeClient; and NodeClient, which is made from it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import grpc
import pytest
from client_doubles.blocking import BlockingAsyncNode, Connect
from client_doubles.fake_frontier import NODE, SILENCE, FakeFrontier, Refusal, serving
from frontier_harness.ports import KeptPort
from frontier_harness.waiting import PATIENCE_S

from toehold.frontier.v1.frontier_pb2 import PoolStatistics
from toehold.node.v1 import node_pb2
from toehold_client import NodeClient, errors

CODE = grpc.StatusCode
POOL = node_pb2.GetPoolResponse(node="n1", pool=PoolStatistics(size=2, alive_count=2))
TOES = [node_pb2.Toe(worker=1, serial=7, step="FETCHING"), node_pb2.Toe(worker=2, serial=1)]
SILENT = Refusal(CODE.UNAVAILABLE, "process 2 does not answer", "WORKER_SILENT")


@pytest.fixture
def node() -> FakeFrontier:
    """Has nothing in line yet."""
    return FakeFrontier()


@pytest.fixture
def address(node: FakeFrontier) -> Iterator[str]:
    """Where `node` listens."""
    with serving(node, services=NODE) as bound:
        yield bound


@pytest.fixture
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Makes clients, which are closed after the test."""
    kind = getattr(request, "param", BlockingAsyncNode)
    with ExitStack() as clients:
        yield lambda address, **settings: clients.enter_context(kind(address, **settings))


@pytest.mark.parametrize(
    ("rpc", "call", "request_", "answer", "result"),
    [
        ("GetPool", lambda node: node.get_pool(), node_pb2.GetPoolRequest(), POOL, POOL),
        (
            "SetPoolSize",
            lambda node: node.set_pool_size(16),
            node_pb2.SetPoolSizeRequest(size=16),
            node_pb2.SetPoolSizeResponse(),
            None,
        ),
        (
            "ListToes",
            lambda node: node.list_toes(),
            node_pb2.ListToesRequest(),
            node_pb2.ListToesResponse(toes=TOES),
            TOES,
        ),
        (
            "ListToes",
            lambda node: node.list_toes(stacks=True),
            node_pb2.ListToesRequest(stacks=True),
            node_pb2.ListToesResponse(),
            [],
        ),
        (
            "KillToe",
            lambda node: node.kill_toe(7),
            node_pb2.KillToeRequest(serial=7, replace=True),
            node_pb2.KillToeResponse(),
            None,
        ),
        (
            "KillToe",
            lambda node: node.kill_toe(7, worker=2, replace=False),
            node_pb2.KillToeRequest(serial=7, worker=2),
            node_pb2.KillToeResponse(),
            None,
        ),
        ("Drain", lambda node: node.drain(), node_pb2.DrainRequest(), node_pb2.DrainResponse(), None),
    ],
)
def test_each_method_says_what_it_was_given_and_returns_what_it_was_told(
    node: FakeFrontier,
    address: str,
    connect: Connect,
    rpc: str,
    call: Callable[[Any], Any],
    request_: Any,
    answer: Any,
    result: Any,
) -> None:
    node.will(rpc, answer)
    assert call(connect(address)) == result
    assert node.asked[rpc] == [request_]


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (Refusal(CODE.NOT_FOUND, "there is no toe thread 9", "UNKNOWN_TOE"), errors.UnknownToe),
        (Refusal(CODE.INVALID_ARGUMENT, "worker is 0", "INVALID_ARGUMENT_VALUE"), errors.InvalidArgument),
        (Refusal(CODE.FAILED_PRECONDITION, "the node drains", "DRAINING"), errors.NodeDraining),
        (SILENT, errors.WorkerSilent),
    ],
)
@pytest.mark.parametrize("connect", [NodeClient, BlockingAsyncNode], ids=["sync", "async"], indirect=True)
def test_a_refusal_is_told_in_the_nodes_words(
    node: FakeFrontier, address: str, connect: Connect, refusal: Refusal, kind: type[errors.ToeholdError]
) -> None:
    node.will("KillToe", refusal)
    with pytest.raises(kind) as failure:
        connect(address).kill_toe(9)
    assert (str(failure.value), failure.value.reason) == (refusal.message, refusal.reason)


def test_with_patience_a_process_that_is_silent_is_asked_again(
    node: FakeFrontier, address: str, connect: Connect
) -> None:
    node.will("KillToe", SILENT, node_pb2.KillToeResponse())
    connect(address, patience_s=PATIENCE_S).kill_toe(1, worker=2)
    assert len(node.asked["KillToe"]) == 2


def test_no_node_there_is_told_by_its_address(connect: Connect) -> None:
    kept = KeptPort()
    with pytest.raises(errors.NodeUnavailable, match=rf"^no node answers at {kept.address} \("):
        connect(kept.address).get_pool()


def test_silence_ends_at_the_deadline(node: FakeFrontier, address: str, connect: Connect) -> None:
    node.will("GetPool", SILENCE)
    with pytest.raises(errors.DeadlineExceeded, match=rf"the node at {address} did not answer within 0.2 s"):
        connect(address, timeout_s=0.2).get_pool()


def test_a_frontier_is_told_from_a_node(connect: Connect) -> None:
    with (
        serving(FakeFrontier()) as frontier,
        pytest.raises(errors.UnexpectedAnswer, match=f"the server at {frontier} is not a Toehold node"),
    ):
        connect(frontier).drain()


def test_what_is_no_address_is_told(connect: Connect) -> None:
    with pytest.raises(errors.InvalidArgument, match="the address of a node must be HOST:PORT"):
        connect("n1")


def test_a_closed_client_says_so(address: str, connect: Connect) -> None:
    client = connect(address)
    client.close()
    with pytest.raises(errors.ClientClosed, match=f"the client of the node at {address} is closed"):
        client.get_pool()
