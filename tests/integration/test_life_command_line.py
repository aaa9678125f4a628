"""`toehold` takes crawls of a real frontier through their lives: what is printed and done, how it ends."""

import itertools
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import click
import pytest
from frontier_harness.calls import FINISH, PAUSE, Stubs, fresh_name, report, seed_of, spec
from frontier_harness.command_line import At, Toehold, facts
from frontier_harness.ports import KeptPort
from frontier_harness.process import ServerProcess, line_of
from frontier_harness.waiting import PATIENCE_S, eventually

from toehold.frontier.v1 import crawl_pb2, frontier_pb2
from toehold_cli.main import toehold

FINISHED, PAUSED = crawl_pb2.CRAWL_STATE_FINISHED, crawl_pb2.CRAWL_STATE_PAUSED


@pytest.fixture
def at(toehold_at: Toehold, stubs: Stubs) -> At:
    """A crawl that runs, with the seed of one host."""
    crawl = fresh_name()
    stubs.launch(crawl, seed_of(crawl), of=spec(run_while_empty=True))
    return At(toehold_at, crawl)


@pytest.fixture
def out(at: At, stubs: Stubs) -> frontier_pb2.Lease:
    """Its seed, which is out at a node."""
    (lease,) = stubs.pages(at.crawl)
    return lease


def spec_at(folder: Path, crawl: str, more: str = "") -> str:
    file = folder / f"{crawl}.toml"
    file.write_text(
        f'name = "{crawl}"\nseeds = ["{seed_of(crawl)}"]\nallowed_addresses = ["loopback"]\n{more}\n'
    )
    return str(file)


def acts(at: At) -> list[str]:
    """What operators have asked of the crawl."""
    return [event["operator_acted"]["action"] for event in at.json("events") if "operator_acted" in event]


# Hold.


def test_a_crawl_that_ignores_robots_txt_says_so_in_its_status_and_its_events(at: At, stubs: Stubs) -> None:
    assert "robots.txt" not in facts(at.output("status"))
    ignoring = crawl_pb2.CrawlSpec(robots=crawl_pb2.RobotsSpec(policy="ignore"), description="of our own")
    stubs.update(at.crawl, robots=ignoring.robots, description=ignoring.description)
    shown = facts(at.output("status"))
    assert (shown["robots.txt"], shown["description"]) == ("ignored", "of our own")
    assert "robots-ignored" in at.output("events")


def test_a_crawl_that_is_held_says_so_and_refuses_to_be_changed_until_it_is_released(at: At) -> None:
    """S0.32."""
    assert at.output("hold", "--wait", "60") == f"{at.crawl}: PAUSED, held\n"
    assert facts(at.output("status"))["state"] == "PAUSED, held"
    for change in (
        ["set", "weight=2"],
        ["seeds", "add", seed_of(at.crawl, "b.")],
        ["seen", "note", "http://x.example"],
    ):
        code, errors = at.refused(*change)
        assert code == 5 and "held" in errors
    assert at.output("pause") == f"{at.crawl}: PAUSED\n"
    at.output("set", "weight=2")
    (told,) = at.json("hold", "--wait", "60")
    assert (told["status"]["state"], told["status"]["held"]) == ("PAUSED", True)
    at.output("resume", "--wait", "60")
    assert facts(at.output("status"))["state"] == "RUNNING"


def test_a_hold_waits_for_what_is_out(at: At, stubs: Stubs, out: frontier_pb2.Lease) -> None:
    code, errors = at.refused("hold", "--wait", "0.2")
    assert code == 6
    assert (
        errors == f"Error: {at.crawl} was not held within 0.2 s; its state is PAUSING (WAITING_FOR_PAUSE)\n"
    )
    ending = threading.Timer(0.2, lambda: stubs.finish(report(out)))
    ending.start()
    assert at.output("hold", "--wait", "60") == f"{at.crawl}: PAUSED, held\n"
    ending.join()


def test_a_crawl_that_ends_will_not_be_held(at: At, stubs: Stubs, out: frontier_pb2.Lease) -> None:
    def end() -> None:
        eventually(lambda: stubs.describe(at.crawl).status.state == crawl_pb2.CRAWL_STATE_PAUSING)
        stubs.request(at.crawl, FINISH)
        stubs.finish(report(out))

    ending = threading.Thread(target=end)
    ending.start()
    code, errors = at.refused("hold", "--wait", "60")
    assert (code, errors) == (5, f"Error: {at.crawl} has ended, so it will not be held\n")
    ending.join()


