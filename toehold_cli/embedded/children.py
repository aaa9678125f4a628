"""Child processes of `toehold crawl`: starts them, waits for them, stops them, and leaves none behind."""

import json
import os
import re
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

from toehold_base.process.environment import for_child
from toehold_cli.exits import ChildFailed, Interrupted
from toehold_cli.output import harmless
from toehold_client.credentials import VARIABLES
from toehold_client.watching.interruptions import Interruptions

READY_S = 60.0
"""Longest wait for a program's ready line."""

_LONGEST_READY_LINE = 4096
_LOG_TAIL_BYTES = 16 * 1024
_LOG_TAIL_LINES = 6
_LOG_LINE_CHARACTERS = 300
_REPEAT_S = 0.5  # between repeated SIGTERMs; two at once would be one


@dataclass(frozen=True, slots=True)
class Program:
    """How to start a program, and how it says that it is ready."""

    name: str
    """For people: `frontier server`."""
    command: tuple[str, ...]
    log: Path | None
    """The file that its stderr is appended to; None: a file without a name, which nobody need remove."""
    ready: re.Pattern[str]
    """Its first line on stdout. `Child.wait_ready` returns group 1."""
    exit_codes: Mapping[int, str]
    """The meanings of its exit codes."""


class Child:
    """One run of a program.

    It has its own process session, so a terminal's Ctrl-C does not reach it. Only this process holds the
    other end of its stdin: when this process ends, in whatever way, the pipe ends too, and then the program.
    The program keeps the file descriptors in `inherited` open as long as it lives.
    """

    def __init__(self, program: Program, inherited: tuple[int, ...] = ()) -> None:
        self.program = program
        self._log = _opened(program.log)
        self._log_start = self._log.tell()
        try:
            self._process = subprocess.Popen(
                program.command,
                env=_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                start_new_session=True,
                pass_fds=inherited,
            )
        except OSError as problem:
            self._log.close()
            raise ChildFailed(f"the {program.name} cannot be started: {problem}") from problem

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Its exit code, once it has ended; minus the signal that killed it."""
        return self._process.poll()

    def wait_ready(self, interruptions: Interruptions, *, most_signals: int = 0) -> str:
        """Waits for its ready line; group 1 of it.

        Raises ChildFailed if the program ends, or prints another line or none within `READY_S`; Interrupted
        after more than `most_signals` signals.
        """
        assert self._process.stdout is not None
        stdout = self._process.stdout.fileno()
        output = b""
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            if interruptions.count > most_signals:
                raise Interrupted
            if not interruptions.wait(0.2, stdout):
                continue
            part = os.read(stdout, _LONGEST_READY_LINE)
            output += part
            if not part or b"\n" in output or len(output) > _LONGEST_READY_LINE:
                break
        line = output.decode(errors="replace").partition("\n")[0].rstrip()
        found = self.program.ready.fullmatch(line)
        if found is not None:
            return found[1]
        if line:
            raise ChildFailed(
                f"the first line of the {self.program.name} must be its ready line, got {line!r}"
            )
        if self.ends_within(1.0):  # it closed its stdout, so it most likely does
            raise ChildFailed(self.obituary())
        raise ChildFailed(
            f"the {self.program.name} was not ready within {READY_S:g} s\n{self.log_tail()}".rstrip()
        )

    def ends_within(self, seconds: float) -> bool:
        """Whether it ends by itself in this time. Signals don't shorten the wait."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self, interruptions: Interruptions, patience_s: float, *, hurry: bool = False) -> bool:
        """Lets it drain and end. Kills it and returns False if it has not ended within the patience.

        With `hurry`, or after two signals, it gets SIGTERM again and again: a crawler node then stops at
        once.
        """
        deadline = time.monotonic() + patience_s
        asked_s: float | None = None
        while self.exit_code is None:
            now_s = time.monotonic()
            if now_s >= deadline:
                self._process.kill()
                self._process.wait()
                return False
            hurry = hurry or interruptions.count >= 2
            if asked_s is None or (hurry and now_s >= asked_s + _REPEAT_S):
                self._process.terminate()
                asked_s = now_s
            interruptions.wait(0.05)
        return True

    def end(self, patience_s: float) -> None:
        """Lets it end as if this process had ended, and closes it. Only for a program that stops on that."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self.ends_within(patience_s)
        self.close()

    def close(self) -> None:
        """Closes its pipes and its log; kills it if it still runs."""
        if self.exit_code is None:
            self._process.kill()
        for file in (self._process.stdin, self._process.stdout, self._log):
            assert file is not None
            file.close()
        self._process.wait()

    def obituary(self) -> str:
        """For people: how it ended, and the last lines of its log."""
        code = self._process.wait()
        if code < 0:
            how = f"was killed by signal {-code}"
        else:
            meaning = self.program.exit_codes.get(code)
            how = f"ended with exit code {code}" + (f" ({meaning})" if meaning else "")
        return f"the {self.program.name} {how}\n{self.log_tail()}".rstrip()

    def log_tail(self) -> str:
        """The last lines of its log, safe for a terminal; empty if there are none."""
        lines = self.last_lines()
        if not lines:
            return ""
        shown = "\n".join(f"  {_readable(line)}" for line in lines)
        return f"The last lines of {self.program.log or 'its log'}:\n{shown}"

    def last_lines(self) -> list[str]:
        """The last lines of its log, as they are, with what it has said in a sentence; none if it cannot be
        read, or after `close`."""
        if self._log.closed:
            return []
        file = self._log.fileno()
        try:
            # The program may share the file's position, so it stays where it is.
            start = max(self._log_start, os.fstat(file).st_size - _LOG_TAIL_BYTES)
            text = os.pread(file, _LOG_TAIL_BYTES, start).decode(errors="replace")
        except OSError:
            return []
        lines = text.splitlines()
        last = lines[-_LOG_TAIL_LINES:]
        said = [line for line in lines if not line.startswith("{")]
        return last if not said or said[-1] in last else [said[-1], *last[1:]]


def _opened(log: Path | None) -> BinaryIO:
    return TemporaryFile() if log is None else log.open("a+b")


def _readable(line: str) -> str:
    """A line of a log, short and safe for a terminal; a JSON line without its syntax."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        entry = None
    if isinstance(entry, dict) and "event" in entry:
        further = " ".join(
            f"{key}={value}" for key, value in entry.items() if key not in ("event", "level", "timestamp")
        )
        line = " ".join(str(part) for part in (entry.get("level", ""), entry["event"], further) if part)
    return harmless(" ".join(line.split()))[:_LOG_LINE_CHARACTERS]


def _environment() -> dict[str, str]:
    """That of this process without credentials, which are for frontiers elsewhere, and without options of
    programs that were started by hand."""
    return {name: value for name, value in for_child(os.environ).items() if name not in VARIABLES.values()}
