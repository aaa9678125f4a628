"""Directories on mounts that are read-only: no program takes one for its own."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from faults.errors import cases, manual
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import PATIENCE_S

MOUNTED = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
"""A shell's words: for this process alone a directory is on a mount of its own, which is read-only."""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def run_beside(directory: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command to which a directory is read-only."""
    return subprocess.run(
        ("unshare", "--mount", "sh", "-c", MOUNTED, str(directory), *command),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.fixture
def run(tmp_path: Path) -> Run:
    try:
        tried = run_beside(tmp_path, "true")
    except FileNotFoundError:
        pytest.skip("there is no unshare")
    if tried.returncode:
        pytest.skip(f"no mount can be made here: {tried.stderr}")
    return run_beside


def module(name: str, *arguments: str) -> Sequence[str]:
    return (sys.executable, "-m", name, *arguments)


def refused(done: subprocess.CompletedProcess[str], program: str) -> None:
    """As the manual says, in a sentence."""
    row = manual.rows()[cases.READ_ONLY]
    assert done.returncode in row.exit_codes and row.is_told(done.stderr), done
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith(f"{program}: ") and not done.stdout


def test_a_server_does_not_start_on_a_read_only_directory_and_starts_when_it_can_be_written(
    run: Run, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    with ServerProcess(data) as server:
        server.stubs.launch("t", "http://a.example/")
    done = run(data, *module("frontier_server", "--data", str(data), "--listen", "127.0.0.1:0"))
    refused(done, "toehold-frontier")
    with ServerProcess(data) as server:
        assert len(server.stubs.pages("t", 1)) == 1


@pytest.mark.parametrize("option", ["--warc", "--pages"])
def test_a_node_does_not_start_with_a_read_only_directory(run: Run, tmp_path: Path, option: str) -> None:
    (tmp_path / "there").mkdir()
    given = {"--warc": str(tmp_path / "warc"), option: str(tmp_path / "there")}
    done = run(
        tmp_path / "there", *module("crawler_node", *(word for pair in given.items() for word in pair))
    )
    refused(done, "toehold-node")


def test_toehold_crawl_does_not_start_in_a_read_only_directory(run: Run, tmp_path: Path) -> None:
    words = ("crawl", "http://127.0.0.1:9/", "--contact", "a@example.org", "--dir", str(tmp_path))
    done = run(tmp_path, *module("toehold_client", *words))
    assert done.returncode == 2 and not done.stdout
    assert (
        done.stderr
        == f"Error: {tmp_path} cannot be used: Read-only file system; choose another directory with --dir\n"
    )
