"""A crawl with 32 fetches in flight is paused, held, stopped, and stopped twice: nothing is given out once
that is acknowledged, and what is in flight is waited for, but not for ever.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator

import grpc
import pytest
from acceptance.outcomes import crawl_log, pages
from acceptance.programs import Programs
from faults.load import (
    FINISHED,
    LOOK_AHEAD,
    PAUSED,
    PAUSING,
    RUNNING,
    STOPPING,
    TOES,
    Asker,
    Load,
    impolite,
    told,
)
from faults.relay import Relay
from faults.slow_site import ROBOTS, SlowSite
from faults.stored import files_of, rows_of
from frontier_harness.calls import TIMEOUT_S, candidates, refused, schedule_request, seconds
from frontier_harness.waiting import PATIENCE_S, eventually

from toehold.frontier.v1 import crawl_pb2, frontier_pb2
from toehold_client import CrawlController, FrontierClient

HOSTS = TOES + LOOK_AHEAD + 8
"""More than the node can hold at once, so that there is always something to give to another."""

BOUND_S = 1.0
"""The shortest `pause_timeout` and `stop_timeout` that there are."""

LATE_S = 30.0
"""How late a busy machine may be."""

ASKED = 30
"""So many requests for leases that bring none are no accident: before, some of them did."""

BESIDE = ("statistics", "node_joined", "node_left", "seeds_concluded")
"""What is told beside a crawl's states and what was asked of it."""


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Load]:
    """A frontier with a node of 32 toes. Lease periods are long: no lease lapses by itself."""
    folder = tmp_path_factory.mktemp("load")
    with SlowSite(HOSTS) as site, Programs(folder) as programs:
        load = Load(programs, folder, site, "--lease-seconds", "20", "--heartbeat-seconds", "0.2")
        load.node()
        yield load
        load.close()


@pytest.fixture
def site(load: Load) -> Iterator[SlowSite]:
    """The site, whose pages are held. After the test the node has nothing to do."""
    load.site.hold()
    yield load.site
    load.site.let_go()
    for crawl in load.client.list_crawls():
        end(load, CrawlController(load.client, crawl.crawl))


def full(load: Load, crawl: str, **more: object) -> CrawlController:
    """A crawl whose node has a page in flight for every toe, none of which ends by itself."""
    controller = load.launch(crawl, **more)
    eventually(lambda: len(load.site.in_flight()) == TOES, "a page for every toe")
    return controller


def end(load: Load, controller: CrawlController) -> None:
    """Stops a crawl, and waits until all that it has begun is done."""
    load.site.let_go()
    controller.stop()
    controller.wait_for({FINISHED}, TIMEOUT_S)
    eventually(lambda: not load.site.in_flight(), "the last page")


def until_out(controller: CrawlController, count: int) -> None:
    """Waits until so many leases are out."""
    eventually(
        lambda: controller.statistics().statistics.leased_count == count,
        f"{count} leases to be out",
    )


def test_a_pause_gives_out_nothing_more_and_is_reached_when_and_only_when_nothing_is_in_flight(
    load: Load, site: SlowSite
) -> None:
    """S0.15, S0.16."""
    crawl = full(load, "pause")
    with Asker(load.stubs, "pause") as asker:
        eventually(lambda: sum(asker.leases(0)), "leases for another node")
        assert crawl.pause().state == PAUSING
        acknowledged_s = time.monotonic()
        until_out(crawl, TOES)  # what was not started yet has been handed back
        *others, last = site.in_flight()
        site.let_go(others)
        until_out(crawl, 1)
        asked_s = time.monotonic()
        eventually(lambda: len(asker.leases(asked_s)) >= ASKED, "another node to ask")
        assert crawl.status().state == PAUSING
        site.let_go([last])
        assert crawl.wait_for({PAUSED}, TIMEOUT_S).state == PAUSED
        assert site.in_flight() == []
        paused_s = time.monotonic()
        eventually(lambda: len(asker.leases(paused_s)) >= ASKED, "another node to ask")
        assert not any(asker.leases(acknowledged_s))
        assert [visit for visit in site.log() if visit.start_s > acknowledged_s] == []

        site.hold()
        crawl.resume()
        resumed_s = time.monotonic()
        eventually(lambda: sum(asker.leases(resumed_s)), "leases for another node")
    eventually(lambda: len(site.in_flight()) == TOES, "a page for every toe again")
    end(load, crawl)
    states = ["PREPARING", "RUNNING", "pause", "PAUSING", "PAUSED", "resume", "RUNNING", "stop", "STOPPING"]
    assert told(crawl.events(), *BESIDE).words[3:] == ["launch", *states, "FINISHED"]
    assert impolite(site.log()) == []