# Stop, and again.


def test_a_stop_asked_again_interrupts_what_is_out(at: At, stubs: Stubs, out: frontier_pb2.Lease) -> None:
    """S0.17."""
    assert at.output("stop") == f"{at.crawl}: STOPPING (ABORTED)\n"
    assert not stubs.heartbeat([out.token]).interrupt_tokens
    assert at.output("stop") == f"{at.crawl}: STOPPING (ABORTED)\n"
    assert list(stubs.heartbeat([out.token]).interrupt_tokens) == [out.token]
    stubs.finish(report(out, -7000))
    assert at.output("stop", "--wait", "60") == f"{at.crawl}: Finished: stopped\n"
    assert acts(at)[-2:] == ["stop", "interrupt"]


# Teardown.


def test_a_teardown_is_complete_and_what_is_stored_can_be_read(at: At, stubs: Stubs) -> None:
    """S0.25 and S0.27."""
    assert at.output("teardown", "--wait", "60") == f"{at.crawl}: torn down\n"
    assert at.json("teardown", "--wait", "0") == [{"crawl": at.crawl, "complete": True}]
    assert at.output("events").splitlines()[-1].endswith("  torn down")
    assert facts(at.output("status"))["state"] == "Finished: stopped, 1 URL left, torn down"
    for change in (["set", "weight=2"], ["pause"], ["launch"]):
        assert at.refused(*change)[0] == 5
    assert at.output("delete", "--yes") == f"{at.crawl}: deleted\n"


def test_a_teardown_that_is_not_complete_yet_is_told_apart_from_one_that_is(
    at: At, stubs: Stubs, out: frontier_pb2.Lease
) -> None:
    """S0.26: the frontier completes it."""
    code, errors = at.refused("teardown", "--wait", "0.2")
    assert code == 6
    assert (
        errors == f"Error: {at.crawl} was not torn down within 0.2 s; the frontier completes the teardown\n"
    )
    assert at.output("teardown") == f"{at.crawl}: being torn down; the frontier completes it\n"
    assert facts(at.output("status"))["state"] == "STOPPING (ABORTED), being torn down"
    stubs.finish(report(out, -7000))
    assert at.json("teardown", "--wait", "60") == [{"crawl": at.crawl, "complete": True}]


# Settings.


def test_settings_are_changed_and_given_back_while_the_crawl_runs(at: At, stubs: Stubs) -> None:
    asked = ["limits.max_documents=1000", "politeness.min_delay=5", "politeness.max_delay_seconds = 60"]
    assert at.output("set", *asked).splitlines() == [
        f"{at.crawl}: politeness.min_delay_seconds was 0.0, is 5.0",
        f"{at.crawl}: politeness.max_delay_seconds was 0.0, is 60.0",
        f"{at.crawl}: limits.max_documents was 0, is 1000",
    ]
    kept = stubs.describe(at.crawl).spec
    assert (kept.limits.max_documents, kept.politeness.min_delay.ToSeconds()) == (1000, 5)
    change = {"name": "limits.max_documents", "was": 1000, "is": 0}
    assert at.json("set", "limits.max_documents=") == [{"crawl": at.crawl, "changes": [change]}]
    assert at.output("set", "limits.max_documents=0") == f"{at.crawl}: nothing to change\n"
    assert acts(at).count("update") == 2  # what changes nothing is no act


