"""Whether the states that the frontier tells of its queues can be, and may follow those before (T1 to T15).

In which order queues that are equal have their turns is the frontier's; what it may not do is here: leave a
queue asleep, inactive or retired without a reason, or let one go before those of a lower precedence.

Several URIs, each with its settings, may come into a queue in one step, or have their turns in it. So at the
moment that counts it may have stood at other precedences than those told before the step and after it.
"""

from enum import Enum
from typing import NamedTuple

from core_doubles.model import hosts, leasing, places, prices
from core_doubles.model.things import Crawl, Model, Queue, QueueId

from frontier_server.core.machines.lifecycle import CrawlState
from frontier_server.core.state.queue import QueueState

Q = QueueState


class After(Enum):
    """What kind of a step there was."""

    TURNS = "Next: queues had their turns"
    RESTART = "memory was built anew"
    OTHER = "anything else"


class Told(NamedTuple):
    """What is told of a queue after an operation."""

    state: QueueState
    precedence: int
    wake_ms: int
    session_start: int


def told(model: Model, crawl: Crawl, queues: dict[QueueId, Told], after: After) -> None:
    """The states of all queues after a step."""
    assert queues.keys() == crawl.queues.keys(), "the queues that have ever been filled"
    waited = [queue for queue in crawl.queues.values() if queue.state is Q.INACTIVE]
    for queue in crawl.queues.values():
        now = queues[queue.id]
        _retire(model, crawl, queue, now, after)
        _check_precedence(crawl, queue, now, after)
        _check_state(model, crawl, queue, now)
    passed_over = [queue for queue in waited if queues[queue.id].state is Q.INACTIVE and not queue.cleared]
    for queue in crawl.queues.values():
        now = queues[queue.id]
        if queue.lent is not None:
            _check_session(model, crawl, queue, now)
            _check_activation(model, queue, passed_over)
        elif after is After.OTHER:
            _check_giving_way(model, crawl, queue, now, passed_over)
    for queue in crawl.queues.values():
        _keep(model, queue, queues[queue.id])


def _retire(model: Model, crawl: Crawl, queue: Queue, now: Told, after: After) -> None:
    """A queue is retired if somebody retired it; or at its turn, by its budget or a quota."""
    if now.state is Q.RETIRED and not queue.retired:
        waiting = crawl.in_order(queue)
        assert after is After.TURNS and crawl.state is CrawlState.RUNNING, f"{queue.key} was retired"
        heads = waiting if waiting and places.shared(crawl, waiting[0]) else waiting[:1]
        retires = any(leasing.must_retire(crawl, queue, head) for head in heads)
        assert retires, f"{queue.key} was retired"
        queue.retired = True
    assert queue.retired == (now.state is Q.RETIRED), f"{queue.key} is {now.state}"


def _check_precedence(crawl: Crawl, queue: Queue, now: Told, after: After) -> None:
    waiting = crawl.in_order(queue)
    if after is After.TURNS and waiting and queue.lent is None:
        for head in waiting if places.shared(crawl, waiting[0]) else waiting[:1]:
            queue.appraisals.append(prices.appraisal(crawl, queue, places.settings_of_uri(crawl, head)))
    possible = [made for made in queue.appraisals if made.precedence == now.precedence]
    assert possible, f"{queue.key} has precedence {now.precedence}, not one of {queue.appraisals}"
    queue.appraisals = possible


def _check_state(model: Model, crawl: Crawl, queue: Queue, now: Told) -> None:
    """A state says something of the queue's URIs, leases, rests and precedence."""
    waiting = crawl.in_order(queue)
    what = f"{queue.key} is {now.state.value}, with {len(waiting)} URIs"
    assert model.leased(crawl, queue) == (now.state is Q.BUSY), what
    match now.state:
        case Q.EXHAUSTED:
            assert not waiting, what
        case Q.INACTIVE:
            assert waiting and not queue.paused, what
            unloaded = queue.state is Q.READY and crawl.state is CrawlState.FINISHED
            stays = queue.state is Q.INACTIVE and queue.woken
            queue.woken = queue.state is Q.SNOOZED or unloaded or stays
            ineligible = all(made.ineligible for made in queue.appraisals)
            assert queue.woken or not ineligible, f"{what}, at the floor"  # else its next turn bars it
        case Q.INELIGIBLE:
            assert queue.paused or (waiting and any(made.ineligible for made in queue.appraisals)), what
        case Q.SNOOZED if (queue.state, queue.asleep_ms) != (Q.SNOOZED, now.wake_ms):
            latest_ms = max(_may_wake_ms(model, crawl, queue))
            assert now.wake_ms <= latest_ms, f"{what}, {now.wake_ms - latest_ms} ms too long"
        case _:
            pass


