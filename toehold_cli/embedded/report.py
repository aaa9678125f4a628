"""The report at the end of `toehold crawl`, as data and as text.

Names of durations end in `_seconds`, names of moments in `_time` (RFC 3339, UTC).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from rich.console import Console
from rich.table import Table
from rich.text import Text

from toehold.frontier.v1.admin_pb2 import Crawl, RefusalRule, Seed, SeedResult
from toehold.frontier.v1.crawl_pb2 import CrawlStatus, Statistics
from toehold_cli.output import harmless, status_names
from toehold_client.spec import file as spec_file
from toehold_client.spec.plain import enum_word
from toehold_client.text import (
    bytes_text,
    count_text,
    duration_text,
    fetch_status_text,
    revisited_text,
    rule_text,
    state_text,
)
from toehold_client.watching.seeds import results_text

from .endings import how_to_extend, limit_of

Report = Mapping[str, Any]
"""The content of `report.json`."""

_MOST_STATUSES_SHOWN = 12
_MOST_SEEDS_SHOWN = 20
_UNFINISHED = (".open", ".torn")  # being written, or without a whole record
_WORST_FIRST = ("FAILED", "ERROR", "REDIRECTED", "PENDING", "FETCHED", None)
"""The results of seeds."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the frontier tells about a crawl at the end of a run."""

    crawl: Crawl
    status: CrawlStatus
    statistics: Statistics
    seeds: Sequence[Seed]
    refusals: Sequence[RefusalRule]


def build(outcome: Outcome, directory: Path) -> dict[str, Any]:
    """The report. Lists the node's files in `directory`; the node should have closed them."""
    crawl, status, statistics = outcome.crawl, outcome.status, outcome.statistics
    state, exit_status = status_names(status)
    warcs = sorted(directory.glob("warcs/*.warc.gz"))
    pages = sorted(directory.glob("pages/*.jsonl"))
    mirrored = [file for file in directory.glob("mirror/[!.]*/**/*") if file.is_file()]
    logs = [file for file in sorted(directory.glob("logs/*")) if file.stat().st_size]

    def names(files: Iterable[Path]) -> list[str]:
        return [str(file.relative_to(directory)) for file in files]

    def unfinished(pattern: str) -> list[str]:
        return names(file for end in _UNFINISHED for file in sorted(directory.glob(pattern + end)))

    return {
        "crawl": crawl.crawl,
        "state": state,
        "exit_status": exit_status,
        "failure": status.failure or None,
        "limit": _limit(crawl, exit_status),
        "start_time": _time(crawl.launch_time),
        "end_time": _time(crawl.finish_time),
        "duration_seconds": statistics.elapsed_duration.ToMilliseconds() / 1000,
        "seeds": [
            {
                "url": seed.uri,
                "result": enum_word(SeedResult.DESCRIPTOR, seed.result) if seed.result else None,
                "outcome": seed.outcome or None,
                "led_to": seed.led_to or None,
            }
            for seed in outcome.seeds
        ],
        "pages": statistics.succeeded_count,
        "fetches_of_limit": statistics.limited_count,
        "to_revisit": statistics.revisit_count,
        "revisited": statistics.revisited_count,
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
        "refusals": [
            {
                "rule": rule.rule,
                "message": rule.message,
                "count": rule.refused_count,
                "examples": [example.uri for example in rule.examples],
            }
            for rule in outcome.refusals
        ],
        "annotations": dict(sorted(statistics.annotation_counts.items())),
        "robots_fetches": statistics.robots_fetch_count,
        "deferrals": statistics.deferred_count,
        "lapses": statistics.lapsed_count,
        "connections": statistics.connection_count,
        "tls_handshakes": statistics.tls_handshake_count,
        "kept_connections": statistics.kept_connection_count,
        "warc_files": names(warcs),
        "warc_bytes": sum(file.stat().st_size for file in warcs),
        "unfinished_warc_files": unfinished("warcs/*.warc.gz"),
        "page_files": names(pages),
        "page_bytes": sum(file.stat().st_size for file in pages),
        "unfinished_page_files": unfinished("pages/*.jsonl"),
        "mirror_files": len(mirrored),
        "mirror_bytes": sum(file.stat().st_size for file in mirrored),
        "logs": names(logs),
    }


DOCUMENTS = "limits.max_documents"


