"""A frontier whose shards are doubled amid a crawl, also by a split that is killed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from acceptance.manual import Operator
from faults.split_crawl import SplitCrawl
from faults.test_shards import CRAWL
from frontier_harness import splits
from frontier_harness.calls import report, spec
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import PATIENCE_S, eventually

from toehold.frontier.v1 import crawl_pb2, frontier_pb2

PAGES = 300


def crawled(data: Path, shards: int, split: Callable[..., None]) -> None:
    """A crawl that is split in its middle, with leases out."""
    crawl = SplitCrawl(PAGES)
    with ServerProcess(data, "--shards", str(shards)) as server:
        crawl.begin(server.stubs, server.address)
        assert server.stop()[0] == 0
    split("--data", str(data))
    with ServerProcess(data) as server:
        assert "no difference found" in Operator(server.address).types("toehold verify --wait 60")
        crawl.end(server.stubs, server.address)
        assert server.stop()[0] == 0
        assert "log_ahead" not in server.errors.read_text(), "logs do not go on where they were"
    logs = data.glob("shard-*/crawls/*/crawl.log")
    crawl.check_log(line for log in logs for line in log.read_text().splitlines())


def test_an_undivided_crawl_goes_on_over_two_shards(tmp_path: Path) -> None:
    crawled(tmp_path / "data", 1, splits.split)


def test_a_split_that_is_killed_again_and_again_is_completed(tmp_path: Path) -> None:
    crawled(tmp_path / "data", 2, splits.split_under_kills)


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
    splits.split("--data", str(data))
    with ServerProcess(data) as server:
        assert seeds_told(server) == before