def _may_wake_ms(model: Model, crawl: Crawl, queue: Queue) -> list[int]:
    """What a queue may wait for: its own rest, a host's, a group's, or the next try of a robots.txt."""
    found = [hosts.rested_ms(model, crawl, queue, site) for site in queue.sites]
    for uri in crawl.in_order(queue):
        settings = places.settings_of_uri(crawl, uri)
        robots = hosts.robots_of(model, settings, uri.site)
        if robots.means(model.now_ms, settings.robots) == "wait":
            found.append(robots.patience(settings.robots).retry_ms)
    return found


def _check_session(model: Model, crawl: Crawl, queue: Queue, now: Told) -> None:
    """A lease was given within its session's budget; a session begins with an activation (T3, T7)."""
    assert queue.lent is not None
    lent_at, settings = queue.lent
    start, queue.new_session = now.session_start, now.session_start != queue.session_start
    assert not queue.new_session or start in queue.starts, f"{queue.key}: its session began at {start}"
    assert not leasing.session_budget_spent(queue, settings, start, lent_at), (
        f"{queue.key} was leased from, beyond the budget of its session"
    )
    if queue.state not in (Q.READY, Q.BUSY, Q.SNOOZED):
        begun = queue.new_session or lent_at == start or queue.cleared
        assert begun, f"{queue.key} was activated without a new session"
    elif queue.new_session:
        rotated = any(
            leasing.session_budget_spent(queue, settings, queue.session_start, spent)
            for spent in (lent_at, *queue.starts)
        )
        yielded = queue.state is Q.SNOOZED  # to one of a lower precedence, when it woke
        # It may have been found empty at its turn, and filled then.
        drained = all(uri.arrived == model.step for uri in crawl.in_order(queue))
        assert rotated or yielded or drained or queue.cleared, f"{queue.key} began another session"


def _check_activation(model: Model, queue: Queue, passed_over: list[Queue]) -> None:
    """What was activated had waited at the lowest precedence, and there the longest (T3, S2.17)."""
    earliest, _ = queue.waits_since
    if queue.state is Q.INACTIVE:
        its = min(_ranks(model, queue, earliest))
    elif queue.state is Q.SNOOZED and queue.new_session:  # it gave way when it woke
        its = min(_ranks(model, queue, model.step))
    elif queue.state is Q.EXHAUSTED or queue.new_session:
        its = min((look.precedence, model.step) for look in queue.looks)
    else:
        return
    late = [other.key for other in passed_over if _last_rank(model, other) < its]
    assert not late, f"{queue.key} was activated before {late}"


def _ranks(model: Model, queue: Queue, since: int) -> list[tuple[int, int]]:
    """The places that a queue may have had in the order of turns: at a precedence, and there since a step.

    It lines up anew when it gets another precedence, or comes back from the floor.
    """
    ranks = [(queue.precedence, since)]
    for look in queue.looks:
        if look.ineligible or any(precedence != look.precedence for precedence, _ in ranks):
            ranks.append((look.precedence, model.step))
    return ranks


def _last_rank(model: Model, queue: Queue) -> tuple[int, int]:
    """The last place that an inactive queue may have had in this step."""
    _, latest = queue.waits_since
    return max(_ranks(model, queue, latest))


def _check_giving_way(model: Model, crawl: Crawl, queue: Queue, now: Told, passed_over: list[Queue]) -> None:
    """A queue that comes back from a lease or a rest gives way to those of a lower precedence (T11, T13).

    One that was empty then does not; it may have been filled in the same step.
    """
    held = any(uri.arrived < model.step for uri in crawl.in_order(queue))
    if queue.state in (Q.BUSY, Q.SNOOZED) and now.state is Q.READY and held:
        its = [look.precedence for look in queue.looks]
        if queue.state is Q.SNOOZED or not its:  # nobody looks at one that wakes
            its.append(queue.precedence)
        lower = [other.key for other in passed_over if _last_rank(model, other)[0] < min(its)]
        assert not lower, f"{queue.key} is ready before {lower}"


def _keep(model: Model, queue: Queue, now: Told) -> None:
    earliest, latest = queue.waits_since
    if queue.state is not Q.INACTIVE or queue.cleared or now.precedence != queue.precedence:
        queue.waits_since = model.step, model.step
    elif len(_ranks(model, queue, latest)) > 1:  # it may have lined up anew, at the precedence that it had
        queue.waits_since = earliest, model.step
    queue.precedence = now.precedence
    queue.looks.clear()
    queue.state = now.state
    queue.asleep_ms = now.wake_ms if now.state is Q.SNOOZED else 0
    queue.session_start = now.session_start
    queue.starts = {queue.expenditure}
    if queue.cleared:
        queue.robots_tried = None
    queue.lent, queue.cleared = None, False
