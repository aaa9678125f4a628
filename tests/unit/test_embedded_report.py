"""The report: what a crawl came to, as data and on the screen."""

from io import StringIO
from pathlib import Path
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from rich.console import Console

from toehold.frontier.v1.admin_pb2 import Crawl
from toehold.frontier.v1.crawl_pb2 import CrawlState, CrawlStatus, ExitStatus, Statistics
from toehold_client.cli.embedded import report

FINISHED = CrawlStatus(
    state=CrawlState.CRAWL_STATE_FINISHED, exit_status=ExitStatus.EXIT_STATUS_FINISHED_DOCUMENT_LIMIT
)


def build(directory: Path, status: CrawlStatus = FINISHED) -> dict[str, Any]:
    crawl = Crawl(
        crawl="crawl", launch_time=Timestamp(seconds=1_000_000), finish_time=Timestamp(seconds=1_000_060)
    )
    statistics = Statistics(
        succeeded_count=10,
        failed_count=2,
        disregarded_count=1,
        queued_count=4,
        bytes_count=5_000,
        fetch_status_counts={200: 9, 404: 1, -2: 2, -9998: 1},
        verdict_counts={"VERDICT_QUEUED": 17, "ALREADY_SEEN": 3},
        elapsed_duration=Duration(seconds=59, nanos=500_000_000),
    )
    return report.build(crawl, status, statistics, ("http://a.example/",), directory)


def shown(found: dict[str, Any], directory: Path) -> str:
    """The report as it is on a screen of 80 columns."""
    console = Console(file=StringIO(), width=80, markup=False, highlight=False)
    report.show(found, directory, console)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_it_says_how_the_crawl_ended_and_counts_everything(tmp_path: Path) -> None:
    found = build(tmp_path)
    assert (found["state"], found["exit_status"]) == ("FINISHED", "FINISHED_DOCUMENT_LIMIT")
    assert (found["start_time"], found["end_time"]) == ("1970-01-12T13:46:40Z", "1970-01-12T13:47:40Z")
    assert (found["duration_seconds"], found["pages"], found["bytes"], found["queued"]) == (
        59.5,
        10,
        5_000,
        4,
    )
    assert found["dispositions"] == {"SUCCEEDED": 10, "FAILED": 2, "DISREGARDED": 1}
    assert found["fetch_statuses"] == {"-9998": 1, "-2": 2, "200": 9, "404": 1}
    assert found["verdicts"] == {"ALREADY_SEEN": 3, "QUEUED": 17}
    assert found["seeds"] == ["http://a.example/"]


def test_it_names_warc_files_by_where_they_lie_and_those_cut_off_apart(tmp_path: Path) -> None:
    warcs = tmp_path / "warcs"
    warcs.mkdir()
    for name in ("b.warc.gz", "a.warc.gz", "c.warc.gz.open"):
        (warcs / name).write_bytes(b"1234")
    found = build(tmp_path)
    assert found["warc_files"] == ["warcs/a.warc.gz", "warcs/b.warc.gz"]
    assert found["unfinished_warc_files"] == ["warcs/c.warc.gz.open"]
    assert found["warc_bytes"] == 8


def test_it_names_json_lines_and_logs_that_say_something(tmp_path: Path) -> None:
    for name, content in {
        "pages/a.jsonl": b"{}\n",
        "pages/b.jsonl.open": b"{",
        "pages/c.jsonl.torn": b"{",
        "warcs/d.warc.gz.torn": b"1",
        "logs/node.log": b"said",
        "logs/frontier.log": b"",
        "logs/uri-errors.log": b"wrong",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    found = build(tmp_path)
    assert (found["page_files"], found["page_bytes"]) == (["pages/a.jsonl"], 3)
    assert found["unfinished_page_files"] == ["pages/b.jsonl.open", "pages/c.jsonl.torn"]
    assert found["unfinished_warc_files"] == ["warcs/d.warc.gz.torn"]
    assert found["logs"] == ["logs/node.log", "logs/uri-errors.log"]
    text = " ".join(shown(found, tmp_path).split())
    assert "WARC files none" in text
    assert "JSON Lines 1 in pages, 3 B" in text
    assert "cut off warcs/d.warc.gz.torn, pages/b.jsonl.open, pages/c.jsonl.torn" in text
    assert "logs logs/node.log, logs/uri-errors.log" in text


def test_a_crawl_that_has_not_ended_has_no_end(tmp_path: Path) -> None:
    crawl = Crawl(crawl="crawl", launch_time=Timestamp(seconds=1_000_000))
    status = CrawlStatus(state=CrawlState.CRAWL_STATE_PAUSED, exit_status=ExitStatus.EXIT_STATUS_PAUSED)
    found = report.build(crawl, status, Statistics(), (), tmp_path)
    assert found["end_time"] is None
    assert found["state"] == "PAUSED"


def test_on_the_screen_it_fits_80_columns(tmp_path: Path) -> None:
    text = shown(build(tmp_path), tmp_path)
    assert all(len(line) <= 80 for line in text.split("\n"))
    for told in (
        "FINISHED (FINISHED_DOCUMENT_LIMIT)",
        "10, 5.0 kB",
        "succeeded: 10",
        "-2 connect failed: 2",
        "queued: 17",
    ):
        assert told in text, told
