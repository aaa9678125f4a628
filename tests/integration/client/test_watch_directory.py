"""`toehold watch --dir` while the frontier of the directory comes, goes, and comes back elsewhere."""

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from client_doubles.fake_frontier import SILENCE, Answer, FakeFrontier, Refusal, serving

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2
from toehold_cli.embedded.outside import OutsideObserver
from toehold_cli.main import run
from toehold_client.errors import ClientClosed, FrontierUnavailable, InvalidArgument, UnknownCrawl
from toehold_client.watching.look import Look

RUNNING = crawl_pb2.CrawlStatus(
    state=crawl_pb2.CrawlState.CRAWL_STATE_RUNNING, exit_status=crawl_pb2.ExitStatus.EXIT_STATUS_RUNNING
)
PAUSED, FINISHED = crawl_pb2.CrawlState.CRAWL_STATE_PAUSED, crawl_pb2.CrawlState.CRAWL_STATE_FINISHED


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The directory of a crawl that has not run yet."""
    (tmp_path / "crawl.json").write_text("{}")
    return tmp_path


@pytest.fixture
def observer(directory: Path) -> Iterator[OutsideObserver]:
    made = OutsideObserver(directory, None, lambda: None)
    yield made
    made.end()
    made.close()


def scripted(pages: int) -> FakeFrontier:
    """A frontier on which a crawl runs that has so many pages."""
    frontier = FakeFrontier()
    statistics = crawl_pb2.Statistics(succeeded_count=pages, limited_by="every host rests")
    for rpc, answer in (
        ("GetCrawl", admin_pb2.GetCrawlResponse(crawl=admin_pb2.Crawl(crawl="c"))),
        ("GetStatistics", admin_pb2.GetStatisticsResponse(status=RUNNING, statistics=statistics)),
        ("GetFrontier", admin_pb2.GetFrontierResponse()),
        ("ListSeeds", admin_pb2.ListSeedsResponse()),
        ("ListJobs", admin_pb2.ListJobsResponse()),
        ("ListSlowestQueues", admin_pb2.ListSlowestQueuesResponse()),
        ("ListLargestQueues", admin_pb2.ListLargestQueuesResponse()),
        ("Explain", admin_pb2.ExplainResponse()),
    ):
        frontier.will(rpc, *[answer] * 50)
    events: list[Answer] = [frontier_pb2.StateEventsResponse(present=RUNNING, cursor="0"), SILENCE]
    frontier.will("StateEvents", *[events] * 50)
    return frontier


def announce(directory: Path, address: str) -> None:
    content = {"address": address, "pid": os.getpid(), "crawl": "c"}
    (directory / "frontier.json").write_text(json.dumps(content))


def report(directory: Path, state: str, **more: object) -> None:
    content = {"crawl": "c", "state": state, "exit_status": state, "pages": 7, "bytes": 70, "queued": 3}
    (directory / "report.json").write_text(json.dumps(content | more))


def told(look: Look) -> tuple[str, int, str]:
    return crawl_pb2.CrawlState.Name(look.status.state)[12:], look.statistics.succeeded_count, look.waiting_in


def test_a_crawl_that_goes_on_at_another_address_is_seen_there(
    directory: Path, observer: OutsideObserver
) -> None:
    with serving(scripted(5)) as address:
        announce(directory, address)
        assert told(observer.look()) == ("RUNNING", 5, "")
        (directory / "frontier.json").unlink()
        report(directory, "PAUSED")
        waiting = observer.look()
    assert told(waiting) == ("PAUSED", 5, str(directory))
    assert (waiting.why, list(waiting.nodes), waiting.ended) == ("", [], False)
    with serving(scripted(9)) as elsewhere:
        announce(directory, elsewhere)
        gone_on = observer.look()
    assert (told(gone_on), gone_on.address) == (("RUNNING", 9, ""), elsewhere)


def test_a_crawl_that_is_paused_when_the_watch_begins_is_told_as_its_report_says(
    directory: Path, observer: OutsideObserver
) -> None:
    assert told(observer.look()) == ("PAUSED", 0, str(directory)), "there is no report yet"
    report(directory, "PAUSED", duration_seconds=61.5, dispositions={"FAILED": 2}, fetch_statuses={"-1": 2})
    look = observer.look()
    assert told(look) == ("PAUSED", 7, str(directory))
    assert (look.crawl.crawl, look.statistics.failed_count, look.statistics.queued_count) == ("c", 2, 3)
    assert look.statistics.elapsed_duration.ToMilliseconds() == 61_500


def test_a_run_that_was_killed_is_waited_for_too(directory: Path, observer: OutsideObserver) -> None:
    content = {"address": "127.0.0.1:1", "pid": 2**22 + 1, "crawl": "c"}  # no process has this id
    (directory / "frontier.json").write_text(json.dumps(content))
    (directory / "report.json").write_text("{ damaged")
    assert told(observer.look()) == ("PAUSED", 0, str(directory))


def test_a_crawl_that_ended_unseen_has_ended(directory: Path, observer: OutsideObserver) -> None:
    with serving(scripted(5)) as address:
        announce(directory, address)
        observer.look()
        (directory / "frontier.json").unlink()
    failure = "no page was fetched: the seed was not taken in"
    report(directory, "FINISHED", exit_status="FINISHED_DOCUMENT_LIMIT", failure=failure)
    look = observer.look()
    assert look.ended and look.status.failure == failure
    assert look.status.exit_status == crawl_pb2.ExitStatus.EXIT_STATUS_FINISHED_DOCUMENT_LIMIT


def test_a_directory_without_a_crawl_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FrontierUnavailable):
        OutsideObserver(tmp_path, None, lambda: None).look()
    with pytest.raises(InvalidArgument):
        OutsideObserver(tmp_path / "missing", None, lambda: None).look()


def test_a_crawl_that_was_named_and_is_not_there_is_an_error(directory: Path) -> None:
    unknown = Refusal(grpc.StatusCode.NOT_FOUND, "there is no crawl", "UNKNOWN_CRAWL")
    frontier = FakeFrontier()
    frontier.will("GetCrawl", unknown, unknown)
    with serving(frontier) as address:
        announce(directory, address)
        named, unnamed = (OutsideObserver(directory, name, lambda: None) for name in ("x", None))
        with pytest.raises(UnknownCrawl):
            named.look()
        assert told(unnamed.look())[0] == "PAUSED", "it is about to be created"
        named.end()
        unnamed.end()


def test_once_ended_it_connects_to_no_frontier(directory: Path) -> None:
    observer = OutsideObserver(directory, None, lambda: None)
    observer.end()
    announce(directory, "127.0.0.1:1")
    with pytest.raises(ClientClosed):
        observer.look()


def test_the_command_waits_and_ends_with_the_crawl(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    timer = threading.Timer(0.5, lambda: report(directory, "FINISHED"))
    timer.start()
    assert run(("watch", "--dir", str(directory), "--interval", "0.1")) == 0
    timer.join()
    first, *_, last = capsys.readouterr().out.splitlines()
    assert "UTC  PAUSED  0 pages" in first
    assert f"paused; waiting for it to go on in {directory}" in first
    assert "UTC  Finished" in last


def test_for_programs_a_crawl_that_stays_paused_is_told_once_an_interval(
    directory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    def last_report(_: Path) -> dict[str, str]:
        nonlocal looks
        looks += 1
        return {"crawl": "c", "state": "FINISHED" if looks == 4 else "PAUSED"}

    monkeypatch.setattr("toehold_client.watching.observer._AWAY_LOOK_S", 0.01)
    monkeypatch.setattr("toehold_cli.embedded.outside.last_report", last_report)
    assert run(("watch", "--dir", str(directory), "--interval", "86400", "--json")) == 0
    told = [json.loads(line)["status"]["state"] for line in capsys.readouterr().out.splitlines()]
    assert told == ["PAUSED", "FINISHED"]


def test_two_frontiers_are_wrong_usage(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(("watch", "--dir", str(directory), "--frontier", "127.0.0.1:1")) == 2
    assert "Give only one of them" in capsys.readouterr().err
