"""`toehold nodes` on a real frontier and the real `toehold-node`: what its toe threads do, kill, drain."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faults.finite_site import FiniteSite
from frontier_harness.calls import FINISH, spec
from frontier_harness.command_line import Toehold, facts, toehold_of
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import PATIENCE_S, eventually

KILLED = -7000


@pytest.fixture
def site() -> Iterator[FiniteSite]:
    """Two hosts of which all pages but robots.txt are answered once its gate is open."""
    with FiniteSite(2, []) as served:
        served.gate.clear()
        yield served


@pytest.fixture
def frontier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerProcess]:
    """A frontier whose nodes beat quickly."""
    with ServerProcess(tmp_path / "data", "--heartbeat-seconds", "0.2") as server:
        monkeypatch.setenv("TOEHOLD_FRONTIER", server.address)
        yield server


class Node:
    """A crawl of the site is under way, and this is its node, with 4 toe threads."""

    def __init__(self, process: subprocess.Popen[str], site: FiniteSite, frontier: ServerProcess) -> None:
        self.process = process
        self.site = site
        self.frontier = frontier
        assert process.stdout is not None
        self.address = process.stdout.readline().split()[-1]

    def status(self, uri: str) -> int:
        """How a URI ended; 0 if it has not."""
        story = self.frontier.stubs.ask("GetUri", "c", uri=uri).story
        return int(story.fetch_status)

    def end(self) -> int:
        """Its exit code, once it has ended by itself."""
        return self.process.wait(PATIENCE_S)


@pytest.fixture
def node(
    request: pytest.FixtureRequest, frontier: ServerProcess, site: FiniteSite, tmp_path: Path
) -> Iterator[Node]:
    frontier.stubs.launch("c", *site.urls, of=spec(run_while_empty=True))
    command = [
        *(sys.executable, "-m", "crawler_node", "--frontier", frontier.address, "--name", "north"),
        *("--toes", "4", "--warc", str(tmp_path / "warcs"), "--log-level", "error", *site.resolve),
        *request.param,
    ]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Node(process, site, frontier)
        finally:
            process.terminate()
            site.gate.set()
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture
def toehold(capsys: pytest.CaptureFixture[str]) -> Toehold:
    """Runs `toehold` on the frontier: exit code, output, errors. Never a traceback."""
    return toehold_of(capsys)


ONE, SEVERAL = pytest.param((), id="one-process"), pytest.param(("--processes", "2"), id="two-processes")


@pytest.mark.parametrize("node", [ONE, SEVERAL], indirect=True)
def test_a_toe_thread_is_found_and_killed_and_the_node_drained(node: Node, toehold: Toehold) -> None:
    def told(*arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in toehold("nodes", *arguments, "--json")[1].splitlines()]

    eventually(lambda: {toe["uri"] for toe in told("toes", "north")} >= {*node.site.urls}, "both fetched")
    stuck, other = told("toes", "north")[:2]
    assert (stuck["step"], stuck["path"], stuck["attempt"]) == ("FETCHING", "", 1)
    assert stuck["uri_seconds"] >= other["uri_seconds"] > 0
    code, output, _ = toehold("nodes", "toes", "north", "--stacks")
    assert code == 0
    its = f"toe {stuck['serial']} of process {stuck['worker']}: FETCHING for "
    (line,) = (line for line in output.splitlines() if line.startswith(its))
    assert line.endswith(f" at {stuck['uri']}")
    assert "http_fetch.py" in output

    assert toehold("nodes", "kill", "north", "999", "--worker", "1")[0] == 9
    which = ("north", str(stuck["serial"]), "--worker", str(stuck["worker"]))
    assert toehold("nodes", "kill", *which)[0] == 0
    eventually(lambda: node.status(stuck["uri"]) == KILLED, "its URI handed back")
    eventually(lambda: told("show", "north")[0]["pool"]["alive_count"] == 4, "another thread in its place")
    (pool,) = told("show", "--at", node.address)
    assert (pool["node"], pool["pool"]["size"], pool["pool"]["killed_count"]) == ("north", 4, 1)
    assert facts(toehold("nodes", "show", "north")[1])["killed"] == "1"
    assert node.status(other["uri"]) == 0, "others are as they were"

    assert toehold("nodes", "drain", "north")[0] == 0
    listed = [each for each in told("list") if each["node"].partition("/")[0] == "north"]
    assert len(listed) == len(pool["workers"])
    assert all(each["draining"] for each in listed)
    node.site.gate.set()
    assert node.end() == 0
    assert node.status(other["uri"]) == 200, "what it had started was finished"
    code, _, errors = toehold("nodes", "toes", "north")
    assert code == 3 and "'north'" in errors
    node.frontier.stubs.request("c", FINISH)
