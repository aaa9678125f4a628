"""`toehold crawl` interrupted, killed, refused, and steered from another shell. Its directory is all that one
run leaves to the next.
"""

import json
import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from acceptance.judging import BRISK, FEW, ONE, complaints, crawl_arguments, in_flight, seeds_of, slow_spec
from acceptance.outcomes import LogLine, check_failures, closed_files, crawl_log, pages
from acceptance.programs import Programs, children, json_of, program_of, toehold
from acceptance.terminal import CTRL_C, Terminal
from frontier_harness.divided import of_toehold
from frontier_harness.waiting import PATIENCE_S, eventually

from practice_web.practice import PracticeWeb

SOON_S = PATIENCE_S
"""How long a pause, a stop or an end may take here, where no fetch is long, on a busy machine."""

INTERRUPTED, REFUSED, BAD_INPUT, FAILED = 130, 5, 2, 1


@pytest.fixture
def terminal(programs: Programs) -> Iterator[Terminal]:
    with Terminal(programs) as opened:
        yield opened


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "crawl"


# --- signals ------------------------------------------------------------------------------------


def test_ctrl_c_pauses_and_the_same_command_goes_on_without_a_page_twice(
    web: PracticeWeb, terminal: Terminal, directory: Path, tmp_path: Path
) -> None:
    command = crawl_arguments(web, directory, *slow(tmp_path))
    crawl = terminal.toehold(*command)
    _until_asked(web, 9)
    terminal.type(CTRL_C)
    assert crawl.wait(SOON_S) == INTERRUPTED
    asked = len(web.log())
    assert json.loads((directory / "report.json").read_text())["state"] == "PAUSED"
    shown = _plain(terminal.all_shown())
    assert "To continue:" in shown and _squeezed(shlex.join(of_toehold(command))) in _squeezed(shown)

    crawl = terminal.toehold(*command)
    _until_asked(web, asked + 1)
    _speed_up(directory)
    assert crawl.wait() == 0
    assert complaints(web) == []
    _check_warcs(directory)


@pytest.mark.soak("resuming")
def test_ctrl_c_waits_for_the_page_under_way_no_longer_than_the_fetch_deadline(
    web: PracticeWeb, terminal: Terminal, directory: Path
) -> None:
    deadline_s = 4.0
    command = crawl_arguments(web, directory, *_slow(deadline_s), keys=["mu"])
    crawl = terminal.toehold(*command)
    _await_slow_page(web, directory)
    terminal.type(CTRL_C)
    assert crawl.wait(deadline_s + SOON_S) == INTERRUPTED
    slow = web.web.url("mu", "/traps/drip.html")
    assert [line.status for line in _pages(directory) if line.url == slow] == [200]
    assert terminal.toehold(*command).wait() == 0
    assert complaints(web, ["mu"]) == []


def test_a_second_ctrl_c_stops_at_once_and_the_same_command_makes_the_fetch_again(
    web: PracticeWeb, terminal: Terminal, directory: Path
) -> None:
    deadline_s = 10.0
    command = crawl_arguments(web, directory, *_slow(deadline_s), keys=["mu"])
    crawl = terminal.toehold(*command)
    _await_slow_page(web, directory)
    terminal.type(CTRL_C)
    eventually(lambda: "Ctrl-C again stops at once" in _plain(terminal.shown), "the answer to Ctrl-C")
    terminal.type(CTRL_C)
    assert crawl.wait(SOON_S) == INTERRUPTED
    assert "To continue:" in _plain(terminal.all_shown())
    slow = web.web.url("mu", "/traps/drip.html")
    eventually(lambda: slow in {entry.url for entry in web.log()}, "the web to see that it was broken off")
    broken_off = [entry for entry in web.log() if entry.url == slow]
    assert [entry.aborted for entry in broken_off] == [True]
    assert broken_off[0].duration_s < deadline_s - 1
    assert slow not in {line.url for line in _pages(directory)}

    assert terminal.toehold(*command).wait() == 0
    assert [line.status for line in _pages(directory) if line.url == slow] == [200]
    assert complaints(web, ["mu"], again=[slow]) == []


