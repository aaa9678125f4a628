"""`toehold health`: whether a frontier or a node serves, told by exit codes and words."""

import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from frontier_harness.access import Installation
from frontier_harness.process import ServerProcess, run_to_end
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from toehold_cli.main import run

Health = Callable[..., tuple[int, str, str]]
SERVICE = "toehold.node.v1.NodeService"


class Server:
    """A server with nothing but a health service."""

    def __init__(self) -> None:
        self._server = grpc.server(ThreadPoolExecutor(2))
        self.health = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self.health, self._server)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def tell(self, serving: bool) -> None:
        status = health_pb2.HealthCheckResponse
        for name in ("", SERVICE):
            self.health.set(name, status.SERVING if serving else status.NOT_SERVING)

    def stop(self) -> None:
        self._server.stop(None).wait()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Health:
    def asked(*words: str) -> tuple[int, str, str]:
        code = run(["health", *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return asked


def test_a_server_that_serves_is_told_with_0_and_one_that_does_not_with_11(
    ask: Health, server: Server
) -> None:
    server.tell(True)
    assert ask("--frontier", server.address) == (0, f"frontier at {server.address}: serving\n", "")
    assert ask("--node", server.address) == (0, f"node at {server.address}: serving\n", "")
    server.tell(False)
    assert ask("--frontier", server.address) == (11, f"frontier at {server.address}: not serving\n", "")
    assert ask("--node", server.address, "--service", SERVICE) == (
        *(11, f"node at {server.address}, {SERVICE}: not serving\n"),
        "",
    )


def test_programs_get_an_object(ask: Health, server: Server) -> None:
    server.tell(False)
    code, output, _ = ask("--node", server.address, "--json")
    about = {"server": "node", "address": server.address, "service": "", "status": "NOT_SERVING"}
    assert (code, json.loads(output)) == (11, about)


def test_a_service_that_a_server_lacks_is_told_with_9(ask: Health, server: Server) -> None:
    assert ask("--node", server.address, "--service", "x") == (
        *(9, ""),
        f"Error: the node at {server.address} has no service 'x'\n",
    )


def test_an_address_at_which_nothing_listens_is_told_with_3(ask: Health) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        code, output, errors = ask("--node", f"127.0.0.1:{taken.getsockname()[1]}")
    assert (code, output) == (3, "") and errors.startswith("Error: no node answers at 127.0.0.1:")


def test_a_server_that_does_not_answer_in_time_is_told_with_3(ask: Health) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        code, output, errors = ask("--timeout", "0.2", "--frontier", f"127.0.0.1:{silent.getsockname()[1]}")
    assert (code, output) == (3, "") and errors.startswith("Error: ")


def test_the_address_on_which_a_server_listens_everywhere_means_this_machine(
    ask: Health, server: Server
) -> None:
    server.tell(True)
    code, output, _ = ask("--node", server.address.replace("127.0.0.1", "0.0.0.0"))
    assert (code, output) == (0, f"node at {server.address}: serving\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--node", "x"), "the address of a node must be HOST:PORT, such as 127.0.0.1:7707, got 'x'"),
        (("--node", "a:1", "--frontier", "b:1"), "--node needs no frontier. Remove --frontier and --dir."),
        (("--node", "a:1", "--dir", "b"), "--node needs no frontier. Remove --frontier and --dir."),
        (("--timeout", "0"), "Invalid value for '--timeout': must be between 0.1 and 3600, got 0"),
    ],
)
def test_what_makes_no_sense_is_told_with_2(ask: Health, words: tuple[str, ...], said: str) -> None:
    code, output, errors = ask(*words)
    assert (code, output) == (2, "") and errors.endswith(f"Error: {said}\n")


def test_a_frontier_on_the_command_line_counts_before_a_node_in_a_variable(
    ask: Health, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.tell(True)
    monkeypatch.setenv("TOEHOLD_HEALTH_NODE", server.address)
    assert ask()[1] == f"node at {server.address}: serving\n"
    assert ask("--frontier", server.address)[1] == f"frontier at {server.address}: serving\n"


def test_it_takes_tls_and_no_role(ask: Health, tmp_path: Path) -> None:
    installation = Installation(tmp_path / "access")
    installation.caller("alice", "watch")
    installation.cert("frontier", "127.0.0.1")
    authority = str(installation.authority.cert)
    with ServerProcess(tmp_path / "data", *installation.flags(mutual=False)) as frontier:
        code, output, _ = ask("--frontier", frontier.address, "--tls-ca", authority)
        assert (code, output) == (0, f"frontier at {frontier.address}: serving\n")
        code, output, errors = ask("--frontier", frontier.address)
        assert (code, output) == (3, "") and "speaks TLS" in errors


def test_grpc_adds_no_lines_of_its_own_to_what_toehold_says(server: Server, tmp_path: Path) -> None:
    installation = Installation(tmp_path / "access")
    installation.cert("frontier", "127.0.0.1")
    authority = str(installation.authority.cert)
    words = ("health", "--frontier", server.address, "--tls-ca", authority)
    ended = run_to_end(*words, program=("-m", "toehold_cli"))
    assert ended.stderr == f"Error: the frontier at {server.address} does not speak TLS; leave tls_ca out\n"
