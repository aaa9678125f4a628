"""Bounds of a life: a pause and an end wait for what is in flight, but not for ever (D6)."""

import pytest
from core_doubles.lives import NAME, SEEDS, advance, created, fetch, fetching, launched, report
from core_doubles.shell import Shell

from frontier_server.core.machines.lifecycle import CrawlState, ExitStatus, Input
from frontier_server.core.rows.records import OutcomeRow
from frontier_server.core.rules.disposition import PROCESSING_THREAD_KILLED, Disposition
from frontier_server.core.spec.settings import CrawlSettings, LimitSettings, RetrySettings, RobotsSettings
from frontier_server.core.state.crawl import INTERRUPT_WAIT_MS
from frontier_server.core.state.model import Grant, HeartbeatAnswer, Report
from frontier_server.core.upkeep import LAPSES_PER_TICK

S = CrawlState
PAUSE_MS, STOP_MS = 7_000, 9_000
MANY = 2 * LAPSES_PER_TICK + 50
STALE = [Disposition.STALE]


def flying(most: int = 2) -> tuple[Shell, list[Grant]]:
    """A crawl with pages out at a node that goes on naming its leases and reports none of them."""
    return fetching(most=most, pause_timeout_ms=PAUSE_MS, stop_timeout_ms=STOP_MS)


def beat(shell: Shell, *grants: Grant) -> HeartbeatAnswer:
    """A heartbeat."""
    tokens = [grant.token for grant in grants]
    return shell.do(lambda core, now: core.frontier.heartbeat("node", "1", tokens, [], now))


