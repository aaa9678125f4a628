"""A crawl shown live: a picture that fits every screen, lines and objects that say the same."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from rich.cells import cell_len
from rich.console import Console

from toehold.frontier.v1 import crawl_pb2
from toehold.frontier.v1.admin_pb2 import (
    Crawl,
    Job,
    JobState,
    Node,
    NodePresence,
    Seed,
    SeedResult,
    WorkQueue,
)
from toehold.frontier.v1.crawl_pb2 import (
    CrawlSpec,
    CrawlState,
    CrawlStatus,
    ExitStatus,
    FlightsCancelled,
    JobEnded,
    LimitReached,
    LimitSpec,
    NodeLeft,
    Problem,
    QueueState,
    Statistics,
    UrisLeft,
)
from toehold.frontier.v1.frontier_pb2 import ToeStepCount
from toehold_client.cli.live.crawl_log import LoggedPage
from toehold_client.cli.live.displays import Display, Lines, Objects, Panel, WhileSeen, show_once
from toehold_client.cli.live.layout import WHOLE, line, picture, share
from toehold_client.cli.live.look import Look, is_problem, to_record
from toehold_client.cli.live.seeds import Seeds, seeds_text
from toehold_client.cli.live.trouble import NEWS_S, NODES_START_S, absences, seed_troubles, troubles
from toehold_client.events import Event

SIZES = [(80, 24), (120, 40), (40, 10), (20, 4), (1, 1)]
NOW_S = 1_800_000_000
RUNNING = CrawlStatus(state=CrawlState.CRAWL_STATE_RUNNING, exit_status=ExitStatus.EXIT_STATUS_RUNNING)
PAUSED = CrawlStatus(state=CrawlState.CRAWL_STATE_PAUSED, exit_status=ExitStatus.EXIT_STATUS_PAUSED)
WHY = "politeness: 40 queues rest, 3 are being fetched from; the next wakes in 2 s"


def at(seconds: float) -> Timestamp:
    """So long after the look; before it, if negative."""
    moment = Timestamp()
    moment.FromNanoseconds(round((NOW_S + seconds) * 1e9))
    return moment


def node(name: str, heard_s: float = -1, presence: str = "PRESENT", **steps: int) -> Node:
    told = [ToeStepCount(step=step, count=count) for step, count in steps.items()]
    return Node(
        node=name,
        last_seen_time=at(heard_s),
        toe_steps=told,
        leased_count=3,
        presence=NodePresence.Value(f"NODE_PRESENCE_{presence}"),
    )


def seed(uri: str, result: str, outcome: str) -> Seed:
    return Seed(uri=uri, result=SeedResult.Value(f"SEED_RESULT_{result}"), outcome=outcome)


def queue(key: str, **statistics: Any) -> WorkQueue:
    return WorkQueue(queue_key=key, **statistics)


def told(**fields: Any) -> Event:
    return Event(crawl_pb2.Event(**fields))


def problem(sequence: int, ago_s: float = 60, detail: str = "500 MB are free") -> Event:
    return told(
        sequence=sequence,
        event_time=at(-ago_s),
        problem=Problem(kind="disk-reserve", detail=detail),
    )


def look(text: str = "", many: int = 1, **parts: Any) -> Look:
    """A look in which everything has something to show; `text` is in all texts, `many` of each are there."""
    snoozed, busy = QueueState.QUEUE_STATE_SNOOZED, QueueState.QUEUE_STATE_BUSY
    statistics = Statistics(
        snapshot_time=at(0),
        elapsed_duration=Duration(seconds=100),
        discovered_count=9_999,
        queued_count=5_678,
        leased_count=3,
        succeeded_count=1_234,
        failed_count=6,
        disregarded_count=17,
        bytes_count=12_345_678,
        future_count=12,
        fetch_status_counts={200: 1_230, 404: 4, -2: 6, -9998: 17},
        queue_state_counts={"READY": 1, "BUSY": 3, "SNOOZED": 5, text or "RETIRED": 2},
        succeeded_per_second=7.5,
        average_succeeded_per_second=12.34,
        bytes_per_second=92_100,
        average_bytes_per_second=123_456,
        remaining_min_duration=Duration(seconds=4_000),
        remaining_max_duration=Duration(seconds=10_000),
        annotation_counts={"hookFailed": many},
    )
    limits = LimitSpec(max_documents=5_000, max_bytes=10**9, max_elapsed=Duration(seconds=7_200))
    shown = Look(
        address="127.0.0.1:7707",
        crawl=Crawl(crawl=f"practice{text}", spec=CrawlSpec(limits=limits, max_toes=8)),
        status=RUNNING,
        statistics=statistics,
        why=f"{WHY}{text}",
        history=[0.0, 2.0, 8.0, 4.0] * 7,
        seeds=Seeds.of(seed(f"https://s{n}.example/{text}", "FAILED", f"no{text}") for n in range(many)),
        nodes=[node(f"north{n}{text}", FETCHING=6, WRITING=1, ABOUT_TO_GET_URI=1) for n in range(many)],
        jobs=[
            Job(
                job=3,
                kind=f"delete-uris{text}",
                state=JobState.JOB_STATE_RUNNING,
                done_count=450,
                total_count=1_000,
            )
            for _ in range(many)
        ],
        slowest=[
            queue(
                f"com,slow{n},{text}", state=snoozed, wake_time=at(90), reason=f"retry{text}", queued_count=45
            )
            for n in range(many)
        ],
        largest=[
            queue(f"com,large{n},{text}", state=busy, reason=text, queued_count=61) for n in range(many)
        ],
        problems=[problem(n + 1, detail=f"500 MB are free{text}") for n in range(many)],
        pages=[LoggedPage(200, 4_321, f"http://www.example.com/{n}{text}") for n in range(many)],
    )
    return replace(shown, **parts)


def drawn(shown: Look, width: int = 80, height: int = 24) -> list[str]:
    return [text.plain for text in picture(shown, width, height)]


def labels(shown: Look, width: int = 80, height: int = 24) -> list[str]:
    """The words that lines begin with; those that continue what is above have none."""
    return [text[:9].strip() for text in drawn(shown, width, height) if text[:9].strip()]


AWKWARD = {
    "plain": "",
    "long": "long/" * 100,
    "wide": "漢字かな" * 20,
    "combining": "e\u0301" * 50,
    "obeyed": "\x1b[2J\x1b]0;owned\x07\r\n\u202e\x9b31m",
    "markup": "[bold red]not markup[/]",
    "blanks": "  \u3000 " * 20,
}


@pytest.mark.parametrize("text", AWKWARD.values(), ids=AWKWARD)
@pytest.mark.parametrize("many", [0, 1, 3, 100])
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_picture_fits_whatever_is_in_it(width: int, height: int, many: int, text: str) -> None:
    status = CrawlStatus(state=CrawlState.CRAWL_STATE_PAUSED, reason=f"problem {text}", held=True)
    for shown in (look(text, many), look(text, many, status=status, away=f"no frontier {text}", away_s=61)):
        lines = drawn(shown, width, height)
        assert 0 < len(lines) <= height
        assert max(map(cell_len, lines)) <= width
        assert all(each.isprintable() for each in lines)


def test_the_important_parts_come_first_and_small_screens_have_them_too() -> None:
    head = ["crawl", "why", "pages", "rate", "URIs", "queues", "errors", "limits"]
    sections = ["problems", "seeds", "nodes", "jobs", "slowest", "largest", "fetched"]
    assert labels(look(many=3)) == [*head, *sections]
    assert labels(look(many=3), 120, 40) == [*head, *sections]
    assert labels(look(many=3), 40, 11) == head
    away = look(away="no frontier answers at 127.0.0.1:7707 (Connection refused)", away_s=12)
    assert labels(away)[:3] == ["crawl", "away", "why"]
    assert labels(away, 20, 4)[:2] == ["crawl", "away"]


def test_larger_screens_show_more_of_each() -> None:
    shown = look(many=100, jobs=[])
    small, large = drawn(shown, 80, 24), drawn(shown, 120, 40)
    assert len(small) == 24 and len(large) == 40
    for word in ("free", ".example: no", "north", "slow", "large", "www"):
        assert 0 < sum(word in each for each in small) < sum(word in each for each in large), word
    for section in (small, large):
        assert [each.strip().rpartition(" ")[2] for each in section if "   and " in each] == ["more"] * 3


def test_a_picture_has_air_where_there_is_room() -> None:
    assert "" in drawn(look(jobs=[]), 80, 24)
    assert "" not in drawn(look(many=3), 80, 20)


@pytest.mark.parametrize(
    ("room", "wanted", "shares"),
    [
        (0, [3, 3], [0, 0]),
        (-5, [3, 3], [0, 0]),
        (1, [3, 3], [1, 0]),
        (5, [3, 3, 3], [2, 2, 1]),
        (8, [1, 9, 3], [1, 4, 3]),
        (100, [1, 0, 3], [1, 0, 3]),
    ],
)
def test_sections_share_the_room_a_line_in_turn(room: int, wanted: list[int], shares: list[int]) -> None:
    assert share(room, wanted) == shares


def test_a_section_can_get_more_lines_in_each_turn() -> None:
    assert share(6, [9, 9], [2, 1]) == [4, 2]
    assert share(6, [3, 9], [2, 1]) == [3, 3]


def test_the_picture_tells_all_there_is() -> None:
    text = "\n".join(drawn(look(), WHOLE, WHOLE))
    for told in (
        "RUNNING  practice, for 1 min 40 s, 1 to 3 h left, at 127.0.0.1:7707",
        WHY,
        "1 234 succeeded, 12.3 MB; 17 disregarded",
        "7.5 pages/s, 92.1 kB/s; 12.3 pages/s on average  ▁▃█▅▁▃█▅",
        "5 678 queued (3 being fetched), 12 for later; 9 999 discovered",
        "1 ready, 3 busy, 5 snoozed, 2 retired",
        "6 failed; -2 connect failed: 6; 404: 4",
        "1 234 of 5 000 pages, 12.3 MB of 1.0 GB, 1 min 40 s of 2 h 00 min, 3 of 8 toes",
        "problems the hook failed on 1 page",
        "60 s ago: 500 MB are free (disk-reserve)",
        "seeds    0 of 1 fetched, 1 failed",
        "s0.example: no",
        "north0  8 toes: 6 fetching, 1 writing, 1 idle; 3 leases",
        "3 delete-uris, running: 450 of 1 000 rows, 0 changed",
        "com,slow0,  for 1 min 30 s: retry; 45 queued",
        "com,large0,  61 queued, busy",
        "fetched    200    4.3 kB  http://www.example.com/0",
    ):
        assert told in text, told
    assert "-9998" not in text, "what robots.txt forbids is no error"


def test_the_latest_page_comes_first() -> None:
    pages = [LoggedPage(200, 4_321, "http://a.example/"), LoggedPage(-2, None, "http://b.example/")]
    assert drawn(look(pages=pages), WHOLE, WHOLE)[-2:] == [
        "fetched     -2            http://b.example/",
        "           200    4.3 kB  http://a.example/",
    ]


def test_a_long_name_loses_its_middle_and_a_setting_is_named_once() -> None:
    key, uri = f"com,example,{'long,' * 20}www,", f"https://www.example.com/{'long/' * 20}last.html"
    rest = queue(key, wake_time=at(3), reason="politeness, min_delay_seconds = 3", queued_count=45)
    lines = drawn(look(slowest=[rest], pages=[LoggedPage(200, 77, uri)]))
    (slowest,) = (text for text in lines if text.startswith("slowest"))
    assert slowest.startswith("slowest  com,example,long,") and "…" in slowest
    assert slowest.endswith(",www,  for 3.0 s: politeness; 45 queued") and len(slowest) == 80
    assert lines[-1].endswith("/last.html") and "https://www.example.com/l" in lines[-1]
    assert len(lines[-1]) == 80


def test_what_there_is_nothing_to_say_of_is_left_out() -> None:
    empty = Look("127.0.0.1:7707", Crawl(crawl="c"), RUNNING, Statistics(), "")
    assert labels(empty) == ["crawl", "pages", "rate", "URIs", "queues"]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (60, 30), (40, 40)])
def test_nothing_that_matters_is_cut(width: int, height: int) -> None:
    why = "limited by politeness: min_delay_seconds = 3 on 2 hosts; at this rate about 2 h for 3 433 URIs"
    failure = "no page was fetched: of 4 URIs, 2 name not found, 1 timed out, 1 answered with an error (503)"
    seeds = [
        seed("http://127.0.0.1/", "FAILED", "address refused: 127.0.0.1 is not public"),
        seed("https://news.example.com/", "FAILED", "robots.txt could not be fetched (503)"),
    ]
    nodes = [node("north", -12, "SILENT", FETCHING=8), node("south-of-the-border", -200, "LOST")]
    status = CrawlStatus(state=CrawlState.CRAWL_STATE_FINISHED, failure=failure)
    shown = look(status=status, why=why, seeds=Seeds.of(seeds), nodes=nodes, jobs=[], slowest=[], largest=[])
    text = " ".join(" ".join(line[9:].strip() for line in drawn(shown, width, height)).split())
    for told in (
        why,
        failure,
        "http://127.0.0.1: address refused: 127.0.0.1 is not public",
        "news.example.com: robots.txt could not be fetched (503)",
        "silent for 12 s",
        "lost 3 min ago",
        "1 min 40 s of 2 h 00 min, 3 of 8 toes",
    ):
        assert told in text, told


def test_a_terminal_that_lacks_the_characters_of_a_sparkline_gets_others() -> None:
    shown = look(many=9, largest=[queue("long," * 30, queued_count=1)])
    lines = [text.plain for text in picture(shown, 80, 24, ascii_only=True)]
    assert all(each.isascii() for each in lines)
    assert any(each.endswith("_-#=_-#=") for each in lines)


def test_a_state_is_told_with_all_that_holds_of_it() -> None:
    status = CrawlStatus(
        state=CrawlState.CRAWL_STATE_PAUSED,
        exit_status=ExitStatus.EXIT_STATUS_PAUSED,
        reason="the frontier's disk is nearly full",
        held=True,
    )
    lines = drawn(look(status=status))
    assert lines[0].startswith("crawl    PAUSED, held  practice")
    assert lines[1] == "reason   the frontier's disk is nearly full"


def test_several_nodes_are_also_told_together_and_those_that_are_missed_come_first() -> None:
    nodes = [
        node("north", FETCHING=6, ABOUT_TO_GET_URI=2),
        node("south", FETCHING=3, WRITING=1),
        node("tired", -12, "SILENT", FETCHING=8),
        node("gone", -200, "LOST", FETCHING=8),
        node("home", -7_200, "LEFT", FETCHING=8),
    ]
    nodes[1].pool_size = 4
    lines = [text[9:] for text in drawn(look(nodes=nodes), 80, 40)]
    begin = lines.index("2 of 5 present, 12 toes: 9 fetching, 1 writing, 2 idle; 6 leases")
    assert lines[begin + 1 : begin + 6] == [
        "gone   lost 3 min ago",
        "tired  silent for 12 s",
        "north  8 toes: 6 fetching, 2 idle; 3 leases",
        "south  4 toes: 3 fetching, 1 writing; 3 leases; 4 asked for",
        "home   left 2 h ago",
    ]


def test_of_a_frontier_that_does_not_tell_the_time_of_the_last_call_tells_who_is_lost() -> None:
    nodes = [node("north", -29, "UNSPECIFIED", FETCHING=1), node("south", -31, "UNSPECIFIED", FETCHING=1)]
    text = "\n".join(drawn(look(nodes=nodes), 80, 40))
    assert "1 of 2 present, 1 toe: 1 fetching; 3 leases" in text and "south  lost 1 s ago" in text


def test_a_node_that_drains_says_so_first() -> None:
    draining = node("north", FETCHING=6)
    draining.draining = True
    assert "nodes    north  drains: 6 toes: 6 fetching; 3 leases" in drawn(look(nodes=[draining]))


# Trouble.


def wrong(shown: Look) -> list[str]:
    return [trouble.text for trouble in (*troubles(shown), *absences(shown), *seed_troubles(shown))]


def quiet(**parts: Any) -> Look:
    """A crawl that runs, and has no trouble."""
    status = CrawlStatus(state=CrawlState.CRAWL_STATE_RUNNING, reach_time=at(-60))
    fine: dict[str, Any] = {
        "status": status,
        "statistics": Statistics(snapshot_time=at(0)),
        "nodes": [node("north", FETCHING=1)],
        "seeds": Seeds.of([seed("https://a.example/", "FETCHED", "fetched (200)")]),
    }
    return look(**(fine | parts))


def test_a_crawl_that_goes_well_has_no_trouble() -> None:
    assert wrong(quiet()) == []


def test_a_crawl_without_nodes_has_trouble_as_soon_as_they_had_time_to_begin() -> None:
    told = ["no node is there, so nothing is fetched"]
    assert wrong(quiet(nodes=[])) == told
    assert wrong(quiet(nodes=[node("north", -7_200, "LOST")])) == told
    begun = CrawlStatus(state=CrawlState.CRAWL_STATE_RUNNING, reach_time=at(-NODES_START_S / 2))
    assert wrong(quiet(nodes=[], status=begun)) == []
    assert wrong(quiet(nodes=[], status=PAUSED)) == []
    assert wrong(quiet(nodes=[], away="no frontier answers")) == []


def test_nodes_that_are_missed_or_share_a_name_or_lose_toe_threads_are_trouble() -> None:
    nodes = [node("north", FETCHING=1), node("south", -12, "SILENT"), node("gone", -200, "LOST")]
    nodes += [node("home", -60, "LEFT"), node("old", -NEWS_S - 1, "LOST")]
    nodes[0].rival_session = "another"
    nodes[0].pool.died_count, nodes[0].pool.abandoned_count = 1, 2
    assert wrong(quiet(nodes=nodes)) == [
        "node north: two processes use this name; give each its own",
        "node north: 1 toe thread died",
        "node north: 2 toe threads left behind",
        "node south: silent for 12 s",
        "node gone: lost 3 min ago",
    ]


def test_hooks_and_extractors_that_fail_and_leases_that_lapse_are_trouble() -> None:
    remarks = {"hookFailed": 1, "extractorFailed": 1_200, "truncated": 7}
    statistics = Statistics(snapshot_time=at(0), annotation_counts=remarks, lapsed_count=3)
    assert wrong(quiet(statistics=statistics)) == [
        "the hook failed on 1 page",
        "an extractor failed on 1 200 pages",
        "3 leases lapsed, because nodes fell silent; the URIs are fetched again",
    ]


def test_seeds_that_failed_or_were_answered_with_an_error_are_trouble() -> None:
    seeds = Seeds.of(
        [
            seed("https://a.example/", "FETCHED", "fetched (200)"),
            seed("https://b.example/", "FAILED", "name not found"),
            seed("http://c.example/x", "ERROR", "answered with an error (404)"),
            seed("https://d.example/", "PENDING", "not fetched yet"),
        ]
    )
    assert wrong(quiet(seeds=seeds)) == [
        "seed b.example: name not found",
        "seed http://c.example/x: answered with an error (404)",
    ]
    assert seeds_text(seeds) == "1 of 4 fetched, 1 answered with an error, 1 failed, 1 pending"


def test_trouble_is_told_at_once_and_once_until_it_comes_again(capsys: pytest.CaptureFixture[str]) -> None:
    fine, ill = quiet(problems=[]), quiet(problems=[], nodes=[node("north", -12, "SILENT")])
    with Lines() as display:
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
    with Lines(events=False) as display:
        for each in (look(), waiting, waiting, look()):
            display.show(replace(each, due=False))
    told = [text for text in capsys.readouterr().out.splitlines() if "problem:" not in text]
    assert ["waiting for it to go on in crawl-a.example" in text for text in told] == [True, False]


def test_while_the_frontier_is_away_the_rest_is_dim() -> None:
    lines = picture(look(away="no frontier answers", away_s=12), 80, 24)
    assert lines[1].plain == "away     no answer for 12.0 s: no frontier answers"
    dim = {text.plain[:9].strip(): any(span.style == "dim" for span in text.spans) for text in lines}
    assert [dim[label] for label in ("crawl", "away", "why", "pages", "largest")] == [False] * 3 + [True] * 2


@pytest.mark.parametrize(
    ("event", "wanted"),
    [
        (problem(1), True),
        (told(flights_cancelled=FlightsCancelled(leased_count=3, bound="pause_timeout")), True),
        (told(limit_reached=LimitReached(limit="max_bytes")), True),
        (told(uris_left=UrisLeft(retired_count=1)), True),
        (told(node_left=NodeLeft(node="north", reason="silent")), True),
        (told(node_left=NodeLeft(node="north", reason="left")), False),
        (told(status_changed=RUNNING), False),
        (told(job_ended=JobEnded(job=1)), False),
    ],
)
def test_which_events_are_problems(event: Event, wanted: bool) -> None:
    assert is_problem(event) is wanted


@pytest.mark.parametrize(
    ("state", "tearing_down", "torn_down", "ended"),
    [
        (CrawlState.CRAWL_STATE_STOPPING, False, False, False),
        (CrawlState.CRAWL_STATE_FINISHED, False, False, True),
        (CrawlState.CRAWL_STATE_FINISHED, True, False, False),
        (CrawlState.CRAWL_STATE_FINISHED, True, True, True),
    ],
)
def test_a_crawl_has_ended_with_its_last_event(
    state: CrawlState.ValueType, tearing_down: bool, torn_down: bool, ended: bool
) -> None:
    status = CrawlStatus(state=state, tearing_down=tearing_down, torn_down=torn_down)
    assert look(status=status).ended is ended


# Lines, objects, and a picture for good.


def test_a_line_tells_state_rates_statistics_and_why() -> None:
    assert line(look()) == (
        "RUNNING  1 234 pages  7.5 pages/s  92.1 kB/s  5 678 queued  6 failed  12.3 MB  1 to 3 h left  "
        f"{WHY}  the hook failed on 1 page"
    )
    assert "  no answer for 2.0 s: no frontier answers" in line(look(away="no frontier answers", away_s=2))


def test_a_line_tells_one_reason_and_has_no_plural_for_one() -> None:
    failed = CrawlStatus(
        state=CrawlState.CRAWL_STATE_FINISHED,
        exit_status=ExitStatus.EXIT_STATUS_FINISHED,
        failure="no page was fetched: name not found",
    )
    statistics = Statistics(succeeded_count=1)
    told = line(look(status=failed, statistics=statistics, nodes=[]))
    assert told == (
        "FINISHED  1 page  0.0 pages/s  0 B/s  0 queued  0 failed  0 B  no page was fetched: name not found"
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
    with Lines() as display:
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
    with Lines() as display:
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
    with Lines() as display:
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
