"""Requests that make no sense, to a server and to a node: a refusal, and no harm."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from frontier_harness.calls import TIMEOUT_S
from frontier_harness.process import ServerProcess
from frontier_harness.soaking import Soak
from fuzz.callers import MAX_GROWN_BYTES, MAX_RESIDENT_BYTES, TIDY, HostileCallers, HostileNodeCallers
from node_doubles.frontier import FakeFrontier
from node_doubles.node import Run

from crawler_node.control.service import NodeServer
from crawler_node.control.single_process import SingleProcessControl
from toehold.node.v1 import node_pb2, node_pb2_grpc
from toehold_base.serving.addresses import Address

CALLS = 20_000
"""Some minutes."""
NODE_CALLS = 5_000
FEW = 120
"""Some for each RPC."""


def _call(folder: Path, seed: int, count: int) -> HostileCallers:
    """Let hostile callers call a server, and look at it afterwards."""
    with ServerProcess(folder / "data") as server:
        callers = HostileCallers(server, seed)
        before = 0
        for made in range(0, count, TIDY):
            callers.call(min(TIDY, count - made))
            before = before or (callers.memory()[0] if made > count // 4 else 0)
        callers.settle()
        now, most = callers.memory()
    assert most < MAX_RESIDENT_BYTES, f"{most} bytes of memory"
    assert not before or now - before < MAX_GROWN_BYTES, f"memory grew from {before} to {now} bytes"
    return callers


def test_requests_of_every_rpc_with_something_wrong_are_refused_or_answered(tmp_path: Path) -> None:
    """A canonical code with a reason, whatever comes; the server goes on, a verification finds nothing."""
    callers = _call(tmp_path, 1, FEW)
    assert not callers.problems, "\n".join(callers.problems)
    assert {"OK", "INVALID_ARGUMENT", "NOT_FOUND"} <= set(callers.codes), callers.codes


@pytest.mark.soak("fuzz")
@pytest.mark.timeout(0)
def test_no_request_of_any_rpc_does_harm(tmp_path: Path, soak: Soak) -> None:
    count = soak.cycles(CALLS)
    callers = _call(tmp_path, soak.seed, count)
    print(dict(callers.codes))
    soak.count(faults=count, violated=len(callers.problems))
    assert not callers.problems, "\n".join(callers.problems[:20])


def _call_node(folder: Path, seed: int, count: int, caplog: pytest.LogCaptureFixture) -> HostileNodeCallers:
    """Let hostile callers call a node, which goes on, and ends when it is asked to."""
    frontier = FakeFrontier()
    run = Run(frontier, folder)
    server = NodeServer()
    server.bind(Address("127.0.0.1", 0))
    server.start(SingleProcessControl(run.node, "n1", frontier.address, "s1"))
    run.start()
    try:
        callers = HostileNodeCallers(server.address, seed)
        callers.call(count)
        draining = run.node.draining
        stub = node_pb2_grpc.NodeServiceStub(grpc.insecure_channel(server.address))
        assert stub.GetPool(node_pb2.GetPoolRequest(), timeout=TIMEOUT_S).node == "n1"
        stub.Drain(node_pb2.DrainRequest(), timeout=TIMEOUT_S)
    finally:
        run.end()
        server.stop()
        frontier.stop()
    assert not draining and "Traceback" not in caplog.text, caplog.text[-3000:]
    return callers


def test_requests_to_a_node_with_something_wrong_are_refused_or_answered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    callers = _call_node(tmp_path, 1, 40, caplog)
    assert not callers.problems, "\n".join(callers.problems)


@pytest.mark.soak("fuzz")
@pytest.mark.timeout(0)
def test_no_request_to_a_node_does_harm(tmp_path: Path, soak: Soak, caplog: pytest.LogCaptureFixture) -> None:
    count = soak.cycles(NODE_CALLS)
    callers = _call_node(tmp_path, soak.seed, count, caplog)
    soak.count(faults=2 * count, violated=len(callers.problems))
    assert not callers.problems, "\n".join(callers.problems[:20])
