"""DeleteCrawl: gone at once, its rows little by little, whatever interrupts that; and nothing is left."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from core_doubles.rows import all_rows_of, nothing_is_left_of
from frontier_harness import slow_program
from frontier_harness.calls import (
    FINISH,
    TIMEOUT_S,
    Stubs,
    candidates,
    refused,
    report,
    seconds,
    seed_of,
    spec,
)
from frontier_harness.held_store import HeldStore
from frontier_harness.hosted import Hosted
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import eventually

from frontier_server.core.rows.store import Changes, Family
from frontier_server.stores.rocks import RocksStore
from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

ROWS_PER_SLICE = 500


class ReadStore(HeldStore):
    """Knows how many rows were read by scans before each write."""

    def __init__(self) -> None:
        super().__init__()
        self.begin()

    def begin(self) -> None:
        """Count from now on."""
        self.read: list[int] = []
        self._reading = 0

    def scan(self, family: Family, start: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        for row in super().scan(family, start, prefix):
            self._reading += 1
            yield row

    def write(self, changes: Changes) -> None:
        super().write(changes)
        self.read.append(self._reading)
        self._reading = 0


@pytest.fixture
def store() -> ReadStore:
    return ReadStore()


def fill(stubs: Stubs, crawl: str, uris: int, of: crawl_pb2.CrawlSpec | None = None) -> None:
    """A crawl with so many URIs that wait, and rows of every other kind; it has been stopped."""
    stubs.launch(crawl, seed_of(crawl, "a."), seed_of(crawl, "b."), of=of)
    leases = stubs.pages(crawl, least=2)
    later = frontier_pb2.Candidate(uri=f"{seed_of(crawl, 'a.')}later", path="L")
    later.not_before_time.FromSeconds(4_000_000_000)
    stubs.frontier.Schedule(frontier_pb2.ScheduleRequest(crawl=crawl, candidates=[later]), timeout=TIMEOUT_S)
    for start in range(0, uris, 1000):
        last = min(start + 1000, uris)
        stubs.schedule(crawl, *(f"{seed_of(crawl, 'a.')}{number}" for number in range(start, last)))
    stubs.ask(
        "PutOverride",
        crawl,
        override={"surt_prefix": "a.example", "settings": {"retry": {"max_attempts": 3}}},
    )
    stubs.bring(crawl, *(admin_pb2.ImportEntry(candidate=each) for each in candidates(seed_of(crawl, "a."))))
    stubs.finish(*(report(lease, peer_address="192.0.2.1") for lease in leases))
    stubs.request(crawl, FINISH)
    stubs.until(crawl, crawl_pb2.CRAWL_STATE_FINISHED)


def delete(stubs: Stubs, crawl: str) -> None:
    stubs.ask("DeleteCrawl", crawl)
    refused(lambda: stubs.describe(crawl), grpc.StatusCode.NOT_FOUND, "UNKNOWN_CRAWL")


def test_it_goes_in_small_parts_and_others_are_served_between_them(
    at: Hosted, store: ReadStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    stubs = at.stubs
    fill(stubs, "t", 4000)
    stubs.launch("other", "http://other.example/")
    rows = len(at.look(lambda _: all_rows_of(store, 1)))
    assert rows > 8000
    mark = len(store.written)
    store.begin()
    monkeypatch.setattr("frontier_server.shell.runner.MIN_PAUSE_S", 1.0)
    monkeypatch.setattr("frontier_server.shell.runner.MAX_PAUSE_S", 1.0)
    delete(stubs, "t")
    for served in range(2):
        stubs.schedule("other", f"http://other.example/{served}")
    assert at.look(lambda core: core.upkeep.has_work)
    monkeypatch.undo()
    served = 2
    while at.look(lambda core: core.upkeep.has_work):
        stubs.schedule("other", f"http://other.example/{served}")
        served += 1
    assert at.look(lambda _: nothing_is_left_of(store, 1))
    assert stubs.statistics("other").discovered_count == served + 1
    parts = [len(changes) for changes in store.written[mark:]]
    assert sum(parts) > rows and max(parts) <= ROWS_PER_SLICE + 2  # and how far it has come
    assert ROWS_PER_SLICE <= max(store.read) <= ROWS_PER_SLICE + 2  # so that memory does not grow with it


def test_its_name_is_free_before_its_rows_are_gone(
    at: Hosted, store: HeldStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    stubs = at.stubs
    fill(stubs, "t", 4000)
    monkeypatch.setattr("frontier_server.shell.runner.MIN_PAUSE_S", 1.0)
    monkeypatch.setattr("frontier_server.shell.runner.MAX_PAUSE_S", 1.0)
    delete(stubs, "t")
    stubs.create("t")
    assert not at.look(lambda _: nothing_is_left_of(store, 1))
    assert stubs.seed("t", seed_of("t")).added_count == 1
    assert stubs.describe("t").seed_count == 1
    assert [event.sequence for event in stubs.events_so_far("t")] == [1, 2, 3]
    monkeypatch.undo()
    eventually(lambda: at.look(lambda _: nothing_is_left_of(store, 1)), "the last row to go")
    assert at.look(lambda _: all_rows_of(store, 2))


def test_hosts_that_only_it_knew_go_with_it_and_shared_ones_stay(at: Hosted, store: HeldStore) -> None:
    """Rests of its own (PolitenessSpec.across_crawls), of its groups, and of addresses."""
    stubs = at.stubs
    own = spec(
        groups=[crawl_pb2.HostGroup(name="g", hosts=["a.t.example"], min_gap=seconds(0.01))],
        address_group=crawl_pb2.AddressGroupSpec(max_parallel=1, min_gap=seconds(0.01)),
    )
    own.politeness.across_crawls = False
    fill(stubs, "t", 10, own)
    fill(stubs, "shares", 10)
    assert hosts_of(at, store) > 4
    delete(stubs, "t")
    eventually(lambda: at.look(lambda _: nothing_is_left_of(store, 1)), "the last row to go")
    assert hosts_of(at, store) == 2


def hosts_of(at: Hosted, store: HeldStore) -> int:
    """How many rows hosts and groups of hosts have, of all crawls."""
    families = (Family.HOSTS, Family.OWN_HOSTS)
    return at.look(lambda _: sum(len(list(store.scan(family, b"", b""))) for family in families))


# Interrupted, by `kill -9`.

URIS = 8_000


@pytest.mark.undivided("looks into the store")
def test_a_deletion_goes_on_after_each_kill_until_nothing_is_left(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ServerProcess(data) as server:
        fill(server.stubs, "t", URIS)
        fill(server.stubs, "kept", 10)
        before = server.stubs.describe("kept"), server.stubs.events("kept")
        server.stop()
    rows = [stored(data)]
    assert rows[0] > 2 * URIS
    slow = (slow_program.__file__, "0.3")  # so that a deletion outlives a test that is kept waiting
    with ServerProcess(data, program=slow) as server:
        delete(server.stubs, "t")
        server.kill()
    rows.append(stored(data))
    kills = 1
    while rows[-1]:
        with ServerProcess(data, program=slow if kills < 3 else ("-m", "frontier_server")) as server:
            refused(lambda: server.stubs.describe("t"), grpc.StatusCode.NOT_FOUND, "UNKNOWN_CRAWL")
            listing = server.stubs.admin.ListCrawls(admin_pb2.ListCrawlsRequest(), timeout=TIMEOUT_S)
            assert [crawl.crawl for crawl in listing.crawls] == ["kept"]
            assert (server.stubs.describe("kept"), server.stubs.events("kept")) == before
            assert not (data / "crawls" / "t").exists()
            server.kill()
        rows.append(stored(data))
        assert rows[-1] <= rows[-2], "rows are back"
        kills += 1
    assert kills >= 3, rows
    with ServerProcess(data) as server:
        assert (server.stubs.describe("kept"), server.stubs.events("kept")) == before
        assert server.stubs.job("kept", verify={}).changed_count == 0
        fill(server.stubs, "t", 10)
        assert server.stubs.statistics("t").discovered_count == 13
        server.stop()


def stored(data: Path) -> int:
    """How many rows of the first crawl are on the disk, none being served."""
    store = RocksStore(data / "store", read_only=True)
    try:
        return len(all_rows_of(store, 1))
    finally:
        store.close()
