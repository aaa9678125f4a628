"""The hostile web for tests: runs `serve.py` as a child process and says where it is."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from frontier_harness.waiting import PATIENCE_S

from practice_web.hostile.nastiness import Nastiness, Ports
from practice_web.hostile.serve import ADDRESS
from practice_web.hostile.table import NASTINESSES

_SERVE = Path(__file__).with_name("serve.py")


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection that was made to the web: to a nastiness by `name`, or, without one, to a decoy, whose
    address is `path`. `opened` and `closed` are seconds on the monotonic clock.
    """

    name: str
    path: str
    opened: float
    closed: float
    head_bytes: int


class HostileWeb:
    """A hostile web that serves within a `with` block; a child whose parent dies ends by itself."""

    ports: dict[str, int]
    """By the nastiness's name."""
    decoy: int
    """The port of the listeners that nobody may connect to."""
    decoys: list[str]
    """Their addresses."""
    ca_file: Path
    """The certificate of the authority that a crawler is told to trust."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._child: subprocess.Popen[str] | None = None
        self._log_file = Path()

    def __enter__(self) -> Self:
        self._state.mkdir(parents=True, exist_ok=True)
        complaints = self._state / "serve.err"
        with complaints.open("w") as errors:
            self._child = subprocess.Popen(
                [sys.executable, str(_SERVE), "--state", str(self._state)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            self._child.communicate()
            raise RuntimeError(f"the hostile web did not start: {complaints.read_text().strip()}")
        ready = json.loads(line)
        self.ports = ready["ports"]
        self.decoy = ready["decoy"]
        self.decoys = ready["decoys"]
        self.ca_file = Path(ready["ca_file"])
        self._log_file = Path(ready["log"])
        return self

    def __exit__(self, *_: object) -> None:
        assert self._child is not None
        try:
            self._child.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.communicate()

    @property
    def seeds(self) -> list[str]:
        """The first page of every nastiness."""
        return [self.url(row, row.start) for row in NASTINESSES]

    @property
    def resolve(self) -> list[str]:
        """HOST:PORT:ADDRESS for every nastiness."""
        return [f"{row.host}:{self.ports[row.name]}:{ADDRESS}" for row in NASTINESSES]

    @property
    def complaints(self) -> str:
        """What the server has written to its stderr."""
        return (self._state / "serve.err").read_text()

    def url(self, row: Nastiness, path: str) -> str:
        """The URI of a path of a nastiness, or of a key of its `ends`."""
        return row.url(path, Ports(own=self.ports[row.name], decoy=self.decoy))

    def connections(self) -> list[Connection]:
        """All connections that are over."""
        lines = self._log_file.read_text(encoding="utf-8").split("\n")[:-1]
        return [Connection(**json.loads(line)) for line in lines]
