"""Checkpoint sets of several shards: crawls that are launched from them, and which are listed."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import grpc
import pytest
from frontier_harness.calls import refused
from frontier_harness.members import members
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import PATIENCE_S, eventually
from integration.test_checkpoints import fetch_all, spec

from toehold.frontier.v1.admin_pb2 import JOB_STATE_DONE, Job
from toehold.frontier.v1.crawl_pb2 import CrawlState, OverrideSettings, PolitenessSpec
from toehold.frontier.v1.frontier_pb2 import Candidate
from toehold_client import CrawlController, FrontierClient
from toehold_client.errors import FrontierUnavailable

SITES, PAGES_A_SITE = 30, 40
SEEDS = [f"http://site{number}.example/" for number in range(SITES)]
PAGES = [f"{seed}{page}" for seed in SEEDS for page in range(PAGES_A_SITE)]
RUNNING = CrawlState.CRAWL_STATE_RUNNING


@pytest.mark.parametrize("victim", ["shard-1", "front"])
def test_a_launch_from_a_checkpoint_set_survives_the_kill_of_a_member(tmp_path: Path, victim: str) -> None:
    with divided(tmp_path) as (server, client):
        first = launched(client)
        client.schedule("first", [Candidate(uri=page, via=SEEDS[0], path="L") for page in PAGES])
        slow = OverrideSettings(politeness=PolitenessSpec(max_parallel=1))
        client.put_override("first", "site1.example", slow)
        before = fetch_all(client, "first", most=100)
        kept = client.create_checkpoint()
        first.stop()
        second = CrawlController(client, "second")
        second.create(spec())
        second.launch(kept.checkpoint, "first")
        os.kill(members(server.child)[victim], signal.SIGKILL)
        eventually(lambda: runs(second), "the launch")
        after = fetch_all(client, "second", most=10_000)
        fetched = Counter([*before, *after])
        assert not set(fetched) ^ {*SEEDS, *PAGES}
        assert fetched.total() == len(fetched), "a page was fetched twice"
        second.wait_for({CrawlState.CRAWL_STATE_FINISHED}, PATIENCE_S)
        assert second.statistics().statistics.succeeded_count == len(SEEDS) + len(PAGES)
        restore = restore_of(client)
        assert (restore.state, restore.parameters["checkpoint"]) == (JOB_STATE_DONE, kept.checkpoint)
        assert list(client.list_overrides("second")) == list(client.list_overrides("first"))
        assert {seed.outcome for seed in client.list_seeds("second")} == {"fetched (200)"}


def test_a_launch_from_a_checkpoint_set_waits_for_a_shard_that_is_away(tmp_path: Path) -> None:
    """Until it runs, nobody can offer it URIs: a part that had some could take none of the checkpoint."""
    with divided(tmp_path) as (server, client):
        launched(client)
        kept = client.create_checkpoint()
        shard = members(server.child)["shard-1"]
        os.kill(shard, signal.SIGSTOP)
        second = CrawlController(client, "second")
        second.create(spec())
        second.launch(kept.checkpoint, "first")
        offered = partial(server.stubs.schedule, "second", SEEDS[0])
        refused(offered, grpc.StatusCode.UNAVAILABLE, "CRAWL_HELD", f"from checkpoint {kept.checkpoint}")
        told = eventually(lambda: list(restore_of(client).findings), "the absence")
        assert told == ["shard 1 is away; its part goes on when it is back"]
        assert second.status().state == CrawlState.CRAWL_STATE_PREPARING
        os.kill(shard, signal.SIGCONT)
        second.wait_for({RUNNING}, PATIENCE_S)
        assert sorted(fetch_all(client, "second")) == sorted(SEEDS)


@contextmanager
def divided(folder: Path) -> Iterator[tuple[ServerProcess, FrontierClient]]:
    """A frontier of three shards, and a client."""
    with (
        ServerProcess(folder / "data", "--shards", "3") as server,
        FrontierClient(server.address) as client,
    ):
        yield server, client


def launched(client: FrontierClient) -> CrawlController:
    """A crawl that runs."""
    crawl = CrawlController(client, "first")
    crawl.create(spec(), SEEDS)
    crawl.launch()
    crawl.wait_for({RUNNING}, PATIENCE_S)
    return crawl


def restore_of(client: FrontierClient) -> Job:
    """The job that launches the second crawl."""
    (found,) = [each for each in client.list_jobs("second") if each.kind == "restore"]
    return found


def runs(crawl: CrawlController) -> bool:
    """Whether a crawl runs; not while the front is away."""
    try:
        return crawl.status().state == RUNNING
    except FrontierUnavailable:
        return False


def test_a_checkpoint_set_is_listed_only_when_whole(tmp_path: Path) -> None:
    """A front that ends before all shards have copied leaves no set; their parts go with the next one."""
    with divided(tmp_path) as (server, client):
        first = client.create_checkpoint()
        parts = [server.data / f"shard-{number:04d}" / "checkpoints" for number in range(3)]
        own = server.data / "coordinator" / "checkpoints"
        left = first.checkpoint.replace("cp00001", "cp00002")
        (parts[0] / left).mkdir()  # as such a front leaves them
        (own / f"{left}.tmp").mkdir()
        assert [each.checkpoint for each in client.list_checkpoints()] == [first.checkpoint]
        second = client.create_checkpoint()
        assert second.checkpoint.startswith("cp00003-")
        kept = {first.checkpoint, second.checkpoint}
        assert [{path.name for path in part.iterdir()} for part in parts] == [kept] * 3
        client.delete_checkpoint(first.checkpoint)
        assert [{path.name for path in part.iterdir()} for part in parts] == [{second.checkpoint}] * 3
