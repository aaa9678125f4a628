"""A crawl that was torn down: out of memory, still to be read, and never to be changed."""

import gc
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from core_doubles.lives import NAME, SEEDS, fetch, fetching, report
from core_doubles.mutators import MUTATORS, OTHERS, all_there_are
from core_doubles.rows import nothing_is_left_of
from core_doubles.stillness import still, stored_of
from core_doubles.teardowns import S, gone, let_end, lived, tear_down

from frontier_server.core.core import Core
from frontier_server.core.machines.lifecycle import Input
from frontier_server.core.rows.errors import (
    CrawlExists,
    CrawlTornDown,
    IllegalState,
    InvalidRequest,
    UnknownCrawl,
)
from frontier_server.core.rows.keys import FetchStatisticsOf as Of
from frontier_server.core.rules.disposition import Disposition
from frontier_server.core.spec.settings import CrawlSettings
from frontier_server.core.state.model import EmptyReason

# Its memory.


@pytest.mark.interpreted
def test_nothing_of_it_stays_in_memory() -> None:
    """S0.29: but for its name; the job log hears of it once more."""
    shell, grants = fetching(most=3)
    crawl = weakref.ref(shell.core.shard.registry.named(NAME))
    tear_down(shell)
    fetch(shell, *grants)
    let_end(shell)
    assert [crawl.name for crawl in shell.core.upkeep.take_news()] == [NAME], (
        "for the job log, whose last line it is"
    )
    registry = shell.core.shard.registry
    assert (registry.crawls, registry.names, registry.torn) == ({}, {}, {NAME: 1})
    assert shell.core.nodes.leases_out == 0
    gc.collect()
    assert crawl() is None


def test_a_restart_does_not_bring_it_back() -> None:
    shell = gone()
    shell.restart()
    registry = shell.core.shard.registry
    assert (registry.crawls, registry.names, registry.torn) == ({}, {}, {NAME: 1})
    assert shell.core.upkeep.next_due_ms() is None or shell.core.nodes.leases_out == 0


def test_its_name_stays_taken_and_it_is_still_listed_in_order() -> None:
    shell = gone()
    for name in ("another", "zebra"):
        shell.create(name, CrawlSettings(allowed_addresses=("loopback",)))
    assert [view.name for view in shell.core.views.crawls_after("", 10)] == ["another", NAME, "zebra"]
    assert [view.name for view in shell.core.views.crawls_after("another", 1)] == [NAME]
    with pytest.raises(CrawlExists, match=NAME):
        shell.create(NAME, CrawlSettings(allowed_addresses=("loopback",)))


# What can be read of it.

READS: dict[str, Callable[[Core, int], Any]] = {
    "statistics": lambda f, now: replace(
        f.views.statistics(NAME, now), deepest_queue=0
    ),  # known to memory alone
    "events": lambda f, now: f.history.events_after(NAME, 0)[:6],  # up to the teardown
    "outcomes": lambda f, now: f.history.outcomes(NAME, 0, 100),
    "outcome range": lambda f, now: f.history.outcome_range(NAME),
    "an outcome's time": lambda f, now: f.history.outcome_time(NAME, 1) or pytest.fail("not kept"),
    "an outcome's history": lambda f, now: f.history.check_outcome(NAME, 1, 0),
    "queues": lambda f, now: f.administration.queues(NAME, None, 100, b""),
    "a queue": lambda f, now: f.administration.queue(NAME, "example,alpha,"),
    "largest queues": lambda f, now: isinstance(f.administration.largest_queues(NAME), list),
    "slowest queues": lambda f, now: f.administration.slowest_queues(NAME),
    "URIs": lambda f, now: f.administration.uris(NAME, "", 100, b""),
    "a URI": lambda f, now: f.administration.story(NAME, SEEDS[0], now),
    "jobs": lambda f, now: f.administration.jobs(NAME),
    "a job": lambda f, now: f.administration.job(NAME, 1),
    "overrides": lambda f, now: f.administration.overrides(NAME),
    "fetch statistics": lambda f, now: f.administration.fetch_statistics(NAME, Of.HOST, 100, b""),
    "seeds": lambda f, now: f.administration.seeds(NAME, 100, 0, now),
    "explain": lambda f, now: f.administration.explain(NAME, "", "", now),
    "explain a URI": lambda f, now: f.administration.explain(NAME, "", SEEDS[0], now),
}


@pytest.mark.parametrize("what", READS)
def test_all_of_it_can_still_be_read_and_is_as_it_was(what: str) -> None:
    """Data stay until the crawl is deleted."""
    shell = gone()
    fresh = shell.build()
    answer = READS[what](shell.core, shell.now_ms)
    assert answer == READS[what](fresh, shell.now_ms)
    before = lived()
    before.request(NAME, Input.STOP)
    before.work()
    before.log()
    assert answer == READS[what](before.core, before.now_ms)


