"""The command `toehold console`, run by tests as an operator would run it, and a script that asks it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

import httpx

from .process import NotServing, line_of
from .waiting import PATIENCE_S


class ConsoleProcess:
    """A console within a `with` block, on a free port of loopback; what it logs is in `errors`.

    Without `frontier`, the flags say where it is.
    """

    def __init__(self, frontier: str, folder: Path, *flags: str, trust: Path | bool = True) -> None:
        self.errors = folder / "console.stderr"
        self._trust = str(trust) if isinstance(trust, Path) else trust
        self._command = [
            *(sys.executable, "-m", "toehold_cli", "console"),
            *(("--frontier", frontier) if frontier else ()),
            *("--listen", "127.0.0.1:0", "--until-stdin-ends", *flags),
        ]

    def __enter__(self) -> Self:
        with self.errors.open("a") as errors:
            self.child = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )
        line = line_of(self.child)
        if not line:
            raise NotServing(f"exit code {self.child.wait(PATIENCE_S)}: {self.errors.read_text()}")
        self.url = url_in(line)
        self.http = client_of(self.url, self._trust)
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()
        assert self.child.stdin is not None and self.child.stdout is not None
        if self.child.poll() is None:
            self.child.stdin.close()
            try:
                self.child.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait(PATIENCE_S)
                raise
        self.child.stdin.close()
        self.child.stdout.close()


def url_in(line: str) -> str:
    """The URL in a console's ready line."""
    said, _, url = line.strip().partition("toehold console serving on ")
    assert not said and url, line
    return url.rstrip("/")


def client_of(url: str, trust: str | bool = True) -> httpx.Client:
    """A script, which no proxy keeps from the console."""
    import ssl

    verify: Any = ssl.create_default_context(cafile=trust) if isinstance(trust, str) else trust
    return httpx.Client(base_url=url, timeout=PATIENCE_S, trust_env=False, verify=verify)


class NoStream(AssertionError):
    """The console refuses a stream."""


class Told(NamedTuple):
    """A server-sent event."""

    kind: str
    content: Any
    identity: str


@contextmanager
def told(http: httpx.Client, path: str, **settings: Any) -> Iterator[Iterator[Told]]:
    """The events of a stream, as they come."""
    with http.stream("GET", path, **settings) as answer:
        if answer.status_code != 200:
            raise NoStream(answer.read().decode())
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield _events(answer.iter_lines())


def _events(lines: Iterator[str]) -> Iterator[Told]:
    fields: dict[str, str] = {}
    for line in lines:
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            yield Told(fields.get("event", "message"), json.loads(fields["data"]), fields.get("id", ""))
            fields = {}
        else:
            fields = {}
