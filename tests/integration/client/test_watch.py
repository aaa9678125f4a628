"""`toehold watch` on a frontier that does as it is told: what it prints into a pipe, and how it ends."""

import json
import threading
from collections.abc import Callable
from functools import partial
from itertools import groupby
from select import select
from typing import Any

import grpc
import pytest
from client_doubles.fake_frontier import SILENCE, UNAVAILABLE, Answer, FakeFrontier, Refusal
from frontier_harness.command_line import toehold_of
from frontier_harness.waiting import PATIENCE_S
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2
from toehold_cli.main import run
from toehold_client import CrawlController, FrontierClient
from toehold_client.watching.interruptions import Bell
from toehold_client.watching.observer import Looks, Observer

Watch = Callable[..., tuple[int, list[str], str]]

NOW_S = 1_800_000_000
LATE_S = 0.2
"""How late a look is shown."""
WHY = "politeness: 3 queues rest, none is being fetched from; the next wakes in 2 s"


def status(state: str, exit_status: str = "", after_s: int = 0, **more: Any) -> crawl_pb2.CrawlStatus:
    return crawl_pb2.CrawlStatus(
        state=crawl_pb2.CrawlState.Value(f"CRAWL_STATE_{state}"),
        exit_status=crawl_pb2.ExitStatus.Value(f"EXIT_STATUS_{exit_status or state}"),
        reach_time=Timestamp(seconds=NOW_S + after_s),
        **more,
    )


RUNNING, FINISHED = status("RUNNING"), status("FINISHED", after_s=5)


def statistics(told: crawl_pb2.CrawlStatus, **more: Any) -> admin_pb2.GetStatisticsResponse:
    why = WHY if told.state == crawl_pb2.CrawlState.CRAWL_STATE_RUNNING else ""
    statistics = crawl_pb2.Statistics(
        snapshot_time=Timestamp(seconds=NOW_S), limited_by=why, succeeded_count=7, **more
    )
    return admin_pb2.GetStatisticsResponse(status=told, statistics=statistics)


def see(frontier: FakeFrontier, *statuses: crawl_pb2.CrawlStatus | Refusal) -> None:
    """Lets the frontier answer so many looks, if it answers them."""
    for told in statuses:
        if isinstance(told, Refusal):
            frontier.will("GetStatistics", told)
            continue
        frontier.will("GetStatistics", statistics(told))
        _see_the_rest(frontier, told)


def see_running_until(frontier: FakeFrontier, done: Callable[[], bool]) -> None:
    """Lets it answer looks at a crawl that has finished by the time that this is so; a minute of looks."""
    for _ in range(600):
        frontier.will("GetStatistics", lambda _: statistics(FINISHED if done() else RUNNING))
        _see_the_rest(frontier, RUNNING)
    frontier.will("Explain", admin_pb2.ExplainResponse(reasons=[admin_pb2.Reason(message="because of this")]))


def _see_the_rest(frontier: FakeFrontier, told: crawl_pb2.CrawlStatus) -> None:
    frontier.will("GetFrontier", admin_pb2.GetFrontierResponse(lease_duration=Duration(seconds=30)))
    if told.state != crawl_pb2.CrawlState.CRAWL_STATE_RUNNING:
        frontier.will(
            "Explain", admin_pb2.ExplainResponse(reasons=[admin_pb2.Reason(message="because of this")])
        )
    frontier.will("ListSeeds", admin_pb2.ListSeedsResponse())
    frontier.will("ListJobs", admin_pb2.ListJobsResponse())
    frontier.will("ListSlowestQueues", admin_pb2.ListSlowestQueuesResponse())
    frontier.will("ListLargestQueues", admin_pb2.ListLargestQueuesResponse())


def events(*told: crawl_pb2.Event, then: Answer = SILENCE) -> list[Answer]:
    """A stream of events that goes on for ever, or ends with a refusal."""
    present = frontier_pb2.StateEventsResponse(present=RUNNING, cursor="0")
    numbered = enumerate(told, 1)
    return [
        present,
        *(frontier_pb2.StateEventsResponse(event=each, cursor=str(n)) for n, each in numbered),
        then,
    ]


