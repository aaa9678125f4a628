"""A crawl shown live where nothing fills the screen: lines, objects, a panel below messages."""

import json
from dataclasses import replace
from io import StringIO

import pytest
from client_doubles.looks import (
    AWKWARD,
    PAUSED,
    WHY,
    drawn,
    look,
    node,
    problem,
    quiet,
)
from rich.console import Console

from toehold.frontier.v1 import crawl_pb2
from toehold_cli.live.displays import Display, LineDisplay, Objects, Panel, WhileSeen, show_once
from toehold_cli.live.layout import line
from toehold_client.watching.look import Look, to_record


def test_trouble_is_told_at_once_and_once_until_it_comes_again(capsys: pytest.CaptureFixture[str]) -> None:
    fine, ill = quiet(problems=[]), quiet(problems=[], nodes=[node("north", -12, "SILENT")])
    with LineDisplay() as display:
        for due, each in [(True, fine), (False, ill), (False, ill), (False, fine), (False, ill)]:
            display.show(replace(each, due=due))
    told = [text.split("  ", 1)[1] for text in capsys.readouterr().out.splitlines()]
    assert (
        told[1:]
        == [
            "problem: no node is there, so nothing is fetched",
            "problem: node north: silent for 12 s",
        ]
        * 2
    )


def test_a_line_has_the_trouble_that_lasts() -> None:
    nodes = [node(f"n{n}", -12, "SILENT") for n in range(5)]
    assert line(quiet(nodes=nodes)).endswith(
        "no node is there, so nothing is fetched; node n0: silent for 12 s; node n1: silent for 12 s; "
        "and 3 further problems"
    )


def test_a_crawl_that_is_paused_in_a_directory_says_what_it_waits_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    waiting = replace(look(status=PAUSED, nodes=[]), waiting_in="crawl-a.example", why="")
    assert drawn(waiting)[1] == "away     paused; waiting for it to go on in crawl-a.example"
    with LineDisplay(events=False) as display:
        for each in (look(), waiting, waiting, look()):
            display.show(replace(each, due=False))
    told = [text for text in capsys.readouterr().out.splitlines() if "problem:" not in text]
    assert ["waiting for it to go on in crawl-a.example" in text for text in told] == [True, False]


def test_a_line_tells_state_rates_statistics_and_why() -> None:
    assert line(look()) == (
        "RUNNING  1 234 pages  7.5 pages/s  92.1 kB/s  5 678 queued  6 failed  12.3 MB  1 to 3 h left  "
        f"{WHY}  the hook or callback failed on 1 page"
    )
    assert "  no answer for 2.0 s: no frontier answers" in line(look(away="no frontier answers", away_s=2))


def test_a_line_tells_one_reason_and_has_no_plural_for_one() -> None:
    failed = crawl_pb2.CrawlStatus(
        state=crawl_pb2.CrawlState.CRAWL_STATE_FINISHED,
        exit_status=crawl_pb2.ExitStatus.EXIT_STATUS_FINISHED,
        failure="no page was fetched: name not found",
    )
    statistics = crawl_pb2.Statistics(succeeded_count=1)
    told = line(look(status=failed, statistics=statistics, nodes=[]))
    assert told == (
        "Finished  1 page  0.0 pages/s  0 B/s  0 queued  0 failed  0 B  no page was fetched: name not found"
    )


def test_lines_come_when_they_are_due_and_at_changes(capsys: pytest.CaptureFixture[str]) -> None:
    paused = look(status=PAUSED, problems=[])
    running = look(problems=[])
    away = replace(paused, away="no frontier answers")
    shown = [
        (True, running),
        (False, running),
        (True, running),
        (False, paused),
        (False, paused),
        (False, away),
        (False, away),
        (False, paused),
        (True, paused),
    ]
    with LineDisplay() as display:
        for due, each in shown:
            display.show(replace(each, due=due))
    told = [
        text.split("  ")[1] + ("!" if "no answer" in text else "")
        for text in capsys.readouterr().out.splitlines()
        if "problem:" not in text
    ]
    assert told == ["RUNNING", "RUNNING", "PAUSED", "PAUSED!", "PAUSED", "PAUSED"]