def test_paused_and_resumed_again_and_again_a_crawl_keeps_quiet_and_its_rests(
    load: Load, site: SlowSite
) -> None:
    site.let_go()
    chance = random.Random(5)
    crawl = load.launch("again")
    began = len(site.log())
    for _ in range(5):
        asked = len(site.log()) + chance.randrange(20, 80)
        eventually(lambda asked=asked: len(site.log()) >= asked, "pages")  # type: ignore[misc]  # bound here
        crawl.pause()
        crawl.wait_for({PAUSED}, TIMEOUT_S)
        visited = len(site.log())
        assert site.in_flight() == []
        assert crawl.statistics().statistics.leased_count == 0
        heard = _heard(load)
        eventually(lambda heard=heard: _heard(load) > heard, "the node to be heard again")  # type: ignore[misc]
        assert len(site.log()) == visited
        crawl.resume()
    eventually(lambda: len(site.log()) >= visited + HOSTS, "pages after the last resume")
    end(load, crawl)
    log = site.log()[began:]
    assert impolite(log) == []
    asked_for = Counter((visit.host, visit.path) for visit in log if visit.path != ROBOTS)
    assert [page for page, count in asked_for.items() if count > 1] == []


def _heard(load: Load) -> int:
    """When the node was heard last."""
    (node,) = (node for node in load.client.get_frontier().nodes if node.node == "node")
    return node.last_seen_time.ToNanoseconds()


def test_a_pause_waits_for_slow_pages_up_to_its_bound_and_what_it_broke_off_is_fetched_again(
    load: Load, site: SlowSite
) -> None:
    crawl = full(load, "bound", pause_timeout=seconds(BOUND_S))
    hosts = set(site.in_flight())
    crawl.pause()
    crawl.wait_for({PAUSED}, BOUND_S + LATE_S)
    events = list(crawl.events())
    (cancelled,) = (event.flights_cancelled for event in events if event.HasField("flights_cancelled"))
    assert cancelled.bound == "pause_timeout" and cancelled.leased_count >= TOES
    story = told(events)
    assert BOUND_S <= story.time_s("PAUSED") - story.time_s("PAUSING") < BOUND_S + LATE_S
    statistics = crawl.statistics().statistics
    assert (statistics.leased_count, statistics.failed_count) == (0, 0)
    assert statistics.lapsed_count == cancelled.leased_count
    eventually(lambda: not site.in_flight(), "the node to break off what it need not finish")

    site.let_go()
    resumed_s = time.monotonic()
    crawl.resume()

    def again() -> set[str]:
        visits = [visit for visit in site.log() if visit.start_s > resumed_s and visit.path == "/"]
        return {visit.host for visit in visits if visit.end_s is not None}

    eventually(lambda: hosts <= again(), "the pages that were broken off")
    end(load, crawl)
    fetched = {site.page(host): 1 for host in hosts}
    eventually(lambda: fetched.items() <= _logged(load, "bound").items(), "lines of the crawl log")
    assert impolite(site.log()) == []


def test_pages_that_never_end_keep_a_crawl_from_its_end_no_longer_than_its_bound(
    load: Load, site: SlowSite
) -> None:
    """Not even if the frontier is killed in between."""
    crawl = full(load, "stop", stop_timeout=seconds(BOUND_S))
    hosts = site.in_flight()
    assert crawl.stop().state == STOPPING
    load.frontier.kill()
    load.start_frontier()
    crawl.wait_for({FINISHED}, BOUND_S + LATE_S)
    events = list(crawl.events())
    (cancelled,) = (event.flights_cancelled for event in events if event.HasField("flights_cancelled"))
    assert cancelled.bound == "stop_timeout"
    story = told(events)
    assert BOUND_S <= story.time_s("FINISHED") - story.time_s("STOPPING") < BOUND_S + LATE_S
    killed = _killed(load, "stop", cancelled.leased_count)
    assert killed.keys() >= {site.page(host) for host in hosts}
    assert crawl.status().exit_status == crawl_pb2.EXIT_STATUS_ABORTED
    statistics = crawl.statistics().statistics
    assert statistics.failed_count == cancelled.leased_count
    eventually(lambda: not site.in_flight(), "the node to break off what nobody wants")


