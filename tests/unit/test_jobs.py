"""Work in slices: seeds announced exactly once whatever is killed between; deletion; letting go of queues."""

from collections import defaultdict
from collections.abc import Iterator
from unittest.mock import patch

import pytest
from core_doubles.rows import nothing_is_left_of
from core_doubles.shell import Shell

from frontier_server.core.jobs.work import QUEUES_PER_SLICE
from frontier_server.core.machines.lifecycle import CrawlState, Input
from frontier_server.core.opening.teardown import ROWS_PER_SLICE
from frontier_server.core.rows.errors import UnknownCrawl
from frontier_server.core.rows.store import Family
from frontier_server.core.spec.settings import CrawlSettings
from frontier_server.core.state.model import Report
from frontier_server.core.state.queue import QueueState
from frontier_server.core.state.seeds import SEEDS_PER_SLICE

SETTINGS = CrawlSettings(allowed_addresses=("loopback",))
SEEDS = [f"http://host{number % 7}.example/{number}" for number in range(3 * SEEDS_PER_SLICE + 50)]
SLICES = 4


def launched(seeds: list[str]) -> Shell:
    """A crawl that was launched, no seed announced yet."""
    shell = Shell()
    shell.create("crawl", SETTINGS)
    for start in range(0, len(seeds), 1_000):
        part = seeds[start : start + 1_000]
        shell.do(lambda core, now, part=part: core.control.add_seeds("crawl", part, now))  # type: ignore[misc]
    shell.do(lambda core, now: core.control.launch("crawl", now))
    return shell


def announced_once(shell: Shell, seeds: int) -> None:
    """Assert that all seeds were announced, each once, in one announcement."""
    view = shell.core.views.crawl("crawl")
    assert (view.seeds, view.announced_seeds) == (seeds, seeds)
    assert shell.core.views.statistics("crawl", shell.now_ms).verdicts == {"QUEUED": seeds}
    assert shell.count("crawl", "queued_count") == shell.count("crawl", "discovered_count") == seeds
    concluded = [row.fields for row in shell.events("crawl") if row.kind == "seeds_concluded"]
    assert concluded == [{"seed_count": seeds, "queued_count": seeds}]
    assert shell.state("crawl") is CrawlState.RUNNING
    (job,) = shell.core.administration.jobs("crawl")
    assert (job.kind, job.state, job.done, job.changed) == ("seed", "DONE", seeds, seeds)


def test_seeds_are_announced_in_slices() -> None:
    """Heritrix 2.12: announced at the launch; PREPARING until the last (S0.10, S0.12)."""
    shell = launched(SEEDS)
    progress = []
    while shell.state("crawl") is CrawlState.PREPARING:
        shell.do(lambda core, now: core.upkeep.work(now))
        progress.append(shell.core.views.crawl("crawl").announced_seeds)
    assert progress == [100, 200, 300, 350]
    announced_once(shell, len(SEEDS))


@pytest.mark.parametrize("crash_after", range(SLICES))
@pytest.mark.parametrize("kind", ["write lost", "restart"])
def test_each_seed_is_announced_exactly_once_whatever_is_killed_between_two_slices(
    crash_after: int, kind: str
) -> None:
    """S3.5: once per exhaustion. A slice and its cursor are one write."""
    shell = launched(SEEDS)
    for _ in range(crash_after):
        shell.do(lambda core, now: core.upkeep.work(now))
    if kind == "write lost":
        shell.lose(lambda core, now: core.upkeep.work(now))
    else:
        shell.restart()
    assert shell.core.views.crawl("crawl").announced_seeds == crash_after * SEEDS_PER_SLICE
    assert shell.work() == SLICES - crash_after
    announced_once(shell, len(SEEDS))


def test_each_seed_is_announced_exactly_once_if_every_write_is_lost_once() -> None:
    shell = launched(SEEDS)
    while shell.core.upkeep.has_work:
        shell.lose(lambda core, now: core.upkeep.work(now))
        shell.do(lambda core, now: core.upkeep.work(now))
        shell.restart()
    announced_once(shell, len(SEEDS))


def test_seeds_added_while_others_are_announced_join_them() -> None:
    shell = launched(SEEDS[:150])
    shell.do(lambda core, now: core.upkeep.work(now))
    shell.do(lambda core, now: core.control.add_seeds("crawl", SEEDS[150:], now))
    shell.work()
    announced_once(shell, len(SEEDS))


def test_seeds_of_a_crawl_that_runs_are_announced_by_a_job_of_their_own() -> None:
    """Heritrix 2.12: addSeed at run time. The crawl does not end before they are in."""
    shell = launched(["http://alpha.example/"])
    shell.work()
    shell.do(lambda core, now: core.control.add_seeds("crawl", ["http://beta.example/"] * 2, now))
    (grant,) = shell.grants()
    shell.finish(Report(grant.token, fetch_status=404))
    shell.now_ms += 10_000
    (grant,) = shell.grants()
    shell.finish(Report(grant.token, fetch_status=200))
    assert shell.state("crawl") is CrawlState.RUNNING and shell.count("crawl", "queued_count") == 0
    shell.work()
    concluded = [row.fields for row in shell.events("crawl") if row.kind == "seeds_concluded"]
    assert concluded[1:] == [{"seed_count": 2, "queued_count": 1}]
    assert [grant.uri for grant in shell.grants()] == ["http://beta.example/robots.txt"]


