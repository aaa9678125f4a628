"""Metrics of the logs of stores: of a store, and of a machine of a cluster."""

import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from frontier_harness.buckets import Fault
from frontier_harness.calls import fresh_name, refused
from frontier_harness.descendants import stopped
from frontier_harness.metrics import Page, page_at
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import eventually
from integration import logged_machines
from integration.logged_machines import Fleet, flushed, write

from frontier_server.metrics.definitions import LOG_EPOCH, OF_LOGS
from frontier_server.stores.log_facts import LogFacts

LOG = "toehold_frontier_log"
STORES = ("coordinator", "0", "1")

fleet = logged_machines.fleet

# A store.


def test_a_store_tells_what_its_log_has_and_took(fleet: Fleet) -> None:
    machine = fleet.machine()
    store = machine.open()
    assert store.facts(now_ms=1) == LogFacts(0, 0.0, 0.0, 0, 1, 1, False, 0.0, None, store.facts(1).requests)

    def takes(seconds: float) -> None:
        fleet.clock.now_s += seconds

    flushed(store, 1)
    machine.sees.at("create", lambda: takes(0.5))
    flushed(store, 2)
    facts = store.facts(now_ms=1)
    assert (facts.appends, facts.append_s, facts.append_quantile_s) == (2, 0.5, 0.5)
    assert (facts.tail_records, facts.epoch, facts.replica_age_s) == (3, 1, None)
    assert facts.tail_rows > 0
    machine.replicate()
    facts = store.facts(now_ms=2_502)
    assert (facts.appends, facts.tail_rows, facts.replica_age_s) == (2, 0, 2.5)
    assert store.facts(now_ms=1).replica_age_s == 0, "the clock of another machine may be behind"


def test_a_store_whose_flush_waits_tells_for_how_long(fleet: Fleet) -> None:
    machine = fleet.machine()
    flushed(machine.open(), 1)
    told = []

    def look() -> None:
        fleet.clock.now_s += 4.0
        told.append(machine.store.facts(1))

    write(machine.store, 2)
    machine.sees.at("create", look, Fault.REFUSED, look)
    machine.sees.at("get", Fault.REFUSED)
    machine.store.flush()
    assert [(facts.waiting_s, facts.appends) for facts in told] == [(4.0, 1)]
    assert machine.store.facts(1).waiting_s == 0


def test_a_store_that_was_restored_says_so(fleet: Fleet) -> None:
    first, second = fleet.machine(), fleet.machine()
    flushed(first.open(), 1)
    assert not first.store.facts(1).is_restored, "it is new"
    assert not first.open().facts(1).is_restored, "it was there"
    assert second.open().facts(1).is_restored
    flushed(second.store, 2)
    second.replicate()
    first.lose()
    assert first.open().facts(1).is_restored
    assert first.store.facts(1).epoch > second.store.facts(1).epoch


# A machine.


@contextmanager
def machine_of(folder: Path) -> Iterator[ServerProcess]:
    """A machine of a cluster, with metrics and two shards. Its log lives on."""
    log = "--log", f"file://{folder}/bucket", "--machine", "one", "--renew-seconds", "0.2"
    with ServerProcess(folder / "data", *log, "--shards", "2", "--metrics", "127.0.0.1:0") as machine:
        yield machine


def page_of(machine: ServerProcess) -> Page:
    """Its metrics, of which one process alone tells where they are: the last one that has started."""
    lines = [json.loads(line) for line in machine.errors.read_text().splitlines() if line.startswith("{")]
    serving = [line for line in lines if "metrics" in line]
    assert {line["member"] for line in serving} == {"front"}
    return page_at(serving[-1]["metrics"])


def whole(machine: ServerProcess) -> Page | None:
    """Its metrics, once all stores tell of their logs."""
    page = page_of(machine)
    return page if page.sum(f"{LOG}_epoch") and len(epochs(page)) == len(STORES) else None


def epochs(page: Page) -> dict[str, float]:
    return {dict(at)["shard"]: value for (name, at), value in page.values.items() if name == LOG_EPOCH.name}


