"""Request ids join a client with the frontier's log; the log's level changes while the frontier serves."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from frontier_harness.calls import TIMEOUT_S, spec
from frontier_harness.process import ServerProcess
from frontier_harness.raw_calls import raw_call
from frontier_harness.waiting import PATIENCE_S, eventually

from toehold.frontier.v1 import crawl_pb2, frontier_pb2
from toehold.frontier.v1.admin_pb2 import GetCrawlRequest
from toehold_client import FrontierClient, request_id
from toehold_client.errors import InvalidArgument, UnknownCrawl

GET_CRAWL = "/toehold.frontier.v1.FrontierAdminService/GetCrawl"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("settings") / "frontier.toml"
    path.write_text('log_level = "debug"\nlog_format = "json"\n')
    return path


@pytest.fixture(scope="module")
def talkative(settings: Path) -> Iterator[ServerProcess]:
    """A frontier that logs each call."""
    with ServerProcess(settings.parent / "data", "--config", str(settings)) as server:
        yield server


def lines(server: ServerProcess) -> list[dict[str, Any]]:
    return [json.loads(line) for line in server.errors.read_text().splitlines()]


def call(server: ServerProcess, **wanted: object) -> dict[str, Any]:
    """The line of a call, once it is there."""

    def found() -> list[dict[str, Any]]:
        of_calls = (line for line in lines(server) if line["event"] == "call")
        return [line for line in of_calls if wanted.items() <= line.items()]

    eventually(lambda: len(found()) > 0)
    return found()[-1]


def test_an_error_names_the_line_of_its_call(talkative: ServerProcess) -> None:
    with FrontierClient(talkative.address, timeout_s=TIMEOUT_S) as client:
        with pytest.raises(UnknownCrawl) as failure:
            client.get_crawl("nowhere")
        line = call(talkative, request_id=failure.value.request_id)
        assert (line["method"], line["code"], line["crawl"]) == ("GetCrawl", "NOT_FOUND", "nowhere")
        assert line["level"] == "debug" and 0 <= line["duration_ms"] < TIMEOUT_S * 1000
        client.get_frontier()
        other = call(talkative, method="GetFrontier")
        assert other["code"] == "OK" and other["request_id"] != line["request_id"]


def test_a_caller_may_give_its_own_id(talkative: ServerProcess) -> None:
    with FrontierClient(talkative.address, timeout_s=TIMEOUT_S) as client, request_id("ticket-17:a_b.c"):
        client.get_frontier()
        assert call(talkative, request_id="ticket-17:a_b.c")["method"] == "GetFrontier"
        with pytest.raises(UnknownCrawl) as failure:
            client.get_crawl("nowhere")
        assert failure.value.request_id == "ticket-17:a_b.c"


@pytest.mark.parametrize("name", ["two words", "x" * 65, "line\nforged", "é", "{}"])
def test_an_id_that_is_none_is_refused_by_the_client(name: str) -> None:
    with pytest.raises(InvalidArgument, match="must have 1 to 64 letters, digits"), request_id(name):
        pass


@pytest.mark.parametrize("sent", [b"two words", b"x" * 65, b"\x1b[2J", b"\xff\xfe", b'"}{"event": "x"'])
def test_an_id_that_is_none_is_replaced_by_the_frontier(talkative: ServerProcess, sent: bytes) -> None:
    crawl = f"odd-{sent.hex()[:40]}"
    message = GetCrawlRequest(crawl=crawl).SerializeToString()
    raw_call(talkative.address, GET_CRAWL, message, (b"toehold-request-id", sent))
    replaced = call(talkative, crawl=crawl)["request_id"]
    assert len(replaced) == 16 and int(replaced, 16) >= 0


def test_a_stream_that_its_reader_leaves_is_a_cancelled_call(talkative: ServerProcess) -> None:
    with FrontierClient(talkative.address, timeout_s=TIMEOUT_S) as client:
        client.create_crawl("followed", {"contact": "me@example.org"})
        with request_id("follower-1"), client.state_events("followed") as events:
            assert next(events).HasField("present")
    line = call(talkative, request_id="follower-1")
    assert (line["method"], line["code"], line["crawl"]) == ("StateEvents", "CANCELLED", "followed")


def test_secrets_of_a_crawl_are_in_no_log(talkative: ServerProcess, tmp_path: Path) -> None:
    """A node at level debug fetches through a proxy that is not there, and with a password that is sent."""
    fetch = crawl_pb2.FetchSpec(
        proxy="http://proxyuser:hunter2@127.0.0.1:1",
        credentials=[
            crawl_pb2.CredentialSpec(surt_prefix="http://h.example/", user="siteuser", password="hunter3")
        ],
    )
    retry = crawl_pb2.RetrySpec(max_attempts=1)
    robots = crawl_pb2.RobotsSpec(policy="ignore")
    talkative.stubs.launch("secret", "http://h.example/", of=spec(fetch=fetch, retry=retry, robots=robots))
    command = [
        *(sys.executable, "-m", "crawler_node", "--frontier", talkative.address, "--crawl", "secret"),
        *("--pages", str(tmp_path / "pages"), "--logs", str(tmp_path / "logs"), "--log-level", "debug"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as node:
        try:
            talkative.stubs.until("secret", crawl_pb2.CRAWL_STATE_FINISHED)
        finally:
            node.terminate()
            said = "".join(node.communicate(timeout=PATIENCE_S))
    assert '"draining"' in said
    kept = [path.read_text() for path in (tmp_path / "logs").iterdir()]
    told = "".join((said, *kept, talkative.errors.read_text()))
    for secret in ("hunter2", "hunter3", "proxyuser", "siteuser"):
        assert secret not in told


@pytest.mark.undivided("counts lines, and each process logs the new level")
def test_the_level_follows_the_settings_file(talkative: ServerProcess, settings: Path) -> None:
    def told(event: str) -> list[dict[str, Any]]:
        return [line for line in lines(talkative) if line["event"] == event]

    def set_level(text: str) -> None:
        settings.write_text(text)
        before = len(lines(talkative))
        talkative.child.send_signal(signal.SIGHUP)
        eventually(lambda: len(lines(talkative)) > before)

    set_level('log_level = "loud"\n')
    problem = told("settings_refused")[-1]
    assert problem["level"] == "error" and problem["file"] == str(settings)
    assert problem["problem"] == "log_level must be 'debug', 'info', 'warning' or 'error', got 'loud'"
    set_level('log_level = "info')
    assert "must be TOML" in told("settings_refused")[-1]["problem"]
    talkative.stubs.heartbeat(session="still-debug")
    call(talkative, method="Heartbeat")

    set_level('log_level = "warning"\n')
    changed = told("log_level_changed")[-1]
    assert (changed["before"], changed["after"]) == ("debug", "warning")
    count = len(lines(talkative))
    talkative.stubs.frontier.Heartbeat(
        frontier_pb2.HeartbeatRequest(node="node", session="still-debug"), timeout=TIMEOUT_S
    )
    set_level("")
    assert [(line["event"], line.get("after")) for line in lines(talkative)[count:]] == [
        ("log_level_changed", "info")
    ]
