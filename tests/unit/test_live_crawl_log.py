"""The end of a crawl log, as it is shown."""

from pathlib import Path

from toehold_client.watching.crawl_log import LoggedPage, last_pages, last_pages_of

LINE = "2026-01-01T00:00:00.000Z   200       4321 http://a.example/{} L - text/html #001 - - - -\n"


def test_the_last_pages_come_in_their_order(tmp_path: Path) -> None:
    log = tmp_path / "crawl.log"
    log.write_text("".join(LINE.format(n) for n in range(5)))
    assert last_pages(log, 2) == [LoggedPage(200, 4321, f"http://a.example/{n}") for n in (3, 4)]
    assert len(last_pages(log, 12)) == 5
    assert last_pages(log, 0) == []


def test_a_line_that_is_still_being_written_is_left_out(tmp_path: Path) -> None:
    log = tmp_path / "crawl.log"
    log.write_text(LINE.format("whole") + LINE.format("half")[:60])
    assert [page.uri for page in last_pages(log, 5)] == ["http://a.example/whole"]


def test_only_the_end_of_a_long_log_is_read_from_a_whole_line_on(tmp_path: Path) -> None:
    log = tmp_path / "crawl.log"
    log.write_text("".join(LINE.format("x" * 8_000 + str(n)) for n in range(50)))
    pages = last_pages(log, 100)
    assert 0 < len(pages) < 50
    assert all(page.uri.startswith("http://a.example/xxx") for page in pages)


def test_what_is_no_line_of_a_crawl_log_is_left_out_and_a_size_may_be_missing(tmp_path: Path) -> None:
    log = tmp_path / "crawl.log"
    log.write_text("\n\x00\nnonsense\n2026-01-01T00:00:00.000Z -9998 - http://a.example/ L\n")
    assert last_pages(log, 5) == [LoggedPage(-9998, None, "http://a.example/")]


def test_digits_that_are_no_numbers_are_left_out(tmp_path: Path) -> None:
    """Characters that Python counts as digits, and numbers that are too long for it."""
    log = tmp_path / "crawl.log"
    lines = [LINE.replace("  200", status).format("x") for status in ("²", "9" * 5000, "--5")]
    log.write_text("".join(lines) + LINE.replace("4321", "²").format("y"), encoding="utf-8")
    assert last_pages(log, 9) == [LoggedPage(200, None, "http://a.example/y")]


def test_no_log_means_no_pages(tmp_path: Path) -> None:
    assert last_pages(tmp_path / "crawl.log", 5) == []


def test_the_last_pages_of_several_logs_come_in_the_order_of_their_times(tmp_path: Path) -> None:
    logs = [tmp_path / name for name in ("shard-0", "shard-1", "missing")]
    for log, seconds in zip(logs, ((0, 3, 4), (1, 2)), strict=False):
        log.write_text("".join(LINE.replace("00.000Z", f"0{n}.000Z").format(n) for n in seconds))
    assert [page.uri[-1] for page in last_pages_of(logs, 9)] == ["0", "1", "2", "3", "4"]
    assert [page.uri[-1] for page in last_pages_of(logs, 2)] == ["3", "4"]
    assert last_pages_of(logs, 0) == []
