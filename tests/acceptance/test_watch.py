"""`toehold watch` at a terminal and in a pipe, on a real frontier: it fits, lasts, leaves no trace."""

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from acceptance.judging import ONE
from acceptance.parts import CRAWL, Parts
from acceptance.programs import Program, Programs
from acceptance.terminal import CTRL_C, CTRL_Z, Terminal
from frontier_harness.waiting import eventually
from rich.cells import cell_len

from practice_web.practice import PracticeWeb

TAKEN, HIDDEN = "\x1b[?1049h", "\x1b[?25l"
GIVEN_BACK, SHOWN = "\x1b[?1049l", "\x1b[?25h"
NOBODY = "No node has asked for leases since the server started"


@pytest.fixture
def terminal(programs: Programs) -> Iterator[Terminal]:
    with Terminal(programs) as opened:
        opened.resize(80, 24)
        yield opened


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parts]:
    """A crawl that runs, and that no node fetches for: for those who only look at it."""
    folder = tmp_path_factory.mktemp("idle")
    with PracticeWeb(folder / "web") as web, Programs(folder) as programs:
        parts = Parts(web, programs, folder)
        begin(parts)
        yield parts


def begin(parts: Parts) -> None:
    """Launch the crawl, and wait until it runs."""
    parts.launch(ONE)
    eventually(lambda: parts.status()["status"]["state"] == "RUNNING", "a crawl that runs")


def frames(terminal: Terminal) -> list[list[str]]:
    """Each picture that was drawn over the whole screen, as lines; what colours them is left out."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", terminal.shown)
    drawn = [frame.partition("\x1b[?")[0] for frame in plain.split("\x1b[H")[1:]]
    return [frame.split("\r\n") for frame in drawn if frame]


def until_drawn(
    terminal: Terminal, *wanted: str, without: str = "\0", size: tuple[int, int] = (80, 24)
) -> list[str]:
    """Waits until the last picture is of this size, with all these words and without those; its lines."""

    def found() -> list[str]:
        last = frames(terminal)[-1:]
        if not last or (cell_len(last[0][-1]), len(last[0])) != size:  # some of it may still be on its way
            return []
        text = "\n".join(last[0])
        return last[0] if all(word in text for word in wanted) and without not in text else []

    return eventually(found, f"a picture of {size} with {wanted}, without {without}")


def check_given_back(terminal: Terminal) -> str:
    """Assert that the terminal is as it was before; what was written to it since."""
    shown = terminal.all_shown()
    assert shown.count(TAKEN) == shown.count(GIVEN_BACK) > 0
    assert shown.rindex(SHOWN) > shown.rindex(HIDDEN)
    return shown.rpartition(GIVEN_BACK)[2]


def watch(terminal: Terminal, parts: Parts, *options: str) -> Program:
    program = terminal.toehold("watch", "--frontier", parts.address, *options)
    eventually(lambda: TAKEN in terminal.shown, "a screen that is taken")
    return program


def test_every_picture_of_a_crawl_fits_and_the_last_one_stays(terminal: Terminal, parts: Parts) -> None:
    parts.launch()
    program = watch(terminal, parts, "--interval", "0.1")
    until_drawn(terminal, "RUNNING", NOBODY)
    parts.node("north")
    until_drawn(terminal, "RUNNING", "north", "queued", "toes")
    assert program.wait() == 0
    left = re.sub(r"\x1b\[[0-9;]*m", "", check_given_back(terminal))
    drawn = frames(terminal)
    assert len(drawn) > 5
    for frame in drawn:
        assert len(frame) == 24
        assert {cell_len(line) for line in frame} == {80}
        assert all(line.isprintable() for line in frame)
    assert left.startswith(f"crawl    Finished  {CRAWL}, for ")
    assert len(left.splitlines()) < 24


def test_ctrl_c_ends_it_quietly_and_changes_nothing_of_the_crawl(terminal: Terminal, idle: Parts) -> None:
    program = watch(terminal, idle)
    until_drawn(terminal, "RUNNING", NOBODY)
    terminal.type(CTRL_C)
    assert program.wait() == 130
    assert check_given_back(terminal) == ""
    assert idle.status()["status"]["state"] == "RUNNING"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_it_leaves_the_terminal_as_it_was(
    terminal: Terminal, idle: Parts, number: signal.Signals
) -> None:
    program = watch(terminal, idle)
    program.signal(number)
    assert program.wait() == 130
    assert check_given_back(terminal) == ""


def test_a_terminal_that_changes_its_size_gets_another_picture_at_once(
    terminal: Terminal, idle: Parts
) -> None:
    watch(terminal, idle, "--interval", "86400")
    until_drawn(terminal, "RUNNING", size=(80, 24))
    for size in ((40, 10), (120, 40)):
        terminal.resize(*size)
        lines = until_drawn(terminal, "RUNNING", size=size)
        assert {cell_len(line) for line in lines} == {size[0]}


def test_while_it_is_stopped_the_terminal_is_free(terminal: Terminal, idle: Parts) -> None:
    program = watch(terminal, idle)
    until_drawn(terminal, NOBODY)
    terminal.type(CTRL_Z)
    eventually(lambda: _is_stopped(program), "a program that is stopped")
    assert check_given_back(terminal) == ""
    program.signal(signal.SIGCONT)
    eventually(lambda: terminal.shown.count(TAKEN) == 2, "a screen that is taken again")
    until_drawn(terminal, NOBODY)
    terminal.type(CTRL_C)
    assert program.wait() == 130
    check_given_back(terminal)


def test_a_picture_for_good_fits_and_takes_no_screen(terminal: Terminal, idle: Parts) -> None:
    assert terminal.toehold("watch", "--once", "--frontier", idle.address).wait() == 0
    plain = re.sub(r"\x1b\[[0-9;]*m", "", terminal.all_shown())
    assert "\x1b" not in plain
    lines = plain.splitlines()
    assert len(lines) < 24 and max(map(cell_len, lines)) <= 80
    assert NOBODY in plain


def _is_stopped(program: Program) -> bool:
    status = Path(f"/proc/{program.pid}/stat").read_text()
    return status.rpartition(")")[2].split()[0] == "T"
