"""The practice web for tests and scripts: runs `serve.py` as a child process and says where it is."""

import contextlib
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

from frontier_harness.waiting import PATIENCE_S

from practice_web import log
from practice_web.web import ORIGINS, Web, by_address

_SERVE = Path(__file__).with_name("serve.py")

PAGES = Path(__file__).resolve().parents[2] / "build" / "practice_pages"
"""Where set-up renders the pages."""


class PracticeWeb:
    """A practice web that serves within a `with` block, in a process session of its own.

    `state` keeps ports, certificates, the access log and what the child has to complain about: the same
    folder brings the same web back. `by_address`: its hosts have no names, so that anybody can reach them. A
    child whose parent dies ends by itself. Raises RuntimeError, with the child's own words, if it cannot
    serve.
    """

    seeds: list[str]
    """The first page of every origin, with its port."""
    resolve: list[str]
    """HOST:PORT:ADDRESS for every origin."""
    ca_file: Path
    """The certificate of the authority that signed the https hosts'."""
    log_file: Path
    web: Web
    """The same web as a function: what it would answer, for judges."""

    def __init__(self, state: Path, pages: Path = PAGES, *, by_address: bool = False) -> None:
        self._state = state
        self._pages = pages
        self._by_address = by_address
        self._child: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        command = [sys.executable, str(_SERVE), "--pages", str(self._pages), "--state", str(self._state)]
        if self._by_address:
            command.append("--by-address")
        self._state.mkdir(parents=True, exist_ok=True)
        complaints = self._state / "serve.err"
        with complaints.open("w") as errors:
            self._child = subprocess.Popen(
                [*command, "--until-stdin-ends"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            self._child.communicate()
            code, why = self._child.returncode, complaints.read_text().strip()
            raise RuntimeError(f"the practice web did not start (exit code {code}): {why}")
        ready = json.loads(line)
        self.seeds = ready["seeds"]
        self.resolve = ready["resolve"]
        self.ca_file = Path(ready["ca_file"])
        self.log_file = Path(ready["log"])
        ports = {host["key"]: host["port"] for host in ready["hosts"]}
        self.web = Web(self._pages, ports, by_address() if self._by_address else ORIGINS)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._child is not None
        with contextlib.suppress(ProcessLookupError):
            self._child.send_signal(signal.SIGTERM)
        try:
            self._child.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.communicate()

    def log(self) -> list[log.Entry]:
        """All requests so far, by their start; those of earlier runs on the same state included."""
        return log.read(self.log_file)
