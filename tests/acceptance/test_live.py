"""The live display of crawl, run and watch, at a terminal of 80x24 and in a pipe, on real programs."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from acceptance.at_terminal import check_fits, plain, terminal_of
from acceptance.judging import BRISK, ONE, crawl_arguments, slow_spec
from acceptance.parts import Parts
from acceptance.programs import Program, Programs, json_of, toehold
from acceptance.terminal import CTRL_C, Terminal
from frontier_harness.waiting import eventually

from practice_web.practice import PracticeWeb

NOWHERE = "http://nowhere.invalid/"
NO_NODE = "no node is there, so nothing is fetched"


@pytest.fixture
def terminal(programs: Programs) -> Iterator[Terminal]:
    with terminal_of(programs) as opened:
        yield opened


def slow_crawl(web: PracticeWeb, folder: Path) -> list[str]:
    """`toehold` arguments for a crawl that lasts, of a host that is there and one that is not."""
    spec = folder / "slow.toml"
    spec.write_text(slow_spec())
    arguments = crawl_arguments(web, folder / "crawl", "--contact", "me@crawler.example", keys=ONE)
    return ["crawl", "--spec", str(spec), *arguments[3:], NOWHERE]


def until_shown(terminal: Terminal, pattern: str) -> None:
    eventually(lambda: re.search(pattern, plain(terminal.shown), re.MULTILINE), pattern)


def check_it_tells_all(terminal: Terminal) -> None:
    """Asserts that a picture on 80 columns has all that somebody wants to know, and nothing that is cut."""
    for words in (
        r"^crawl    RUNNING  \S+, for .*left",
        r"^why      Limited by politeness: .*waits? 1 s",
        r"^pages    \d+ succeeded",
        r"^rate     \d\S* pages/s, .* on average  [▁-█]+",
        r"^URIs     \d+ queued",
        r"^seeds    1 of 2 fetched, 1 failed",
        r"^         http://nowhere\.invalid: .*name not found",
        r"^nodes .* toes: .* leases?",
        r"^largest  \S+ +\d+ queued",
    ):
        until_shown(terminal, words)
    check_fits(terminal.shown)


def test_a_crawl_at_a_terminal_tells_all_there_is(
    web: PracticeWeb, terminal: Terminal, tmp_path: Path
) -> None:
    crawl = terminal.toehold(*slow_crawl(web, tmp_path))
    check_it_tells_all(terminal)
    terminal.type(CTRL_C)
    assert crawl.wait() == 130


def test_a_watch_of_a_directory_tells_the_same_and_goes_on_with_a_crawl_that_was_paused(
    web: PracticeWeb, programs: Programs, terminal: Terminal, tmp_path: Path
) -> None:
    directory = tmp_path / "crawl"
    crawl = programs.toehold(*slow_crawl(web, tmp_path))
    eventually(lambda: (directory / "frontier.json").is_file(), "a frontier")
    watch = terminal.toehold("watch", "--dir", str(directory), "--interval", "0.3")
    piped = programs.toehold("watch", "--dir", str(directory), "--interval", "0.3")
    until_shown(terminal, r"^pages    [1-9]\d* succeeded")
    first = json_of("status", "--dir", str(directory))["statistics"]["succeeded_count"]

    interrupt(crawl)
    waiting = "paused; waiting for it to go on in"
    eventually(lambda: waiting in plain(terminal.shown) and waiting in piped.said, "a crawl that is paused")
    assert watch.runs and piped.runs

    seen = len(terminal.shown)
    programs.toehold(*slow_crawl(web, tmp_path))
    eventually(lambda: "RUNNING" in terminal.shown[seen:], "a crawl that goes on")
    assert toehold("set", "--dir", str(directory), BRISK, "politeness.delay_factor=0").returncode == 0
    assert (watch.wait(), piped.wait()) == (0, 0)
    last = piped.said.splitlines()[-1]
    assert "UTC  Finished" in last
    assert int(re.findall(r"([\d ]+) pages  ", last)[0].replace(" ", "")) > first


def interrupt(crawl: Program) -> None:
    """Ctrl-C, where there is no terminal."""
    crawl.signal(signal.SIGINT)
    assert crawl.wait() == 130


@pytest.mark.soak("resuming")
def test_a_watch_that_begins_while_the_crawl_is_paused_waits_for_it(
    web: PracticeWeb, programs: Programs, tmp_path: Path
) -> None:
    command, directory = slow_crawl(web, tmp_path), tmp_path / "crawl"
    crawl = programs.toehold(*command)
    eventually(lambda: len(web.log()) >= 3, "pages requested")
    interrupt(crawl)
    watch = programs.toehold("watch", "--dir", str(directory), "--interval", "0.3")
    eventually(lambda: "waiting for it to go on" in watch.said, "a watch that waits")
    programs.toehold(*command)
    eventually(lambda: "  RUNNING  " in watch.said, "a crawl that goes on")
    assert toehold("stop", "--dir", str(directory)).returncode == 0
    assert watch.wait() == 0
    assert "UTC  Finished: stopped" in watch.said.splitlines()[-1]


def test_run_in_a_pipe_says_at_once_that_no_node_is_there_and_that_one_is_lost(
    parts: Parts, programs: Programs, tmp_path: Path
) -> None:
    spec = tmp_path / "spec.toml"
    spec.write_text(f'name = "slow"\nseeds = ["{parts.web.web.url(ONE[0], "/")}"]\n{slow_spec()}')
    run = programs.toehold("run", str(spec), "--frontier", parts.address)
    eventually(lambda: f"UTC  problem: {NO_NODE}" in run.said, "a node that is not there")
    node = parts.node("north")
    eventually(lambda: re.search(r"UTC  RUNNING  [1-9]\d* pages?  ", run.said), "a line that tells of pages")
    node.kill()
    eventually(
        lambda: re.search(r"UTC  problem: node north: lost \d+ s ago", run.said), "a node that is lost"
    )
    assert all(line.isprintable() for line in run.said.splitlines())
