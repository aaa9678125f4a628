"""What a restart keeps, also after `kill -9`: all that was acknowledged, exact counts, rests, a whole log."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from core_doubles.placing import SUFFIXES
from frontier_harness.calls import FINISH, PAUSE, RUN, TIMEOUT_S, Stubs, report, schedule_request, seed_of
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import eventually

from frontier_server.core.opening import opening
from frontier_server.stores.rocks import RocksStore
from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

Ending = Callable[[ServerProcess], object]
ENDINGS = [ServerProcess.stop, ServerProcess.kill]


@pytest.mark.parametrize("end", ENDINGS)
def test_crawls_seeds_and_events_are_as_they_were(tmp_path: Path, end: Ending) -> None:
    with ServerProcess(tmp_path / "data") as server:
        stubs = server.stubs
        stubs.create("nascent")
        stubs.seed("nascent", *(seed_of("nascent", f"{number}.") for number in range(20)))
        stubs.launch("ended", seed_of("ended"))
        stubs.request("ended", FINISH)
        stubs.launch("paused", seed_of("paused"))
        stubs.request("paused", PAUSE)
        stubs.launch("deleted", seed_of("deleted"))
        stubs.request("deleted", FINISH)
        stubs.admin.DeleteCrawl(admin_pb2.DeleteCrawlRequest(crawl="deleted"), timeout=TIMEOUT_S)
        before = described(stubs), stubs.events("ended")
        end(server)
    with ServerProcess(tmp_path / "data") as server:
        stubs = server.stubs
        assert (described(stubs), stubs.events("ended")) == before
        assert [crawl.crawl for crawl in before[0]] == ["ended", "nascent", "paused"]
        stubs.admin.LaunchCrawl(admin_pb2.LaunchCrawlRequest(crawl="nascent"), timeout=TIMEOUT_S)
        eventually(lambda: stubs.statistics("nascent").discovered_count == 20, "the seeds")
        assert stubs.request("paused", RUN).state == crawl_pb2.CRAWL_STATE_RUNNING
        assert stubs.create("deleted").seed_count == 0


def described(stubs: Stubs) -> list[admin_pb2.Crawl]:
    return list(stubs.admin.ListCrawls(admin_pb2.ListCrawlsRequest(), timeout=TIMEOUT_S).crawls)


def test_leases_are_still_out_and_their_reports_count(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        server.stubs.launch("t", seed_of("t"))
        (lease,) = server.stubs.pages("t")
        server.stubs.schedule("t", f"{lease.uri}more")
        server.kill()
    with ServerProcess(tmp_path / "data") as server:
        stubs = server.stubs
        assert stubs.statistics("t").leased_count == 1
        assert not stubs.heartbeat([lease.token]).ended_tokens
        assert not stubs.next("t").leases  # its host is busy
        assert stubs.finish(report(lease)) == [("SUCCEEDED", False)]
        assert stubs.finish(report(lease)) == [("SUCCEEDED", True)]
        server.kill()
    with ServerProcess(tmp_path / "data") as server:
        assert server.stubs.finish(report(lease)) == [("SUCCEEDED", True)]
        assert [found.uri for found in server.stubs.pages("t")] == [f"{lease.uri}more"]


def test_what_kill_9_finds_acknowledged_is_there_and_counted_exactly(tmp_path: Path) -> None:
    hosts = 40
    with ServerProcess(tmp_path / "data") as server:
        server.stubs.launch("t", *(seed_of("t", f"h{host}.") for host in range(hosts)))
        acknowledged: list[str] = []
        lock = threading.Lock()

        def feed(feeder: int) -> None:
            with grpc.insecure_channel(server.address) as channel:
                mine = Stubs(channel)
                for batch in range(10_000):
                    uris = [f"{seed_of('t', f'h{n % hosts}.')}{feeder}/{batch}/{n}" for n in range(60)]
                    try:
                        mine.frontier.Schedule(schedule_request("t", *uris), timeout=TIMEOUT_S)
                    except grpc.RpcError:
                        return
                    with lock:
                        acknowledged.extend(uris)

        feeders = [threading.Thread(target=feed, args=(feeder,), daemon=True) for feeder in range(4)]
        for thread in feeders:
            thread.start()
        eventually(lambda: len(acknowledged) >= 5_000, "enough to be acknowledged")
        server.kill()
        for thread in feeders:
            thread.join(TIMEOUT_S)
    with ServerProcess(tmp_path / "data") as server:
        stubs = server.stubs
        statistics, queues = stubs.statistics("t"), stubs.queues("t")
        assert statistics.discovered_count >= hosts + len(acknowledged)
        assert statistics.discovered_count == sum(queue.enqueued_count for queue in queues)
        assert (
            statistics.queued_count
            == sum(queue.queued_count for queue in queues)
            == statistics.discovered_count
        )
        assert len(queues) == hosts == sum(statistics.queue_state_counts.values())
        assert sum(statistics.verdict_counts.values()) == statistics.discovered_count
        for first in range(0, len(acknowledged), 1000):
            verdicts = stubs.schedule("t", *acknowledged[first : first + 1000])
            assert set(verdicts) == {"ALREADY_SEEN"}
        assert stubs.statistics("t").discovered_count == statistics.discovered_count


# The crawl log.

PAGES_A_HOST = 30


def crawl_on(stubs: Stubs, enough: Callable[[], bool]) -> None:
    """Fetch as a node does, until it is enough or the crawl has ended."""
    while not enough():
        answer = stubs.next("t", 5, 5)
        if answer.empty_reason == frontier_pb2.EMPTY_REASON_FINISHED:
            return
        if answer.leases:
            stubs.finish(*(report(lease) for lease in answer.leases))


def log_of(server: ServerProcess) -> Path:
    return server.data / "crawls" / "t" / "crawl.log"


def log_lines(server: ServerProcess) -> list[list[str]]:
    """The columns of each line; whole lines only."""
    text = log_of(server).read_bytes()
    assert not text or text.endswith(b"\n"), f"a torn line at the end: {text[-200:]!r}"
    assert b"\0" not in text
    lines = [line.split(" ") for line in text.decode().splitlines()]
    columns = [[column for column in line if column] for line in lines]
    assert {len(line) for line in columns} <= {12}
    return columns


def launch_for_log(stubs: Stubs) -> None:
    hosts = [seed_of("t", f"{letter}.") for letter in "abcde"]
    stubs.launch("t", *hosts)
    for host in hosts:
        stubs.schedule("t", *(f"{host}{number}" for number in range(PAGES_A_HOST)))


def everything() -> set[str]:
    hosts = [seed_of("t", f"{letter}.") for letter in "abcde"]
    return {
        *hosts,
        *(f"{host}robots.txt" for host in hosts),
        *(f"{host}{number}" for host in hosts for number in range(PAGES_A_HOST)),
    }


def tear(server: ServerProcess) -> None:
    """What a crash while the log is written may leave: more than the store knows of, and part of a line."""
    with log_of(server).open("ab") as log:
        log.write(b"2026-01-01T00:00:00.000Z   200          5 http://torn.exa")


def succeeded(server: ServerProcess, count: int) -> Callable[[], bool]:
    return lambda: server.stubs.statistics("t").succeeded_count >= count


@pytest.mark.undivided("each shard has a crawl.log")
def test_the_log_has_each_final_disposition_once_however_often_the_server_is_killed(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        launch_for_log(server.stubs)
        crawl_on(server.stubs, succeeded(server, 40))
        eventually(lambda: log_of(server).exists() and log_of(server).stat().st_size, "a line of the log")
        server.kill()
    with ServerProcess(tmp_path / "data") as server:
        crawl_on(server.stubs, succeeded(server, 60))
        server.stop()  # the log is synced, and the store knows how far
    with ServerProcess(tmp_path / "data") as server:
        crawl_on(server.stubs, succeeded(server, 80))
        server.kill()
        tear(server)
    with ServerProcess(tmp_path / "data") as server:
        crawl_on(server.stubs, lambda: False)
        statistics = server.stubs.statistics("t")
        assert server.stop()[0] == 0
        lines = log_lines(server)
    assert Counter(line[3] for line in lines) == Counter(everything())
    dispositions = Counter(line[11].split(",")[0] for line in lines)
    assert dispositions == {"succeeded": statistics.succeeded_count + statistics.robots_fetch_count}
    times = [line[0] for line in lines]
    assert times == sorted(times)


@pytest.mark.undivided("looks into the store")
def test_the_servers_time_never_goes_back_nor_stands_still(tmp_path: Path) -> None:
    """Where the machine's clock was set back, it goes on from the last: rests and leases need it."""
    ahead_ms = time.time_ns() // 1_000_000 + 10**9
    (tmp_path / "data").mkdir()
    store = RocksStore(tmp_path / "data" / "store")
    store.write(opening.new_store(b"s" * 16, ahead_ms, SUFFIXES))
    store.flush()
    store.close()
    with ServerProcess(tmp_path / "data") as server:
        created_ms = server.stubs.create("t").create_time.ToMilliseconds()
        assert ahead_ms <= created_ms < ahead_ms + 60_000
        eventually(
            lambda: server.stubs.statistics("t").snapshot_time.ToMilliseconds() > created_ms,
        )


