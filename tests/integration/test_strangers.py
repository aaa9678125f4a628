"""Strangers at the ports of frontier, node and gateway: without credentials they stop nothing."""

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from frontier_harness import hasty_program, strangers
from frontier_harness.calls import TIMEOUT_S
from frontier_harness.process import ServerProcess, line_of
from frontier_harness.raw_calls import Kind, SettingCodes, frame, framed, setting
from frontier_harness.waiting import PATIENCE_S, eventually
from grpc_health.v1 import health_pb2, health_pb2_grpc

from crawler_node.process import service_of
from toehold_base.serving.addresses import Address
from toehold_base.serving.connections import address_count
from toehold_base.serving.open_services import MAX_WATCHES_OF_CONNECTION
from toehold_base.serving.reflection import V1_SERVICE

MIB = 1024 * 1024
WATCH, CHECK = "/grpc.health.v1.Health/Watch", "/grpc.health.v1.Health/Check"
REFLECTION = f"/{V1_SERVICE}/ServerReflectionInfo"
DESCRIPTORS = 256
FLOOD_S = 1.0
CONNECTIONS = {"frontier": 64, "gateway": 192, "node": 32}
STRANGERS = 400
ENDS = {"frontier": 0, "gateway": 1, "node": 0}  # a gateway whose frontier is away cannot give URLs back
SERVING = health_pb2.HealthCheckResponse.SERVING


@dataclass
class Program:
    """A program that strangers reach."""

    name: str
    address: str
    process: subprocess.Popen[str]

    @property
    def bytes(self) -> int:
        """The most memory that it has had."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(peak.split()[1]) * 1024

    @property
    def descriptors(self) -> int:
        """How many it has open."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def asked(self) -> str:
        """What a client hears that connects now and asks for its health: SERVING, or why not. It connects
        again if its handshake takes too long: programs here have little patience, on a busy machine too.
        """
        with grpc.insecure_channel(self.address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
            check, request = health_of(channel).Check, health_pb2.HealthCheckRequest()
            try:
                answer = check(request, timeout=TIMEOUT_S, wait_for_ready=True)
            except grpc.RpcError as problem:
                return str(problem.code())
        return health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)


def health_of(channel: grpc.Channel) -> Any:
    return health_pb2_grpc.HealthStub(channel)


def hasty(module: str) -> tuple[str, ...]:
    return (hasty_program.__file__, module, str(DESCRIPTORS))


@contextmanager
def frontier(folder: Path) -> Iterator[Program]:
    with ServerProcess(folder / "data", program=hasty("frontier_server.program.program")) as server:
        yield Program("frontier", server.address, server.child)
        assert server.child.poll() in (None, 0), server.errors.read_text()


@contextmanager
def node(folder: Path) -> Iterator[Program]:
    flags = ("--pages", str(folder / "pages"), "--frontier", "127.0.0.1:1", "--log-level", "error")
    command = (sys.executable, *hasty("crawler_node.program"), *flags)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = line_of(process)
            yield Program("node", service_of(line), process)
            assert process.poll() in (None, 0), "it has failed"
        finally:
            process.kill()


