"""A crawl that is launched from a checkpoint goes on where that crawl was."""

from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import patch

import pytest
from core_doubles.codec import candidate
from core_doubles.memory_store import MemoryStore
from core_doubles.parted import divided
from core_doubles.recount import Recount
from core_doubles.shell import Shell

from frontier_server.core.jobs import restoring
from frontier_server.core.jobs.steering import QueueChange
from frontier_server.core.journey.kept import SeenFilter
from frontier_server.core.machines.lifecycle import CrawlState, ExitStatus, Input
from frontier_server.core.rows import errors
from frontier_server.core.rows.keys import serial_key
from frontier_server.core.rows.records import JobRow, encode
from frontier_server.core.rows.store import Family, Store
from frontier_server.core.spec.settings import (
    CrawlSettings,
    IdentitySettings,
    LimitSettings,
    PolitenessSettings,
)
from frontier_server.core.state import job, seeds
from frontier_server.core.state.job import JobKind
from frontier_server.core.state.model import Directive, QueueView, Report, Verdict
from frontier_server.core.state.queue import QueueState as Q

PLAIN = CrawlSettings(
    allowed_addresses=("loopback",),
    politeness=PolitenessSettings(delay_factor=0, min_delay_ms=1_000, max_delay_ms=1_000),
)
SEEDS = [f"http://{host}.example/" for host in ("alpha", "beta", "gamma")]


class Checkpointed(Shell):
    """A shell whose frontier has checkpoints: copies of its store."""

    def __init__(self) -> None:
        self.checkpoints: dict[str, MemoryStore] = {}
        super().__init__()

    def checkpoint_of(self, name: str) -> Store:
        """A checkpoint."""
        if name not in self.checkpoints:
            raise errors.UnknownCheckpoint(f"there is no checkpoint {name!r}")
        return self.checkpoints[name]

    def keep(self, name: str) -> None:
        """Make a checkpoint of what is stored."""
        kept = MemoryStore()
        for family in Family:
            kept.write({(family, key): value for key, value in self.store.scan(family, b"", b"")})
        self.checkpoints[name] = kept

    def relaunch(
        self, name: str, source: str, checkpoint: str = "cp", settings: CrawlSettings = PLAIN
    ) -> None:
        """Create a crawl, and launch it from a checkpoint."""
        self.create(name, settings)
        self.do(lambda core, now: core.control.launch(name, now, "", checkpoint, source))


@pytest.fixture(autouse=True)
def small_slices() -> Iterator[None]:
    """Several slices, so that there is something between them."""
    with patch.object(restoring, "ROWS_PER_SLICE", 2), patch.object(seeds, "SEEDS_PER_SLICE", 2):
        yield


def half_done() -> Checkpointed:
    """A crawl with a page fetched, one out, and one that waits; and a checkpoint of it."""
    shell = Checkpointed()
    shell.create("first", PLAIN)
    shell.launch("first", *SEEDS)
    robots = shell.grants(most=3)
    shell.finish(*(Report(grant.token, fetch_status=404) for grant in robots))
    shell.now_ms += 1_000
    done, _ = shell.grants(most=2)
    shell.finish(Report(done.token, fetch_status=200))
    shell.schedule("first", "http://alpha.example/later")
    shell.keep("cp")
    return shell


def pages(shell: Shell, crawl: str) -> list[str]:
    """Fetch all that is left of a crawl; what was fetched."""
    fetched = []
    for _ in range(20):
        shell.now_ms += 5_000
        shell.tick()
        grants = shell.grants(crawl)
        fetched += [grant.uri for grant in grants if not grant.robots]
        shell.finish(*(Report(grant.token, fetch_status=200) for grant in grants))
    return sorted(fetched)


