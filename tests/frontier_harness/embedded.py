"""Runs of `toehold crawl` on a small site, with the real programs."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
from fastwarc.warc import ArchiveIterator, WarcRecordType
from frontier_harness.divided import of_toehold
from frontier_harness.small_site import SmallSite, small_site
from frontier_harness.waiting import PATIENCE_S, eventually

from toehold.frontier.v1.crawl_pb2 import CrawlState
from toehold_cli import frontier_file
from toehold_client import CrawlController, FrontierClient

PAGES = 24

TOEHOLD = (sys.executable, "-m", "toehold_cli")
BRISK = ("--min-delay", "0", "--delay-factor", "0", "--fetch-timeout", "20", "--toes", "4")
"""Without rests; and of so few toes a node makes one process, which starts sooner than three."""

ALL_PATHS = {"/", *(f"/page/{n}" for n in range(PAGES))}


class Run:
    """One `toehold crawl`, of which only files and pipes are seen."""

    def __init__(self, *arguments: str, cwd: Path, fakes: Path | None = None) -> None:
        environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "1"}
        if fakes is not None:
            environment["PYTHONPATH"] = str(fakes)
        self.process = subprocess.Popen(
            [*TOEHOLD, *of_toehold(("crawl", *arguments))],
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def children(self) -> list[int]:
        """Process ids of the frontier server and the node, in this order."""
        return children_of(self.process.pid)

    def until(self, condition: Callable[[], object]) -> None:
        """Waits; fails if it ends before."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, "never came true"
            assert self.process.poll() is None, f"it ended ({self.process.returncode}): {self.end()[2]}"
            time.sleep(0.02)

    def end(self) -> tuple[int, str, str]:
        """Exit code, stdout and stderr."""
        stdout, stderr = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, stdout.decode(), stderr.decode()

    def close(self) -> None:
        """Ends it, whatever it does."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def site() -> Iterator[SmallSite]:
    """The site; import it to use it."""
    with small_site(PAGES) as served:
        yield served


@pytest.fixture
def crawl(tmp_path: Path, site: SmallSite) -> Iterator[Callable[..., Run]]:
    """Starts `toehold crawl` on the site; import it to use it. See `crawling`."""
    with crawling(tmp_path, site) as start:
        yield start


@contextmanager
def crawling(directory: Path, site: SmallSite) -> Iterator[Callable[..., Run]]:
    """Starts `toehold crawl` on the site, in ./it; always the same command unless arguments are added."""
    started: list[Run] = []

    def start(*further: str, fakes: Path | None = None) -> Run:
        arguments = (site.url(), "--dir", "it", *BRISK, *further)
        started.append(Run(*arguments, cwd=directory, fakes=fakes))
        return started[-1]

    yield start
    for run in started:
        run.close()


def report_in(tmp_path: Path) -> dict[str, Any]:
    report = json.loads((tmp_path / "it" / "report.json").read_text())
    assert isinstance(report, dict)
    return report


def toehold(tmp_path: Path, *arguments: str, stdin: IO[str] | None = None) -> tuple[int, str, str]:
    """Runs `toehold` in a directory: its exit code, stdout and stderr."""
    done = subprocess.run(
        [*TOEHOLD, *of_toehold(arguments)],
        cwd=tmp_path,
        stdin=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def until_pausing(directory: Path) -> None:
    """Waits until the crawl in `it` pauses: what is held keeps it from coming to its end before."""
    with FrontierClient(frontier_file.find(directory / "it").address) as client:
        crawl = CrawlController(client, "crawl")
        eventually(lambda: crawl.status().state == CrawlState.CRAWL_STATE_PAUSING, "the pause")


def archived(tmp_path: Path) -> set[str]:
    """The URIs whose answers are in WARC files."""
    found = set()
    for path in (tmp_path / "it" / "warcs").glob("*.warc.gz"):
        with path.open("rb") as file:
            records = ArchiveIterator(file, record_types=WarcRecordType.response)
            found |= {str(record.headers["WARC-Target-URI"]) for record in records}
    return found


def lines_of_pages(tmp_path: Path) -> list[dict[str, Any]]:
    files = sorted((tmp_path / "it" / "pages").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def once_each(site: SmallSite) -> None:
    asked = site.asked
    assert {path: asked[path] for path in ALL_PATHS} == dict.fromkeys(ALL_PATHS, 1)


def children_of(parent: int) -> list[int]:
    """Process ids, in the order in which they were started: ids begin again at 1 when they are used up."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            stat = (entry / "stat").read_text()
        except OSError:
            continue
        fields = stat.rpartition(")")[2].split()
        if entry.name.isdigit() and int(fields[1]) == parent:
            found.append((int(fields[19]), int(entry.name)))  # proc(5): starttime
    return [pid for _, pid in sorted(found)]


def all_gone(pids: list[int]) -> bool:
    """Whether all have ended. Orphans need a while: no parent has waited for them."""
    return not any(map(runs, pids))


def runs(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    # A zombie has ended; an orphan stays one for as long as the first process does not reap it.
    return stat.rpartition(")")[2].split()[0] not in "ZX"
