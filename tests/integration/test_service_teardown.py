"""TearDownCrawl: a crawl ends and leaves memory, once however many ask; what is stored of it stays."""

import gc
import threading
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from frontier_harness.calls import PRECONDITION, TIMEOUT_S, Stubs, refused, released, report
from frontier_harness.every_rpc import CHANGING, READING, ask
from frontier_harness.held_store import HeldStore
from frontier_harness.hosted import Hosted, hosted
from frontier_harness.stillness import still
from frontier_harness.waiting import eventually

from toehold.frontier.v1 import admin_pb2, frontier_pb2

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


def test_a_torn_down_crawl_refuses_each_change(torn: Hosted, store: HeldStore) -> None:
    with still(torn, store):
        for rpc in CHANGING:
            call = partial(ask, torn.stubs, rpc, "t")
            problem = refused(call, PRECONDITION, "CRAWL_TORN_DOWN", "'t'", "torn down")
            assert problem.metadata == {"crawl": "t", "state": "FINISHED"}, rpc


def test_a_torn_down_crawl_answers_questions_and_writes_nothing(torn: Hosted, store: HeldStore) -> None:
    with still(torn, store):
        for rpc in READING:
            ask(torn.stubs, rpc, "t")


def test_memory_lets_go_of_it(at: Hosted) -> None:
    furnished(at.stubs)
    crawl = at.look(lambda core: weakref.ref(core.shard.registry.named("t")))
    tear_down(at.stubs)
    until_torn_down(at.stubs)
    gc.collect()
    assert crawl() is None
    assert at.look(lambda core: (len(core.shard.registry.crawls), len(core.shard.registry))) == (0, 1)