def show(report: Report, directory: Path, console: Console) -> None:
    """Prints the report for people."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for name, value in _rows(report, directory):
        table.add_row(name, Text("\n").join(Text(harmless(line)) for line in value.split("\n")))
    for line in console.render_lines(table, pad=False):
        text = Text.assemble(*((part.text, part.style or "") for part in line))
        text.rstrip()
        console.print(text, soft_wrap=True)


def _rows(report: Report, directory: Path) -> Iterator[tuple[str, str]]:
    """The names and values to show; a value may have several lines."""
    pages, seconds = report["pages"], report["duration_seconds"]
    rate = f", {pages / seconds:.1f} pages/s" if seconds > 0 else ""
    yield "crawl", state_text(report["state"], report["exit_status"], report["queued"])
    if report["queued"] and report["state"] != "FINISHED":  # else the line above says so
        yield "still queued", count_text(report["queued"])
    if report["failure"]:
        yield "failed", report["failure"]
    if report["limit"]:
        setting, value = report["limit"]["setting"], report["limit"]["value"]
        counts = " (fetches: pages, images, redirects, errors)" if setting == DOCUMENTS else ""
        limit = f"{setting} = {value} is reached{counts}."
        yield "limit", f"{limit} {how_to_extend(report['exit_status'])}".rstrip()
    yield "time", f"{duration_text(seconds)}{rate}"
    yield "pages", f"{count_text(pages)}, {bytes_text(report['bytes'])}"
    if report["to_revisit"]:
        yield "revisited", revisited_text(report["revisited"], report["to_revisit"])
    yield "seeds", _seeds_text(report["seeds"])
    yield "dispositions", _counts_text(report["dispositions"], str.lower)
    yield "fetch statuses", _counts_text(report["fetch_statuses"], fetch_status_text)
    yield "verdicts", _counts_text(report["verdicts"], lambda name: name.lower().replace("_", " "))
    if report["refusals"]:
        rules = ((rule["count"], rule_text(rule["rule"], rule["message"])) for rule in report["refusals"])
        yield "refused", "\n".join(f"{count_text(count)} by {rule}" for count, rule in rules)
    if report["annotations"]:
        yield "remarks", _counts_text(report["annotations"], str)
    yield "WARC files", _files_text(report["warc_files"], report["warc_bytes"])
    if report["page_files"]:
        yield "JSON Lines", _files_text(report["page_files"], report["page_bytes"])
    if report["mirror_files"]:
        files, size = count_text(report["mirror_files"]), bytes_text(report["mirror_bytes"])
        yield "mirror", f"{files} in mirror, {size}"
    cut_off = [*report["unfinished_warc_files"], *report["unfinished_page_files"]]
    if cut_off:
        yield "cut off", ", ".join(cut_off)
    yield "logs", ", ".join(report["logs"]) or "none"
    yield "directory", str(directory)


def _seeds_text(seeds: Sequence[Mapping[str, Any]]) -> str:
    """How many seeds came to what; then those that were not fetched, and then others, up to a number."""
    counts = Counter(SeedResult.Value(f"SEED_RESULT_{seed['result'] or 'UNSPECIFIED'}") for seed in seeds)
    first = sorted(seeds, key=lambda seed: _WORST_FIRST.index(seed["result"]))[:_MOST_SEEDS_SHOWN]
    lines = [f"{seed['url']}: {seed['outcome']}" if seed["outcome"] else seed["url"] for seed in first]
    more = len(seeds) - len(first)
    return "\n".join([results_text(counts), *lines, *([f"and {count_text(more)} more"] if more else [])])


def _limit(crawl: Crawl, exit_status: str) -> dict[str, Any] | None:
    """The limit that ended a crawl, and its value, as a spec file has them."""
    setting = limit_of(exit_status)
    if not setting:
        return None
    table, _, key = setting.partition(".")
    return {"setting": setting, "value": spec_file.plain(crawl.spec)[table][key]}


def _counts_text(counts: Mapping[str, int], name_of: Callable[[str], str]) -> str:
    largest = sorted(counts.items(), key=lambda item: -item[1])
    text = ", ".join(f"{name_of(name)}: {count_text(n)}" for name, n in largest[:_MOST_STATUSES_SHOWN])
    more = len(largest) - _MOST_STATUSES_SHOWN
    return (text + (f", and {more} more" if more > 0 else "")) or "none"


def _files_text(files: Sequence[str], size: int) -> str:
    return f"{len(files)} in {Path(files[0]).parent}, {bytes_text(size)}" if files else "none"


def _time(time: Timestamp) -> str | None:
    return time.ToJsonString() if time.seconds else None
