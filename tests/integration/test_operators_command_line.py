"""`toehold` in the hands of an operator, on a real frontier: what is printed, what is done, how it ends."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from frontier_harness.calls import (
    FINISH,
    PAUSE,
    RUN,
    TIMEOUT_S,
    Stubs,
    fresh_name,
    report,
    seconds,
    seed_of,
    spec,
)
from frontier_harness.command_line import At, Toehold, facts
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import eventually

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2
from toehold_client.cli import run, toehold


@pytest.fixture
def at(toehold_at: Toehold, stubs: Stubs) -> At:
    """A paused crawl of two hosts, whose seeds and three pages of the first wait."""
    crawl = fresh_name()
    first = seed_of(crawl, "a.")
    stubs.launch(crawl, first, seed_of(crawl, "b."), of=spec(run_while_empty=True))
    stubs.schedule(crawl, *(f"{first}{page}" for page in ("x", "y", "z")))
    stubs.request(crawl, PAUSE)
    return At(toehold_at, crawl)


def key(at: At, host: str = "a") -> str:
    return f"example,{at.crawl},{host},"


# All commands.


def commands(command: click.Command, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from commands(inner, *path, name)


@pytest.mark.parametrize("path", [path for path, _ in commands(toehold)], ids=" ".join)
def test_every_command_has_help_that_says_what_it_and_its_options_do(
    capsys: pytest.CaptureFixture[str], path: tuple[str, ...]
) -> None:
    command = dict(commands(toehold))[path]
    assert run([*path, "--help"]) == 0
    assert f"Usage: {' '.join(('toehold', *path))}" in capsys.readouterr().out
    assert command.help
    for option in command.params:
        assert not isinstance(option, click.Option) or option.help, option.name


OPERATORS = {
    "queues",
    "uris",
    "seen",
    "jobs",
    "overrides",
    "explain",
    "outcomes",
    "verify",
    "report",
    "stats",
}


def test_every_command_of_operators_speaks_json_and_is_in_the_manual() -> None:
    manual = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    for path, command in commands(toehold):
        if not path or path[0] not in OPERATORS or isinstance(command, click.Group):
            continue
        assert any(option.name == "as_json" for option in command.params), path
        name = " ".join(path[:-1] if path[-1] == "list" else path)
        assert f"`toehold {name}" in manual or f"`{name}" in manual, name


@pytest.mark.parametrize(
    "arguments",
    [
        ["queues", "fly"],
        ["queues", "show"],
        ["queues", "set", "k"],
        ["queues", "set", "k", "--precedence", "256"],
        ["queues", "set", "k", "--total-budget", "-3"],
        ["queues", "retire"],
        ["queues", "wake", "k", "--pattern", "p"],
        ["uris", "delete", "--queue", "."],
        ["uris", "import", "file"],
        ["uris", "import", "file", "--format", "xml"],
        ["uris", "import", "file", "--format", "list", "--no-failures"],
        ["uris", "import", "file", "--format", "export", "--no-successes"],
        ["uris", "import", "file", "--format", "crawl-log", "--force"],
        ["seen", "note"],
        ["seen", "note", "http://a.example/\udcff"],  # a byte that is not UTF-8, as Python has it
        ["set", "contact=\udcff"],
        ["jobs", "show", "0"],
        ["jobs", "show", "x"],
        ["overrides", "put", "a.example"],
        ["explain", "--queue", "k", "--uri", "u"],
        ["report", "weather"],
    ],
    ids=ascii,
)
def test_wrong_usage_is_exit_code_2(toehold_at: Toehold, arguments: list[str]) -> None:
    code, output, errors = toehold_at(*arguments, "--crawl", "c")
    assert (code, output) == (2, "")
    assert "Error: " in errors


@pytest.mark.parametrize(
    "arguments",
    [
        "queues",
        "queues show k",
        "uris",
        "uris show http://a.example/",
        "uris export",
        "seen note http://a.example/",
        "jobs",
        "jobs show 1",
        "overrides",
        "explain",
        "outcomes",
        "verify",
        "report hosts",
        "report seeds",
        "stats",
    ],
)
def test_an_unknown_crawl_is_exit_code_4(toehold_at: Toehold, arguments: str) -> None:
    code, output, errors = toehold_at(*arguments.split(), "--crawl", "no-such-crawl")
    assert (code, output, errors) == (4, "", "Error: there is no crawl 'no-such-crawl'\n")


# Queues.


def test_queues_are_listed_with_and_without_the_word(at: At) -> None:
    plain = at.output("queues")
    assert plain == at.output("queues", "list")
    assert [line.split()[:3] for line in plain.splitlines()[1:]] == sorted(
        [[key(at, "a"), "INACTIVE", "4"], [key(at, "b"), "INACTIVE", "1"]],
        key=lambda row: plain.index(row[0]),
    )
    assert at.json("queues", "--state", "retired") == []
    assert len(at.json("queues", "--limit", "1")) == 1
    assert {queue["queue_key"] for queue in at.json("queues")} == {key(at, "a"), key(at, "b")}


def test_a_queue_shows_all_figures_of_it(at: At) -> None:
    shown = facts(at.output("queues", "show", key(at)))
    assert shown["queue"] == key(at) and shown["state"] == "INACTIVE"
    assert shown["queued"] == "4, 0 out at nodes"
    assert shown["spent in session"] == "0 of 3 000" and shown["spent in all"] == "0 of any cost"
    (told,) = at.json("queues", "show", key(at))
    assert (told["queued_count"], told["precedence"], told["lease_time"]) == (4, 3, None)


def test_a_queue_is_changed_and_given_back(at: At) -> None:
    asked = ("--precedence", "9", "--session-budget", "0", "--total-budget", "70")
    shown = facts(at.output("queues", "set", key(at), *asked))
    assert shown["precedence"] == "9 (set by hand)"
    assert (shown["spent in session"], shown["spent in all"]) == ("0 of any cost", "0 of 70")
    asked = ("--precedence", "-1", "--session-budget", "-2", "--total-budget", "-2")
    (told,) = at.json("queues", "set", key(at), *asked)
    assert (told["precedence"], told["session_budget"], told["total_budget"]) == (3, 3000, -1)


@pytest.mark.parametrize(
    ("word", "state", "back"), [("pause", "INELIGIBLE", "resume"), ("retire", "RETIRED", "unretire")]
)
def test_a_queue_is_taken_out_and_brought_back(at: At, word: str, state: str, back: str) -> None:
    assert facts(at.output("queues", word, key(at)))["state"] == state
    assert [queue["queue_key"] for queue in at.json("queues", "--state", state.lower())] == [key(at)]
    assert facts(at.output("queues", back, key(at)))["state"] == "INACTIVE"


def test_a_queue_that_rests_is_woken(at: At, stubs: Stubs) -> None:
    stubs.request(at.crawl, RUN)
    (lease,) = [lease for lease in stubs.pages(at.crawl) if lease.queue_key == key(at)] or stubs.pages(
        at.crawl
    )
    stubs.finish(report(lease, -2))
    shown = facts(at.output("queues", "show", lease.queue_key))
    assert shown["state"] == "SNOOZED" and shown["wakes"]
    assert facts(at.output("queues", "wake", lease.queue_key))["state"] != "SNOOZED"


def test_many_queues_are_changed_by_a_job(at: At) -> None:
    shown = facts(at.output("queues", "retire", "--pattern", f"example,{at.crawl},.*", "--wait", "60"))
    assert (shown["kind"], shown["state"], shown["changed"]) == ("retire-queues", "DONE", "2")
    (told,) = at.json("queues", "unretire", "--pattern", f"example,{at.crawl},a,", "--wait", "60")
    assert (told["kind"], told["state"], told["changed_count"]) == ("unretire-queues", "DONE", 1)
    (told,) = at.json("queues", "wake", "--pattern", ".*", "--wait", "60")
    assert (told["kind"], told["changed_count"]) == ("wake-queues", 0)


def test_a_queue_is_emptied_by_a_job(at: At, stubs: Stubs) -> None:
    (dry,) = at.json("queues", "delete", key(at), "--dry-run", "--wait", "60")
    assert (dry["changed_count"], len(stubs.waiting(at.crawl))) == (4, 5)
    shown = facts(at.output("queues", "delete", key(at), "--wait", "60"))
    assert shown["changed"] == "4"
    assert [uri.queue_key for uri in stubs.waiting(at.crawl)] == [key(at, "b")]


def test_a_queue_that_is_not_there_is_exit_code_4(at: At) -> None:
    for command in ("show", "pause", "resume", "retire", "unretire", "wake", "delete"):
        code, errors = at.refused("queues", command, "no,such,")
        assert (code, errors) == (4, f"Error: crawl '{at.crawl}' has no queue 'no,such,'\n")


def test_a_bad_pattern_is_told_with_its_place(at: At) -> None:
    code, errors = at.refused("queues", "retire", "--pattern", "a(?=b)")
    assert code == 2 and "queue_pattern: invalid perl operator at character 2" in errors


# URIs.


def test_uris_that_wait_are_listed(at: At) -> None:
    base = seed_of(at.crawl, "a.")
    rows = [line.split() for line in at.output("uris", "--queue", key(at)).splitlines()]
    assert rows[0] == ["uri", "queue", "path", "tries", "cost", "due"]
    assert [row[0] for row in rows[1:]] == [base, f"{base}x", f"{base}y", f"{base}z"]
    told = at.json("uris", "list", "--limit", "2", "--queue", key(at))
    assert [uri["candidate"]["uri"] for uri in told] == [base, f"{base}x"]
    assert len(at.json("uris")) == 5


def test_a_uri_shows_its_story(at: At, stubs: Stubs) -> None:
    base = seed_of(at.crawl, "a.")
    shown = facts(at.output("uris", "show", f"{base}x"))
    assert (shown["state"], shown["queue"], shown["path"]) == ("QUEUED", key(at), "L")
    shown = facts(at.output("uris", "show", "http://elsewhere.example/"))
    assert (shown["state"], shown["refused by"]) == ("NEVER_SEEN", "scope.hosts")
    stubs.request(at.crawl, RUN)
    lease = next(lease for lease in stubs.pages(at.crawl) if lease.uri.startswith("http"))
    shown = facts(at.output("uris", "show", lease.uri))
    assert shown["state"] == "LEASED" and shown["out at"].startswith("node, since ") and shown["until"]
    stubs.finish(report(lease, etag='"e"'))
    shown = facts(at.output("uris", "show", lease.uri))
    assert (shown["state"], shown["result"], shown["fetch status"]) == ("DONE", "SUCCEEDED", "200")
    assert (shown["visits"], shown["etag"]) == ("1", '"e"')
    (told,) = at.json("uris", "show", lease.uri)
    assert (told["state"], told["disposition"], told["lease"]) == ("DONE", "SUCCEEDED", None)
    assert at.refused("uris", "show", "nope")[0] == 2


def test_uris_are_deleted_by_pattern_after_a_dry_run(at: At, stubs: Stubs) -> None:
    asked = ("uris", "delete", "--queue", ".*", "--uri", ".*/[xy]", "--wait", "60")
    output = at.output(*asked, "--dry-run")
    assert facts(output)["changed"] == "2"
    assert [line for line in output.splitlines() if line.startswith("  http")] == [
        f"  {seed_of(at.crawl, 'a.')}{page}" for page in "xy"
    ]
    assert len(stubs.waiting(at.crawl)) == 5
    (told,) = at.json(*asked)
    assert (told["changed_count"], len(stubs.waiting(at.crawl))) == (2, 3)


def test_an_export_is_a_file_that_is_never_overwritten(at: At, tmp_path: Path) -> None:
    file = tmp_path / "export"
    assert at.output("uris", "export", "--output", str(file)) == f"{at.crawl}: 5 URIs in {file}\n"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["candidate"]["uri"] for line in lines] == [
        uri["candidate"]["uri"] for uri in at.json("uris")
    ]
    code, errors = at.refused("uris", "export", "--output", str(file))
    assert code == 2 and "exists already, and is left as it is" in errors
    code, errors = at.refused("uris", "export", "--output", str(tmp_path / "none" / "export"))
    assert code == 2 and "cannot be written: No such file or directory" in errors
    (told,) = at.json("uris", "export", "--output", str(tmp_path / "second"))
    assert told == {"crawl": at.crawl, "output": str(tmp_path / "second"), "uris": 5}
    assert (tmp_path / "second").read_text() == file.read_text()
    code, output, errors = at.run("uris", "export")
    assert (code, output, errors) == (0, file.read_text(), "5 URIs\n")


# Imports.


@pytest.fixture
def fresh(toehold_at: Toehold, stubs: Stubs) -> At:
    """A crawl with one host in scope that was never launched."""
    crawl = fresh_name()
    stubs.create(crawl, spec(scope={"hosts": [f"{crawl}.example"]}))
    return At(toehold_at, crawl)


def test_a_heritrix_journal_restores_seen_pending_and_failed(fresh: At, stubs: Stubs, tmp_path: Path) -> None:
    """Issue 4, line 8; Heritrix 2.17. The journal is as a crawl of some minutes leaves it, compressed."""
    base = seed_of(fresh.crawl)
    lines = [
        f"F+ {base}  ",
        f"F+ dns:{fresh.crawl}.example P {base}",
        f"Fs dns:{fresh.crawl}.example",
        f"Fe {base}",
        f"F+ {base}done L {base}",
        f"F+ {base}failed L {base}",
        f"F+ {base}pending L {base}",
        f"F+ {base}image E {base}",
        f"F+ http://elsewhere.example/ L {base}",
        f"Fs {base}",
        f"Fs {base}done",
        f"Fr {base}pending",
        f"Ff {base}failed",
        f"Fi {base}included",
        f"Fd {base}forbidden",
        "this is no line of a journal",
    ]
    journal = tmp_path / "frontier.recover.gz"
    journal.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    code, output, errors = fresh.run(
        "uris", "import", str(journal), "--format", "recovery-journal", "--wait", "60"
    )
    assert code == 0
    assert errors == "Left out, line 16: no line of a recovery journal: 'this is no line of a journal'\n"
    told = f"{fresh.crawl}: to schedule: 6, seen: 5, lines left out: 4, malformed: 1"
    assert output.splitlines()[0] == told
    assert facts(output)["counts"] == "ALREADY_SEEN: 3, OUT_OF_SCOPE: 1, QUEUED: 2"
    assert "  OUT_OF_SCOPE http://elsewhere.example/" in output.splitlines()
    pending = stubs.waiting(fresh.crawl)
    assert [(uri.candidate.uri, uri.candidate.path) for uri in pending] == [
        (f"{base}pending", "L"),
        (f"{base}image", "E"),
    ]
    assert {uri.candidate.via for uri in pending} == {base}
    results = {
        page: facts(fresh.output("uris", "show", f"{base}{page}")).get("result")
        for page in ("", "done", "failed", "included", "forbidden", "pending", "never")
    }
    assert results == {
        "": "SUCCEEDED",
        "done": "SUCCEEDED",
        "failed": "FAILED",
        "included": "noted as seen",
        "forbidden": "DISREGARDED",
        "pending": None,
        "never": None,
    }


def test_failures_of_a_journal_may_be_tried_again(fresh: At, stubs: Stubs, tmp_path: Path) -> None:
    base = seed_of(fresh.crawl)
    journal = tmp_path / "journal"
    journal.write_text(f"F+ {base}a L {base}\nFf {base}a\nF+ {base}b L {base}\nFs {base}b\n")
    asked = ("uris", "import", str(journal), "--format", "recovery-journal", "--wait", "60")
    (told,) = fresh.json(*asked, "--no-failures")
    assert (told["scheduled_count"], told["seen_count"], told["left_out_count"]) == (2, 1, 1)
    assert [uri.candidate.uri for uri in stubs.waiting(fresh.crawl)] == [f"{base}a"]
    (told,) = fresh.json(*asked, "--force")
    assert told["job"]["counts"] == {"ALREADY_QUEUED": 1, "QUEUED": 1}


def test_a_crawl_moves_to_a_fresh_frontier_with_all_that_it_knows(
    server: ServerProcess, stubs: Stubs, toehold_at: Toehold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 4, line 8: crawl.log and export of one frontier make the same crawl on another."""
    crawl = fresh_name()
    first, second = seed_of(crawl, "a."), seed_of(crawl, "b.")
    # Its seeds are done: without this it would end as soon as it is launched there.
    stubs.launch(crawl, first, second, of=spec(run_while_empty=True))
    link = frontier_pb2.Candidate(
        uri=f"{first}deep", via=first, path="L", precedence=5, annotations=b"\0mine"
    )
    stubs.frontier.Schedule(frontier_pb2.ScheduleRequest(crawl=crawl, candidates=[link]), timeout=TIMEOUT_S)
    stubs.schedule(crawl, f"{second}bad", f"{second}left")
    for _ in range(4):
        (lease,) = stubs.pages(crawl, most=1)
        stubs.finish(report(lease, -4 if lease.uri.endswith("bad") else 200))
    stubs.request(crawl, PAUSE)
    stubs.until(crawl, crawl_pb2.CRAWL_STATE_PAUSED)
    pending = stubs.waiting(crawl)
    assert 0 < len(pending) < 5
    log = server.data / "crawls" / crawl / "crawl.log"
    done = len(stubs.ask("StreamOutcomes", crawl, cursor="start")[1].outcomes)
    eventually(lambda: log.exists() and len(log.read_text().splitlines()) == done, "the log to be written")
    here, export = At(toehold_at, crawl), tmp_path / "export"
    here.output("uris", "export", "--output", str(export))
    with ServerProcess(tmp_path / "fresh") as other:
        monkeypatch.setenv("TOEHOLD_FRONTIER", other.address)
        there = At(toehold_at, crawl)
        other.stubs.create(crawl, stubs.describe(crawl).spec)
        other.stubs.seed(crawl, first, second)
        there.output("uris", "import", str(log), "--format", "crawl-log", "--wait", "60")
        other.stubs.admin.LaunchCrawl(admin_pb2.LaunchCrawlRequest(crawl=crawl), timeout=TIMEOUT_S)
        (told,) = there.json("uris", "import", str(export), "--format", "export", "--wait", "60")
        assert (told["scheduled_count"], told["malformed_count"]) == (len(pending), 0)
        moved = other.stubs.waiting(crawl)
        assert [uri.candidate for uri in moved] == [uri.candidate for uri in pending]
        assert [uri.queue_key for uri in moved] == [uri.queue_key for uri in pending]
        for uri in (first, second, f"{second}bad"):
            before = stubs.ask("GetUri", crawl, uri=uri).story
            after = other.stubs.ask("GetUri", crawl, uri=uri).story
            assert (after.state, after.fetch_status, after.disposition) == (
                before.state,
                before.fetch_status,
                before.disposition,
            )