def test_a_text_needs_no_quotes_and_a_list_is_one(at: At, stubs: Stubs) -> None:
    asked = ["robots.unreachable=allow", "contact=me@example.org", "scope.reject_patterns=['.*[?]a=b', 'x']"]
    at.output("set", *asked)
    kept = stubs.describe(at.crawl).spec
    assert kept.robots.unreachable == crawl_pb2.ROBOTS_UNREACHABLE_ALLOW
    assert kept.contact == "me@example.org"
    assert list(kept.scope.reject_patterns) == [".*[?]a=b", "x"]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("weight", "a setting must be NAME=VALUE, got 'weight'"),
        ("politeness.min_delay_secs=3", "did you mean politeness.min_delay_seconds?"),
        ("limits.max_documents=many", 'limits.max_documents: must be a whole number, got "many"'),
        ("weight=3\nmax_toes=4", "weight: must be a whole number, got "),
        ("identity.rules=['lower-case']", "identity"),
    ],
)
def test_what_cannot_be_set_is_told_and_changes_nothing(at: At, stubs: Stubs, asked: str, told: str) -> None:
    before = stubs.describe(at.crawl).spec
    code, errors = at.refused("set", "max_toes=7", asked)
    assert (code, told in errors) == (2, True), errors
    assert stubs.describe(at.crawl).spec == before
    assert at.refused("set", "weight=2", "weight=3")[1] == "Error: weight is given twice\n"


def test_a_spec_file_updates_what_differs_and_tells_it(
    toehold_at: Toehold, stubs: Stubs, tmp_path: Path
) -> None:
    crawl = fresh_name()
    at = At(toehold_at, crawl)
    toehold_at("launch", spec_at(tmp_path, crawl, "weight = 2\n[politeness]\nmin_delay_seconds = 1.0"))
    file = spec_at(tmp_path, crawl, "max_toes = 5\n[politeness]\nmin_delay_seconds = 60.0")
    assert toehold_at("update", file) == (
        0,
        f"{crawl}: politeness.min_delay_seconds was 1.0, is 60.0\n"
        f"{crawl}: politeness.max_delay_seconds was 30.0, is 60.0\n"
        f"{crawl}: weight was 2, is 1\n"
        f"{crawl}: max_toes was 0, is 5\n",
        "",
    )
    assert toehold_at("update", file) == (0, f"{crawl}: nothing to change\n", "")
    assert acts(at).count("update") == 1
    file = spec_at(tmp_path, crawl, "[queues]\npartition = 'registered-domain'")
    code, output, errors = toehold_at("update", file)
    assert (code, output) == (2, "") and "queues.partition" in errors


# Launching, copies, seeds.


def test_a_crawl_launched_paused_waits_until_it_is_resumed(
    toehold_at: Toehold, stubs: Stubs, tmp_path: Path
) -> None:
    """S0.11."""
    crawl = fresh_name()
    at = At(toehold_at, crawl)
    file = spec_at(tmp_path, crawl)
    code, output, _ = toehold_at("launch", file, "--paused")
    assert (code, output.startswith(f"{crawl}: ")) == (0, True)
    stubs.until(crawl, PAUSED)
    assert at.output("resume", "--wait", "60") == f"{crawl}: RUNNING\n"
    other = At(toehold_at, fresh_name())
    toehold_at("create", spec_at(tmp_path, other.crawl))
    other.output("launch", "--paused")
    stubs.until(other.crawl, PAUSED)


def test_a_copy_has_the_present_settings_and_is_launched_by_its_name(
    at: At, toehold_at: Toehold, stubs: Stubs
) -> None:
    at.output("set", "weight=3", "max_toes=4")
    bare, full = At(toehold_at, fresh_name()), At(toehold_at, fresh_name())
    assert at.output("copy", bare.crawl) == f"{bare.crawl}: NASCENT (CREATED), 0 seeds\n"
    (told,) = at.json("copy", full.crawl, "--seeds")
    assert (told["seed_count"], told["spec"]["weight"], told["spec"]["max_toes"]) == (1, 3, 4)
    code, errors = bare.refused("launch")
    assert code == 5 and "seed" in errors
    bare.output("seeds", "add", seed_of(bare.crawl))
    for copied in (bare, full):
        copied.output("launch")
        stubs.until(copied.crawl, crawl_pb2.CRAWL_STATE_RUNNING)
    assert stubs.describe(full.crawl).spec == stubs.describe(at.crawl).spec
    code, errors = at.refused("copy", full.crawl)
    assert code == 5 and f"crawl {full.crawl!r} already exists" in errors
    assert at.refused("copy", "No Name")[0] == 2


