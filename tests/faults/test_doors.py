"""Doors of three machines while shards die: what an operator has wished holds at each of them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from random import Random

import grpc
from frontier_harness.calls import PAUSE, RUN, Stubs, next_request, report, spec
from frontier_harness.descendants import children
from frontier_harness.waiting import PATIENCE_S, eventually

from toehold.frontier.v1 import crawl_pb2, frontier_pb2

from .test_machines import Cluster
from .test_shards import RECONNECT

CRAWL, HOSTS, PAUSES = "wished", 600, 4
QUIET_S = 1.0


class Asker:
    """A node that asks a door for leases again and again, and reports them."""

    def __init__(self, stubs: Stubs, node: str) -> None:
        self._stubs, self._node = stubs, node
        self.asked_s = 0.0  # when the last call began that has been answered
        self.leased_s = 0.0  # when the last call began that brought leases
        self.ending = threading.Event()

    def run(self) -> None:
        while not self.ending.is_set():
            began_s = time.monotonic()
            with suppress(grpc.RpcError):  # a shard, or all that is behind the door, is away
                leases = self._next().leases
                if leases:
                    self.leased_s = began_s
                    self._stubs.finish(
                        *(report(lease) for lease in leases), node=self._node, session="session"
                    )
                self.asked_s = began_s

    def _next(self) -> frontier_pb2.NextResponse:
        request = next_request(CRAWL, 2, 0.2, self._node, "session")
        answer: frontier_pb2.NextResponse = self._stubs.frontier.Next(request, timeout=5)
        return answer


def all_leased_since(askers: Sequence[Asker], since_s: float) -> bool:
    return all(asker.leased_s > since_s for asker in askers)


def all_asked_since(askers: Sequence[Asker], since_s: float) -> bool:
    return all(asker.asked_s > since_s for asker in askers)


def kill_a_shard(cluster: Cluster, random: Random) -> None:
    """`kill -9` for a process that serves a shard."""
    processes = [each for machine in cluster.machines for each in children(machine.server.child.pid)]
    shards = [each for each in processes if b"shard-" in Path(f"/proc/{each}/cmdline").read_bytes()]
    os.kill(random.choice(shards), signal.SIGKILL)


def wish(every: list[Stubs], random: Random, state: crawl_pb2.TargetState.ValueType) -> None:
    """Ask any door for a state, until it is answered."""
    request = frontier_pb2.RequestStateRequest(crawl=CRAWL, target_state=state)

    def asked() -> bool:
        with suppress(grpc.RpcError):
            random.choice(every).frontier.RequestState(request, timeout=10)
            return True
        return False

    eventually(asked, "an answer to a wish")


def test_no_door_leases_what_is_paused_while_shards_die_and_return(tmp_path: Path) -> None:
    random = Random(5)
    cluster = Cluster(tmp_path, random, f"file://{tmp_path}/bucket")
    cluster.until_ready()
    with ExitStack() as stack:
        channels = [
            stack.enter_context(grpc.insecure_channel(machine.address, RECONNECT))
            for machine in cluster.machines
        ]
        every = [Stubs(channel) for channel in channels]
        every[0].create(CRAWL, spec(scope=crawl_pb2.ScopeSpec(accept_patterns=[r"http://.*"])))
        every[1].seed(CRAWL, *(f"http://www.site{number}.example/" for number in range(HOSTS)))
        every[2].launch_seeded(CRAWL)
        askers = [Asker(stubs, f"node-{number}") for number, stubs in enumerate(every)]
        threads = [threading.Thread(target=asker.run) for asker in askers]
        for thread in threads:
            thread.start()
        for asker in askers:
            stack.callback(asker.ending.set)
        for _ in range(PAUSES):
            resumed_s = time.monotonic()
            eventually(partial(all_leased_since, askers, resumed_s), "leases at each door")
            kill_a_shard(cluster, random)  # it has not heard of the pause when it is back
            wish(every, random, PAUSE)
            paused_s = time.monotonic()
            kill_a_shard(cluster, random)
            eventually(
                partial(all_asked_since, askers, paused_s + QUIET_S),
                "answers at each door while the crawl is paused",
            )
            assert all(asker.leased_s < paused_s for asker in askers), "a paused crawl has given leases"
            wish(every, random, RUN)
        for asker in askers:
            asker.ending.set()
        for thread in threads:
            thread.join(PATIENCE_S)
    cluster.end()
