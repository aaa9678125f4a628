"""The console while things happen: looks, events, restarts of the frontier; the console beside a frontier."""

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from frontier_harness.access import Installation
from frontier_harness.calls import TIMEOUT_S, fresh_name, seed_of
from frontier_harness.console import ConsoleProcess, Told, client_of, told, url_in
from frontier_harness.descendants import children
from frontier_harness.divided import SHARDS, first_of
from frontier_harness.ports import KeptPort
from frontier_harness.process import ServerProcess, line_of, run_to_end
from frontier_harness.waiting import eventually

from toehold.frontier.v1 import crawl_pb2, frontier_pb2

SPEC = crawl_pb2.CrawlSpec(allowed_addresses=["loopback"])


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, ConsoleProcess]]:
    folder = tmp_path_factory.mktemp("live")
    with ServerProcess(folder / "data") as server, ConsoleProcess(server.address, folder) as console:
        yield server, console


def first(events: Iterator[Told], holds: Any) -> Any:
    """The content of the first look for which something holds."""
    return next(each.content for each in events if each.kind == "look" and holds(each.content))


def test_a_page_sees_a_crawl_change_and_hears_who_changed_it(
    console: tuple[ServerProcess, ConsoleProcess],
) -> None:
    server, page = console
    crawl = fresh_name()
    server.stubs.create(crawl, SPEC)
    with told(page.http, f"/console/crawls/{crawl}/live") as events:
        look = first(events, lambda look: True)
        assert look["verdict"]["text"] == "Not launched yet: it has no seed. Add one, then launch it"
        assert look["actions"] == ["launch", "stop", "teardown"]
        server.stubs.ask("AddSeedBatch", crawl, uris=[seed_of(crawl)])
        server.stubs.ask("LaunchCrawl", crawl)
        look = first(events, lambda look: look["state"] == "RUNNING")
        assert look["verdict"]["text"].startswith("Starting: No node has asked for leases")
        script = {"toehold-operator": "unheard"}
        answer = page.http.post(
            "/v1/FrontierService/RequestState",
            json={"crawl": crawl, "targetState": "TARGET_STATE_PAUSE"},
            headers=script,
        )
        assert answer.status_code == 200
        look = first(events, lambda look: look["state"] == "PAUSED")
        assert " by " in look["verdict"]["text"]
        assert look["actions"] == ["resume", "stop", "teardown"]
    with told(page.http, f"/console/crawls/{crawl}/live") as events:
        known = next(event for event in events if event.kind == "told")
        actions = [each["action"] for each in known.content if each["kind"] == "operator_acted"]
        assert actions == ["create", "add-seeds", "launch", "pause"]
        course = next(event for event in events if event.kind == "course").content
        assert len({len(course[line]) for line in ("at", "rate", "failed", "queued")}) == 1


def test_a_setting_is_changed_as_a_spec_file_has_it(console: tuple[ServerProcess, ConsoleProcess]) -> None:
    server, page = console
    crawl = fresh_name()
    server.stubs.create(crawl, SPEC)
    path = f"/console/crawls/{crawl}/settings"

    def change(name: str, text: str) -> Any:
        return page.http.post(path, json={"name": name, "text": text})

    changed = change("politeness.min_delay_seconds", "7").json()["changes"]
    assert {"name": "politeness.min_delay_seconds", "was": 3.0, "is": 7.0} in changed
    assert change("scope.reject_patterns", '["a.*"]').json()["changes"][0]["is"] == ["a.*"]
    assert change("scope.reject_patterns", "").json()["changes"][0]["is"] == []
    for name, text, says in (
        ("politeness.min_delay_seconds", "-1", "politeness.min_delay_seconds"),
        ("politeness.min_delay_seconds", "999999", "must be between 0 s and 86400 s, got 999999 s"),
        ("queues.partition", "registered-domain", "cannot"),
        ("no.such", "1", "'no.such' is not a setting"),
    ):
        refused = change(name, text)
        assert refused.status_code == 400, refused.text
        assert says in refused.json()["error"]["message"]

    def record() -> Any:
        found = page.http.get(path).json()
        return found if len(found["changes"]) == 3 else None

    record_ = eventually(record, "the changes of settings")
    (row,) = (row for row in record_["settings"] if row["name"] == "politeness.min_delay_seconds")
    assert (row["value"], row["is_default"]) == (7.0, False)
    assert row["range"] and row["meaning"] and row["default"]
    assert record_["changes"][-1]["detail"].startswith("politeness.min_delay")


