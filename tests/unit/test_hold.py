"""HOLD: a crawl stands still, so that nothing of it is written until it is asked for another state."""

from collections.abc import Callable
from unittest.mock import patch

import pytest
from core_doubles.codec import candidate, override_of
from core_doubles.lives import (
    NAME,
    SEEDS,
    advance,
    fetch,
    fetch_all,
    fetching,
    in_state,
    launched,
    quick,
    report,
)
from core_doubles.mutators import BY, MUTATORS, OTHERS, all_there_are
from core_doubles.recount import Recount
from core_doubles.shell import PERIOD_MS, SECRET, Shell
from core_doubles.stillness import still, stored_of

from frontier_server.core.machines.lifecycle import CrawlState, ExitStatus, Input
from frontier_server.core.rows.errors import CrawlActive, CrawlHeld, IllegalState
from frontier_server.core.rows.records import ImportRow
from frontier_server.core.rules.disposition import Disposition
from frontier_server.core.spec.settings import DAY_MS, PolitenessSettings
from frontier_server.core.state import operation
from frontier_server.core.state.job import JobKind
from frontier_server.core.state.model import EmptyReason, Grant, Report
from frontier_server.core.state.operation import MAX_SNOOZED_IN_MEMORY

S = CrawlState
OTHER = "other"


def told(shell: Shell) -> list[str]:
    """All events: states by name, others by kind."""
    return [str(row.fields.get("state", row.kind)) for row in shell.events(NAME)]


def held_after(grants: int) -> tuple[Shell, list[Grant]]:
    """A crawl that is held after so many pages, with URIs, a job and an override; and what was leased."""
    shell, fetched = fetching(most=grants)
    fetch(shell, *fetched)
    override = override_of(queues={"session_budget": 7})
    shell.do(lambda core, now: core.administration.put_override(NAME, SEEDS[0], override, now))
    shell.work()
    shell.do(lambda core, now: core.administration.start_job(NAME, JobKind.VERIFY, {}, now))
    shell.request(NAME, Input.HOLD)
    shell.log()
    assert shell.core.views.crawl(NAME).held
    return shell, fetched


def held() -> Shell:
    """A crawl that is held."""
    return held_after(2)[0]


# How it is reached.


def test_a_hold_is_a_pause_and_then_stands_still() -> None:
    """S0.32: HOLD is a stable state of its own, no other word for PAUSE."""
    shell = launched()
    assert shell.request(NAME, Input.HOLD) is S.PAUSED
    assert told(shell)[-4:] == ["PAUSING", "statistics", "PAUSED", "held"]
    view = shell.core.views.crawl(NAME)
    assert (view.held, view.exit_status) == (True, ExitStatus.PAUSED)


def test_it_waits_for_what_is_in_flight() -> None:
    shell, (first, second) = fetching(most=2)
    shell.log()
    assert shell.request(NAME, Input.HOLD) is S.PAUSING
    assert shell.next(NAME).empty_reason is EmptyReason.PAUSED, "no lease after the request"
    shell.finish(Report(first.token, released=True))
    assert (shell.state(NAME), shell.core.views.crawl(NAME).held) == (S.PAUSING, False)
    shell.finish(Report(second.token, released=True))
    assert (shell.state(NAME), shell.core.views.crawl(NAME).held) == (S.PAUSED, True)
    assert told(shell)[-1] == "held"


def test_it_waits_until_all_outcomes_are_in_the_crawl_log() -> None:
    """S0.39: it is not reached before; else to note that they are would be a write."""
    shell, (grant,) = fetching(most=1)
    fetch(shell, grant)
    awaited = [shell.core.upkeep.awaits_log]
    assert shell.request(NAME, Input.HOLD) is S.PAUSING
    awaited.append(shell.core.upkeep.awaits_log)
    last = shell.core.upkeep.last_outcome(1)
    shell.record_logged(1, last - 1, 100)
    awaited.append(shell.core.upkeep.awaits_log)
    assert shell.state(NAME) is S.PAUSING
    shell.record_logged(1, last, 200)
    awaited.append(shell.core.upkeep.awaits_log)
    assert (shell.state(NAME), shell.core.views.crawl(NAME).held) == (S.PAUSED, True)
    assert awaited == [False, True, True, False], "the log is asked to hurry"


