"""TearDownCrawl: a crawl ends and leaves memory, once however many ask; what is stored of it stays."""

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from core_doubles.rows import all_rows_of, nothing_is_left_of
from frontier_harness.calls import (
    FINISH,
    HOLD,
    PAUSE,
    PRECONDITION,
    RUN,
    TIMEOUT_S,
    Stubs,
    named,
    refused,
    released,
    report,
    seconds,
    spec,
)
from frontier_harness.every_rpc import CHANGING, READING, ask
from frontier_harness.held_store import HeldStore
from frontier_harness.hosted import Hosted, hosted
from frontier_harness.stillness import still
from frontier_harness.waiting import eventually

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

A, B = "http://a.example/", "http://b.example/"


@pytest.fixture
def store() -> HeldStore:
    return HeldStore()


@pytest.fixture
def at(store: HeldStore, tmp_path: Path) -> Iterator[Hosted]:
    with hosted(store, tmp_path) as made:
        yield made


def tear_down(stubs: Stubs, crawl: str = "t") -> admin_pb2.TearDownCrawlResponse:
    answer: admin_pb2.TearDownCrawlResponse = stubs.ask("TearDownCrawl", crawl)
    return answer


def until_torn_down(stubs: Stubs, crawl: str = "t") -> None:
    eventually(lambda: stubs.describe(crawl).status.torn_down)


def told(stubs: Stubs) -> list[str]:
    """What happened to the crawl, in a word each, but for its statistics and nodes."""
    words = [named(event) for event in stubs.events_so_far("t")]
    return [word for word in words if word not in ("statistics", "node_joined", "node_left")]


def furnished(stubs: Stubs) -> frontier_pb2.Lease:
    """Crawl `t` with a bit of everything: URIs that wait, a job, an override; its first page."""
    stubs.launch("t", A, B)
    leases = stubs.pages("t")
    while len(leases) < 2:
        leases += stubs.pages("t")
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


# From every state.


def nascent(stubs: Stubs) -> None:
    stubs.create("t")
    stubs.seed("t", A)


def running(stubs: Stubs) -> None:
    stubs.launch("t", A)


def empty(stubs: Stubs) -> None:
    stubs.launch("t", A, of=spec(run_while_empty=True))
    stubs.finish(*(report(lease) for lease in stubs.pages("t")))


def paused(stubs: Stubs) -> None:
    running(stubs)
    stubs.request("t", PAUSE)


def held(stubs: Stubs) -> None:
    running(stubs)
    stubs.request("t", HOLD)
    eventually(lambda: stubs.describe("t").status.held)


def finished(stubs: Stubs) -> None:
    running(stubs)
    stubs.request("t", FINISH)


ENDS = ["STOPPING", "FINISHED", "torn_down"]


@pytest.mark.parametrize(
    ("before", "follows", "exit_status"),
    [
        (nascent, ["FINISHED", "torn_down"], "ABORTED"),
        (running, ENDS, "ABORTED"),
        (empty, ENDS, "ABORTED"),
        (paused, ENDS, "ABORTED"),
        (held, ["released", *ENDS], "ABORTED"),
        (finished, ["torn_down"], "ABORTED"),
    ],
)
def test_a_crawl_is_torn_down_from_any_state(
    at: Hosted, before: Callable[[Stubs], None], follows: list[str], exit_status: str
) -> None:
    """S0.25: stopped, if need be, and then let go of."""
    stubs = at.stubs
    before(stubs)
    assert tear_down(stubs).begun
    until_torn_down(stubs)
    words = told(stubs)
    assert words[words.index("by teardown") :] == ["by teardown", *follows]
    status = stubs.describe("t").status
    assert status.state == crawl_pb2.CRAWL_STATE_FINISHED and status.tearing_down and not status.held
    assert crawl_pb2.ExitStatus.Name(status.exit_status) == f"EXIT_STATUS_{exit_status}"


def test_a_crawl_that_ended_by_itself_keeps_how_it_ended(at: Hosted) -> None:
    """S0.24."""
    stubs = at.stubs
    stubs.launch("t", A)
    stubs.finish(*(report(lease) for lease in stubs.pages("t")))
    stubs.until("t", crawl_pb2.CRAWL_STATE_FINISHED)
    tear_down(stubs)
    until_torn_down(stubs)
    assert stubs.describe("t").status.exit_status == crawl_pb2.EXIT_STATUS_FINISHED