@pytest.fixture
def watch(
    frontier: FakeFrontier, address: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Watch:
    """Runs `toehold watch` on the fake frontier: exit code, lines, errors."""
    monkeypatch.setenv("TOEHOLD_FRONTIER", address)
    frontier.will("GetCrawl", admin_pb2.GetCrawlResponse(crawl=admin_pb2.Crawl(crawl="c")))

    def run_it(*arguments: str) -> tuple[int, list[str], str]:
        code, output, errors = toehold_of(capsys)("watch", "--crawl", "c", *arguments)
        return code, output.splitlines(), errors

    return run_it


def test_it_tells_a_line_each_interval_and_ends_with_the_crawl(frontier: FakeFrontier, watch: Watch) -> None:
    see(frontier, RUNNING, RUNNING, FINISHED)
    frontier.will("StateEvents", events())
    code, lines, errors = watch("--interval", "0.1")
    assert (code, errors) == (0, "")
    assert [line.split("  ")[1] for line in lines] == ["RUNNING", "RUNNING", "Finished"]
    assert lines[0].endswith(f"  {WHY}") and lines[-1].endswith("  because of this")


def test_an_event_that_matters_ends_the_wait(frontier: FakeFrontier, watch: Watch) -> None:
    see(frontier, RUNNING, FINISHED)
    ended = crawl_pb2.Event(sequence=1, status_changed=FINISHED, event_time=Timestamp(seconds=NOW_S + 5))
    frontier.will("StateEvents", events(ended))
    code, lines, _ = watch("--interval", "86400")
    assert code == 0
    assert [line.split("  ")[1] for line in lines] == ["RUNNING", "Finished"]


def test_no_look_is_missed_however_late_it_is_shown(frontier: FakeFrontier, address: str) -> None:
    takes = 0  # counted before a look is taken: the next may be made at once
    takes_by_then: list[int] = []
    looked_again = threading.Event()

    def answer(_: object) -> admin_pb2.GetStatisticsResponse:
        takes_by_then.append(takes)
        if len(takes_by_then) == 2:
            looked_again.set()
        return statistics(RUNNING)

    frontier.will("GetCrawl", admin_pb2.GetCrawlResponse(crawl=admin_pb2.Crawl(crawl="c")))
    frontier.will("StateEvents", events())
    for _ in range(4):
        frontier.will("GetStatistics", answer)
        _see_the_rest(frontier, RUNNING)
    observing = partial(Observer, CrawlController(FrontierClient(address), "c"))
    with Bell() as bell, Looks(observing, 0.0, bell) as looks:
        looked_again.wait(LATE_S)
        while takes < 3:
            assert select([bell], [], [], PATIENCE_S)[0], "a look"
            bell.silence()
            takes += 1
            assert looks.take() is not None
    assert takes_by_then[:3] == [0, 1, 2]


def test_a_problem_is_told_at_once(frontier: FakeFrontier, watch: Watch) -> None:
    see(frontier, RUNNING, FINISHED)
    problem = crawl_pb2.Event(
        sequence=1,
        problem=crawl_pb2.Problem(kind="disk-reserve", detail="500 MB are free"),
        event_time=Timestamp(seconds=NOW_S + 1),
    )
    frontier.will("StateEvents", events(problem))
    code, lines, _ = watch("--interval", "86400")
    assert code == 0
    assert lines[1] == "2027-01-15 08:00:01 UTC  problem: 500 MB are free (disk-reserve)"
    assert "  Finished  " in lines[2]


def test_a_crawl_that_is_being_torn_down_is_watched_to_its_last_event(
    frontier: FakeFrontier, watch: Watch
) -> None:
    tearing_down = status("FINISHED", after_s=5, tearing_down=True)
    torn_down = status("FINISHED", after_s=5, tearing_down=True, torn_down=True)
    see(frontier, RUNNING, tearing_down, torn_down)
    frontier.will("StateEvents", events())
    code, lines, _ = watch("--interval", "0.1")
    assert code == 0
    assert [line.split("  ")[1] for line in lines] == [
        "RUNNING",
        "Finished, being torn down",
        "Finished, torn down",
    ]


def test_a_frontier_that_is_away_is_told_and_waited_out(frontier: FakeFrontier, watch: Watch) -> None:
    see(frontier, RUNNING, UNAVAILABLE, UNAVAILABLE, RUNNING, FINISHED)
    frontier.will("StateEvents", events())
    code, lines, _ = watch("--interval", "0.1")
    assert code == 0
    away = ["no answer for" in line for line in lines]
    assert [told for told, _ in groupby(away)] == [False, True, False], (
        "once, though perhaps not in each line"
    )
    assert lines[1].endswith("s: the frontier is shutting down")


def test_a_frontier_that_leaves_with_the_crawls_end_has_told_it(frontier: FakeFrontier, watch: Watch) -> None:
    """As that of `toehold crawl` does; and so it is with a teardown."""
    see(frontier, RUNNING, *[UNAVAILABLE] * 100)
    ended = status("FINISHED", "ABORTED", after_s=5, tearing_down=True)
    frontier.will(
        "StateEvents",
        events(
            crawl_pb2.Event(sequence=1, status_changed=ended),
            crawl_pb2.Event(sequence=2, torn_down=crawl_pb2.TornDown()),
            then=UNAVAILABLE,
        ),
        *[UNAVAILABLE] * 100,
    )
    code, lines, _ = watch("--interval", "0.1")
    assert code == 0
    assert "  Finished: stopped, torn down  7 pages  " in lines[-1]


def test_events_are_heard_again_where_they_broke_off(frontier: FakeFrontier, watch: Watch) -> None:
    too_old = Refusal(grpc.StatusCode.OUT_OF_RANGE, "they are not kept any more", "CURSOR_TOO_OLD")
    see_running_until(frontier, lambda: len(frontier.asked["StateEvents"]) == 2)
    frontier.will(
        "StateEvents", events(crawl_pb2.Event(sequence=1, status_changed=RUNNING), then=too_old), events()
    )
    assert watch("--interval", "0.1")[0] == 0
    assert [request.cursor for request in frontier.asked["StateEvents"]] == ["start", "start"]


def test_settings_that_somebody_changed_are_seen(frontier: FakeFrontier, watch: Watch) -> None:
    see_running_until(frontier, lambda: len(frontier.asked["GetCrawl"]) == 2)
    changed = crawl_pb2.CrawlSpec(limits=crawl_pb2.LimitSpec(max_documents=77))
    frontier.will("GetCrawl", admin_pb2.GetCrawlResponse(crawl=admin_pb2.Crawl(crawl="c", spec=changed)))
    update = crawl_pb2.Event(
        sequence=1, operator_acted=crawl_pb2.OperatorActed(operator="a", action="update")
    )
    frontier.will("StateEvents", events(update))
    assert watch("--interval", "0.1")[0] == 0
    assert len(frontier.asked["GetCrawl"]) == 2


def test_json_is_an_object_each_interval(frontier: FakeFrontier, watch: Watch) -> None:
    see(frontier, RUNNING, UNAVAILABLE, FINISHED)
    frontier.will("StateEvents", events())
    code, lines, _ = watch("--interval", "0.1", "--json")
    assert code == 0
    told = [json.loads(line) for line in lines]
    assert [each["status"]["state"] for each in told] == ["RUNNING", "RUNNING", "FINISHED"]
    assert [each["away"] is not None for each in told] == [False, True, False]
    assert told[0]["why"] == WHY


def test_once_tells_all_that_there_is_with_the_problems_so_far(frontier: FakeFrontier, watch: Watch) -> None:
    see(frontier, RUNNING)
    problem = crawl_pb2.Event(
        sequence=1,
        problem=crawl_pb2.Problem(kind="clock", detail="\x1b[2Jfull"),
        event_time=Timestamp(seconds=NOW_S - 90),
    )
    only_present: list[Answer] = [frontier_pb2.StateEventsResponse(present=RUNNING, cursor="1"), SILENCE]
    frontier.will("StateEvents", only_present, events(problem))
    code, lines, errors = watch("--once")
    assert (code, errors) == (0, "")
    assert lines[0].startswith("crawl    RUNNING  c, for ")
    assert lines[1] == f"why      {WHY}"
    assert "problems 2 min ago: \\x1b[2Jfull (clock)" in lines


def test_once_as_json_is_one_object(frontier: FakeFrontier, watch: Watch) -> None:
    see(frontier, RUNNING)
    frontier.will(
        "StateEvents", [frontier_pb2.StateEventsResponse(present=RUNNING, cursor="0"), SILENCE], events()
    )
    code, lines, _ = watch("--once", "--json")
    assert code == 0
    (told,) = map(json.loads, lines)
    assert told["crawl"] == "c" and told["problems"] == []


@pytest.mark.parametrize("arguments", [(), ("--once",), ("--json",)], ids=str)
def test_a_crawl_that_is_not_there_is_an_error(
    frontier: FakeFrontier, address: str, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    unknown = Refusal(grpc.StatusCode.NOT_FOUND, "there is no crawl 'c'", "UNKNOWN_CRAWL")
    for rpc in ("GetCrawl", "StateEvents"):
        frontier.will(rpc, unknown)
    assert run(("watch", "--frontier", address, "--crawl", "c", *arguments)) == 9
    assert capsys.readouterr() == ("", "Error: there is no crawl 'c'\n")


def test_a_frontier_that_was_never_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(("watch", "--frontier", "127.0.0.1:1", "--crawl", "c")) == 3
    out, errors = capsys.readouterr()
    assert out == "" and "no frontier answers at 127.0.0.1:1" in errors


def test_a_crawl_that_is_deleted_meanwhile_ends_the_watch(frontier: FakeFrontier, watch: Watch) -> None:
    unknown = Refusal(grpc.StatusCode.NOT_FOUND, "there is no crawl 'c'", "UNKNOWN_CRAWL")
    see(frontier, RUNNING, unknown)
    frontier.will("StateEvents", events())
    code, lines, errors = watch("--interval", "0.1")
    assert code == 9 and len(lines) == 1
    assert errors == "Error: there is no crawl 'c'\n"