def test_the_front_of_a_machine_shows_the_log_of_each_store(tmp_path: Path) -> None:
    sites = [f"http://site-{number}.example/" for number in range(12)]
    with machine_of(tmp_path) as machine:
        machine.stubs.launch(fresh_name(), *sites)
        page = eventually(lambda: whole(machine), "all stores")
        for store in STORES:
            assert page.of(f"{LOG}_restored", shard=store) == 0
            assert (
                page.of(f"{LOG}_tail_records", shard=store)
                >= page.of(f"{LOG}_appends_total", shard=store)
                > 0
            )
            assert page.of(f"{LOG}_tail_rows", shard=store) > 0
            slow_s = page.of(f"{LOG}_append_quantile_seconds", shard=store, quantile="0.99")
            assert 0 < slow_s <= page.of(f"{LOG}_append_seconds_total", shard=store)
            assert page.of(f"{LOG}_requests_total", shard=store, kind="put") > 0
            assert page.of(f"{LOG}_waiting_seconds", shard=store) < 10
            assert page.of(f"{LOG}_epoch", shard=store) > 0
        machine.stop()
    before = epochs(page)
    shutil.rmtree(tmp_path / "data")
    with machine_of(tmp_path) as machine:
        page = eventually(lambda: whole(machine), "all stores")
        assert [page.of(f"{LOG}_restored", shard=store) for store in STORES] == [1, 1, 1]
        assert all(epochs(page)[store] > before[store] for store in STORES)


def test_calls_that_a_door_answers_are_among_the_metrics(tmp_path: Path) -> None:
    rpcs, seconds = "toehold_frontier_rpcs_total", "toehold_frontier_rpc_duration_seconds_count"
    with machine_of(tmp_path) as machine, ThreadPoolExecutor(1) as waiting:
        crawl, stubs = fresh_name(), machine.stubs
        stubs.launch(crawl, "http://site.example/")

        def counted() -> Page | None:
            """The metrics, once a call is counted of which the front hears nothing."""
            stubs.next(crawl, node="n")
            page = page_of(machine)
            return page if page.sum(rpcs, method="Next") else None

        before = eventually(counted, "calls of the door").sum(rpcs, method="Next")
        for _ in range(5):
            stubs.next(crawl, node="n")
        refused(lambda: stubs.next("no-such-crawl"), grpc.StatusCode.NOT_FOUND, "UNKNOWN_CRAWL")
        eventually(lambda: page_of(machine).sum(rpcs, method="Next", code="NOT_FOUND"), "the refused call")
        page = page_of(machine)
        assert page.sum(rpcs, method="Next") >= before + 6
        assert page.sum(seconds, method="Next") == page.sum(rpcs, method="Next")
        call = waiting.submit(stubs.next, crawl, node="m", wait_s=6)
        eventually(lambda: page_of(machine).of("toehold_frontier_next_waiting") == 1, "the open call")
        assert not call.result().leases
        eventually(lambda: page_of(machine).of("toehold_frontier_next_waiting") == 0, "the end of the call")


def test_a_machine_whose_storage_is_away_tells_for_how_long_logs_wait(tmp_path: Path) -> None:
    bucket, away = tmp_path / "bucket", tmp_path / "away"
    with machine_of(tmp_path) as machine:
        eventually(lambda: whole(machine), "all stores")
        with stopped(machine.child.pid):  # a claim would make the folder again
            bucket.rename(away)
            bucket.write_text("in the way of a new one")

        def all_wait() -> bool:
            page = whole(machine)
            return page is not None and all(page.of(f"{LOG}_waiting_seconds", shard=at) > 3 for at in STORES)

        eventually(all_wait, "all stores that wait")
        with stopped(machine.child.pid):
            bucket.unlink()
            away.rename(bucket)
        eventually(lambda: page_of(machine).sum(f"{LOG}_waiting_seconds") < 1, "an answer to all")
        eventually(lambda: whole(machine), "all stores")


def test_a_frontier_without_a_log_shows_no_values_of_one(tmp_path: Path) -> None:
    if "--log" in ServerProcess(tmp_path / "data")._command:
        pytest.skip("all frontiers of this run have a log")
    with ServerProcess(tmp_path / "data", "--shards", "2", "--metrics", "127.0.0.1:0") as server:
        page = page_of(server)
    assert not [name for name, _ in page.values if name.startswith(LOG)]
    assert {metric.name for metric in OF_LOGS} <= page.kinds.keys(), "they are named all the same"
