"""A crawl shown live: a picture that fits every screen, with the most important first."""

import pytest
from client_doubles.looks import (
    AWKWARD,
    RUNNING,
    WHY,
    at,
    drawn,
    look,
    node,
    queue,
    seed,
)
from rich.cells import cell_len

from toehold.frontier.v1 import admin_pb2, crawl_pb2
from toehold_cli.live.layout import WHOLE, picture, share
from toehold_client.watching.crawl_log import LoggedPage
from toehold_client.watching.look import Look
from toehold_client.watching.seeds import Seeds

SIZES = [(80, 24), (120, 40), (40, 10), (20, 4), (1, 1)]


def labels(shown: Look, width: int = 80, height: int = 24) -> list[str]:
    """The words that lines begin with; those that continue what is above have none."""
    return [text[:9].strip() for text in drawn(shown, width, height) if text[:9].strip()]


@pytest.mark.sampled("text", AWKWARD.values())
@pytest.mark.sampled("many", [0, 1, 3, 100])
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_picture_fits_whatever_is_in_it(width: int, height: int, many: int, text: str) -> None:
    status = crawl_pb2.CrawlStatus(
        state=crawl_pb2.CrawlState.CRAWL_STATE_PAUSED, reason=f"problem {text}", held=True
    )
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
        more = [each.split()[1:] for each in section if "   and " in each]
        seen = [sum(word in each for each in section) for word in ("free", ".example: no", "  8 toes:")]
        seen[0] += 1  # trouble that is there now
        assert more == [[str(of - one), "more"] for of, one in zip((101, 100, 100), seen, strict=True)]


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
        "problems the hook or callback failed on 1 page",
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
    empty = Look("127.0.0.1:7707", admin_pb2.Crawl(crawl="c"), RUNNING, crawl_pb2.Statistics(), "")
    assert labels(empty) == ["crawl", "pages", "rate", "URIs", "queues"]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (60, 30), (40, 40)])
def test_nothing_that_matters_is_cut(width: int, height: int) -> None:
    why = "Limited by politeness: 2 hosts wait 3 s, one waits its Crawl-delay of 5 s. About 2 h for 3433 URLs"
    failure = "no page was fetched: of 4 URIs, 2 name not found, 1 timed out, 1 answered with an error (503)"
    seeds = [
        seed("http://127.0.0.1/", "FAILED", "address refused: 127.0.0.1 is not public"),
        seed("https://news.example.com/", "FAILED", "robots.txt could not be fetched (503)"),
    ]
    nodes = [node("north", -12, "SILENT", FETCHING=8), node("south-of-the-border", -200, "LOST")]
    status = crawl_pb2.CrawlStatus(state=crawl_pb2.CrawlState.CRAWL_STATE_FINISHED, failure=failure)
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
    status = crawl_pb2.CrawlStatus(
        state=crawl_pb2.CrawlState.CRAWL_STATE_PAUSED,
        exit_status=crawl_pb2.ExitStatus.EXIT_STATUS_PAUSED,
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
    assert "nodes    north  drains: 6 toes: all fetching; 3 leases" in drawn(look(nodes=[draining]))


def test_while_the_frontier_is_away_the_rest_is_dim() -> None:
    lines = picture(look(away="no frontier answers", away_s=12), 80, 24)
    assert lines[1].plain == "away     no answer for 12.0 s: no frontier answers"
    dim = {text.plain[:9].strip(): any(span.style == "dim" for span in text.spans) for text in lines}
    assert [dim[label] for label in ("crawl", "away", "why", "pages", "largest")] == [False] * 3 + [True] * 2
