"""gRPC's reflection, v1 and v1alpha, of the frontier and of a node: by raw calls, and with `buf curl`."""

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from frontier_harness.calls import TIMEOUT_S
from frontier_harness.process import ServerProcess
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.rpc import error_details_pb2
from grpc_reflection.v1alpha import reflection_pb2
from node_doubles.frontier import FakeFrontier
from node_doubles.node import Run

from crawler_node.control.service import NodeServer
from crawler_node.control.single_process import SingleProcessControl
from toehold_base.serving.addresses import Address
from toehold_base.serving.reflection import V1_SERVICE

VERSIONS = [V1_SERVICE, "grpc.reflection.v1alpha.ServerReflection"]
FRONTIER, NODE = "toehold.frontier.v1", "toehold.node.v1"
FRONTIER_SERVICES = {f"{FRONTIER}.FrontierService", f"{FRONTIER}.FrontierAdminService"}
NODE_SERVICES = {f"{NODE}.NodeService"}
NOT_FOUND: int = grpc.StatusCode.NOT_FOUND.value[0]
BUF = Path(sys.executable).parent / "buf"


@pytest.fixture
def node_address(tmp_path: Path) -> Iterator[str]:
    """Where a node listens that has not begun to fetch."""
    frontier = FakeFrontier()
    control = SingleProcessControl(Run(frontier, tmp_path).node, "n1", frontier.address, "s1")
    served = NodeServer()
    served.bind(Address("127.0.0.1", 0))
    served.start(control)
    yield served.address
    served.stop()
    frontier.stop()


@pytest.fixture(params=["frontier", "node"])
def program(request: pytest.FixtureRequest) -> tuple[str, set[str]]:
    """A program's address and services."""
    if request.param == "node":
        return request.getfixturevalue("node_address"), NODE_SERVICES
    server: ServerProcess = request.getfixturevalue("server")
    return server.address, FRONTIER_SERVICES


def ask(address: str, version: str, **asked: str) -> reflection_pb2.ServerReflectionResponse:
    """One question, by a version's name."""
    with grpc.insecure_channel(address) as channel:
        call = channel.stream_stream(
            f"/{version}/ServerReflectionInfo",
            reflection_pb2.ServerReflectionRequest.SerializeToString,
            reflection_pb2.ServerReflectionResponse.FromString,
        )
        request = reflection_pb2.ServerReflectionRequest(**asked)  # type: ignore[arg-type]  # one field of it
        (answer,) = call(iter([request]), timeout=TIMEOUT_S)
        return answer


def files(answer: reflection_pb2.ServerReflectionResponse) -> dict[str, FileDescriptorProto]:
    """The files of an answer, by name."""
    found = map(FileDescriptorProto.FromString, answer.file_descriptor_response.file_descriptor_proto)
    return {file.name: file for file in found}


@pytest.mark.parametrize("version", VERSIONS)
def test_both_versions_list_the_same_services(program: tuple[str, set[str]], version: str) -> None:
    address, services = program
    listed = {each.name for each in ask(address, version, list_services="").list_services_response.service}
    assert listed == {*services, "grpc.health.v1.Health", *VERSIONS}
    for name in listed:
        assert files(ask(address, version, file_containing_symbol=name)), name


@pytest.mark.sampled("version", VERSIONS)
@pytest.mark.sampled(
    ("symbol", "file"),
    [
        ("FrontierService", "frontier"),
        ("FrontierService.Next", "frontier"),
        ("FrontierAdminService.CreateCrawl", "admin"),
        ("Candidate", "frontier"),
        ("Candidate.uri", "frontier"),
        ("Verdict", "crawl"),
        ("VERDICT_QUEUED", "crawl"),
        ("Statistics.VerdictCountsEntry", "crawl"),
    ],
)
def test_a_symbol_of_each_kind_is_found_with_all_that_its_file_needs(
    server: ServerProcess, version: str, symbol: str, file: str
) -> None:
    found = files(ask(server.address, version, file_containing_symbol=f"{FRONTIER}.{symbol}"))
    assert f"toehold/frontier/v1/{file}.proto" in found
    assert all(name in found for each in found.values() for name in each.dependency)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("symbol", [f"{NODE}.NodeService.KillToe", f"{NODE}.Toe", f"{FRONTIER}.ToeStepCount"])
def test_a_node_shows_its_own_symbols(node_address: str, version: str, symbol: str) -> None:
    assert files(ask(node_address, version, file_containing_symbol=symbol))


@pytest.mark.sampled("version", VERSIONS)
@pytest.mark.sampled(
    "symbol",
    [
        "",
        ".",
        FRONTIER,
        f"{FRONTIER}.Nothing",
        f"{FRONTIER}.FrontierService.Nothing",
        f"{FRONTIER}.Verdict.Next",
    ],
)
def test_an_unknown_symbol_is_an_answer_and_not_the_end_of_the_call(
    program: tuple[str, set[str]], version: str, symbol: str
) -> None:
    answer = ask(program[0], version, file_containing_symbol=symbol)
    assert answer.error_response.error_code == NOT_FOUND
    answer = ask(program[0], version, file_by_filename=f"{symbol}.proto")
    assert answer.error_response.error_code == NOT_FOUND


def test_each_version_shows_its_own_file(program: tuple[str, set[str]]) -> None:
    for version in VERSIONS:
        ((name, file),) = files(ask(program[0], version, file_containing_symbol=version)).items()
        (service,) = file.service
        assert f"{file.package}.{service.name}" == version
        assert service.method[0].input_type == f".{file.package}.ServerReflectionRequest"
        assert files(ask(program[0], version, file_by_filename=name)) == {name: file}


def buf_curl(url: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """Calls with nothing but the server's reflection."""
    return subprocess.run(
        [BUF, "curl", "--protocol", "grpc", *flags, f"http://{url}"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )


@pytest.mark.parametrize("version", ["grpc-v1", "grpc-v1alpha"])
def test_buf_calls_a_method_with_reflection_alone(server: ServerProcess, version: str) -> None:
    method = f"{server.address}/{FRONTIER}.FrontierAdminService/GetFrontier"
    told = buf_curl(method, "--reflect-protocol", version)
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["limits"]["maxCandidates"] == 1000


def test_buf_shows_a_refusal_with_its_reason(server: ServerProcess) -> None:
    method = f"{server.address}/{FRONTIER}.FrontierAdminService/GetCrawl"
    told = buf_curl(method, "--data", '{"crawl": "no-such-crawl"}')
    assert told.returncode == NOT_FOUND << 3
    detail, request = json.loads(told.stderr)["details"]
    info = error_details_pb2.ErrorInfo.FromString(base64.b64decode(detail["value"] + "=="))
    assert (detail["type"], info.reason) == ("google.rpc.ErrorInfo", "UNKNOWN_CRAWL")
    assert request["type"] == "google.rpc.RequestInfo"


def test_buf_lists_the_methods_of_every_program(program: tuple[str, set[str]]) -> None:
    address, services = program
    told = buf_curl(address, "--list-methods")
    assert told.returncode == 0, told.stderr
    listed = {method.rpartition("/")[0] for method in told.stdout.split()}
    assert listed == {*services, "grpc.health.v1.Health", *VERSIONS}
