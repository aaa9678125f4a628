"""A finished crawl that is reopened runs again, with all that it left."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from core_doubles.codec import settings_of, spec_of
from core_doubles.lives import NAME, SEEDS, fetch_all, in_state, launched, quick
from core_doubles.shell import Shell

from frontier_server.core.machines.lifecycle import CrawlState, ExitStatus, Input
from frontier_server.core.rows.errors import CrawlTornDown, IllegalState
from frontier_server.core.spec.settings import LimitSettings
from frontier_server.core.state.job import JobKind
from frontier_server.core.state.model import CrawlView, Report

S = CrawlState
SITE = [f"http://alpha.example/{number}" for number in range(6)]


def reopen(shell: Shell, most: int = 0, pause: bool = False) -> CrawlView:
    """Reopen the crawl, with a limit of documents."""

    def amended(before: bytes) -> tuple[bytes, Sequence[str]]:
        settings = replace(settings_of(before), limits=LimitSettings(max_documents=most))
        return spec_of(settings), ("limits.max_documents",)

    view = shell.do(lambda core, now: core.control.reopen(NAME, amended, pause, now))
    shell.work()
    return view


def ended_at(most: int) -> Shell:
    """A crawl of six pages that has ended at a limit."""
    shell = launched(*SITE, limits=LimitSettings(max_documents=most))
    fetch_all(shell)
    shell.work()
    assert shell.state(NAME) is S.FINISHED and shell.count(NAME, "succeeded_count") == most
    assert not shell.core.shard.registry.named(NAME).queues.active, "its queues are unloaded"
    return shell


@pytest.mark.parametrize("restarts", [False, True])
def test_a_crawl_that_ended_at_its_limit_goes_on_when_the_limit_is_raised(restarts: bool) -> None:
    shell = ended_at(2)
    if restarts:
        shell.restart()
    view = reopen(shell, 4)
    assert (view.state, view.exit_status, view.finish_ms) == (S.RUNNING, ExitStatus.RUNNING, 0)
    if restarts:
        shell.restart()
    fetch_all(shell)
    assert shell.state(NAME) is S.FINISHED and shell.count(NAME, "succeeded_count") == 4
    reopen(shell, 100)
    fetch_all(shell)
    assert shell.count(NAME, "succeeded_count") == len(SITE) and shell.count(NAME, "queued_count") == 0
    named = shell.core.shard.registry.named(NAME)
    assert (named.state, named.exit_status) == (S.FINISHED, ExitStatus.FINISHED)
    job = shell.do(lambda core, now: core.administration.start_job(NAME, JobKind.VERIFY, {}, now))
    shell.work()
    assert shell.core.administration.job(NAME, job.number).changed == 0, "and nothing is out of step"


def test_a_limit_that_is_still_reached_is_refused_by_name() -> None:
    shell = ended_at(2)
    with pytest.raises(IllegalState, match=r"has reached limits.max_documents = 2; raise it above 2"):
        reopen(shell, 2)
    assert shell.state(NAME) is S.FINISHED


def test_a_crawl_that_is_reopened_to_pause_takes_in_uris_before_it_runs() -> None:
    shell = ended_at(6)
    assert reopen(shell, 10, pause=True).state is S.PAUSED
    shell.schedule(NAME, "http://alpha.example/new")
    assert shell.grants(NAME) == []
    shell.request(NAME, Input.RESUME)
    fetch_all(shell)
    assert shell.state(NAME) is S.FINISHED and shell.count(NAME, "succeeded_count") == 7


def test_a_crawl_with_nothing_left_ends_again_at_once() -> None:
    shell = launched(SITE[0])
    fetch_all(shell)
    assert shell.state(NAME) is S.FINISHED
    reopen(shell)
    assert shell.state(NAME) is S.FINISHED


def test_the_time_since_the_end_does_not_count() -> None:
    shell = ended_at(2)
    named = shell.core.shard.registry.named(NAME)
    before_ms = named.elapsed_ms(shell.now_ms)
    shell.now_ms += 1_000_000
    reopen(shell, 4, pause=True)
    assert named.elapsed_ms(shell.now_ms) == before_ms


def test_a_crawl_that_was_stopped_is_reopened_with_its_leases_free() -> None:
    shell = launched(*SITE)
    (grant,) = shell.grants(NAME, most=1)
    shell.request(NAME, Input.STOP)
    shell.request(NAME, Input.STOP)  # nodes break off their fetches
    shell.finish(Report(grant.token, fetch_status=-7000))
    assert shell.state(NAME) is S.FINISHED
    reopen(shell)
    shell.tick()
    again = shell.grants(NAME, most=1)
    answer = shell.do(
        lambda core, now: core.frontier.heartbeat("node", "1", [each.token for each in again], [], now)
    )
    assert not answer.interrupt


def test_seeds_that_were_never_announced_are() -> None:
    shell = in_state(S.NASCENT)
    shell.request(NAME, Input.STOP)
    reopen(shell)
    assert shell.state(NAME) is S.RUNNING
    assert shell.core.shard.registry.named(NAME).counters.announced_seeds == len(SEEDS)


@pytest.mark.parametrize("state", [state for state in CrawlState if state is not S.FINISHED])
def test_only_a_finished_crawl_can_be_reopened(state: CrawlState) -> None:
    shell = in_state(state)
    with pytest.raises(IllegalState, match="must be FINISHED"):
        reopen(shell)
    assert shell.state(NAME) is state


def test_a_crawl_that_is_being_torn_down_is_refused() -> None:
    shell = Shell()
    shell.create(NAME, quick())
    shell.launch(NAME, *SEEDS)
    shell.request(NAME, Input.STOP)
    crawl = shell.core.shard.registry.named(NAME)
    crawl.state_row.tearing_down = True
    with pytest.raises(CrawlTornDown, match="is being torn down"):
        reopen(shell)
