"""The program `python -m frontier_server`, run by tests as a stranger would run it."""

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import grpc

from .calls import Stubs
from .descendants import kill_all
from .divided import log_options, shards_option, skip_if_divided
from .waiting import PATIENCE_S

PROGRAM = ("-m", "frontier_server")


class NotServing(Exception):
    """The program ended instead of serving."""


class ServerProcess:
    """A frontier server within a `with` block, on a free port of loopback unless told otherwise.

    `data` is its directory; what it logs is in `errors`. Kills it at the end unless it has ended.
    `program` is how Python is told what to run; `environment` is added to that of the tests.
    """

    stubs: Stubs
    address: str

    def __init__(
        self,
        data: Path,
        *flags: str,
        listen: str = "127.0.0.1:0",
        stdin_pipe: bool = False,
        program: Sequence[str] = PROGRAM,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        if program != PROGRAM:
            skip_if_divided("the test changes the program, which is several processes")
        self.data = data
        self.ready_line = ""
        self.errors = data.with_name(f"{data.name}.stderr")
        self._command = [
            sys.executable,
            *program,
            "--data",
            str(data),
            "--listen",
            listen,
            *shards_option(flags),
            *log_options(data, flags),
            *flags,
        ]
        self._environment = os.environ | dict(environment or {})
        self._channel: grpc.Channel | None = None
        self._stdin = subprocess.PIPE if stdin_pipe else subprocess.DEVNULL

    def begin(self) -> None:
        """Start it, and do not wait until it serves."""
        self.errors.parent.mkdir(parents=True, exist_ok=True)
        with self.errors.open("a") as errors:
            self.child = subprocess.Popen(
                self._command,
                stdin=self._stdin,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=self._environment,
            )

    def __enter__(self) -> Self:
        self.begin()
        self.until_ready()
        return self

    def until_ready(self) -> None:
        """Wait until it serves. Raises NotServing."""
        if self.ready_line:
            return
        try:
            self.ready_line = self._first_line()
            self.address = self.ready_line.removeprefix("toehold-frontier serving on ").strip()
            self._channel = grpc.insecure_channel(
                self.address, options=[("grpc.use_local_subchannel_pool", 1)]
            )
            self.stubs = Stubs(self._channel)
        except BaseException:
            self.kill()
            self.let_go()
            raise

    def _first_line(self) -> str:
        assert self.child.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.child.stdout, selectors.EVENT_READ)
            if not selector.select(PATIENCE_S):
                raise NotServing(f"no word within {PATIENCE_S} s")
        line = self.child.stdout.readline()
        if not line:
            code = self.child.wait(PATIENCE_S)
            raise NotServing(f"exit code {code}: {self.errors.read_text()}")
        return line

    def kill(self) -> None:
        """`kill -9`, of all its processes."""
        kill_all(self.child.pid)
        self.child.wait(PATIENCE_S)

    def let_go(self) -> None:
        """Forget a program that has ended."""
        if self._channel is not None:
            self._channel.close()
        for pipe in (self.child.stdin, self.child.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, float]:
        """Ask it to stop; its exit code, and how long it took."""
        began_s = time.monotonic()
        self.child.send_signal(number)
        return self.child.wait(PATIENCE_S), time.monotonic() - began_s

    def end_stdin(self) -> None:
        """What happens when its parent dies."""
        assert self.child.stdin is not None
        self.child.stdin.close()

    def wait(self) -> int:
        """Its exit code, once it has ended by itself."""
        return self.child.wait(PATIENCE_S)

    def __exit__(self, *_: object) -> None:
        if self.child.poll() is None:
            self.kill()
        self.let_go()


def line_of(process: subprocess.Popen[str]) -> str:
    """The next line that a program prints; "" at the end. What is behind it is left for `communicate`, which
    would not see what a reader of lines had taken in ahead."""
    assert process.stdout is not None
    line = bytearray()
    while not line.endswith(b"\n") and (byte := os.read(process.stdout.fileno(), 1)):
        line += byte
    return line.decode()


def run_to_end(*arguments: str, program: Sequence[str] = PROGRAM) -> subprocess.CompletedProcess[str]:
    """Run the program with arguments that it cannot serve with."""
    command = [sys.executable, *program, *arguments]
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
