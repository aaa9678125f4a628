"""TearDownCrawl: a crawl ends and leaves memory, once however many ask; what is stored of it stays."""

import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import grpc
import pytest
from core_doubles.rows import all_rows_of, nothing_is_left_of
from frontier_harness.calls import PRECONDITION, TIMEOUT_S, Stubs, refused, released, report
from frontier_harness.every_rpc import CHANGING, READING, ask
from frontier_harness.held_store import HeldStore
from frontier_harness.hosted import Hosted, hosted
from frontier_harness.stillness import still
from frontier_harness.waiting import eventually

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

A, B = "http://a.example/", "http://b.example/"


def tear_down(stubs: Stubs, crawl: str = "t") -> admin_pb2.TearDownCrawlResponse:
    answer: admin_pb2.TearDownCrawlResponse = stubs.ask("TearDownCrawl", crawl)
    return answer


def until_torn_down(stubs: Stubs, crawl: str = "t") -> None:
    eventually(lambda: stubs.describe(crawl).status.torn_down)


def furnished(stubs: Stubs) -> frontier_pb2.Lease:
    """Crawl `t` with a bit of everything: URIs that wait, a job, an override; its first page."""
    stubs.launch("t", A, B)
    leases = stubs.pages("t", least=2)
    fetched, other = sorted(leases, key=lambda lease: lease.uri)
    later = frontier_pb2.Candidate(uri=f"{A}later", path="L")
    later.not_before_time.FromSeconds(4_000_000_000)
    request = frontier_pb2.ScheduleRequest(crawl="t", candidates=[later])
    stubs.frontier.Schedule(request, timeout=TIMEOUT_S)
    stubs.schedule("t", f"{A}more")
    stubs.ask("PutOverride", "t", override={"surt_prefix": B, "settings": {"retry": {"max_attempts": 3}}})
    stubs.job("t", verify={})
    stubs.finish(report(fetched, etag='"1"'), released(other))
    return fetched


def test_with_something_in_flight_it_is_completed_later_by_the_frontier(at: Hosted) -> None:
    """S0.26: nobody has to wait for it, or to ask again."""
    stubs = at.stubs
    stubs.launch("t", A)
    (lease,) = stubs.pages("t")
    answer = tear_down(stubs)
    assert answer.begun and answer.status.tearing_down and not answer.status.torn_down
    assert answer.status.state == crawl_pb2.CRAWL_STATE_STOPPING
    assert stubs.describe("t").status == answer.status
    assert not tear_down(stubs).begun
    assert stubs.next("t").empty_reason == frontier_pb2.EMPTY_REASON_FINISHED
    assert stubs.finish(report(lease)) == [("SUCCEEDED", False)]
    until_torn_down(stubs)
    assert stubs.told("t")[-2:] == ["FINISHED", "torn_down"]
    assert stubs.statistics("t").succeeded_count == 1


def test_it_waits_for_the_crawl_log(store: HeldStore, tmp_path: Path) -> None:
    with hosted(store, tmp_path, logs=False) as at:
        stubs = at.stubs
        stubs.launch("t", A)
        (lease,) = stubs.pages("t")
        stubs.schedule("t", f"{A}more")
        stubs.finish(report(lease))
        tear_down(stubs)
        eventually(lambda: at.look(lambda core: not core.upkeep.has_work), "its queues to leave memory")
        assert stubs.told("t")[-1] == "FINISHED" and not stubs.describe("t").status.torn_down
        at.write_logs()
        until_torn_down(stubs)
        log = at.served.logs.path("t").read_text()
        assert sorted(line.split()[3] for line in log.splitlines()) == [A, f"{A}robots.txt"]