@contextmanager
def gateway(folder: Path) -> Iterator[Program]:
    flags = ("--frontier", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--log-level", "error")
    command = (sys.executable, *hasty("urlfrontier_gateway.program"), *flags)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = line_of(process)
            yield Program("gateway", line.partition(" on ")[2].partition(",")[0], process)
            assert process.poll() in (None, 0, 1), "it has failed"
        finally:
            process.kill()


PROGRAMS: dict[str, Callable[[Path], Any]] = {"frontier": frontier, "gateway": gateway, "node": node}


@pytest.fixture
def program(name: str, tmp_path: Path) -> Iterator[Program]:
    """The program of a name. Tests sample them, as one module listens for all of them."""
    with PROGRAMS[name](tmp_path) as made:
        yield made


@pytest.mark.sampled("name", PROGRAMS)
@pytest.mark.sampled("kind", strangers.KINDS)
def test_more_silent_connections_than_descriptors_are_closed_and_others_get_in(
    program: Program, kind: str
) -> None:
    said = strangers.KINDS[kind]
    with ExitStack() as stack:
        options = [("grpc.use_local_subchannel_pool", 1)]
        channel = stack.enter_context(grpc.insecure_channel(program.address, options))
        following = health_of(channel).Watch(
            health_pb2.HealthCheckRequest(), timeout=4 * PATIENCE_S, wait_for_ready=True
        )
        assert next(following).status == SERVING
        before = program.descriptors
        crowd = stack.enter_context(strangers.connections(program.address, STRANGERS, said))
        eventually(lambda: crowd.left() <= CONNECTIONS[program.name], "those beyond the most to be closed")
        assert program.descriptors <= before + CONNECTIONS[program.name]
        answer = health_of(channel).Check(health_pb2.HealthCheckRequest(), timeout=TIMEOUT_S)
        assert answer.status == SERVING, "who is connected is served on"
        eventually(lambda: program.asked() == "SERVING", "room for a client that connects now")
        eventually(lambda: crowd.left() == 0, "the silent ones to be closed")
        assert following.is_active(), "a call that waits keeps its connection"
        eventually(lambda: program.descriptors <= before + 1, "their descriptors")


@pytest.mark.sampled("name", PROGRAMS)
@pytest.mark.sampled("kind", ["resets", "pings", "settings", "windows"])
def test_a_flood_of_frames_takes_little_memory_and_delays_no_other_client(
    program: Program, kind: str
) -> None:
    before = program.bytes
    with ThreadPoolExecutor(4) as threads:
        floods = [threads.submit(strangers.flood, program.address, WATCH, FLOOD_S, kind) for _ in range(4)]
        assert program.asked() == "SERVING"
        assert all(flood.result() for flood in floods)
    assert program.asked() == "SERVING"
    assert program.bytes - before < 128 * MIB


@pytest.mark.parametrize("name", PROGRAMS)
def test_health_watches_beyond_the_bound_are_refused_or_end_the_oldest(program: Program) -> None:
    """By a connection with more than its share, and by more connections than have room together."""
    most, each = hasty_program.WATCHES, MAX_WATCHES_OF_CONNECTION
    with ExitStack() as stack:
        options = [("grpc.use_local_subchannel_pool", 1)]

        def watches(count: int) -> list[Any]:
            channel = stack.enter_context(grpc.insecure_channel(program.address, options))
            watch = health_of(channel).Watch
            return [watch(health_pb2.HealthCheckRequest(), wait_for_ready=True) for _ in range(count)]

        served, refused = [], []
        for watch in watches(each + 2):  # they may reach the program in any order
            try:
                assert next(watch).status == SERVING
                served.append(watch)
            except grpc.RpcError as problem:
                refused.append((watch.code(), str(problem)))
        assert [code for code, _ in refused] == [grpc.StatusCode.RESOURCE_EXHAUSTED] * 2
        assert all(f"a connection may have {each} watches" in told for _, told in refused)
        others = [watch for _ in range(most // each) for watch in watches(each)]
        for watch in others:
            assert next(watch).status == SERVING
        for watch in served:
            with pytest.raises(grpc.RpcError):
                next(watch)
        assert others[-1].is_active() and program.asked() == "SERVING"


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_ends_although_a_health_watcher_reads_nothing(program: Program) -> None:
    said = strangers.SETTLED + frame(Kind.SETTINGS, 0, 0, setting(SettingCodes.INITIAL_WINDOW_SIZE, 0))
    said += strangers.unfinished_calls(WATCH, 1, framed(b"")).removeprefix(strangers.SETTLED)
    with strangers.connections(program.address, 1, said):
        assert program.asked() == "SERVING"
        program.process.terminate()
        assert program.process.wait(PATIENCE_S) == ENDS[program.name]


@pytest.mark.sampled("name", PROGRAMS)
@pytest.mark.sampled(("path", "part"), [(CHECK, 0), (WATCH, 1_000), (REFLECTION, 0)])
def test_unfinished_requests_delay_no_health_check_of_others(program: Program, path: str, part: int) -> None:
    data = framed(bytes(8 * MIB))[: part + 5] if part else b""
    before = program.bytes
    with strangers.connections(program.address, 20, strangers.unfinished_calls(path, 30, data)):
        assert program.asked() == "SERVING"
    assert program.bytes - before < 64 * MIB


def test_the_addresses_of_one_host_name_share_the_bound_on_connections(tmp_path: Path) -> None:
    place = Address("localhost", 0)
    with (
        ServerProcess(
            tmp_path / "data", listen=str(place), program=hasty("frontier_server.program.program")
        ) as server,
        ExitStack() as stack,
    ):
        program = Program("frontier", server.address, server.child)
        before = program.descriptors
        port = server.address.rpartition(":")[2]
        found = {host[0] for *_, host in socket.getaddrinfo(*place, type=socket.SOCK_STREAM)}
        for host in found:
            shown = str(Address(str(host), int(port)))
            stack.enter_context(strangers.connections(shown, STRANGERS // 2))
        assert address_count(place) == len(found)
        most = before + CONNECTIONS["frontier"]
        eventually(lambda: program.descriptors <= most, "connections beyond the bound are closed")
