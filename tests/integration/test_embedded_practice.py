"""`make crawl`'s script: the same practice web for every run of a crawl, and the crawl's own exit code."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from frontier_harness.waiting import PATIENCE_S, eventually

SCRIPT = Path(__file__).resolve().parents[1] / "practice_web" / "crawl.py"


@pytest.fixture
def crawl(tmp_path: Path) -> Iterator[Callable[[], tuple[int, str]]]:
    """Runs the script until pages have come, stops it at once, and returns its exit code and output."""
    runs: list[subprocess.Popen[str]] = []

    def run_it() -> tuple[int, str]:
        run = subprocess.Popen(
            [sys.executable, str(SCRIPT)],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        runs.append(run)
        log = tmp_path / "crawl-web" / "access.log"
        before = size(log)
        eventually(lambda: size(log) >= before + 20_000 or run.poll() is not None, "pages")
        run.send_signal(signal.SIGTERM)
        eventually(lambda: not waits_for(run.pid, signal.SIGTERM), "it to take the signal")
        run.send_signal(signal.SIGTERM)
        return run.wait(PATIENCE_S), run.communicate(timeout=PATIENCE_S)[0]

    yield run_it
    for run in runs:
        run.kill()
        run.wait()


def waits_for(pid: int, number: signal.Signals) -> bool:
    """Whether a signal waits to be taken by a process: another of its kind would be lost."""
    status = Path(f"/proc/{pid}/status").read_text()
    (pending,) = (line.split()[1] for line in status.splitlines() if line.startswith("ShdPnd:"))
    return bool(int(pending, 16) >> (number - 1) & 1)


def size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def report(directory: Path) -> dict[str, Any]:
    content = json.loads((directory / "report.json").read_text())
    assert isinstance(content, dict)
    return content


def seeds(report: dict[str, Any]) -> list[str]:
    return [seed["url"] for seed in report["seeds"]]


def test_interrupted_it_goes_on_on_the_same_ports_and_finished_it_starts_anew(
    crawl: Callable[[], tuple[int, str]], tmp_path: Path
) -> None:
    code, shown = crawl()
    assert code == 130, shown
    assert "To continue: make crawl" in shown
    first = report(tmp_path / "crawl")
    assert first["state"] != "FINISHED" and first["pages"] > 0

    code, shown = crawl()
    assert code == 130, shown
    assert "Continuing the crawl" in shown
    second = report(tmp_path / "crawl")
    assert seeds(second) == seeds(first), "the same ports"
    assert second["pages"] > first["pages"]

    (tmp_path / "crawl" / "report.json").write_text(json.dumps({**second, "state": "FINISHED"}))
    code, shown = crawl()
    assert code == 130, shown
    assert "Moved the old crawl" in shown
    assert report(tmp_path / "crawl.1")["pages"] == second["pages"]
    assert seeds(report(tmp_path / "crawl")) == seeds(first)
