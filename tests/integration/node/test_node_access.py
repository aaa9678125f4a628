"""NodeService for callers with roles, over TLS; and a worker process that answers its supervisor alone."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import Mock

import grpc
import pytest
from frontier_harness.access import Installation, bearer_channel
from frontier_harness.calls import Refusal
from frontier_harness.waiting import PATIENCE_S, eventually
from google.protobuf import message_factory
from grpc_health.v1 import health_pb2, health_pb2_grpc
from node_doubles.frontier import FakeFrontier
from node_doubles.node import Run
from structlog.testing import capture_logs

from crawler_node.control import access
from crawler_node.control.access import Access
from crawler_node.control.service import MAX_CALLS, NodeServer, listen_address
from crawler_node.control.single_process import SingleProcessControl
from toehold.node.v1 import node_pb2, node_pb2_grpc
from toehold_base.access.callers import Callers
from toehold_base.access.denials import LOGGED_A_SECOND
from toehold_base.access.roles import ROLES, Role
from toehold_base.access.server_tls import ServerTls
from toehold_base.serving.addresses import Address
from toehold_client import Credentials, NodeClient
from toehold_client.errors import NodeUnavailable, PermissionDenied, Unauthenticated

METHODS = node_pb2.DESCRIPTOR.services_by_name["NodeService"].methods


class Served:
    """A node whose service has this access."""

    def __init__(self, access: Access, frontier: FakeFrontier, folder: Path, stack: ExitStack) -> None:
        self._stack = stack
        self.server = NodeServer(access)
        self.server.bind(Address("127.0.0.1", 0))
        run = Run(frontier, folder)
        self.server.start(SingleProcessControl(run.node, "n1", frontier.address, "s1"))
        self.server.serving()
        stack.callback(run.node.drain)
        stack.callback(self.server.stop)

    def refusal(self, method: str, token: str = "") -> Refusal | None:
        """How a call is refused."""
        channel = self._stack.enter_context(bearer_channel(self.server.address, token))
        stub = node_pb2_grpc.NodeServiceStub(channel)
        kind = next(each.input_type for each in METHODS if each.name == method)
        try:
            getattr(stub, method)(message_factory.GetMessageClass(kind)(), timeout=PATIENCE_S)
        except grpc.RpcError as error:
            return Refusal.of(error)
        return None

    def silent_calls(self, method: str, count: int, token: str = "") -> list[Any]:
        """Calls of somebody who never sends a message."""
        never = Event()
        self._stack.callback(never.set)

        def nothing() -> Iterator[bytes]:
            never.wait(PATIENCE_S)
            yield b""

        channel = self._stack.enter_context(bearer_channel(self.server.address, token))
        call: Any = channel.stream_unary(f"/{method}")
        calls = [call.future(nothing()) for _ in range(count)]
        for each in calls:
            self._stack.callback(each.cancel)
        return calls


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    return Installation(tmp_path / "installation")


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_each_rpc_of_a_node_is_for_its_roles(
    installation: Installation, frontier: FakeFrontier, tmp_path: Path, stack: ExitStack
) -> None:
    tokens = {role: installation.caller(role.value, role.value) for role in Role}
    served = Served(Access(callers=Callers(installation.callers)), frontier, tmp_path, stack)
    for method in METHODS:
        if method.name == "Drain":
            continue  # the last one
        for role, token in tokens.items():
            refusal = served.refusal(method.name, token)
            denied = refusal is not None and refusal.reason == "ROLE_MISSING"
            assert denied is (role not in ROLES[f"{method.containing_service.full_name}/{method.name}"])
        refusal = served.refusal(method.name)
        assert refusal is not None
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAUTHENTICATED, "CREDENTIALS_MISSING")
    refusal = served.refusal("Drain", tokens[Role.WATCH])
    assert refusal is not None
    assert refusal.reason == "ROLE_MISSING"
    assert served.refusal("Drain", tokens[Role.OPERATE]) is None


def test_a_caller_of_some_crawls_may_not_ask_a_node_which_is_for_all(
    installation: Installation, frontier: FakeFrontier, tmp_path: Path, stack: ExitStack
) -> None:
    token = installation.caller("news", "operate", crawls=["news"])
    served = Served(Access(callers=Callers(installation.callers)), frontier, tmp_path, stack)
    for method in METHODS:
        refusal = served.refusal(method.name, token)
        assert refusal is not None
        assert refusal.reason == "CRAWL_NOT_ALLOWED"
        assert refusal.message.endswith(f"and {method.name} is about all crawls")


@pytest.mark.parametrize("silent", ["toehold.node.v1.NodeService/GetPool", "grpc.health.v1.Health/Check"])
def test_callers_without_credentials_who_never_send_a_message_hold_up_nobody(
    installation: Installation, frontier: FakeFrontier, tmp_path: Path, stack: ExitStack, silent: str
) -> None:
    token = installation.caller("ops", "operate")
    served = Served(Access(callers=Callers(installation.callers)), frontier, tmp_path, stack)
    served.silent_calls(silent, MAX_CALLS + 4)
    assert served.refusal("GetPool", token) is None


def test_a_caller_of_a_node_has_as_many_calls_open_as_it_may(
    installation: Installation, frontier: FakeFrontier, tmp_path: Path, stack: ExitStack
) -> None:
    token, other = installation.caller("ops", "operate", max_calls=2), installation.caller("eve", "watch")
    served = Served(Access(callers=Callers(installation.callers)), frontier, tmp_path, stack)
    silent = served.silent_calls("toehold.node.v1.NodeService/GetPool", 2, token)

    def refused() -> Refusal | None:
        return served.refusal("GetPool", token)

    eventually(lambda: refused() is not None)
    refusal = refused()
    assert refusal is not None
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "CALLER_LIMIT")
    assert refusal.message == "caller 'ops' may have 2 calls open at once; try later"
    assert served.refusal("GetPool", other) is None
    silent[0].cancel()
    eventually(lambda: refused() is None)


def test_a_flood_of_denied_calls_does_not_fill_the_log(
    installation: Installation,
    frontier: FakeFrontier,
    tmp_path: Path,
    stack: ExitStack,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installation.caller("ops", "operate")
    monkeypatch.setattr(access, "time", Mock(monotonic=lambda: 7.0))
    served = Served(Access(callers=Callers(installation.callers)), frontier, tmp_path, stack)
    with capture_logs() as lines:
        for _ in range(LOGGED_A_SECOND + 5):
            served.refusal("GetPool")
    assert [line["event"] for line in lines].count("call_denied") == LOGGED_A_SECOND


def test_health_is_for_everybody(
    installation: Installation, frontier: FakeFrontier, tmp_path: Path, stack: ExitStack
) -> None:
    installation.caller("ops", "operate")
    served = Served(Access(callers=Callers(installation.callers)), frontier, tmp_path, stack)
    with grpc.insecure_channel(served.server.address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE_S)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_callers_of_a_node_come_and_go(
    installation: Installation, frontier: FakeFrontier, tmp_path: Path, stack: ExitStack
) -> None:
    installation.caller("ops", "operate")
    served = Served(Access(callers=Callers(installation.callers)), frontier, tmp_path, stack)
    late = installation.caller("late", "watch")
    assert served.refusal("GetPool", late) is None
    installation.registry.revoke_caller("late")
    refusal = served.refusal("GetPool", late)
    assert refusal is not None
    assert refusal.reason == "CALLER_REVOKED"
    installation.callers.write_text("[nonsense")
    refusal = served.refusal("GetPool", late)
    assert refusal is not None
    assert refusal.reason == "CALLER_REVOKED", "they stay as they were"


def test_a_node_with_tls_takes_callers_with_certificates(
    installation: Installation, frontier: FakeFrontier, tmp_path: Path, stack: ExitStack
) -> None:
    cert, key = installation.cert("n1", "127.0.0.1")
    mine, my_key = installation.cert("ops")
    installation.caller("ops", "operate")
    tls = ServerTls(cert, key, installation.authority.cert, lambda problem: None)
    served = Served(Access(tls, Callers(installation.callers)), frontier, tmp_path, stack)
    credentials = Credentials(tls_ca=installation.authority.cert, tls_cert=mine, tls_key=my_key)
    with NodeClient(served.server.address, credentials=credentials) as client:
        assert client.get_pool().node == "n1"
    strange = Credentials(tls_ca=installation.authority.cert, tls_cert=cert, tls_key=key)
    with NodeClient(served.server.address, credentials=strange) as client, pytest.raises(Unauthenticated):
        client.get_pool()
    with (
        NodeClient(served.server.address) as client,
        pytest.raises(NodeUnavailable, match="speaks TLS"),
    ):
        client.get_pool()
    installation.registry.set_caller("ops", {"roles": ["fetch"]})
    with (
        NodeClient(served.server.address, credentials=credentials) as client,
        pytest.raises(PermissionDenied),
    ):
        client.get_pool()


def test_a_worker_process_answers_its_supervisor_alone(
    frontier: FakeFrontier, tmp_path: Path, stack: ExitStack
) -> None:
    served = Served(Access(token="secret"), frontier, tmp_path, stack)
    assert served.refusal("GetPool", "secret") is None
    for token in ("", "wrong"):
        refusal = served.refusal("GetPool", token)
        assert refusal is not None
        assert (refusal.reason, refusal.message) == (
            "TOKEN_UNKNOWN",
            "only its supervisor may ask a process of a node",
        )
    eventually(lambda: served.refusal("GetPool", "secret") is None)


def test_beyond_loopback_a_node_needs_tls_and_callers() -> None:
    with pytest.raises(ValueError, match="add --tls-cert, --tls-key and --callers"):
        listen_address("0.0.0.0:1", insecure=False)
    assert listen_address("0.0.0.0:1", insecure=False, is_safe=True) == ("0.0.0.0", 1)