def test_a_crawl_is_created_and_filled_before_it_is_launched(
    toehold_at: Toehold, stubs: Stubs, tmp_path: Path
) -> None:
    crawl = fresh_name()
    file = tmp_path / "crawl.toml"
    file.write_text(f"""
name = "{crawl}"
seeds = ["{seed_of(crawl)}"]
allowed_addresses = ["loopback"]
[scope]
hosts = ["{crawl}.example"]
""")
    assert toehold_at("create", str(file)) == (0, f"{crawl}: NASCENT (CREATED), 1 seeds\n", "")
    (tmp_path / "list").write_text(f"{seed_of(crawl)}a\n")
    at = At(toehold_at, crawl)
    at.output("uris", "import", str(tmp_path / "list"), "--format", "list", "--wait", "60")
    code, output, errors = toehold_at("launch", str(file))
    assert (code, errors) == (0, "") and output.startswith(f"{crawl}: ")
    stubs.until(crawl, crawl_pb2.CRAWL_STATE_RUNNING)
    assert [uri.candidate.uri for uri in stubs.waiting(crawl)] == [seed_of(crawl), f"{seed_of(crawl)}a"]


def test_a_list_comes_through_a_pipe(server: ServerProcess, fresh: At, stubs: Stubs) -> None:
    base = seed_of(fresh.crawl)
    command = [
        sys.executable,
        "-m",
        "toehold_client",
        "uris",
        "import",
        "-",
        "--format",
        "list",
        "--wait",
        "20",
    ]
    environment = {**os.environ, "TOEHOLD_FRONTIER": server.address}
    done = subprocess.run(
        [*command, "--crawl", fresh.crawl, "--json"],
        input=f"{base}a\n\n{base}b\nno uri at all\n",
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "Left out, line 4: not one URI: 'no uri at all'\n")
    told = json.loads(done.stdout)
    assert (told["scheduled_count"], told["malformed_count"], told["job"]["changed_count"]) == (2, 1, 2)
    assert [uri.candidate.uri for uri in stubs.waiting(fresh.crawl)] == [f"{base}a", f"{base}b"]


