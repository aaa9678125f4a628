"""What `toehold crawl` shows: a panel that fits, lines that say the same, nothing a terminal would obey."""

from io import StringIO

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from rich.console import Console

from toehold.frontier.v1.crawl_pb2 import CrawlState, CrawlStatus, Statistics
from toehold_client.cli.embedded.crawl_log import LoggedPage
from toehold_client.cli.embedded.display import LivePanel, Rate, Silent, View, WhileSeen, line, panel


def view(
    *,
    pages: int = 0,
    waiting_for: str = "",
    snapshot_time: Timestamp | None = None,
    next_due_time: Timestamp | None = None,
) -> View:
    statistics = Statistics(
        succeeded_count=1_234,
        queued_count=5_678,
        leased_count=3,
        failed_count=6,
        discovered_count=9_999,
        bytes_count=12_345_678,
        fetch_status_counts={200: 1_230, 404: 4, -2: 6, -9998: 17},
        queue_state_counts={"READY": 1, "QUEUE_STATE_BUSY": 3, "SNOOZED": 5, "INACTIVE": 0},
        elapsed_duration=Duration(seconds=100),
        waiting_for=waiting_for,
        snapshot_time=snapshot_time,
        next_due_time=next_due_time,
    )
    last = [LoggedPage(200, 4_321, f"http://www.example.com/{n}/{'long/' * 40}") for n in range(pages)]
    return View("crawl", CrawlStatus(state=CrawlState.CRAWL_STATE_RUNNING), statistics, 7.5, last)


def waiting(pages: int = 0) -> View:
    return view(
        pages=pages,
        waiting_for="3 resting queues (politeness)",
        snapshot_time=Timestamp(seconds=1_000_000),
        next_due_time=Timestamp(seconds=1_000_042),
    )


def drawn(shown: View, most_pages: int = 12, width: int = 80, height: int = 24) -> list[str]:
    console = Console(file=StringIO(), width=width, height=height, markup=False, highlight=False)
    console.print(panel(shown, most_pages))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue().rstrip("\n").split("\n")


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 24), (200, 50)])
def test_the_panel_fits_the_screen_whatever_is_in_it(width: int, height: int) -> None:
    lines = drawn(waiting(pages=50), width=width, height=height)
    assert len(lines) < height
    assert all(len(text) <= width for text in lines)
    assert [text.split()[0] for text in lines[1:7]] == [
        "crawl",
        "pages",
        "URIs",
        "queues",
        "errors",
        "waiting",
    ]


def test_the_panel_tells_the_figures() -> None:
    text = "\n".join(drawn(view(pages=2), width=200))
    for told in (
        "RUNNING",
        "1 234",
        "12.3 MB",
        "7.5 pages/s now",
        "12.3 on average",
        "5 678 queued",
        "6 failed",
    ):
        assert told in text, told
    assert "1 ready, 3 busy, 5 snoozed" in text and "inactive" not in text
    assert "-2 connect failed: 6" in text and "404: 4" in text
    assert "-9998" not in text, "what robots.txt forbids is no error"
    assert text.index(".com/0") < text.index(".com/1"), "the latest page comes last"


def test_a_small_screen_gets_no_pages_at_all() -> None:
    assert not any("example.com" in text for text in drawn(view(pages=5), most_pages=0))


def test_while_nothing_is_due_it_tells_what_is_awaited_and_for_how_long() -> None:
    told = "(in 42 s): 3 resting queues (politeness)"
    assert any(told in text for text in drawn(waiting()))
    assert told in line(waiting())
    assert "until" not in line(view())


def test_what_comes_from_the_web_cannot_reach_the_terminal() -> None:
    hostile = View(
        "crawl",
        CrawlStatus(state=CrawlState.CRAWL_STATE_RUNNING),
        Statistics(waiting_for="\x1b[2J"),
        0.0,
        [LoggedPage(200, None, "http://a.example/\x1b]0;owned\x07[bold]")],
    )
    text = "\n".join(drawn(hostile))
    assert "\x1b" not in text and "\x07" not in text
    assert "[bold]" in text, "nor is it read as markup"


def test_the_rate_is_that_of_the_last_seconds() -> None:
    rate = Rate()
    assert rate.add(100.0, 50) == 0.0
    assert rate.add(102.0, 60) == 5.0
    assert rate.add(111.0, 60) == 0.0, "the first sample is too old to count"


class Broken:
    """A display whose terminal is gone."""

    def __init__(self, failure: BaseException) -> None:
        self.failure = failure
        self.shown = 0

    def __enter__(self) -> "Broken":
        return self

    def __exit__(self, *_: object) -> None:
        raise self.failure

    def show(self, view: View) -> None:
        self.shown += 1
        raise self.failure

    def say(self, text: str) -> None:
        raise self.failure


@pytest.mark.parametrize("failure", [BrokenPipeError(), OSError(5, "Input/output error"), SystemExit(1)])
def test_an_output_that_is_gone_is_told_and_never_tried_again(failure: BaseException) -> None:
    lost: list[str] = []
    broken = Broken(failure)
    with WhileSeen(broken, lambda: lost.append("lost")) as display:
        display.show(view())
        display.show(view())
        display.say("anything")
    assert broken.shown == 1
    assert lost[0] == "lost"


def test_live_output_ends_with_what_was_said_and_leaves_no_panel_behind() -> None:
    console = Console(file=StringIO(), width=80, height=24, force_terminal=True, color_system=None)
    with LivePanel(console) as display:
        display.show(view(pages=3))
        display.say(f"To go on: {'toehold ' * 20}")
    assert isinstance(console.file, StringIO)
    text = console.file.getvalue()
    assert "toehold " * 20 in text, "a command is not broken into lines"
    assert text.endswith("\x1b[1A\x1b[2K"), "its lines are erased"


def test_json_shows_nothing_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    with Silent() as display:
        display.show(view())
        display.say("Pausing.")
    assert capsys.readouterr() == ("", "Pausing.\n")