def wait(shell: Shell, ms: int, *grants: Grant) -> None:
    """Let time go by, with heartbeats, so that no lease lapses for its own sake."""
    end_ms = shell.now_ms + ms
    while shell.now_ms < end_ms:
        shell.now_ms = min(shell.now_ms + shell.period_ms // 2, end_ms)
        beat(shell, *grants)
        shell.tick()


def cancelled(shell: Shell) -> list[dict[str, str | int]]:
    """What events tell of flights that were cancelled."""
    return [row.fields for row in shell.events(NAME) if row.kind == "flights_cancelled"]


def pages(shell: Shell) -> list[OutcomeRow]:
    """Final dispositions but for robots.txt."""
    return [row for row in shell.outcomes(NAME) if not row.path.endswith("P")]


# A pause.


def test_a_pause_waits_as_long_as_the_crawl_says_and_no_longer() -> None:
    shell, grants = flying()
    assert shell.request(NAME, Input.PAUSE) is S.PAUSING
    wait(shell, PAUSE_MS - 1, *grants)
    assert (shell.state(NAME), shell.core.nodes.leases_out) == (S.PAUSING, 2)
    assert shell.core.upkeep.next_due_ms() == shell.now_ms + 1, "the timer knows"
    wait(shell, 1, *grants)
    assert (shell.state(NAME), shell.core.nodes.leases_out) == (S.PAUSED, 0)
    assert cancelled(shell) == [{"leased_count": 2, "bound": "pause_timeout"}]
    assert [row.kind for row in shell.events(NAME)[-3:]] == [
        "flights_cancelled",
        "statistics",
        "status_changed",
    ]


def test_what_a_pause_waited_for_in_vain_is_back_in_its_queue_as_it_was() -> None:
    """It goes on after the resume, politely, at its place; no attempt is counted."""
    shell, grants = flying()
    shell.request(NAME, Input.PAUSE)
    wait(shell, PAUSE_MS, *grants)
    assert (shell.count(NAME, "queued_count"), shell.count(NAME, "lapsed_count")) == (4, 2)
    assert pages(shell) == [], "none has failed"
    shell.request(NAME, Input.RESUME)
    again = {grant.uri: grant.attempt for grant in shell.grants()}
    assert again == dict.fromkeys(SEEDS, 1)


def test_a_report_that_comes_after_the_bound_is_stale() -> None:
    shell, (late, early) = flying()
    shell.request(NAME, Input.PAUSE)
    fetch(shell, early)
    wait(shell, PAUSE_MS, late)
    assert beat(shell, late).ended == [late.token]
    assert [result.disposition for result in shell.finish(report(late))] == STALE
    assert [row.uri for row in pages(shell)] == [early.uri]


@pytest.mark.parametrize("max_attempts", [1, 2, 30])
def test_pauses_alone_never_make_a_uri_fail(max_attempts: int) -> None:
    """Neither by lapses nor by attempts: nothing was tried that could have told of the URI."""
    retry = RetrySettings(max_attempts=max_attempts)
    shell, (grant,) = fetching(SEEDS[0], pause_timeout_ms=PAUSE_MS, retry=retry)
    for _ in range(5):
        shell.request(NAME, Input.PAUSE)
        wait(shell, PAUSE_MS, grant)
        shell.request(NAME, Input.RESUME)
        (grant,) = shell.grants()
    assert (grant.uri, grant.attempt) == (SEEDS[0], 1)
    assert pages(shell) == []
    fetch(shell, grant)
    assert [row.disposition for row in pages(shell)] == ["SUCCEEDED"]


def test_a_pause_that_cuts_the_fetch_of_a_robots_txt_says_nothing_about_its_host() -> None:
    """It is no try of it: another crawl's URIs would wait, or fail, for an operator's wish."""
    robots = RobotsSettings(max_attempts=1)
    shell = launched(SEEDS[0], pause_timeout_ms=PAUSE_MS, robots=robots)
    for _ in range(3):
        (grant,) = shell.grants()
        assert (grant.robots, grant.attempt) == (True, 1)
        shell.request(NAME, Input.PAUSE)
        wait(shell, PAUSE_MS, grant)
        shell.request(NAME, Input.RESUME)
    fetch(shell, *shell.grants())
    (page,) = shell.grants()
    assert page.uri == SEEDS[0]


@pytest.mark.parametrize("reported", [False, True])
def test_nor_does_the_end_of_a_crawl(reported: bool) -> None:
    """Whether the node reports that it has broken the fetch off, or keeps silent until the bound."""
    shell = launched(SEEDS[0], stop_timeout_ms=STOP_MS)
    (grant,) = shell.grants()
    shell.request(NAME, Input.STOP)
    if reported:
        shell.request(NAME, Input.STOP)
        shell.finish(report(grant, PROCESSING_THREAD_KILLED))
    else:
        wait(shell, STOP_MS, grant)
    assert shell.state(NAME) is S.FINISHED
    settings = CrawlSettings(allowed_addresses=("loopback",), robots=RobotsSettings(max_attempts=1))
    shell.create("other", settings)
    shell.launch("other", SEEDS[0])
    shell.now_ms += 60_000
    (again,) = shell.grants("other")
    assert (again.robots, again.attempt) == (True, 1)


def test_a_robots_txt_that_a_pause_waited_for_in_vain_is_asked_for_again() -> None:
    shell = launched(SEEDS[0], pause_timeout_ms=PAUSE_MS)
    (grant,) = shell.grants()
    assert grant.robots
    shell.request(NAME, Input.PAUSE)
    wait(shell, PAUSE_MS, grant)
    shell.request(NAME, Input.RESUME)
    shell.now_ms += 60_000
    shell.tick()
    (again,) = shell.grants()
    assert (again.robots, again.uri, again.attempt) == (True, grant.uri, 1)


def test_a_hold_has_the_bound_of_a_pause() -> None:
    shell, grants = flying()
    shell.request(NAME, Input.HOLD)
    wait(shell, PAUSE_MS, *grants)
    assert cancelled(shell) == [{"leased_count": 2, "bound": "pause_timeout"}]
    shell.log()
    assert shell.core.views.crawl(NAME).held


def test_the_bound_counts_from_the_first_request_whatever_is_asked_for_then() -> None:
    """To ask again does not put off what was promised."""
    shell, grants = flying()
    shell.request(NAME, Input.PAUSE)
    wait(shell, PAUSE_MS - 1_000, *grants)
    shell.request(NAME, Input.HOLD)
    wait(shell, 1_000, *grants)
    assert shell.core.nodes.leases_out == 0


def test_a_resume_takes_the_bound_away() -> None:
    shell, grants = flying()
    shell.request(NAME, Input.PAUSE)
    wait(shell, PAUSE_MS - 1, *grants)
    shell.request(NAME, Input.RESUME)
    wait(shell, 10 * PAUSE_MS, *grants)
    assert (shell.state(NAME), shell.core.nodes.leases_out, cancelled(shell)) == (S.RUNNING, 2, [])


def test_a_pause_after_a_resume_has_a_bound_of_its_own() -> None:
    shell, grants = flying()
    for _ in range(2):
        shell.request(NAME, Input.PAUSE)
        wait(shell, PAUSE_MS - 1, *grants)
        assert shell.state(NAME) is S.PAUSING
        shell.request(NAME, Input.RESUME)
    shell.request(NAME, Input.PAUSE)
    wait(shell, PAUSE_MS, *grants)
    assert shell.state(NAME) is S.PAUSED


# The end.


def test_the_end_waits_as_long_as_the_crawl_says_and_no_longer() -> None:
    """D6, S0.40: in Heritrix FINISH waits for URIs in process without limit."""
    shell, grants = flying()
    assert shell.request(NAME, Input.STOP) is S.STOPPING
    wait(shell, STOP_MS - 1, *grants)
    assert (shell.state(NAME), shell.core.nodes.leases_out) == (S.STOPPING, 2)
    assert shell.core.upkeep.next_due_ms() == shell.now_ms + 1, "the timer knows"
    wait(shell, 1, *grants)
    assert (shell.state(NAME), shell.core.nodes.leases_out) == (S.FINISHED, 0)
    assert shell.core.views.crawl(NAME).exit_status is ExitStatus.ABORTED
    assert cancelled(shell) == [{"leased_count": 2, "bound": "stop_timeout"}]


def test_what_the_end_waited_for_in_vain_has_failed_with_its_own_status() -> None:
    """S0.40, D6: -7000, once, in the crawl log."""
    shell, grants = flying()
    shell.request(NAME, Input.STOP)
    wait(shell, STOP_MS, *grants)
    assert sorted((row.uri, row.fetch_status, row.disposition, row.annotations) for row in pages(shell)) == [
        (grant.uri, PROCESSING_THREAD_KILLED, "FAILED", ("cancelled",))
        for grant in sorted(grants, key=lambda grant: grant.uri)
    ]
    assert shell.count(NAME, "queued_count") == 2, "what was never out is still there"
    assert [result.disposition for result in shell.finish(*map(report, grants))] == STALE * 2
    assert len(pages(shell)) == 2


def test_the_end_comes_in_its_bound_though_every_node_is_gone() -> None:
    """From any state a stop reaches FINISHED; nobody has to ask for anything."""
    shell, _ = flying()
    shell.request(NAME, Input.STOP)
    start_ms = shell.now_ms
    while shell.state(NAME) is not S.FINISHED:
        advance(shell)
    assert shell.now_ms == start_ms + STOP_MS


@pytest.mark.parametrize("restart_at_ms", [0, 1_000, STOP_MS - 1, STOP_MS, 10 * STOP_MS])
def test_the_bound_counts_over_a_restart(restart_at_ms: int) -> None:
    """Leases get a fresh period then, but the end comes when it was promised."""
    shell, _ = flying()
    shell.request(NAME, Input.STOP)
    shell.now_ms += restart_at_ms
    shell.restart()
    while shell.state(NAME) is not S.FINISHED:
        advance(shell)
    assert shell.now_ms - shell.core.views.crawl(NAME).launch_ms <= max(STOP_MS, restart_at_ms)


def test_the_end_that_a_limit_brings_has_the_same_bound() -> None:
    shell, (first, second) = fetching(most=2, stop_timeout_ms=STOP_MS, limits=LimitSettings(max_bytes=10))
    shell.finish(Report(first.token, fetch_status=200, body_bytes=10))
    assert shell.state(NAME) is S.STOPPING
    wait(shell, STOP_MS, second)
    view = shell.core.views.crawl(NAME)
    assert (view.state, view.exit_status) == (S.FINISHED, ExitStatus.FINISHED_DATA_LIMIT)


def test_a_stop_of_a_crawl_that_pauses_has_a_bound_of_its_own() -> None:
    """It counts from the stop, and what is out fails instead of going back."""
    shell, grants = flying()
    shell.request(NAME, Input.PAUSE)
    wait(shell, PAUSE_MS - 1, *grants)
    shell.request(NAME, Input.STOP)
    wait(shell, STOP_MS - 1, *grants)
    assert shell.state(NAME) is S.STOPPING
    wait(shell, 1, *grants)
    assert shell.state(NAME) is S.FINISHED
    assert cancelled(shell) == [{"leased_count": 2, "bound": "stop_timeout"}]
    assert {row.fetch_status for row in pages(shell)} == {PROCESSING_THREAD_KILLED}


# A second stop.


def test_a_second_stop_tells_nodes_to_break_off_what_they_fetch() -> None:
    """S0.17: in Heritrix it interrupts all toe threads. The first one lets them finish."""
    shell, grants = flying()
    tokens = [grant.token for grant in grants]
    shell.request(NAME, Input.STOP)
    answer = beat(shell, *grants)
    assert (answer.interrupt, answer.release) == ([], tokens)
    shell.request(NAME, Input.STOP)
    answer = beat(shell, *grants)
    assert (answer.interrupt, answer.release, answer.ended) == (tokens, [], [])
    assert beat(shell, *grants).interrupt == tokens, "each time: an answer may get lost"


def test_it_is_told_of_whoever_asks_and_once() -> None:
    shell, _ = flying()
    for _ in range(4):
        shell.do(lambda core, now: core.control.request_state(NAME, Input.STOP, now, "me"))
    acts = [row.fields["action"] for row in shell.events(NAME) if row.kind == "operator_acted"]
    assert acts == ["stop", "interrupt"]


def test_what_is_still_out_a_while_after_a_second_stop_is_cancelled() -> None:
    """S0.17: 15 s later, which is a heartbeat's time, and that of a report."""
    shell, grants = fetching(most=2, stop_timeout_ms=600_000)
    shell.request(NAME, Input.STOP)
    wait(shell, 30_000, *grants)
    shell.request(NAME, Input.STOP)
    wait(shell, INTERRUPT_WAIT_MS - 1, *grants)
    assert shell.state(NAME) is S.STOPPING
    wait(shell, 1, *grants)
    assert shell.state(NAME) is S.FINISHED
    assert cancelled(shell) == [{"leased_count": 2, "bound": "interrupt"}]
    assert INTERRUPT_WAIT_MS == 15_000


def test_a_third_stop_does_not_put_it_off() -> None:
    shell, grants = fetching(most=2, stop_timeout_ms=600_000)
    shell.request(NAME, Input.STOP)
    shell.request(NAME, Input.STOP)
    wait(shell, INTERRUPT_WAIT_MS - 1, *grants)
    shell.request(NAME, Input.STOP)
    wait(shell, 1, *grants)
    assert shell.state(NAME) is S.FINISHED


def test_a_second_stop_never_makes_the_end_later() -> None:
    shell, grants = flying()
    shell.request(NAME, Input.STOP)
    wait(shell, STOP_MS - 1_000, *grants)
    shell.request(NAME, Input.STOP)
    wait(shell, 1_000, *grants)
    assert cancelled(shell) == [{"leased_count": 2, "bound": "stop_timeout"}]


def test_a_node_that_breaks_off_ends_the_wait() -> None:
    """What it had begun fails with -7000, by its report; what it had not goes back."""
    shell, (begun, waiting) = flying()
    shell.request(NAME, Input.STOP)
    shell.request(NAME, Input.STOP)
    killed = Report(begun.token, fetch_status=PROCESSING_THREAD_KILLED)
    shell.finish(killed, Report(waiting.token, released=True))
    assert (shell.state(NAME), cancelled(shell)) == (S.FINISHED, [])
    assert [(row.uri, row.annotations) for row in pages(shell)] == [(begun.uri, ())]


def test_interrupts_survive_a_restart() -> None:
    shell, grants = flying()
    shell.request(NAME, Input.STOP)
    shell.request(NAME, Input.STOP)
    shell.restart()
    assert beat(shell, *grants).interrupt == [grant.token for grant in grants]


# Many leases.


@pytest.mark.parametrize("asked", [Input.PAUSE, Input.STOP])
def test_many_leases_end_a_share_at_a_time(asked: Input) -> None:
    """No operation holds up the others for long; the timer is due at once until all have ended."""
    shell = created(pause_timeout_ms=PAUSE_MS, stop_timeout_ms=STOP_MS)
    shell.launch(NAME, *(f"http://host{number}.example/" for number in range(MANY)))
    while shell.grants():
        pass
    assert shell.core.nodes.leases_out == MANY
    shell.request(NAME, asked)
    shell.now_ms += max(PAUSE_MS, STOP_MS)
    left = []
    while shell.core.nodes.leases_out:
        due_ms = shell.core.upkeep.next_due_ms()
        assert due_ms is not None and due_ms <= shell.now_ms
        shell.tick()
        left.append(shell.core.nodes.leases_out)
    assert left == [MANY - LAPSES_PER_TICK, MANY - 2 * LAPSES_PER_TICK, 0]
    assert [told["leased_count"] for told in cancelled(shell)] == [MANY], "told once"
    assert shell.state(NAME) is (S.PAUSED if asked is Input.PAUSE else S.FINISHED)


@pytest.mark.parametrize("asked", [Input.PAUSE, Input.STOP])
def test_a_restart_in_the_middle_of_that_goes_on(asked: Input) -> None:
    shell = created(pause_timeout_ms=PAUSE_MS, stop_timeout_ms=STOP_MS)
    shell.launch(NAME, *(f"http://host{number}.example/" for number in range(MANY)))
    while shell.grants():
        pass
    shell.request(NAME, asked)
    shell.now_ms += max(PAUSE_MS, STOP_MS)
    shell.tick()
    shell.restart()
    while shell.core.nodes.leases_out:
        advance(shell)
    assert len(cancelled(shell)) == 1
    assert shell.state(NAME) is (S.PAUSED if asked is Input.PAUSE else S.FINISHED)