@pytest.mark.undivided("looks into the store")
def test_a_time_that_is_not_the_machine_s_is_told_loudly_and_can_be_set(tmp_path: Path) -> None:
    """To the log and to each crawl at the start that finds it so; `--set-clock` is the way out."""
    week_ms = 7 * 86_400_000
    with ServerProcess(tmp_path / "data") as server:
        server.stubs.create("t")
        server.stop()
        assert "clock_differs" not in server.errors.read_text()
    store = RocksStore(tmp_path / "data" / "store")
    row = opening.server_row(store)
    row.time_ms, row.boot = row.time_ms + week_ms, "a run of the machine when its clock was a week ahead"
    store.write(opening.server_changes(row))
    store.flush()
    store.close()
    with ServerProcess(tmp_path / "data") as server:
        (line,) = [line for line in server.errors.read_text().splitlines() if "clock_differs" in line]
        told = json.loads(line)
        assert told["level"] == "error" and "--set-clock" in told["advice"]
        assert abs(told["ahead_ms"] - week_ms) < 600_000
        assert told["frontier_time"] > told["machine_time"]
        server.stop()
    job_log = (tmp_path / "data" / "crawls" / "t" / "job.log").read_text()
    assert "--set-clock" in job_log, job_log
    with ServerProcess(tmp_path / "data", "--set-clock") as server:
        now_ms = server.stubs.statistics("t").snapshot_time.ToMilliseconds()
        assert abs(now_ms - time.time_ns() // 1_000_000) < 60_000
        server.stop()
        assert server.errors.read_text().count("clock_differs") == 1
