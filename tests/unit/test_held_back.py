"""Hundreds of BUSY queues that get no turns: they give way, or requests want no more of them."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from core_doubles.codec import candidate
from core_doubles.several_leases import ask, crawl, settings, states, uris
from core_doubles.shell import Shell
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from frontier_server.core.jobs.steering import QueueChange
from frontier_server.core.journey.dispatch import Dispatcher, Want
from frontier_server.core.spec.settings import CrawlSettings, ScopeSettings
from frontier_server.core.state.model import EmptyReason, Grant, NextAnswer, Report, Why
from frontier_server.core.state.queue import QueueState
from frontier_server.shell.exchange import Exchange
from frontier_server.shell.priority_lock import PriorityLock
from frontier_server.shell.runner import Runner
from frontier_server.shell.tasks import Tasks
from frontier_server.shell.waiters import Waiters

MANY = 300  # queues: more than get a turn in one operation


def spec(**queues: Any) -> CrawlSettings:
    return replace(settings(**queues), scope=ScopeSettings(accept_patterns=(".*",)))


def page(host: int, number: int = 0) -> str:
    return f"http://host-{host}.example/{number}"


def busy_crawl(count: int = MANY, each: int = 3, **queues: Any) -> Shell:
    """A crawl with a lease of each of so many queues, out at a node."""
    shell = crawl(of=spec(**queues))
    for host in range(count):
        shell.schedule("crawl", *(page(host, number) for number in range(each)))
    out: list[Grant] = []
    while len(out) < count:
        given = ask(shell, per_queue=1)
        assert given
        out += given
    assert len({grant.queue_key for grant in out}) == count
    return shell


def answers(
    shell: Shell, most: int = 100, per_queue: int = 0, name: str | None = "crawl"
) -> list[NextAnswer]:
    """The answers of a request's operations, up to the first that does not ask again."""
    found: list[NextAnswer] = []
    want = Want(most, per_queue)
    while not found or found[-1].again:
        assert len(found) < 50, "the request goes on for ever"
        found.append(shell.do(lambda core, now: core.frontier.next("node", "1", want, name, now)))
    return found


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of the queues that have had a turn."""
    had: list[str] = []
    take_turn = Dispatcher._take_turn

    def noted(self: Dispatcher, call: Any, queue: Any, awaited: Any) -> list[Grant]:
        had.append(queue.row.key)
        return take_turn(self, call, queue, awaited)

    monkeypatch.setattr(Dispatcher, "_take_turn", noted)
    return had


def first_in_line(shell: Shell, host: str) -> None:
    """Put a URI of a queue of the lowest precedence in."""
    shell.schedule("crawl", candidate(f"http://{host}.example/"))
    lowest = QueueChange(precedence=0)
    shell.do(lambda core, now: core.administration.change_queue("crawl", f"example,{host},", lowest, now))


# Queues that give way.


@pytest.mark.sampled("name", ["crawl", None])
@pytest.mark.sampled("per_queue", [0, 5])
@pytest.mark.sampled("count", [99, 101, 102, 103, MANY])
def test_any_number_of_busy_queues_give_way_to_a_queue_of_lower_precedence(
    count: int, per_queue: int, name: str | None
) -> None:
    shell = busy_crawl(count, max_leases_per_queue=2)
    first_in_line(shell, "first")
    assert uris(answers(shell, 1, per_queue, name)[-1].grants) == ["http://first.example/"]
    assert len(answers(shell, 1, per_queue, name)[-1].grants) == 1, "then they have their turns again"


@pytest.mark.parametrize("session_budget", [1, 2])
def test_busy_queues_with_a_spent_session_budget_let_inactive_queues_go_first(session_budget: int) -> None:
    """300 queues at the default precedences; reports spend the session of those that have leases out."""
    shell = crawl(of=spec(max_leases_per_queue=4, session_budget=session_budget))
    for host in range(MANY):
        shell.schedule("crawl", *(page(host, number) for number in range(8)))
    seen: set[str] = set()
    out: list[Grant] = []
    for _ in range(3 * MANY):
        given = answers(shell, 2)[-1].grants
        assert given, "URIs are left"
        seen |= {grant.queue_key for grant in given}
        out += given
        if len(seen) == MANY:
            break
        for number in (0, -1):
            shell.finish(Report(out.pop(number).token, fetch_status=200))
    else:
        pytest.fail("some queues never got a turn")


@pytest.mark.interpreted
def test_a_queue_that_gave_way_gets_no_turn_while_others_still_go_first(turns: list[str]) -> None:
    shell = busy_crawl(max_leases_per_queue=2)
    hosts = [f"urgent-{number}" for number in range(5)]
    for host in hosts:
        first_in_line(shell, host)
    assert len(answers(shell, 4)[-1].grants) == 4
    turns.clear()
    assert len(answers(shell, 1)[-1].grants) == 1
    assert len(turns) == 1, "a queue that gave way before gets no turn while others still go first"


def test_a_queue_that_gave_way_gives_leases_again_when_its_precedence_falls() -> None:
    shell = busy_crawl(2, max_leases_per_queue=2)
    first_in_line(shell, "first")
    shell.do(
        lambda core, now: core.administration.change_queue(
            "crawl", "example,first,", QueueChange(rest_until_ms=now + 1_000_000), now
        )
    )
    lowest = QueueChange(precedence=0)
    shell.do(lambda core, now: core.administration.change_queue("crawl", "example,host-1,", lowest, now))
    assert uris(answers(shell, 1)[-1].grants) == [page(1, 1)]


# Requests that want no more of a queue.


@pytest.mark.interpreted
@pytest.mark.parametrize("name", ["crawl", None])
def test_a_request_with_a_limit_per_queue_gives_no_turn_to_queues_at_that_limit(
    name: str | None, turns: list[str]
) -> None:
    shell = busy_crawl(max_leases_per_queue=10, each=9)
    answers(shell, 100, 1, name)
    turns.clear()
    for _ in range(3):
        (answer,) = answers(shell, 100, 1, name)
        assert answer.grants == [] and answer.empty_reason is EmptyReason.NOTHING_DUE
    assert turns == []
    assert len(answers(shell, 50, 2, name)[-1].grants) == 50
    assert len(turns) == 50, "as many as gave something"


def test_a_request_with_a_higher_limit_begins_with_queues_that_have_fewer_leases_out() -> None:
    shell = busy_crawl(3, each=9, max_leases_per_queue=10)
    assert len(ask(shell, per_queue=2)) == 3
    shell.schedule("crawl", *(page(7, number) for number in range(9)))
    assert len(ask(shell, most=1, per_queue=1)) == 1
    assert answers(shell, 100, 1)[-1].grants == []
    assert ask(shell, most=1, per_queue=3)[0].uri == page(7, 1)


# The wait.


class _Endless:
    """A runner whose core always says that it has more to look at."""

    def __init__(self) -> None:
        self.waiting = Waiters(PriorityLock(), Tasks(lambda why, problem: None))
        self.operations = 0

    async def apply(self, operation: Callable[..., Any]) -> tuple[NextAnswer, int]:
        self.operations += 1
        return NextAnswer([], EmptyReason.NOTHING_DUE, again=True), 0

    async def durable(self, mark: int) -> None:
        pass


@pytest.mark.parametrize("wait_s", [0.0, 0.7])
def test_next_returns_when_its_wait_is_over_although_the_core_has_more_to_look_at(wait_s: float) -> None:
    runner = _Endless()

    async def ask_once() -> NextAnswer:
        return await asyncio.wait_for(
            Exchange(cast(Runner, runner)).next("node", "1", Want(1), None, wait_s), timeout=30
        )

    start_s = time.monotonic()
    answer = asyncio.run(ask_once())
    assert answer.grants == [] and answer.again and runner.operations > 1
    assert time.monotonic() - start_s >= wait_s


def test_an_answer_that_was_cut_by_its_wait_asks_the_caller_to_retry_at_once() -> None:
    shell = crawl()
    answer = NextAnswer([], EmptyReason.NOTHING_DUE, again=True)
    retries_ms = {
        again: shell.core.frontier.retry_ms("crawl", (), replace(answer, again=again), 0, shell.now_ms)
        for again in (True, False)
    }
    assert retries_ms[True] < 100 < retries_ms[False]


# In any history.


@examples(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_requests_end_and_lease_each_uri_once_with_hundreds_of_busy_queues(
    data: st.DataObject,
) -> None:
    draw = data.draw
    shell = crawl(
        of=spec(
            max_leases_per_queue=draw(st.sampled_from((2, 3, 50))),
            session_budget=draw(st.sampled_from((-1, 1, 3))),
        )
    )
    count = draw(st.integers(150, 400))
    for host in range(count):
        shell.schedule("crawl", page(host), page(host, 1), page(host, 2))
    wanted = {page(host, number) for host in range(count) for number in range(3)}
    out: list[Grant] = []
    fetched: list[str] = []
    for step in range(12):
        most, per_queue = draw(st.sampled_from((1, 30, 100))), draw(st.sampled_from((0, 0, 1, 2)))
        for _ in range(draw(st.integers(1, 6))):
            out += answers(shell, most, per_queue, draw(st.sampled_from(("crawl", None))))[-1].grants
        if draw(st.booleans()):
            first_in_line(shell, f"first-{step}")
            wanted.add(f"http://first-{step}.example/")
        if draw(st.booleans()):
            ended, out = out[::3], [grant for place, grant in enumerate(out) if place % 3]
            shell.finish(*(Report(grant.token, fetch_status=200) for grant in ended))
            fetched += uris(ended)
    while given := answers(shell)[-1].grants or out:
        shell.finish(*(Report(grant.token, fetch_status=200) for grant in given))
        fetched += uris(given)
        if given is out:
            out = []
    assert sorted(fetched) == sorted(wanted)


# What is out counts for a total budget.


@pytest.mark.sampled(
    ("queues", "fetched"),
    [
        ({"total_budget": 5}, 5),
        ({"total_budget": 1}, 1),
        ({"total_budget": 0}, 0),
        ({"total_budget": 5, "cost": "zero"}, 60),
        ({"total_budget": 60}, 60),
        ({"total_budget": -1}, 60),
    ],
)
@pytest.mark.sampled("restarts", [False, True])
@pytest.mark.sampled("per_queue", [0, 50])
def test_leases_out_count_towards_the_total_budget(
    queues: dict[str, Any], fetched: int, restarts: bool, per_queue: int
) -> None:
    """T8: with many leases of a queue out, no more is fetched than its budget allows."""
    shell = crawl(of=spec(max_leases_per_queue=50, **queues))
    shell.schedule("crawl", *(page(1, number) for number in range(60)))
    done = 0
    while out := ask(shell, most=30, per_queue=per_queue):
        if restarts:
            shell.restart()
        out += ask(shell, per_queue=per_queue)
        done += len(out)
        shell.finish(*(Report(grant.token, fetch_status=200) for grant in out))
    assert done == fetched
    if fetched < 60:
        assert states(shell)["example,host-1,"] is QueueState.RETIRED


@pytest.mark.parametrize(
    ("ending", "more"),
    [
        ({"released": True}, 1),
        ({"fetch_status": -5000}, 1),  # out of scope
        ({"fetch_status": -2}, 0),  # each attempt costs
        ({"fetch_status": 200}, 0),
    ],
    ids=str,
)
def test_a_lease_that_ends_without_cost_returns_its_share_of_the_total_budget(
    ending: dict[str, Any], more: int
) -> None:
    shell = crawl(of=spec(max_leases_per_queue=50, total_budget=5))
    shell.schedule("crawl", *(page(1, number) for number in range(60)))
    out = ask(shell)
    assert len(out) == 5 and ask(shell) == []
    shell.finish(Report(out[0].token, **ending))
    shell.now_ms += 1_000_000_000
    assert len(ask(shell)) == more


def test_explain_says_that_leases_out_may_spend_the_total_budget() -> None:
    shell = crawl(of=spec(max_leases_per_queue=50, total_budget=2))
    shell.schedule("crawl", *(page(1, number) for number in range(9)))
    assert len(ask(shell)) == 2
    found = shell.core.administration.explain("crawl", "example,host-1,", "", shell.now_ms)
    words = "queue example,host-1, waits for its leases: they may spend its total budget 2"
    assert [reason.message for reason in found if reason.why is Why.OVER_BUDGET] == [words]
