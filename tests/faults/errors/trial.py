"""A frontier server in trouble, used by everybody at once; what it says, and what it has in the end."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import grpc
from faults.errors.manual import Row
from faults.power.judge import Findings, judge
from faults.power.ledger import Ledger, Notary
from faults.power.load import LEASE_S, Load
from faults.power.program import NONE, PROGRAM
from faults.power.records import Kind, Marks, mark_of, read
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import PATIENCE_S, WHOLE_CRAWL_S, eventually
from grpc_health.v1 import health_pb2, health_pb2_grpc

BEFORE, AFTER = 60, 60  # calls that are acknowledged before a trouble, and again after it


class Trouble:
    """What befalls files below a directory, from when it begins until it ends."""

    def __init__(self, library: Path, directory: Path) -> None:
        self.root = directory / "root"
        self.root.mkdir(parents=True, exist_ok=True)
        self.journal = directory / "journal"
        self._control = directory / "trouble"
        self._struck = directory / "trouble.struck"
        self.end()
        self.environment = {
            "LD_PRELOAD": str(library),
            "POWER_ROOT": str(self.root),
            "POWER_JOURNAL": str(self.journal),
            "POWER_TROUBLE": str(self._control),
        }

    def begin(self, lines: str) -> None:
        """From now on."""
        self._control.write_text(f"{lines}\n")

    def end(self) -> None:
        """No more."""
        self._control.write_text("")

    @property
    def strokes(self) -> int:
        """How many calls it has met."""
        return len(self._struck.read_text().splitlines()) if self._struck.exists() else 0


class Health:
    """What gRPC health has said, in order."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.said: list[str] = []
        stub = health_pb2_grpc.HealthStub(channel)
        self._answers = stub.Watch(health_pb2.HealthCheckRequest())  # type: ignore[attr-defined]  # made at run time
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        try:
            for answer in self._answers:
                self.said.append(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))
        except grpc.RpcError:
            return  # the server has ended


class Trial:
    """One server, and what it has acknowledged."""

    def __init__(
        self,
        library: Path,
        directory: Path,
        program: tuple[str, ...] = (PROGRAM, NONE),
        loaded: type[Load] = Load,
    ) -> None:
        """`loaded`: who is at work, and what they make of refusals."""
        self.trouble = Trouble(library, directory)
        self.data = self.trouble.root / "data"
        self.ledger = Ledger()
        self._program = program
        self._loaded = loaded
        self._errors = directory / "stderr"
        self._refusals: list[str] = []

    @property
    def said(self) -> str:
        """Its standard error."""
        return self._errors.read_text()

    @property
    def told(self) -> str:
        """That, and what callers were told instead of an answer."""
        return "\n".join([self.said, *self._refusals])

    @contextmanager
    def _serving(self) -> Iterator[ServerProcess]:
        flags = ("--lease-seconds", str(LEASE_S), "--disk-reserve-mib", "0")
        server = ServerProcess(self.data, *flags, program=self._program, environment=self.trouble.environment)
        server.errors = self._errors
        with server:
            yield server

    def under_load(
        self, row: Row, lines: str, limit: Callable[[int], None] = lambda pid: None, copies: int = 0
    ) -> None:
        """Meet a trouble at work, and a limit of the process. What the row says is what is seen. So many
        checkpoints, at least, are made before the trouble, and again after it.
        """
        marks = Marks(self.trouble.journal)
        with self._serving() as server:
            load = self._loaded(server.stubs, Notary(marks), "r")
            self._refusals = load.refusals
            health = Health(server.stubs.channel)
            with load.running():
                _acknowledged(load, BEFORE, copies)
                assert not load.problems, load.problems
                self.trouble.begin(lines)
                limit(server.child.pid)
                if row.exit_codes:
                    assert server.child.wait(WHOLE_CRAWL_S) in row.exit_codes, self.said
                else:
                    eventually(lambda: self._met(row) or load.problems, f"{row.said}", WHOLE_CRAWL_S)
                    self.trouble.end()
                    _acknowledged(load, AFTER, copies)
            if not row.exit_codes:
                assert not load.problems, load.problems
                assert health.said == [row.health]
                assert server.stop()[0] == 0
            else:
                heard = [
                    each for each in load.problems if "UNAVAILABLE" not in each and "CANCELLED" not in each
                ]
                assert not heard
                if row.health:
                    eventually(
                        lambda: health.said[-1:] == [row.health], f"health {row.health}: {health.said}"
                    )
        marks.close()
        self.trouble.end()
        assert row.is_told(self.told), self.told
        if min(row.exit_codes, default=0) >= 0:  # else the system has ended it, or a library in it
            assert_no_traceback(self.said)
        for record in read(self.trouble.journal):
            if record.kind is Kind.MARK:
                self.ledger.note(mark_of(record))

    def _met(self, row: Row) -> bool:
        return bool(self.trouble.strokes) and row.is_told(self.told)

    def judged(self) -> Findings:
        """Start again as a server does, and look for all that was acknowledged."""
        return judge(self.data, self.ledger)


def _acknowledged(load: Load, count: int, copies: int) -> None:
    enough, copied = load.notary.acknowledged + count, load.copies + copies
    eventually(
        lambda: load.problems or (load.notary.acknowledged >= enough and load.copies >= copied),
        "a load",
        WHOLE_CRAWL_S,
    )


def assert_no_traceback(said: str) -> None:
    """What is for people has none; the log may have one, in a line of JSON."""
    for line in said.splitlines():
        try:
            json.loads(line)
        except ValueError:
            assert line.startswith("toehold-frontier: "), said


def run_to_end(data: Path, environment: Mapping[str, str], program: tuple[str, ...]) -> tuple[int, str]:
    """A server that cannot serve: its exit code, and what it says."""
    done = subprocess.run(
        [sys.executable, *program, "--data", str(data), "--listen", "127.0.0.1:0"],
        env=os.environ | dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert_no_traceback(done.stderr)
    return done.returncode, done.stderr
