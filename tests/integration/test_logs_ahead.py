"""A log that tells of what its store does not know is evidence of a loss: it is kept, and crawls pause."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from frontier_harness.calls import HOLD, RUN, Stubs, named, report, seed_of
from frontier_harness.in_process import config, opened
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import eventually

from frontier_server.core.machines.lifecycle import CrawlState
from frontier_server.logs.cut_logs import LogAhead, first_unknown
from frontier_server.logs.log_check import CannotKeep, check_logs
from frontier_server.stores.rocks import RocksStore
from toehold.frontier.v1 import crawl_pb2

A = "http://a.example/"
PAUSED, RUNNING = crawl_pb2.CRAWL_STATE_PAUSED, crawl_pb2.CRAWL_STATE_RUNNING
PAGES = 12


def log_of(server: ServerProcess, name: str = "crawl.log", crawl: str = "t") -> Path:
    return server.data / "crawls" / crawl / name


def kept(server: ServerProcess, name: str = "crawl.log", crawl: str = "t") -> list[Path]:
    return sorted(log_of(server, name, crawl).parent.glob(f"{name}.cut-*"))


def fetch(stubs: Stubs, count: int) -> None:
    """So many pages of crawl `t`."""
    for _ in range(count):
        (lease,) = stubs.pages("t", 1)
        assert stubs.finish(report(lease)) == [("SUCCEEDED", False)]


def logged(server: ServerProcess) -> list[str]:
    """The URIs of whole lines."""
    path = log_of(server)
    text = path.read_text() if path.is_file() else ""
    return [line.split()[3] for line in text[: text.rfind("\n") + 1].splitlines()]  # one may be under way


def uris(count: int) -> list[str]:
    """The lines of a log when so many pages were fetched."""
    return [f"{A}robots.txt", A, *(f"{A}{number}" for number in range(count - 1))]


def begun(server: ServerProcess, fetched: int) -> None:
    """Crawl `t` has so many pages fetched and logged; another runs beside it."""
    server.stubs.launch("t", A)
    server.stubs.schedule("t", *(f"{A}{number}" for number in range(PAGES)))
    server.stubs.launch("other", seed_of("other"))
    fetch(server.stubs, fetched)
    eventually(lambda: len(logged(server)) == fetched + 1, "lines in the log")


def has(server: ServerProcess, lines: int) -> bool:
    return len(logged(server)) == lines


def older_store(data: Path) -> None:
    """The store as it was at a stop, while logs went on after that."""
    with ServerProcess(data) as server:
        begun(server, 2)
        server.stop()
    shutil.copytree(data / "store", data / "copy")
    with ServerProcess(data) as server:
        fetch(server.stubs, 5)
        eventually(lambda: logged(server) == uris(7), "lines in the log")
        server.kill()
    shutil.rmtree(data / "store")
    (data / "copy").rename(data / "store")


def damaged_wal(data: Path) -> None:
    """A byte of RocksDB's own log is flipped after what two pages have written."""
    with ServerProcess(data) as server:
        begun(server, 2)
        (wal,) = (data / "store").glob("*.log")
        place = wal.stat().st_size
        fetch(server.stubs, 5)
        eventually(lambda: logged(server) == uris(7), "lines in the log")
        server.kill()
    content = bytearray(wal.read_bytes())
    content[place + 20] ^= 0xFF
    wal.write_bytes(content)


@pytest.mark.parametrize("loss", [older_store, damaged_wal])
def test_lines_that_the_store_does_not_know_are_kept_and_all_crawls_pause_until_an_operator_resumes(
    tmp_path: Path, loss: Callable[[Path], None]
) -> None:
    data = tmp_path / "data"
    loss(data)
    whole = (data / "crawls" / "t" / "crawl.log").read_bytes()
    with ServerProcess(data) as server:
        stubs = server.stubs
        (aside,) = kept(server)
        # What the store does not note as logged is cut at the start, and written again.
        eventually(lambda: log_of(server).read_bytes() + aside.read_bytes() == whole, "every line")
        lines = len(aside.read_text().splitlines())
        assert logged(server) == uris(7)[: 8 - lines] and lines >= 4
        assert '"level": "error"' in server.errors.read_text()
        for crawl in ("t", "other"):
            stubs.until(crawl, PAUSED)
            status = stubs.describe(crawl).status
            said = f"the log is newer than the store (expected after a restore): {lines} outcomes, kept in "
            assert said + aside.name in status.reason, status
            (problem,) = [e.problem for e in stubs.events_so_far(crawl) if e.HasField("problem")]
            assert (problem.kind, problem.detail) == ("log-ahead", status.reason)
            explained = stubs.ask("Explain", crawl).reasons
            assert any(status.reason in reason.message for reason in explained)
        stubs.request("t", RUN)
        stubs.until("t", RUNNING)
        fetch(stubs, PAGES + 1 - (7 - lines))
        eventually(lambda: sorted(logged(server)) == sorted(uris(PAGES + 1)), "every line")
        server.kill()
    with ServerProcess(data) as server:  # once only
        assert kept(server) == [aside]
        assert server.stubs.describe("t").status.state != PAUSED
        assert server.stubs.describe("other").status.state == PAUSED