def test_it_goes_on_with_what_was_left_and_fetches_nothing_twice() -> None:
    """S0.10: no seeds are announced, and what was out is given out again."""
    shell = half_done()
    shell.relaunch("second", "first")
    shell.work()
    assert shell.state("second") is CrawlState.RUNNING
    Recount(shell, shell.core.shard.registry.named("second")).run()
    assert pages(shell, "second") == [
        "http://alpha.example/later",
        "http://beta.example/",
        "http://gamma.example/",
    ]
    assert shell.state("second") is CrawlState.FINISHED
    assert shell.count("second", "succeeded_count") == 4  # one of them before the checkpoint
    assert [row.kind for row in shell.events("second")].count("seeds_concluded") == 0
    Recount(shell, shell.core.shard.registry.named("second")).run()


def test_its_queues_are_those_of_the_checkpoint() -> None:
    """S2.1: each with its URIs and what it has spent, in the state that it had there."""
    shell = half_done()
    (gamma,) = (key for key, view in queues(shell, "first").items() if view.host == "gamma.example")
    retired = QueueChange(retired=True)
    shell.do(lambda core, now: core.administration.change_queue("first", gamma, retired, now))
    shell.keep("cp")
    at_checkpoint = queues(shell, "first")
    states = {view.host.partition(".")[0]: view.state for view in at_checkpoint.values()}
    assert states == {"alpha": Q.SNOOZED, "beta": Q.BUSY, "gamma": Q.RETIRED}
    assert pages(shell, "first")
    shell.relaunch("second", "first")
    shell.work()
    shell.restart()
    found = queues(shell, "second")
    assert found.keys() == at_checkpoint.keys()
    for key, before in at_checkpoint.items():
        told, wanted = ((it.queued, it.expenditure, it.successes) for it in (found[key], before))
        assert told == wanted, key
        active = before.state in (Q.SNOOZED, Q.BUSY)  # rests are over, and nothing is out
        assert found[key].state is (Q.READY if active else before.state), key


def queues(shell: Shell, crawl: str) -> dict[str, QueueView]:
    """All queues by key."""
    views, _ = shell.core.administration.queues(crawl, None, 100, b"")
    return {view.key: view for view in views}


def test_hosts_that_the_crawl_counts_for_itself_alone_rest_on() -> None:
    """Rests go with what they belong to: those of shared hosts are the frontier's."""
    alone = PolitenessSettings(
        delay_factor=0, min_delay_ms=100_000, max_delay_ms=100_000, across_crawls=False
    )
    settings = replace(PLAIN, politeness=alone)
    shell = Checkpointed()
    shell.create("first", settings)
    shell.launch("first", *SEEDS)
    shell.finish(*(Report(grant.token, fetch_status=404) for grant in shell.grants(most=3)))
    shell.keep("cp")
    shell.relaunch("second", "first", settings=settings)
    shell.work()
    shell.now_ms += 99_000
    shell.tick()
    assert shell.grants("second") == []
    shell.now_ms += 1_001
    shell.tick()
    assert len(shell.grants("second")) == 3


def test_what_had_been_seen_is_still_seen() -> None:
    shell = half_done()
    shell.relaunch("second", "first")
    shell.work()
    assert shell.schedule("second", *SEEDS) == [Verdict.ALREADY_SEEN] * 3
    assert shell.schedule("second", "http://alpha.example/new") == [Verdict.QUEUED]


def test_a_restart_between_any_two_slices_changes_nothing() -> None:
    shell = half_done()
    shell.relaunch("second", "first")
    slices = 0
    while shell.core.upkeep.has_work:
        shell.restart()
        assert shell.state("second") is CrawlState.PREPARING
        shell.lose(lambda core, now: core.upkeep.work(now))
        shell.do(lambda core, now: core.upkeep.work(now))
        slices += 1
    assert slices > 10
    shell.restart()
    Recount(shell, shell.core.shard.registry.named("second")).run()
    assert len(pages(shell, "second")) == 3


def test_until_all_is_copied_nothing_may_change_it_and_nothing_is_leased() -> None:
    shell = half_done()
    shell.relaunch("second", "first")
    with pytest.raises(errors.CrawlHeld, match="being launched from checkpoint cp"):
        shell.schedule("second", "http://alpha.example/new")
    assert not shell.grants("second")
    with pytest.raises(errors.IllegalState):
        shell.request("second", Input.PAUSE)


