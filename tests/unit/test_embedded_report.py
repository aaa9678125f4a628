"""The report: what a crawl came to, as data and on the screen."""

from io import StringIO
from pathlib import Path
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from rich.console import Console

from toehold.frontier.v1.admin_pb2 import Crawl, Refusal, RefusalRule, Seed, SeedResult
from toehold.frontier.v1.crawl_pb2 import (
    CrawlSpec,
    CrawlState,
    CrawlStatus,
    ExitStatus,
    LimitSpec,
    Statistics,
)
from toehold_cli.embedded import report

FINISHED = CrawlStatus(
    state=CrawlState.CRAWL_STATE_FINISHED, exit_status=ExitStatus.EXIT_STATUS_FINISHED_DOCUMENT_LIMIT
)


SEEDS = [
    Seed(uri="http://a.example/", result=SeedResult.SEED_RESULT_FETCHED, outcome="fetched (200)"),
    Seed(uri="http://b.example/", result=SeedResult.SEED_RESULT_FAILED, outcome="name not found"),
]


def build(directory: Path, status: CrawlStatus = FINISHED, **more: Any) -> dict[str, Any]:
    crawl = Crawl(
        crawl="crawl",
        spec=CrawlSpec(limits=LimitSpec(max_documents=10)),
        launch_time=Timestamp(seconds=1_000_000),
        finish_time=Timestamp(seconds=1_000_060),
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
        annotation_counts={"hookFailed": 3, "duplicate": 1},
    )
    refusals = [
        RefusalRule(
            rule="scope.max_link_hops",
            refused_count=1234,
            message="more than 20 links from a seed",
            examples=[Refusal(uri="http://a.example/deep")],
        )
    ]
    told = {"crawl": crawl, "status": status, "statistics": statistics, "seeds": SEEDS, "refusals": refusals}
    return report.build(report.Outcome(**{**told, **more}), directory)


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
    assert found["seeds"] == [
        {"url": "http://a.example/", "result": "FETCHED", "outcome": "fetched (200)", "led_to": None},
        {"url": "http://b.example/", "result": "FAILED", "outcome": "name not found", "led_to": None},
    ]
    assert found["refusals"] == [
        {
            "rule": "scope.max_link_hops",
            "message": "more than 20 links from a seed",
            "count": 1234,
            "examples": ["http://a.example/deep"],
        }
    ]
    assert found["annotations"] == {"duplicate": 1, "hookFailed": 3}
    assert found["limit"] == {"setting": "limits.max_documents", "value": 10}
    assert found["failure"] is None


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


def test_it_counts_the_files_of_a_mirror(tmp_path: Path) -> None:
    for name in ("a.example/index.html", "a.example/x/y", ".lock", ".unfinished/n~1-0"):
        (tmp_path / "mirror" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mirror" / name).write_bytes(b"1234")
    found = build(tmp_path)
    assert (found["mirror_files"], found["mirror_bytes"]) == (2, 8)
    assert "2 in mirror, 8 B" in shown(found, tmp_path)


def test_a_crawl_that_has_not_ended_has_no_end(tmp_path: Path) -> None:
    status = CrawlStatus(state=CrawlState.CRAWL_STATE_PAUSED, exit_status=ExitStatus.EXIT_STATUS_PAUSED)
    found = build(tmp_path, status, crawl=Crawl(crawl="crawl", launch_time=Timestamp(seconds=1_000_000)))
    assert found["end_time"] is None
    assert found["limit"] is None
    assert found["state"] == "PAUSED"


def test_seeds_that_were_not_fetched_come_first_and_many_are_summed_up(tmp_path: Path) -> None:
    fetched = [
        Seed(uri=f"http://{n}.example/", result=SeedResult.SEED_RESULT_FETCHED, outcome="fetched (200)")
        for n in range(30)
    ]
    error = Seed(uri="http://e.example/", result=SeedResult.SEED_RESULT_ERROR, outcome="not found (404)")
    pending = Seed(uri="http://p.example/", result=SeedResult.SEED_RESULT_PENDING, outcome="not fetched yet")
    text = shown(build(tmp_path, seeds=[*fetched, pending, error, *SEEDS]), tmp_path)
    lines = [line.strip() for line in text.split("\n")]
    start = lines.index("http://b.example/: name not found")
    told = "seeds 31 fetched, 1 answered with an error, 1 failed, 1 not fetched yet"
    assert " ".join(" ".join(lines[:start]).split()).endswith(told)
    assert lines[start + 1 : start + 4] == [
        "http://e.example/: not found (404)",
        "http://p.example/: not fetched yet",
        "http://0.example/: fetched (200)",
    ]
    assert lines[start + 20] == "and 14 more"


def test_a_failed_crawl_says_why(tmp_path: Path) -> None:
    status = CrawlStatus(
        state=CrawlState.CRAWL_STATE_FINISHED,
        exit_status=ExitStatus.EXIT_STATUS_FINISHED,
        failure="no page was fetched: the names of all hosts were not found",
    )
    found = build(tmp_path, status)
    assert found["failure"] == status.failure
    assert status.failure in " ".join(shown(found, tmp_path).split())


def test_on_the_screen_it_fits_80_columns_and_nothing_is_cut(tmp_path: Path) -> None:
    long = Seed(
        uri=f"http://a.example/{'x' * 100}/end",
        result=SeedResult.SEED_RESULT_FAILED,
        outcome="robots.txt could not be fetched (503)",
    )
    text = shown(build(tmp_path, seeds=[long]), tmp_path)
    assert all(len(line) <= 80 for line in text.split("\n"))
    assert f"{long.uri}:{long.outcome}".replace(" ", "") in "".join(text.split())
    flowing = " ".join(text.split())
    for told in (
        "Finished: page limit reached",
        "limits.max_documents = 10 is reached (fetches: pages, images, redirects, errors). To fetch "
        "more, run the same command",
        "10, 5.0 kB",
        "succeeded: 10",
        "-2 connect failed: 2",
        "queued: 17",
        "1 234 by scope.max_link_hops: more than 20 links from a seed",
        "hookFailed: 3, duplicate: 1",
    ):
        assert told in flowing, told
