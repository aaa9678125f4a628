"""A crawl's clock, which max_elapsed bounds, counts the time in which a server ran."""

import pytest
from core_doubles.shell import Shell

from frontier_server.core.machines.lifecycle import CrawlState, ExitStatus, Input
from frontier_server.core.spec.settings import CrawlSettings, LimitSettings

MINUTE, DAY = 60_000, 86_400_000
SEED = "http://a.example/"


def crawl() -> Shell:
    shell = Shell()
    limits = LimitSettings(max_elapsed_ms=10 * MINUTE)
    shell.create("crawl", CrawlSettings(allowed_addresses=("loopback",), limits=limits))
    shell.launch("crawl", SEED)
    return shell


def work_for(shell: Shell, minutes: int) -> None:
    """Something is written each minute, as leases and reports are."""
    for _ in range(minutes):
        shell.now_ms += MINUTE
        shell.schedule("crawl", f"{SEED}{shell.now_ms}")
        shell.tick()


def elapsed_ms(shell: Shell) -> int:
    return shell.core.views.statistics("crawl", shell.now_ms).elapsed_ms


@pytest.mark.parametrize("kills", [1, 2, 5])
def test_time_without_a_server_does_not_count_towards_max_elapsed(kills: int) -> None:
    shell = crawl()
    for _ in range(kills):
        work_for(shell, 1)
        shell.now_ms += DAY
        shell.restart()  # nothing was written meanwhile, as after kill -9
    assert elapsed_ms(shell) == kills * MINUTE
    work_for(shell, 9 - kills)
    assert (elapsed_ms(shell), shell.state("crawl")) == (9 * MINUTE, CrawlState.RUNNING)
    work_for(shell, 1)
    assert shell.core.views.crawl("crawl").exit_status is ExitStatus.FINISHED_TIME_LIMIT


@pytest.mark.parametrize("crash", [False, True])
def test_a_new_server_stores_the_clocks_of_crawls_with_its_first_changes(crash: bool) -> None:
    shell = crawl()
    work_for(shell, 2)
    shell.now_ms += DAY
    shell.restart()
    if crash:
        shell.lose(lambda core, now: core.frontier.schedule("crawl", [], now))
    work_for(shell, 1)
    shell.now_ms += DAY
    shell.restart()
    assert elapsed_ms(shell) == 3 * MINUTE


def test_the_time_limit_falls_due_when_the_remaining_running_time_is_over() -> None:
    shell = crawl()
    work_for(shell, 4)
    shell.now_ms += DAY
    shell.restart()
    work_for(shell, 5)
    due_ms = shell.core.upkeep.next_due_ms()
    assert due_ms is not None and due_ms <= shell.now_ms + MINUTE
    assert shell.state("crawl") is CrawlState.RUNNING


def test_a_restart_adds_no_time_to_the_clock_of_a_paused_crawl() -> None:
    shell = crawl()
    work_for(shell, 3)
    shell.request("crawl", Input.PAUSE)
    shell.now_ms += DAY
    shell.restart()
    assert elapsed_ms(shell) == 3 * MINUTE
    shell.request("crawl", Input.RESUME)
    work_for(shell, 2)
    assert elapsed_ms(shell) == 5 * MINUTE


def test_time_in_which_the_server_was_suspended_does_not_count() -> None:
    """As by SIGSTOP, or while its machine was paused."""
    shell = crawl()
    work_for(shell, 3)
    shell.now_ms += DAY
    shell.core.upkeep.excuse(DAY, shell.now_ms)
    assert elapsed_ms(shell) == 3 * MINUTE
    work_for(shell, 1)
    assert (elapsed_ms(shell), shell.state("crawl")) == (4 * MINUTE, CrawlState.RUNNING)
    shell.restart()
    assert elapsed_ms(shell) == 4 * MINUTE


def test_a_recrawl_falls_due_at_its_own_time_limit_and_not_before() -> None:
    shell = crawl()
    work_for(shell, 10)
    assert shell.core.views.crawl("crawl").exit_status is ExitStatus.FINISHED_TIME_LIMIT
    recrawl_ms = shell.now_ms
    shell.do(
        lambda core, now: core.control.reopen("crawl", lambda spec: (spec, ()), False, now, "", recrawl_ms)
    )
    shell.tick()
    due_ms = shell.core.upkeep.next_due_ms()
    assert due_ms is not None and due_ms > shell.now_ms, "ticks would follow each other without a pause"
    work_for(shell, 9)
    due_ms = shell.core.upkeep.next_due_ms()
    assert due_ms is not None and due_ms <= shell.now_ms + MINUTE
    assert shell.state("crawl") is CrawlState.RUNNING
    statistics = shell.core.views.statistics("crawl", shell.now_ms)
    assert (statistics.elapsed_ms, statistics.limited_ms) == (19 * MINUTE, 9 * MINUTE)
    work_for(shell, 1)
    assert shell.core.views.crawl("crawl").exit_status is ExitStatus.FINISHED_TIME_LIMIT
