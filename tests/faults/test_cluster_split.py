"""Crawls of a frontier on several machines whose shards are doubled: also by a split that is killed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from faults.split_cluster import VERSION, Deployment, ended, served
from faults.split_crawl import SplitCrawl, whole_statistics
from faults.test_shards import CRAWL
from frontier_harness import splits
from frontier_harness.calls import PAUSE, Stubs, report, spec

from frontier_server.cluster.identity import identified
from frontier_server.logs.archive import LogArchive
from frontier_server.replicated.folders import below
from toehold.frontier.v1 import crawl_pb2

PAGES = 240
PAUSED, FINISHED = "paused", "finished"


def log_lines(deployment: Deployment, crawl: str) -> list[str]:
    """The lines of a crawl's log, as the bucket has them."""
    cluster, found = deployment.cluster, []
    for number in range(cluster.shards):
        archive = LogArchive(below(deployment.bucket, cluster.folder), f"shard-{number:04}", 0)
        log = deployment.folder / "read" / str(number) / "crawl.log"
        archive.restore(crawl, log, 1 << 40)
        found += log.read_text().splitlines()
    return found


def begin_others(stubs: Stubs) -> None:
    """A crawl that is paused, and one that is finished."""
    ignore = crawl_pb2.RobotsSpec(policy="ignore")
    stubs.launch(PAUSED, *(f"http://paused{number}.example/" for number in range(8)), of=spec(robots=ignore))
    stubs.request(PAUSED, PAUSE)
    stubs.until(PAUSED, crawl_pb2.CRAWL_STATE_PAUSED)
    stubs.launch(FINISHED, "http://finished.example/", of=spec(robots=ignore))
    stubs.finish(*(report(lease) for lease in stubs.pages(FINISHED)))
    stubs.until(FINISHED, crawl_pb2.CRAWL_STATE_FINISHED)


def told(stubs: Stubs, crawl: str) -> list[str]:
    """The events of a crawl."""
    return [str(event) for event in stubs.events_so_far(crawl)]


def crawled(deployment: Deployment, shards: int, split: Callable[..., None]) -> None:
    """A crawl that is split in its middle, with leases out, and ends on machines of the next generation."""
    crawl = SplitCrawl(PAGES)
    identified(deployment.bucket, shards, VERSION)
    with deployment.machine("one") as one, deployment.machine("other") as other:
        served(one.stubs, shards)
        begin_others(one.stubs)
        crawl.begin(one.stubs, other.address)
        before = {name: told(one.stubs, name) for name in (PAUSED, FINISHED, CRAWL)}
        counts = whole_statistics(one.stubs)
        ended(other, one)
    split("--log", deployment.url, "--data", str(deployment.work))
    assert deployment.cluster.shards == 2 * shards
    assert not list(deployment.work.glob("*/")), "the working directory is not cleared"
    with deployment.machine("one") as one, deployment.machine("other") as other:
        served(one.stubs, 2 * shards)
        stubs = one.stubs
        now = whole_statistics(stubs)
        assert (now.succeeded_count, now.discovered_count) == (
            counts.succeeded_count,
            counts.discovered_count,
        )
        for name, events in before.items():
            assert told(stubs, name)[: len(events)] == events
            if name != FINISHED:
                assert not stubs.job(name, verify={}).findings
        assert stubs.describe(PAUSED).status.state == crawl_pb2.CRAWL_STATE_PAUSED
        assert stubs.statistics(PAUSED).queued_count == 8
        crawl.end(stubs, other.address)
        ended(other, one)
        for machine in (one, other):
            errors = machine.errors.read_text()
            assert "log_ahead" not in errors and "log_archive" not in errors
            assert ("members_removed" in errors) and "store_wiped" not in errors
    crawl.check_log(log_lines(deployment, CRAWL))
    assert len(log_lines(deployment, FINISHED)) == 1


@pytest.mark.parametrize("shards", [1, 2])
def test_a_crawl_goes_on_over_twice_as_many_shards(tmp_path: Path, shards: int) -> None:
    crawled(Deployment(tmp_path), shards, splits.split)


def test_a_split_that_is_killed_again_and_again_is_completed(tmp_path: Path) -> None:
    crawled(Deployment(tmp_path), 2, splits.split_under_kills)
