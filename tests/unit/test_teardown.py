"""Teardown: a crawl ends, leaves memory, and says so last; once, however many ask and whatever is killed."""

from collections.abc import Callable, Iterator

import pytest
from core_doubles.codec import candidate
from core_doubles.lives import NAME, SEEDS, created, fetch, fetch_all, fetching, in_state, launched
from core_doubles.shell import Shell
from core_doubles.stillness import still
from core_doubles.teardowns import MOST_STEPS, S, gone, is_gone, let_end, tear_down, told

from frontier_server.core.core import Core
from frontier_server.core.machines.lifecycle import CrawlState, ExitStatus, Input
from frontier_server.core.rows.errors import CrawlFinished, CrawlTornDown
from frontier_server.core.rows.records import ImportRow
from frontier_server.core.rows.store import Changes
from frontier_server.core.state.job import JobKind

# From each state.


@pytest.mark.parametrize("state", CrawlState)
def test_it_ends_a_crawl_in_whatever_state_and_lets_it_go(state: CrawlState) -> None:
    """S0.25, S0.29: stop if need be, wait, unload."""
    shell = in_state(state, stop_timeout_ms=5_000)
    before = told(shell)
    view, begun = tear_down(shell, "me")
    assert begun and view.tearing_down and shell.core.views.crawl(NAME).tearing_down
    let_end(shell)
    view = shell.core.views.crawl(NAME)
    assert (view.state, view.tearing_down, view.torn_down) == (S.FINISHED, True, True)
    assert view.exit_status is ExitStatus.ABORTED
    after = [kind for kind in told(shell)[len(before) :] if kind not in ("statistics", "flights_cancelled")]
    ends = (
        []
        if state is S.FINISHED
        else ["FINISHED"]
        if state in (S.NASCENT, S.STOPPING)
        else ["STOPPING", "FINISHED"]
    )
    jobs = ["job_ended"] if "job_ended" in after else []
    assert after == ["operator_acted", *ends, *jobs, "torn_down"]


def test_it_is_told_who_asked() -> None:
    shell = launched()
    tear_down(shell, "me@here")
    (act,) = [row.fields for row in shell.events(NAME) if row.kind == "operator_acted"]
    assert act == {"operator": "me@here", "action": "teardown", "detail": ""}


def test_each_change_of_state_then_tells_that_the_end_is_not_the_last_event() -> None:
    """A reader knows by that whether to go on behind FINISHED."""
    shell = launched()
    tear_down(shell)
    let_end(shell)
    flags = {
        row.fields["state"]: row.fields["tearing_down"]
        for row in shell.events(NAME)
        if row.kind == "status_changed" and "tearing_down" in row.fields
    }
    assert (flags["RUNNING"], flags["STOPPING"], flags["FINISHED"]) == (0, 1, 1)


def test_a_natural_end_keeps_its_exit_status() -> None:
    """S0.24"""
    shell = launched()
    fetch_all(shell)
    tear_down(shell)
    let_end(shell)
    assert shell.core.views.crawl(NAME).exit_status is ExitStatus.FINISHED


# How it is put off.


def test_it_is_complete_at_once_if_nothing_is_in_the_way() -> None:
    """S0.26: complete within the wait."""
    shell = created(*SEEDS)
    view, begun = tear_down(shell)
    assert (begun, view.state, view.torn_down) == (True, S.FINISHED, True)
    assert is_gone(shell)


def test_what_is_in_flight_puts_it_off_and_nobody_has_to_ask_again() -> None:
    """S0.7, S0.26: what does not complete at once completes by itself. S0.27: until then it is there."""
    shell, (grant,) = fetching(most=1)
    view, _ = tear_down(shell)
    assert (view.state, view.torn_down) == (S.STOPPING, False)
    assert NAME in shell.core.shard.registry.names
    fetch(shell, grant)
    assert shell.state(NAME) is S.FINISHED and not is_gone(shell)
    shell.work()
    assert not is_gone(shell), "its outcomes are not in its log yet"
    shell.log()
    assert is_gone(shell)


def test_events_go_on_while_it_is_waited_for() -> None:
    """D7: in Heritrix a teardown holds the lock that every event needs. Here nothing waits but who asked."""
    shell, (first, second) = fetching(most=2)
    tear_down(shell)
    before = shell.core.views.crawl(NAME).last_event
    fetch(shell, first)
    beat = shell.do(lambda core, now: core.frontier.heartbeat("node", "1", [second.token], [], now))
    assert beat.release == [second.token]
    fetch(shell, second)
    assert [row.kind for _, row in shell.core.history.events_after(NAME, before)] == [
        "statistics",
        "status_changed",
    ]
    assert shell.state(NAME) is S.FINISHED