@pytest.mark.interpreted
def test_every_read_that_names_a_crawl_is_looked_at_here() -> None:
    core = gone().core
    doors = (core.administration, core.history, core.views)
    reads = {name for door in doors for name in vars(type(door)) if not name.startswith("_")}
    changing = {name.split(".")[1] for name in all_there_are() if name.startswith("Administration.")}
    looked_at = {
        *("crawl", "crawls_after", "statistics", "events_after", "event_time", "check_event", "outcomes"),
        *("outcome_range", "outcome_time", "check_outcome", "queues", "queue", "largest_queues"),
        *("slowest_queues", "uris", "story", "jobs", "job", "overrides", "fetch_statistics", "seeds"),
        *("refusals", "explain", "check_uris", "seen_uris", "seen_counts"),
    }
    asks_for_a_front = {"check_changeable", "seeds_here"}  # of several shards, which has the crawl itself
    assert reads - changing == looked_at | asks_for_a_front


# What is refused.


@pytest.mark.parametrize("mutator", MUTATORS)
def test_what_would_change_it_is_refused_by_name(mutator: str) -> None:
    """CRAWL_TORN_DOWN; nothing is written."""
    shell = gone()
    with still(shell, NAME), pytest.raises(CrawlTornDown, match=f"'{NAME}' was torn down") as refused:
        shell.do(MUTATORS[mutator])
    assert refused.value.metadata == {"crawl": NAME, "state": "FINISHED"}


@pytest.mark.interpreted
def test_every_operation_that_may_change_a_crawl_is_looked_at() -> None:
    assert all_there_are() == MUTATORS.keys() | OTHERS


@pytest.mark.parametrize("asked", [Input.RESUME, Input.PAUSE, Input.HOLD])
def test_no_request_leads_out_of_it(asked: Input) -> None:
    """D3"""
    shell = gone()
    with still(shell, NAME), pytest.raises(IllegalState, match="FINISHED"):
        shell.request(NAME, asked)


def test_it_cannot_be_launched_again() -> None:
    shell = gone()
    with still(shell, NAME), pytest.raises(IllegalState, match="FINISHED"):
        shell.do(lambda core, now: core.control.launch(NAME, now))


def test_nodes_are_told_that_there_is_nothing_more() -> None:
    """S3.14"""
    shell, (grant,) = fetching(most=1)
    fetch(shell, grant)
    tear_down(shell)
    let_end(shell)
    with still(shell, NAME):
        assert shell.next(NAME).empty_reason is EmptyReason.FINISHED
        assert shell.next().empty_reason is EmptyReason.NO_CRAWL
        (result,) = shell.finish(report(grant))
        assert result.disposition is Disposition.STALE
        shell.take_back([grant.token])
        answer = shell.do(lambda core, now: core.frontier.heartbeat("node", "1", [grant.token], [], now))
        assert answer.ended == [grant.token]
        shell.record_logged(1, 99, 99)


def test_its_last_event_is_its_last_whatever_happens_then() -> None:
    """TORN_DOWN is the last event of all."""
    shell = gone()
    last = shell.core.views.crawl(NAME).last_event
    with still(shell, NAME):
        shell.do(lambda core, now: core.upkeep.record_trouble(("disk-reserve", "no room"), now))
        shell.do(lambda core, now: core.control.record_checkpoint("cp", now))
        shell.now_ms += 86_400_000
        shell.tick()
        shell.restart()
        shell.tick()
    assert shell.core.views.crawl(NAME).last_event == last
    assert shell.core.history.events_after(NAME, last) == []
    with pytest.raises(InvalidRequest):
        shell.core.history.events_after(NAME, last + 1)


# Deletion.


@pytest.mark.parametrize("restarted", [False, True])
def test_it_can_be_deleted_and_its_name_is_free_then(restarted: bool) -> None:
    shell = gone()
    if restarted:
        shell.restart()
    shell.do(lambda core, now: core.control.delete_crawl(NAME, now))
    with pytest.raises(UnknownCrawl):
        shell.core.views.crawl(NAME)
    with pytest.raises(UnknownCrawl):
        tear_down(shell)
    if restarted:
        shell.restart()
    shell.work()
    assert nothing_is_left_of(shell.store, 1)
    assert shell.core.shard.registry.torn == {}
    shell.create(NAME, CrawlSettings(allowed_addresses=("loopback",)))
    assert shell.core.views.crawl(NAME).number == 2


def test_a_crawl_can_be_deleted_while_it_is_torn_down() -> None:
    """Once it has finished; then nobody can see the rest."""
    shell, (grant,) = fetching(most=1)
    tear_down(shell)
    fetch(shell, grant)
    assert shell.state(NAME) is S.FINISHED and not shell.core.views.crawl(NAME).torn_down
    shell.do(lambda core, now: core.control.delete_crawl(NAME, now))
    shell.log()
    shell.work()
    assert nothing_is_left_of(shell.store, 1)
    assert stored_of(shell, 1) == {}
