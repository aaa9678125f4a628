"""`toehold run`: launches a crawl, tells what happens to it, and ends as it does."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from client_doubles.command_line import (
    NASCENT,
    PAUSED,
    PREPARING,
    RUNNING,
    STOPPED,
    TIME,
    WHEN,
    message,
    present,
    said,
    status,
)
from client_doubles.fake_frontier import SILENCE, UNAVAILABLE, Answer, FakeFrontier, Refusal
from client_doubles.terminals import read_all, read_until
from frontier_harness.command_line import Toehold
from frontier_harness.ports import KeptPort
from frontier_harness.process import line_of
from frontier_harness.waiting import PATIENCE_S
from google.protobuf.duration_pb2 import Duration

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

PRESENT = admin_pb2.NodePresence.NODE_PRESENCE_PRESENT
FINISHED = status("FINISHED")
AT_LIMIT = status("FINISHED", "FINISHED_DOCUMENT_LIMIT")
EXISTS = Refusal(grpc.StatusCode.ALREADY_EXISTS, "crawl 'c' exists already", "CRAWL_EXISTS")
LAUNCHED = Refusal(
    grpc.StatusCode.FAILED_PRECONDITION, "crawl 'c' is RUNNING", "ILLEGAL_STATE", {"state": "RUNNING"}
)
STATISTICS = crawl_pb2.Statistics(
    succeeded_count=12,
    bytes_count=3000,
    failed_count=2,
    disregarded_count=1,
    succeeded_per_second=4.5,
    elapsed_duration=Duration(seconds=75),
    limited_by="every host rests",
    remaining_min_duration=Duration(seconds=7_000),
    remaining_max_duration=Duration(seconds=7_200),
    annotation_counts={"hookFailed": 3},
)


@pytest.fixture
def spec(tmp_path: Path) -> str:
    file = tmp_path / "crawl.toml"
    file.write_text('name = "c"\nseeds = ["www.example.com"]')
    return str(file)


def story(
    *told: crawl_pb2.Event | crawl_pb2.CrawlStatus, after: int = 0
) -> list[frontier_pb2.StateEventsResponse]:
    """Messages with these events, numbered; a status stands for its event."""
    messages = []
    for number, each in enumerate(told, after + 1):
        event = crawl_pb2.Event(sequence=number, cursor=f"e{number}", event_time=TIME)
        event.MergeFrom(
            crawl_pb2.Event(status_changed=each) if isinstance(each, crawl_pb2.CrawlStatus) else each
        )
        messages.append(message(event))
    return messages


def will_launch(frontier: FakeFrontier) -> None:
    frontier.will("CreateCrawl", admin_pb2.CreateCrawlResponse())
    frontier.will(
        "GetCrawl", *[admin_pb2.GetCrawlResponse(crawl=admin_pb2.Crawl(crawl="c", status=NASCENT))] * 2
    )
    frontier.will("AddSeeds", admin_pb2.AddSeedsResponse(added_count=1))
    frontier.will("LaunchCrawl", admin_pb2.LaunchCrawlResponse(status=PREPARING))


def will_be_found(
    frontier: FakeFrontier, now: crawl_pb2.CrawlStatus, spec: crawl_pb2.CrawlSpec | None = None
) -> None:
    """The crawl has been launched before, and is in this state."""
    frontier.will("CreateCrawl", EXISTS)
    crawl = admin_pb2.GetCrawlResponse(crawl=admin_pb2.Crawl(crawl="c", status=now, spec=spec))
    frontier.will("GetCrawl", crawl, crawl)


def will_tell(frontier: FakeFrontier, now: crawl_pb2.CrawlStatus, *told: Answer) -> None:
    """The crawl is in this state at event 7, and this follows."""
    here, earlier = present(now, "e7"), story(*[crawl_pb2.Event(held=crawl_pb2.Held())] * 7)
    frontier.will("StateEvents", [here, SILENCE], [here, SILENCE], [here, *earlier], [here, *told])


def will_end(frontier: FakeFrontier, end: crawl_pb2.CrawlStatus) -> None:
    frontier.will(
        "GetCrawl", admin_pb2.GetCrawlResponse(crawl=admin_pb2.Crawl(crawl="c", status=end, seed_count=1))
    )
    frontier.will("GetStatistics", admin_pb2.GetStatisticsResponse(status=end, statistics=STATISTICS))


def will_be_seen(frontier: FakeFrontier) -> None:
    """Lets the frontier answer a minute of looks at the crawl, which runs."""
    failed = admin_pb2.Seed(
        uri="https://docs.example/", outcome="name not found", result=admin_pb2.SeedResult.SEED_RESULT_FAILED
    )
    frontier.will("GetCrawl", admin_pb2.GetCrawlResponse(crawl=admin_pb2.Crawl(crawl="c")))
    for rpc, answer in (
        ("GetStatistics", admin_pb2.GetStatisticsResponse(status=RUNNING, statistics=STATISTICS)),
        (
            "GetFrontier",
            admin_pb2.GetFrontierResponse(nodes=[admin_pb2.Node(node="north", presence=PRESENT)]),
        ),
        ("ListSeeds", admin_pb2.ListSeedsResponse(seeds=[failed])),
        ("ListJobs", admin_pb2.ListJobsResponse()),
        ("ListSlowestQueues", admin_pb2.ListSlowestQueuesResponse()),
        ("ListLargestQueues", admin_pb2.ListLargestQueuesResponse()),
    ):
        frontier.will(rpc, *[answer] * 100)


def test_a_crawl_is_launched_and_followed_to_its_end(
    frontier: FakeFrontier, toehold_at: Toehold, spec: str
) -> None:
    will_launch(frontier)
    events = story(
        PREPARING,
        crawl_pb2.Event(seeds_concluded=crawl_pb2.SeedsConcluded(seed_count=1, queued_count=1)),
        RUNNING,
        crawl_pb2.Event(
            statistics=crawl_pb2.IntervalStatistics(
                interval_duration=Duration(seconds=20), succeeded_count=12
            )
        ),
        FINISHED,
    )
    frontier.will("StateEvents", [present(PREPARING, "e1")], [present(PREPARING, "e1"), *events])
    will_end(frontier, FINISHED)
    code, output, errors = toehold_at("run", spec)
    assert (code, errors) == (0, "")
    assert output.splitlines() == [
        f"{WHEN}  PREPARING (RUNNING)",
        f"{WHEN}  1 seed announced, 1 queued",
        f"{WHEN}  RUNNING",
        f"{WHEN}  Finished",
        "c: Finished; 12 succeeded, 3.0 kB, 2 failed, 1 disregarded, in 1 min 15 s",
    ]
    assert frontier.asked["StateEvents"][1].cursor == "start"


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("FINISHED", 0),
        ("FINISHED_DOCUMENT_LIMIT", 7),
        ("FINISHED_DATA_LIMIT", 7),
        ("FINISHED_TIME_LIMIT", 7),
        ("ABORTED", 8),
    ],
)
def test_the_exit_code_tells_how_the_crawl_ended(
    frontier: FakeFrontier, toehold_at: Toehold, spec: str, end: str, code: int
) -> None:
    will_launch(frontier)
    ended = status("FINISHED", end)
    frontier.will("StateEvents", [present(ended, "e1")], [present(ended, "e1"), *story(ended)])
    will_end(frontier, ended)
    assert toehold_at("run", spec)[0] == code


def test_a_crawl_that_failed_is_told_with_the_reason(
    frontier: FakeFrontier, toehold_at: Toehold, spec: str
) -> None:
    will_launch(frontier)
    failed = status("FINISHED", failure="no page was fetched: of 1 URI, 1 name not found")
    frontier.will("StateEvents", [present(failed, "e1")], [present(failed, "e1"), *story(failed)])
    will_end(frontier, failed)
    code, output, _ = toehold_at("run", spec)
    assert code == 4
    assert output.splitlines()[-1] == "c failed: no page was fetched: of 1 URI, 1 name not found"


def test_an_end_that_this_version_does_not_know_is_no_success(
    frontier: FakeFrontier, toehold_at: Toehold, spec: str
) -> None:
    strange = crawl_pb2.CrawlStatus(state=FINISHED.state, reach_time=TIME)
    strange.MergeFromString(b"\x10\x63")  # exit_status = 99
    will_launch(frontier)
    frontier.will("StateEvents", [present(strange, "e1")], [present(strange, "e1")])
    will_end(frontier, strange)
    code, output, _ = toehold_at("run", spec)
    assert (code, output.startswith("c: Finished (99); ")) == (1, True)


def test_for_programs_events_come_first_and_the_statistics_last(
    frontier: FakeFrontier, toehold_at: Toehold, spec: str
) -> None:
    will_launch(frontier)
    frontier.will(
        "StateEvents", [present(PREPARING, "e1")], [present(PREPARING, "e1"), *story(RUNNING, AT_LIMIT)]
    )
    will_end(frontier, AT_LIMIT)
    code, output, errors = toehold_at("run", spec, "--json")
    assert (code, errors) == (7, "")
    first, second, last = said(output)
    assert (first["cursor"], first["status_changed"]["state"]) == ("e1", "RUNNING")
    assert second["status_changed"]["exit_status"] == "FINISHED_DOCUMENT_LIMIT"
    assert (last["crawl"], last["seed_count"], last["statistics"]["succeeded_count"]) == ("c", 1, 12)
    assert last["status"]["exit_status"] == "FINISHED_DOCUMENT_LIMIT"


def test_a_crawl_that_was_launched_before_is_followed_from_now_on(
    frontier: FakeFrontier, toehold_at: Toehold, spec: str
) -> None:
    will_be_found(frontier, RUNNING)
    will_tell(frontier, RUNNING, *story(STOPPED, after=7))
    will_end(frontier, STOPPED)
    code, output, errors = toehold_at("run", spec)
    assert (code, errors) == (8, "")
    assert output.splitlines()[:2] == [f"{WHEN}  RUNNING", f"{WHEN}  Finished: stopped"]
    assert [request.cursor for request in frontier.asked["StateEvents"]] == ["", "", "start", "e7"]
    assert not frontier.asked["AddSeeds"] and not frontier.asked["LaunchCrawl"]


def test_a_crawl_that_somebody_else_launches_meanwhile_is_followed(
    frontier: FakeFrontier, toehold_at: Toehold, spec: str
) -> None:
    frontier.will("CreateCrawl", admin_pb2.CreateCrawlResponse())
    crawl = admin_pb2.GetCrawlResponse(crawl=admin_pb2.Crawl(crawl="c", status=RUNNING))
    frontier.will("GetCrawl", *[crawl] * 3)
    frontier.will("AddSeeds", admin_pb2.AddSeedsResponse(added_count=1))
    frontier.will("LaunchCrawl", LAUNCHED)
    will_tell(frontier, RUNNING, *story(FINISHED, after=7))
    will_end(frontier, FINISHED)
    assert toehold_at("run", spec)[0] == 0


def test_a_crawl_that_has_finished_is_told_as_it_ended(
    frontier: FakeFrontier, toehold_at: Toehold, spec: str
) -> None:
    will_be_found(frontier, AT_LIMIT, crawl_pb2.CrawlSpec(weight=3))
    frontier.will("StateEvents", [present(AT_LIMIT, "e9")])
    will_end(frontier, AT_LIMIT)
    code, output, errors = toehold_at("run", spec)
    assert (code, errors) == (7, "")
    told = "Finished: page limit reached; 12 succeeded, 3.0 kB, 2 failed, 1 disregarded, in 1 min 15 s"
    assert output == f"c: {told}\n"


def test_a_crawl_that_runs_with_other_settings_is_told(
    frontier: FakeFrontier, toehold_at: Toehold, spec: str
) -> None:
    will_be_found(frontier, RUNNING, crawl_pb2.CrawlSpec(limits=crawl_pb2.LimitSpec(max_documents=5)))
    will_tell(frontier, RUNNING, *story(FINISHED, after=7))
    will_end(frontier, FINISHED)
    code, _, errors = toehold_at("run", spec)
    assert code == 0
    assert errors == "The crawl runs with other settings than SPEC's. To change them: toehold update SPEC\n"


def test_another_crawl_of_the_name_is_not_launched(
    frontier: FakeFrontier, toehold_at: Toehold, spec: str
) -> None:
    will_be_found(frontier, NASCENT, crawl_pb2.CrawlSpec(weight=3))
    assert toehold_at("run", spec) == (5, "", "Error: crawl 'c' exists already\n")
    assert not frontier.asked["LaunchCrawl"]


def test_a_crawl_that_was_created_needs_no_spec(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    frontier.will("GetCrawl", admin_pb2.GetCrawlResponse(crawl=admin_pb2.Crawl(crawl="d", status=NASCENT)))
    frontier.will("LaunchCrawl", admin_pb2.LaunchCrawlResponse(status=PREPARING))
    frontier.will("StateEvents", [present(PREPARING, "e1")], [present(PREPARING, "e1"), *story(FINISHED)])
    will_end(frontier, FINISHED)
    assert toehold_at("run", "--crawl", "d")[0] == 0
    assert frontier.asked["LaunchCrawl"][0].crawl == "d"
    assert not frontier.asked["CreateCrawl"]


def test_a_pause_is_told_with_its_reason_and_waited_for(
    frontier: FakeFrontier, address: str, toehold_at: Toehold, spec: str
) -> None:
    will_launch(frontier)
    full = crawl_pb2.Event(problem=crawl_pb2.Problem(kind="disk-reserve", detail="9 MB are left"))
    paused = status("PAUSED", reason="9 MB are left")
    frontier.will(
        "StateEvents",
        [present(PREPARING, "e1")],
        [present(PREPARING, "e1"), *story(full, paused, RUNNING, FINISHED)],
    )
    will_end(frontier, FINISHED)
    code, output, _ = toehold_at("run", spec)
    assert code == 0
    assert output.splitlines()[:4] == [
        f"{WHEN}  problem: 9 MB are left (disk-reserve)",
        f"{WHEN}  PAUSED: 9 MB are left",
        f"To resume the crawl: toehold resume --crawl c --frontier {address}",
        f"{WHEN}  RUNNING",
    ]


def test_a_restart_of_the_frontier_is_waited_out_without_gap_or_repeat(
    frontier: FakeFrontier, toehold_at: Toehold, spec: str
) -> None:
    will_launch(frontier)
    torn_down = crawl_pb2.Event(torn_down=crawl_pb2.TornDown())
    frontier.will(
        "StateEvents",
        [present(PREPARING, "e1")],
        [present(PREPARING, "e1"), *story(RUNNING), UNAVAILABLE],
        UNAVAILABLE,
        [present(RUNNING, "e1"), *story(STOPPED, torn_down, after=1)],
    )
    frontier.will("GetCrawl", UNAVAILABLE)
    will_end(frontier, STOPPED)
    code, output, errors = toehold_at("run", spec)
    assert (code, errors) == (8, "")
    lines = [f"{WHEN}  RUNNING", f"{WHEN}  Finished: stopped", f"{WHEN}  torn down"]
    assert output.splitlines()[:3] == lines
    assert [request.cursor for request in frontier.asked["StateEvents"]] == ["", "start", "e1", "e1"]


def test_no_frontier_there_is_exit_code_3_at_once(toehold_at: Toehold, spec: str) -> None:
    with KeptPort() as nobodys:
        code, output, errors = toehold_at("run", spec, "--frontier", nobodys.address)
    assert (code, output) == (3, "")
    assert errors == f"Error: no frontier answers at {nobodys.address} (Connection refused)\n"


def started(address: str, *arguments: str, output: int = subprocess.PIPE) -> subprocess.Popen[str]:
    """`toehold run` as a process of its own."""
    command = [sys.executable, "-m", "toehold_cli", "run", *arguments, "--frontier", address]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "100"}
    return subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE, text=True, env=environment)


def test_ctrl_c_ends_the_command_and_not_the_crawl(frontier: FakeFrontier, address: str, spec: str) -> None:
    will_launch(frontier)
    quiet: list[Answer] = [present(PREPARING, "e1"), *story(RUNNING), SILENCE]
    frontier.will("StateEvents", [present(PREPARING, "e1")], quiet)
    with started(address, spec) as process:
        assert "RUNNING" in line_of(process)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    stop = f"toehold stop --crawl c --frontier {address}"
    assert errors == f"The crawl goes on. To stop it: {stop}\n"
    assert not frontier.asked["RequestState"]


def test_a_pipe_has_lines_that_tell_how_it_goes_and_what_is_wrong_at_once(
    frontier: FakeFrontier, address: str, spec: str
) -> None:
    will_launch(frontier)
    quiet: list[Answer] = [present(PREPARING, "e1"), *story(RUNNING), SILENCE]
    frontier.will("StateEvents", [present(PREPARING, "e1")], quiet)
    will_be_seen(frontier)
    with started(address, spec) as process:
        lines = [line_of(process) for _ in range(4)]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
    assert lines[0] == f"{WHEN}  RUNNING\n"
    assert lines[1].endswith(
        "UTC  RUNNING  12 pages  4.5 pages/s  0 B/s  0 queued  2 failed  3.0 kB  about 2 h left  "
        "every host rests  the hook or callback failed on 3 pages\n"
    )
    assert lines[2].endswith("UTC  problem: the hook or callback failed on 3 pages\n")
    assert lines[3].endswith("UTC  problem: seed docs.example: name not found\n")


def test_a_terminal_has_a_panel_that_tells_how_it_goes(
    frontier: FakeFrontier, address: str, spec: str
) -> None:
    will_be_found(frontier, PAUSED)
    will_tell(frontier, PAUSED, *story(RUNNING, after=7), SILENCE)
    will_be_seen(frontier)
    ours, theirs = pty.openpty()
    with started(address, spec, output=theirs) as process:
        os.close(theirs)
        shown = read_until(ours, f"{WHEN}  RUNNING")
        shown += read_until(ours, "every host rests")
        shown += read_until(ours, "2 failed")
        process.send_signal(signal.SIGINT)
        shown += read_all(ours)
        assert process.wait(PATIENCE_S) == 130
    assert f"{WHEN}  PAUSED" in shown and f"{WHEN}  RUNNING" in shown
    for words in (
        "RUNNING",
        "12 succeeded, 3.0 kB",
        "4.5 pages/s",
        "0 queued (0 being fetched)",
        "2 failed",
    ):
        assert words in shown, words