def test_it_waits_for_an_import_that_comes_in_and_keeps_it_for_later() -> None:
    """S0.39: it is not reached before the last entry has come."""
    shell = launched()
    number = shell.do(lambda core, now: core.administration.begin_import(NAME, False, now))
    rows = [ImportRow(candidate(f"{SEEDS[0]}imported").record)]
    assert shell.request(NAME, Input.HOLD) is S.PAUSING
    shell.do(lambda core, now: core.administration.add_imports(NAME, number, rows, now))
    shell.do(lambda core, now: core.administration.end_import(NAME, number, now))
    assert shell.core.views.crawl(NAME).held and not shell.core.upkeep.has_work
    shell.request(NAME, Input.PAUSE)
    shell.work()
    assert shell.core.administration.job(NAME, number).changed == 1


@pytest.mark.parametrize("state", [S.RUNNING, S.EMPTY, S.PAUSING, S.PAUSED])
def test_it_is_reached_from_each_state_that_can_be_paused(state: CrawlState) -> None:
    shell = in_state(state)
    shell.request(NAME, Input.HOLD)
    shell.take_back([lease.token(SECRET) for lease in shell.core.shard.leases])
    shell.log()
    assert shell.core.views.crawl(NAME).held
    assert [kind for kind in told(shell) if kind in ("PAUSED", "held")] == ["PAUSED", "held"]


def test_a_hold_survives_a_restart_before_it_is_reached_and_after() -> None:
    shell, (grant,) = fetching(most=1)
    shell.request(NAME, Input.HOLD)
    shell.restart()
    assert shell.state(NAME) is S.PAUSING
    fetch(shell, grant)
    shell.log()
    before = shell.core.views.crawl(NAME)
    assert before.held
    shell.restart()
    assert shell.core.views.crawl(NAME) == before
    with pytest.raises(CrawlHeld):
        shell.schedule(NAME, SEEDS[0])


def test_a_pause_asked_for_before_a_hold_is_reached_takes_its_place() -> None:
    shell, (grant,) = fetching(most=1)
    shell.request(NAME, Input.HOLD)
    shell.request(NAME, Input.PAUSE)
    fetch(shell, grant)
    assert (shell.state(NAME), shell.core.views.crawl(NAME).held) == (S.PAUSED, False)
    assert "held" not in told(shell) and "released" not in told(shell)


def test_a_hold_asked_for_during_a_pause_takes_its_place() -> None:
    shell, (grant,) = fetching(most=1)
    shell.request(NAME, Input.PAUSE)
    shell.request(NAME, Input.HOLD)
    fetch(shell, grant)
    shell.log()
    assert told(shell)[-2:] == ["PAUSED", "held"]


# What happens meanwhile.


def heartbeat(session: str = "1", leaving: bool = False) -> Callable[[Shell, Grant], object]:
    """A heartbeat that names a lease of long ago."""

    def beat(shell: Shell, grant: Grant) -> object:
        tokens = [grant.token]
        return shell.do(
            lambda core, now: core.frontier.heartbeat("node", session, tokens, [("fetch", 1)], now, leaving)
        )

    return beat


def days_later(shell: Shell, grant: Grant) -> None:
    """All timers fire: nodes fall silent, leases would lapse, a day goes by."""
    for _ in range(10):
        if shell.core.upkeep.next_due_ms() is not None:
            advance(shell)
    shell.now_ms += DAY_MS
    shell.tick()


def another_life(shell: Shell, grant: Grant) -> None:
    """A crawl of the same hosts is fetched from its launch to its end."""
    shell.create(OTHER, quick())
    shell.launch(OTHER, *SEEDS)
    fetch_all(shell)
    assert shell.state(OTHER) is S.FINISHED


