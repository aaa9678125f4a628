"""Files in the directory of a `toehold crawl` that other commands read, too."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def crawl_file_of(directory: Path) -> Path:
    """The name, spec and seeds of the crawl."""
    return directory / "crawl.json"


def report_of(directory: Path) -> Path:
    """The state of the crawl when `toehold crawl` last ended."""
    return directory / "report.json"


def frontier_data_of(directory: Path) -> Path:
    """The frontier server's data."""
    return directory / "frontier"


def shards_in(data: Path) -> list[Path]:
    """The parts of a frontier's data that have a crawl log each: its shards, or, if it has one, the whole."""
    return sorted(data.glob("shard-[0-9][0-9][0-9][0-9]")) or [data]


def shard_count_of(directory: Path) -> int:
    """How many shards the frontier has; 0 if there is none yet."""
    data = frontier_data_of(directory)
    try:
        return int(json.loads((data / "shards.json").read_bytes())["shards"])
    except (OSError, ValueError, KeyError, TypeError):
        return int((data / "store").is_dir())


def crawl_logs_of(directory: Path, crawl: str) -> list[Path]:
    """The crawl's logs of final dispositions, one for each shard."""
    return [shard / "crawls" / crawl / "crawl.log" for shard in shards_in(frontier_data_of(directory))]


def last_report(directory: Path) -> Mapping[str, Any]:
    """The content of the report; empty if there is none, or if it is damaged."""
    try:
        report = json.loads(report_of(directory).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return report if isinstance(report, dict) else {}


def is_finished(directory: Path) -> bool:
    """Whether the crawl has finished, according to its report."""
    return last_report(directory).get("state") == "FINISHED"
