"""What events tell of a life: statistics by interval, who asked for what, problems that pause."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from core_doubles.codec import override_of, settings_of, spec_of
from core_doubles.lives import (
    NAME,
    SEEDS,
    advance,
    created,
    fetch,
    fetch_all,
    fetching,
    in_state,
    launched,
    quick,
    report,
)
from core_doubles.shell import Shell
from core_doubles.stillness import still

from frontier_server.core.core import Core
from frontier_server.core.jobs.steering import QueueChange
from frontier_server.core.machines.lifecycle import CrawlState, ExitStatus, Input
from frontier_server.core.rows.errors import FrontierError
from frontier_server.core.rows.keys import serial_key
from frontier_server.core.rows.records import EventRow, encode
from frontier_server.core.rows.store import Changes, Family
from frontier_server.core.rules.disposition import SERIOUS_ERROR
from frontier_server.core.spec.settings import QueueSettings
from frontier_server.core.state.job import JobKind
from frontier_server.core.state.model import Report
from frontier_server.core.state.operation import MAX_DETAIL

S = CrawlState
CONTRACT = Path(__file__).parents[2] / "protos" / "toehold" / "frontier" / "v1" / "crawl.proto"
INTERVAL_MS = 20_000
BY = "somebody@somewhere"
NO_ROOM = ("disk-reserve", "less than 100 MiB are free")


def of_kind(shell: Shell, kind: str, crawl: str = NAME) -> list[EventRow]:
    """The events of a kind."""
    return [row for row in shell.events(crawl) if row.kind == kind]


def told(shell: Shell, crawl: str = NAME) -> list[str]:
    """All events: states by name, others by kind."""
    return [str(row.fields.get("state", row.kind)) for row in shell.events(crawl)]


# Figures.

SUMMED = ("succeeded", "failed", "disregarded", "deferred", "lapsed", "bytes", "discovered")


def sums(shell: Shell) -> dict[str, int]:
    """What all statistics' events tell together."""
    summed: Counter[str] = Counter()
    for row in of_kind(shell, "statistics"):
        summed.update({name: int(row.fields[f"{name}_count"]) for name in SUMMED})
    return {name: summed[name] for name in SUMMED}


def statistics(shell: Shell) -> dict[str, int]:
    """The crawl's own."""
    return {name: shell.count(NAME, f"{name}_count") for name in SUMMED}


def some_of_everything() -> Shell:
    """A crawl of which each figure is more than 0, over several intervals, with a restart between."""
    shell, (first, second, third, fourth) = fetching(run_while_empty=True)
    shell.finish(Report(first.token, fetch_status=200, body_bytes=700), report(second, -4))
    shell.now_ms += INTERVAL_MS
    shell.tick()
    shell.finish(report(third, -5000), report(fourth, -2))
    shell.restart()
    shell.now_ms += 1_000_000
    shell.tick()
    shell.schedule(NAME, f"{SEEDS[0]}lapses", f"{SEEDS[1]}more")
    assert shell.grants()
    shell.now_ms += shell.period_ms
    shell.tick()
    shell.schedule(NAME, f"{SEEDS[2]}more")
    return shell


@pytest.mark.parametrize("asked", [Input.PAUSE, Input.HOLD, Input.STOP])
def test_statistics_of_all_events_together_are_the_statistics_when_the_crawl_pauses_or_ends(
    asked: Input,
) -> None:
    """S0.49: a snapshot of the statistics is told first, then the state."""
    shell = some_of_everything()
    assert sums(shell) != statistics(shell)
    shell.log()
    shell.request(NAME, asked)
    assert all(statistics(shell).values()), statistics(shell)
    assert sums(shell) == statistics(shell)
    assert told(shell)[-3 if asked is Input.HOLD else -2 :][0] == "statistics", "told before the state"


def test_so_they_are_after_each_of_several_pauses_and_at_a_natural_end() -> None:
    shell = launched()
    for _ in range(3):
        fetch(shell, *shell.grants(most=2))
        shell.request(NAME, Input.PAUSE)
        assert sums(shell) == statistics(shell)
        shell.request(NAME, Input.RESUME)
    fetch_all(shell)
    assert shell.state(NAME) is S.FINISHED
    assert sums(shell) == statistics(shell)
    assert sums(shell)["succeeded"] == 4


