"""One crawl of the hostile web by real processes, and what is known of it afterwards."""

import json
import signal
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from acceptance.programs import Program, Programs, json_of, toehold
from frontier_harness.divided import log_lines
from frontier_harness.waiting import WHOLE_CRAWL_S

from practice_web.hostile import watched_node
from practice_web.hostile.hostile_web import Connection, HostileWeb
from practice_web.hostile.nastiness import Nastiness

CRAWL = "hostile"

SPEC = Path(__file__).parents[1] / "practice_web" / "hostile" / "spec.toml"

TIMEOUT_S = 4.0
"""The deadline of a fetch, as SPEC has it."""


@dataclass(frozen=True, slots=True)
class Ending:
    """What a line of crawl.log says of the end of a URI."""

    url: str
    status: int
    path: str
    logged: datetime
    started: datetime | None
    """When its fetch began; None if there was none."""
    took_s: float
    annotations: tuple[str, ...]

    @property
    def is_robots(self) -> bool:
        """Whether it is a prerequisite."""
        return self.path.endswith("P")


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident memory of a process, in MB."""

    at_start: float
    """When it was ready, and the crawl not yet launched."""
    most: float
    """At its highest, as the kernel noted it."""

    @property
    def grown(self) -> float:
        """By how much it grew, at most."""
        return self.most - self.at_start


@dataclass(frozen=True)
class HostileCrawl:
    """The crawl, after its end."""

    web: HostileWeb
    endings: list[Ending]
    status: Any
    """What `toehold status --json` says."""
    memory: dict[str, Memory]
    """Of `node` and `frontier`."""
    runtime: dict[str, str]
    """What they wrote to stderr."""
    connected: frozenset[str]
    """The addresses that the node's Python code has opened a connection to, or tried to."""
    warcs: Path
    exit_codes: dict[str, int]

    @cached_property
    def by_host(self) -> dict[str, list[Ending]]:
        """Endings by the name of their host."""
        found = defaultdict(list)
        for ending in self.endings:
            found[urlsplit(ending.url).hostname or ""].append(ending)
        return found

    @cached_property
    def by_url(self) -> dict[str, Ending]:
        """The ending of each URI; of one that has several, the last."""
        return {ending.url: ending for ending in self.endings}

    @cached_property
    def connections(self) -> list[Connection]:
        """What the web saw."""
        return self.web.connections()

    def connections_of(self, row: Nastiness) -> list[Connection]:
        """What one host of the web saw."""
        return [connection for connection in self.connections if connection.name == row.name]


def crawl(folder: Path) -> Iterator[HostileCrawl]:
    """Crawls the hostile web with a frontier and a node, once, and lets it serve until the tests are over."""
    (folder / "programs").mkdir()
    with HostileWeb(folder / "web") as web:
        with Programs(folder / "programs") as programs:
            finished = _crawl(web, programs, folder)
        yield finished


def _crawl(web: HostileWeb, programs: Programs, folder: Path) -> HostileCrawl:
    frontier = programs.frontier(folder / "data")
    connected = folder / "connected"
    node = programs.start(
        "node",
        *(sys.executable, watched_node.__file__, str(connected)),
        *("--name", "node", "--frontier", frontier.address, "--warc", str(folder / "warcs")),
        *("--ca-file", str(web.ca_file)),
        *(argument for entry in web.resolve for argument in ("--resolve", entry)),
    )
    node.wait_ready()
    running = {"node": node, "frontier": frontier.program}
    at_start = {name: _resident_mb(program, "VmRSS") for name, program in running.items()}
    spec = folder / "spec.toml"
    spec.write_text(f'name = "{CRAWL}"\nseeds = {json.dumps(web.seeds)}\n{SPEC.read_text()}')
    launched = toehold("launch", str(spec), "--frontier", frontier.address)
    assert launched.returncode == 0, launched.stderr

    followed = programs.toehold("events", "--follow", "--frontier", frontier.address)
    assert followed.wait(WHOLE_CRAWL_S) == 0, node.complaints[-5000:]
    status = json_of("status", "--frontier", frontier.address)
    memory = {
        name: Memory(at_start[name], _resident_mb(program, "VmHWM")) for name, program in running.items()
    }
    exit_codes = {}
    for name, program in running.items():
        program.signal(signal.SIGTERM)
        exit_codes[name] = program.wait()
    return HostileCrawl(
        web=web,
        endings=_endings(folder / "data" / "crawls" / CRAWL / "crawl.log"),
        status=status,
        memory=memory,
        runtime={name: program.complaints for name, program in running.items()},
        connected=frozenset(connected.read_text().split()),
        warcs=folder / "warcs",
        exit_codes=exit_codes,
    )


def _resident_mb(program: Program, figure: str) -> float:
    """VmRSS, what is in memory now, or VmHWM, the most that ever was."""
    lines = Path(f"/proc/{program.pid}/status").read_text().splitlines()
    kilobytes = next(int(line.split()[1]) for line in lines if line.startswith(f"{figure}:"))
    return kilobytes / 1000


def _endings(log: Path) -> list[Ending]:
    return [_ending(line) for line in log_lines(log)]


def _ending(line: str) -> Ending:
    columns = line.split()
    assert len(columns) == 12, f"a line of crawl.log has {len(columns)} columns: {line}"
    logged, status, _, url, path, _, _, _, fetched, _, _, annotations = columns
    start, _, took_ms = fetched.partition("+")
    return Ending(
        url,
        int(status),
        path,
        datetime.fromisoformat(logged),
        None if start == "-" else datetime.strptime(start, "%Y%m%d%H%M%S%f").replace(tzinfo=UTC),
        int(took_ms or 0) / 1000,
        tuple(annotations.split(",")),
    )
