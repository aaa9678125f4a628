"""Tests against a frontier of several shards: `TOEHOLD_TEST_SHARDS=2 pytest …` runs any of them so.

The programs that tests start then have `--shards`, and so has `toehold crawl`. A test that is about
one store, or one process, is marked `undivided`, with the reason: these are the differences that
docs/operating.md names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from .waiting import eventually

T = TypeVar("T")

VARIABLE = "TOEHOLD_TEST_SHARDS"
SHARDS = int(os.environ.get(VARIABLE, "1"))
LOG = os.environ.get("TOEHOLD_TEST_LOG", "0")
"""With 1, each frontier is a machine of a cluster of its own, and its shards have a log."""

PROCESSES = 1 if SHARDS == 1 else SHARDS + 1
"""So many read the settings of a frontier, and log that they have."""


def shards_option(flags: Sequence[str]) -> list[str]:
    """What a frontier's command line has besides these flags."""
    told = any(flag.partition("=")[0] == "--shards" for flag in flags)
    return [] if SHARDS == 1 or told else ["--shards", str(SHARDS)]


def log_options(data: Path, flags: Sequence[str]) -> list[str]:
    """What the command line of a machine of a cluster has besides; its bucket is beside its directory."""
    told = any(
        flag.partition("=")[0] in ("--log", "--read-only", "--salvage", "--set-clock") for flag in flags
    )
    return (
        [] if LOG == "0" or told else ["--log", f"file://{data.absolute()}.bucket", "--renew-seconds", "0.1"]
    )


def of_toehold(arguments: Sequence[str]) -> list[str]:
    """The arguments of `toehold`; those of a crawl ask for shards."""
    command, *rest = arguments or [""]
    return [command, *shards_option(rest), *rest] if command == "crawl" else list(arguments)


def first_of(data: Path) -> Path:
    """In a data directory, that of the process which has the addresses and leads the crawls."""
    whole = data / "coordinator"
    return whole if whole.exists() else data


def job_log(data: Path, crawl: str) -> Path:
    """The log of a crawl's life in a data directory."""
    return first_of(data) / "crawls" / crawl / "job.log"


def log_files(file: Path) -> list[Path]:
    """A crawl's log in a data directory; of a frontier with several shards, that of each."""
    data = file.parents[2]
    shards = sorted(data.glob("shard-*"))
    return [shard / file.relative_to(data) for shard in shards] or [file]


def log_lines(file: Path) -> list[str]:
    """The lines of a crawl's log, likewise."""
    return [line for part in log_files(file) if part.exists() for line in part.read_text().splitlines()]


def settled(holds: Callable[[], T]) -> T:
    """What one frontier has done when it answers the call before, and several shards a moment later."""
    if SHARDS > 1:
        return eventually(holds)
    found = holds()
    assert found
    return found


def skip_if_divided(reason: str) -> None:
    """Skip the test that runs, if frontiers have several shards."""
    if SHARDS > 1:
        pytest.skip(f"several shards: {reason}")


def skip_undivided(items: Iterable[pytest.Item]) -> None:
    """Skip the tests that a frontier of several shards is not meant to pass."""
    for item in items if SHARDS > 1 else ():
        if (mark := item.get_closest_marker("undivided")) is not None:
            (reason,) = mark.args
            item.add_marker(pytest.mark.skip(reason=f"several shards: {reason}"))
