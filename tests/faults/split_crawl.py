"""A crawl whose frontier is split in its middle, while leases are out."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import grpc
from faults.test_shards import CRAWL, DELAY_S, RECONNECT, Fetchers, check, uri
from frontier_harness.calls import Stubs, next_request, spec
from frontier_harness.waiting import PATIENCE_S, eventually

from toehold.frontier.v1 import crawl_pb2, frontier_pb2

NODES = tuple(f"node{number}" for number in range(4))
HOLDER = "holder"


def whole_statistics(stubs: Stubs) -> crawl_pb2.Statistics:
    """The statistics of the crawl, once no shard is away: of one that is, they have counts of before."""

    def found() -> crawl_pb2.Statistics | None:
        statistics = stubs.statistics(CRAWL)
        return None if "is away" in statistics.limited_by else statistics

    return eventually(found, "all shards of the crawl")


class SplitCrawl:
    """A crawl of so many pages, its fetchers, and the leases that are out while its frontier is split."""

    def __init__(self, pages: int) -> None:
        self.pages = pages
        self._fetchers = Fetchers(None, pages)  # type: ignore[arg-type]  # known where they begin
        self._held: list[frontier_pb2.Lease] = []

    def begin(self, stubs: Stubs, address: str) -> None:
        """Launch it, let half of its pages be fetched at an address, and lease some more."""
        scope = crawl_pb2.ScopeSpec(accept_patterns=[r"http://www\.site[0-9]+\.example/.*"])
        stubs.create(CRAWL, spec(DELAY_S, scope=scope))
        stubs.ask("AddSeedBatch", CRAWL, uris=[uri(0)])
        stubs.ask("LaunchCrawl", CRAWL)
        self._fetch(address, self.pages // 2)
        asked = next_request(CRAWL, 10, 1, HOLDER, f"session of {HOLDER}")
        leases = stubs.frontier.Next(asked, timeout=PATIENCE_S).leases
        self._held = [lease for lease in leases if lease.purpose == frontier_pb2.PURPOSE_PAGE]
        assert self._held

    def end(self, stubs: Stubs, address: str) -> None:
        """Report these leases, let the other pages be fetched, and check that each page counts once."""
        fetchers = self._fetchers
        fetchers.stubs = stubs
        before = fetchers.done.total()
        for lease in self._held:
            fetchers._fetched(lease, HOLDER)
        assert fetchers.done.total() == before + len(self._held), "the leases count no more"
        self._fetch(address)
        statistics = whole_statistics(stubs)
        assert (statistics.succeeded_count, statistics.queued_count) == (self.pages, 0)
        assert statistics.discovered_count == self.pages
        check(fetchers, self.pages)

    def check_log(self, lines: Iterable[str]) -> None:
        """Check that its log has each page once."""
        pages = [page for page in (line.split()[3] for line in lines) if not page.endswith("/robots.txt")]
        assert sorted(pages) == sorted(map(uri, range(self.pages)))

    def _fetch(self, address: str, enough: int = 0) -> None:
        """Let fetchers work until so many pages are done, or the crawl has ended."""
        fetchers = self._fetchers
        with grpc.insecure_channel(address, RECONNECT) as channel:
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
