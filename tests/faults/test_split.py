"""A frontier whose shards are doubled amid a crawl, also by a split that is killed."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import grpc
from acceptance.manual import Operator
from faults.test_shards import CRAWL, DELAY_S, RECONNECT, Fetchers, check, uri
from frontier_harness.calls import Stubs, next_request, report, spec
from frontier_harness.process import ServerProcess, run_to_end
from frontier_harness.waiting import PATIENCE_S, eventually

from toehold.frontier.v1 import crawl_pb2, frontier_pb2

PAGES = 300
NODES = tuple(f"node{number}" for number in range(4))
HOLDER = "holder"
FIRST_KILL_S, LATER = 0.3, 1.4  # each time after this many times as long


def begin(server: ServerProcess) -> None:
    stubs = server.stubs
    scope = crawl_pb2.ScopeSpec(accept_patterns=[r"http://www\.site[0-9]+\.example/.*"])
    stubs.create(CRAWL, spec(DELAY_S, scope=scope))
    stubs.ask("AddSeedBatch", CRAWL, uris=[uri(0)])
    stubs.ask("LaunchCrawl", CRAWL)


def fetched(server: ServerProcess, fetchers: Fetchers, enough: int = 0) -> None:
    """Let fetchers work until so many pages are done, or the crawl has ended."""
    with grpc.insecure_channel(server.address, RECONNECT) as channel:
        fetchers.stubs = Stubs(channel)
        fetchers.ending.clear()
        threads = [threading.Thread(target=fetchers.run, args=(node,)) for node in NODES]
        for thread in threads:
            thread.start()
        if enough:
            eventually(lambda: fetchers.problems or fetchers.done.total() >= enough, f"{enough} pages")
            fetchers.ending.set()
        for thread in threads:
            thread.join(PATIENCE_S * 2)
        assert not fetchers.problems, fetchers.problems[:3]
        assert not any(thread.is_alive() for thread in threads), "the crawl has not ended"


def split(data: Path) -> None:
    done = run_to_end("--data", str(data), "--split")
    assert done.returncode == 0, done.stderr


def split_under_kills(data: Path) -> None:
    """Kill it a little later each time, until it is faster."""
    patience_s = FIRST_KILL_S
    command = [sys.executable, "-m", "frontier_server", "--data", str(data), "--split"]
    while True:
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            time.sleep(patience_s)
            process.kill()
            code = process.wait(PATIENCE_S)
        if code == 0:
            return
        assert code == -9, code
        patience_s *= LATER


def crawled(data: Path, shards: int, how: Callable[[Path], None]) -> None:
    """A crawl that is split in its middle, with leases out."""
    fetchers = Fetchers(None, PAGES)  # type: ignore[arg-type]  # known where they begin
    asked = next_request(CRAWL, 10, 1, HOLDER, f"session of {HOLDER}")
    with ServerProcess(data, "--shards", str(shards)) as server:
        begin(server)
        fetched(server, fetchers, PAGES // 2)
        held = [
            lease
            for lease in server.stubs.frontier.Next(asked, timeout=PATIENCE_S).leases
            if lease.purpose == frontier_pb2.PURPOSE_PAGE
        ]
        assert held
        assert server.stop()[0] == 0
    how(data)
    with ServerProcess(data) as server:
        assert "no difference found" in Operator(server.address).types("toehold verify --wait 60")
        fetchers.stubs = server.stubs
        before = fetchers.done.total()
        for lease in held:
            fetchers._fetched(lease, HOLDER)
        assert fetchers.done.total() == before + len(held), "the leases count no more"
        fetched(server, fetchers)
        statistics = server.stubs.ask("GetStatistics", CRAWL).statistics
        assert (statistics.succeeded_count, statistics.queued_count) == (PAGES, 0)
        assert statistics.discovered_count == PAGES
        assert server.stop()[0] == 0
        assert "log_ahead" not in server.errors.read_text(), "logs do not go on where they were"
    check(fetchers, PAGES)
    logged = [
        line.split()[3]
        for log in data.glob("shard-*/crawls/*/crawl.log")
        for line in log.read_text().splitlines()
    ]
    pages = [each for each in logged if not each.endswith("/robots.txt")]
    assert sorted(pages) == sorted(map(uri, range(PAGES)))


def test_an_undivided_crawl_goes_on_over_two_shards(tmp_path: Path) -> None:
    crawled(tmp_path / "data", 1, split)


def test_a_split_that_is_killed_again_and_again_is_completed(tmp_path: Path) -> None:
    crawled(tmp_path / "data", 2, split_under_kills)


def seeds_told(server: ServerProcess) -> dict[str, tuple[int, str, str]]:
    """What is told of each seed."""
    seeds = server.stubs.ask("ListSeeds", CRAWL).seeds
    return {seed.uri: (seed.result, seed.outcome, seed.led_to) for seed in seeds}


def test_seeds_that_led_to_the_other_half_are_told_as_before_the_split(tmp_path: Path) -> None:
    data = tmp_path / "data"
    seeds = {f"http://seed{number}.example/": f"http://end{number}.example/" for number in range(16)}
    with ServerProcess(data) as server:
        stubs = server.stubs
        scope = crawl_pb2.ScopeSpec(surt_prefixes=["http://(example,"])
        ignore = crawl_pb2.RobotsSpec(policy="ignore")
        stubs.launch(CRAWL, *seeds, of=spec(scope=scope, robots=ignore, run_while_empty=True))
        eventually(lambda: stubs.statistics(CRAWL).queued_count == len(seeds), "the seeds")
        for lease in stubs.pages(CRAWL, most=len(seeds)):
            end = seeds[lease.uri]
            led = frontier_pb2.Candidate(
                uri=end, path=f"{lease.path}R", via=lease.uri, source=lease.uri, redirects=lease.redirects
            )
            offered = frontier_pb2.ScheduleRequest(crawl=CRAWL, candidates=[led])
            stubs.frontier.Schedule(offered, timeout=PATIENCE_S)
            stubs.finish(report(lease, 301, reason=end))
        stubs.finish(*(report(lease) for lease in stubs.pages(CRAWL, most=len(seeds))))
        before = seeds_told(server)
        assert {outcome for _, outcome, _ in before.values()} == {
            f"redirected to {end}: fetched (200)" for end in seeds.values()
        }
        assert server.stop()[0] == 0
    split(data)
    with ServerProcess(data) as server:
        assert seeds_told(server) == before
