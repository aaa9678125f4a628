"""job.log: what its lines say; and that each event is in it once, whatever becomes of file or server."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from frontier_server.core.rows.records import EventRow
from frontier_server.logs import job_log
from frontier_server.logs.job_log import JobLogs, launch_id_of, line
from toehold.frontier.v1.crawl_pb2 import Event

MOMENT_MS = 1_700_000_000_123  # 2023-11-14T22:13:20.123Z
LAUNCH_ID = "20231114221320123"

Row = tuple[int, EventRow]


def event(what: str, *, time_ms: int = MOMENT_MS, **fields: str | int) -> EventRow:
    return EventRow(time_ms, what, fields)


def state(name: str, *, time_ms: int = MOMENT_MS) -> EventRow:
    return event("status_changed", time_ms=time_ms, state=name, exit_status="RUNNING", reason="")


def said(row: EventRow, launch_id: str = "") -> str:
    """A line without its beginning."""
    text = line(7, row, launch_id).decode()
    assert text.startswith("2023-11-14T22:13:20.123Z 7 ") and text.endswith("\n")
    return text[len("2023-11-14T22:13:20.123Z 7 ") : -1]


LINES = [
    (event("seeds_concluded", seed_count=3, queued_count=2), "SEEDS_CONCLUDED 3 queued:2"),
    (
        event("limit_reached", limit="max_documents", value=100, reached=101, leased_count=4),
        "LIMIT_REACHED max_documents 100 reached:101 leased:4",
    ),
    (event("round_begun", round=2), "ROUND_BEGUN 2"),
    (event("uris_left", retired_count=5, ineligible_count=6), "URIS_LEFT retired:5 ineligible:6"),
    (event("job_ended", job=9, kind="import", outcome="DONE"), "JOB_ENDED 9 import DONE"),
    (event("node_joined", node="n1", session="abc"), "NODE_JOINED n1 session:abc"),
    (event("node_left", node="n1", session="abc", reason="silent"), "NODE_LEFT n1 silent session:abc"),
    (
        event("operator_acted", operator="alice@host", action="pause", detail=""),
        "OPERATOR alice@host pause",
    ),
    (
        event("operator_acted", operator="Al Ice", action="update", detail="max_toes, limits"),
        "OPERATOR Al_Ice update max_toes, limits",
    ),
    (event("problem", kind="disk-reserve", detail="12 MB left"), "PROBLEM disk-reserve 12 MB left"),
    (event("held"), "HELD"),
    (event("released"), "RELEASED"),
    (event("flights_cancelled", leased_count=3, bound="stop_timeout"), "FLIGHTS_CANCELLED 3 stop_timeout"),
]


@pytest.mark.parametrize(("row", "text"), LINES, ids=[row.kind for row, _ in LINES])
def test_a_line_has_a_word_for_what_happened_and_words_that_tell_more(row: EventRow, text: str) -> None:
    assert said(row, LAUNCH_ID) == text


def test_a_state_is_told_by_its_name_with_the_launch_id_if_there_is_one() -> None:
    """S0.6: before a launch there is none."""
    assert said(state("NASCENT")) == "NASCENT"
    assert said(state("FINISHED")) == "FINISHED", "stopped before it was launched"
    assert said(state("RUNNING"), LAUNCH_ID) == f"RUNNING {LAUNCH_ID}"


def test_what_came_before_the_launch_has_no_launch_id_though_it_is_written_after_it() -> None:
    """S0.6"""
    assert said(state("NASCENT"), LAUNCH_ID) == "NASCENT"
    assert said(state("FINISHED"), launch_id_of(MOMENT_MS + 1)) == "FINISHED"
    assert said(state("PREPARING"), launch_id_of(MOMENT_MS)) == f"PREPARING {LAUNCH_ID}"


def test_a_launch_id_is_the_launch_time_in_17_digits() -> None:
    assert launch_id_of(MOMENT_MS) == LAUNCH_ID
    assert launch_id_of(0) == ""


def test_a_checkpoint_is_told_by_its_name() -> None:
    """S0.8: as ever, by the name that it was given."""
    assert said(event("checkpointed", checkpoint="cp00001-20260101")) == "CHECKPOINTED cp00001-20260101"


def test_a_teardown_is_told_as_ever() -> None:
    """S0.29"""
    assert said(event("torn_down"), LAUNCH_ID) == "Job instance discarded"


def test_statistics_have_no_line() -> None:
    assert line(7, event("statistics", interval_ms=20_000, succeeded_count=5), LAUNCH_ID) == b""


def test_every_event_of_the_contract_has_its_line() -> None:
    kinds = {field.name for field in Event.DESCRIPTOR.oneofs_by_name["kind"].fields}
    shown = {row.kind for row, _ in LINES} | {"status_changed", "checkpointed", "torn_down", "statistics"}
    assert shown == kinds


def test_a_field_that_an_older_server_did_not_store_is_a_dash() -> None:
    assert said(event("node_left", node="n1")) == "NODE_LEFT n1 - session:-"


@given(st.text(), st.text())
@example("a b", "a\nb")
@example("", "\r\n2023-11-14T22:13:20.123Z 9 FINISHED")
@example("a\x00\x1b[2Jb", "\x0b\x0c\x1c\x1d\x1e\x85\N{LINE SEPARATOR}\N{RIGHT-TO-LEFT OVERRIDE}")
@example("\ud800", "\N{NO-BREAK SPACE}")
def test_no_text_makes_another_line_or_another_word_of_it(operator: str, detail: str) -> None:
    text = said(event("operator_acted", operator=operator, action="pause", detail=detail))
    assert text.isprintable()
    assert len(text.splitlines()) == 1
    assert text.split(" ")[0::2][:2] == ["OPERATOR", "pause"]


# The file.


@pytest.fixture
def logs(tmp_path: Path) -> JobLogs:
    return JobLogs(tmp_path)


def life(count: int) -> list[Row]:
    """The events of a crawl, from its first one on; every third is `Figures`."""
    rows = [state("NASCENT")]
    for number in range(2, count + 1):
        time_ms = MOMENT_MS + 1000 * number
        statistics = event("statistics", time_ms=time_ms, interval_ms=1000)
        joined = event("node_joined", time_ms=time_ms, node=f"n{number}", session="s")
        rows.append(statistics if number % 3 == 0 else joined)
    return list(enumerate(rows, 1))


def feed(logs: JobLogs, rows: list[Row], crawl: str = "c") -> None:
    """From where the log stands, as after a start."""
    position = logs.position(crawl)
    logs.append(crawl, LAUNCH_ID, [row for row in rows if row[0] > position])


def whole(rows: list[Row]) -> bytes:
    return b"".join(line(sequence, row, LAUNCH_ID) for sequence, row in rows)


def numbers(logs: JobLogs, crawl: str = "c") -> list[int]:
    """Which events have lines."""
    return [int(one.split()[1]) for one in logs.path(crawl).read_text().splitlines()]


def test_events_are_appended_in_their_order(logs: JobLogs, tmp_path: Path) -> None:
    rows = life(5)
    assert logs.position("c") == 0
    logs.append("c", LAUNCH_ID, rows[:2])
    logs.append("c", LAUNCH_ID, rows[2:])
    assert logs.position("c") == 5
    assert (tmp_path / "crawls" / "c" / "job.log").read_bytes() == whole(rows)
    assert numbers(logs) == [1, 2, 4, 5]


def test_events_that_it_has_are_skipped(logs: JobLogs) -> None:
    rows = life(5)
    logs.append("c", LAUNCH_ID, rows[:3])
    logs.append("c", LAUNCH_ID, rows)
    logs.append("c", LAUNCH_ID, rows[1:4])
    logs.append("c", LAUNCH_ID, [])
    assert logs.path("c").read_bytes() == whole(rows)


def test_crawls_have_logs_of_their_own(logs: JobLogs) -> None:
    logs.append("c", LAUNCH_ID, life(2))
    logs.append("d", "", life(1))
    assert (logs.position("c"), logs.position("d")) == (2, 1)
    assert numbers(logs, "d") == [1]


def test_a_log_cut_anywhere_goes_on_without_gap_or_repeat(tmp_path: Path) -> None:
    """Whatever a crash left of it."""
    rows = life(6)
    text = whole(rows)
    path = JobLogs(tmp_path).path("c")
    path.parent.mkdir(parents=True)
    for size in range(len(text) + 1):
        path.write_bytes(text[:size])
        logs = JobLogs(tmp_path)
        feed(logs, rows)
        assert path.read_bytes() == text, size
        assert logs.position("c") == 6


def test_what_follows_the_last_whole_line_is_cut_off(tmp_path: Path) -> None:
    rows = life(4)
    path = JobLogs(tmp_path).path("c")
    path.parent.mkdir(parents=True)
    path.write_bytes(whole(rows[:2]) + b"\x00" * 100 + b"\nnonsense\n")
    feed(JobLogs(tmp_path), rows)
    assert path.read_bytes() == whole(rows)


def test_a_line_whose_number_is_longer_than_any_is_none(tmp_path: Path) -> None:
    line = b"2026-01-01T00:00:00.000Z %s statistics\n"
    assert job_log.number_of(line % b"7") == 7
    assert job_log.number_of(line % (b"9" * 5000)) == 0


def test_the_last_line_is_found_however_long_it_is(tmp_path: Path) -> None:
    forged = "2023-11-14T22:13:20.123Z 99 FINISHED"
    rows = [
        (number, event("operator_acted", operator=forged, action="update", detail=forged * 10**number))
        for number in range(1, 4)
    ]
    logs = JobLogs(tmp_path)
    logs.append("c", "", rows)
    assert JobLogs(tmp_path).position("c") == 3
    logs.path("c").write_bytes(logs.path("c").read_bytes()[:-1])
    assert JobLogs(tmp_path).position("c") == 2


def test_events_that_are_no_longer_kept_are_told_by_their_number(logs: JobLogs) -> None:
    rows = life(20)
    logs.append("c", LAUNCH_ID, rows[:2])
    logs.append("c", LAUNCH_ID, rows[9:])
    text = logs.path("c").read_text().splitlines()
    assert text[2] == "2023-11-14T22:13:30.123Z 9 MISSING 7"
    assert numbers(logs) == [1, 2, 9, 10, 11, 13, 14, 16, 17, 19, 20]
    assert JobLogs(logs.path("c").parents[2]).position("c") == 20


def test_statistics_that_follow_each_other_for_long_leave_a_line_so_that_none_seem_to_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_log, "STATISTICS_PER_LINE", 3)
    rows = life(1) + [(number, event("statistics", interval_ms=1)) for number in range(2, 12)]
    logs = JobLogs(tmp_path)
    for row in rows:
        logs.append("c", LAUNCH_ID, [row])
    assert numbers(logs) == [1, 4, 7, 10]
    assert [one.split()[2] for one in logs.path("c").read_text().splitlines()[1:]] == ["STATISTICS"] * 3
    assert logs.position("c") == 11
    restarted = JobLogs(tmp_path)
    feed(restarted, [row for row in rows if row[0] > 8])  # the others are not kept
    restarted.append("c", LAUNCH_ID, [(12, event("held"))])
    assert numbers(restarted)[3:] == [10, 12]


def test_a_log_that_cannot_be_written_is_told_of_once_and_catches_up(
    logs: JobLogs, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = life(8)
    logs.append("c", LAUNCH_ID, rows[:2])
    path = logs.path("c")
    aside = path.rename(path.with_name("aside"))
    path.mkdir()
    for row in rows[2:5]:
        logs.append("c", LAUNCH_ID, [row])
    logs.append("d", "", life(1))
    assert logs.behind() == {"c": 5} and logs.position("d") == 1
    path.rmdir()
    aside.rename(path)
    logs.append("c", LAUNCH_ID, rows[5:6])
    assert path.read_bytes() == whole(rows[:2]), "what it lacks comes first"
    assert logs.behind() == {"c": 6} and logs.position("c") == 2
    logs.append("c", LAUNCH_ID, rows[2:4])
    assert logs.behind() == {"c": 6}, "there is more"
    feed(logs, rows)
    assert path.read_bytes() == whole(rows)
    assert logs.behind() == {}
    told = capsys.readouterr().out
    assert told.count("events wait in the store") == 1 and told.count("caught_up_to") == 1


def test_a_log_that_cannot_be_read_is_fed_again(logs: JobLogs) -> None:
    rows = life(4)
    path = logs.path("c")
    path.mkdir(parents=True)
    assert logs.position("c") == 0
    assert logs.behind() == {"c": 0}
    path.rmdir()
    feed(logs, rows)
    assert logs.behind() == {} and path.read_bytes() == whole(rows)


def test_events_that_were_dropped_while_the_log_was_behind_are_missing(logs: JobLogs) -> None:
    rows = life(8)
    logs.path("c").mkdir(parents=True)
    logs.append("c", LAUNCH_ID, rows)
    logs.path("c").rmdir()
    logs.append("c", LAUNCH_ID, rows[4:])
    assert numbers(logs) == [4, 5, 7, 8]
    assert logs.behind() == {}


@contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_line_of_which_only_a_part_could_be_written_is_written_again(
    logs: JobLogs, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = life(8)
    logs.append("c", LAUNCH_ID, rows[:2])
    size = len(whole(rows[:4])) + 5
    with no_file_longer_than(size):
        logs.append("c", LAUNCH_ID, rows[2:])
    assert logs.behind() == {"c": 8}
    assert logs.path("c").read_bytes() == whole(rows)[:size]
    assert logs.position("c") == 4
    feed(logs, rows)
    assert logs.behind() == {} and logs.path("c").read_bytes() == whole(rows)
    assert f"of {len(whole(rows[2:]))} bytes written" in capsys.readouterr().out


def test_the_last_line_is_that_of_the_teardown_and_then_nothing_is_held_of_the_log(logs: JobLogs) -> None:
    """S0.29"""
    rows = [*life(3), (4, event("torn_down"))]
    logs.append("c", LAUNCH_ID, rows)
    assert logs._places == {}
    assert logs.path("c").read_text().splitlines()[-1].endswith(" 4 Job instance discarded")
    logs.append("c", LAUNCH_ID, rows)
    assert logs.path("c").read_bytes() == whole(rows) and logs.position("c") == 4


def test_a_closed_log_goes_on_if_need_be(logs: JobLogs) -> None:
    rows = life(5)
    logs.append("c", LAUNCH_ID, rows[:4])
    logs.close("c")
    logs.close("never heard of")
    feed(logs, rows)
    assert logs.path("c").read_bytes() == whole(rows)


def test_the_log_of_a_deleted_crawl_goes_with_it(logs: JobLogs) -> None:
    logs.append("c", LAUNCH_ID, life(3))
    logs.forget("c")
    assert not logs.path("c").parent.exists()
    assert logs.position("c") == 0
    logs.forget("never heard of")


def test_what_else_is_in_its_directory_stays(logs: JobLogs) -> None:
    logs.append("c", LAUNCH_ID, life(3))
    other = logs.path("c").with_name("crawl.log")
    other.write_text("a line\n")
    logs.forget("c")
    assert list(other.parent.iterdir()) == [other]


def test_a_log_that_cannot_be_removed_is_told_of(logs: JobLogs, capsys: pytest.CaptureFixture[str]) -> None:
    logs.path("c").mkdir(parents=True)
    logs.forget("c")
    assert "the log was not removed" in capsys.readouterr().out


def test_a_new_crawl_does_not_go_on_with_the_log_of_a_deleted_one(tmp_path: Path) -> None:
    """When the frontier was killed between the deletion and the removal of the log."""
    JobLogs(tmp_path).append("c", LAUNCH_ID, life(9))
    rows = [(1, state("NASCENT", time_ms=MOMENT_MS + 1)), (2, event("held"))]
    logs = JobLogs(tmp_path)
    assert logs.position("c") == 8
    logs.append("c", "", rows[:1])
    logs.append("c", "", rows[1:])
    assert logs.path("c").read_bytes() == line(*rows[0], "") + line(*rows[1], "")


def test_lines_of_events_that_the_store_has_lost_are_cut_off(tmp_path: Path) -> None:
    """A store that is not synced loses its end when the machine does; the log may have been luckier."""
    rows = life(9)
    JobLogs(tmp_path).append("c", LAUNCH_ID, rows)
    logs = JobLogs(tmp_path)
    assert logs.position("c", last=9) == 8, "the last line's; `IntervalStatistics` have none"
    assert logs.position("c", last=6) == 5
    others = [(number, event("held")) for number in (6, 7)]
    logs.append("c", LAUNCH_ID, others)
    assert logs.path("c").read_bytes() == whole(rows[:5] + others)


# What a power cut leaves of it.


def test_a_hole_behind_what_is_synced_is_filled_from_the_store(tmp_path: Path) -> None:
    """After a power cut lines may be whole behind others that are not."""
    rows = life(200)
    logs = JobLogs(tmp_path)
    logs.append("c", LAUNCH_ID, rows[:20])
    synced = logs.sync()
    assert synced == {"c": (20, len(whole(rows[:20])))} and logs.sync() == {}
    logs.append("c", LAUNCH_ID, rows[20:])
    text, size = whole(rows), synced["c"].size
    for begin in (size, size + 40, size + 1000):
        for length in (1, 50, 4096):
            logs.path("c").write_bytes(text[:begin] + bytes(length) + text[begin + length :])
            cut = JobLogs(tmp_path)
            position = cut.position("c", 200, synced["c"])
            cut.append("c", LAUNCH_ID, rows[position:])
            assert logs.path("c").read_bytes() == text, (begin, length)


def test_what_is_synced_is_not_read_again(tmp_path: Path) -> None:
    rows = life(5)
    logs = JobLogs(tmp_path)
    logs.append("c", LAUNCH_ID, rows)
    synced = logs.sync()["c"]
    other = b"x" * (synced.size - 1) + b"\n"
    logs.path("c").write_bytes(other)
    restarted = JobLogs(tmp_path)
    assert restarted.position("c", 5, synced) == 5
    assert restarted.sync() == {} and logs.path("c").read_bytes() == other


def test_a_log_whose_sync_fails_is_written_again_from_what_is_synced(
    logs: JobLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the system could not write it forgets, and the next sync succeeds."""
    rows = life(9)
    logs.append("c", LAUNCH_ID, rows[:4])
    size = logs.sync()["c"].size
    logs.append("c", LAUNCH_ID, rows[4:])

    def failing(descriptor: int) -> None:
        lost = whole(rows)[:size] + bytes(len(whole(rows)) - size)
        logs.path("c").write_bytes(lost)
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing)
        assert logs.sync() == {}
    assert logs.behind() == {"c": 9} and logs.path("c").read_bytes() == whole(rows[:4])
    assert logs.sync() == {}
    feed(logs, rows)
    assert logs.behind() == {} and logs.path("c").read_bytes() == whole(rows)
    assert logs.sync() == {"c": (9, len(whole(rows)))}


