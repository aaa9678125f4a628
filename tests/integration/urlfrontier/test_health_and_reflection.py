"""gRPC's health and reflection at a gateway: by gRPC's own stubs, and with `buf curl`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest
from frontier_harness.gateway import GatewayProcess, discovered
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import PATIENCE_S
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2

from toehold_base.serving.reflection import V1_SERVICE

VERSIONS = [V1_SERVICE, "grpc.reflection.v1alpha.ServerReflection"]
SERVICES = {"urlfrontier.URLFrontier", "grpc.health.v1.Health"}
SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
BUF = Path(sys.executable).parent / "buf"


def health_of(channel: grpc.Channel) -> Any:
    return health_pb2_grpc.HealthStub(channel)


@pytest.mark.parametrize("name", ["", "urlfrontier.URLFrontier"])
def test_the_service_is_healthy(gateway: GatewayProcess, name: str) -> None:
    with grpc.insecure_channel(gateway.address) as channel:
        asked = health_pb2.HealthCheckRequest(service=name)
        assert health_of(channel).Check(asked, timeout=PATIENCE_S).status == SERVING


def test_the_health_of_an_unknown_service_is_not_found(gateway: GatewayProcess) -> None:
    with grpc.insecure_channel(gateway.address) as channel:
        asked = health_pb2.HealthCheckRequest(service="nothing")
        with pytest.raises(grpc.RpcError) as raised:
            health_of(channel).Check(asked, timeout=PATIENCE_S)
        assert raised.value.code() == grpc.StatusCode.NOT_FOUND


def test_a_watcher_sees_that_the_gateway_stops(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path / "data") as server,
        GatewayProcess(server.address, tmp_path / "gateway.stderr") as one,
        grpc.insecure_channel(one.address) as channel,
    ):
        watching = health_of(channel).Watch(health_pb2.HealthCheckRequest(), timeout=PATIENCE_S)
        assert next(watching).status == SERVING
        one.client.put(discovered("http://watch.example/"))
        assert one.stop() == 0
        assert next(watching).status == NOT_SERVING
        with pytest.raises(grpc.RpcError) as raised:
            next(watching)
        assert raised.value.code() == grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("version", VERSIONS)
def test_reflection_lists_all_services(gateway: GatewayProcess, version: str) -> None:
    with grpc.insecure_channel(gateway.address) as channel:
        call = channel.stream_stream(
            f"/{version}/ServerReflectionInfo",
            reflection_pb2.ServerReflectionRequest.SerializeToString,
            reflection_pb2.ServerReflectionResponse.FromString,
        )
        asked = reflection_pb2.ServerReflectionRequest(list_services="")
        answers = list(call(iter([asked, asked]), timeout=PATIENCE_S))
    for answer in answers:
        assert {each.name for each in answer.list_services_response.service} == {*SERVICES, *VERSIONS}
    assert len(answers) == 2


@pytest.mark.parametrize("version", ["grpc-v1", "grpc-v1alpha"])
def test_buf_calls_a_method_with_reflection_alone(gateway: GatewayProcess, version: str) -> None:
    url = f"http://{gateway.address}/urlfrontier.URLFrontier/ListNodes"
    told = subprocess.run(
        [BUF, "curl", "--protocol", "grpc", "--http2-prior-knowledge", "--reflect-protocol", version, url],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout) == {"values": [gateway.address]}
