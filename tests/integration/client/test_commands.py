"""The commands of `toehold`: which crawl they mean, what they print, and how they end."""

import json
import os
import re
from pathlib import Path

import grpc
import pytest
from client_doubles.command_line import (
    PAUSED,
    PAUSING,
    RUNNING,
    STOPPED,
    TIME,
    message,
    present,
    said,
    status,
)
from client_doubles.fake_frontier import SILENCE, Answer, FakeFrontier, Refusal, serving
from frontier_harness.command_line import Toehold
from google.protobuf.duration_pb2 import Duration

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2
from toehold_cli.exits import MEANINGS

ILLEGAL = Refusal(
    grpc.StatusCode.FAILED_PRECONDITION, "crawl 'c' is FINISHED", "ILLEGAL_STATE", {"state": "FINISHED"}
)
UNKNOWN = Refusal(grpc.StatusCode.NOT_FOUND, "there is no crawl 'c'", "UNKNOWN_CRAWL")
ONE = admin_pb2.ListCrawlsResponse(
    crawls=[admin_pb2.Crawl(crawl="c", status=RUNNING, seed_count=2, create_time=TIME)]
)

# which frontier, which crawl


def test_the_only_crawl_need_not_be_named(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    frontier.will("ListCrawls", ONE)
    frontier.will("RequestState", frontier_pb2.RequestStateResponse(status=PAUSING))
    assert toehold_at("pause") == (0, "c: PAUSING (WAITING_FOR_PAUSE)\n", "")
    assert frontier.asked["RequestState"][0].crawl == "c"


def test_a_frontier_without_crawls_has_no_such_crawl(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    frontier.will("ListCrawls", admin_pb2.ListCrawlsResponse())
    code, _, errors = toehold_at("pause")
    assert code == 9
    assert "has no crawl" in errors


def test_one_of_several_crawls_is_to_be_named(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    frontier.will(
        "ListCrawls",
        admin_pb2.ListCrawlsResponse(crawls=[admin_pb2.Crawl(crawl="a"), admin_pb2.Crawl(crawl="b")]),
    )
    code, _, errors = toehold_at("stop")
    assert code == 2
    assert "choose one with --crawl (a, b)" in errors
    assert not frontier.asked["RequestState"]


def test_a_directory_names_frontier_and_crawl(
    frontier: FakeFrontier, address: str, toehold_at: Toehold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOEHOLD_FRONTIER", "127.0.0.1:1")
    found = {"address": address, "pid": os.getpid(), "crawl": "inside"}
    (tmp_path / "frontier.json").write_text(json.dumps(found))
    frontier.will(
        "RequestState",
        frontier_pb2.RequestStateResponse(status=PAUSED),
        frontier_pb2.RequestStateResponse(status=PAUSED),
    )
    assert toehold_at("pause", "--dir", str(tmp_path))[0] == 0
    assert toehold_at("pause", "--dir", str(tmp_path), "--crawl", "another")[0] == 0
    assert [request.crawl for request in frontier.asked["RequestState"]] == ["inside", "another"]


@pytest.mark.parametrize(
    ("content", "code", "told"),
    [
        (None, 2, "holds no crawl of `toehold crawl`"),
        ("", 2, "is damaged"),
        ('{"address": 5}', 2, "is damaged"),
        ('{"address": "x", "pid": -1, "crawl": "c"}', 2, "holds no crawl of `toehold crawl`"),
        ('{"address": "127.0.0.1:1", "pid": 1, "crawl": "c"}', 2, "holds no crawl of `toehold crawl`"),
        (
            '{"address": "x", "pid": 1, "crawl": "c"}',
            2,
            "the address of a frontier must be HOST:PORT, such as 127.0.0.1:7707, got 'x'",
        ),
    ],
)
def test_a_directory_without_a_usable_frontier_is_told(
    toehold_at: Toehold, tmp_path: Path, content: str | None, code: int, told: str
) -> None:
    if content is not None:
        (tmp_path / "frontier.json").write_text(content)
    ended, _, errors = toehold_at("status", "--dir", str(tmp_path))
    assert (ended, told in errors) == (code, True)


def test_a_directory_that_is_none_is_told(toehold_at: Toehold, tmp_path: Path) -> None:
    assert toehold_at("status", "--dir", str(tmp_path / "missing"))[0] == 2


def test_two_frontiers_at_once_are_refused(toehold_at: Toehold, address: str, tmp_path: Path) -> None:
    code, _, errors = toehold_at("status", "--dir", str(tmp_path), "--frontier", address)
    assert code == 2
    assert "Give only one of them" in errors


@pytest.mark.parametrize(
    "command",
    ["status", "pause", "resume", "stop", "events", "queues", "crawls", "delete --yes", "pause --crawl c"],
)
def test_no_frontier_there_is_exit_code_3(toehold_at: Toehold, command: str) -> None:
    with serving(FakeFrontier()) as address:
        pass
    code, output, errors = toehold_at(*command.split(), "--frontier", address)
    assert (code, output) == (3, "")
    assert errors == f"Error: no frontier answers at {address} (Connection refused)\n"


@pytest.mark.parametrize("command", ["status", "pause", "queues", "events"])
def test_an_unknown_crawl_is_exit_code_9(frontier: FakeFrontier, toehold_at: Toehold, command: str) -> None:
    for rpc in ("GetCrawl", "RequestState", "ListQueues", "StateEvents"):
        frontier.will(rpc, UNKNOWN)
    assert toehold_at(command, "--crawl", "c") == (9, "", "Error: there is no crawl 'c'\n")


def test_a_defect_of_the_frontier_names_the_line_in_its_log(
    frontier: FakeFrontier, toehold_at: Toehold
) -> None:
    code, _, errors = toehold_at("status", "--crawl", "c")  # for which nothing is in line
    (name,) = frontier.request_ids["GetCrawl"]
    assert code == 1
    assert errors.splitlines()[-1] == f"The frontier's log has more: request_id {name}"


def test_wrong_usage_is_exit_code_2(toehold_at: Toehold) -> None:
    for arguments in (
        ["fly"],
        ["pause", "--wait", "soon"],
        ["queues", "--state", "purple"],
        ["status", "--frontier", "x"],
    ):
        assert toehold_at(*arguments)[0] == 2


def test_the_exit_codes_are_in_the_help_and_in_the_manual(toehold_at: Toehold) -> None:
    manual = Path(__file__).parents[3] / "docs" / "cli.md"
    _, output, _ = toehold_at("--help")
    for code, meaning in MEANINGS.items():
        assert f"{code.value:>3}  {meaning}" in output
        assert f"| {code.value} | {meaning} |" in manual.read_text()


# pause, resume, stop


@pytest.mark.parametrize(
    ("command", "target", "under_way", "reached"),
    [
        ("pause", crawl_pb2.TargetState.TARGET_STATE_PAUSE, PAUSING, PAUSED),
        ("resume", crawl_pb2.TargetState.TARGET_STATE_RUN, PAUSED, RUNNING),
        ("stop", crawl_pb2.TargetState.TARGET_STATE_FINISH, PAUSING, STOPPED),
    ],
)
def test_a_wait_ends_with_the_state_that_was_asked_for(
    frontier: FakeFrontier,
    toehold_at: Toehold,
    command: str,
    target: crawl_pb2.TargetState.ValueType,
    under_way: crawl_pb2.CrawlStatus,
    reached: crawl_pb2.CrawlStatus,
) -> None:
    event = crawl_pb2.Event(sequence=1, cursor="e1", status_changed=reached)
    frontier.will("RequestState", frontier_pb2.RequestStateResponse(status=under_way))
    frontier.will("StateEvents", [present(under_way, "e0"), message(event)])
    code, output, _ = toehold_at(command, "--crawl", "c", "--wait", "60", "--json")
    assert code == 0
    (told,) = said(output)
    assert told["crawl"] == "c"
    assert told["status"]["state"] == crawl_pb2.CrawlState.Name(reached.state).removeprefix("CRAWL_STATE_")
    assert frontier.asked["RequestState"][0].target_state == target


def test_what_is_reached_at_once_is_not_waited_for(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    frontier.will("RequestState", frontier_pb2.RequestStateResponse(status=PAUSED))
    assert toehold_at("pause", "--crawl", "c", "--wait", "60")[0] == 0
    assert not frontier.asked["StateEvents"]


def test_a_wait_that_takes_too_long_is_exit_code_6(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    frontier.will("RequestState", frontier_pb2.RequestStateResponse(status=PAUSING))
    line: list[Answer] = [present(PAUSING, "e0"), SILENCE]
    frontier.will("StateEvents", *[line] * 20)
    code, output, errors = toehold_at("pause", "--crawl", "c", "--wait", "0.2")
    assert (code, output) == (6, "")
    assert errors.startswith("Error: crawl 'c' has not become PAUSED within 0.2 s; its state is ")


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_what_the_state_does_not_allow_is_exit_code_5(
    frontier: FakeFrontier, toehold_at: Toehold, command: str
) -> None:
    frontier.will("RequestState", ILLEGAL)
    assert toehold_at(command, "--crawl", "c") == (5, "", "Error: crawl 'c' is FINISHED\n")


# status, events, queues, crawls, delete

STATISTICS = admin_pb2.GetStatisticsResponse(
    status=RUNNING,
    statistics=crawl_pb2.Statistics(
        succeeded_count=12_345,
        bytes_count=2_000_000,
        fetch_status_counts={200: 12_000, -2: 345},
        queue_state_counts={"READY": 3, "BUSY": 0},
        elapsed_duration=Duration(seconds=75),
        waiting_for="every host rests",
        limited_by="one host",
        remaining_min_duration=Duration(seconds=3_600),
        remaining_max_duration=Duration(seconds=10_000),
    ),
)
SEEDS = admin_pb2.ListSeedsResponse(
    seeds=[
        admin_pb2.Seed(
            uri="https://a.example/", outcome="fetched (200)", result=admin_pb2.SeedResult.SEED_RESULT_FETCHED
        ),
        admin_pb2.Seed(
            uri="https://b.example/", outcome="name not found", result=admin_pb2.SeedResult.SEED_RESULT_FAILED
        ),
    ]
)


def test_status_for_people(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    frontier.will("GetCrawl", admin_pb2.GetCrawlResponse(crawl=ONE.crawls[0]))
    frontier.will("GetStatistics", STATISTICS)
    frontier.will("ListSeeds", SEEDS)
    code, output, _ = toehold_at("status", "--crawl", "c")
    assert code == 0
    facts = dict(line.split("  ", 1) for line in output.splitlines())
    told = {name.strip(): value.strip() for name, value in facts.items()}
    assert told["state"] == "RUNNING"
    assert told["since"] == "2027-01-15 08:00:00 UTC"
    assert told["succeeded"] == "12 345, 2.0 MB"
    assert told["fetch status"] == "-2 connect failed: 345, 200: 12 000"
    assert told["queues"] == "READY: 3"
    assert told["elapsed"] == "1 min 15 s"
    assert told["why not faster"] == "one host" and "waiting for" not in told, "that says the same"
    assert told["estimate"] == "1 to 3 h left"
    assert told["seeds"] == "0 of 2 announced"
    assert told["seed"] == "https://b.example/: name not found"
    assert "finished" not in told and "failure" not in told


def test_on_a_terminal_long_facts_are_wrapped_and_nothing_is_lost(
    frontier: FakeFrontier, toehold_at: Toehold, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = "Limited by politeness: 2 hosts wait 3 s. About 2 h for 3433 URLs, a.example last; and so on"
    frontier.will("GetCrawl", admin_pb2.GetCrawlResponse(crawl=ONE.crawls[0]))
    answer = admin_pb2.GetStatisticsResponse(status=RUNNING, statistics=crawl_pb2.Statistics(limited_by=why))
    frontier.will("GetStatistics", answer)
    frontier.will("ListSeeds", SEEDS)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    lines = toehold_at("status", "--crawl", "c")[1].splitlines()
    assert max(map(len, lines)) <= 80
    assert why in " ".join(" ".join(lines).split())


def test_the_status_of_a_crawl_that_failed_says_why(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    failure = "no page was fetched: of 30 URIs, 30 name not found"
    frontier.will("GetCrawl", admin_pb2.GetCrawlResponse(crawl=ONE.crawls[0]))
    ended = crawl_pb2.Statistics(waiting_for="1 lease to end")
    answer = admin_pb2.GetStatisticsResponse(status=status("FINISHED", failure=failure), statistics=ended)
    frontier.will("GetStatistics", answer)
    frontier.will("ListSeeds", admin_pb2.ListSeedsResponse(seeds=[SEEDS.seeds[1]] * 23))
    lines = toehold_at("status", "--crawl", "c")[1].splitlines()
    assert [line.split(None, 1)[1] for line in lines if line.startswith("failure ")] == [failure]
    assert any(re.fullmatch("waiting for +1 lease to end", line) for line in lines)
    assert lines[-1].endswith("  3 more; to see all: toehold report seeds --crawl c")


def test_status_for_programs(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    frontier.will("GetCrawl", admin_pb2.GetCrawlResponse(crawl=ONE.crawls[0]))
    frontier.will("GetStatistics", STATISTICS)
    frontier.will("ListSeeds", SEEDS)
    (told,) = said(toehold_at("status", "--crawl", "c", "--json")[1])
    assert told["crawl"] == "c"
    assert told["status"]["state"] == "RUNNING"
    assert told["statistics"]["succeeded_count"] == 12_345
    assert told["statistics"]["elapsed_seconds"] == 75.0
    assert [seed["outcome"] for seed in told["troubled_seeds"]] == ["name not found"]


def test_what_comes_from_the_web_cannot_command_the_terminal(
    frontier: FakeFrontier, toehold_at: Toehold
) -> None:
    queue = admin_pb2.WorkQueue(queue_key="\x1b[2Jq\n", reason="bücher\u202e")
    frontier.will("ListQueues", admin_pb2.ListQueuesResponse(queues=[queue]))
    output = toehold_at("queues", "--crawl", "c")[1]
    assert r"\x1b[2Jq\n" in output
    assert r"bücher\u202e" in output
    assert "\x1b" not in output


def queue_pages(count: int) -> list[admin_pb2.ListQueuesResponse]:
    """Pages of 50 queues each."""
    return [
        admin_pb2.ListQueuesResponse(
            queues=[admin_pb2.WorkQueue(queue_key=f"q{page * 50 + n}", wake_time=TIME) for n in range(50)],
            next_page_token=str(page) if (page + 1) * 50 < count else "",
        )
        for page in range(count // 50)
    ]


def test_queues_for_people_are_a_table_of_the_first_hundred(
    frontier: FakeFrontier, toehold_at: Toehold
) -> None:
    frontier.will("ListQueues", *queue_pages(200))
    code, output, errors = toehold_at("queues", "--crawl", "c", "--state", "snoozed")
    assert code == 0
    assert len(output.splitlines()) == 101
    assert output.splitlines()[0].split()[:3] == ["queue", "state", "queued"]
    assert errors == "There are more than 100. Use --limit to see more.\n"
    assert frontier.asked["ListQueues"][0].state == crawl_pb2.QueueState.QUEUE_STATE_SNOOZED
    assert len(frontier.asked["ListQueues"]) == 3  # no page more than it takes to know


def test_queues_for_programs_are_all_of_them(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    frontier.will("ListQueues", *queue_pages(200), *queue_pages(200))
    code, output, errors = toehold_at("queues", "--crawl", "c", "--json")
    assert (code, errors) == (0, "")
    assert [queue["queue_key"] for queue in said(output)] == [f"q{number}" for number in range(200)]
    assert len(said(toehold_at("queues", "--crawl", "c", "--json", "--limit", "3")[1])) == 3


def test_crawls_for_people_and_for_programs(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    frontier.will("ListCrawls", ONE, ONE)
    heading, row = toehold_at("crawls")[1].splitlines()
    assert heading.split() == [
        *["crawl", "state", "exit", "status", "seeds", "created", "launched", "finished", "remarks"]
    ]
    assert row.split() == ["c", "RUNNING", "RUNNING", "2", "2027-01-15", "08:00:00", "UTC", "-", "-", "-"]
    (told,) = said(toehold_at("crawls", "--json")[1])
    assert (told["crawl"], told["status"]["state"], told["seed_count"]) == ("c", "RUNNING", 2)


def test_what_holds_beside_the_state_is_told(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    crawls = [
        admin_pb2.Crawl(crawl="full", status=status("PAUSED", reason="the disk is nearly full")),
        admin_pb2.Crawl(crawl="still", status=status("PAUSED", held=True)),
        admin_pb2.Crawl(crawl="ending", status=status("STOPPING", "ABORTED", tearing_down=True)),
        admin_pb2.Crawl(
            crawl="gone", status=status("FINISHED", "ABORTED", tearing_down=True, torn_down=True)
        ),
    ]
    frontier.will("ListCrawls", admin_pb2.ListCrawlsResponse(crawls=crawls))
    rows = toehold_at("crawls")[1].splitlines()[1:]
    remarks = ["the disk is nearly full", "held", "being torn down", "torn down"]
    assert [row.split("  ")[-1].strip() for row in rows] == remarks
    told = []
    for crawl in crawls:
        frontier.will("GetCrawl", admin_pb2.GetCrawlResponse(crawl=crawl))
        frontier.will("GetStatistics", admin_pb2.GetStatisticsResponse(status=crawl.status))
        frontier.will("ListSeeds", admin_pb2.ListSeedsResponse())
        lines = toehold_at("status", "--crawl", crawl.crawl)[1].splitlines()
        told.append(dict(line.split(None, 1) for line in lines))
    assert [facts["state"] for facts in told] == [
        "PAUSED",
        "PAUSED, held",
        "STOPPING (ABORTED), being torn down",
        "Finished: stopped, torn down",
    ]
    assert [facts.get("reason") for facts in told] == ["the disk is nearly full", None, None, None]


def test_deleting_needs_a_yes(
    frontier: FakeFrontier, toehold_at: Toehold, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Path(os.devnull).open() as nobody:
        monkeypatch.setattr("sys.stdin", nobody)
        code, _, errors = toehold_at("delete", "--crawl", "c")
    assert (code, "--yes" in errors) == (2, True)
    assert not frontier.asked
    frontier.will("DeleteCrawl", admin_pb2.DeleteCrawlResponse())
    assert toehold_at("delete", "--crawl", "c", "--yes") == (0, "c: deleted\n", "")


def test_a_crawl_that_runs_is_not_deleted(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    active = Refusal(
        grpc.StatusCode.FAILED_PRECONDITION, "crawl 'c' is RUNNING; stop it first", "CRAWL_ACTIVE"
    )
    frontier.will("DeleteCrawl", active)
    assert toehold_at("delete", "--crawl", "c", "--yes") == (
        5,
        "",
        "Error: crawl 'c' is RUNNING; stop it first\n",
    )