def test_a_new_logs_name_is_durable_with_its_lines(
    logs: JobLogs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def noting(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    logs.append("c", LAUNCH_ID, life(2))
    logs.sync()
    path = logs.path("c")
    assert synced == [str(each) for each in (path, path.parent, path.parent.parent, tmp_path)]
    logs.append("c", LAUNCH_ID, life(4))
    logs.sync()
    assert synced[4:] == [str(path)]


def test_a_new_file_that_follows_one_that_was_moved_away_is_read_from_its_start(tmp_path: Path) -> None:
    rows = life(40)
    logs = JobLogs(tmp_path)
    logs.append("c", LAUNCH_ID, rows[:4])
    synced = logs.sync()["c"]
    logs.path("c").rename(logs.path("c").with_name("job.log.1"))
    logs.append("c", LAUNCH_ID, rows[4:])
    text = whole(rows[4:])
    for size in (synced.size - 1, synced.size, synced.size + 1, len(text)):
        logs.path("c").write_bytes(text[:size])
        feed_from = JobLogs(tmp_path)
        position = feed_from.position("c", 40, synced)
        feed_from.append("c", LAUNCH_ID, rows[position:])
        assert logs.path("c").read_bytes().endswith(whole(rows[position:]))
        assert logs.path("c").read_bytes() in (text, whole(rows))


def test_a_log_that_is_moved_away_is_followed_by_a_new_one(logs: JobLogs) -> None:
    rows = life(5)
    logs.append("c", LAUNCH_ID, rows[:3])
    logs.path("c").rename(logs.path("c").with_name("job.log.1"))
    logs.append("c", LAUNCH_ID, rows[3:])
    assert logs.path("c").read_bytes() == whole(rows[3:])