def test_of_many_who_ask_at_once_one_begins_it(at: Hosted) -> None:
    """S0.30, S0.31."""
    stubs = at.stubs
    for number in range(5):
        crawl = f"t{number}"
        stubs.launch(crawl, A)
        begun: list[bool] = []
        together = threading.Barrier(8)

        def ask_once(crawl: str = crawl, begun: list[bool] = begun, together: Any = together) -> None:
            together.wait(TIMEOUT_S)
            begun.append(tear_down(stubs, crawl).begun)

        threads = [threading.Thread(target=ask_once, daemon=True) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(TIMEOUT_S)
        assert sorted(begun) == [False] * 7 + [True]
        until_torn_down(stubs, crawl)
        kinds = [event.WhichOneof("kind") for event in stubs.events(crawl)]
        assert kinds.count("torn_down") == 1 and kinds[-1] == "torn_down"


@pytest.fixture
def torn(at: Hosted) -> Hosted:
    """The furnished crawl, torn down."""
    furnished(at.stubs)
    tear_down(at.stubs)
    until_torn_down(at.stubs)
    return at


@pytest.mark.parametrize("rpc", CHANGING)
def test_what_would_change_it_is_refused(torn: Hosted, store: HeldStore, rpc: str) -> None:
    with still(torn, store):
        problem = refused(
            lambda: ask(torn.stubs, rpc, "t"), PRECONDITION, "CRAWL_TORN_DOWN", "'t'", "torn down"
        )
        assert problem.metadata == {"crawl": "t", "state": "FINISHED"}


@pytest.mark.parametrize("rpc", READING)
def test_what_looks_at_it_is_answered_and_writes_nothing(torn: Hosted, store: HeldStore, rpc: str) -> None:
    with still(torn, store):
        ask(torn.stubs, rpc, "t")


def test_its_leases_have_ended(at: Hosted) -> None:
    """DISPOSITION_STALE: its crawl is gone."""
    fetched = furnished(at.stubs)
    tear_down(at.stubs)
    until_torn_down(at.stubs)
    assert at.stubs.finish(report(fetched)) == [("STALE", False)]
    assert list(at.stubs.heartbeat([fetched.token]).ended_tokens) == [fetched.token]


def test_it_is_listed_among_those_that_live(torn: Hosted) -> None:
    for name in ("s", "u"):
        torn.stubs.create(name)
    listing = torn.stubs.admin.ListCrawls(admin_pb2.ListCrawlsRequest(), timeout=TIMEOUT_S).crawls
    assert [(crawl.crawl, crawl.status.torn_down) for crawl in listing] == [
        ("s", False),
        ("t", True),
        ("u", False),
    ]
    assert listing[1] == torn.stubs.describe("t")
    refused(
        lambda: torn.stubs.create("t"),
        grpc.StatusCode.ALREADY_EXISTS,
        "CRAWL_EXISTS",
        "'t'",
    )


def test_memory_lets_go_of_it(at: Hosted) -> None:
    furnished(at.stubs)
    crawl = at.look(lambda core: weakref.ref(core.shard.registry.named("t")))
    tear_down(at.stubs)
    until_torn_down(at.stubs)
    gc.collect()
    assert crawl() is None
    assert at.look(lambda core: (len(core.shard.registry.crawls), len(core.shard.registry))) == (0, 1)


def test_it_is_deleted_with_all_its_rows_and_files_and_its_name_is_free(
    torn: Hosted, store: HeldStore
) -> None:
    stubs = torn.stubs
    assert torn.look(lambda _: all_rows_of(store, 1))
    ask(stubs, "DeleteCrawl", "t")
    refused(lambda: stubs.describe("t"), grpc.StatusCode.NOT_FOUND, "UNKNOWN_CRAWL", "'t'")
    assert not (torn.data / "crawls" / "t").exists()
    stubs.launch("t", A)
    eventually(lambda: torn.look(lambda _: nothing_is_left_of(store, 1)), "the last row to go")
    assert stubs.statistics("t").discovered_count == 1
    assert stubs.told("t")[:4] == ["by create", "NASCENT", "by add-seeds", "by launch"]
    (lease,) = stubs.pages("t")
    assert (lease.uri, lease.etag) == (A, "")  # nothing of the first one is known
    assert not stubs.describe("t").status.tearing_down