def test_a_file_that_cannot_be_read_takes_nothing_in(fresh: At, stubs: Stubs, tmp_path: Path) -> None:
    code, errors = fresh.refused("uris", "import", str(tmp_path / "missing"), "--format", "list")
    assert code == 2 and "cannot be read: No such file or directory" in errors
    lines = "".join(f"{seed_of(fresh.crawl)}{number}\n" for number in range(3000))
    damaged = bytearray(gzip.compress(lines.encode()))
    damaged[-5] ^= 0xFF
    (tmp_path / "damaged").write_bytes(bytes(damaged))
    code, errors = fresh.refused("uris", "import", str(tmp_path / "damaged"), "--format", "list")
    assert code == 2 and "is damaged behind line 3000" in errors
    eventually(
        lambda: (
            {job.state for job in stubs.ask("ListJobs", fresh.crawl).jobs} == {admin_pb2.JOB_STATE_CANCELLED}
        ),
        "the imports to be cancelled",
    )
    assert stubs.waiting(fresh.crawl) == []


def test_a_journal_that_a_crash_has_cut_is_taken_in_as_far_as_it_goes(fresh: At, tmp_path: Path) -> None:
    base = seed_of(fresh.crawl)
    whole = gzip.compress("".join(f"Fs {base}{number}\n" for number in range(5000)).encode())
    (tmp_path / "cut").write_bytes(whole[: len(whole) // 2])
    code, output, errors = fresh.run(
        "uris", "import", str(tmp_path / "cut"), "--format", "recovery-journal", "--wait", "60"
    )
    assert code == 0 and facts(output)["state"] == "DONE"
    assert "The file ends in the middle of its gzip stream" in errors


def test_a_crawl_that_has_finished_takes_nothing_in(at: At, stubs: Stubs, tmp_path: Path) -> None:
    stubs.request(at.crawl, FINISH)
    (tmp_path / "list").write_text("http://a.example/\n")
    code, errors = at.refused("uris", "import", str(tmp_path / "list"), "--format", "list")
    assert code == 5 and "has finished" in errors


# The seen-set.


def test_uris_are_noted_and_forgotten(at: At, stubs: Stubs, tmp_path: Path) -> None:
    base = seed_of(at.crawl, "a.")
    file = tmp_path / "uris"
    file.write_text(f"# some\n{base}2\n{base}3\n")
    assert at.output("seen", "note", f"{base}1", "--file", str(file)) == f"{at.crawl}: 3 noted\n"
    assert stubs.schedule(at.crawl, f"{base}1", f"{base}3") == ["ALREADY_SEEN", "ALREADY_SEEN"]
    assert at.json("seen", "forget", f"{base}1") == [{"crawl": at.crawl, "forgotten_count": 1}]
    assert stubs.schedule(at.crawl, f"{base}1", f"{base}3") == ["QUEUED", "ALREADY_SEEN"]
    code, errors = at.refused("seen", "forget", "nope")
    assert code == 2 and "'nope'" in errors
    assert at.refused("seen", "note", "--file", str(tmp_path / "missing"))[0] == 2


# Jobs.


def test_jobs_are_listed_and_shown(at: At) -> None:
    at.output("verify", "--wait", "60")
    heading, *rows = at.output("jobs").splitlines()
    assert heading.split()[:3] == ["job", "kind", "state"]
    assert [row.split()[:3] for row in rows] == [["1", "seed", "DONE"], ["2", "verify", "DONE"]]
    assert at.output("jobs", "show", "2") == at.output("jobs", "show", "2", "--wait", "0")
    assert [job["kind"] for job in at.json("jobs", "list")] == ["seed", "verify"]
    code, errors = at.refused("jobs", "show", "99")
    assert (code, errors) == (4, f"Error: crawl '{at.crawl}' has no job 99\n")
    code, errors = at.refused("jobs", "cancel", "1")
    assert code == 2 and "cannot be cancelled" in errors


def test_a_job_that_does_not_end_in_time_is_exit_code_6_and_one_that_is_cancelled_1(
    at: At, stubs: Stubs
) -> None:
    enough = threading.Event()

    def messages() -> Iterator[admin_pb2.ImportUrisRequest]:
        yield admin_pb2.ImportUrisRequest(crawl=at.crawl)
        enough.wait(TIMEOUT_S)

    sending = stubs.admin.ImportUris.future(messages(), timeout=TIMEOUT_S)
    eventually(lambda: len(stubs.ask("ListJobs", at.crawl).jobs) == 2, "the import to begin")
    code, errors = at.refused("jobs", "show", "2", "--wait", "0.2")
    assert code == 6 and f"job 2 of {at.crawl} has not ended within 0.2 s" in errors
    assert facts(at.output("jobs", "cancel", "2"))["state"] in ("CANCELLING", "CANCELLED")
    code, output, errors = at.run("jobs", "show", "2", "--wait", "60")
    assert (code, errors) == (1, "Error: job 2 was cancelled\n")
    assert facts(output)["state"] == "CANCELLED"
    enough.set()
    sending.cancel()


# Overrides.


def test_overrides_are_put_listed_and_deleted(at: At, tmp_path: Path) -> None:
    file = tmp_path / "slow.toml"
    file.write_text(
        "[retry]\nmax_attempts = 30\n\n[queues]\nbase_precedence = 1\nsuccess_thresholds = [5, 7]\n"
    )
    prefix = f"a.{at.crawl}.example"
    surt = f"http://(example,{at.crawl},a,"
    words = "retry.max_attempts = 30, queues.base_precedence = 1, queues.success_thresholds = [5, 7]"
    assert at.output("overrides", "put", prefix, str(file)) == f"{surt}: {words}\n"
    assert at.output("overrides").splitlines()[1].split(None, 1) == [surt, words]
    (told,) = at.json("overrides")
    settings = {
        "retry": {"max_attempts": 30},  # said, though it is the default
        "queues": {"base_precedence": 1, "success_thresholds": [5, 7]},
    }
    assert told == {"surt_prefix": surt, "settings": settings}
    assert at.json("overrides", "put", prefix, str(file)) == [told]
    assert at.output("overrides", "delete", prefix) == f"{prefix}: deleted\n"
    code, errors = at.refused("overrides", "delete", prefix)
    assert code == 4 and f"has no override for '{prefix}'" in errors
    assert at.json("overrides") == []


def test_what_an_override_sets_to_nothing_is_put_and_told(at: At, tmp_path: Path) -> None:
    """false, 0, an empty text and an empty list are settings like others."""
    at.output("set", "fetch.cookies=true", "retry.statuses=[{fetch_status=404}]", "extract.javascript=true")
    file = tmp_path / "less.toml"
    file.write_text(
        "[fetch]\ncookies = false\nproxy = ''\n[retry]\nstatuses = []\n[extract]\njavascript = false\n"
    )
    words = 'fetch.cookies = false, fetch.proxy = "", extract.javascript = false, retry.statuses = []'
    assert at.output("overrides", "put", "a.example", str(file)) == f"http://(example,a,: {words}\n"
    (told,) = at.json("overrides")
    assert told["settings"] == {
        "fetch": {"cookies": False, "proxy": ""},
        "extract": {"javascript": False},
        "retry": {"statuses": []},
    }
    at.output("set", "fetch.cookies=false", "retry.statuses=[]")
    (changed,) = at.json("set", "extract.javascript=false")
    assert changed["changes"] == [{"name": "extract.javascript", "was": True, "is": False}]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[retry]\nmax_atempts = 3\n", "retry.max_atempts: no such field; did you mean max_attempts?"),
        ("[scope]\nhosts = []\n", "scope: no such field; there are politeness, retry, fetch, queues"),
        ("[retry]\nmax_attempts = 'x'\n", "retry.max_attempts: expected `int`, got `str`"),
        ("[retry\n", "is not TOML"),
        ("", "sets nothing"),
        ("[retry]\n", "sets nothing"),
        (
            "[queues]\nbase_precedence = 999\npartition = 'host'\n",
            "is refused: queues.base_precedence: 999 is not within 0 and 255; queues.partition: the whole",
        ),
    ],
)
def test_a_file_that_makes_no_override_is_told_with_its_place(
    at: At, tmp_path: Path, content: str, told: str
) -> None:
    file = tmp_path / "override.toml"
    file.write_text(content)
    code, errors = at.refused("overrides", "put", "a.example", str(file))
    assert code == 2 and told in errors
    assert at.json("overrides") == []