def test_statistics_are_told_once_an_interval() -> None:
    shell, grants = fetching()
    start_ms = shell.now_ms
    for grant in grants[:3]:
        fetch(shell, grant)
        while shell.now_ms < start_ms + INTERVAL_MS:
            advance(shell)
        start_ms = shell.now_ms
    assert [row.fields["succeeded_count"] for row in of_kind(shell, "statistics")] == [1, 1, 1]
    assert {row.fields["interval_ms"] for row in of_kind(shell, "statistics")} == {INTERVAL_MS}
    assert [row.fields["queued_count"] for row in of_kind(shell, "statistics")] == [3, 2, 1]


def test_an_interval_in_which_nothing_happened_is_not_told() -> None:
    shell = launched(run_while_empty=True)
    fetch_all(shell)
    shell.now_ms += INTERVAL_MS
    shell.tick()
    before = shell.events(NAME)
    for _ in range(20):
        advance(shell)
    assert [row for row in shell.events(NAME)[len(before) :] if row.kind == "statistics"] == []


def test_statistics_go_on_where_they_were_after_a_restart() -> None:
    shell, (first, second, *_) = fetching()
    fetch(shell, first)
    shell.now_ms += INTERVAL_MS
    shell.tick()
    shell.restart()
    fetch(shell, second)
    shell.now_ms += INTERVAL_MS
    shell.tick()
    assert [row.fields["succeeded_count"] for row in of_kind(shell, "statistics")] == [1, 1]


def test_a_crawl_that_is_paused_or_was_never_launched_tells_no_statistics() -> None:
    for state in (S.NASCENT, S.PAUSED, S.FINISHED):
        shell = in_state(state)
        count = len(of_kind(shell, "statistics"))
        shell.now_ms += 10 * INTERVAL_MS
        with still(shell, NAME):
            shell.tick()
        assert len(of_kind(shell, "statistics")) == count


# Who asked for what.

Act = Callable[[Core, int], tuple[object, Changes]]


def launch(f: Core, now: int) -> tuple[object, Changes]:
    """A launch."""
    return f.control.launch(NAME, now, BY)


def request(asked: Input) -> Act:
    """A request."""
    return lambda f, now: f.control.request_state(NAME, asked, now, BY)


def update(f: Core, now: int) -> tuple[object, Changes]:
    """Settings are changed."""
    settings = quick(max_toes=7, weight=2)
    return f.control.update_crawl(NAME, lambda _: (spec_of(settings), ("max_toes", "weight")), now, BY)


KEY = "example,alpha,"
# In which state, what, and what is told: action, detail.
ACTS: list[tuple[CrawlState, Act, str, str]] = [
    (S.NASCENT, launch, "launch", ""),
    (S.PAUSED, request(Input.RESUME), "resume", ""),
    (S.RUNNING, request(Input.PAUSE), "pause", ""),
    (S.RUNNING, request(Input.HOLD), "hold", ""),
    (S.PAUSED, request(Input.HOLD), "hold", ""),
    (S.RUNNING, request(Input.STOP), "stop", ""),
    (S.NASCENT, request(Input.STOP), "stop", ""),
    (S.STOPPING, request(Input.STOP), "interrupt", ""),
    (S.RUNNING, lambda f, now: f.control.tear_down(NAME, now, BY), "teardown", ""),
    (S.FINISHED, lambda f, now: f.control.tear_down(NAME, now, BY), "teardown", ""),
    (S.FINISHED, lambda f, now: f.control.reopen(NAME, lambda spec: (spec, ()), True, now, BY), "reopen", ""),
    (S.RUNNING, update, "update", "max_toes, weight"),
    (S.RUNNING, lambda f, now: f.control.add_seeds(NAME, SEEDS, now, BY), "add-seeds", ""),
    (
        S.RUNNING,
        lambda f, now: f.administration.change_queue(NAME, KEY, QueueChange(paused=True), now, BY),
        "change-queue",
        KEY,
    ),
    (
        S.RUNNING,
        lambda f, now: f.administration.put_override(NAME, "alpha.example", override_of(), now, BY),
        "put-override",
        "http://(example,alpha,",
    ),
    (
        S.RUNNING,
        lambda f, now: f.administration.record_seen(NAME, SEEDS, now, BY),
        "note-uris",
        f"{len(SEEDS)} URIs",
    ),
    (
        S.RUNNING,
        lambda f, now: f.administration.forget_seen(NAME, SEEDS[:1], now, BY),
        "forget-uris",
        SEEDS[0],
    ),
    (S.RUNNING, lambda f, now: f.administration.begin_import(NAME, False, now, BY), "import", ""),
    (
        S.RUNNING,
        lambda f, now: f.administration.start_job(NAME, JobKind.WAKE_QUEUES, {}, now, BY),
        "start-job",
        "wake-queues",
    ),
]


