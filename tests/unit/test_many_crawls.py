"""Thousands of crawls: what an operation does for each of them, and what it leaves to the next."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from core_doubles.several_leases import settings
from core_doubles.shell import Shell

from frontier_server.core.journey.dispatch import Dispatcher, Want
from frontier_server.core.machines.lifecycle import CrawlState, Input
from frontier_server.core.rows.errors import SessionSuperseded
from frontier_server.core.spec.settings import ScopeSettings
from frontier_server.core.state.crawl import Crawl
from frontier_server.core.state.job import JOBS_KEPT, JobKind
from frontier_server.core.state.model import EmptyReason, Grant, NextAnswer, Report
from frontier_server.core.state.sweeps import CRAWLS_PER_SLICE

SECOND = 1_000
MANY = 400


def resting(count: int = MANY, **more: Any) -> Shell:
    """Running crawls, each with a host that has answered and rests, and with more of its URIs.

    One session of a node fetches for all of them. Another had its name before.
    """
    shell = Shell(period_ms=600_000 * SECOND)
    heartbeat("0")(shell)
    of = replace(settings(max_parallel=1, min_delay_ms=5 * SECOND), **more)
    of = replace(of, scope=ScopeSettings(accept_patterns=(".*",)))
    for number in range(count):
        name = f"crawl-{number}"
        shell.create(name, of)
        shell.launch(name, f"http://host-{number}.example/")
        shell.schedule(name, *(f"http://host-{number}.example/{page}" for page in range(4)))
    given = 0
    while given < count:
        grants = one(shell, 100).grants
        assert grants
        given += len(grants)
        shell.finish(*(Report(grant.token, fetch_status=200) for grant in grants))
    assert one(shell).grants == []
    return shell


def one(shell: Shell, most: int = 1, name: str | None = None) -> NextAnswer:
    """The answer of one operation."""
    return shell.do(lambda core, now: core.frontier.next("node", "1", Want(most), name, now))


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the crawls that were looked at for leases, or for what is due."""
    names: list[str] = []
    wake_due = Dispatcher.wake_due

    def noted(self: Dispatcher, op: Any, crawl: Any) -> None:
        names.append(crawl.name)
        wake_due(self, op, crawl)

    monkeypatch.setattr(Dispatcher, "wake_due", noted)
    return names


# Next of any crawl.


@pytest.mark.interpreted
def test_next_of_any_crawl_looks_only_at_crawls_that_give_it_leases(served: list[str]) -> None:
    shell = resting()
    shell.now_ms += 5 * SECOND  # all are due, and no tick has come
    served.clear()
    grants: list[Grant] = []
    for _ in range(MANY):
        grants += one(shell).grants
    assert len(grants) == MANY and max(Counter(served).values()) == 1, "one turn each"
    assert len({grant.crawl for grant in grants}) == MANY
    assert one(shell).grants == []  # the turns that show that hosts are busy
    served.clear()
    answer = one(shell)
    assert answer.grants == [] and answer.empty_reason is EmptyReason.NOTHING_DUE and served == []


@pytest.mark.interpreted
def test_next_notes_each_due_crawl_once_and_not_again_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = resting()
    shell.now_ms += 5 * SECOND
    agenda, notes = shell.core.shard.agenda, list[str]()
    note = agenda.note

    def noted(crawl: Crawl) -> None:
        notes.append(crawl.name)
        note(crawl)

    monkeypatch.setattr(agenda, "note", noted)
    for _ in range(10):
        assert len(one(shell).grants) == 1
    assert len(notes) < 50
    assert shell.core.frontier.leasable()


def test_due_crawls_give_no_lease_while_paused_and_give_leases_after_resume() -> None:
    shell = resting(3)
    shell.now_ms += 5 * SECOND
    assert len(one(shell).grants) == 1
    for number in range(3):
        shell.request(f"crawl-{number}", Input.PAUSE)
    assert one(shell).grants == []
    for number in range(3):
        shell.request(f"crawl-{number}", Input.RESUME)
    assert len(one(shell, 100).grants) == 2


@pytest.mark.parametrize("weights", [(1, 1), (1, 3), (2, 5)])
def test_crawls_get_leases_in_proportion_to_their_weights(weights: tuple[int, int]) -> None:
    shell = Shell(period_ms=600_000 * SECOND)
    for number, weight in enumerate(weights):
        of = replace(settings(), weight=weight, scope=ScopeSettings(accept_patterns=(".*",)))
        shell.create(f"crawl-{number}", of)
        shell.launch(f"crawl-{number}", f"http://host-{number}.example/")
        shell.schedule(f"crawl-{number}", *(f"http://host-{number}.example/{page}" for page in range(99)))
    given = Counter(one(shell).grants[0].crawl for _ in range(10 * sum(weights)))
    for number, weight in enumerate(weights):
        assert abs(given[f"crawl-{number}"] - 10 * weight) <= 1


# A tick.


@pytest.mark.interpreted
def test_ticks_after_an_absence_look_at_a_bounded_number_of_crawls_each(
    served: list[str],
) -> None:
    shell = resting()
    shell.now_ms += 3_600 * SECOND
    looked: list[int] = []
    while (due_ms := shell.core.upkeep.next_due_ms()) is not None and due_ms <= shell.now_ms:
        served.clear()
        shell.do(lambda core, now: core.upkeep.tick(now))
        looked.append(len(served))
    assert max(looked) <= CRAWLS_PER_SLICE and sum(looked) >= MANY