# What came of it, and why nothing does.


@pytest.fixture
def crawled(at: At, stubs: Stubs) -> At:
    """The same crawl with its first host's seed fetched, and its second's failed."""
    stubs.request(at.crawl, RUN)
    leases = {lease.uri: lease for lease in stubs.pages(at.crawl, least=2)}
    stubs.finish(
        report(
            leases[seed_of(at.crawl, "a.")],
            body_bytes=2_000,
            media_type="text/html",
            digest="sha1:A",
            fetch_duration=seconds(1),
            annotations=["linksCut"],
        ),
        report(leases[seed_of(at.crawl, "b.")], -4),
    )
    stubs.request(at.crawl, PAUSE)
    stubs.until(at.crawl, crawl_pb2.CRAWL_STATE_PAUSED)
    return at


def test_reasons_are_told_for_a_crawl_a_queue_and_a_uri(crawled: At) -> None:
    for subject in ([], ["--queue", key(crawled)], ["--uri", f"{seed_of(crawled.crawl, 'a.')}x"]):
        lines = crawled.output("explain", *subject).splitlines()
        assert lines[0].split() == ["why", "in", "words", "until"]
        assert any(line.startswith("PAUSED") for line in lines[1:])
    whys = [reason["why"] for reason in crawled.json("explain", "--uri", seed_of(crawled.crawl, "b."))]
    assert "SEEN_ALREADY" in whys
    assert crawled.refused("explain", "--queue", "none")[0] == 4
    assert crawled.refused("explain", "--uri", "nope")[0] == 2