def test_a_search_finds_urls_and_hosts_and_why_they_are_not_fetched(
    console: tuple[ServerProcess, ConsoleProcess],
) -> None:
    server, page = console
    crawl = fresh_name()
    seed = seed_of(crawl)
    server.stubs.launch(crawl, seed)

    def found(text: str) -> Any:
        return page.http.get(f"/console/crawls/{crawl}/find", params={"q": text}).json()

    queued = eventually(lambda: (answer := found(seed))["state"] == "QUEUED" and answer, "the seed")
    assert (queued["kind"], queued["uri"]) == ("uri", seed)
    assert queued["story"][0]["text"] == "taken in"
    outside = found("https://outside.example/page")
    assert (outside["state"], outside["reasons"][0]["why"]) == ("NEVER_SEEN", "OUT_OF_SCOPE")
    assert outside["refused_by"]
    host = found(seed.split("/")[2])
    assert (host["kind"], host["queue_count"]) == ("queues", 1)
    assert host["reasons"][host["queues"][0]["key"]]
    nowhere = found("nowhere.example")
    assert "has no queue for 'nowhere.example'" in nowhere["note"]
    assert nowhere["reasons"][0]["why"] == "OUT_OF_SCOPE"
    assert "must be a URL, a host" in found(" ")["error"]["message"]
    server.stubs.frontier.RequestState(
        frontier_pb2.RequestStateRequest(crawl=crawl, target_state=crawl_pb2.TARGET_STATE_FINISH),
        timeout=TIMEOUT_S,
    )
    ended = eventually(lambda: (answer := found(seed))["reasons"][0]["why"] == "FINISHED" and answer)
    assert ended["story"]
    assert page.http.get(f"/console/crawls/{crawl}/history", params={"uri": seed}).json() == {
        "outcomes": [],
        "complete": True,
    }


def test_a_page_stays_through_restarts_of_the_frontier(tmp_path: Path) -> None:
    crawl, data = fresh_name(), tmp_path / "data"
    with (
        KeptPort() as port,
        ConsoleProcess(port.address, tmp_path) as page,
        told(page.http, f"/console/crawls/{crawl}/live") as events,
    ):
        away = next(event for event in events if event.kind == "away")
        assert away.content["error"].startswith(f"no frontier answers at {port.address}")
        with ServerProcess(data, listen=port.address) as server:
            refused = next(event for event in events if event.kind == "refused")
            assert refused.content["reason"] == "UNKNOWN_CRAWL"
            server.stubs.create(crawl, SPEC)
            first(events, lambda look: not look["away"])
            server.kill()
        verdict = first(events, lambda look: look["away"])["verdict"]
        assert verdict["tone"] == "bad"
        assert verdict["text"].startswith("No answer from the frontier for")
        with ServerProcess(data, listen=port.address):
            first(events, lambda look: not look["away"])


def test_a_stream_of_events_goes_on_after_a_restart_without_gap_or_repeat(tmp_path: Path) -> None:
    crawl, data = fresh_name(), tmp_path / "data"
    asked = {"request": f'{{"crawl": "{crawl}", "cursor": "start"}}'}
    with (
        KeptPort() as port,
        ConsoleProcess(port.address, tmp_path) as page,
        ServerProcess(data, listen=port.address) as server,
    ):
        server.stubs.create(crawl, SPEC)
        with told(page.http, "/v1/FrontierService/StateEvents", params=asked) as events:
            numbers = (int(each.content["event"]["sequence"]) for each in events if "event" in each.content)
            before = [next(numbers), next(numbers)]
            server.kill()
            with ServerProcess(data, listen=port.address) as again:
                again.stubs.ask("AddSeedBatch", crawl, uris=[seed_of(crawl)])
                assert [*before, next(numbers)] == [1, 2, 3]


# The console beside a frontier.


