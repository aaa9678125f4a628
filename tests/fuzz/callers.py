"""Hostile callers of a frontier: mutated requests of all RPCs, and what answers and the server must be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import grpc
from frontier_harness.calls import FINISH, TIMEOUT_S, Refusal, fresh_name, seed_of
from frontier_harness.every_rpc import RPCS, request
from frontier_harness.process import ServerProcess
from frontier_harness.raw_calls import raw_call
from frontier_harness.waiting import eventually
from grpc_health.v1 import health_pb2

from crawler_node.control.service import SERVICE
from toehold.frontier.v1 import admin_pb2, crawl_pb2
from toehold.node.v1 import node_pb2

from .messages import mutated

MIB = 1024 * 1024
MAX_RESIDENT_BYTES = 600 * MIB
"""A server takes no more than this while it is fuzzed; docs/operating.md promises some hundred MiB."""
MAX_GROWN_BYTES = 128 * MIB
"""A server grows by no more than this between two looks, if the number of crawls is the same."""
BRIEF_S = 0.25
"""Patience with calls that wait for something by themselves."""
MOST_MESSAGES = 20  # of a stream that is read
TIDY = 400  # calls after which crawls and checkpoints that came to be are removed

_WAITING = frozenset(("Next", "StateEvents", "StreamOutcomes"))
_GONE_WRONG = frozenset((grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL, grpc.StatusCode.DATA_LOSS))
# What gRPC says by itself, without a reason of ours.
_TRANSPORT = frozenset(
    (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.RESOURCE_EXHAUSTED)
)
_OTHERS = (
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    "/toehold.frontier.v1.FrontierService/NoSuchCall",
)


class Caller:
    """Sends bytes, and judges what comes back. `problems` are what should not have come."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel: Any = channel
        self.codes: Counter[str] = Counter()
        self.problems: list[str] = []

    def _send(
        self,
        path: str,
        data: Sequence[bytes],
        sends: bool,
        reads: bool,
        patience_s: float,
        told: str,
        ours: bool = True,
    ) -> None:
        channel = self._channel
        shape = f"{'stream' if sends else 'unary'}_{'stream' if reads else 'unary'}"
        made = getattr(channel, shape)(path)
        try:
            answer = made(iter(data) if sends else data[0], timeout=patience_s)
            if reads:
                for number, _ in enumerate(answer):
                    if number == MOST_MESSAGES:
                        answer.cancel()
                        break
        except grpc.RpcError as problem:
            self._judge(Refusal.of(problem), patience_s, told, ours)
        else:
            self.codes["OK"] += 1

    def _judge(self, said: Refusal, patience_s: float, told: str, ours: bool) -> None:
        self.codes[said.code.name] += 1
        wrong = ""
        if said.code in _GONE_WRONG:
            wrong = f"{said.code.name}: {said.message[:300]}"
        elif "Traceback" in said.message or len(said.message) > 4000:
            wrong = f"a message of {len(said.message)} characters: {said.message[:300]}"
        elif said.code is grpc.StatusCode.DEADLINE_EXCEEDED and patience_s == TIMEOUT_S:
            wrong = "no answer"
        elif ours and said.domain != "toehold" and said.code not in _TRANSPORT:
            wrong = f"{said.code.name} without a reason: {said.message[:300]}"
        if wrong:
            self.problems.append(f"{wrong} to {told[:2000]}")


