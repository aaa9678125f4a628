"""The programs as strangers start them: real processes, found beside this Python, awaited with deadlines.

Nothing here knows what they are for; a test that ends leaves none of them behind.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from frontier_harness.descendants import children as children
from frontier_harness.descendants import kill_all
from frontier_harness.divided import of_toehold, shards_option
from frontier_harness.waiting import PATIENCE_S, Late, eventually


def pass_time(seconds: float) -> None:
    """Lets time pass where that itself is what a test is about; never in place of a condition."""
    time.sleep(seconds)


def script(name: str) -> str:
    """The path of a console script of this environment."""
    return str(Path(sys.executable).with_name(name))


class Program:
    """One run of a program. Its stdout and stderr go to files named after it."""

    def __init__(
        self, name: str, command: Sequence[str], folder: Path, *, terminal: int | None = None
    ) -> None:
        """`terminal` is the file descriptor of a pty that it talks to instead, as its controlling one."""
        self.name = name
        self.command = list(command)
        self.output = folder / f"{name}.out"
        self.errors = folder / f"{name}.err"
        if terminal is not None:
            command = [sys.executable, "-c", _TAKE_TERMINAL, *command]
        with self.output.open("ab") as output, self.errors.open("ab") as errors:
            self._said_before = output.tell()
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL if terminal is None else terminal,
                stdout=output if terminal is None else terminal,
                stderr=errors if terminal is None else terminal,
                start_new_session=terminal is not None,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    @property
    def said(self) -> str:
        """All that this run has written to its stdout."""
        return self.output.read_bytes()[self._said_before :].decode()

    @property
    def complaints(self) -> str:
        """All that runs of this name have written to stderr."""
        return self.errors.read_text()

    def wait_ready(self) -> str:
        """Its first line. Raises Late, or AssertionError if it ends instead."""
        eventually(lambda: "\n" in self.said or not self.runs, f"the ready line of {self.name}")
        assert "\n" in self.said, f"{self.name} ended with {self._process.poll()}: {self.complaints}"
        return self.said.partition("\n")[0]

    def wait(self, within_s: float = PATIENCE_S) -> int:
        """Its exit code (minus the signal that killed it), once it has ended."""
        try:
            return self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise Late(f"{self.name} still runs after {within_s:.0f} s: {self.complaints[-2000:]}") from None

    def signal(self, number: signal.Signals) -> float:
        """Sends it a signal; the moment just before, on the clock of the access log."""
        moment = time.monotonic()
        self._process.send_signal(number)
        return moment

    def kill(self) -> float:
        """`kill -9`, and waits until it is gone; the moment just before."""
        moment = self.signal(signal.SIGKILL)
        self.wait()
        return moment

    def clear_away(self) -> None:
        """Kills it and its children, if any still run."""
        for pid in [*children(self.pid), self.pid]:
            if pid != self.pid or self.runs:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.wait()


class Divided(Program):
    """A frontier of several processes, perhaps: `kill` ends all, as when their machine fails."""

    def kill(self) -> float:
        moment = time.monotonic()
        kill_all(self.pid)
        self.wait()
        return moment


class Programs:
    """Starts programs, and clears them away at the end of its context."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[Program] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear_away()

    def clear_away(self) -> None:
        """Kills all that still runs."""
        for program in reversed(self._started):
            program.clear_away()

    def start(
        self, name: str, *command: str, terminal: int | None = None, kind: type[Program] = Program
    ) -> Program:
        """Starts a program; of the same name may run before, after and beside it."""
        program = kind(name, command, self.folder, terminal=terminal)
        self._started.append(program)
        return program

    def frontier(self, data: Path, *options: str, listen: str = "127.0.0.1:0") -> "Frontier":
        """A frontier server that serves."""
        where = ("--data", str(data), "--listen", listen, *shards_option(options))
        return Frontier(self.start("frontier", script("toehold-frontier"), *where, *options, kind=Divided))

    def node(
        self, name: str, frontier: str, warcs: Path, *options: str, command: Sequence[str] = ()
    ) -> Program:
        """A crawler node that fetches for the frontier at this address; `command` runs it in another way."""
        node = self.start(
            *(name, *(command or (script("toehold-node"),)), "--name", name),
            *("--frontier", frontier, "--warc", str(warcs), *options),
        )
        assert node.wait_ready().startswith(f"toehold-node {name} fetching for {frontier}")
        return node

    def toehold(self, *arguments: str) -> Program:
        """The command line tool, at work."""
        return self.start(f"toehold-{len(self._started)}", script("toehold"), *of_toehold(arguments))


class Frontier:
    """A frontier server that serves, and where."""

    def __init__(self, program: Program) -> None:
        self.program = program
        words, self.address = program.wait_ready().rsplit(" ", 1)
        assert words == "toehold-frontier serving on"


def toehold(*arguments: str, within_s: float = PATIENCE_S) -> subprocess.CompletedProcess[str]:
    """A command of the command line tool, run to its end."""
    command = [script("toehold"), *of_toehold(arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=within_s, check=False)


def json_of(*arguments: str) -> Any:
    """What a command that succeeds prints with --json."""
    done = toehold(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def program_of(pid: int) -> str:
    """The command line of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


_TAKE_TERMINAL = """
import os, sys
os.close(os.open(os.ttyname(0), os.O_RDWR))  # what a session's leader opens first becomes its terminal
os.execv(sys.argv[1], sys.argv[1:])
"""