def test_outcomes_are_told_and_taken_up_at_a_cursor(crawled: At) -> None:
    lines = crawled.output("outcomes").splitlines()
    assert len(lines) == 4
    (fetched,) = [line for line in lines if "  SUCCEEDED    200  2.0 kB  " in line]
    assert f"  {seed_of(crawled.crawl, 'a.')}  -  -  text/html  linksCut" in fetched
    told = crawled.json("outcomes")
    assert [outcome["cursor"].partition("-")[0] for outcome in told] == ["o1", "o2", "o3", "o4"]
    for cursor in ("o2", told[1]["cursor"]):
        assert crawled.json("outcomes", "--from", cursor) == told[2:]
    assert crawled.json("outcomes", "--from", "now") == []
    code, errors = crawled.refused("outcomes", "--from", "e1")
    assert code == 2 and "'e1' is no cursor" in errors


def test_outcomes_are_followed_to_the_end_of_the_crawl(crawled: At, stubs: Stubs) -> None:
    stopping = threading.Timer(0.2, lambda: stubs.request(crawled.crawl, FINISH))
    stopping.start()
    assert len(crawled.json("outcomes", "--follow")) == 4
    stopping.join()


def test_a_crawl_is_verified(crawled: At) -> None:
    shown = facts(crawled.output("verify", "--wait", "60"))
    assert (shown["state"], shown["changed"]) == ("DONE", "0")
    (told,) = crawled.json("verify", "--repair", "--wait", "60")
    assert (told["parameters"], told["findings"]) == ({"repair": "true"}, [])