def test_it_comes_in_the_bound_of_the_end_though_every_node_is_gone() -> None:
    shell, _ = fetching(most=1, stop_timeout_ms=5_000)
    tear_down(shell)
    start_ms = shell.now_ms
    let_end(shell)
    assert shell.now_ms == start_ms + 5_000
    _, last = shell.core.history.outcomes(NAME, 0, 100)[-1]
    assert last.fetch_status == -7000


def test_the_crawl_log_is_waited_for_and_told_to_hurry() -> None:
    shell, (grant,) = fetching(most=1)
    fetch(shell, grant)
    shell.request(NAME, Input.STOP)
    shell.work()
    asked = [shell.core.upkeep.awaits_log]
    tear_down(shell)
    shell.work()
    asked.append(shell.core.upkeep.awaits_log)
    assert not is_gone(shell)
    number, last = shell.core.views.crawl(NAME).number, shell.core.upkeep.last_outcome(1)
    shell.record_logged(number, last - 1, 100)
    assert not is_gone(shell)
    shell.record_logged(number, last, 200)
    assert is_gone(shell)
    asked.append(shell.core.upkeep.awaits_log)
    assert asked == [False, True, False]


def test_its_queues_leave_memory_a_share_at_a_time() -> None:
    """No operation holds up others for long."""
    shell = created()
    shell.launch(NAME, *(f"http://host{number}.example/" for number in range(450)))
    robots = []
    while grants := shell.grants():
        robots += grants
    fetch(shell, *robots)
    shell.log()
    tear_down(shell)
    crawl = shell.core.shard.registry.named(NAME)
    left = []
    while not is_gone(shell):
        left.append(len(crawl.queues.active))
        shell.do(lambda core, now: core.upkeep.work(now))
    assert left == [450, 250, 50]


@pytest.mark.parametrize("kind", [JobKind.VERIFY, JobKind.WAKE_QUEUES, JobKind.DELETE_URIS])
def test_its_jobs_end_first(kind: JobKind) -> None:
    """They are cancelled; what they have done stays done."""
    shell = launched()
    patterns = {"queue_pattern": ".*", "uri_pattern": ".*"} if kind is JobKind.DELETE_URIS else {}
    shell.do(lambda core, now: core.administration.start_job(NAME, kind, patterns, now))
    tear_down(shell)
    assert not is_gone(shell)
    shell.work()
    assert is_gone(shell)
    (job,) = [job for job in shell.core.administration.jobs(NAME) if job.kind == kind.value]
    assert job.state == "CANCELLED"
    assert [row.fields["outcome"] for row in shell.events(NAME) if row.kind == "job_ended"] == ["CANCELLED"]
    assert shell.count(NAME, "queued_count") == 4


def test_seeds_that_are_being_announced_are_announced_no_further() -> None:
    shell = created()
    seeds = [f"{SEEDS[0]}{number}" for number in range(250)]
    shell.do(lambda core, now: core.control.add_seeds(NAME, seeds, now))
    shell.do(lambda core, now: core.control.launch(NAME, now))
    shell.do(lambda core, now: core.upkeep.work(now))
    tear_down(shell)
    shell.work()
    assert is_gone(shell)
    assert shell.core.views.crawl(NAME).announced_seeds == 100


def test_an_import_that_comes_in_is_cut_off_though_its_sender_is_silent() -> None:
    """Else somebody who sends nothing and does not go away would put it off for ever."""
    shell = launched()
    number = shell.do(lambda core, now: core.administration.begin_import(NAME, False, now))
    rows = [ImportRow(candidate(f"{SEEDS[0]}{place}").record) for place in range(250)]
    shell.do(lambda core, now: core.administration.add_imports(NAME, number, rows, now))
    tear_down(shell)
    with pytest.raises(CrawlFinished):
        shell.do(lambda core, now: core.administration.add_imports(NAME, number, rows, now))
    let_end(shell)
    assert shell.core.administration.job(NAME, number).state == "CANCELLED"
    assert shell.count(NAME, "queued_count") == 4
    with pytest.raises(CrawlTornDown):
        shell.do(lambda core, now: core.administration.cancel_job(NAME, number, now))


# Once.


def test_whoever_asks_first_begins_it_and_only_he() -> None:
    """S0.30: it is done once. S0.31: a single compare-and-set decides."""
    shell, (grant,) = fetching(most=1)
    asked = [tear_down(shell, f"operator {number}")[1] for number in range(4)]
    fetch(shell, grant)
    asked.append(tear_down(shell)[1])
    let_end(shell)
    asked.append(tear_down(shell)[1])
    assert asked == [True, False, False, False, False, False]
    assert told(shell).count("torn_down") == 1