class HostileCallers(Caller):
    """Calls a frontier in ways that make no sense."""

    def __init__(self, server: ServerProcess, seed: int) -> None:
        super().__init__(server.stubs.channel)
        self._server = server
        self._stubs = server.stubs
        self._chance = Random(f"{seed} wire")
        self._crawl = ""
        self._tokens: list[bytes] = []
        self._calls = 0
        self._judged = 0

    def call(self, count: int) -> None:
        """Make so many calls, of all RPCs in turn."""
        rpcs = sorted(RPCS)
        for number in range(count):
            if not self._calls % TIDY:
                self._tidy()
            self._calls += 1
            if number % 17 == 0:
                self._call_others()
            if number % 41 == 0:
                self._call_with_odd_head()
            self._call(rpcs[number % len(rpcs)])

    def _call(self, rpc: str) -> None:
        method, chance = RPCS[rpc], self._chance
        honest = request(rpc, self._crawl)
        if "session" in method.input_type.fields_by_name:
            honest.node = self._crawl  # each crawl has a node of its own, whose name no request has taken yet
        if rpc == "Finished" and self._tokens:
            honest.reports[0].token = chance.choice(self._tokens)
        known = [
            name.encode() for name in (self._crawl, "node", "session", seed_of(self._crawl))
        ] + self._tokens
        data = [
            mutated(chance, honest, known)
            for _ in range(chance.randrange(4) if method.client_streaming else 1)
        ]
        path = f"/{method.containing_service.full_name}/{method.name}"
        patience_s = BRIEF_S if rpc in _WAITING else TIMEOUT_S
        self._send(
            path, data, method.client_streaming, method.server_streaming, patience_s, f"{rpc} {data!r}"
        )

    def _call_others(self) -> None:
        """Services that come with gRPC, and a call that there is not."""
        path = self._chance.choice(_OTHERS)
        data = [self._chance.randbytes(self._chance.choice((0, 1, 30)))]
        bidi = path.endswith("Info")
        self._send(path, data, bidi, bidi or path.endswith("Watch"), BRIEF_S, f"{path} {data!r}", ours=False)

    def _call_with_odd_head(self) -> None:
        """A call whose metadata no gRPC library would send."""
        chance = self._chance
        odd = chance.choice(
            (b"\xff\xfe", b"\0", b"\r\nx: y", b"x" * 5000, b"-1S", b"99999999H", b"gzip", b"1n")
        )
        name = chance.choice(
            (b"toehold-operator", b"grpc-timeout", b"grpc-encoding", b"toehold-bin", b"X-Upper", b":odd")
        )
        rpc = chance.choice(("GetCrawl", "ListCrawls", "AddSeeds", "UpdateCrawl"))
        made = request(rpc, self._crawl).SerializeToString()
        try:
            raw_call(
                self._server.address, f"/{RPCS[rpc].containing_service.full_name}/{rpc}", made, (name, odd)
            )
        except (AssertionError, OSError) as problem:
            if isinstance(problem, TimeoutError):
                self.problems.append(f"{rpc} with {name!r}: {odd!r} is not answered")

    def _tidy(self) -> None:
        """A crawl that runs, with leases out; what else came to be is removed."""
        stubs = self._stubs
        for crawl in list(self._crawls()):
            self._remove(crawl.crawl, crawl.status.state)
        for checkpoint in stubs.admin.ListCheckpoints(
            admin_pb2.ListCheckpointsRequest(), timeout=TIMEOUT_S
        ).checkpoints:
            asked = admin_pb2.DeleteCheckpointRequest(checkpoint=checkpoint.checkpoint)
            stubs.admin.DeleteCheckpoint(asked, timeout=TIMEOUT_S)
        self._crawl = fresh_name()
        stubs.launch(self._crawl, *(seed_of(self._crawl, f"h{number}.") for number in range(8)))
        self._tokens = [lease.token for lease in stubs.next(self._crawl, 4, node=self._crawl).leases]

    def _crawls(self) -> Iterator[admin_pb2.Crawl]:
        token = ""
        while True:
            asked = admin_pb2.ListCrawlsRequest(page_token=token)
            answer = self._stubs.admin.ListCrawls(asked, timeout=TIMEOUT_S)
            yield from answer.crawls
            token = answer.next_page_token
            if not token:
                return

    def _remove(self, name: str, state: int) -> None:
        asked = admin_pb2.DeleteCrawlRequest(crawl=name)
        if state not in (crawl_pb2.CRAWL_STATE_FINISHED, crawl_pb2.CRAWL_STATE_NASCENT):
            try:
                for _ in range(2):
                    self._stubs.request(name, FINISH)
                eventually(lambda: self._is_over(name), f"the end of crawl {name!r}")
            except grpc.RpcError:  # being torn down, or held
                return
        try:
            self._stubs.admin.DeleteCrawl(asked, timeout=TIMEOUT_S)
        except grpc.RpcError as problem:
            self.codes[f"delete {Refusal.of(problem).reason}"] += 1

    def _is_over(self, name: str) -> bool:
        return self._stubs.describe(name).status.state == crawl_pb2.CRAWL_STATE_FINISHED

    def settle(self) -> None:
        """What must hold then: it serves, its log tells of no failure, a verification finds nothing."""
        health: Any = self._stubs.channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        answer = health(health_pb2.HealthCheckRequest(), timeout=TIMEOUT_S)
        if answer.status != health_pb2.HealthCheckResponse.SERVING:
            self.problems.append(f"health says {answer.status}")
        told = self._server.errors.read_text()[self._judged :]
        self._judged += len(told)
        if "Traceback" in told or '"level": "error"' in told:
            self.problems.append(f"the log tells of a failure: {told[-3000:]}")
        for crawl in self._crawls():
            if crawl.status.state in (
                crawl_pb2.CRAWL_STATE_RUNNING,
                crawl_pb2.CRAWL_STATE_PAUSED,
                crawl_pb2.CRAWL_STATE_EMPTY,
            ):
                job = self._stubs.job(crawl.crawl, verify={})
                if list(job.findings):
                    self.problems.append(f"a verification of {crawl.crawl!r} finds {list(job.findings)[:5]}")

    def memory(self) -> tuple[int, int]:
        """Bytes of the server's memory now, and the most that it ever had."""
        return memory_of(self._server.child.pid)


class HostileNodeCallers(Caller):
    """Calls a node's own service in ways that make no sense; all but Drain, which would end it."""

    def __init__(self, address: str, seed: int) -> None:
        super().__init__(grpc.insecure_channel(address))
        self._chance = Random(f"{seed} node")

    def call(self, count: int) -> None:
        """Make so many calls."""
        honest = [
            ("GetPool", node_pb2.GetPoolRequest()),
            ("SetPoolSize", node_pb2.SetPoolSizeRequest(size=3)),
            ("ListToes", node_pb2.ListToesRequest(stacks=True)),
            ("KillToe", node_pb2.KillToeRequest(worker=1, serial=2, replace=True)),
        ]
        for _ in range(count):
            rpc, request = self._chance.choice(honest)
            data = mutated(self._chance, request, ())
            self._send(f"/{SERVICE}/{rpc}", [data], False, False, TIMEOUT_S, f"{rpc} {data!r}")
            path = self._chance.choice(_OTHERS)
            bidi = path.endswith("Info")
            odd = [self._chance.randbytes(30)]
            self._send(
                path, odd, bidi, bidi or path.endswith("Watch"), BRIEF_S, f"{path} {odd!r}", ours=False
            )


def memory_of(process: int) -> tuple[int, int]:
    """Bytes of a process' memory now, and the most that it ever had."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    return int(lines["VmRSS"].split()[0]) * 1024, int(lines["VmHWM"].split()[0]) * 1024