def test_a_second_stop_has_nodes_break_off_what_they_fetch_and_the_crawl_ends_soon(
    load: Load, site: SlowSite
) -> None:
    """S0.17."""
    crawl = full(load, "nudge")
    hosts = site.in_flight()
    assert crawl.stop().state == STOPPING
    until_out(crawl, TOES)
    assert crawl.status().state == STOPPING and len(site.in_flight()) == TOES
    assert crawl.stop().state == STOPPING
    crawl.wait_for({FINISHED}, TIMEOUT_S)
    story = told(crawl.events(), *BESIDE)
    # Nothing had to be cancelled.
    assert story.words[-4:] == [
        "stop",
        "STOPPING",
        "interrupt",
        "FINISHED",
    ]
    assert _killed(load, "nudge", TOES) == {site.page(host): "node" for host in hosts}
    eventually(lambda: not site.in_flight(), "the site to see that they were broken off")
    cut = [visit.host for visit in site.log()[-TOES:] if visit.cut]
    assert sorted(cut) == sorted(hosts)


def _logged(load: Load, crawl: str) -> Counter[str]:
    """How often pages stand in the crawl log."""
    return Counter(line.url for line in pages(crawl_log(load.data / "crawls" / crawl / "crawl.log")))


def _killed(load: Load, crawl: str, count: int) -> dict[str, str]:
    """The pages, so many, that failed because their fetches were interrupted; which nodes said so."""
    file = load.data / "crawls" / crawl / "crawl.log"

    def failed() -> dict[str, str]:
        return {line.url: line.node for line in crawl_log(file) if line.status == -7000}

    eventually(lambda: len(failed()) >= count, "lines of the crawl log")
    found = failed()
    assert len(found) == count
    return found


@pytest.mark.undivided("looks into the store")
def test_a_crawl_that_is_held_stands_still_whatever_goes_on_around_it(load: Load, site: SlowSite) -> None:
    """S0.32: nothing of it is written between the event Held and the next one, through `kill -9` as well."""
    crawl = full(load, "held")
    assert crawl.hold().state == PAUSING
    site.let_go()
    eventually(lambda: told(crawl.events()).words[-1] == "held", "the crawl to stand still")
    rows, files = rows_of(load.data, "held"), files_of(load.data, "held")
    statistics = crawl.statistics().statistics
    assert crawl.status().held
    assert _logged(load, "held").total() == statistics.succeeded_count

    another = load.launch("another")
    visited = len(site.log())
    eventually(lambda: len(site.log()) >= visited + 2 * HOSTS, "pages of another crawl")
    offer = schedule_request("held", site.page(site.hosts[0], "/100"))
    refusal = refused(
        lambda: load.stubs.frontier.Schedule(offer, timeout=TIMEOUT_S),
        grpc.StatusCode.UNAVAILABLE,
        "CRAWL_HELD",
        "held",
    )
    assert refusal.retry_s is not None and refusal.retry_s > 0
    assert load.stubs.next("held", node="asker").empty_reason == frontier_pb2.EMPTY_REASON_PAUSED
    end(load, another)
    load.frontier.kill()
    load.start_frontier()
    assert crawl.status().held
    assert rows_of(load.data, "held") == rows
    assert files_of(load.data, "held") == files

    with (
        Relay(load.address, lose={}) as relay,
        FrontierClient(relay.address, patience_s=PATIENCE_S) as patient,
    ):
        verdicts: list[int] = []
        uris = candidates(site.page(site.hosts[0], "/100"))
        waiting = threading.Thread(target=lambda: verdicts.extend(patient.schedule("held", uris)))
        waiting.start()
        eventually(lambda: relay.refused["Schedule"] >= 2, "the client to try again")
        assert rows_of(load.data, "held") == rows
        crawl.resume()
        waiting.join(TIMEOUT_S)
    assert verdicts == [crawl_pb2.VERDICT_QUEUED]
    crawl.wait_for({RUNNING}, TIMEOUT_S)
    eventually(
        lambda: crawl.statistics().statistics.succeeded_count > statistics.succeeded_count, "more pages"
    )
    end(load, crawl)
    words = told(crawl.events(), *BESIDE).words
    begin = words.index("hold")
    assert words[begin : begin + 6] == ["hold", "PAUSING", "PAUSED", "held", "resume", "released"]
    assert impolite(site.log()) == []
