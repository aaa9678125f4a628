"""The live display of crawl, run and watch, at a terminal of 80x24 and in a pipe, on real programs."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from acceptance.at_terminal import check_fits, plain, terminal_of
from acceptance.judging import ONE, crawl_arguments, slow_spec
from acceptance.programs import Programs
from acceptance.terminal import CTRL_C, Terminal
from frontier_harness.waiting import eventually

from practice_web.practice import PracticeWeb

NOWHERE = "http://nowhere.invalid/"


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