@pytest.mark.parametrize("before", ["RUNNING", "PAUSING", "STOPPING"])
def test_with_something_in_flight_it_is_completed_later_by_the_frontier(at: Hosted, before: str) -> None:
    """S0.26: nobody has to wait for it, or to ask again."""
    stubs = at.stubs
    running(stubs)
    (lease,) = stubs.pages("t")
    if before != "RUNNING":
        stubs.request("t", PAUSE if before == "PAUSING" else FINISH)
    answer = tear_down(stubs)
    assert answer.begun and answer.status.tearing_down and not answer.status.torn_down
    assert answer.status.state == crawl_pb2.CRAWL_STATE_STOPPING
    assert stubs.describe("t").status == answer.status
    assert stubs.next("t").empty_reason == frontier_pb2.EMPTY_REASON_FINISHED
    assert stubs.finish(report(lease)) == [("SUCCEEDED", False)]
    until_torn_down(stubs)
    assert told(stubs)[-2:] == ["FINISHED", "torn_down"]
    assert stubs.statistics("t").succeeded_count == 1


def test_of_a_crawl_that_stops_it_is_a_second_stop(at: Hosted) -> None:
    """S0.28: it interrupts fetches."""
    stubs = at.stubs
    running(stubs)
    (lease,) = stubs.pages("t")
    stubs.request("t", FINISH)
    assert not stubs.heartbeat([lease.token]).interrupt_tokens
    tear_down(stubs)
    assert list(stubs.heartbeat([lease.token]).interrupt_tokens) == [lease.token]


def test_a_lost_node_does_not_keep_it_from_being_completed(store: HeldStore, tmp_path: Path) -> None:
    with hosted(store, tmp_path, lease_ms=60_000) as at:
        stubs = at.stubs
        stubs.launch("t", A, of=spec(stop_timeout=seconds(1)))
        stubs.pages("t")
        tear_down(stubs)
        until_torn_down(stubs)
        assert told(stubs)[-4:] == ["STOPPING", "flights_cancelled", "FINISHED", "torn_down"]
        assert dict(stubs.statistics("t").fetch_status_counts) == {-7000: 1}


def test_it_waits_for_the_crawl_log(store: HeldStore, tmp_path: Path) -> None:
    with hosted(store, tmp_path, logs=False) as at:
        stubs = at.stubs
        running(stubs)
        (lease,) = stubs.pages("t")
        stubs.schedule("t", f"{A}more")
        stubs.finish(report(lease))
        tear_down(stubs)
        eventually(lambda: at.look(lambda core: not core.upkeep.has_work), "its queues to leave memory")
        assert told(stubs)[-1] == "FINISHED" and not stubs.describe("t").status.torn_down
        at.write_logs()
        until_torn_down(stubs)
        log = at.served.logs.path("t").read_text()
        assert sorted(line.split()[3] for line in log.splitlines()) == [A, f"{A}robots.txt"]


