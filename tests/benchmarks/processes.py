"""A frontier server of its own for each part, other children, and what CPU processes have used."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

PROGRAM = ("-m", "frontier_server")
READY = "toehold-frontier serving on "
STOP_S = 20.0
SAMPLE_S = 0.2


def cpu_s(pid: int) -> float:
    """CPU time that a process has used so far: all its threads, ended ones too, user and system."""
    # The kernel's clock of another process's CPU (clock_getcpuclockid(3)): nanoseconds, where
    # /proc/PID/stat counts hundredths of a second.
    return time.clock_gettime((~pid << 3) | 2)


class FrontierServer:
    """`python -m frontier_server` on a folder, within a `with` block. The same folder brings it back."""

    address: str

    def __init__(self, data: Path, *flags: str, program: Sequence[str] = PROGRAM) -> None:
        """`program` is how Python is told what to run."""
        self._data = data
        self._program = program
        self._flags = flags
        self._child: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        with (self._data.parent / f"{self._data.name}.err").open("a") as errors:
            self._child = subprocess.Popen(
                [
                    *(sys.executable, *self._program, "--data", str(self._data)),
                    # Its stdin ends with this process, however that ends.
                    *("--listen", "127.0.0.1:0", "--until-stdin-ends", *self._flags),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
            assert self._child.stdout is not None
            line = self._child.stdout.readline()
            if not line.startswith(READY):
                self._child.wait()
                raise RuntimeError(
                    f"the frontier server did not start (exit code {self._child.returncode}): "
                    + Path(errors.name).read_text()[-2000:]
                )
        self.address = line.removeprefix(READY).strip()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._child is not None
        if self._child.poll() == -signal.SIGKILL:
            return
        self._child.send_signal(signal.SIGTERM)
        try:
            self._child.communicate(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.communicate()
            raise RuntimeError(f"the frontier server did not stop within {STOP_S} s") from error

    def kill(self) -> None:
        """`kill -9`."""
        assert self._child is not None
        self._child.kill()
        self._child.communicate()

    def resident_mib(self) -> float:
        """Memory that its processes hold."""
        return sum(map(_resident_mib, self._processes()))

    def member_cpu_s(self, name: str) -> float:
        """CPU time that the member of that name has used so far."""
        return cpu_s(self._member(name))

    def _member(self, name: str) -> int:
        (pid,) = [pid for pid in self._processes() if name in _command_line(pid)]
        return pid

    def member_mib(self, name: str) -> float:
        """Memory of the member of that name: its own, and its share of what it shares with others."""
        pid = self._member(name)
        rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        (size_kib,) = [int(row.split()[1]) for row in rows if row.startswith("Pss:")]
        return size_kib / 1024

    def cpu_s(self) -> float:
        """CPU time that its processes have used so far."""
        return sum(map(cpu_s, self._processes()))

    def _processes(self) -> list[int]:
        assert self._child is not None
        return [self._child.pid, *_descendants(self._child.pid)]


class Child:
    """A program of ours, within a `with` block, spoken to line by line."""

    def __init__(self, module: str, *arguments: str, errors: Path) -> None:
        self._command = [sys.executable, "-m", module, *arguments]
        self._errors = errors

    def __enter__(self) -> Self:
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def say(self, line: str) -> None:
        """Tells it a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def hear(self) -> str:
        """The next line that it tells. Raises RuntimeError, with its complaints, if it ends instead."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self.must_run()
        return line.strip()

    def must_run(self) -> None:
        """Raises RuntimeError, with its complaints, if it has ended."""
        if (code := self._process.poll()) is not None:
            raise RuntimeError(f"{self._command[2]} ended with {code}: {self._errors.read_text()[-2000:]}")

    def end(self) -> str:
        """Asks it to end; its last line."""
        self._process.send_signal(signal.SIGTERM)
        return self.hear()

    def cpu_s(self) -> float:
        """CPU time that it has used so far."""
        return cpu_s(self._process.pid)

    def tree_cpu_s(self) -> float:
        """CPU time that it and its children, those that run, have used so far."""
        return sum(map(cpu_s, self._processes()))

    def descriptors(self) -> int:
        """How many descriptors its processes have open."""
        return sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in self._processes())

    def resident_mib(self) -> float:
        """Memory that its processes hold."""
        return sum(map(_resident_mib, self._processes()))

    def _processes(self) -> list[int]:
        return [self._process.pid, *_descendants(self._process.pid)]


class Descendants:
    """CPU time and memory of this process's descendants by what they are, within a `with` block.

    Sampled, as they end before they can be asked: what a process uses in its last `SAMPLE_S` is missed.
    """

    def __init__(self, name_of: Callable[[str], str | None]) -> None:
        """`name_of` makes a name of a command line; processes that it has none for are left out."""
        self._name_of = name_of
        self._used: dict[int, tuple[str, float]] = {}
        self._peak_mib: dict[str, float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="cpu", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def cpu_s(self) -> dict[str, float]:
        """CPU time so far, by name."""
        used: dict[str, float] = {}
        for name, seconds in self._used.values():
            used[name] = used.get(name, 0.0) + seconds
        return used

    def peak_mib(self) -> dict[str, float]:
        """The most memory that was resident at a time, by name."""
        return dict(self._peak_mib)

    def _sample(self) -> None:
        while not self._ended.wait(SAMPLE_S):
            resident_mib: dict[str, float] = {}
            for pid in _descendants(os.getpid()):
                try:
                    known = self._used.get(pid)
                    command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                    name = known[0] if known else self._name_of(command)
                    if name is not None:
                        self._used[pid] = name, cpu_s(pid)
                        resident_mib[name] = resident_mib.get(name, 0.0) + _resident_mib(pid)
                except OSError:  # it has ended meanwhile
                    continue
            for name, mib in resident_mib.items():
                self._peak_mib[name] = max(mib, self._peak_mib.get(name, 0.0))


def _resident_mib(pid: int) -> float:
    """Memory that a process holds; 0 once it has ended. OSError where it is gone."""
    held = Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()
    return int(held[0]) / 1024 if held else 0.0


def _descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended meanwhile
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found = [pid]
    for known in found:
        found.extend(children.get(known, ()))
    return found[1:]


def _command_line(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