def test_a_crawl_that_is_stopped_announces_no_more_seeds() -> None:
    shell = launched(SEEDS)
    shell.do(lambda core, now: core.upkeep.work(now))
    shell.request("crawl", Input.STOP)
    shell.work()
    assert shell.core.views.crawl("crawl").announced_seeds == SEEDS_PER_SLICE
    assert not any(row.kind == "seeds_concluded" for row in shell.events("crawl"))
    assert not shell.core.upkeep.has_work and shell.state("crawl") is CrawlState.FINISHED


def test_while_seeds_are_announced_the_crawl_is_not_empty() -> None:
    """S3.17 (d): a crawl does not end while a job runs, though nothing is queued."""
    shell = launched(["http://alpha.example/"])
    shell.tick()
    assert shell.state("crawl") is CrawlState.PREPARING
    assert "seeds" in shell.core.views.statistics("crawl", shell.now_ms).waiting_for


# Deletion.


def test_a_deleted_crawl_is_gone_at_once_and_its_rows_little_by_little() -> None:
    shell = launched([f"http://alpha.example/{number}" for number in range(1_200)])
    shell.work()
    number = shell.core.views.crawl("crawl").number
    shell.request("crawl", Input.STOP)
    shell.work()
    shell.do(lambda core, now: core.control.delete_crawl("crawl", now))
    with pytest.raises(UnknownCrawl):
        shell.core.views.crawl("crawl")
    while shell.core.upkeep.has_work:
        _, changes = shell.core.upkeep.work(shell.now_ms)
        assert len(changes) <= ROWS_PER_SLICE + 1
        shell.store.write(changes)
    assert nothing_is_left_of(shell.store, number)


@pytest.mark.parametrize("crash_after", range(0, 14, 2))
def test_a_deletion_goes_on_after_a_crash_wherever_it_was(crash_after: int) -> None:
    shell = launched(SEEDS)
    shell.work()
    shell.create("other", SETTINGS)
    shell.request("crawl", Input.STOP)
    number = shell.core.views.crawl("crawl").number
    shell.do(lambda core, now: core.control.delete_crawl("crawl", now))
    for _ in range(crash_after):
        shell.do(lambda core, now: core.upkeep.work(now))
    shell.lose(lambda core, now: core.upkeep.work(now))
    assert [view.name for view in shell.core.views.crawls_after("", 10)] == ["other"]
    shell.work()
    assert nothing_is_left_of(shell.store, number)
    assert shell.build().views.crawl("other").state is CrawlState.NASCENT


def test_a_deletion_goes_on_after_a_restart_from_its_place() -> None:
    """Rows that are deleted are slow to walk, until the store has compacted them."""
    shell = launched([f"http://alpha.example/{number}" for number in range(3 * ROWS_PER_SLICE)])
    shell.work()
    shell.request("crawl", Input.STOP)
    shell.work()
    shell.do(lambda core, now: core.control.delete_crawl("crawl", now))
    starts: dict[Family, list[bytes]] = defaultdict(list)
    scan = shell.store.scan

    def watched(family: Family, start: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        starts[family].append(start)
        return scan(family, start, prefix)

    with patch.object(shell.store, "scan", watched):
        while shell.core.upkeep.has_work:
            shell.do(lambda core, now: core.upkeep.work(now))
            shell.restart()
    pending = starts[Family.PENDING]
    assert len(pending) == 4
    assert pending == sorted(set(pending))


def test_the_name_of_a_deleted_crawl_is_free_at_once_and_its_number_never() -> None:
    shell = Shell()
    shell.create("crawl", SETTINGS)
    first = shell.core.views.crawl("crawl").number
    shell.do(lambda core, now: core.control.delete_crawl("crawl", now))
    shell.create("crawl", SETTINGS)
    shell.work()
    shell.restart()
    assert shell.core.views.crawl("crawl").number > first
    shell.do(lambda core, now: core.control.delete_crawl("crawl", now))
    shell.work()
    shell.restart()
    shell.create("crawl", SETTINGS)
    assert shell.core.views.crawl("crawl").number == first + 2


# Letting go of a finished crawl's queues.


def test_a_finished_crawl_leaves_memory_little_by_little() -> None:
    hosts = 2 * QUEUES_PER_SLICE + 10
    shell = launched([f"http://host{number}.example/" for number in range(hosts)])
    shell.work()
    for _ in range(hosts // 100 + 1):
        for grant in shell.grants():
            shell.finish(Report(grant.token, released=True))
            shell.finish()
    (grant,) = shell.grants(most=1)
    shell.finish(Report(grant.token, released=True))
    shell.request("crawl", Input.STOP)
    crawl = shell.core.shard.crawls[shell.core.views.crawl("crawl").number]
    assert crawl.queues.active
    assert shell.work() <= hosts // QUEUES_PER_SLICE + 1
    assert not crawl.queues.active and not crawl.queues.ready and not crawl.queues.snoozed
    states = shell.core.views.statistics("crawl", shell.now_ms).queue_states
    assert states[QueueState.INACTIVE] == hosts and sum(states.values()) == hosts
    assert shell.build().views.statistics("crawl", shell.now_ms).queue_states == states


def test_a_crawl_does_not_end_while_an_import_is_still_being_received() -> None:
    """Architecture 3: a crawl is not empty while somebody feeds it."""
    shell = launched([SEEDS[0]])
    shell.work()
    operators = shell.core.administration
    number = shell.do(lambda _, now: operators.begin_import("crawl", False, now))
    for _ in range(2):
        for grant in shell.grants():
            shell.finish(Report(grant.token, fetch_status=404))
        shell.now_ms += 60_000
    assert shell.state("crawl") is CrawlState.RUNNING
    shell.do(lambda _, now: operators.cancel_job("crawl", number, now))
    shell.work()
    assert shell.state("crawl") is CrawlState.FINISHED
