"""Backups of several shards, taken under load as docs/operating.md has it, and restored."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import grpc
import pytest
from acceptance.manual import Operator, blocks
from faults.test_shards import CRAWL, DELAY_S, RECONNECT, Fetchers, uri
from frontier_harness.calls import Stubs, spec
from frontier_harness.process import ServerProcess
from frontier_harness.soaking import Soak
from frontier_harness.waiting import PATIENCE_S, eventually

from toehold.frontier.v1 import admin_pb2, crawl_pb2

SHARDS = ("--shards", "3")
# Leases that were out at the moment of the backup come back soon.
BRISK = ("--lease-seconds", "3", "--heartbeat-seconds", "1")
HALTED = crawl_pb2.CRAWL_STATE_PAUSING, crawl_pb2.CRAWL_STATE_PAUSED
BACKUP = blocks("operating.md", "## The frontier")
GO_ON = blocks("operating.md", "## Backup, and restore on another machine")[2]


@contextmanager
def fetching(address: str, pages: int) -> Iterator[tuple[Stubs, Fetchers, list[threading.Thread]]]:
    """Four fetchers at work, which end with the context."""
    with grpc.insecure_channel(address, RECONNECT) as channel:
        stubs = Stubs(channel)
        fetchers = Fetchers(stubs, pages)
        threads = [threading.Thread(target=fetchers.run, args=(f"node{number}",)) for number in range(4)]
        try:
            for thread in threads:
                thread.start()
            yield stubs, fetchers, threads
        finally:
            fetchers.ending.set()
            for thread in threads:
                thread.join(PATIENCE_S)


def launch(stubs: Stubs) -> None:
    scope = crawl_pb2.ScopeSpec(accept_patterns=[r"http://www\.site[0-9]+\.example/.*"])
    stubs.create(CRAWL, spec(DELAY_S, scope=scope))
    stubs.ask("AddSeedBatch", CRAWL, uris=[uri(0)])
    stubs.ask("LaunchCrawl", CRAWL)


def backed_up(folder: Path, pages: int, after: int) -> Operator:
    """A backup of a crawl of so many pages, begun after some of them; whoever typed it."""
    ((create, copy),) = BACKUP
    with ServerProcess(folder / "data", *SHARDS) as server:
        launch(server.stubs)
        operator = Operator(server.address, DIR=server.data, BACKUP=folder / "backup")
        with fetching(server.address, pages) as (_, fetchers, _):
            eventually(lambda: fetchers.problems or fetchers.done.total() >= after, f"{after} pages")
            operator.names["NAME"] = operator.types(create).partition(":")[0]
            operator.types(copy)
            assert not fetchers.problems, fetchers.problems[:3]
    return operator


def check_restored(folder: Path, pages: int) -> None:
    """Let the crawl of a backup go on; check that it ends with all of its pages, each one once."""
    with ServerProcess(folder / "backup", *BRISK) as server:
        operator = Operator(server.address)
        verify, resume = GO_ON
        assert "no difference found" in operator.types(verify)
        if server.stubs.ask("GetCrawl", CRAWL).crawl.status.state in HALTED:
            operator.types(resume)  # a log was newer than its store
        with fetching(server.address, pages) as (stubs, fetchers, threads):
            for thread in threads:
                thread.join(PATIENCE_S * 2)
            assert not fetchers.problems, fetchers.problems[:3]
            assert not any(thread.is_alive() for thread in threads), "the crawl has not ended"
            request = admin_pb2.ListSeenUrisRequest(crawl=CRAWL, page_size=1000)
            seen: list[admin_pb2.UriStory] = []
            while True:
                answer = stubs.admin.ListSeenUris(request, timeout=PATIENCE_S)
                seen += answer.uris
                request.page_token = answer.next_page_token
                if not request.page_token:
                    break
            fetched = [each.uri for each in seen if each.disposition == crawl_pb2.DISPOSITION_SUCCEEDED]
            assert sorted(fetched) == sorted(map(uri, range(pages)))
            assert stubs.ask("GetStatistics", CRAWL).statistics.succeeded_count == pages
        assert server.stop()[0] == 0


def test_a_backup_of_three_shards_under_load_restores_to_a_complete_crawl(tmp_path: Path) -> None:
    backed_up(tmp_path, pages=400, after=150)
    check_restored(tmp_path, 400)


@pytest.mark.soak("sets")
@pytest.mark.timeout(7200)
def test_backups_of_three_shards_at_any_moment_restore_to_complete_crawls(tmp_path: Path, soak: Soak) -> None:
    random = Random(soak.seed)
    for number in range(soak.cycles(50)):
        folder, pages = tmp_path / str(number), 400
        backed_up(folder, pages, after=random.randrange(20, 380))
        check_restored(folder, pages)
        soak.count(faults=1, checked=pages)
