"""The two programs that the kit runs: a frontier of its own, and the fetcher that is judged."""

import contextlib
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from toehold_base.process.environment import for_child
from toehold_client.errors import FrontierUnavailable, ToeholdError

LEASE_S = 4.0
"""The lease period: short, so that a lapse does not take long."""

HEARTBEAT_S = 0.5

_READY_S = 60.0
_READY = re.compile(rb"toehold-frontier serving on (\S+)\s*\Z")
_TAIL_LINES = 4


class KitFailed(FrontierUnavailable):
    """The kit's own frontier does not start: the fault is not the fetcher's."""


class CannotStart(ToeholdError):
    """The fetcher's command cannot be run."""


FRONTIER = (sys.executable, "-P", "-m", "frontier_server")


class FrontierProcess:
    """A frontier process. It may be killed and started again on the same data."""

    def __init__(self, data: Path, log: Path) -> None:
        self._data = data
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self.address = ""

    def start(self) -> None:
        """Starts it and waits until it serves. Raises KitFailed."""
        command = [
            *FRONTIER,
            *("--data", str(self._data)),
            *("--listen", "127.0.0.1:0", "--until-stdin-ends", "--disk-reserve-mib", "0"),
            *("--lease-seconds", str(LEASE_S), "--heartbeat-seconds", str(HEARTBEAT_S)),
        ]
        with self._log.open("ab") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                env=for_child(os.environ),
            )
        ready = _READY.match(_first_line(self._process, _READY_S))
        if ready is None:
            self.kill()
            raise KitFailed(f"the frontier did not start within {_READY_S:g} s\n{tail(self._log)}".rstrip())
        self.address = ready[1].decode()

    def kill(self) -> None:
        """Ends it at once, as `kill -9` does."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process = None


def _first_line(process: subprocess.Popen[bytes], seconds: float) -> bytes:
    assert process.stdout is not None
    line = b""
    deadline_s = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while time.monotonic() < deadline_s and not line.endswith(b"\n"):
            if selector.select(0.2):
                part = os.read(process.stdout.fileno(), 4096)
                if not part:
                    break
                line += part
    return line


@contextlib.contextmanager
def interrupts_held_back() -> Iterator[None]:
    """A context that Ctrl-C and SIGTERM let be completed: a process that is being started would be forgotten,
    and left behind."""
    received: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: received.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for each in received:
        signal.raise_signal(each)


class Fetcher:
    """One run of the fetcher. It has a process group of its own, to which signals go."""

    def __init__(self, command: Sequence[str], log: Path, settings: Mapping[str, str]) -> None:
        self.log = log
        with log.open("wb") as output:
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    env={**os.environ, **settings},
                )
            except OSError as problem:
                raise CannotStart(f"{command[0]} cannot be run: {problem.strerror}") from problem

    @property
    def exit_code(self) -> int | None:
        """Its exit code, once it has ended; minus the signal that killed it."""
        return self._process.poll()

    def send(self, number: signal.Signals) -> None:
        """Sends a signal to all of its processes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def ends_within(self, seconds: float) -> bool:
        """Whether it ends by itself in this time."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """Ends it at once, as `kill -9` does."""
        self.send(signal.SIGKILL)
        self._process.wait()

    def how_it_ended(self) -> str:
        """For people: `ended with exit code 1`, and the last lines of its output."""
        code = self._process.poll()
        if code is None:
            return "runs"
        ended = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return f"{ended}\n{tail(self.log)}".rstrip()


def tail(log: Path) -> str:
    """The last lines of a log."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join(f"  {line[:300]}" for line in lines[-_TAIL_LINES:])
