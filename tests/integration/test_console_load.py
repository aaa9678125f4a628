"""The console under load, at its end, and with data that changes under it."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from frontier_harness.access import Installation
from frontier_harness.calls import fresh_name
from frontier_harness.console import ConsoleProcess, client_of, told
from frontier_harness.divided import job_log
from frontier_harness.ports import KeptPort
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import PATIENCE_S, eventually

from toehold.frontier.v1 import crawl_pb2
from toehold.frontier.v1.admin_pb2 import GetFrontierRequest

ADMIN = "/v1/FrontierAdminService"
JSON = {"content-type": "application/json"}


@pytest.fixture
def lone(tmp_path: Path) -> Iterator[ConsoleProcess]:
    """A console whose frontier is away."""
    with KeptPort() as port, ConsoleProcess(port.address, tmp_path) as console:
        yield console


def thread_count(console: ConsoleProcess) -> int:
    return len(list(Path(f"/proc/{console.child.pid}/task").iterdir()))


def test_questions_about_crawls_that_nobody_may_see_take_no_threads(tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    token = installation.caller("watch", "watch")
    with (
        ServerProcess(tmp_path / "data", "--callers", str(installation.callers)) as server,
        ConsoleProcess(server.address, tmp_path) as console,
    ):

        def answers(token: str, count: int) -> set[int]:
            headers = {"authorization": f"Bearer {token}"}
            paths = [f"/console/crawls/{number}/settings" for number in range(count)]
            return {console.http.get(path, headers=headers).status_code for path in paths}

        assert answers("nobody", 3) == {401}
        before = thread_count(console)
        assert answers("nobody", 60) == {401}
        assert answers(token, 60) == {404}
        assert thread_count(console) < before + 30  # pools may grow a little


def test_a_console_ends_while_the_frontier_answers_none_of_its_questions(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path / "data") as server,
        ConsoleProcess(server.address, tmp_path) as console,
    ):
        crawl = fresh_name()
        server.stubs.create(crawl, crawl_pb2.CrawlSpec(allowed_addresses=["loopback"]))
        place = ("127.0.0.1", int(console.url.rpartition(":")[2]))
        with told(console.http, f"/console/crawls/{crawl}/live") as events:
            assert next(events).kind  # the watch is there
            server.child.send_signal(signal.SIGSTOP)
            askers = [socket.create_connection(place) for _ in range(40)]
            for asker in askers:
                path = f"/console/crawls/{crawl}/failures"
                asker.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert console.http.get("/healthz").text == "ok\n"  # it has taken up the questions before
            console.child.terminate()
            assert console.child.wait(PATIENCE_S) == 0
        for asker in askers:
            asker.close()
        server.child.send_signal(signal.SIGCONT)
    assert "Traceback" not in console.errors.read_text()


def test_a_page_shows_a_crawl_that_is_created_anew_under_the_name_of_another(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path / "data") as server,
        ConsoleProcess(server.address, tmp_path) as console,
    ):

        def create(description: str) -> None:
            spec = crawl_pb2.CrawlSpec(allowed_addresses=["loopback"], description=description)
            server.stubs.create("a", spec)

        create("former")
        for seed in range(3):  # it has more events than the other one
            server.stubs.ask("AddSeedBatch", "a", uris=[f"http://{seed}.example/"])
        server.stubs.ask("LaunchCrawl", "a")
        with told(console.http, "/console/crawls/a/live") as events:
            assert next(each.content["description"] for each in events if each.kind == "look") == "former"
            server.stubs.ask("TearDownCrawl", "a")
            while console.http.post(f"{ADMIN}/DeleteCrawl", json={"crawl": "a"}).status_code != 200:
                continue  # the teardown takes a moment
            assert (
                next(each.content["reason"] for each in events if each.kind == "refused") == "UNKNOWN_CRAWL"
            )
            create("latter")
            assert next(each.content["description"] for each in events if each.kind == "look") == "latter"
            happened = next(each.content for each in events if each.kind == "happened")
            assert happened[0]["sequence"] == 1


def test_a_caller_who_is_revoked_gets_nothing_that_was_seen_before(tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    headers = {"authorization": f"Bearer {installation.caller('watch', 'watch')}"}
    admin = {"authorization": f"Bearer {installation.caller('admin', 'admin')}"}
    with (
        ServerProcess(tmp_path / "data", "--callers", str(installation.callers)) as server,
        ConsoleProcess(server.address, tmp_path) as console,
    ):
        message = {"crawl": "a", "spec": {"allowedAddresses": ["loopback"]}}
        assert console.http.post(f"{ADMIN}/CreateCrawl", json=message, headers=admin).status_code == 200
        live = "/console/crawls/a/live"
        with told(console.http, live, headers=headers) as events:
            assert next(each for each in events if each.kind == "look")
            installation.registry.revoke_caller("watch")
            assert next(each for each in events if each.kind == "refused")
            with told(console.http, live, headers=headers) as again:
                assert next(again).kind == "refused"


def test_a_log_that_grows_while_it_is_read_comes_as_it_was_at_first(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path / "data") as server,
        ConsoleProcess(server.address, tmp_path, "--data", str(tmp_path / "data")) as console,
    ):
        server.stubs.create("a", crawl_pb2.CrawlSpec(allowed_addresses=["loopback"]))
        log = job_log(tmp_path / "data", "a")
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(b"x" * 20_000_000)  # more than sockets hold
        path = "/console/crawls/a/files/logs/job.log"
        with console.http.stream("GET", path) as answer:
            parts = answer.iter_bytes(65_536)
            read = len(next(parts))
            with log.open("ab") as opened:
                opened.write(b"y" * 1_000_000)
            read += sum(len(part) for part in parts)
            assert read == int(answer.headers["content-length"])
        last = console.http.get(path, headers={"range": "bytes=-3"})
        assert (last.status_code, last.content) == (206, b"yyy")
        assert console.http.head(path).status_code == 200
    assert "Traceback" not in console.errors.read_text()


def test_a_console_whose_standard_input_is_no_pipe_ends_with_it(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    command = [sys.executable, "-m", "toehold_cli", "console", "--listen", "127.0.0.1:0"]
    for stdin in (Path(os.devnull), empty):
        with stdin.open() as opened:
            ended = subprocess.run(
                [*command, "--until-stdin-ends"],
                stdin=opened,
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
        assert (ended.returncode, "Error" in ended.stderr) == (0, False), ended.stderr


@pytest.mark.parametrize("body", ['{"name": "description", "text": "\\ud800"}', '{"name": ["x"]}', "[]", "7"])
def test_a_body_without_texts_is_refused_with_a_sentence(lone: ConsoleProcess, body: str) -> None:
    for path in ("/console/crawls/a/settings", "/console/session"):
        answer = lone.http.post(path, content=body, headers=JSON)
        assert (answer.status_code, answer.json()["error"]["details"][0]["reason"]) == (400, "INVALID_JSON")


def test_a_login_has_no_room_for_a_large_body(lone: ConsoleProcess) -> None:
    body = b'{"token": [' + b"{}," * 500_000 + b"{}]}"
    assert lone.http.post("/console/session", content=body, headers=JSON).status_code == 413


def test_large_bodies_arrive_four_at_a_time_and_small_ones_go_past_them(tmp_path: Path) -> None:
    """So they fill no memory, whoever sends them."""
    head = f"POST {ADMIN}/AddSeedBatch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += "Content-Length: 300000\r\n\r\n"
    with (
        ExitStack() as stack,
        ServerProcess(tmp_path / "data") as server,
        ConsoleProcess(server.address, tmp_path) as console,
    ):
        place = ("127.0.0.1", int(console.url.rpartition(":")[2].rstrip("/")))

        def sent(text: str) -> socket.socket:
            made = stack.enter_context(socket.create_connection(place, PATIENCE_S))
            made.sendall(text.encode())
            return made

        slow = [sent(f"{head}{{") for _ in range(4)]
        for number in range(10):
            assert console.http.post(f"{ADMIN}/GetFrontier", json={}).status_code == 200, number
        last = sent(head + "{}" + " " * 299_998)
        last.settimeout(0.5)
        with pytest.raises(TimeoutError):
            last.recv(1)
        slow[2].close()
        last.settimeout(PATIENCE_S)
        assert last.recv(100).startswith(b"HTTP/1.1 4")


def test_a_client_that_leaves_before_the_end_of_its_request_leaves_no_traceback(lone: ConsoleProcess) -> None:
    head = "POST /console/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", int(lone.url.rpartition(":")[2]))) as leaving:
        leaving.sendall(f"{head}Content-Length: 9\r\nExpect: 100-continue\r\n\r\n".encode())
        assert b"100 Continue" in leaving.recv(1000)  # the console waits for the body
    assert lone.http.get("/healthz").status_code == 200
    lone.child.terminate()
    assert lone.child.wait(PATIENCE_S) == 0
    assert "Traceback" not in lone.errors.read_text()


def test_a_frontier_that_forgets_its_callers_is_closed_to_other_tokens_at_once(tmp_path: Path) -> None:
    installation = Installation(tmp_path / "access")
    cert, key = installation.cert("console", "127.0.0.1")
    token = installation.caller("watch", "watch")
    https = ("--https-cert", str(cert), "--https-key", str(key), "--listen", "0.0.0.0:0")
    with KeptPort() as port, ExitStack() as stack:
        callers = ("--callers", str(installation.callers))
        known = stack.enter_context(ServerProcess(tmp_path / "a", *callers, listen=port.address))
        console = stack.enter_context(ConsoleProcess(known.address, tmp_path, *https))
        url = console.url.replace("0.0.0.0", "127.0.0.1")
        http = stack.enter_context(client_of(url, str(installation.authority.cert)))

        def asked(token: str) -> int:
            headers = {"authorization": f"Bearer {token}"}
            return http.post(f"{ADMIN}/ListCrawls", json={}, headers=headers).status_code

        assert asked(token) == 200
        known.kill()
        stack.enter_context(ServerProcess(tmp_path / "b", listen=port.address))
        eventually(lambda: asked("anything") != 503)
        assert asked("anything") == 403


def test_a_call_under_way_is_answered_when_the_console_ends(tmp_path: Path) -> None:
    """With a refusal that says that nobody knows whether it took effect."""
    with ServerProcess(tmp_path / "data") as server, ConsoleProcess(server.address, tmp_path) as console:
        place = ("127.0.0.1", int(console.url.rpartition(":")[2]))
        body = b'{"node": "n", "session": "s", "maxLeases": 1, "waitDuration": "50s"}'
        with socket.create_connection(place, PATIENCE_S) as asker:
            lines = (
                "POST /v1/FrontierService/Next HTTP/1.1",
                "Host: localhost",
                f"Content-Length: {len(body)}",
            )
            asker.sendall("\r\n".join(lines).encode() + b"\r\nContent-Type: application/json\r\n\r\n" + body)
            eventually(lambda: server.stubs.admin.GetFrontier(GetFrontierRequest()).nodes, "the call")
            console.child.terminate()
            answer = b"".join(iter(lambda: asker.recv(65536), b"")).decode()
        assert console.child.wait(PATIENCE_S) == 0
    assert answer.startswith("HTTP/1.1 503") and '"CONSOLE_ENDING"' in answer
    assert "Traceback" not in console.errors.read_text()


def test_what_is_no_request_and_a_look_at_the_head_of_a_stream_leave_nothing_behind(
    lone: ConsoleProcess,
) -> None:
    place = ("127.0.0.1", int(lone.url.rpartition(":")[2]))
    for _ in range(20):
        with socket.create_connection(place, PATIENCE_S) as asker:
            asker.sendall(b"\0\0\0 nonsense\r\n\r\n")
            assert asker.recv(65536).startswith(b"HTTP/1.1 400")
    head = lone.http.head("/v1/FrontierService/StateEvents")
    assert (head.status_code, head.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert lone.http.get("/healthz").status_code == 200
    assert "Invalid HTTP request" not in lone.errors.read_text()


def test_half_sent_request_heads_keep_no_other_client_out(lone: ConsoleProcess) -> None:
    port = int(lone.url.rpartition(":")[2].rstrip("/"))
    with ExitStack() as stack:
        for _ in range(900):  # more than the console has connections
            half = stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE_S))
            half.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ")
        assert lone.http.get("/healthz").status_code == 200
