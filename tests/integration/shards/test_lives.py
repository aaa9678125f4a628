"""A crawl's life over three shards: late seeds, seeds that lead elsewhere, a recrawl, the teardown."""

import os
import signal
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from frontier_harness.calls import (
    FINISH,
    HOLD,
    PRECONDITION,
    RUN,
    TIMEOUT_S,
    Stubs,
    fresh_name,
    named,
    refused,
    report,
    spec,
)
from frontier_harness.members import members
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import eventually
from google.protobuf.timestamp_pb2 import Timestamp

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

FINISHED = crawl_pb2.CRAWL_STATE_FINISHED
IGNORE = spec(robots=crawl_pb2.RobotsSpec(policy="ignore"))
WHOLE_TLD = crawl_pb2.ScopeSpec(surt_prefixes=["http://(example,"])


def fetch(stubs: Stubs, crawl: str, pages: int) -> None:
    """Fetch so many pages, and the robots.txt of their hosts."""
    while pages:
        leases = stubs.pages(crawl)  # none at the moment at which a part is told to run
        if leases:
            stubs.finish(*(report(lease) for lease in leases))
        pages -= len(leases)


def test_seeds_that_come_after_the_launch_are_announced(stubs: Stubs, sites: list[str]) -> None:
    crawl = fresh_name()
    stubs.launch(crawl, *sites[:4], of=spec(run_while_empty=True))
    stubs.seed(crawl, *sites[4:8])
    batch = stubs.ask("AddSeedBatch", crawl, uris=[*sites[8:], "no URI"])
    assert (batch.result.added_count, batch.result.rejected_count) == (4, 1)
    eventually(lambda: stubs.describe(crawl).announced_seed_count == 12, "the announcement")
    fetch(stubs, crawl, 12)
    told = eventually(lambda: settled(stubs, crawl, 12), "the statistics")
    assert told.succeeded_count == 12
    assert {seed.outcome for seed in stubs.ask("ListSeeds", crawl).seeds} == {"fetched (200)"}


def settled(stubs: Stubs, crawl: str, count: int) -> crawl_pb2.Statistics | None:
    """Its statistics, if so many URIs have succeeded."""
    told = stubs.statistics(crawl)
    return told if told.succeeded_count == count else None


@pytest.mark.parametrize("target", [HOLD, FINISH])
def test_links_to_parts_that_stand_still_before_the_last_page_is_done_are_kept(
    stubs: Stubs, sites: list[str], target: crawl_pb2.TargetState.ValueType
) -> None:
    crawl = fresh_name()
    stubs.launch(crawl, sites[0], of=spec(scope=WHOLE_TLD, run_while_empty=True))
    (lease,) = stubs.pages(crawl)
    stubs.request(crawl, target)
    found: list[str] = []

    def some_are_parked() -> bool:
        links = [f"{site}{len(found)}" for site in sites]
        found.extend(links)
        return "PARKED" in stubs.schedule(crawl, *links)

    eventually(some_are_parked, "the other parts to stand still")
    stubs.finish(report(lease))
    if target == HOLD:
        eventually(lambda: stubs.describe(crawl).status.held, "the hold")
        stubs.request(crawl, RUN)
    else:
        stubs.until(crawl, FINISHED)
        stubs.ask("ReopenCrawl", crawl)
    fetch(stubs, crawl, len(found))
    eventually(lambda: settled(stubs, crawl, len(found) + 1), "the statistics")


def test_a_seed_that_leads_to_a_site_of_another_shard_counts_as_the_page_there(
    stubs: Stubs, sites: list[str]
) -> None:
    crawl = fresh_name()
    stubs.launch(crawl, sites[0], of=spec(scope=WHOLE_TLD, run_while_empty=True))
    for target in sites[1:4]:  # from site to site
        (lease,) = stubs.pages(crawl)
        led = frontier_pb2.Candidate(
            uri=target,
            path=f"{lease.path}R",
            via=lease.uri,
            source=sites[0],
            redirects=lease.redirects,
        )
        request = frontier_pb2.ScheduleRequest(crawl=crawl, candidates=[led])
        assert list(stubs.frontier.Schedule(request).verdicts) == [crawl_pb2.VERDICT_QUEUED]
        stubs.finish(report(lease, 301, reason=target))
    (seed,) = stubs.ask("ListSeeds", crawl).seeds
    assert (seed.result, seed.led_to) == (admin_pb2.SEED_RESULT_PENDING, sites[3])
    fetch(stubs, crawl, 1)
    (seed,) = stubs.ask("ListSeeds", crawl).seeds
    assert seed.outcome == f"redirected to {sites[3]}: fetched (200)"
    assert (seed.result, seed.led_to) == (admin_pb2.SEED_RESULT_FETCHED, sites[3])
    assert (seed.story.uri, seed.story.fetch_status) == (sites[0], 301)
    stubs.request(crawl, FINISH)
    stubs.until(crawl, FINISHED)
    assert stubs.describe(crawl).status.failure == ""