def test_seeds_are_added_while_the_crawl_runs(at: At, stubs: Stubs, tmp_path: Path) -> None:
    file = tmp_path / "seeds"
    file.write_text(f"# more\n{seed_of(at.crawl, 'b.')}\nc.{at.crawl}.example\nmailto:x\n")
    code, output, errors = at.run("seeds", "add", f"d.{at.crawl}.example/x", "--file", str(file))
    assert (code, output) == (2, f"{at.crawl}: 3 seeds added\n")
    assert errors.startswith("Refused: seed 4 (mailto:x) has a scheme other than http and https\n")
    assert "1 seed was refused; correct it, or add --skip-bad-seeds" in errors
    assert at.run("seeds", "add", "--file", str(file), "--skip-bad-seeds")[0] == 0
    hosts = {lease.uri for _ in range(4) for lease in stubs.pages(at.crawl, most=1)}
    assert hosts == {
        seed_of(at.crawl),
        seed_of(at.crawl, "b."),
        f"https://c.{at.crawl}.example/",
        f"https://d.{at.crawl}.example/x",
    }
    (told,) = at.json("seeds", "add", seed_of(at.crawl))
    assert (told["crawl"], told["rejected_count"]) == (at.crawl, 0)
    code, output, errors = at.run("seeds", "add", "mailto:x")
    assert (code, output) == (2, "") and "all were refused" in errors
    code, output, errors = at.run("seeds", "add", "https//typo.example")
    assert (code, output) == (2, "") and "did you mean https://typo.example?" in errors
    stubs.request(at.crawl, FINISH)
    stubs.request(at.crawl, FINISH)
    assert at.refused("seeds", "add")[0] == 2


# Nodes.


# From launch to end.


def run_it(server: ServerProcess, *arguments: str) -> subprocess.Popen[str]:
    """`toehold run`, as a process of its own."""
    command = [sys.executable, "-m", "toehold_cli", "run", *arguments, "--frontier", server.address]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def test_a_run_ends_at_its_limit_with_7_and_tells_the_story(
    server: ServerProcess, stubs: Stubs, tmp_path: Path
) -> None:
    crawl = fresh_name()
    with run_it(server, spec_at(tmp_path, crawl, "[limits]\nmax_documents = 1")) as process:
        while "joined" not in (line := line_of(process)):
            assert line
            if line.endswith("  RUNNING\n"):
                (lease,) = stubs.pages(crawl)
        stubs.finish(report(lease, body_bytes=2000))
        output, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, errors) == (7, "")
    lines = output.splitlines()
    assert lines[-1].startswith(f"{crawl}: Finished: page limit reached; 1 succeeded, 2.0 kB, 0 failed, ")
    assert any("limit reached: max_documents = 1" in line for line in lines)
    again = run_it(server, str(tmp_path / f"{crawl}.toml"))
    assert again.communicate(timeout=PATIENCE_S) == (f"{lines[-1]}\n", "")
    assert again.returncode == 7


def test_several_runs_follow_a_crawl_until_somebody_stops_it(
    server: ServerProcess, at: At, stubs: Stubs
) -> None:
    with (
        run_it(server, "--crawl", at.crawl) as run,
        run_it(server, "--crawl", at.crawl, "--json") as for_programs,
    ):
        assert line_of(run).endswith("  RUNNING\n")
        follows = threading.Event()
        asking = threading.Thread(target=ask_until, args=(follows, at.crawl, stubs))
        asking.start()
        first = json.loads(line_of(for_programs))
        follows.set()
        asking.join()
        at.output("pause", "--wait", "60")
        at.output("resume", "--wait", "60")
        at.output("stop")
        lines = run.communicate(timeout=PATIENCE_S)[0].splitlines()
        output, errors = for_programs.communicate(timeout=PATIENCE_S)
    assert (run.returncode, for_programs.returncode, errors) == (8, 8, "")
    *events, last = [first, *map(json.loads, output.splitlines())]
    assert [event["sequence"] for event in events] == list(
        range(first["sequence"], first["sequence"] + len(events))
    )
    states = [event["status_changed"]["state"] for event in events if "status_changed" in event]
    assert states[-1] == "FINISHED" and "PAUSED" in states
    assert (last["crawl"], last["status"]["exit_status"]) == (at.crawl, "ABORTED")
    resume = f"To resume the crawl: toehold resume --crawl {at.crawl} --frontier {server.address}"
    assert resume in lines
    left = int(last["statistics"]["queued_count"])
    assert left > 1
    assert lines[-1].startswith(f"{at.crawl}: Finished: stopped, {left} URLs left; 0 succeeded")