def test_a_problem_has_a_line_of_its_own_unless_it_is_older_than_the_watch(
    capsys: pytest.CaptureFixture[str],
) -> None:
    old, new, newer = problem(7, 60, "old"), problem(8, -1, "new"), problem(9, -2, "newer")
    with LineDisplay() as display:
        display.show(look(problems=[]))
        display.show(look(problems=[old, new]))
        display.show(look(problems=[old, new, newer]))
    told = [text for text in capsys.readouterr().out.splitlines() if "disk-reserve" in text]
    assert [text.split("  ", 1)[1] for text in told] == [
        "problem: new (disk-reserve)",
        "problem: newer (disk-reserve)",
    ]


def test_objects_are_whole_and_one_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with Objects() as display:
        display.show(look())
        display.show(look(away="no frontier answers", away_s=1.5))
    here, away = map(json.loads, capsys.readouterr().out.splitlines())
    assert here == to_record(look())
    assert here["away"] is None and away["away"] == {"error": "no frontier answers", "seconds": 1.5}
    assert here["why"] == WHY and here["status"]["state"] == "RUNNING"
    assert here["statistics"]["succeeded_count"] == 1_234
    assert {name: len(here[name]) for name in here if isinstance(here[name], list)} == {
        "nodes": 1,
        "jobs": 1,
        "slowest_queues": 1,
        "largest_queues": 1,
        "problems": 1,
        "pages_per_second": 28,
        "troubled_seeds": 1,
    }


@pytest.mark.parametrize("text", AWKWARD.values(), ids=AWKWARD)
def test_nothing_that_a_terminal_obeys_gets_through(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    screen = Console(file=StringIO(), width=80, height=24, force_terminal=True, color_system=None)
    shown = look(text)
    show_once(shown, screen)
    show_once(shown, None)
    with LineDisplay() as display:
        display.show(shown)
    assert isinstance(screen.file, StringIO)
    on_screen = screen.file.getvalue()
    assert len(on_screen.splitlines()) <= 23, "there is room for a prompt"
    for each in (on_screen + capsys.readouterr().out).split("\n"):
        assert each.isprintable()


def test_a_picture_for_a_file_is_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    show_once(look("long/" * 100, many=20), None)
    out = capsys.readouterr().out
    assert "…" not in out
    assert out.count("com,slow") == 20 and out.count("com,large") == 20


# A panel below messages, and outputs that are gone.


def terminal() -> Console:
    return Console(file=StringIO(), width=80, height=24, force_terminal=True, color_system=None)


def written(console: Console) -> str:
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_a_panel_ends_with_the_messages_and_leaves_nothing_of_itself() -> None:
    console = terminal()
    with Panel(console, 12) as display:
        display.show(look())
        display.say(f"To continue: {'toehold ' * 20}")
    text = written(console)
    assert "RUNNING  practice" in text
    assert "toehold " * 20 in text, "a command is not broken into lines"
    assert text.endswith("\x1b[1A\x1b[2K"), "its lines are erased"


@pytest.mark.parametrize(("most_lines", "lines"), [(12, 12), (100, 22)])
def test_a_panel_has_no_more_lines_than_it_may_and_the_screen_has(most_lines: int, lines: int) -> None:
    console = terminal()
    with Panel(console, most_lines) as display:
        display.show(look(many=100))
    drawn_once = written(console).partition("\r")[0]
    assert len(drawn_once.splitlines()) == 1 + lines


class Broken(Display):
    """A display whose terminal is gone."""

    def __init__(self, failure: BaseException) -> None:
        self.failure = failure
        self.shown = 0

    def __exit__(self, *_: object) -> None:
        raise self.failure

    def show(self, look: Look) -> None:
        self.shown += 1
        raise self.failure

    def say(self, message: str) -> None:
        raise self.failure


@pytest.mark.parametrize("failure", [BrokenPipeError(), OSError(5, "Input/output error"), SystemExit(1)])
def test_an_output_that_is_gone_is_told_and_never_tried_again(failure: BaseException) -> None:
    lost: list[str] = []
    broken = Broken(failure)
    with WhileSeen(broken, lambda: lost.append("lost")) as display:
        display.show(look())
        display.show(look())
        display.say("anything")
    assert broken.shown == 1
    assert lost[0] == "lost"


def test_with_json_messages_go_to_stderr_and_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with Display() as display:
        display.show(look())
        display.say("Pausing.\nSoon.")
    assert capsys.readouterr() == ("", "Pausing.\nSoon.\n")
