"""The report at the end of `toehold crawl`, as data and as text.

Names of durations end in `_seconds`, names of moments in `_time` (RFC 3339, UTC).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from rich.console import Console
from rich.table import Table
from rich.text import Text

from toehold.frontier.v1.admin_pb2 import Crawl
from toehold.frontier.v1.crawl_pb2 import CrawlStatus, Statistics
from toehold_client.cli.output import harmless, status_names
from toehold_client.cli.text import bytes_text, count_text, duration_text, fetch_status_text

Report = Mapping[str, Any]
"""The content of `report.json`."""

_MOST_STATUSES_SHOWN = 12
_UNFINISHED = (".open", ".torn")  # being written, or without a whole record


def build(
    crawl: Crawl, status: CrawlStatus, statistics: Statistics, seeds: tuple[str, ...], directory: Path
) -> dict[str, Any]:
    """The report. Lists the node's files in `directory`; the node should have closed them."""
    state, exit_status = status_names(status)
    warcs = sorted(directory.glob("warcs/*.warc.gz"))
    pages = sorted(directory.glob("pages/*.jsonl"))
    logs = [file for file in sorted(directory.glob("logs/*")) if file.stat().st_size]

    def names(files: Iterable[Path]) -> list[str]:
        return [str(file.relative_to(directory)) for file in files]

    def unfinished(pattern: str) -> list[str]:
        return names(file for end in _UNFINISHED for file in sorted(directory.glob(pattern + end)))

    return {
        "crawl": crawl.crawl,
        "state": state,
        "exit_status": exit_status,
        "start_time": _time(crawl.launch_time),
        "end_time": _time(crawl.finish_time),
        "duration_seconds": statistics.elapsed_duration.ToMilliseconds() / 1000,
        "seeds": list(seeds),
        "pages": statistics.succeeded_count,
        "bytes": statistics.bytes_count,
        "discovered": statistics.discovered_count,
        "queued": statistics.queued_count,
        "dispositions": {
            "SUCCEEDED": statistics.succeeded_count,
            "FAILED": statistics.failed_count,
            "DISREGARDED": statistics.disregarded_count,
        },
        "fetch_statuses": {str(code): n for code, n in sorted(statistics.fetch_status_counts.items())},
        "verdicts": {
            name.removeprefix("VERDICT_"): n for name, n in sorted(statistics.verdict_counts.items())
        },
        "robots_fetches": statistics.robots_fetch_count,
        "deferrals": statistics.deferred_count,
        "lapses": statistics.lapsed_count,
        "warc_files": names(warcs),
        "warc_bytes": sum(file.stat().st_size for file in warcs),
        "unfinished_warc_files": unfinished("warcs/*.warc.gz"),
        "page_files": names(pages),
        "page_bytes": sum(file.stat().st_size for file in pages),
        "unfinished_page_files": unfinished("pages/*.jsonl"),
        "logs": names(logs),
    }


def show(report: Report, directory: Path, console: Console) -> None:
    """Prints the report for people."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    pages, seconds = report["pages"], report["duration_seconds"]
    rate = f", {pages / seconds:.1f} pages/s" if seconds > 0 else ""
    dispositions = report["dispositions"]
    rows = [
        ("crawl", _state_text(report)),
        ("time", f"{duration_text(seconds)}{rate}"),
        ("pages", f"{count_text(pages)}, {bytes_text(report['bytes'])}"),
        ("dispositions", _counts_text(dispositions, str.lower)),
        ("fetch statuses", _counts_text(report["fetch_statuses"], fetch_status_text)),
        ("verdicts", _counts_text(report["verdicts"], lambda name: name.lower().replace("_", " "))),
    ]
    if report["queued"]:
        rows.insert(3, ("still queued", count_text(report["queued"])))
    rows.append(("WARC files", _files_text(report["warc_files"], report["warc_bytes"])))
    if report["page_files"]:
        rows.append(("JSON Lines", _files_text(report["page_files"], report["page_bytes"])))
    cut_off = [*report["unfinished_warc_files"], *report["unfinished_page_files"]]
    if cut_off:
        rows.append(("cut off", ", ".join(cut_off)))
    rows.append(("logs", ", ".join(report["logs"]) or "none"))
    rows.append(("directory", str(directory)))
    for name, value in rows:
        table.add_row(name, Text(harmless(value)))
    console.print(table)


def _state_text(report: Report) -> str:
    state, exit_status = report["state"], report["exit_status"]
    return state if state == exit_status else f"{state} ({exit_status})"


def _counts_text(counts: Mapping[str, int], name_of: Callable[[str], str]) -> str:
    largest = sorted(counts.items(), key=lambda item: -item[1])
    text = ", ".join(f"{name_of(name)}: {count_text(n)}" for name, n in largest[:_MOST_STATUSES_SHOWN])
    more = len(largest) - _MOST_STATUSES_SHOWN
    return (text + (f", and {more} more" if more > 0 else "")) or "none"


def _files_text(files: Sequence[str], size: int) -> str:
    return f"{len(files)} in {Path(files[0]).parent}, {bytes_text(size)}" if files else "none"


def _time(time: Timestamp) -> str | None:
    return time.ToJsonString() if time.seconds else None