def console_beside(server: ServerProcess) -> int:
    """The process id of its console."""
    (found,) = (pid for pid in children(server.child.pid) if b"toehold_cli" in command_of(pid))
    return found


def command_of(process: int) -> bytes:
    return Path(f"/proc/{process}/cmdline").read_bytes()


def test_a_frontier_brings_its_console_keeps_it_and_takes_it_away(tmp_path: Path) -> None:
    installation = Installation(tmp_path / "access")
    token = installation.caller("watch", "watch")
    installation.cert("frontier", "localhost")
    flags = (*installation.flags(), "--console", "127.0.0.1:0")
    with ServerProcess(tmp_path / "data", *flags) as server:
        with client_of(url_in(line_of(server.child))) as http:
            answer = http.post("/console/session", json={"token": token})
            assert answer.json()["caller"] == "watch"  # without a client certificate, which others need
            assert answer.json()["files"] is True
            assert first_of(server.data).joinpath("console.key").stat().st_mode & 0o777 == 0o600
        os.kill(console_beside(server), signal.SIGKILL)
        url = url_in(line_of(server.child))
        assert "console_ended" in server.errors.read_text()
        with client_of(url) as http:
            assert http.get("/healthz").status_code == 200
        child = console_beside(server)
        assert server.stop()[0] == 0
        eventually(lambda: not Path(f"/proc/{child}").exists(), "the end of the console")


def test_the_console_ends_with_a_frontier_that_is_killed(tmp_path: Path) -> None:
    for _ in range(2):  # the second finds the socket of the first
        with ServerProcess(tmp_path / "data", "--console", "127.0.0.1:0") as server:
            with client_of(url_in(line_of(server.child))) as http:
                assert http.get("/console/session").json()["login"] is False
            child = console_beside(server)
            server.child.kill()
            gone = Path(f"/proc/{child}")
            eventually(partial(has_ended, gone), "the end of the console")
    if SHARDS == 1:  # else its path is too long for a socket
        assert server.data.joinpath("console").stat().st_mode & 0o777 == 0o700


def has_ended(process: Path) -> bool:
    """Whether a process has gone, by its folder below /proc."""
    return not process.exists()


@pytest.mark.parametrize(
    ("flags", "code", "says"),
    [
        (("--console", "nonsense"), 2, "console must be HOST:PORT, such as 127.0.0.1:7780, got 'nonsense'"),
        (
            ("--console", "0.0.0.0:0"),
            2,
            "console: 0.0.0.0 is not a loopback address, so the console needs HTTPS",
        ),
        (("--console", "192.0.2.7:1", "--insecure"), 3, "cannot listen on 192.0.2.7:1"),
    ],
)
def test_a_console_that_would_be_unsafe_or_has_no_place_keeps_the_frontier_from_starting(
    flags: tuple[str, ...], code: int, says: str, tmp_path: Path
) -> None:
    ended = run_to_end("--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", *flags)
    assert ended.returncode == code, ended.stderr
    assert says in ended.stderr


def test_a_place_that_cannot_have_the_consoles_socket_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "data" / "console"
    file.parent.mkdir()
    file.touch()
    ended = run_to_end("--data", str(file.parent), "--listen", "127.0.0.1:0", "--console", "127.0.0.1:0")
    assert ended.returncode == 3
    assert f"the console needs a folder for its socket: {file}: File exists" in ended.stderr
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setenv("TMPDIR", str(deep))
    ended = run_to_end("--data", str(deep / "data"), "--listen", "127.0.0.1:0", "--console", "127.0.0.1:0")
    assert ended.returncode == 3
    assert "cannot listen for the console on unix:" in ended.stderr and "shorter than 108" in ended.stderr
    assert [each.name for each in deep.iterdir()] == ["data"]


def test_mutual_tls_alone_does_not_open_the_frontier_to_browsers(tmp_path: Path) -> None:
    installation = Installation(tmp_path / "access")
    cert, key = installation.cert("frontier", "localhost")
    tls = ("--tls-cert", str(cert), "--tls-key", str(key), "--tls-ca", str(installation.authority.cert))
    ended = run_to_end("--data", str(tmp_path / "data"), *tls, "--console", "127.0.0.1:0")
    assert ended.returncode == 2
    assert "console needs callers with tls_ca" in ended.stderr