@pytest.mark.soak("resuming")
def test_sigterm_pauses_and_the_command_that_it_names_goes_on(
    web: PracticeWeb, programs: Programs, directory: Path
) -> None:
    crawl = programs.toehold(*crawl_arguments(web, directory, keys=ONE))
    _until_asked(web, 30)
    crawl.signal(signal.SIGTERM)
    assert crawl.wait(SOON_S) == INTERRUPTED
    named = re.search(r"To continue: (.*)", crawl.said)
    assert named is not None, crawl.said
    again = programs.start("again", *shlex.split(named[1]))
    assert again.wait() == 0, again.complaints
    assert complaints(web, ONE) == []
    _check_warcs(directory)


def test_kill_9_leaves_no_child_behind_and_the_same_command_goes_on_later_or_at_once(
    web: PracticeWeb, programs: Programs, directory: Path, tmp_path: Path
) -> None:
    command = crawl_arguments(web, directory, *slow(tmp_path))
    crawl = programs.toehold(*command)
    _until_asked(web, 9)
    left = children(crawl.pid)
    found = re.findall("frontier_server|crawler_node", " ".join(map(program_of, left)))
    assert set(found) == {"crawler_node", "frontier_server"}
    later = crawl.kill()
    eventually(lambda: not any(map(program_of, left)), "the children to end", SOON_S)

    asked = len(web.log())
    crawl = programs.toehold(*command)
    _until_asked(web, asked + 9)
    at_once = crawl.kill()
    asked = len(web.log())
    crawl = programs.toehold(*command)
    _until_asked(web, asked + 1)
    _speed_up(directory)
    assert crawl.wait() == 0, crawl.complaints
    assert complaints(web, again=in_flight(web.log(), later, at_once)) == []
    _check_warcs(directory)


# --- directories --------------------------------------------------------------------------------


def test_another_crawl_is_refused_with_the_seeds_that_are_missing(
    web: PracticeWeb, programs: Programs, directory: Path, tmp_path: Path
) -> None:
    crawl = programs.toehold(*crawl_arguments(web, directory, *slow(tmp_path)))
    _until_asked(web, 6)
    crawl.signal(signal.SIGTERM)
    assert crawl.wait(SOON_S) == INTERRUPTED
    asked = len(web.log())

    refused = toehold(*crawl_arguments(web, directory, "--max-hops", "3", keys=FEW[:2]))
    assert refused.returncode == REFUSED
    assert "a crawl keeps its seeds" in refused.stderr
    for seed in seeds_of(web, FEW[2:]):
        assert f"\n  {seed}\n" in refused.stderr
    assert "--fresh" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert len(web.log()) == asked


@pytest.mark.soak("resuming")
def test_a_second_crawl_in_the_same_directory_is_refused(
    web: PracticeWeb, programs: Programs, directory: Path, tmp_path: Path
) -> None:
    command = crawl_arguments(web, directory, *slow(tmp_path), keys=ONE)
    crawl = programs.toehold(*command)
    _until_asked(web, 2)
    for more in ((), ("--fresh",)):
        refused = toehold(*command, *more)
        assert refused.returncode == REFUSED
        assert "another `toehold crawl` is running" in refused.stderr
    _speed_up(directory)
    assert crawl.wait() == 0, crawl.complaints
    assert complaints(web, ONE) == []


# --- from another shell -------------------------------------------------------------------------


