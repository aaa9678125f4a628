"""`toehold` as a process: interrupted, piped away, and run as a module."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

from client_doubles.fake_frontier import SILENCE, Answer, FakeFrontier
from client_doubles.terminals import read_all
from frontier_harness.process import line_of
from frontier_harness.waiting import PATIENCE_S

from toehold.frontier.v1.admin_pb2 import ListQueuesResponse, WorkQueue
from toehold.frontier.v1.crawl_pb2 import CrawlState, CrawlStatus, Event
from toehold.frontier.v1.frontier_pb2 import StateEventsResponse

STARTED = Event(sequence=1, cursor="e1", status_changed=CrawlStatus(state=CrawlState.CRAWL_STATE_RUNNING))
QUIET: list[Answer] = [
    StateEventsResponse(present=STARTED.status_changed, cursor="e0"),
    StateEventsResponse(event=STARTED),
    SILENCE,
]


def start(address: str, *arguments: str, output: int = subprocess.PIPE) -> subprocess.Popen[str]:
    """`toehold` with these arguments, on a frontier."""
    command = [sys.executable, "-m", "toehold_cli", *arguments, "--frontier", address, "--crawl", "c"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "100"}
    return subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE, text=True, env=environment)


# A module that is imported on the way, and in its place then the one that is meant.
IMPORTED_WITH_CTRL_C = """
import os, signal, sys
os.kill(os.getpid(), signal.SIGINT)
sys.path.remove(os.path.dirname(__file__))
del sys.modules["click"]
import click
"""


def test_an_interrupt_while_it_is_being_imported_ends_it_likewise(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text(IMPORTED_WITH_CTRL_C)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "toehold_cli", "--version"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=environment
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_interrupt_ends_a_command_with_130_and_no_traceback(frontier: FakeFrontier, address: str) -> None:
    frontier.will("StateEvents", QUIET)
    with start(address, "events", "--follow") as process:
        assert "RUNNING" in line_of(process)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert errors.strip() == "Interrupted."


def test_a_reader_that_has_enough_is_no_trouble(frontier: FakeFrontier, address: str) -> None:
    page = ListQueuesResponse(queues=[WorkQueue(queue_key="q" * 1000)] * 100, next_page_token="x")
    frontier.will("ListQueues", *[page] * 50)
    with start(address, "queues", "--json") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        errors = process.stderr.read()
        process.wait(PATIENCE_S)
    assert process.returncode == 1
    assert errors == ""


def test_an_output_that_is_full_is_told(frontier: FakeFrontier, address: str) -> None:
    frontier.will("ListQueues", ListQueuesResponse(queues=[WorkQueue(queue_key="q")]))
    with (
        Path("/dev/full").open("w") as full,
        start(address, "queues", "--json", output=full.fileno()) as process,
    ):
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert errors == "Error: No space left on device\n"


def test_a_terminal_gets_a_drawn_table(frontier: FakeFrontier, address: str) -> None:
    frontier.will("ListQueues", ListQueuesResponse(queues=[WorkQueue(queue_key="com,example,[red]")]))
    ours, theirs = pty.openpty()
    with start(address, "queues", output=theirs) as process:
        os.close(theirs)
        drawn = read_all(ours)
        assert process.wait(PATIENCE_S) == 0
    assert "com,example" in drawn
    assert "─" in drawn or "━" in drawn
