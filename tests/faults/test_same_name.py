"""Two real nodes under one name: both are told, and the later one keeps the name, also when the frontier has
been killed and started again."""

import signal
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from acceptance.programs import Program, Programs
from faults.load import Load
from faults.slow_site import SlowSite
from frontier_harness.calls import refused
from frontier_harness.waiting import PATIENCE_S, eventually

from crawler_node.process import NodeExitCode, service_of
from toehold.node.v1 import node_pb2, node_pb2_grpc

NAME = "twice"
RIVAL = '"name_shared"'
SUPERSEDED = (
    f"toehold-node: another process has taken the node name '{NAME}', so this one ends. "
    "Its leases have gone back to the frontier. Give each process its own --name.\n"
)


@pytest.fixture
def load(programs: Programs, tmp_path: Path) -> Iterator[Load]:
    with SlowSite(8) as site:
        load = Load(programs, tmp_path, site, "--lease-seconds", "3", "--heartbeat-seconds", "0.2")
        yield load
        load.close()


def session_of(node: Program) -> str:
    """The session of a node, which its NodeService tells."""
    with grpc.insecure_channel(service_of(node.said)) as channel:
        stub = node_pb2_grpc.NodeServiceStub(channel)
        (worker,) = stub.GetPool(node_pb2.GetPoolRequest(), timeout=PATIENCE_S).workers
        return str(worker.session)


def until_fetching(load: Load) -> None:
    """Waits until pages are fetched again."""
    asked = len(load.site.log())
    eventually(lambda: len(load.site.log()) > asked + 16, "pages")


def is_refused(load: Load, session: str) -> bool:
    def beat() -> object:
        return load.stubs.heartbeat(node=NAME, session=session)

    refused(beat, grpc.StatusCode.FAILED_PRECONDITION, "SESSION_SUPERSEDED", NAME)
    return True


def test_both_of_two_nodes_with_one_name_are_told_and_the_later_one_keeps_it(load: Load) -> None:
    load.launch("c")
    first = load.node(NAME, 2)
    first_session = session_of(first)
    later = load.node(NAME, 2)
    assert first.wait() == NodeExitCode.SUPERSEDED, first.complaints
    eventually(lambda: RIVAL in later.complaints, "the later one to be told")
    assert first.complaints.count(SUPERSEDED) == 1 and "Traceback" not in first.complaints
    until_fetching(load)

    load.frontier.kill()
    load.start_frontier()
    until_fetching(load)
    assert later.runs and is_refused(load, first_session)
    until_fetching(load)
    assert later.complaints.count(RIVAL) == 1, "it is told once of each rival"
    later.signal(signal.SIGTERM)
    assert later.wait() == NodeExitCode.DRAINED


@pytest.mark.soak("time")
def test_a_node_that_stood_still_does_not_oust_the_later_one_after_a_restart_of_the_frontier(
    load: Load,
) -> None:
    load.launch("c")
    first = load.node(NAME, 2)
    until_fetching(load)
    first.signal(signal.SIGSTOP)
    later = load.node(NAME, 2)
    until_fetching(load)
    load.frontier.kill()
    load.start_frontier()
    first.signal(signal.SIGCONT)
    assert first.wait() == NodeExitCode.SUPERSEDED, first.complaints
    eventually(lambda: RIVAL in later.complaints, "the later one to be told")
    until_fetching(load)
    assert later.runs