def test_a_repeat_after_it_is_complete_says_so_and_writes_nothing() -> None:
    shell = gone()
    with still(shell, NAME):
        view, begun = tear_down(shell, "me")
    assert (view.torn_down, begun) == (True, False)


def test_a_first_teardown_lets_fetches_finish() -> None:
    shell, (grant,) = fetching(most=1)
    tear_down(shell)
    answer = shell.do(lambda core, now: core.frontier.heartbeat("node", "1", [grant.token], [], now))
    assert (answer.interrupt, answer.release) == ([], [grant.token])


@pytest.mark.parametrize("first", ["stop", "teardown"])
def test_one_of_a_crawl_that_stops_already_counts_as_a_second_stop(first: str) -> None:
    """S0.28: it interrupts threads."""
    shell, (grant,) = fetching(most=1)
    if first == "stop":
        shell.request(NAME, Input.STOP)
    else:
        tear_down(shell, "first")
    tear_down(shell, "second")
    answer = shell.do(lambda core, now: core.frontier.heartbeat("node", "1", [grant.token], [], now))
    assert answer.interrupt == [grant.token]
    acts = [row.fields for row in shell.events(NAME) if row.kind == "operator_acted"]
    action = "teardown" if first == "stop" else "interrupt"
    assert acts[-1] == {"operator": "second", "action": action, "detail": ""}


def test_it_is_told_once_also_while_the_frontier_has_a_problem() -> None:
    """Each operation looks twice at its crawls then."""
    shell = launched()
    shell.do(lambda core, now: core.upkeep.record_trouble(("disk-reserve", "no room"), now))
    tear_down(shell)
    let_end(shell)
    assert told(shell).count("torn_down") == 1


def test_a_stop_of_a_crawl_that_is_torn_down_meanwhile_is_harmless() -> None:
    shell, (grant,) = fetching(most=1)
    tear_down(shell)
    shell.request(NAME, Input.STOP)
    fetch(shell, grant)
    let_end(shell)
    with still(shell, NAME):
        assert shell.request(NAME, Input.STOP) is S.FINISHED


# Whatever is killed between.


def busy() -> Shell:
    """A crawl with a lease out, jobs, an import that comes in, and outcomes that are not in its log."""
    shell, grants = fetching(most=2, stop_timeout_ms=5_000)
    fetch(shell, grants[0])
    shell.do(lambda core, now: core.administration.start_job(NAME, JobKind.VERIFY, {}, now))
    shell.do(lambda core, now: core.administration.begin_import(NAME, False, now))
    return shell


Step = Callable[[Core, int], tuple[object, Changes]]


def noted(number: int, outcome: int, log_bytes: int) -> Step:
    """A crawl's log has its outcomes up to one."""
    return lambda core, now: core.upkeep.record_logged(number, outcome, log_bytes, now)


def steps(shell: Shell) -> Iterator[Step]:
    """A teardown, operation by operation, as the server's shell would go on with it."""
    yield lambda core, now: core.control.tear_down(NAME, now, "me")
    for _ in range(MOST_STEPS):
        if shell.core.views.crawl(NAME).torn_down:
            return
        if shell.core.upkeep.has_work:
            yield lambda core, now: core.upkeep.work(now)
            continue
        for number, (_, logged, size) in shell.core.upkeep.log_positions().items():
            last = shell.core.upkeep.last_outcome(number)
            if logged < last:
                yield noted(number, last, size)
        due_ms = shell.core.upkeep.next_due_ms()
        if due_ms is not None:
            shell.now_ms = max(shell.now_ms, due_ms)
            yield lambda core, now: core.upkeep.tick(now)
    raise AssertionError(f"not torn down: {told(shell)}")


def steps_there_are() -> int:
    """How many operations it takes."""
    shell = busy()
    count = 0
    for step in steps(shell):
        shell.do(step)
        count += 1
    assert is_gone(shell)
    return count


STEPS = steps_there_are()


def test_a_teardown_takes_some_steps() -> None:
    assert STEPS >= 6


@pytest.mark.parametrize("kind", ["restart", "write lost"])
@pytest.mark.parametrize("killed_at", range(STEPS))
def test_it_completes_whatever_is_killed_between_two_steps(killed_at: int, kind: str) -> None:
    """S0.26, S0.30: what was acknowledged is done, and done once."""
    shell = busy()
    for number, step in enumerate(steps(shell)):
        if number == killed_at and kind == "write lost":
            shell.lose(step)
        shell.do(step)
        if number == killed_at and kind == "restart":
            shell.restart()
    assert is_gone(shell)
    assert told(shell).count("FINISHED") == 1
    assert told(shell).count("operator_acted") == 1
    shell.restart()
    assert is_gone(shell)
