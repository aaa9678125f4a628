"""Frontier and nodes under a service manager: real programs that tell it when they are ready, that they live,
and that they end. Their options come from variables and files."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from frontier_harness.members import members
from frontier_harness.waiting import PATIENCE_S, eventually

from toehold_cli.main import run

WATCHDOG_S = 3.0


class Managed:
    """A program that a manager started, and what it tells."""

    def __init__(self, folder: Path, module: str, *words: str, settings: Mapping[str, str]) -> None:
        self.heard: list[str] = []
        self.errors = folder / "errors"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(folder / "notify"))
        self._socket.settimeout(PATIENCE_S)
        environment = {
            **os.environ,
            **settings,
            "NOTIFY_SOCKET": str(folder / "notify"),
            "WATCHDOG_USEC": f"{WATCHDOG_S * 1e6:.0f}",
        }
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env=environment,
            )

    def until(self, word: str) -> str:
        """Waits for a message that has this line; the message."""
        while True:
            message = self._socket.recv(4096).decode()
            self.heard.append(message)
            if word in message.splitlines():
                return message

    def until_silent(self, for_s: float) -> None:
        """Waits until it tells nothing for so long."""
        self._socket.settimeout(for_s)
        with suppress(TimeoutError):
            while True:
                self.heard.append(self._socket.recv(4096).decode())
        self._socket.settimeout(PATIENCE_S)

    def stop(self) -> int:
        self.process.terminate()
        self.until("STOPPING=1")
        return self.process.wait(PATIENCE_S)

    def clear_away(self) -> None:
        self.process.kill()
        self.process.wait()
        self._socket.close()


Start = Callable[..., Managed]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a program."""
    started: list[Managed] = []

    def start_it(module: str, *words: str, **settings: str) -> Managed:
        started.append(Managed(tmp_path, module, *words, settings=settings))
        return started[-1]

    yield start_it
    for program in started:
        program.clear_away()


def address_in(message: str, before: str) -> str:
    return message.rpartition(before)[2].strip()


def test_a_frontier_tells_that_it_opens_its_data_is_ready_lives_and_stops(
    start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    frontier = start(
        "frontier_server",
        TOEHOLD_FRONTIER_DATA=str(data),
        TOEHOLD_FRONTIER_LISTEN="127.0.0.1:0",
        TOEHOLD_FRONTIER_LISTN="127.0.0.1:1",
    )
    ready = frontier.until("READY=1")
    assert frontier.heard[0] == f"STATUS=Opening {data}"
    address = address_in(ready, "STATUS=Serving on ")
    assert run(["health", "--frontier", address]) == 0
    assert capsys.readouterr().out == f"frontier at {address}: serving\n"
    frontier.until("WATCHDOG=1")
    frontier.process.send_signal(signal.SIGHUP)  # `systemctl reload`: nothing to read again, and it goes on
    eventually(lambda: "no_settings_file" in frontier.errors.read_text())
    frontier.until("WATCHDOG=1")
    assert frontier.stop() == 0
    assert "did you mean TOEHOLD_FRONTIER_LISTEN?" in frontier.errors.read_text()


def test_a_frontier_of_several_shards_lives_as_long_as_each_of_them(start: Start, tmp_path: Path) -> None:
    frontier = start(
        "frontier_server",
        TOEHOLD_FRONTIER_DATA=str(tmp_path / "data"),
        TOEHOLD_FRONTIER_LISTEN="127.0.0.1:0",
        TOEHOLD_FRONTIER_SHARDS="2",
    )
    ready = frontier.until("READY=1")
    address = address_in(ready, "STATUS=Serving on ").removesuffix(" with 2 shards")
    assert run(["health", "--frontier", address]) == 0
    frontier.until("WATCHDOG=1")
    shard = members(frontier.process)["shard-1"]
    os.kill(shard, signal.SIGSTOP)
    frontier.until_silent(WATCHDOG_S)
    os.kill(shard, signal.SIGCONT)
    frontier.until("WATCHDOG=1")
    os.kill(shard, signal.SIGKILL)
    eventually(lambda: members(frontier.process).get("shard-1", shard) != shard, "another process")
    frontier.until("WATCHDOG=1")
    assert frontier.stop() == 0
    told = [line for message in frontier.heard for line in message.splitlines()]
    assert (told.count("READY=1"), told.count("STOPPING=1")) == (1, 1)


def test_a_node_tells_that_it_is_ready_lives_and_ends(start: Start, tmp_path: Path) -> None:
    node = start(
        "crawler_node",
        TOEHOLD_FRONTIER="127.0.0.1:1",
        TOEHOLD_NODE_TOES="2",
        TOEHOLD_NODE_NAME="north",
        TOEHOLD_NODE_WARC=str(tmp_path / "warcs"),
    )
    ready = node.until("READY=1")
    assert "STATUS=toehold-node north fetching for 127.0.0.1:1 with 2 toes, " in ready
    assert run(["health", "--node", address_in(ready, "service at ")]) == 0
    node.until("WATCHDOG=1")
    node.until("WATCHDOG=1")
    node.process.send_signal(signal.SIGTERM)
    assert node.stop() in (0, 1)  # its frontier cannot hear that it leaves


def test_the_processes_of_a_node_get_its_options_and_only_the_supervisor_speaks_to_the_manager(
    start: Start, tmp_path: Path
) -> None:
    settings = tmp_path / "node.toml"
    settings.write_text(
        f'processes = 9\ntoes = 5\nname = "north"\npages = "{tmp_path}/pages"\nfile_prefix = "p"'
    )
    node = start(
        "crawler_node",
        *("--processes", "2"),
        TOEHOLD_NODE_CONFIG=str(settings),
        TOEHOLD_NODE_FRONTIER="127.0.0.1:1",
        TOEHOLD_NODE_PROCESSES="3",
        TOEHOLD_NODE_LISTEN="127.0.0.1:0",
        TOEHOLD_NODE_METRICS="127.0.0.1:0",
        TOEHOLD_NODE_TOES="4",
    )
    ready = node.until("READY=1")
    settings.write_text("no settings any more")  # the processes have read it for good
    assert "toehold-node north fetching for 127.0.0.1:1 with 4 toes in 2 processes, metrics at " in ready
    assert run(["health", "--node", address_in(ready, "service at ")]) == 0
    workers = Path(f"/proc/{node.process.pid}/task/{node.process.pid}/children")
    threads = workers.parents[1].glob("*/children")
    children = [pid for thread in threads for pid in thread.read_text().split()]
    assert len(children) == 2
    for pid in children:
        environment = Path(f"/proc/{pid}/environ").read_text().split("\0")
        unwanted = ("NOTIFY_SOCKET=", "WATCHDOG_", "TOEHOLD_NODE_")
        assert [each for each in environment if each.startswith(unwanted)] == []
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        assert {f"--pages={tmp_path}/pages", "--file-prefix=p", "--frontier=127.0.0.1:1"} <= {*words}
    node.until("WATCHDOG=1")
    node.until("WATCHDOG=1")
    node.process.send_signal(signal.SIGTERM)
    assert node.stop() in (0, 1)
    assert [message for message in node.heard if "READY=1" in message] == [ready]
