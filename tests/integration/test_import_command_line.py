"""`toehold uris import` on a real frontier: journals, logs, exports and lists, whole, cut and damaged."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from frontier_harness.calls import FINISH, PAUSE, TIMEOUT_S, Stubs, fresh_name, report, seed_of, spec
from frontier_harness.command_line import At, Toehold, facts, paused_crawl
from frontier_harness.divided import log_lines
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import eventually

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2


@pytest.fixture
def at(toehold_at: Toehold, stubs: Stubs) -> At:
    return paused_crawl(toehold_at, stubs)


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
    malformed = "line 16: must be a line of a recovery journal, got 'this is no line of a journal'"
    assert errors == f"Malformed, {malformed}\n"
    told = f"{fresh.crawl}: to schedule: 6, seen: 5, lines skipped: 4, malformed: 1"
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


def whole_log(server: ServerProcess, crawl: str, lines: int, folder: Path) -> Path:
    """A file with what a crawl has logged, once it is so many lines."""
    file = server.data / "crawls" / crawl / "crawl.log"
    eventually(lambda: len(log_lines(file)) >= lines, "the log to be written")
    whole = folder / "crawl.log"
    whole.write_text("".join(f"{line}\n" for line in log_lines(file)))
    return whole


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
    done = len(stubs.ask("StreamOutcomes", crawl, cursor="start")[1].outcomes)
    log = whole_log(server, crawl, done, tmp_path)
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


def test_a_crawl_log_is_fetched_again_if_asked_for(
    server: ServerProcess, stubs: Stubs, toehold_at: Toehold, tmp_path: Path
) -> None:
    crawl = fresh_name()
    seed = seed_of(crawl)
    stubs.launch(crawl, seed, of=spec(run_while_empty=True))
    stubs.schedule(crawl, f"{seed}bad")
    for _ in range(2):
        (lease,) = stubs.pages(crawl, most=1)
        stubs.finish(report(lease, -4 if lease.uri.endswith("bad") else 200))
    log = whole_log(server, crawl, 3, tmp_path)
    at = At(toehold_at, crawl)
    asked = ("uris", "import", str(log), "--format", "crawl-log", "--recrawl", "--wait", "60")
    (told,) = at.json(*asked, "--no-failures")
    assert (told["scheduled_count"], told["seen_count"], told["job"]["counts"]) == (1, 0, {"QUEUED": 1})
    (told,) = at.json(*asked)
    assert told["job"]["counts"] == {"ALREADY_QUEUED": 1, "QUEUED": 1}
    code, _, errors = toehold_at(
        "uris", "import", str(log), "--format", "list", "--recrawl", "--crawl", crawl
    )
    assert code == 2 and "--recrawl needs --format crawl-log" in errors


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
    assert toehold_at("create", str(file)) == (0, f"{crawl}: NASCENT (CREATED), 1 seed\n", "")
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
    assert done.returncode == 0
    assert done.stderr.startswith("Malformed, line 4: must be one URL, got 'no uri at all'; ")
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
    assert code == 2 and "is damaged after line 3000" in errors
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
    assert "The gzip stream ends too early" in errors


def test_a_crawl_that_has_finished_takes_nothing_in(at: At, stubs: Stubs, tmp_path: Path) -> None:
    stubs.request(at.crawl, FINISH)
    (tmp_path / "list").write_text("http://a.example/\n")
    code, errors = at.refused("uris", "import", str(tmp_path / "list"), "--format", "list")
    assert code == 5 and "has finished" in errors