def test_a_recrawl_fetches_the_known_pages_of_all_shards_again(stubs: Stubs, sites: list[str]) -> None:
    crawl = fresh_name()
    stubs.launch(crawl, *sites)
    fetch(stubs, crawl, 12)
    stubs.until(crawl, FINISHED)
    before = Timestamp()
    before.FromMilliseconds(round(time.time() * 1000))
    stubs.ask("ReopenCrawl", crawl, pause=True, recrawl_before_time=before)
    stubs.until(crawl, crawl_pb2.CRAWL_STATE_PAUSED)
    entries = [
        admin_pb2.ImportEntry(
            candidate=frontier_pb2.Candidate(
                uri=site,
                seed=True,
                directive=frontier_pb2.DIRECTIVE_HIGH,
                refetch_before_time=before,
            )
        )
        for site in sites
    ]
    assert dict(stubs.bring(crawl, *entries).counts) == {"QUEUED": 12}
    told = eventually(lambda: stubs.statistics(crawl), "statistics")
    assert (told.revisit_count, told.revisited_count) == (12, 0)
    stubs.request(crawl, crawl_pb2.TARGET_STATE_RUN)
    fetch(stubs, crawl, 12)
    stubs.until(crawl, FINISHED)
    told = stubs.statistics(crawl)
    assert (told.succeeded_count, told.revisited_count) == (24, 12)


@pytest.mark.parametrize("runs", [True, False])
def test_a_crawl_that_was_torn_down_can_be_read(stubs: Stubs, sites: list[str], runs: bool) -> None:
    crawl = fresh_name()
    stubs.launch(crawl, *sites)
    if not runs:
        stubs.request(crawl, FINISH)
        stubs.until(crawl, FINISHED)
    assert stubs.ask("TearDownCrawl", crawl).begun
    assert not stubs.ask("TearDownCrawl", crawl).begun
    eventually(lambda: stubs.describe(crawl).status.torn_down, "the teardown")
    assert len(stubs.waiting(crawl)) == 12
    assert len(stubs.ask("ListSeeds", crawl).seeds) == 12
    changes: dict[str, dict[str, Any]] = {
        "StartJob": {"verify": {}},
        "NoteUris": {"uris": sites},
        "UpdateQueue": {"queue_key": "q", "change": {"paused": True}},
    }
    for rpc, asked in changes.items():
        refused(partial(stubs.ask, rpc, crawl, **asked), PRECONDITION, "CRAWL_TORN_DOWN")
    told = [named(event) for event in stubs.events(crawl)]
    assert told[-1] == "torn_down" and told.count("by teardown") == 1
    stubs.ask("DeleteCrawl", crawl)
    refused(lambda: stubs.describe(crawl), grpc.StatusCode.NOT_FOUND, "UNKNOWN_CRAWL", crawl)


def test_a_job_that_has_not_ended_ends_with_the_teardown(stubs: Stubs, sites: list[str]) -> None:
    crawl = fresh_name()
    stubs.launch(crawl, *sites)
    job = stubs.ask("StartJob", crawl, verify={}).job.job
    stubs.ask("TearDownCrawl", crawl)
    eventually(lambda: stubs.describe(crawl).status.torn_down, "the teardown", TIMEOUT_S)
    assert stubs.ask("GetJob", crawl, job=job).job.HasField("finish_time")


def test_the_logs_of_a_deleted_crawl_go_in_all_shards(divided: ServerProcess, sites: list[str]) -> None:
    stubs, crawl = divided.stubs, fresh_name()

    def logs() -> list[str]:
        found = divided.data.glob(f"*/crawls/{crawl}/*.log*")
        return sorted(str(path.relative_to(divided.data)) for path in found)

    stubs.launch(crawl, *sites)
    fetch(stubs, crawl, len(sites))
    stubs.until(crawl, FINISHED)
    shards = [f"shard-{number:04}" for number in range(3)]
    eventually(lambda: {path.split("/")[0] for path in logs()} == {"coordinator", *shards}, "all logs")
    stubs.ask("DeleteCrawl", crawl, force=True)
    assert logs() == []


def test_a_crawl_is_deleted_in_all_shards_though_its_caller_has_left(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", "--shards", "2") as server:
        stubs, crawl = server.stubs, fresh_name()
        stubs.launch(crawl, *(f"http://{crawl}-{site}.example/" for site in range(20)), of=IGNORE)
        eventually(lambda: stubs.statistics(crawl).queued_count == 20, "the seeds")
        process = members(server.child)["shard-1"]
        os.kill(process, signal.SIGSTOP)
        try:
            with pytest.raises(grpc.RpcError) as caught:
                request = admin_pb2.DeleteCrawlRequest(crawl=crawl, force=True)
                stubs.admin.DeleteCrawl(request, timeout=1)
            assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        finally:
            os.kill(process, signal.SIGCONT)

        def is_gone() -> bool:
            """Whether no shard has URIs any more, and all answer."""
            with suppress(grpc.RpcError):
                shards = stubs.admin.GetFrontier(admin_pb2.GetFrontierRequest(), timeout=TIMEOUT_S).shards
                return all(shard.present and not shard.queued_count for shard in shards)
            return False

        eventually(is_gone, "the shards to delete their parts")
