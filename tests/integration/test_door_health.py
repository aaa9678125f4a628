"""The health of a machine's door: of the whole while the coordinator answers, of its services as long as it
lives."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from frontier_harness.descendants import children
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import PATIENCE_S, eventually
from grpc_health.v1 import health_pb2, health_pb2_grpc

ADMIN = "toehold.frontier.v1.FrontierAdminService"
SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[ServerProcess]:
    log = "--log", f"file://{tmp_path}/bucket"
    with ServerProcess(tmp_path / "data", *log, "--machine", "one", "--shards", "2") as machine:
        yield machine


def front_of(machine: ServerProcess) -> int:
    """The process that has the coordinator."""

    def is_front(process: int) -> bool:
        words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        return b"front" in words

    (front,) = filter(is_front, children(machine.child.pid))
    return front


def test_a_door_serves_while_the_coordinator_answers_and_lives_meanwhile(machine: ServerProcess) -> None:
    with grpc.insecure_channel(machine.address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)

        def status(service: str) -> int:
            return int(stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=PATIENCE_S).status)

        eventually(lambda: status("") == SERVING, "the door to serve")
        assert status(ADMIN) == SERVING
        watch = stub.Watch(health_pb2.HealthCheckRequest(), timeout=PATIENCE_S)
        assert next(watch).status == SERVING
        front = front_of(machine)
        os.kill(front, signal.SIGSTOP)  # one that is killed may be back before anybody looks
        assert next(watch).status == NOT_SERVING
        os.kill(front, signal.SIGKILL)
        assert status(ADMIN) == SERVING, "a new start of the door would not help"
        assert next(watch).status == SERVING
        watch.cancel()
