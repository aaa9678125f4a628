"""Strangers attack a frontier that has 700 descriptors while a node works: figures of docs/reliability.md."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from frontier_harness import limited_program, strangers
from frontier_harness.calls import TIMEOUT_S, report, schedule_request, spec
from frontier_harness.process import ServerProcess
from frontier_harness.raw_calls import framed
from frontier_harness.soaking import Soak
from frontier_harness.waiting import eventually
from grpc_health.v1 import health_pb2, health_pb2_grpc

from toehold.frontier.v1 import frontier_pb2
from toehold_base.serving.connections import HANDSHAKE_S, IDLE_S

MIB = 1024 * 1024
DESCRIPTORS = 700
FLOOD_S = 20.0
WATCH = "/grpc.health.v1.Health/Watch"
SCHEDULE = "/toehold.frontier.v1.FrontierService/Schedule"
ALONE = [("grpc.use_local_subchannel_pool", 1)]


class Attacked:
    """A frontier, and a node that works for it by a connection of its own."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.fetched = 0
        self.longest_s = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> "Attacked":
        self.server.stubs.launch("c", "http://c.example/", of=spec(run_while_empty=True))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(TIMEOUT_S)

    def _work(self) -> None:
        """Schedule, lease and report, again and again. After a failure `fetched` stands still."""
        stubs, number = self.server.stubs, 0
        while not self._ended.is_set():
            uris = [f"http://c.example/{number}/{place}" for place in range(20)]
            number += 1
            begun_s = time.monotonic()
            try:
                stubs.frontier.Schedule(schedule_request("c", *uris), timeout=TIMEOUT_S)
                asked = frontier_pb2.NextRequest(node="n", session="s", max_leases=100)
                leases = stubs.frontier.Next(asked, timeout=TIMEOUT_S).leases
                if leases:
                    stubs.finish(*[report(lease) for lease in leases], node="n", session="s")
            except grpc.RpcError as problem:
                if problem.code() != grpc.StatusCode.RESOURCE_EXHAUSTED:  # it says when to try again
                    raise
                time.sleep(0.1)
                continue
            self.longest_s = max(self.longest_s, time.monotonic() - begun_s)
            self.fetched += len(leases)

    @property
    def mib(self) -> float:
        """The most memory that the frontier has had."""
        status = Path(f"/proc/{self.server.child.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024

    @property
    def descriptors(self) -> int:
        """How many it has open."""
        return len(list(Path(f"/proc/{self.server.child.pid}/fd").iterdir()))

    def serves_a_newcomer(self) -> bool:
        """Whether a client that connects now hears that it serves."""
        with grpc.insecure_channel(self.server.address, ALONE) as channel:
            stub: Any = health_pb2_grpc.HealthStub(channel)
            try:
                answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=TIMEOUT_S)
            except grpc.RpcError:
                return False
            return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


@contextmanager
def silence(address: str, said: bytes) -> Iterator[None]:
    with strangers.connections(address, DESCRIPTORS, said):
        yield


@contextmanager
def watches(address: str) -> Iterator[None]:
    """Ten thousand, on 200 connections."""
    with ExitStack() as stack:
        for _ in range(200):
            channel = stack.enter_context(grpc.insecure_channel(address, ALONE))
            stub: Any = health_pb2_grpc.HealthStub(channel)
            for _ in range(50):
                stub.Watch(health_pb2.HealthCheckRequest())
        yield


@contextmanager
def flood(address: str, kind: str) -> Iterator[None]:
    with ThreadPoolExecutor(10) as threads:
        floods = [threads.submit(strangers.flood, address, WATCH, FLOOD_S, kind) for _ in range(10)]
        yield
        for each in floods:
            each.result()


@contextmanager
def bodies(address: str) -> Iterator[None]:
    """Two thousand batches of 8 MiB, of each of which the beginning comes."""
    said = strangers.unfinished_calls(SCHEDULE, 100, framed(bytes(8 * MIB))[:600])
    with strangers.connections(address, 20, said):
        yield


ATTACKS: dict[str, tuple[Callable[[str], Any], float]] = {
    "700 connections that say nothing": (lambda address: silence(address, b""), HANDSHAKE_S),
    "700 connections that stop within the handshake": (
        lambda address: silence(address, strangers.KINDS["a preface"]),
        HANDSHAKE_S,
    ),
    "700 connections without a call": (lambda address: silence(address, strangers.SETTLED), IDLE_S),
    "10 000 watches of the health": (watches, 0.0),
    "calls that are reset at once": (lambda address: flood(address, "resets"), 0.0),
    "pings": (lambda address: flood(address, "pings"), 0.0),
    "settings": (lambda address: flood(address, "settings"), 0.0),
    "2 000 bodies that never end": (bodies, 0.0),
}
"""What strangers do, and within how many seconds a client that connects gets in."""


@pytest.mark.soak("overload")
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_frontier_under_attack_serves_its_node_and_lets_new_clients_in(
    tmp_path: Path, soak: Soak, attack: str
) -> None:
    attacking, back_s = ATTACKS[attack]
    program = (limited_program.__file__, str(DESCRIPTORS), str(DESCRIPTORS))
    with ServerProcess(tmp_path / "data", program=program) as server, Attacked(server) as attacked:
        eventually(lambda: attacked.fetched > 20, "work")
        before_mib, attacked.longest_s = attacked.mib, 0.0
        begun_s = time.monotonic()
        with attacking(server.address):
            most, fetched = attacked.descriptors, attacked.fetched
            while not attacked.serves_a_newcomer():
                most = max(most, attacked.descriptors)
                assert time.monotonic() - begun_s < back_s + TIMEOUT_S
            waited_s = time.monotonic() - begun_s
            eventually(lambda: attacked.fetched > fetched + 20, "work amid the attack")
            most = max(most, attacked.descriptors)
            longest_s = attacked.longest_s
        took_mib = attacked.mib - before_mib
        figures = {
            "attack": attack,
            "MiB more": round(took_mib),
            "descriptors": most,
            "a newcomer got in after s": round(waited_s, 1),
            "longest round of the node s": round(longest_s, 2),
        }
        print(json.dumps(figures))
        soak.count(faults=1, checked=attacked.fetched)
        assert most < DESCRIPTORS - 100 and took_mib < 256