@pytest.mark.parametrize(("state", "act", "action", "detail"), ACTS, ids=lambda told: str(told)[:20])
def test_who_asked_for_what_is_told_first_and_then_what_follows(
    state: CrawlState, act: Act, action: str, detail: str
) -> None:
    shell = in_state(state)
    before = len(shell.events(NAME))
    shell.do(act)
    first, *rest = shell.events(NAME)[before:]
    assert (first.kind, first.fields) == (
        "operator_acted",
        {"operator": BY, "action": action, "detail": detail},
    )
    assert not [row for row in rest if row.kind == "operator_acted"]


def test_who_creates_a_crawl_is_told_by_its_first_event() -> None:
    shell = Shell()
    settings = quick()
    shell.do(lambda f, now: f.control.create_crawl(NAME, settings, spec_of(settings), now, BY))
    first, second = shell.events(NAME)
    assert tuple(first.fields.values()) == (BY, "create", "")
    assert second.fields["state"] == "NASCENT"


@pytest.mark.parametrize("state", CrawlState)
def test_who_sets_the_size_of_pools_is_told_to_crawls_that_they_work_for(state: CrawlState) -> None:
    shell = in_state(state)
    for node, size in (("", 4), ("node", None)):
        shell.do(lambda f, now, node=node, size=size: f.nodes.set_pool_size(node, size, now, BY))  # type: ignore[misc]
    acts = [tuple(row.fields.values()) for row in of_kind(shell, "operator_acted")]
    works = state not in (S.NASCENT, S.PAUSED, S.FINISHED)
    assert acts == [(BY, "resize-pool", "all nodes: 4"), (BY, "resize-pool", "node: default")] * works


def test_an_override_that_is_deleted_and_a_job_that_is_cancelled_are_told() -> None:
    shell = launched()
    shell.do(lambda f, now: f.administration.put_override(NAME, "alpha.example", override_of(), now))
    shell.do(lambda f, now: f.administration.delete_override(NAME, "alpha.example", now, BY))
    view = shell.do(lambda f, now: f.administration.start_job(NAME, JobKind.VERIFY, {}, now))
    shell.do(lambda f, now: f.administration.cancel_job(NAME, view.number, now, BY))
    assert [tuple(row.fields.values()) for row in of_kind(shell, "operator_acted")] == [
        (BY, "delete-override", "http://(example,alpha,"),
        (BY, "cancel-job", f"{view.number} verify"),
    ]


def test_the_contract_names_every_action_and_no_other() -> None:
    comment = re.search(r"message OperatorActed \{(.*?)string action", CONTRACT.read_text(), re.DOTALL)
    assert comment is not None
    named = set(re.findall(r"`([a-z-]+)`", comment[1])) - {"toehold-operator"}
    beside = {"create", "resize-pool", "drain-node", "delete-override", "cancel-job"}
    assert named == {action for _, _, action, _ in ACTS} | beside


def test_what_nobody_is_named_for_is_told_as_nobodys() -> None:
    shell = launched()
    shell.request(NAME, Input.PAUSE)
    assert of_kind(shell, "operator_acted") == []


@pytest.mark.parametrize(
    ("state", "asked"),
    [
        (S.NASCENT, Input.PAUSE),
        (S.PREPARING, Input.RESUME),
        (S.STOPPING, Input.HOLD),
        (S.FINISHED, Input.RESUME),
    ],
)
def test_what_is_refused_is_not_told(state: CrawlState, asked: Input) -> None:
    shell = in_state(state)
    with still(shell, NAME), pytest.raises(FrontierError, match=state.value):
        shell.do(request(asked))