def test_its_jobs_end_before_it_does(at: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    stubs = at.stubs
    running(stubs)
    stubs.schedule("t", *(f"{A}{number}" for number in range(1000)))
    monkeypatch.setattr("frontier_server.runner.MIN_PAUSE_S", 1.0)
    monkeypatch.setattr("frontier_server.runner.MAX_PAUSE_S", 1.0)
    job = stubs.ask("StartJob", "t", delete_uris={"queue_pattern": ".*", "uri_pattern": ".*"}).job.job
    tear_down(stubs)
    until_torn_down(stubs)
    ended: admin_pb2.Job = stubs.ask("GetJob", "t", job=job).job
    assert ended.state == admin_pb2.JOB_STATE_CANCELLED
    assert told(stubs)[-4:] == ["STOPPING", "FINISHED", "job_ended", "torn_down"]


# However many ask.


def test_it_is_done_once_however_often_it_is_asked_for(at: Hosted) -> None:
    stubs = at.stubs
    running(stubs)
    assert [tear_down(stubs).begun for _ in range(3)] == [True, False, False]
    until_torn_down(stubs)
    answer = tear_down(stubs)
    assert (answer.begun, answer.status.torn_down) == (False, True)
    assert told(stubs).count("by teardown") == told(stubs).count("torn_down") == 1


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


def test_asked_for_again_after_a_restart_it_is_still_done_once(store: HeldStore, tmp_path: Path) -> None:
    with hosted(store, tmp_path, logs=False) as at:
        running(at.stubs)
        (lease,) = at.stubs.pages("t")
        assert tear_down(at.stubs).begun
    with hosted(store, tmp_path) as at:
        stubs = at.stubs
        assert stubs.describe("t").status.tearing_down
        assert not tear_down(stubs).begun
        assert stubs.finish(report(lease)) == [("SUCCEEDED", False)]
        until_torn_down(stubs)
        assert told(stubs).count("torn_down") == told(stubs).count("by teardown") == 1


# What is left of it.


@pytest.fixture(params=["at once", "after a restart"])
def torn(store: HeldStore, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Hosted]:
    """The furnished crawl, torn down."""
    with hosted(store, tmp_path) as made:
        furnished(made.stubs)
        tear_down(made.stubs)
        until_torn_down(made.stubs)
        if request.param == "at once":
            yield made
            return
    with hosted(store, tmp_path) as made:
        yield made


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


@pytest.mark.parametrize("target", [RUN, PAUSE, HOLD])
def test_nothing_leads_out_of_it(
    torn: Hosted, store: HeldStore, target: crawl_pb2.TargetState.ValueType
) -> None:
    with still(torn, store):
        problem = refused(
            lambda: torn.stubs.request("t", target), PRECONDITION, "ILLEGAL_STATE", "FINISHED", "'t'"
        )
        assert problem.metadata["state"] == "FINISHED"
        refused(lambda: ask(torn.stubs, "LaunchCrawl", "t"), PRECONDITION, "ILLEGAL_STATE", "FINISHED")
        assert torn.stubs.request("t", FINISH).torn_down  # so already


def test_nodes_hear_that_it_has_finished(torn: Hosted, store: HeldStore) -> None:
    stubs = torn.stubs
    with still(torn, store):
        assert stubs.next("t").empty_reason == frontier_pb2.EMPTY_REASON_FINISHED
        assert stubs.next("t", wait_s=60).empty_reason == frontier_pb2.EMPTY_REASON_FINISHED
        assert stubs.next().empty_reason == frontier_pb2.EMPTY_REASON_NO_CRAWL


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


def test_all_that_can_be_read_of_it_is_what_it_was(at: Hosted, store: HeldStore, tmp_path: Path) -> None:
    stubs = at.stubs
    furnished(stubs)
    stubs.request("t", FINISH)
    eventually(lambda: at.look(lambda core: not core.upkeep.has_work), "its queues to leave memory")
    eventually(lambda: at.look(lambda core: core.shard.crawls[1].logged), "its log")
    before = {rpc: readable(stubs, rpc) for rpc in READING}
    tear_down(stubs)
    until_torn_down(stubs)
    assert {rpc: readable(stubs, rpc) for rpc in READING} == before


def readable(stubs: Stubs, rpc: str) -> Any:
    """What an RPC tells of the crawl, but for where it is in its life and what follows from the time."""
    answer: Any = ask(stubs, rpc, "t")
    match rpc:
        case "StateEvents":
            events = stubs.events("t")
            return events[: [named(event) for event in events].index("FINISHED") + 1]
        case "GetCrawl":
            answer.crawl.ClearField("status")
        case "GetStatistics":
            answer.ClearField("status")
            for field in ("snapshot_time", "succeeded_per_second", "bytes_per_second", "deepest_queue_count"):
                answer.statistics.ClearField(field)
        case "ListLargestQueues":  # of those that memory knows
            return None
    return answer


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
    assert told(stubs)[:4] == ["by create", "NASCENT", "by add-seeds", "by launch"]
    (lease,) = stubs.pages("t")
    assert (lease.uri, lease.etag) == (A, "")  # nothing of the first one is known
    assert not stubs.describe("t").status.tearing_down


def test_a_host_that_it_shared_is_free_for_others(at: Hosted) -> None:
    stubs = at.stubs
    stubs.launch("t", A, of=spec(stop_timeout=seconds(1)))
    stubs.pages("t")
    stubs.launch("u", A)
    assert not stubs.next("u").leases
    tear_down(stubs)
    until_torn_down(stubs)
    assert stubs.next("u", wait_s=TIMEOUT_S).leases
