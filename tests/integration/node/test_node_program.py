"""The program `toehold-node` as a process: what it says, that it fetches and stores, and how it ends."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import grpc
import pytest
from click.testing import CliRunner
from fastwarc.warc import ArchiveIterator, WarcRecordType
from frontier_harness.waiting import PATIENCE_S, eventually
from node_doubles.frontier import FakeFrontier, Refusal
from node_doubles.leases import lease

from crawler_node.program import main
from toehold.frontier.v1.frontier_pb2 import PURPOSE_ROBOTS

Start = Callable[..., "Program"]

SUPERSEDED = (
    "toehold-node: another process has taken the node name 'n1', so this one ends. Its leases have gone back "
    "to the frontier. Give each process its own --name.\n"
)


class Program:
    """One run of the program."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "crawler_node", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.first_line = ""

    def ready(self) -> "Program":
        assert self.process.stdout is not None
        self.first_line = self.process.stdout.readline().rstrip()
        assert self.first_line
        return self

    def end(self, *signals: signal.Signals) -> tuple[int, str]:
        """Its exit code and what it said on stderr, after these signals."""
        for number in signals:
            self.process.send_signal(number)
        self.process.wait(PATIENCE_S)
        assert self.process.stderr is not None
        return self.process.returncode, self.process.stderr.read()