def test_it_can_be_stopped_on_the_way() -> None:
    shell = half_done()
    shell.relaunch("second", "first")
    shell.do(lambda core, now: core.upkeep.work(now))
    assert shell.request("second", Input.STOP) is CrawlState.FINISHED
    shell.work()
    shell.restart()
    assert shell.core.views.crawl("second").exit_status is ExitStatus.ABORTED
    shell.do(lambda core, now: core.control.delete_crawl("second", now))
    shell.work()


@pytest.mark.parametrize("slices", [0, 1, 8])
def test_one_that_was_stopped_on_the_way_keeps_no_store_from_being_split(slices: int) -> None:
    """Its rows do not add up, and it can only be deleted."""
    shell = half_done()
    shell.relaunch("second", "first")
    for _ in range(slices):
        shell.do(lambda core, now: core.upkeep.work(now))
    shell.request("second", Input.STOP)
    shell.work()
    pages(shell, "first")
    assert len(divided(shell.store, 0, 2, undivided=True)) == 3


def test_without_its_checkpoint_it_ends_and_says_why() -> None:
    shell = half_done()
    shell.relaunch("second", "first")
    shell.checkpoints.clear()
    shell.work()
    view = shell.core.views.crawl("second")
    assert view.state is CrawlState.FINISHED
    assert "no checkpoint 'cp'" in view.reason
    assert "problem" in [row.kind for row in shell.events("second")]


def test_seeds_that_had_not_been_announced_are() -> None:
    shell = Checkpointed()
    shell.create("first", PLAIN)
    shell.do(lambda core, now: core.control.add_seeds("first", SEEDS, now))
    shell.do(lambda core, now: core.control.launch("first", now))
    shell.do(lambda core, now: core.upkeep.work(now))
    shell.keep("cp")
    shell.relaunch("second", "first")
    shell.work()
    assert shell.state("second") is CrawlState.RUNNING
    assert pages(shell, "second") == SEEDS


def test_its_own_spec_counts() -> None:
    shell = half_done()
    settings = CrawlSettings(
        allowed_addresses=("loopback",),
        politeness=PLAIN.politeness,
        limits=LimitSettings(max_documents=2),
        pause_at_start=True,
    )
    shell.relaunch("second", "first", settings=settings)
    shell.work()
    assert shell.state("second") is CrawlState.PAUSED
    shell.request("second", Input.RESUME)
    assert len(pages(shell, "second")) == 1
    assert shell.core.views.crawl("second").exit_status is ExitStatus.FINISHED_DOCUMENT_LIMIT


def test_a_spec_that_puts_uris_elsewhere_is_refused_and_nothing_has_changed() -> None:
    shell = half_done()
    shell.create(
        "second", CrawlSettings(allowed_addresses=("loopback",), identity=IdentitySettings(("strip-www",)))
    )
    before = shell.core.views.crawl("second")
    with pytest.raises(errors.InvalidSpec, match="identity"):
        shell.do(lambda core, now: core.control.launch("second", now, "", "cp", "first"))
    assert shell.core.views.crawl("second") == before == shell.build().views.crawl("second")


@pytest.mark.parametrize(
    ("checkpoint", "source", "error"),
    [("none", "first", errors.UnknownCheckpoint), ("cp", "none", errors.UnknownCrawl)],
)
def test_what_is_not_there_is_named(checkpoint: str, source: str, error: type[errors.FrontierError]) -> None:
    shell = half_done()
    shell.create("second", PLAIN)
    with pytest.raises(error, match="none"):
        shell.do(lambda core, now: core.control.launch("second", now, "", checkpoint, source))
    assert shell.state("second") is CrawlState.NASCENT


def test_a_crawl_that_has_taken_something_in_begins_anew_only() -> None:
    shell = half_done()
    shell.create("second", PLAIN)
    shell.do(lambda core, now: core.administration.record_seen("second", SEEDS, now))
    with pytest.raises(errors.IllegalState, match="has taken in") as refused:
        shell.do(lambda core, now: core.control.launch("second", now, "", "cp", "first"))
    assert refused.value.metadata == {"crawl": "second", "state": "NASCENT"}


