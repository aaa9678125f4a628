"""`toehold` in the hands of an operator, on a real frontier: what is printed, what is done, how it ends."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from frontier_harness.calls import RUN, TIMEOUT_S, Stubs, report, seed_of
from frontier_harness.command_line import At, Toehold, facts, paused_crawl
from frontier_harness.waiting import eventually

from toehold.frontier.v1 import admin_pb2
from toehold_cli.main import toehold


@pytest.fixture
def at(toehold_at: Toehold, stubs: Stubs) -> At:
    return paused_crawl(toehold_at, stubs)


# All commands.


def commands(command: click.Command, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from commands(inner, *path, name)


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
        ["queues", "set", "k"],
        ["queues", "set", "k", "--total-budget", "-3"],
        ["queues", "wake", "k", "--pattern", "p"],
        ["uris", "import", "file", "--format", "export", "--no-successes"],
        ["seen", "note", "http://a.example/\udcff"],  # a byte that is not UTF-8, as Python has it
        ["set", "contact=\udcff"],
        ["jobs", "show", "0"],
        ["explain", "--queue", "k", "--uri", "u"],
    ],
    ids=ascii,
)
def test_wrong_usage_is_exit_code_2(toehold_at: Toehold, arguments: list[str]) -> None:
    code, output, errors = toehold_at(*arguments, "--crawl", "c")
    assert (code, output) == (2, "")
    assert "Error: " in errors


@pytest.mark.parametrize("arguments", ["queues show k", "uris export", "verify", "report hosts", "stats"])
def test_an_unknown_crawl_is_exit_code_9(toehold_at: Toehold, arguments: str) -> None:
    code, output, errors = toehold_at(*arguments.split(), "--crawl", "no-such-crawl")
    assert (code, output, errors) == (9, "", "Error: there is no crawl 'no-such-crawl'\n")


# Queues.


def test_queues_are_listed_with_and_without_the_word(at: At) -> None:
    plain = at.output("queues")
    assert plain == at.output("queues", "list")
    assert [line.split()[:3] for line in plain.splitlines()[1:]] == sorted(
        [[at.key("a"), "INACTIVE", "4"], [at.key("b"), "INACTIVE", "1"]],
        key=lambda row: plain.index(row[0]),
    )
    assert at.json("queues", "--state", "retired") == []
    assert len(at.json("queues", "--limit", "1")) == 1
    assert {queue["queue_key"] for queue in at.json("queues")} == {at.key("a"), at.key("b")}


def test_a_queue_shows_all_statistics_of_it(at: At) -> None:
    shown = facts(at.output("queues", "show", at.key()))
    assert shown["queue"] == at.key() and shown["state"] == "INACTIVE"
    assert shown["queued"] == "4, 0 being fetched"
    assert shown["spent in session"] == "0 of 3 000" and shown["spent in all"] == "0, no limit"
    (told,) = at.json("queues", "show", at.key())
    assert (told["queued_count"], told["precedence"], told["lease_time"]) == (4, 3, None)


def test_a_queue_is_changed_and_given_back(at: At) -> None:
    asked = ("--precedence", "9", "--session-budget", "0", "--total-budget", "70")
    shown = facts(at.output("queues", "set", at.key(), *asked))
    assert shown["precedence"] == "9 (set by hand)"
    assert (shown["spent in session"], shown["spent in all"]) == ("0, no limit", "0 of 70")
    asked = ("--precedence", "-1", "--session-budget", "-2", "--total-budget", "-2")
    (told,) = at.json("queues", "set", at.key(), *asked)
    assert (told["precedence"], told["session_budget"], told["total_budget"]) == (3, 3000, -1)


@pytest.mark.parametrize(
    ("word", "state", "back"), [("pause", "INELIGIBLE", "resume"), ("retire", "RETIRED", "unretire")]
)
def test_a_queue_is_taken_out_and_brought_back(at: At, word: str, state: str, back: str) -> None:
    assert facts(at.output("queues", word, at.key()))["state"] == state
    assert [queue["queue_key"] for queue in at.json("queues", "--state", state.lower())] == [at.key()]
    assert facts(at.output("queues", back, at.key()))["state"] == "INACTIVE"


def test_a_queue_that_rests_is_woken(at: At, stubs: Stubs) -> None:
    stubs.request(at.crawl, RUN)
    (lease,) = [lease for lease in stubs.pages(at.crawl) if lease.queue_key == at.key()] or stubs.pages(
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
    (dry,) = at.json("queues", "delete", at.key(), "--dry-run", "--wait", "60")
    assert (dry["changed_count"], len(stubs.waiting(at.crawl))) == (4, 5)
    shown = facts(at.output("queues", "delete", at.key(), "--wait", "60"))
    assert shown["changed"] == "4"
    assert [uri.queue_key for uri in stubs.waiting(at.crawl)] == [at.key("b")]


def test_a_queue_is_named_by_its_host_or_by_a_url(at: At) -> None:
    host = f"a.{at.crawl}.example"
    for subject in (host, seed_of(at.crawl, "a.")):
        (shown,) = at.json("queues", "show", subject)
        assert (shown["queue_key"], shown["host"]) == (at.key("a"), host)
        assert at.json("explain", subject)
    assert (
        facts(at.output("queues", "pause", host))["state"]
        == facts(at.output("queues", "show", host))["state"]
    )
    assert at.json("queues", "show", host)[0]["paused"]
    code, errors = at.refused("queues", "show", f"aa.{at.crawl}.example")
    assert code == 9 and errors.endswith(f"; did you mean {host}?\n")


# URIs.


def test_uris_that_wait_are_listed(at: At) -> None:
    base = seed_of(at.crawl, "a.")
    rows = [line.split() for line in at.output("uris", "--queue", at.key()).splitlines()]
    assert rows[0] == ["uri", "queue", "path", "tries", "cost", "due"]
    assert [row[0] for row in rows[1:]] == [base, f"{base}x", f"{base}y", f"{base}z"]
    told = at.json("uris", "list", "--limit", "2", "--queue", at.key())
    assert [uri["candidate"]["uri"] for uri in told] == [base, f"{base}x"]
    assert len(at.json("uris")) == 5


def test_a_uri_shows_its_story(at: At, stubs: Stubs) -> None:
    base = seed_of(at.crawl, "a.")
    shown = facts(at.output("uris", "show", f"{base}x"))
    assert (shown["state"], shown["queue"], shown["path"]) == ("QUEUED", at.key(), "L")
    shown = facts(at.output("uris", "show", "http://elsewhere.example/"))
    assert (shown["state"], shown["refused by"]) == ("NEVER_SEEN", "scope.hosts")
    stubs.request(at.crawl, RUN)
    lease = next(lease for lease in stubs.pages(at.crawl) if lease.uri.startswith("http"))
    shown = facts(at.output("uris", "show", lease.uri))
    assert shown["state"] == "LEASED" and shown["leased by"].startswith("node, since ") and shown["until"]
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
    assert code == 2 and "already exists; name another file" in errors
    code, errors = at.refused("uris", "export", "--output", str(tmp_path / "none" / "export"))
    assert code == 2 and "cannot be written: No such file or directory" in errors
    (told,) = at.json("uris", "export", "--output", str(tmp_path / "second"))
    assert told == {"crawl": at.crawl, "output": str(tmp_path / "second"), "uris": 5}
    assert (tmp_path / "second").read_text() == file.read_text()
    code, output, errors = at.run("uris", "export")
    assert (code, output, errors) == (0, file.read_text(), "5 URIs\n")


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


def test_seen_uris_are_listed_counted_and_purged(at: At, stubs: Stubs) -> None:
    host = f"a.{at.crawl}.example"
    rows = at.json("seen", "list", "--host", host)
    assert {row["uri"] for row in rows} == {f"http://{host}/{page}" for page in ("", "x", "y", "z")}
    assert {row["state"] for row in rows} == {"QUEUED"}
    assert at.output("seen", "count") == f"{at.crawl}: 5 queued, 0 leased, 0 future, 0 done\n"
    assert (
        at.output("seen", "count", "--uri", ".*/x") == f"{at.crawl}: 1 queued, 0 leased, 0 future, 0 done\n"
    )
    assert at.output("seen", "count", "--before", "2020-01-01").startswith(f"{at.crawl}: 0 queued")
    at.output("seen", "note", f"http://{host}/x", "--replace")
    (counts,) = at.json("seen", "count", "--queue", at.key())
    assert (counts["queued_count"], counts["done_count"]) == (3, 1)
    shown = facts(at.output("seen", "purge", "--host", host, "--dry-run", "--wait", "60"))
    assert shown["changed"] == "1"
    shown = facts(at.output("seen", "purge", "--host", host, "--waiting", "--wait", "60"))
    assert shown["changed"] == "4" and stubs.schedule(at.crawl, f"http://{host}/x") == ["QUEUED"]
    code, errors = at.refused("seen", "purge")
    assert code == 2 and "at least one of --host, --queue, --uri and --before" in errors
    code, errors = at.refused("seen", "list", "--host", "a b")
    assert code == 2 and "host must be a host name" in errors


def test_a_queue_has_a_gap_and_a_rest_of_its_own(at: At) -> None:
    assert facts(at.output("queues", "set", at.key(), "--min-gap", "2.5"))["least gap"] == "2.5 s"
    assert "least gap" not in facts(at.output("queues", "set", at.key(), "--min-gap", "-1"))
    (told,) = at.json("queues", "set", at.key(), "--rest", "60")
    assert told["state"] == "INACTIVE", "it rests at its next turn"
    at.output("queues", "set", at.key(), "--rest", "0")


# Jobs.


def test_jobs_are_listed_and_shown(at: At) -> None:
    at.output("verify", "--wait", "60")
    heading, *rows = at.output("jobs").splitlines()
    assert heading.split()[:3] == ["job", "kind", "state"]
    assert [row.split()[:3] for row in rows] == [["1", "seed", "DONE"], ["2", "verify", "DONE"]]
    assert at.output("jobs", "show", "2") == at.output("jobs", "show", "2", "--wait", "0")
    assert [job["kind"] for job in at.json("jobs", "list")] == ["seed", "verify"]
    code, errors = at.refused("jobs", "show", "99")
    assert (code, errors) == (9, f"Error: crawl '{at.crawl}' has no job 99\n")
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
    assert code == 6 and f"job 2 of crawl '{at.crawl}' has not ended within 0.2 s" in errors
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
    assert code == 9 and f"has no override for '{prefix}'" in errors
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