def test_another_shell_sees_and_steers_a_running_crawl_by_its_directory(
    web: PracticeWeb, programs: Programs, directory: Path, tmp_path: Path
) -> None:
    crawl = programs.toehold(*crawl_arguments(web, directory, *slow(tmp_path)))
    _until_asked(web, 6)
    there = ("--dir", str(directory))

    status = json_of("status", *there)
    assert status["status"]["state"] == "RUNNING"
    assert status["statistics"]["succeeded_count"] > 0
    shown = toehold("status", *there)
    assert shown.returncode == 0
    assert "RUNNING" in shown.stdout

    assert json_of("pause", "--wait", "60", *there)["status"]["state"] == "PAUSED"
    asked = len(web.log())
    listed = [json.loads(line) for line in toehold("queues", *there, "--json").stdout.splitlines()]
    hosts = {web.web.origins[key].name for key in FEW}
    assert {queue["host"] for queue in listed} == hosts
    assert {queue["leased_count"] for queue in listed} == {0}
    shown = toehold("queues", *there)
    assert shown.returncode == 0, shown.stderr
    assert [queue for queue in listed if queue["queue_key"] not in shown.stdout] == []
    assert crawl.runs
    assert len(web.log()) == asked  # nothing was fetched while it was paused

    assert json_of("resume", "--wait", "60", *there)["status"]["state"] == "RUNNING"
    eventually(lambda: len(web.log()) > asked, "the crawl to go on")
    assert json_of("stop", "--wait", "60", *there)["status"] | {"reach_time": ""} == {
        "state": "FINISHED",
        "exit_status": "ABORTED",
        "reach_time": "",
        "reason": "",
        "failure": "",
        "held": False,
        "tearing_down": False,
        "torn_down": False,
    }
    assert crawl.wait(SOON_S) == FAILED
    assert "Finished: stopped" in crawl.said
    assert json_of("status", *there)["status"]["exit_status"] == "ABORTED", "also when no frontier runs"


def test_another_shell_follows_the_events_of_a_crawl_to_its_end(
    web: PracticeWeb, programs: Programs, directory: Path, tmp_path: Path
) -> None:
    crawl = programs.toehold(*crawl_arguments(web, directory, *slow(tmp_path), keys=ONE))
    eventually((directory / "frontier.json").exists, "the frontier")
    there = ("--dir", str(directory))
    eventually(lambda: toehold("status", *there).returncode == 0, "the crawl")
    followed = programs.toehold("events", "--follow", "--json", *there)
    eventually(lambda: followed.said, "the first event")
    _speed_up(directory)
    assert crawl.wait() == 0, crawl.complaints
    assert followed.wait() == 0, followed.complaints
    events = [json.loads(line) for line in followed.said.splitlines()]
    assert [event["sequence"] for event in events] == [*range(1, len(events) + 1)]
    states = [event["status_changed"]["state"] for event in events if "status_changed" in event]
    assert states[:3] == ["NASCENT", "PREPARING", "RUNNING"]
    assert states[-1] == "FINISHED"


# --- helpers ------------------------------------------------------------------------------------


def slow(folder: Path) -> list[str]:
    """Options for a crawl that does not come to its end before somebody has had a look at it."""
    spec = folder / "slow.toml"
    spec.write_text(slow_spec())
    return ["--spec", str(spec)]


def _until_asked(web: PracticeWeb, count: int) -> None:
    eventually(lambda: len(web.log()) >= count, f"{count} requests")


def _speed_up(directory: Path) -> None:
    """Lets a slow crawl that runs come to its end."""
    done = toehold("set", BRISK, "--dir", str(directory))
    assert done.returncode == 0, done.stderr


def _slow(deadline_s: float) -> list[str]:
    """Options for a host with a page that takes as long as it may."""
    return ["--fetch-timeout", str(deadline_s), "--max-attempts", "1"]


def _await_slow_page(web: PracticeWeb, directory: Path) -> None:
    """Waits until the page is under way whose bytes come one by one: the first of its host's list."""
    listing = web.web.url("mu", "/traps/")
    eventually(lambda: listing in {line.url for line in _pages(directory)}, "the list of the host's pages")
    eventually(lambda: _leased(directory), "the next page")


def _leased(directory: Path) -> bool:
    done = toehold("status", "--dir", str(directory), "--json")
    return done.returncode == 0 and json.loads(done.stdout)["statistics"]["leased_count"] > 0


def _pages(directory: Path) -> list[LogLine]:
    return pages(crawl_log(directory / "frontier" / "crawls" / "crawl" / "crawl.log"))


def _check_warcs(directory: Path) -> None:
    files = closed_files(directory / "warcs")
    assert files
    assert [failure for file in files for failure in check_failures(file)] == []


def _plain(shown: str) -> str:
    """What a terminal was sent, without what moves its cursor and paints."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)


def _squeezed(text: str) -> str:
    """Without blanks and line ends: a terminal breaks long lines."""
    return "".join(text.split())