MEANWHILE: dict[str, Callable[[Shell, Grant], object]] = {
    "days later": days_later,
    "heartbeat": heartbeat(),
    "heartbeat of a new session": heartbeat(session="2"),
    "goodbye": heartbeat(leaving=True),
    "asking for leases of it": lambda shell, grant: shell.next(NAME),
    "asking for leases of any": lambda shell, grant: shell.next(),
    "a report once more": lambda shell, grant: shell.finish(report(grant)),
    "a forged report": lambda shell, grant: shell.finish(Report(b"forged", fetch_status=200)),
    "taking back": lambda shell, grant: shell.take_back([grant.token]),
    "work": lambda shell, grant: shell.do(lambda core, now: core.upkeep.work(now)),
    "trouble with the disk": lambda shell, grant: shell.do(
        lambda core, now: core.upkeep.record_trouble(("disk-reserve", "no room"), now)
    ),
    "the end of trouble": lambda shell, grant: shell.do(
        lambda core, now: core.upkeep.record_trouble(None, now)
    ),
    "a loss of the store": lambda shell, grant: shell.do(
        lambda core, now: core.upkeep.record_lost({NAME: "lost"}, now)
    ),
    "a synced job log": lambda shell, grant: shell.do(
        lambda core, now: core.upkeep.record_job_logged({NAME: (1, 50)}, now)
    ),
    "the size of pools": lambda shell, grant: shell.do(
        lambda core, now: core.nodes.set_pool_size("node", 3, now, BY)
    ),
    "another crawl's life": another_life,
    "a checkpoint": lambda shell, grant: shell.do(
        lambda core, now: core.control.record_checkpoint("cp00001", now)
    ),
    "a second hold": lambda shell, grant: shell.do(
        lambda core, now: core.control.request_state(NAME, Input.HOLD, now, BY)
    ),
    "a restart": lambda shell, grant: shell.restart(),
    "reading": lambda shell, grant: (
        shell.events(NAME),
        shell.outcomes(NAME),
        shell.core.views.statistics(NAME, shell.now_ms),
        shell.core.administration.queues(NAME, None, 10, b""),
        shell.core.administration.jobs(NAME),
        shell.core.administration.explain(NAME, "", "", shell.now_ms),
    ),
}


@pytest.mark.parametrize("what", MEANWHILE)
def test_nothing_of_it_is_written_whatever_happens(what: str) -> None:
    """The promise of HOLD: a copy that is made of the store meanwhile shows the crawl as it is."""
    shell, (grant,) = held_after(1)
    with still(shell, NAME):
        MEANWHILE[what](shell, grant)
        shell.tick()
        shell.work()
        days_later(shell, grant)
        shell.restart()
        days_later(shell, grant)
    assert shell.core.views.crawl(NAME).held


def waiting_at_a_host(rest_ms: int) -> tuple[Shell, list[Grant]]:
    """A held crawl, with a queue that waits for a host, which answers another crawl; and that lease."""
    rests = PolitenessSettings(delay_factor=0, min_delay_ms=rest_ms, max_delay_ms=rest_ms)
    shell = launched(SEEDS[0], politeness=rests)
    shell.create(OTHER, quick(politeness=rests))
    shell.launch(OTHER, SEEDS[0])
    fetch(shell, *shell.grants(NAME))
    shell.now_ms += rest_ms
    shell.tick()
    page = shell.grants(OTHER)
    assert page and not shell.grants(NAME)
    shell.log()
    shell.request(NAME, Input.HOLD)
    assert shell.core.views.crawl(NAME).held
    return shell, page


@pytest.mark.parametrize("rest_ms", [0, 60_000])
@pytest.mark.sampled("ending", ["report", "release", "lapse"])
@pytest.mark.sampled("sleeping", [0, MAX_SNOOZED_IN_MEMORY])
def test_what_ends_at_a_host_that_it_waits_for_writes_nothing_of_it(
    rest_ms: int, ending: str, sleeping: int
) -> None:
    """Whether its queue would sleep on disk or in memory; released, it goes on when the host has rested."""
    shell, (page,) = waiting_at_a_host(rest_ms)
    with patch.object(operation, "MAX_SNOOZED_IN_MEMORY", sleeping):
        with still(shell, NAME):
            if ending == "lapse":
                shell.now_ms += PERIOD_MS
                shell.tick()
            else:
                shell.finish(Report(page.token, fetch_status=200, released=ending == "release"))
        shell.request(OTHER, Input.STOP)
        Recount(shell, shell.core.shard.registry.named(NAME)).run()
        shell.request(NAME, Input.RESUME)
        if rest_ms and ending != "release":
            assert not shell.grants(NAME)
            shell.now_ms += rest_ms
        assert [grant.uri for grant in shell.grants(NAME)] == [SEEDS[0]]
        Recount(shell, shell.core.shard.registry.named(NAME)).run()


def test_its_jobs_wait_and_go_on_when_it_is_released() -> None:
    shell = held()
    (job,) = [job for job in shell.core.administration.jobs(NAME) if job.kind == JobKind.VERIFY.value]
    assert (job.state, job.done, shell.core.upkeep.has_work) == ("RUNNING", 0, False)
    shell.request(NAME, Input.PAUSE)
    shell.work()
    job = shell.core.administration.job(NAME, job.number)
    assert (job.state, job.changed) == ("DONE", 0), "and finds nothing wrong"


def test_a_report_of_a_lease_that_ended_before_is_answered_as_it_was() -> None:
    shell, (grant,) = fetching(most=1)
    fetch(shell, grant)
    shell.request(NAME, Input.HOLD)
    shell.log()
    (result,) = shell.finish(report(grant))
    assert (result.disposition, result.repeated) == (Disposition.SUCCEEDED, True)