# What concerns many crawls.

Call = Callable[[Shell], object]


def heartbeat(session: str = "1", **more: Any) -> Call:
    def call(shell: Shell) -> None:
        shell.do(lambda core, now: core.frontier.heartbeat("node", session, [], [], now, **more))

    return call


def trouble(told: tuple[str, str] | None) -> Call:
    return lambda shell: shell.do(lambda core, now: core.upkeep.record_trouble(told, now))


def silence(shell: Shell) -> None:
    shell.now_ms += 3_600_000 * SECOND
    shell.core.shard.agenda.take_due(shell.now_ms, MANY)  # what crawls do after so long a time is not counted
    shell.tick()


def superseded(shell: Shell) -> None:
    with pytest.raises(SessionSuperseded):
        heartbeat("0")(shell)


PAUSED = ["problem", "status_changed", "status_changed"]  # to PAUSING and PAUSED

WHAT_CONCERNS_MANY: dict[str, tuple[list[Call], list[str]]] = {
    "a full disk": ([trouble(("disk-reserve", "no room"))], PAUSED),
    "room again": (
        [trouble(("disk-reserve", "no room")), trouble(None)],
        [*PAUSED, "status_changed"],
    ),
    "a node in trouble": ([heartbeat(trouble="no room")], PAUSED),
    "a node that can go on": (
        [heartbeat(trouble="no room"), heartbeat()],
        [*PAUSED, "status_changed"],
    ),
    "a node that leaves": ([heartbeat(leaving=True)], ["node_left"]),
    "a silent node": ([silence], ["node_left"]),
    "two processes of one name": ([superseded, heartbeat()], ["problem"]),
    "a new session": ([heartbeat("2")], ["node_left"]),
    "a checkpoint": (
        [lambda shell: shell.do(lambda core, now: core.control.record_checkpoint("one", now))],
        ["checkpointed"],
    ),
    "a node to drain": (
        [lambda shell: shell.do(lambda core, now: core.nodes.drain("node", now, "me"))],
        ["operator_acted"],
    ),
    "a size of all toe pools": (
        [lambda shell: shell.do(lambda core, now: core.nodes.set_pool_size("", 7, now, "me"))],
        ["operator_acted"],
    ),
}


@pytest.mark.parametrize("what", WHAT_CONCERNS_MANY)
def test_an_operation_that_concerns_many_crawls_acts_on_a_slice_of_them(what: str) -> None:
    calls, kinds = WHAT_CONCERNS_MANY[what]
    shell = resting(resume_after_trouble=True)
    before = {crawl.name: len(shell.events(crawl.name)) for crawl in shell.core.shard.crawls.values()}
    shell.core.upkeep.take_news()
    told: list[int] = []
    for call in calls:
        call(shell)
        told.append(len(shell.core.upkeep.take_news()))
        while (due_ms := shell.core.upkeep.next_due_ms()) is not None and due_ms <= shell.now_ms:
            shell.tick()
            told.append(len(shell.core.upkeep.take_news()))
    assert max(told) <= CRAWLS_PER_SLICE
    for name, known in before.items():
        news = [event.kind for event in shell.events(name)[known:]]
        assert [kind for kind in news if kind != "statistics"] == kinds


def test_no_crawl_gives_a_lease_from_the_beginning_of_disk_trouble_on() -> None:
    shell = resting(resume_after_trouble=True)
    shell.now_ms += 5 * SECOND
    trouble(("disk-reserve", "no room"))(shell)
    assert 0 < paused(shell) <= CRAWLS_PER_SLICE + 1
    while (due_ms := shell.core.upkeep.next_due_ms()) is not None and due_ms <= shell.now_ms:
        for name in (None, "crawl-399"):
            answer = one(shell, 100, name)
            assert (answer.grants, answer.empty_reason) == ([], EmptyReason.PAUSED)
        shell.tick()
    assert paused(shell) == MANY


def paused(shell: Shell) -> int:
    return sum(crawl.state is CrawlState.PAUSED for crawl in shell.core.shard.crawls.values())


def test_trouble_that_passes_before_all_crawls_are_paused_leaves_all_crawls_running() -> None:
    shell = resting(resume_after_trouble=True)
    for _ in range(2):
        shell.do(lambda core, now: core.upkeep.record_trouble(("disk-reserve", "no room"), now))
        shell.do(lambda core, now: core.upkeep.record_trouble(None, now))
    while (due_ms := shell.core.upkeep.next_due_ms()) is not None and due_ms <= shell.now_ms:
        shell.do(lambda core, now: core.upkeep.tick(now))
    assert paused(shell) == 0
    shell.now_ms += 5 * SECOND
    assert len(one(shell, 100).grants) == 100


# Jobs.


def test_the_scan_for_a_new_jobs_number_starts_after_forgotten_jobs() -> None:
    shell = resting(1)
    everything = {"queue_pattern": "nothing"}
    starts: list[bytes] = []
    for _ in range(JOBS_KEPT + 20):
        shell.do(
            lambda core, now: core.administration.start_job("crawl-0", JobKind.WAKE_QUEUES, everything, now)
        )
        shell.work()
        starts.append(shell.core.shard.registry.named("crawl-0").job_head)
    assert starts[-1] > starts[-2] > starts[JOBS_KEPT + 2]
    assert len(shell.core.administration.jobs("crawl-0")) == JOBS_KEPT