class Site(BaseHTTPRequestHandler):
    """Pages with two links; `/slow` waits for `go`."""

    go = threading.Event()
    asked: list[str] = []  # noqa: RUF012

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.path == "/slow":
            self.go.wait(PATIENCE_S)
        body = {
            "/robots.txt": b"User-agent: *\nDisallow: /private\nSitemap: http://site.test/map.xml\n",
        }.get(self.path, b"<a href=one>1</a> <img src=/two.png>")
        self.send_response(302 if self.path == "/moved" else 200)
        if self.path == "/moved":
            self.send_header("Location", "/new")
        self.send_header("Content-Type", "text/plain" if self.path == "/robots.txt" else "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with suppress(BrokenPipeError):  # an interrupted node hangs up
            self.wfile.write(body)

    def log_message(self, *more: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[int]:
    Site.asked.clear()
    Site.go.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_address[1]
        Site.go.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def start(frontier: FakeFrontier, tmp_path: Path) -> Iterator[Start]:
    programs: list[Program] = []

    def start(*arguments: str) -> Program:
        common = ("--frontier", frontier.address, "--warc", str(tmp_path / "warc"), "--toes", "2")
        programs.append(Program(*common, *arguments))
        return programs[-1]

    yield start
    for program in programs:
        program.process.kill()
        program.process.wait()
        for stream in program.process.stdin, program.process.stdout, program.process.stderr:
            assert stream is not None
            stream.close()


def test_a_node_offers_the_fetcher_kinds_of_its_options(start: Start, frontier: FakeFrontier) -> None:
    program = start("--fetcher-kind", "browser", "--fetcher-kind", "own").ready()
    eventually(lambda: frontier.asked)
    assert list(frontier.asked[0].fetcher_kinds) == ["browser", "own"]
    assert program.end(signal.SIGTERM)[0] == 0


def test_it_fetches_stores_reports_and_ends_in_order(
    start: Start, frontier: FakeFrontier, site: int, tmp_path: Path
) -> None:
    host = f"http://site.test:{site}"
    program = start("--name", "n1", "--resolve", f"site.test:{site}:127.0.0.1").ready()
    said = f"toehold-node n1 fetching for {frontier.address} with 2 toes, service at 127.0.0.1:"
    assert program.first_line.startswith(said)
    frontier.give(
        lease(f"{host}/robots.txt", purpose=PURPOSE_ROBOTS, path="P"),
        lease(f"{host}/", path="L"),
        lease(f"{host}/moved", path="L"),
        lease("http://203.0.113.7/"),
    )
    eventually(lambda: len(frontier.reports) == 4)
    code, log = program.end(signal.SIGTERM)
    assert code == 0
    assert all(json.loads(line)["event"] for line in log.splitlines())
    assert frontier.statuses() == {
        f"{host}/robots.txt": 200,
        f"{host}/": 200,
        f"{host}/moved": 302,
        "http://203.0.113.7/": -7,
    }
    robots = next(report for report in frontier.reports if report.robots_body)
    assert robots.robots_body.startswith(b"User-agent: *\nDisallow: /private")
    paths = {(candidate.uri, candidate.path) for candidate in frontier.candidates}
    assert {
        ("http://site.test/map.xml", "PM"),
        (f"{host}/one", "LL"),
        (f"{host}/two.png", "LE"),
        (f"{host}/new", "LR"),
    } <= paths
    assert stored(tmp_path / "warc") == {f"{host}/robots.txt", f"{host}/", f"{host}/moved"}


def stored(directory: Path) -> set[str]:
    """The URIs whose responses are in the closed WARC files of a directory."""
    assert list(directory.glob("*.open")) == []
    found = set()
    for path in directory.glob("*.warc.gz"):
        with path.open("rb") as stream:
            for record in ArchiveIterator(stream, record_types=WarcRecordType.response):
                found.add(record.headers["WARC-Target-URI"])
    return found


def test_a_hook_has_every_library_that_is_installed(
    start: Start, frontier: FakeFrontier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also `rich`, which the program's first step keeps from structlog."""
    (tmp_path / "own_hook.py").write_text("import rich.text\n\ndef take(page):\n    return {}\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert start("--name", "n1", "--hook", "own_hook:take").ready().end(signal.SIGTERM)[0] == 0


def test_a_second_signal_interrupts_what_runs(start: Start, frontier: FakeFrontier, site: int) -> None:
    program = start().ready()
    frontier.give(lease(f"http://127.0.0.1:{site}/slow"))
    eventually(lambda: Site.asked == ["/slow"])
    program.process.send_signal(signal.SIGTERM)
    code, _ = program.end(signal.SIGINT)
    assert code == 0
    assert frontier.put_off() == [f"http://127.0.0.1:{site}/slow"]


def test_signals_change_the_log_level_of_all_processes(start: Start, frontier: FakeFrontier) -> None:
    program = start("--name", "n1", "--processes", "2", "--log-level", "error").ready()
    assert program.process.stderr is not None
    for number, change in (signal.SIGUSR1, ("error", "debug")), (signal.SIGUSR2, ("debug", "error")):
        program.process.send_signal(number)
        lines = [json.loads(program.process.stderr.readline()) for _ in range(3)]
        assert {line.get("node") for line in lines} == {None, "n1/1", "n1/2"}
        assert {(line["event"], line["before"], line["after"]) for line in lines} == {
            ("log_level_changed", *change)
        }
    assert program.end(signal.SIGTERM) == (0, "")


def test_it_ends_when_its_parent_does(start: Start, frontier: FakeFrontier) -> None:
    program = start("--until-stdin-ends").ready()
    assert program.process.stdin is not None
    program.process.stdin.close()
    assert program.end()[0] == 0


@pytest.mark.parametrize("processes", [(), ("--processes", "2")])
def test_it_says_once_that_another_process_has_taken_its_name(
    start: Start, frontier: FakeFrontier, processes: tuple[str, ...]
) -> None:
    def refuse(request: object) -> None:
        raise Refusal(grpc.StatusCode.FAILED_PRECONDITION, "SESSION_SUPERSEDED")

    frontier.on_heartbeat = refuse
    code, log = start("--name", "n1", *processes).end()
    assert code == 3 and log.endswith(SUPERSEDED) and log.count("toehold-node: ") == 1, log


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--frontier", "nowhere"], "the address of a frontier must be HOST:PORT"),
        (["--toes", "0"], "Invalid value for '--toes': must be between 1 and 1000, got 0"),
        (["--fetcher-kind", "a", "--fetcher-kind", "A b"], "beginning with a letter or digit, got 'A b'"),
        (
            ["--fetcher-kind", ""],
            "'--fetcher-kind': must have 1 to 64 of the characters a-z",
        ),
        ([word for n in range(17) for word in ("--fetcher-kind", f"k{n}")], "at most 16 times, got 17"),
        (["--max-file-hours", "0"], "'--max-file-hours': must be above 0, got 0"),
        (["--max-file-mib", "0"], "'--max-file-mib': must be at least 1, got 0"),
        (["--hang-seconds", "0.5"], "'--hang-seconds': must be at least 1, got 0.5"),
        (["--gzip-level", "best"], "'--gzip-level': 'best' is not a valid integer"),
        (["--processes", "3"], "'--toes': 3 processes need 3 toes or more, got 2"),
        (["--listen", "0.0.0.0:0"], "or --insecure on a network that you trust"),
        (["--hook", "nowhere"], "'--hook': hook 'nowhere' must have the form"),
        (["--resolve", "site:80"], "'--resolve': must be HOST:PORT:ADDR"),
        (["--ca-file", "/nonexistent/ca.pem"], "'/nonexistent/ca.pem': No such file or directory"),
        (["--ca-file", __file__], "has no certificates; it must have some, in PEM format"),
        (["--name", "x" * 129], "must have 1 to 128 printable characters, got 129"),
        (["--log-level", "loud"], "'loud' is not one of"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_in_a_sentence(
    tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    common = ("--frontier", "127.0.0.1:1", "--warc", str(tmp_path / "warc"), "--toes", "2")
    done = CliRunner().invoke(main, [*common, *arguments])
    assert done.exit_code == 2 and sentence in done.stderr and "Traceback" not in done.stderr


def test_a_node_without_output_says_which_options_give_it_one() -> None:
    done = subprocess.run([sys.executable, "-m", "crawler_node"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "add --warc DIR, --pages DIR, --mirror DIR or --hook MODULE:FUNCTION" in done.stderr


def test_the_help_fits_a_terminal_and_groups_all_options() -> None:
    asked = [sys.executable, "-m", "crawler_node", "--help"]
    told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    assert max(map(len, told.splitlines())) <= 80
    headings = [
        line for line in told.splitlines() if line.endswith(":") and not line.startswith((" ", "Usage"))
    ]
    assert headings == [
        *("Fetching:", "Output:", "Network:", "Control and logs:"),
        *("Processes and threads that hang:", "Other options:"),
    ]
    for word in ("RANGE", "<=", ">="):
        assert word not in told


def test_a_warc_directory_that_cannot_be_used_is_told(start: Start, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    code, said = start("--warc", str(tmp_path / "file")).end()
    assert code == 4 and str(tmp_path / "file") in said and "Traceback" not in said
