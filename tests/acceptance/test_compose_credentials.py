"""The credentials of compose.yaml: made once, handed out, and enough for its programs to trust each other."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import grpc
import pytest
from acceptance.programs import Programs, script
from frontier_harness.console import ConsoleProcess
from frontier_harness.deployed import CONTAINERS, documents, flags
from frontier_harness.waiting import PATIENCE_S, eventually
from grpc_health.v1 import health_pb2, health_pb2_grpc

(COMPOSE,) = documents(CONTAINERS / "compose.yaml")
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OWN = ("frontier", "node", "operator", "console")
ENDED, DENIED = 0, 10
SERVING = health_pb2.HealthCheckResponse.SERVING

Make: TypeAlias = Callable[..., str]
"""Runs the script with arguments; what it prints."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the volumes are mounted."""
    made = tmp_path_factory.mktemp("credentials")
    for name in ("authority", *OWN):
        (made / name).mkdir()
    return made


@pytest.fixture(scope="module")
def make(directory: Path) -> Make:
    def run(*arguments: str) -> str:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["sh", str(CONTAINERS / "credentials.sh"), *arguments],
            env={"PATH": path, "DIRECTORY": str(directory)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    run()
    return run


def files(directory: Path) -> dict[str, bytes]:
    """All files below a directory."""
    return {
        str(file.relative_to(directory)): file.read_bytes() for file in directory.rglob("*") if file.is_file()
    }


def here(service: str, kind: str, directory: Path, folder: Path) -> dict[str, str]:
    """The environment of a service, with this machine's places in place of a container's."""
    places = {"/etc/toehold": str(directory / kind), "/var/lib": str(folder)}
    environment: Mapping[str, str] = SERVICES[service]["environment"]
    own = dict(environment)
    for name, value in own.items():
        for theirs, ours in places.items():
            value = value.replace(theirs, ours)
        own[name] = "127.0.0.1:0" if value.startswith("0.0.0.0:") else value
    return own


def test_only_the_authority_can_sign_and_only_their_user_reads_the_files(make: Make, directory: Path) -> None:
    made = files(directory)
    assert [name for name in made if name.endswith("ca.key")] == ["authority/certs/ca.key"]
    for name in OWN:
        callers = {f"{name}/callers.toml"} if name in ("frontier", "node") else set[str]()
        own = {file for file in made if file.startswith(f"{name}/")}
        assert own == {f"{name}/{file}" for file in ("ca.crt", "tls.crt", "tls.key")} | callers
        assert all(stat.S_IMODE((directory / file).stat().st_mode) == 0o600 for file in own)


def test_a_second_run_changes_nothing_and_an_argument_changes_what_it_says(
    make: Make, directory: Path
) -> None:
    before = files(directory)
    assert make() == ""
    assert files(directory) == before
    make("certs", "create", "operator", "--renew")
    after = files(directory)
    changed = {name for name in after if after[name] != before[name]}
    assert {"operator/tls.crt", "operator/tls.key"} <= changed
    assert all(name.startswith(("operator/", "authority/certs/operator.")) for name in changed)


def test_the_s3_server_of_machines_and_the_frontier_get_the_same_password_once(
    make: Make, directory: Path
) -> None:
    assert "frontier/bucket.env" not in files(directory), "without the server nobody needs one"
    (directory / "bucket").mkdir()
    make()
    made = files(directory)
    own, server = (
        dict(line.split("=", 1) for line in made[name].decode().splitlines())
        for name in ("frontier/bucket.env", "bucket/server.env")
    )
    assert own.keys() == {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
    assert server.keys() == {"MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD"}
    assert list(own.values()) == list(server.values())
    assert len(own["AWS_SECRET_ACCESS_KEY"]) == 40
    for name in ("frontier/bucket.env", "bucket/server.env"):
        assert stat.S_IMODE((directory / name).stat().st_mode) == 0o600
    make()
    assert files(directory) == made


def health(address: str, own: Mapping[str, str]) -> int:
    """The answer of the health service at an address to the client that these variables describe."""
    authority, key, cert = (Path(own[f"TOEHOLD_TLS_{name}"]).read_bytes() for name in ("CA", "KEY", "CERT"))
    with grpc.secure_channel(address, grpc.ssl_channel_credentials(authority, key, cert)) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        return int(stub.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE_S).status)


def test_frontier_node_and_client_trust_each_other_and_the_console_acts_for_its_users(
    make: Make, directory: Path, tmp_path: Path
) -> None:
    def toehold(kind: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        service = {"operator": "client"}.get(kind, kind)
        own = here(service, kind, directory, tmp_path) | {"TOEHOLD_FRONTIER": address}
        command = [script("toehold"), *arguments]
        return subprocess.run(
            command, env=own, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )

    with Programs(tmp_path) as programs:
        own = here("frontier", "frontier", directory, tmp_path)
        started = flags("toehold-frontier", own)
        frontier = programs.start("frontier", script("toehold-frontier"), *started)
        address = frontier.wait_ready().rpartition(" ")[2]
        assert health(address, own) == SERVING, "a health check shows the frontier's own certificate"
        own = here("node-1", "node", directory, tmp_path) | {"TOEHOLD_FRONTIER": address}
        programs.start("node", script("toehold-node"), *flags("toehold-node", own)).wait_ready()
        listed = eventually(lambda: toehold("operator", "nodes", "--json").stdout, "the node to join")
        (node,) = map(json.loads, listed.splitlines())
        assert node["node"] == "node-1"
        assert health(node["service_address"], own) == SERVING
        assert toehold("operator", "nodes", "toes", "node-1").returncode == ENDED
        unknown = toehold("console", "nodes")
        assert unknown.returncode == DENIED and "not among the server's callers" in unknown.stderr
        make("callers", "set", "alice", "--role", "watch")
        token = make("tokens", "create", "alice").split()[-1]
        assert token.startswith("toehold_")
        own = here("console", "console", directory, tmp_path)
        tls = [f"--tls-{name}={own[f'TOEHOLD_TLS_{name.upper()}']}" for name in ("ca", "cert", "key")]
        with ConsoleProcess(address, tmp_path, *tls, "--insecure") as console:
            http = console.http
            bearer = {"authorization": f"Bearer {token}"}

            def asked(rpc: str, **message: str) -> int:
                path = f"/v1/FrontierAdminService/{rpc}"
                return http.post(path, json=message, headers=bearer).status_code

            assert http.post("/v1/FrontierAdminService/ListCrawls", json={}).status_code == 401
            eventually(lambda: asked("ListCrawls") == 200, "the frontier to know alice")
            assert asked("DrainNode", node="node-1") == 403