@pytest.mark.parametrize(
    ("state", "asked"),
    [
        (S.RUNNING, Input.RESUME),
        (S.EMPTY, Input.RESUME),
        (S.PAUSING, Input.PAUSE),
        (S.PAUSED, Input.PAUSE),
        (S.FINISHED, Input.STOP),
    ],
)
def test_what_is_so_already_is_not_told_either(state: CrawlState, asked: Input) -> None:
    """S0.4"""
    shell = in_state(state)
    with still(shell, NAME):
        shell.do(request(asked))


def test_a_long_detail_is_cut() -> None:
    shell = launched()
    uri = SEEDS[0] + "x" * 2_000
    shell.do(lambda f, now: f.administration.record_seen(NAME, [uri], now, BY))
    (act,) = of_kind(shell, "operator_acted")
    assert act.fields["detail"] == uri[:MAX_DETAIL] and MAX_DETAIL == 500


# Problems.


def note(shell: Shell, trouble: tuple[str, str] | None) -> None:
    """The server sees a problem, or that there is none any more."""
    shell.do(lambda core, now: core.upkeep.record_trouble(trouble, now))


@pytest.mark.parametrize("state", [S.RUNNING, S.EMPTY])
def test_a_problem_of_the_frontier_pauses_what_runs_and_says_why(state: CrawlState) -> None:
    shell = in_state(state)
    count = len(shell.events(NAME))
    note(shell, NO_ROOM)
    problem, pausing, *_ = shell.events(NAME)[count:]
    assert (problem.kind, problem.fields) == ("problem", {"kind": NO_ROOM[0], "detail": NO_ROOM[1]})
    assert (pausing.fields["state"], pausing.fields["reason"]) == ("PAUSING", NO_ROOM[1])
    shell.take_back([lease.token(shell.core.shard.server.secret) for lease in shell.core.shard.leases])
    view = shell.core.views.crawl(NAME)
    assert (view.state, view.reason, view.exit_status) == (S.PAUSED, NO_ROOM[1], ExitStatus.PAUSED)
    assert shell.events(NAME)[-1].fields["reason"] == NO_ROOM[1]


@pytest.mark.parametrize("state", [S.NASCENT, S.PAUSING, S.PAUSED, S.STOPPING, S.FINISHED])
def test_it_concerns_no_crawl_that_does_not_run(state: CrawlState) -> None:
    shell = in_state(state)
    with still(shell, NAME):
        note(shell, NO_ROOM)
        shell.tick()


def test_a_crawl_that_comes_to_run_meanwhile_pauses_at_once() -> None:
    """Its seeds are still announced."""
    shell = in_state(S.PREPARING)
    note(shell, NO_ROOM)
    assert shell.state(NAME) is S.PREPARING
    shell.work()
    assert told(shell)[-6:] == ["seeds_concluded", "RUNNING", "problem", "PAUSING", "statistics", "PAUSED"]
    assert shell.core.views.crawl(NAME).announced_seeds == 4


def test_a_resume_meanwhile_lasts_no_longer() -> None:
    shell = in_state(S.PAUSED)
    note(shell, NO_ROOM)
    assert shell.request(NAME, Input.RESUME) is S.PAUSED
    assert told(shell)[-4:] == ["RUNNING", "problem", "PAUSING", "PAUSED"]
    assert not shell.grants()


def test_every_crawl_that_runs_is_told() -> None:
    shell = launched()
    shell.create("other", quick())
    shell.launch("other", SEEDS[1])
    note(shell, NO_ROOM)
    assert shell.state(NAME) is shell.state("other") is S.PAUSED
    assert len(of_kind(shell, "problem")) == len(of_kind(shell, "problem", "other")) == 1


def test_the_end_of_the_problem_resumes_nothing_and_lets_others_resume() -> None:
    """Somebody must look first."""
    shell = launched()
    note(shell, NO_ROOM)
    note(shell, None)
    assert shell.state(NAME) is S.PAUSED
    assert shell.core.views.crawl(NAME).reason == NO_ROOM[1], "why it paused"
    assert shell.request(NAME, Input.RESUME) is S.RUNNING
    assert shell.core.views.crawl(NAME).reason == ""