# What is refused.


@pytest.mark.interpreted
def test_every_operation_that_may_change_a_crawl_is_looked_at_here() -> None:
    assert all_there_are() == MUTATORS.keys() | OTHERS


@pytest.mark.parametrize("mutator", MUTATORS)
def test_what_would_change_it_is_refused_with_a_hint_when_to_come_back(mutator: str) -> None:
    """CRAWL_HELD; nothing is written, and nobody is told as an operator."""
    shell = held()
    with still(shell, NAME), pytest.raises(CrawlHeld, match=f"'{NAME}' is held") as refused:
        shell.do(MUTATORS[mutator])
    assert refused.value.metadata == {"crawl": NAME, "state": "PAUSED"}
    assert refused.value.retry_ms == 1_000


def test_a_launch_and_a_deletion_are_refused_as_they_are_of_any_crawl_that_is_paused() -> None:
    shell = held()
    with still(shell, NAME):
        with pytest.raises(IllegalState, match="PAUSED"):
            shell.do(lambda core, now: core.control.launch(NAME, now))
        with pytest.raises(CrawlActive, match="PAUSED"):
            shell.do(lambda core, now: core.control.delete_crawl(NAME, now))


@pytest.mark.parametrize("mutator", ["Frontier.schedule", "Administration.record_seen"])
def test_on_the_way_to_a_hold_a_crawl_still_takes_in_what_comes(mutator: str) -> None:
    shell, (grant,) = fetching(most=1)
    shell.request(NAME, Input.HOLD)
    shell.do(MUTATORS[mutator])
    fetch(shell, grant)
    shell.log()
    assert shell.core.views.crawl(NAME).held


# Its end.


def test_a_resume_releases_it() -> None:
    shell = held()
    assert shell.request(NAME, Input.RESUME) is S.RUNNING
    assert told(shell)[-3:] == ["held", "released", "RUNNING"]
    assert not shell.core.views.crawl(NAME).held
    assert shell.grants(NAME)


def test_a_pause_releases_it_and_it_stays_paused() -> None:
    """It can be changed again, and no state is told a second time (S0.4)."""
    shell = held()
    assert shell.request(NAME, Input.PAUSE) is S.PAUSED
    assert told(shell)[-2:] == ["held", "released"]
    shell.schedule(NAME, f"{SEEDS[0]}new")
    assert not shell.grants(NAME)


def test_a_stop_releases_it_and_ends_it() -> None:
    shell = held()
    assert shell.request(NAME, Input.STOP) is S.FINISHED
    assert told(shell)[-4:] == ["held", "released", "STOPPING", "FINISHED"]
    assert shell.core.views.crawl(NAME).exit_status is ExitStatus.ABORTED


def test_a_teardown_releases_it_ends_it_and_lets_it_go() -> None:
    shell = held()
    (view, begun) = shell.do(lambda core, now: core.control.tear_down(NAME, now, BY))
    assert (view.state, begun) == (S.FINISHED, True)
    shell.work()
    kinds = told(shell)
    assert kinds[kinds.index("held") :] == [
        "held",
        "operator_acted",
        "released",
        "STOPPING",
        "FINISHED",
        "job_ended",
        "torn_down",
    ]


def test_it_can_be_held_again_after_it_was_released() -> None:
    shell = held()
    shell.request(NAME, Input.PAUSE)
    shell.request(NAME, Input.HOLD)
    assert told(shell)[-3:] == ["held", "released", "held"]
    shell.request(NAME, Input.RESUME)
    shell.request(NAME, Input.HOLD)
    assert told(shell)[-6:] == ["held", "released", "RUNNING", "PAUSING", "PAUSED", "held"]


def test_rests_of_hosts_are_kept_over_a_hold() -> None:
    """Politeness: what is resumed goes on no sooner than it would have."""
    shell = launched(SEEDS[0], politeness=PolitenessSettings(min_delay_ms=60_000, max_delay_ms=60_000))
    fetch(shell, *shell.grants())
    shell.request(NAME, Input.HOLD)
    shell.log()
    shell.now_ms += 59_999
    shell.request(NAME, Input.RESUME)
    assert not shell.grants(NAME)
    shell.now_ms += 1
    assert shell.grants(NAME)


def test_the_store_of_a_held_crawl_is_the_store_of_it_when_it_is_opened() -> None:
    shell = held()
    before = stored_of(shell, 1)
    shell.restart()
    assert stored_of(shell, 1) == before