@pytest.mark.parametrize("slices", [0, 1, 8])
@pytest.mark.parametrize("stopped", [False, True])
def test_a_crawl_that_was_itself_being_launched_from_one_is_none_to_go_on_from(
    slices: int, stopped: bool
) -> None:
    """It was half there: what is copied of it would be overwritten by what it had yet to copy."""
    shell = half_done()
    shell.relaunch("second", "first")
    for _ in range(slices):
        shell.do(lambda core, now: core.upkeep.work(now))
    if stopped:
        shell.request("second", Input.STOP)
        shell.work()
    shell.keep("half")
    shell.create("third", PLAIN)
    before = shell.core.views.crawl("third")
    with pytest.raises(
        errors.IllegalState, match=r"checkpoint half has crawl 'second' only .* checkpoint cp"
    ) as refused:
        shell.do(lambda core, now: core.control.launch("third", now, "", "half", "second"))
    assert refused.value.metadata == {"crawl": "third", "state": "NASCENT"}
    assert shell.core.views.crawl("third") == before == shell.build().views.crawl("third")


def test_a_crawl_that_was_launched_from_one_can_be_gone_on_from_once_it_is_all_there() -> None:
    shell = half_done()
    shell.relaunch("second", "first")
    shell.work()
    shell.keep("whole")
    shell.relaunch("third", "second", "whole")
    shell.work()
    shell.restart()
    Recount(shell, shell.core.shard.registry.named("third")).run()
    assert len(pages(shell, "third")) == 3


@pytest.mark.parametrize("restarted", [False, True])
def test_a_job_of_restoring_that_came_with_the_rows_of_another_crawl_copies_nothing(restarted: bool) -> None:
    """Older servers copied it from a crawl that was half there; it would overwrite what is fetched by now."""
    shell = half_done()
    shell.relaunch("second", "first")
    live = shell.core.shard.registry.named("second")
    foreign = JobRow(JobKind.RESTORE.value, shell.now_ms, {"checkpoint": "cp", "crawl": "1"})
    key = Family.JOBS, serial_key(live.number, 1)
    for _ in range(100):
        if live.restoring:
            shell.store.write({key: encode(foreign)})
        shell.do(lambda core, now: core.upkeep.work(now))
        if restarted:
            shell.restart()
            live = shell.core.shard.registry.named("second")
    assert not shell.core.upkeep.has_work
    assert job.get(shell.store, live, 1).state == "CANCELLED"
    assert shell.state("second") is CrawlState.RUNNING
    assert len(pages(shell, "second")) == 3
    Recount(shell, shell.core.shard.registry.named("second")).run()


OWN_SEEDS = [f"http://own{number}.example/" for number in range(7)]


@pytest.mark.parametrize("own", [2, 3, 7])
def test_seeds_that_it_had_give_way_and_those_that_it_gets_then_are_announced(own: int) -> None:
    shell = half_done()
    shell.create("second", PLAIN)
    shell.do(lambda core, now: core.control.add_seeds("second", OWN_SEEDS[:own], now))
    shell.do(lambda core, now: core.control.launch("second", now, "", "cp", "first"))
    shell.work()
    new = ["http://new.example/", "http://newer.example/"]
    shell.do(lambda core, now: core.control.add_seeds("second", new, now))
    shell.work()
    page, _ = shell.core.administration.seeds("second", 100, 0, shell.now_ms)
    assert [seed.uri for seed in page] == [*SEEDS, *new]
    view = shell.core.views.crawl("second")
    assert (view.seeds, view.announced_seeds) == (5, 5)
    assert set(new) < set(pages(shell, "second"))


def test_a_checkpoint_in_use_is_told() -> None:
    shell = half_done()
    shell.relaunch("second", "first")
    with pytest.raises(errors.CheckpointInUse):
        shell.core.control.check_checkpoint_free("cp")
    shell.work()
    shell.core.control.check_checkpoint_free("cp")