def test_events_that_the_store_does_not_know_are_kept_too(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ServerProcess(data) as server:
        server.stubs.launch("t", A)
        server.stop()
    shutil.copytree(data / "store", data / "copy")
    before = (data / "crawls" / "t" / "job.log").read_bytes()
    with ServerProcess(data) as server:
        server.stubs.request("t", HOLD)
        eventually(lambda: server.stubs.describe("t").status.held)
        server.kill()
    shutil.rmtree(data / "store")
    (data / "copy").rename(data / "store")
    whole = (data / "crawls" / "t" / "job.log").read_bytes()
    with ServerProcess(data) as server:
        (aside,) = kept(server, "job.log")
        assert before + aside.read_bytes() == whole
        server.stubs.until("t", PAUSED)
        events = [named(event) for event in server.stubs.events_so_far("t")]
        assert [event for event in events if event != "statistics"][-3:] == ["problem", "PAUSING", "PAUSED"]
        log = log_of(server, "job.log").read_bytes()
        assert (
            log.startswith(before)
            and b" PROBLEM log-ahead the log is newer than the store (expected after a restore): "
            in log[len(before) :]
        )


def test_a_crawl_that_wants_to_go_on_by_itself_waits_for_an_operator_all_the_same(tmp_path: Path) -> None:
    data = tmp_path / "data"
    older_store(data)
    with ServerProcess(data, "--disk-reserve-mib", str(2**40)) as server:
        server.stubs.until("t", PAUSED)
        assert "the log is newer than the store" in server.stubs.describe("t").status.reason
        server.stop()
    with ServerProcess(data, "--disk-reserve-mib", "0") as server:
        server.stubs.until("t", PAUSED)
        assert "the log is newer than the store" in server.stubs.describe("t").status.reason


def test_without_power_loss_durability_the_end_of_a_log_is_cut_with_a_warning(tmp_path: Path) -> None:
    data = tmp_path / "data"
    older_store(data)
    with ServerProcess(data, "--durability", "process") as server:
        assert kept(server) == [] and logged(server) == uris(2)
        assert server.stubs.describe("t").status.state == RUNNING
        assert '"cut_off": "5 outcomes"' in server.errors.read_text()


def test_after_a_kill_that_finds_lines_not_noted_yet_nothing_is_kept_and_no_crawl_pauses(
    tmp_path: Path,
) -> None:
    """Lines are appended, and a while later synced and noted: a kill in between is no loss."""
    data = tmp_path / "data"
    fetched = 0
    with ServerProcess(data) as server:
        begun(server, 2)
        server.kill()
    for more in (1, 3, 2):
        with ServerProcess(data) as server:
            assert kept(server) == kept(server, "job.log") == []
            assert server.stubs.describe("t").status.state == RUNNING
            fetch(server.stubs, more)
            fetched += more
            eventually(partial(has, server, 3 + fetched), "lines in the log")
            server.kill()
    with ServerProcess(data) as server:
        assert kept(server) == []
        eventually(lambda: logged(server) == uris(2 + fetched), "every line")


def test_a_log_that_cannot_be_kept_aside_keeps_the_server_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    older_store(data)
    path = data / "crawls" / "t" / "crawl.log"
    whole = path.read_bytes()

    def full(ahead: LogAhead) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("frontier_server.logs.log_check.keep", full)
    store = RocksStore(data / "store")
    frontier, clock = opened(store, config(data))
    with pytest.raises(CannotKeep, match=r"crawl\.log cannot be copied: .*No space left"):
        check_logs(frontier, store, data, clock.now_ms(), sync=True)
    assert path.read_bytes() == whole and frontier.views.crawl("t").state is CrawlState.RUNNING
    store.close()


def test_the_log_of_an_earlier_crawl_of_the_name_is_kept_aside(tmp_path: Path) -> None:
    """The server died between a deletion and the removal of the logs, or its store has lost the crawl."""
    data = tmp_path / "data"
    for name in ("crawl.log", "job.log"):
        path = data / "crawls" / "t" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"2023-11-14T22:13:20.123Z {n} of another life\n" for n in range(1, 31)))
    with ServerProcess(data) as server:
        (crawl_log,), (job_log,) = kept(server), kept(server, "job.log")
        assert crawl_log.read_text().count("\n") == job_log.read_text().count("\n") == 30
        assert str(crawl_log) in server.errors.read_text()
        begun(server, 2)
        assert b" OPERATOR " in log_of(server, "job.log").read_bytes().splitlines()[0]
        assert server.stubs.describe("t").status.state == RUNNING
        eventually(lambda: logged(server) == uris(2), "other lines")
        server.stubs.ask("TearDownCrawl", "t")
        eventually(lambda: server.stubs.describe("t").status.torn_down)
        server.stubs.ask("DeleteCrawl", "t")
        assert not log_of(server).parent.exists()


@pytest.mark.parametrize(
    ("content", "known", "expected"),
    [
        (b"", 0, None),
        (b"a\nb\n", 2, None),
        (b"a\nb\nc", 2, None),
        (b"a\nb\n", 1, (2, 1)),
        (b"a\nb\nc\nd", 0, (0, 3)),
        (b"\0\0\0\nb\n", 1, None),
        (b"a\0\0\0\0\nb\n", 1, None),
        (b"a\n\0\0" + b"\0" * 3_000_000 + b"x\nb\nc\n", 2, (3_000_008, 1)),
    ],
)
def test_only_whole_lines_that_the_store_does_not_know_are_evidence(
    tmp_path: Path, content: bytes, known: int, expected: tuple[int, int] | None
) -> None:
    path = tmp_path / "crawl.log"
    path.write_bytes(b"noted\n" + content)
    found = first_unknown(path, 6, lambda index, _: index >= known)
    assert found == (LogAhead(path, expected[0] + 6, expected[1]) if expected else None)
