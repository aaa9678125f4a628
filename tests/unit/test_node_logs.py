"""The node's own logs, in real files."""

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from node_doubles.leases import lease
from node_doubles.stages import page
from structlog.testing import capture_logs

from crawler_node.fetching.outcome import Truncation
from crawler_node.output.logs import OLD_LOGS, RUNTIME_ERRORS, URI_ERRORS, NodeLogs
from crawler_node.output.open_file import OutputError
from crawler_node.output.visit import PageVisit


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[NodeLogs]:
    kept = NodeLogs(tmp_path)
    yield kept
    kept.close()


def visited(logs: NodeLogs, uri: str, status: int, **more: object) -> None:
    logs.visited(PageVisit(lease(uri), page(uri, status, b"", **more)))


def raised(error: Exception) -> Exception:
    try:
        raise error
    except Exception as caught:
        return caught


def test_a_fetch_that_did_not_end_well_has_a_line(logs: NodeLogs, tmp_path: Path) -> None:
    visited(logs, "http://h/lost", -2, annotations=("ConnectFailed:refused",))
    visited(logs, "http://h/cut", 200, truncation=Truncation.DISCONNECT, annotations=("a", "b"))
    visited(logs, "http://h/late", 200, truncation=Truncation.TIME)
    visited(logs, "http://h/\nodd", -7)
    lines = [line.split(" ") for line in (tmp_path / URI_ERRORS).read_text().splitlines()]
    assert [line[1:] for line in lines] == [
        ["-2", "http://h/lost", "ConnectFailed:refused"],
        ["200", "http://h/cut", "disconnect,a,b"],
        ["200", "http://h/late", "time"],
        ["-7", "http://h/odd", "-"],
    ]
    assert all(line[0].endswith("Z") and len(line[0]) == 24 for line in lines)


def test_a_fetch_that_ended_well_has_none(logs: NodeLogs, tmp_path: Path) -> None:
    for status in (200, 304, 404, 503):
        visited(logs, "http://h/", status)
    visited(logs, "http://h/long", 200, truncation=Truncation.LENGTH)
    assert (tmp_path / URI_ERRORS).read_text() == ""


def test_an_error_of_the_programs_has_its_trace(logs: NodeLogs, tmp_path: Path) -> None:
    thread = threading.Thread(
        name="toe-7", target=lambda: logs.runtime_error("http://h/", raised(KeyError("a\nb")))
    )
    thread.start()
    thread.join()
    first, *trace = (tmp_path / RUNTIME_ERRORS).read_text().splitlines()
    assert first.split(" ")[1:] == ["toe-7", "http://h/"]
    assert trace[0] == "    Traceback (most recent call last):" and trace[-1].startswith("    KeyError: ")
    assert all(line.startswith("    ") for line in trace)


def test_a_fetch_that_a_defect_ended_is_in_both(logs: NodeLogs, tmp_path: Path) -> None:
    visited(logs, "http://h/", -5, error=raised(ValueError("defect")))
    assert " -5 http://h/ " in (tmp_path / URI_ERRORS).read_text()
    assert "ValueError: defect" in (tmp_path / RUNTIME_ERRORS).read_text()


def test_logs_roll_and_few_old_ones_are_kept(tmp_path: Path) -> None:
    logs = NodeLogs(tmp_path, max_bytes=1000)
    for n in range(200):
        visited(logs, f"http://h/{n}", -2)
    logs.close()
    sizes = [path.stat().st_size for path in tmp_path.glob("uri-errors.log*")]
    assert len(sizes) == OLD_LOGS + 1 and max(sizes) <= 1000
    assert "http://h/199" in (tmp_path / URI_ERRORS).read_text()


def test_processes_that_share_logs_roll_them_together(tmp_path: Path) -> None:
    both = NodeLogs(tmp_path, max_bytes=1000), NodeLogs(tmp_path, max_bytes=1000)
    for n in range(100):
        visited(both[n % 2], f"http://h/{n:03}", -2)
    for logs in both:
        logs.close()
    paths = sorted(tmp_path.glob("uri-errors.log*"))
    assert len(paths) == OLD_LOGS + 1 and all(path.stat().st_size <= 1000 for path in paths)
    lines = [line for path in reversed(paths[1:]) for line in path.read_text().splitlines()]
    lines += paths[0].read_text().splitlines()
    assert [line.split(" ")[2] for line in lines] == [
        f"http://h/{n:03}" for n in range(100 - len(lines), 100)
    ]


def test_what_is_there_is_added_to(tmp_path: Path) -> None:
    for n in range(2):
        logs = NodeLogs(tmp_path)
        visited(logs, f"http://h/{n}", -2)
        logs.close()
    assert len((tmp_path / URI_ERRORS).read_text().splitlines()) == 2


def test_threads_write_whole_lines(logs: NodeLogs, tmp_path: Path) -> None:
    def work(thread: int) -> None:
        for n in range(100):
            visited(logs, f"http://h/{thread}/{n}", -2)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = (tmp_path / URI_ERRORS).read_text().splitlines()
    assert {line.split(" ")[2] for line in lines} == {
        f"http://h/{t}/{n}" for t in range(8) for n in range(100)
    }


def test_a_log_that_cannot_be_rolled_is_told_of_once_and_breaks_nothing(tmp_path: Path) -> None:
    logs = NodeLogs(tmp_path, max_bytes=100)
    (tmp_path / f"{URI_ERRORS}.{OLD_LOGS - 1}").write_text("an old log")
    in_the_way = tmp_path / f"{URI_ERRORS}.{OLD_LOGS}"
    in_the_way.mkdir()
    with capture_logs() as said:
        for n in range(10):
            visited(logs, f"http://h/{n}", -2)
    assert [(entry["event"], entry["file"]) for entry in said] == [("log_failed", str(tmp_path / URI_ERRORS))]
    in_the_way.rmdir()
    visited(logs, "http://h/last", -2)
    logs.close()
    assert "http://h/last" in (tmp_path / URI_ERRORS).read_text()


def test_on_a_full_disk_lines_are_left_out_and_the_next_ones_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = NodeLogs(tmp_path)
    visited(logs, "http://h/1", -2)
    write, full = os.write, True

    def half(descriptor: int, data: bytes) -> int:
        if not full:
            return write(descriptor, data)
        if len(data) < 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data[: len(data) // 2])

    monkeypatch.setattr(os, "write", half)
    with capture_logs() as said:
        visited(logs, "http://h/2", -2)
        visited(logs, "http://h/3", -2)
    full = False
    visited(logs, "http://h/4", -2)
    assert len(said) == 1 and "No space left" in said[0]["error"]
    first, *_, last = (tmp_path / URI_ERRORS).read_text().splitlines()
    assert (first.split(" ")[1:], last.split(" ")[1:]) == (
        ["-2", "http://h/1", "-"],
        ["-2", "http://h/4", "-"],
    )
    logs.close()


def test_what_comes_after_the_end_is_left_out(logs: NodeLogs, tmp_path: Path) -> None:
    logs.close()
    with capture_logs() as said:
        visited(logs, "http://h/", -2)
    assert (tmp_path / URI_ERRORS).read_text() == "" and said == []


def test_without_a_directory_errors_are_told_of_all_the_same() -> None:
    with capture_logs() as said:
        NodeLogs().runtime_error("http://h/", ValueError("x"))
        NodeLogs().visited(PageVisit(lease("http://h/"), page("http://h/", -2)))
    assert [(entry["event"], entry["error"]) for entry in said] == [("page_failed", "ValueError: x")]


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=str(tmp_path / "file")):
        NodeLogs(tmp_path / "file" / "logs")