def test_reports_for_people_and_for_programs(crawled: At) -> None:
    """Heritrix 2.15."""
    first, second = (seed_of(crawled.crawl, f"{host}.") for host in "ab")
    shown = facts(crawled.output("report", "crawl"))
    assert (shown["URIs processed"], shown["succeeded"], shown["failed"]) == ("2", "1", "1")
    assert (shown["still queued"], shown["data"], shown["seeds announced"]) == ("3", "2.0 kB", "2 of 2")
    (told,) = crawled.json("report", "crawl")
    assert (told["processed_count"], told["bytes_count"], told["status"]["state"]) == (2, 2000, "PAUSED")

    rows = [line.split() for line in crawled.output("report", "seeds").splitlines()]
    assert rows == [
        ["seed", "result", "fetch", "status"],
        [first, "SUCCEEDED", "200"],
        [second, "FAILED", "-4", "timeout"],
    ]
    assert [seed["story"]["fetch_status"] for seed in crawled.json("report", "seeds")] == [200, -4]

    hosts = {row.split()[0]: row.split()[1:4] for row in crawled.output("report", "hosts").splitlines()[1:]}
    assert hosts == {
        f"a.{crawled.crawl}.example": ["1", "0", "0"],
        f"b.{crawled.crawl}.example": ["0", "1", "0"],
    }
    sources = {source["name"]: source["failed_count"] for source in crawled.json("report", "sources")}
    assert sources == {first: 0, second: 1}

    assert crawled.output("report", "mimetypes").splitlines()[1].split() == ["1", "text/html"]
    assert crawled.json("report", "mimetypes") == [{"media_type": "text/html", "succeeded_count": 1}]
    rows = [line.split(None, 1) for line in crawled.output("report", "responses").splitlines()[1:]]
    assert rows == [["1", "-4 timeout"], ["1", "200"]]
    assert crawled.json("report", "responses") == [
        {"fetch_status": -4, "finished_count": 1},
        {"fetch_status": 200, "finished_count": 1},
    ]

    output = crawled.output("report", "queues")
    assert facts(output)["retired"] == "0"
    assert any(line.startswith(f"{key(crawled)}  3 ") for line in output.splitlines())
    counts, *largest = crawled.json("report", "queues")
    assert sum(counts["queue_state_counts"].values()) == 2
    assert largest[0]["queue_key"] == key(crawled)

    (row,) = crawled.output("report", "nonempty").splitlines()[1:]
    assert row.split()[:4] == [key(crawled), "3", "4", "3"]
    assert [queue["queue_key"] for queue in crawled.json("report", "nonempty")] == [key(crawled)]


def test_all_figures_are_shown(crawled: At) -> None:
    """Heritrix 2.16."""
    shown = facts(crawled.output("stats"))
    assert (shown["finished"], shown["succeeded"], shown["failed"]) == ("2", "1, 2.0 kB", "1")
    assert (shown["of that novel"], shown["queued"], shown["media types"]) == (
        "1, 2.0 kB",
        "3",
        "text/html: 1",
    )
    assert shown["fetch status"] == "-4 timeout: 1, 200: 1"
    assert shown["average"].endswith("B/s") and " URIs/s, " in shown["average"]
    (told,) = crawled.json("stats")
    assert told["statistics"]["novel_bytes_count"] == 2000
    assert set(told["statistics"]) >= {
        "average_depth",
        "congestion_ratio",
        "deepest_queue_count",
        "future_count",
    }
