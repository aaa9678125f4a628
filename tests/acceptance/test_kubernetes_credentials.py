"""The commands of docs/network.md and docs/machines.md make the Secrets of the manifests, and programs start
with them.
"""

import json
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from acceptance.programs import Programs, script
from frontier_harness.deployed import KUBERNETES, ROOT, documents, flags
from frontier_harness.waiting import eventually

from toehold_cli.main import run

RESOURCES = [each for file in (KUBERNETES / "base").glob("*.yaml") for each in documents(file)]
NAMED = {(each["kind"], each.get("metadata", {}).get("name", "")): each for each in RESOURCES}
POD = "toehold-node-5c9f7b6d4-x2x7k"
"""As Kubernetes names a node's pod."""
FROM_FILE = "--from-file="


def commands(name: str = "network.md") -> list[list[str]]:
    """The commands of a page that make credentials."""
    page = (ROOT / "docs" / name).read_text()
    (block,) = [part for part in page.split("```") if part.startswith("console") and "secret generic" in part]
    lines = block.replace("\\\n", " ").splitlines()
    return [shlex.split(line.strip().removeprefix("$ ")) for line in lines if line.strip().startswith("$ ")]


def secret(words: list[str]) -> dict[str, bytes]:
    """The content of a Secret that `kubectl create secret generic` makes."""
    files = [word.removeprefix(FROM_FILE) for word in words if word.startswith(FROM_FILE)]
    named = [file.partition("=") if "=" in file else (Path(file).name, "=", file) for file in files]
    return {key: Path(path).read_bytes() for key, _, path in named}


def started(
    programs: Programs,
    workload: Mapping[str, Any],
    secrets: Mapping[str, dict[str, bytes]],
    own: Mapping[str, str],
    named: Mapping[tuple[str, str], Any] = NAMED,
) -> str:
    """Starts the program of a workload as its pod would, with its ConfigMap, its Secrets and variables of its
    own; its ready line."""
    pod = workload["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (program,) = container["command"]
    sources = {each["name"]: each for each in pod["volumes"]}
    root = programs.folder / program
    for mount in container["volumeMounts"]:
        place = root / mount["mountPath"].lstrip("/")
        place.mkdir(parents=True)
        if "secret" in (source := sources.get(mount["name"], {})):
            for key, content in secrets[source["secret"]["secretName"]].items():
                (place / key).write_bytes(content)
    variables = named["ConfigMap", container["envFrom"][0]["configMapRef"]["name"]]["data"]
    environment = {name: _here(name, value, root) for name, value in variables.items()} | dict(own)
    return programs.start(program, script(program), *flags(program, environment)).wait_ready()


def _here(name: str, value: str, root: Path) -> str:
    """The value of a variable with this machine's places, and free ports of loopback."""
    if name.endswith(("_LISTEN", "_METRICS")):
        return "127.0.0.1:0"
    return f"{root}{value}" if value.startswith("/") else value


def made(page: str = "network.md", *further: str) -> dict[str, dict[str, bytes]]:
    """The Secrets that a page's commands make. `further` is added where they make certificates."""
    secrets: dict[str, dict[str, bytes]] = {}
    for words in commands(page):
        if words[0] == "toehold":
            assert run([*words[1:], *further]) == 0
        elif "secret" in words:
            secrets[words[words.index("generic") + 1]] = secret(words)
    return secrets


def test_frontier_and_node_start_with_the_secrets_of_the_manual(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    secrets = made()
    with Programs(tmp_path) as programs:
        ready = started(programs, NAMED["StatefulSet", "toehold-frontier"], secrets, {})
        address = ready.rpartition(" ")[2]
        own = {"TOEHOLD_FRONTIER": address, "TOEHOLD_NODE_NAME": POD}
        started(programs, NAMED["Deployment", "toehold-node"], secrets, own)
        for name, value in {"CA": "ca.crt", "CERT": "alice.crt", "KEY": "alice.key"}.items():
            monkeypatch.setenv(f"TOEHOLD_TLS_{name}", f"certs/{value}")
        capsys.readouterr()

        def nodes() -> list[dict[str, str]]:
            assert run(["nodes", "--frontier", address, "--json"]) == 0
            listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
            return [node for node in listed if node["service_address"]]  # it says so with a heartbeat

        (node,) = eventually(nodes, "the node to join")
        assert node["node"] == POD
        assert run(["nodes", "toes", "--at", node["service_address"], "--json"]) == 0


def test_machines_meet_with_the_secrets_of_the_manual(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl, which has kustomize, is not here")
    monkeypatch.chdir(tmp_path)
    build = ["kubectl", "kustomize", str(KUBERNETES / "machines")]
    resources = yaml.safe_load_all(subprocess.run(build, capture_output=True, check=True).stdout)
    named = {(each["kind"], each["metadata"]["name"]): each for each in resources}
    secrets = made() | made("machines.md")  # the machines' certificate names no address
    with ExitStack() as stack:
        addresses = []
        for number in range(2):
            pod = tmp_path / f"pod-{number}"
            pod.mkdir()
            own = {
                "TOEHOLD_FRONTIER_MACHINE": f"toehold-frontier-{number}",
                "TOEHOLD_FRONTIER_CLUSTER_LISTEN": "127.0.0.1",
                "TOEHOLD_FRONTIER_LOG": f"file://{tmp_path}/bucket",
            }
            workload = named["Deployment", "toehold-frontier"]
            ready = started(stack.enter_context(Programs(pod)), workload, secrets, own, named)
            addresses.append(ready.rpartition(" ")[2])
        for name, value in {"CA": "ca.crt", "CERT": "alice.crt", "KEY": "alice.key"}.items():
            monkeypatch.setenv(f"TOEHOLD_TLS_{name}", f"certs/{value}")
        capsys.readouterr()

        def holders() -> set[str]:
            assert run(["shards", "list", "--log", own["TOEHOLD_FRONTIER_LOG"], "--json"]) == 0
            listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
            return {each["machine"] for each in listed if "member" in each}

        eventually(lambda: holders() == {"toehold-frontier-0", "toehold-frontier-1"}, "both to have members")
        for address in addresses:
            assert run(["health", "--frontier", address]) == 0
