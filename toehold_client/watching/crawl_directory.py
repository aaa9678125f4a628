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


def crawl_log_of(directory: Path, crawl: str) -> Path:
    """The crawl's log of final dispositions."""
    return frontier_data_of(directory) / "crawls" / crawl / "crawl.log"


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