def test_a_run_outlives_kills_of_the_frontier_and_tells_everything_once(tmp_path: Path) -> None:
    crawl, data, kept = fresh_name(), tmp_path / "frontier", KeptPort()
    with ServerProcess(data, listen=kept.address) as server:
        server.stubs.launch(crawl, seed_of(crawl), of=spec(run_while_empty=True))
        process = run_it(server, "--crawl", crawl, "--json")
        follows = threading.Event()
        asking = threading.Thread(target=ask_until, args=(follows, crawl, server.stubs))
        asking.start()
        first = json.loads(line_of(process))
        follows.set()
        asking.join()
        server.kill()
    for target in (PAUSE, FINISH):
        with ServerProcess(data, listen=kept.address) as server:
            server.stubs.request(crawl, target)
            if target == FINISH:
                output, errors = process.communicate(timeout=PATIENCE_S)
            server.kill()
    assert (process.returncode, errors) == (8, "")
    *events, last = [first, *map(json.loads, output.splitlines())]
    assert [event["sequence"] for event in events] == list(
        range(first["sequence"], first["sequence"] + len(events))
    )
    asked = [event["operator_acted"]["action"] for event in events if "operator_acted" in event]
    assert asked[-2:] == ["pause", "stop"]
    assert last["status"]["exit_status"] == "ABORTED"


def ask_until(enough: threading.Event, crawl: str, stubs: Stubs) -> None:
    """Lets things happen to a crawl until somebody has seen one."""
    for number in itertools.count():
        stubs.seed(crawl, seed_of(crawl, f"n{number}."))
        if enough.wait(0.1):
            return


# Shell completion.


def completed(server: str, *words: str) -> list[str]:
    """What bash offers for the last of these words."""
    environment = {
        **os.environ,
        "_TOEHOLD_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("toehold", *words)),
        "COMP_CWORD": str(len(words)),
        "TOEHOLD_FRONTIER": server,
    }
    program = "from toehold_cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_a_shell_completes_commands_options_and_the_names_of_crawls(server: ServerProcess, at: At) -> None:
    assert completed(server.address, "tear") == ["teardown"]
    assert completed(server.address, "queues", "unret") == ["unretire"]
    assert "--wait" in completed(server.address, "pause", "--w")
    # A shell does not wait for names that come late.
    eventually(lambda: at.crawl in completed(server.address, "pause", "--crawl", at.crawl[:-1]))
    there = ("--frontier", server.address)
    eventually(lambda: completed("127.0.0.1:1", "pause", *there, "--crawl", at.crawl)[:1] == [at.crawl])


def test_a_shell_hears_nothing_of_a_frontier_that_is_not_there() -> None:
    assert completed("127.0.0.1:1", "pause", "--crawl", "c") == []
    assert completed("nonsense", "pause", "--crawl", "c") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(toehold_at: Toehold, shell: str) -> None:
    code, output, errors = toehold_at("completion", shell)
    assert (code, errors) == (0, "")
    assert f"_TOEHOLD_COMPLETE={shell}_complete" in output
    assert toehold_at("completion", "tcsh")[0] == 2


# All of them.


@pytest.mark.parametrize(
    "arguments",
    ["hold", "teardown", "set weight=1", "copy other", "seeds add http://a.example/", "run", "launch"],
)
def test_an_unknown_crawl_is_exit_code_9(toehold_at: Toehold, arguments: str) -> None:
    code, output, errors = toehold_at(*arguments.split(), "--crawl", "no-such-crawl")
    assert (code, output, errors) == (9, "", "Error: there is no crawl 'no-such-crawl'\n")


def test_every_command_speaks_json_and_is_in_the_manual() -> None:
    manual = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    for name, command in toehold.commands.items():
        assert f"`toehold {name}" in manual or f" `{name}`" in manual, name
        leaves = command.commands.values() if isinstance(command, click.Group) else [command]
        for leaf in leaves:
            assert name in ("completion", "console") or any(
                option.name == "as_json" for option in leaf.params
            ), name
