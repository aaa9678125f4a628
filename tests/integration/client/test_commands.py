"""The commands of `toehold`: what they print for people and for programs, and how they end."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import click
import grpc
import pytest
from client_doubles.command_line import (
    NASCENT,
    PAUSED,
    PAUSING,
    RUNNING,
    STOPPED,
    TIME,
    WHEN,
    Toehold,
    message,
    present,
    said,
    status,
)
from client_doubles.fake_frontier import SILENCE, UNAVAILABLE, Answer, FakeFrontier, Refusal, serving
from google.protobuf.duration_pb2 import Duration

from toehold.frontier.v1.admin_pb2 import (
    AddSeedsResponse,
    Crawl,
    CreateCrawlResponse,
    DeleteCrawlResponse,
    GetCrawlResponse,
    GetStatisticsResponse,
    LaunchCrawlResponse,
    ListCrawlsResponse,
    ListQueuesResponse,
    ListSeedsResponse,
    RejectedSeed,
    Seed,
    SeedResult,
    WorkQueue,
)
from toehold.frontier.v1.crawl_pb2 import (
    Checkpointed,
    CrawlSpec,
    CrawlState,
    CrawlStatus,
    Event,
    FlightsCancelled,
    Held,
    IntervalStatistics,
    JobEnded,
    LimitReached,
    NodeJoined,
    NodeLeft,
    OperatorActed,
    Problem,
    QueueState,
    Released,
    RoundBegun,
    SeedsConcluded,
    Statistics,
    TargetState,
    TornDown,
    UrisLeft,
    Verdict,
)
from toehold.frontier.v1.frontier_pb2 import RequestStateResponse
from toehold_client.cli.exits import MEANINGS
from toehold_client.cli.main import toehold
from toehold_client.spec import file as spec_file

ILLEGAL = Refusal(
    grpc.StatusCode.FAILED_PRECONDITION, "crawl 'c' is FINISHED", "ILLEGAL_STATE", {"state": "FINISHED"}
)
UNKNOWN = Refusal(grpc.StatusCode.NOT_FOUND, "there is no crawl 'c'", "UNKNOWN_CRAWL")
ONE = ListCrawlsResponse(crawls=[Crawl(crawl="c", status=RUNNING, seed_count=2, create_time=TIME)])

# which frontier, which crawl


def test_the_only_crawl_need_not_be_named(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    frontier.will("ListCrawls", ONE)
    frontier.will("RequestState", RequestStateResponse(status=PAUSING))
    assert toehold_at("pause") == (0, "c: PAUSING (WAITING_FOR_PAUSE)\n", "")
    assert frontier.asked["RequestState"][0].crawl == "c"


def test_a_frontier_without_crawls_has_no_such_crawl(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    frontier.will("ListCrawls", ListCrawlsResponse())
    code, _, errors = toehold_at("pause")
    assert code == 9
    assert "has no crawl" in errors


def test_one_of_several_crawls_is_to_be_named(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    frontier.will("ListCrawls", ListCrawlsResponse(crawls=[Crawl(crawl="a"), Crawl(crawl="b")]))
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
    frontier.will("RequestState", RequestStateResponse(status=PAUSED), RequestStateResponse(status=PAUSED))
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


def test_wrong_usage_is_exit_code_2(toehold_at: Toehold) -> None:
    for arguments in (
        ["fly"],
        ["pause", "--wait", "soon"],
        ["queues", "--state", "purple"],
        ["status", "--frontier", "x"],
    ):
        assert toehold_at(*arguments)[0] == 2


def test_every_command_has_help_that_says_what_it_does(toehold_at: Toehold) -> None:
    for name, command in toehold.commands.items():
        code, output, _ = toehold_at(name, "--help")
        assert code == 0
        assert command.help
        for option in command.params:
            assert not isinstance(option, click.Option) or option.help, f"{name} {option.name}"
        assert f"Usage: toehold {name}" in output


def test_the_exit_codes_are_in_the_help_and_in_the_manual(toehold_at: Toehold) -> None:
    manual = Path(__file__).parents[3] / "docs" / "cli.md"
    _, output, _ = toehold_at("--help")
    for code, meaning in MEANINGS.items():
        assert f"{code.value:>3}  {meaning}" in output
        assert f"| {code.value} | {meaning} |" in manual.read_text()


# init and launch


def test_init_writes_a_spec_that_can_be_loaded(toehold_at: Toehold, tmp_path: Path) -> None:
    file = tmp_path / "crawl.toml"
    code, output, _ = toehold_at("init", str(file))
    assert (code, str(file) in output) == (0, True)
    assert spec_file.load(file).spec == CrawlSpec()


def test_init_overwrites_nothing(toehold_at: Toehold, tmp_path: Path) -> None:
    file = tmp_path / "crawl.toml"
    file.write_text("mine")
    code, _, errors = toehold_at("init", str(file))
    assert code == 2
    assert "exists already" in errors
    assert file.read_text() == "mine"


def test_init_where_nothing_can_be_written_is_told(toehold_at: Toehold, tmp_path: Path) -> None:
    code, _, errors = toehold_at("init", str(tmp_path / "missing" / "crawl.toml"))
    assert (code, "cannot be written: No such file" in errors) == (2, True)


def test_init_writes_what_its_options_say_as_crawl_understands_them(
    toehold_at: Toehold, tmp_path: Path
) -> None:
    file = tmp_path / "specs" / "crawl.toml"
    file.parent.mkdir()
    seeds_file = tmp_path / "seeds.txt"
    seeds_file.write_text("www.b.example\n")
    given = [
        *("--seeds-file", str(seeds_file), "--exclude", "*.pdf", "--exclude", '/"a"/', "--subdomains"),
        *("--page-requisites", "--max-hops", "2", "--max-pages", "9", "--max-time", "1h30m"),
        *("--min-delay", "60", "--delay-factor", "0", "--parallel", "2", "--adaptive"),
        *("--contact", "me@a.example"),
        *("--user-agent", "my-bot", "--max-attempts", "3", "--retry-delay", "0.5", "--fetch-timeout", "7"),
    ]
    code, output, errors = toehold_at("init", str(file), "a.example/x", *given)
    assert (code, errors) == (0, "")
    assert output == f"Wrote {file}. To start the crawl, run: toehold launch {file}\n"
    found = spec_file.load(file)
    assert list(found.seeds()) == ["https://a.example/x", "https://www.b.example"]
    spec = found.spec
    assert list(spec.scope.reject_patterns) == [r".*\.pdf", 'https?://[^/]*/"a"/.*']
    assert list(spec.scope.surt_prefixes) == ["+a.example", "+b.example"]
    assert (spec.scope.page_requisites, spec.scope.max_link_hops, spec.limits.max_documents) == (True, 2, 9)
    assert (spec.limits.max_elapsed.seconds, spec.politeness.min_delay.seconds) == (5400, 60)
    assert spec.politeness.max_delay.seconds == 60, "it would contradict the shortest rest"
    politeness = spec.politeness
    assert (politeness.delay_factor, politeness.adaptive, politeness.max_parallel) == (0, True, 2)
    assert (spec.contact, spec.fetch.product_token, spec.retry.max_attempts) == ("me@a.example", "my-bot", 3)
    assert (spec.retry.delay.ToMilliseconds(), spec.fetch.timeout.seconds) == (500, 7)
    assert "# Most links between a seed and a URI." in file.read_text(), "with its comments"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("https://a.example/",),
            "Name the file before the URLs: toehold init crawl.toml URL",
        ),
        (("f.toml", "htp://a.example"), "did you mean http://a.example?"),
        (("f.toml", "--subdomains"), "--subdomains needs URLs"),
        (("f.toml", "--seeds-file", "-"), "it cannot be -"),
        (("f.toml", "--exclude", "docs"), "did you mean /docs/"),
    ],
)
def test_init_with_options_that_make_no_sense_writes_nothing(
    toehold_at: Toehold,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, errors = toehold_at("init", *arguments)
    assert (code, list(tmp_path.iterdir())) == (2, [])
    assert told in " ".join(errors.split())


def spec_at(folder: Path, text: str = 'name = "c"\nseeds = ["www.example.com", "mailto:x"]') -> str:
    file = folder / "crawl.toml"
    file.write_text(text)
    return str(file)


def test_launch_creates_seeds_and_starts(frontier: FakeFrontier, toehold_at: Toehold, tmp_path: Path) -> None:
    mail = RejectedSeed(uri="mailto:x", number=2, verdict=Verdict.VERDICT_UNSUPPORTED_SCHEME)
    seeds = AddSeedsResponse(added_count=1, rejected_count=1, rejected=[mail])
    for _ in range(2):
        frontier.will("CreateCrawl", CreateCrawlResponse())
        frontier.will("GetCrawl", *[GetCrawlResponse(crawl=Crawl(status=NASCENT))] * 2)
        frontier.will("AddSeeds", seeds)
        frontier.will("LaunchCrawl", LaunchCrawlResponse(status=RUNNING))
    left_out = "Refused: seed 2 (mailto:x) has a scheme other than http and https\n"
    skipping = toehold_at("launch", spec_at(tmp_path), "--skip-bad-seeds")
    assert skipping == (0, "c: RUNNING, 1 seed\n", left_out)
    assert list(frontier.asked["AddSeeds"][0][0].uris) == ["https://www.example.com", "mailto:x"]
    code, output, errors = toehold_at(
        "launch", spec_at(tmp_path), "--crawl", "d", "--skip-bad-seeds", "--json"
    )
    assert (code, errors) == (0, left_out)
    (told,) = said(output)
    assert (told["crawl"], told["status"]["state"], told["seeds"]["added_count"]) == ("d", "RUNNING", 1)


@pytest.mark.parametrize("command", ["create", "launch", "run"])
def test_a_refused_seed_ends_the_command_before_the_launch(
    command: str, frontier: FakeFrontier, toehold_at: Toehold, tmp_path: Path
) -> None:
    typo = RejectedSeed(uri="https//b.example", number=2, verdict=Verdict.VERDICT_MALFORMED)
    frontier.will("CreateCrawl", CreateCrawlResponse())
    frontier.will("GetCrawl", GetCrawlResponse(crawl=Crawl(status=NASCENT)))
    frontier.will("AddSeeds", AddSeedsResponse(added_count=1, rejected_count=1, rejected=[typo]))
    code, output, errors = toehold_at(command, spec_at(tmp_path))
    assert (code, output) == (2, "")
    assert (
        "Refused: seed 2 (https//b.example) is not a valid URL; did you mean https://b.example?\n" in errors
    )
    assert "1 seed was refused; correct it, or add --skip-bad-seeds" in errors
    assert not frontier.asked["LaunchCrawl"]


def test_a_spec_without_seeds_is_refused_before_anything_is_created(
    frontier: FakeFrontier, toehold_at: Toehold, tmp_path: Path
) -> None:
    code, output, errors = toehold_at("launch", spec_at(tmp_path, 'name = "c"'))
    assert (code, output) == (2, "")
    assert "has no seeds; list some in `seeds` or in a `seeds_file`" in errors
    assert "CreateCrawl" not in frontier.asked


def test_a_spec_that_the_frontier_refuses_is_told_with_all_its_problems(
    frontier: FakeFrontier, toehold_at: Toehold, tmp_path: Path
) -> None:
    problems = {"contact": "is needed", "fetch.timeout": "0 is too short"}
    refusal = Refusal(
        grpc.StatusCode.INVALID_ARGUMENT,
        "contact: is needed; fetch.timeout: 0 is too short",
        "INVALID_SPEC",
        problems,
    )
    frontier.will("CreateCrawl", refusal)
    code, _, errors = toehold_at("launch", spec_at(tmp_path))
    assert code == 2
    assert errors.splitlines() == [
        "Error: the frontier refuses the spec:",
        "  contact: is needed",
        "  fetch.timeout: 0 is too short",
    ]


def test_a_surt_prefix_that_the_frontier_refuses_is_told_with_its_line(
    frontier: FakeFrontier, toehold_at: Toehold, tmp_path: Path
) -> None:
    (tmp_path / "surts.txt").write_text("# ours\n+http://(com,example,\n\n-a!b\n")
    text = 'name = "c"\nseeds = ["www.example.com"]\nsurt_prefixes_file = "surts.txt"'
    scope = '\n[scope]\nsurt_prefixes = ["example.org"]'
    problems = {"scope.surt_prefixes[0]": "is wrong", "scope.surt_prefixes[2]": "is no host"}
    refusal = Refusal(grpc.StatusCode.INVALID_ARGUMENT, "both", "INVALID_SPEC", problems)
    frontier.will("CreateCrawl", refusal)
    code, _, errors = toehold_at("launch", spec_at(tmp_path, text + scope))
    assert code == 2
    assert errors.splitlines() == [
        "Error: the frontier refuses the spec:",
        f"  {tmp_path / 'surts.txt'}, line 4: is no host",
        "  scope.surt_prefixes[0]: is wrong",
    ]
    (asked,) = frontier.asked["CreateCrawl"]
    assert list(asked.spec.scope.surt_prefixes) == ["example.org", "+http://(com,example,", "-a!b"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has no name for the crawl"),
        ("name = 'c'\nseeds_file = 'missing.txt'", "missing.txt cannot be read"),
        ("[fetch]\ntimeout = 3", "fetch.timeout: no such field; did you mean timeout_seconds?"),
    ],
)
def test_a_bad_spec_file_asks_nothing_of_the_frontier(
    frontier: FakeFrontier, toehold_at: Toehold, tmp_path: Path, text: str, told: str
) -> None:
    code, _, errors = toehold_at("launch", spec_at(tmp_path, text))
    assert (code, told in errors) == (2, True)
    assert not frontier.asked


# pause, resume, stop


@pytest.mark.parametrize(
    ("command", "target", "under_way", "reached"),
    [
        ("pause", TargetState.TARGET_STATE_PAUSE, PAUSING, PAUSED),
        ("resume", TargetState.TARGET_STATE_RUN, PAUSED, RUNNING),
        ("stop", TargetState.TARGET_STATE_FINISH, PAUSING, STOPPED),
    ],
)
def test_a_wait_ends_with_the_state_that_was_asked_for(
    frontier: FakeFrontier,
    toehold_at: Toehold,
    command: str,
    target: TargetState.ValueType,
    under_way: CrawlStatus,
    reached: CrawlStatus,
) -> None:
    event = Event(sequence=1, cursor="e1", status_changed=reached)
    frontier.will("RequestState", RequestStateResponse(status=under_way))
    frontier.will("StateEvents", [present(under_way, "e0"), message(event)])
    code, output, _ = toehold_at(command, "--crawl", "c", "--wait", "60", "--json")
    assert code == 0
    (told,) = said(output)
    assert told["crawl"] == "c"
    assert told["status"]["state"] == CrawlState.Name(reached.state).removeprefix("CRAWL_STATE_")
    assert frontier.asked["RequestState"][0].target_state == target


def test_what_is_reached_at_once_is_not_waited_for(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    frontier.will("RequestState", RequestStateResponse(status=PAUSED))
    assert toehold_at("pause", "--crawl", "c", "--wait", "60")[0] == 0
    assert not frontier.asked["StateEvents"]


def test_a_wait_that_takes_too_long_is_exit_code_6(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    frontier.will("RequestState", RequestStateResponse(status=PAUSING))
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

STATISTICS = GetStatisticsResponse(
    status=RUNNING,
    statistics=Statistics(
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
SEEDS = ListSeedsResponse(
    seeds=[
        Seed(uri="https://a.example/", outcome="fetched (200)", result=SeedResult.SEED_RESULT_FETCHED),
        Seed(uri="https://b.example/", outcome="name not found", result=SeedResult.SEED_RESULT_FAILED),
    ]
)


def test_status_for_people(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    frontier.will("GetCrawl", GetCrawlResponse(crawl=ONE.crawls[0]))
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
    assert told["limited by"] == "one host" and "waiting for" not in told, "that says the same"
    assert told["estimate"] == "1 to 3 h left"
    assert told["seeds"] == "0 of 2 announced"
    assert told["seed"] == "https://b.example/: name not found"
    assert "finished" not in told and "failure" not in told


def test_the_status_of_a_crawl_that_failed_says_why(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    failure = "no page was fetched: of 30 URIs, 30 name not found"
    frontier.will("GetCrawl", GetCrawlResponse(crawl=ONE.crawls[0]))
    ended = Statistics(waiting_for="1 lease to end")
    answer = GetStatisticsResponse(status=status("FINISHED", failure=failure), statistics=ended)
    frontier.will("GetStatistics", answer)
    frontier.will("ListSeeds", ListSeedsResponse(seeds=[SEEDS.seeds[1]] * 23))
    lines = toehold_at("status", "--crawl", "c")[1].splitlines()
    assert [line.split(None, 1)[1] for line in lines if line.startswith("failure ")] == [failure]
    assert any(re.fullmatch("waiting for +1 lease to end", line) for line in lines)
    assert lines[-1].endswith("  3 more; to see all: toehold report seeds --crawl c")


def test_status_for_programs(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    frontier.will("GetCrawl", GetCrawlResponse(crawl=ONE.crawls[0]))
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
    queue = WorkQueue(queue_key="\x1b[2Jq\n", reason="bücher\u202e")
    frontier.will("ListQueues", ListQueuesResponse(queues=[queue]))
    output = toehold_at("queues", "--crawl", "c")[1]
    assert r"\x1b[2Jq\n" in output
    assert r"bücher\u202e" in output
    assert "\x1b" not in output


WORDS = [
    (
        Event(seeds_concluded=SeedsConcluded(seed_count=3, queued_count=2)),
        "3 seeds announced, 2 queued",
    ),
    (
        Event(limit_reached=LimitReached(limit="max_bytes", value=9, reached=12, leased_count=4)),
        "limit reached: max_bytes = 9; the crawl has 12, and 4 URIs at nodes",
    ),
    (
        Event(limit_reached=LimitReached(limit="max_elapsed", value=60_000, reached=61_000)),
        "limit reached: max_elapsed = 1 min 00 s; the crawl has run for 1 min 01 s",
    ),
    (Event(round_begun=RoundBegun(round=2)), "round 2 begins with the seeds"),
    (
        Event(uris_left=UrisLeft(retired_count=5, ineligible_count=6)),
        "URIs left: 5 in retired queues, 6 in ineligible queues",
    ),
    (Event(job_ended=JobEnded(job=7, kind="deletion", outcome="done")), "job 7 (deletion): done"),
    (
        Event(
            statistics=IntervalStatistics(
                interval_duration=Duration(seconds=20),
                succeeded_count=1200,
                failed_count=3,
                bytes_count=2_000_000,
                queued_count=40,
            )
        ),
        "in 20.0 s: 1 200 succeeded, 2.0 MB, 3 failed, 40 queued",
    ),
    (Event(node_joined=NodeJoined(node="n1", session="s")), "node n1 joined"),
    (
        Event(node_left=NodeLeft(node="n1", session="s", reason="silent")),
        "node n1 is lost: it does not call any more",
    ),
    (Event(node_left=NodeLeft(node="n1", session="s", reason="left")), "node n1 left"),
    (
        Event(node_left=NodeLeft(node="n1", session="s", reason="replaced")),
        "node n1 is replaced by another process of its name",
    ),
    (Event(operator_acted=OperatorActed(operator="ann@desk", action="pause")), "ann@desk requested: pause"),
    (
        Event(operator_acted=OperatorActed(operator="a", action="update", detail="weight")),
        "a requested: update, weight",
    ),
    (Event(problem=Problem(kind="disk-reserve", detail="1 MB left")), "problem: 1 MB left (disk-reserve)"),
    (Event(held=Held()), "held: the frontier writes nothing about the crawl until its release"),
    (Event(released=Released()), "released"),
    (Event(checkpointed=Checkpointed(checkpoint="cp1")), "saved in checkpoint cp1"),
    (
        Event(flights_cancelled=FlightsCancelled(leased_count=4, bound="stop_timeout")),
        "stop_timeout is over: 4 leases cancelled",
    ),
    (
        Event(flights_cancelled=FlightsCancelled(leased_count=1, bound="interrupt")),
        "interrupted: 1 lease cancelled",
    ),
    (Event(status_changed=status("PAUSED", reason="1 MB left")), "PAUSED: 1 MB left"),
    (Event(status_changed=STOPPED), "FINISHED (ABORTED)"),
    (Event(torn_down=TornDown()), "torn down"),
    (Event(), "an event that this version does not know"),
]
EVENTS: list[Event] = []
for number, (unnumbered, _) in enumerate(WORDS, 1):
    EVENTS.append(Event(sequence=number, cursor=f"e{number}", event_time=TIME))
    EVENTS[-1].MergeFrom(unnumbered)


def test_events_for_people(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    last = EVENTS[-1].cursor
    frontier.will("StateEvents", [present(STOPPED, last)], [present(STOPPED, "e0"), *map(message, EVENTS)])
    code, output, _ = toehold_at("events", "--crawl", "c")
    assert code == 0
    assert output.splitlines() == [
        f"{WHEN}  {event.cursor}  {words}" for event, (_, words) in zip(EVENTS, WORDS, strict=True)
    ]
    assert frontier.asked["StateEvents"][1].cursor == "start"


def test_every_kind_of_event_has_words_for_people() -> None:
    kinds = {field.name for field in Event.DESCRIPTOR.oneofs_by_name["kind"].fields}
    assert {event.WhichOneof("kind") for event in EVENTS} == kinds | {None}


def test_events_for_programs_are_followed_through_a_restart(
    frontier: FakeFrontier, toehold_at: Toehold
) -> None:
    first, *rest = map(message, EVENTS)
    frontier.will(
        "StateEvents", [present(RUNNING, "e0"), first, UNAVAILABLE], [present(RUNNING, "e1"), *rest]
    )
    code, output, _ = toehold_at("events", "--crawl", "c", "--follow", "--from", "e0", "--json")
    assert code == 0
    told = said(output)
    assert [event["cursor"] for event in told] == [event.cursor for event in EVENTS]
    assert "ABORTED" in [
        event["status_changed"]["exit_status"] for event in told if "status_changed" in event
    ]
    assert [request.cursor for request in frontier.asked["StateEvents"]] == ["e0", "e1"]


def test_events_from_now_on(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    frontier.will("StateEvents", [present(STOPPED, "e3")])
    assert toehold_at("events", "--crawl", "c", "--follow", "--from", "now") == (0, "", "")
    assert frontier.asked["StateEvents"][0].cursor == ""


def queue_pages(count: int) -> list[ListQueuesResponse]:
    """Pages of 50 queues each."""
    return [
        ListQueuesResponse(
            queues=[WorkQueue(queue_key=f"q{page * 50 + n}", wake_time=TIME) for n in range(50)],
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
    assert frontier.asked["ListQueues"][0].state == QueueState.QUEUE_STATE_SNOOZED
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
        Crawl(crawl="full", status=status("PAUSED", reason="the disk is nearly full")),
        Crawl(crawl="still", status=status("PAUSED", held=True)),
        Crawl(crawl="ending", status=status("STOPPING", "ABORTED", tearing_down=True)),
        Crawl(crawl="gone", status=status("FINISHED", "ABORTED", tearing_down=True, torn_down=True)),
    ]
    frontier.will("ListCrawls", ListCrawlsResponse(crawls=crawls))
    rows = toehold_at("crawls")[1].splitlines()[1:]
    remarks = ["the disk is nearly full", "held", "being torn down", "torn down"]
    assert [row.split("  ")[-1].strip() for row in rows] == remarks
    told = []
    for crawl in crawls:
        frontier.will("GetCrawl", GetCrawlResponse(crawl=crawl))
        frontier.will("GetStatistics", GetStatisticsResponse(status=crawl.status))
        frontier.will("ListSeeds", ListSeedsResponse())
        lines = toehold_at("status", "--crawl", crawl.crawl)[1].splitlines()
        told.append(dict(line.split(None, 1) for line in lines))
    assert [facts["state"] for facts in told] == [
        "PAUSED",
        "PAUSED, held",
        "STOPPING (ABORTED), being torn down",
        "FINISHED (ABORTED), torn down",
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
    frontier.will("DeleteCrawl", DeleteCrawlResponse())
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