def test_crawls_that_live_hear_of_a_checkpoint_but_not_one_that_is_held() -> None:
    """S0.8"""
    shell = half_done()
    shell.create("held", PLAIN)
    shell.launch("held", *SEEDS)
    assert shell.request("held", Input.HOLD) is CrawlState.PAUSED
    assert shell.core.views.crawl("held").held
    shell.do(lambda core, now: core.control.record_checkpoint("cp00001-x", now))
    assert shell.events("first")[-1].fields == {"checkpoint": "cp00001-x"}
    assert shell.events("held")[-1].kind == "held"


def test_rests_of_queues_are_kept() -> None:
    """D9: a retry waits its 900 s, checkpoint or not."""
    shell = Checkpointed()
    shell.create("first", PLAIN)
    shell.launch("first", SEEDS[0])
    (robots,) = shell.grants()
    shell.finish(Report(robots.token, fetch_status=404))
    shell.now_ms += 1_000
    (page,) = shell.grants()
    shell.finish(Report(page.token, fetch_status=-2))
    shell.keep("cp")
    shell.relaunch("second", "first")
    shell.work()
    shell.now_ms += 899_000
    assert not shell.grants("second")
    shell.now_ms += 1_000
    assert [grant.uri for grant in shell.grants("second")] == [SEEDS[0]]


def test_kept_uris_and_queues_whose_keys_callers_chose_come_along() -> None:
    keeps = replace(PLAIN, identity=IdentitySettings(keep_uris=True))
    shell = Checkpointed()
    shell.create("first", keeps)
    shell.launch("first", *SEEDS)
    shell.schedule("first", candidate("http://alpha.example/own", queue_key="own"))
    shell.keep("cp")
    shell.relaunch("second", "first", settings=keeps)
    shell.work()
    seen = shell.core.administration.seen_uris
    stories, _ = seen("second", SeenFilter(queue_key="own"), 10, b"", shell.now_ms)
    assert [(story.uri, story.queue_key) for story in stories] == [("http://alpha.example/own", "own")]
    assert len(seen("second", SeenFilter(), 10, b"", shell.now_ms)[0]) == 4
    assert shell.core.shard.registry.named("second").settings.identity.keep_uris


def test_a_recrawl_goes_on_with_its_counts() -> None:
    limited = replace(PLAIN, limits=LimitSettings(max_elapsed_ms=200_000), run_while_empty=True)
    shell = Checkpointed()
    shell.create("one", limited)
    shell.launch("one", *SEEDS)
    assert pages(shell, "one") == SEEDS
    shell.now_ms += 60_000
    shell.request("one", Input.STOP)
    before_ms = shell.now_ms
    shell.do(lambda core, now: core.control.reopen("one", lambda spec: (spec, ()), False, now, "", before_ms))
    again = [candidate(uri, directive=Directive.HIGH, refetch_before_ms=before_ms) for uri in SEEDS]
    shell.now_ms += 1
    assert shell.schedule("one", *again) == [Verdict.QUEUED] * 3
    shell.keep("cp")
    shell.relaunch("two", "one", settings=limited)
    shell.work()
    shell.now_ms += 60_000  # the limit counts the time since the recrawl began
    shell.tick()
    assert pages(shell, "two") == SEEDS
    assert shell.count("two", "revisit_count") == shell.count("two", "revisited_count") == 3


def test_a_launch_from_a_checkpoint_drops_the_scope_that_was_cached_before_the_copy() -> None:
    shell = half_done()
    shell.create("second", PLAIN)
    link = candidate("http://beta.example/x", path="L", source="http://alpha.example/")
    assert shell.schedule("second", candidate("http://beta.example/")) == [Verdict.OUT_OF_SCOPE]
    before = shell.core.frontier.versions("second")
    shell.do(lambda core, now: core.control.launch("second", now, "", "cp", "first"))
    shell.core.administration.explain("second", "", link.uri, shell.now_ms)
    shell.work()
    assert shell.schedule("second", link) == [Verdict.QUEUED]
    assert not set(before) & set(shell.core.frontier.versions("second"))