def test_why_it_paused_is_known_after_a_restart_and_gone_with_the_next_pause() -> None:
    shell = launched()
    note(shell, NO_ROOM)
    shell.restart()
    assert shell.core.views.crawl(NAME).reason == NO_ROOM[1]
    shell.request(NAME, Input.RESUME)
    shell.request(NAME, Input.PAUSE)
    assert shell.core.views.crawl(NAME).reason == ""


def test_a_pause_that_was_asked_for_has_no_problem_for_its_reason() -> None:
    shell = in_state(S.PAUSING)
    note(shell, NO_ROOM)
    assert shell.core.views.crawl(NAME).reason == ""


def test_a_serious_error_of_a_node_pauses_the_crawl() -> None:
    """S0.41, S4.12: -3000. The URI is done with; the problem says which it was, and whose."""
    shell, (bad, other) = fetching(most=2)
    shell.finish(report(bad, SERIOUS_ERROR))
    (problem,) = of_kind(shell, "problem")
    assert problem.fields["kind"] == "serious-error"
    assert bad.uri in str(problem.fields["detail"]) and "node" in str(problem.fields["detail"])
    assert (shell.state(NAME), shell.core.views.crawl(NAME).reason) == (S.PAUSING, problem.fields["detail"])
    fetch(shell, other)
    assert shell.state(NAME) is S.PAUSED
    assert [row.fetch_status for row in shell.outcomes(NAME) if row.uri == bad.uri] == [SERIOUS_ERROR]


def test_a_serious_error_at_a_robots_txt_pauses_it_too() -> None:
    shell = launched(SEEDS[0])
    (grant,) = shell.grants()
    assert grant.robots
    shell.finish(report(grant, SERIOUS_ERROR))
    assert len(of_kind(shell, "problem")) == 1
    assert shell.state(NAME) is S.PAUSED


def test_a_second_one_on_the_way_to_the_pause_is_not_told() -> None:
    shell, (first, second) = fetching(most=2)
    shell.finish(report(first, SERIOUS_ERROR))
    shell.finish(report(second, SERIOUS_ERROR))
    assert len(of_kind(shell, "problem")) == 1
    assert first.uri in shell.core.views.crawl(NAME).reason


def test_a_serious_error_concerns_its_own_crawl_alone() -> None:
    shell, (bad, *_) = fetching()
    shell.create("other", quick())
    shell.launch("other", "http://elsewhere.example/")
    shell.finish(report(bad, SERIOUS_ERROR))
    assert shell.state("other") is S.RUNNING


def test_a_report_that_is_sent_again_pauses_nothing_again() -> None:
    shell, (bad,) = fetching(most=1)
    shell.finish(report(bad, SERIOUS_ERROR))
    shell.request(NAME, Input.RESUME)
    (result,) = shell.finish(report(bad, SERIOUS_ERROR))
    assert result.repeated and shell.state(NAME) is S.RUNNING


def test_uris_that_are_left_behind_are_a_reason_too() -> None:
    """D20: only URIs of ineligible queues are left, and the crawl is to pause then."""
    ineligible = QueueSettings(base_precedence=200, precedence_floor=100)
    shell = created(*SEEDS, queues=ineligible, pause_with_uris_left=True)
    shell.do(lambda core, now: core.control.launch(NAME, now))
    shell.work()
    assert shell.state(NAME) is S.PAUSED
    assert "ineligible" in shell.core.views.crawl(NAME).reason
    assert [row.fields for row in of_kind(shell, "uris_left")] == [
        {"retired_count": 0, "ineligible_count": 4}
    ]
    assert settings_of(shell.core.views.crawl(NAME).spec).pause_with_uris_left


def test_an_event_that_an_older_version_stored_as_statistics_is_read_as_statistics() -> None:
    shell = launched()
    sequence = shell.core.views.crawl(NAME).last_event
    row = EventRow(shell.now_ms, "figures", {"interval_ms": 20_000, "succeeded_count": 3})
    shell.store.write({(Family.EVENTS, serial_key(1, sequence)): encode(row)})
    ((_, event),) = shell.core.history.events_after(NAME, sequence - 1)
    assert (event.kind, event.fields) == ("statistics", row.fields)
