"""Parts of `make soak`, what a user asks of them, and the table of what they found."""

import dataclasses
import os
import platform
import random
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

PART, CYCLES, SEED = "PART", "CYCLES", "SEED"
"""Variables of the environment, which `make soak PART=… CYCLES=… SEED=…` sets."""
PARTS = {
    "kills": "programs ended by `kill -9` under full load, and again while they start",
    "sets": "backups of several shards under full load, restored and crawled to the end",
    "cuts": "power cuts, with names ordered as on ext4 and as POSIX says",
    "simulation": "simulated crawls with crashes, a bad network and operators' wishes",
    "interleavings": "everything that three owners of a log in an object store can do to one another",
    "histories": "random histories of the core against its model",
    "compiled": "tests of the core on the compiled one, and random histories on both, step by step",
    "errors": "errors of disks, descriptors and memory",
    "corruption": "files that are flipped, cut or missing",
    "network": "answers lost, delayed, doubled and sent again later",
    "time": "clocks that jump, processes that stand still",
    "overload": "more than the frontier can serve",
    "fuzz": "requests and foreign text that make no sense",
    "links": "pages of documentation, and odd ones, against parsers that others have written",
    "languages": "the code generated from the contract for other languages: whether it compiles",
    "installs": "a release: built twice, installed with each extra, crawling; an upgrade and the way back",
    "resuming": "`toehold crawl` again in its directory: other options, limits and seeds, and recrawls",
    "console": "the console's pages by axe in further themes and widths",
    "containers": "the container image: the steps of its build, and a crawl by what they install",
    "size": "a crawl of a million URIs",
    "conformance": "fetchers that break one rule of the contract each; violated counts wrong judgements",
    "machines": "machines of a cluster lost with their disks, or frozen",
    "upgrade": "machines of a cluster upgraded one at a time under load, and back; `FROM=` is what from",
    "buckets": "object stores under machines that are away for a minute each",
    "mutants": "deliberate defects; violated counts those that nothing noticed",
}
HEAD = (
    "part",
    "faults",
    "acknowledged items checked",
    "lost",
    "doubled",
    "violated",
    "tests",
    "failed",
    "minutes",
)
PROPERTY = "soak: "
"""What a test's row is called, before its part, among what its report tells; pytest-xdist brings it home."""


@dataclass(slots=True)
class Row:
    """What a part, or a test of it, has found."""

    faults: int = 0
    checked: int = 0
    lost: int = 0
    doubled: int = 0
    violated: int = 0

    def add(self, other: "Row") -> None:
        """Add up."""
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


class Soak:
    """A soak test's part of the table, and what the user asks of it."""

    def __init__(self, row: dict[str, int]) -> None:
        self._row = row

    @staticmethod
    def cycles(default: int) -> int:
        """How often to do it: CYCLES, or this."""
        return int(os.environ.get(CYCLES) or default)

    @property
    def seed(self) -> int:
        """A seed of chance, the same for all tests of a run; SEED plays one again."""
        return int(os.environ[SEED])

    def count(
        self, *, faults: int = 0, checked: int = 0, lost: int = 0, doubled: int = 0, violated: int = 0
    ) -> None:
        """Add to the table."""
        row = Row(**self._row)
        row.add(Row(faults, checked, lost, doubled, violated))
        self._row.update(dataclasses.asdict(row))


@pytest.fixture
def soak(request: pytest.FixtureRequest) -> Soak:
    """What a soak test counts with. Any other test may count, too; its statistics are dropped."""
    rows = [row for name, row in request.node.user_properties if name.startswith(PROPERTY)]
    return Soak(rows[0] if rows else dataclasses.asdict(Row()))


class Table:
    """Gathers the parts' rows, of all processes of pytest-xdist, and prints them at the end."""

    def __init__(self) -> None:
        self._begun_s = time.monotonic()
        self._rows: dict[str, Row] = {}
        self._tests: dict[str, list[bool]] = {}
        self._seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the row of a test that has run."""
        if not (report.when == "call" or report.failed):
            return
        for name, row in report.user_properties:
            if name.startswith(PROPERTY) and isinstance(row, dict):
                part = name.removeprefix(PROPERTY)
                self._rows.setdefault(part, Row()).add(Row(**row))
                self._tests.setdefault(part, []).append(report.passed)
                self._seconds[part] = self._seconds.get(part, 0) + report.duration

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the table."""
        if not self._tests:
            return
        length_min = (time.monotonic() - self._begun_s) / 60
        terminalreporter.section("soak")
        terminalreporter.write_line(
            f"{time.strftime('%Y-%m-%d')}, commit {_commit()}, {platform.system()} {platform.machine()}, "
            f"{os.cpu_count()} cores, Python {platform.python_version()}, seed {os.environ[SEED]}; "
            f"{length_min:.0f} minutes"
        )
        terminalreporter.write_line("")
        for line in self.lines():
            terminalreporter.write_line(line)

    def lines(self) -> Iterator[str]:
        """The table, in Markdown."""
        yield _line(HEAD)
        yield _line("---" for _ in HEAD)
        total = Row()
        for part in [part for part in PARTS if part in self._tests]:
            total.add(self._rows[part])
            yield _line((part, *self._cells(self._rows[part], self._tests[part], self._seconds[part])))
        tests = [passed for each in self._tests.values() for passed in each]
        yield _line(("all", *self._cells(total, tests, sum(self._seconds.values()))))

    @staticmethod
    def _cells(row: Row, tests: list[bool], seconds: float) -> tuple[str, ...]:
        counted = (f"{number:,}".replace(",", " ") for number in dataclasses.astuple(row))
        return (*counted, str(len(tests)), str(tests.count(False)), f"{seconds / 60:.1f}")


def _line(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"


def _commit() -> str:
    """The commit that is tried, marked if anything differs from it."""
    command = ("git", "describe", "--always", "--dirty", "--exclude=*")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def chosen(items: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Tests of the part that the user asks for, and the others. Gives each soak test its row.

    Raises UsageError if a test names no part or one that is not there.
    """
    wanted = os.environ.get(PART, "")
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        marker = item.get_closest_marker("soak")
        if marker is not None:
            part = marker.args[0] if marker.args else ""
            if part not in PARTS:
                raise pytest.UsageError(
                    f"{item.nodeid}: its part must be one of {', '.join(PARTS)}, got {part!r}"
                )
            item.user_properties.append((PROPERTY + part, dataclasses.asdict(Row())))
        (left if marker is not None and wanted and part != wanted else kept).append(item)
    return kept, left


def _check() -> None:
    wanted = os.environ.get(PART, "")
    if wanted and wanted not in PARTS:
        raise pytest.UsageError(f"PART must be one of {', '.join(PARTS)}, got {wanted!r}")
    for name in (CYCLES, SEED):
        value = os.environ.get(name, "")
        if value and not (value.isdecimal() and int(value)):
            raise pytest.UsageError(f"{name} must be a positive whole number, got {value!r}")


def begin(config: pytest.Config) -> None:
    """Set the seed, for this process and those of pytest-xdist, and begin the table.

    Raises UsageError for what the user asks and cannot have: here, as those of pytest-xdist could not tell.
    """
    _check()
    if not os.environ.get(SEED):
        os.environ[SEED] = str(random.SystemRandom().randrange(1, 1 << 40))
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Table(), "soak table")
