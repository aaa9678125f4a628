"""What a crawl reaches when nobody asks: rounds, limits, the natural end, pauses, bounds (S0, S3, 2.19)."""

from collections.abc import Callable
from typing import NamedTuple

from core_doubles.model import leasing, life, reporting
from core_doubles.model.things import Crawl, Model

from frontier_server.core.journey.reports import Lapse
from frontier_server.core.machines.lifecycle import CrawlState, ExitStatus
from frontier_server.core.machines.target import Target
from frontier_server.core.state.job import JobKind

S, X = CrawlState, ExitStatus
INTERRUPT_WAIT_MS = 15_000
ONLY_BEHIND = "only URIs of retired or ineligible queues are left"


class Seen(NamedTuple):
    """What an observer sees of a crawl: time alone changes it only when somebody looks."""

    exit_status: ExitStatus
    round: int
    told_ms: int  # statistics
    active: int  # queues in memory
    held: bool
    torn_down: bool


def settle(model: Model, crawl: Crawl, seen: Seen, on_time: bool) -> None:
    """Let a crawl reach what counts say; what time alone says is reached at the latest by the timer."""
    due = crawl.running_since_ms is not None and model.now_ms >= life.next_statistics_ms(crawl)
    if due and (on_time or seen.told_ms == model.now_ms):
        life.tell_statistics(model, crawl)
    _go_on(model, crawl, seen, on_time)
    if model.trouble is not None and crawl.state in (S.RUNNING, S.EMPTY):
        life.paused_for(model, crawl, *model.trouble, passes=True)
        _go_on(model, crawl, seen, on_time)
    crawl.unseen &= not (on_time or _moves(model, crawl))  # whoever ends what moves looks at it
    _let_go(crawl, seen)


def _go_on(model: Model, crawl: Crawl, seen: Seen, on_time: bool) -> None:
    steps: dict[CrawlState, Callable[[Model, Crawl, Seen, bool], bool]] = {
        S.PREPARING: _turn,
        S.RUNNING: _run,
        S.EMPTY: _wait,
        S.PAUSING: _turn,
        S.PAUSED: _turn,
        S.STOPPING: _stop,
    }
    while crawl.state in steps and steps[crawl.state](model, crawl, seen, on_time):
        pass


def _run(model: Model, crawl: Crawl, seen: Seen, on_time: bool) -> bool:
    if _limit_reached(model, crawl, seen, on_time):
        return True
    if life.left(model, crawl):
        return False
    if life.rounds_left(crawl):
        due = model.now_ms >= life.next_round_ms(crawl)
        if due and (on_time or seen.round > crawl.round):
            crawl.round += 1
            crawl.round_ms = model.now_ms
            crawl.events.append(("round_begun", str(crawl.round)))
            life.start_job(model, crawl, JobKind.RESEED)
        return False
    life.to_state(model, crawl, S.EMPTY)  # D1: before STOPPING
    return True


def _wait(model: Model, crawl: Crawl, seen: Seen, on_time: bool) -> bool:
    if _limit_reached(model, crawl, seen, on_time):
        return True
    if life.left(model, crawl) or life.rounds_left(crawl):
        life.to_state(model, crawl, S.RUNNING)
        return True
    if crawl.settings.run_while_empty:
        return False
    retired, ineligible = life.behind(crawl)
    if retired + ineligible:
        crawl.events.append(("uris_left", str(retired), str(ineligible)))
        if crawl.settings.pause_with_uris_left:
            life.pause(model, crawl, ONLY_BEHIND)
            return True
    life.ask(crawl, Target.FINISH)
    life.to_state(model, crawl, S.STOPPING, X.FINISHED)
    return True


def _turn(model: Model, crawl: Crawl, seen: Seen, on_time: bool) -> bool:
    """To where it was asked to go, by way of a pause or not."""
    match crawl.target:
        case Target.RUN:
            life.to_state(model, crawl, S.RUNNING, X.RUNNING)
            return True
        case Target.PAUSE if crawl.state is not S.PAUSED and not model.leases_of(crawl):
            life.to_state(model, crawl, S.PAUSED, X.PAUSED)
        case Target.HOLD if not crawl.held and not _moves(model, crawl):
            if crawl.unseen and not (on_time or seen.held):
                return False
            if crawl.state is not S.PAUSED:
                life.to_state(model, crawl, S.PAUSED, X.PAUSED)
            crawl.held, crawl.unseen = True, False
            crawl.events.append(("held",))
    return False


def _moves(model: Model, crawl: Crawl) -> bool:
    """Whether anything of a crawl will still change: leases, imports that come in, outcomes to be logged."""
    return bool(model.leases_of(crawl) or crawl.receiving or crawl.logged < crawl.stored)


def _stop(model: Model, crawl: Crawl, seen: Seen, on_time: bool) -> bool:
    if not model.leases_of(crawl):
        life.to_state(model, crawl, S.FINISHED)
    return False


def _let_go(crawl: Crawl, seen: Seen) -> None:
    """A crawl that is to be torn down leaves memory as soon as nothing keeps it there."""
    if seen.torn_down:
        assert crawl.tearing_down and crawl.state is S.FINISHED, "torn down"
        assert not (crawl.jobs or crawl.receiving or seen.active), "torn down with work to do"
        assert crawl.logged == crawl.stored, "torn down before its log was written"
        crawl.events.append(("torn_down",))
    elif crawl.tearing_down and crawl.state is S.FINISHED:
        kept = crawl.jobs or crawl.receiving or seen.active or crawl.logged < crawl.stored
        assert kept, "nothing keeps it in memory, and it is not torn down"


# Limits.


def limit_reached(model: Model, crawl: Crawl) -> bool:
    """Whether a crawl has reached a limit that has ended it, or would at once."""
    limits, statistics = crawl.settings.limits, crawl.statistics
    return (
        0 < limits.max_elapsed_ms <= life.elapsed_ms(model, crawl)
        or 0 < limits.max_bytes <= statistics["bytes"]
        or 0 < limits.max_documents <= statistics["succeeded"]
    )


def _limit_reached(model: Model, crawl: Crawl, seen: Seen, on_time: bool) -> bool:
    """Bytes end a crawl at once, documents when those that fill the limit are in (2.19)."""
    limits, statistics = crawl.settings.limits, crawl.statistics
    ran_ms = life.elapsed_ms(model, crawl)
    if 0 < limits.max_elapsed_ms <= ran_ms and (on_time or seen.exit_status is X.FINISHED_TIME_LIMIT):
        _end(model, crawl, "max_elapsed", limits.max_elapsed_ms, ran_ms, X.FINISHED_TIME_LIMIT)
        return True
    if 0 < limits.max_bytes <= statistics["bytes"]:
        _end(model, crawl, "max_bytes", limits.max_bytes, statistics["bytes"], X.FINISHED_DATA_LIMIT)
        return True
    if leasing.documents_fill(model, crawl) and not model.leases_of(crawl, robots_too=False):
        status = X.FINISHED_DOCUMENT_LIMIT
        _end(model, crawl, "max_documents", limits.max_documents, statistics["succeeded"], status)
        return True
    return False


def _end(model: Model, crawl: Crawl, limit: str, value: int, actual: int, status: ExitStatus) -> None:
    told = (limit, value, actual, model.leases_of(crawl))
    crawl.events.append(("limit_reached", *map(str, told)))
    life.ask(crawl, Target.FINISH)
    life.to_state(model, crawl, S.STOPPING, status)


# Bounds.


def bound(model: Model, crawl: Crawl) -> tuple[int, str] | None:
    """Until when a pause or an end waits for what is in flight, and what says so."""
    if not model.leases_of(crawl):
        return None
    since_ms = crawl.reach_ms + crawl.excused_ms
    if crawl.state is S.PAUSING:
        return since_ms + crawl.settings.pause_timeout_ms, "pause_timeout"
    if crawl.state is not S.STOPPING:
        return None
    stop_ms = since_ms + crawl.settings.stop_timeout_ms
    if crawl.interrupt_ms is not None:
        interrupt_ms = crawl.interrupt_ms + crawl.excused_ms + INTERRUPT_WAIT_MS
        if interrupt_ms <= stop_ms:
            return interrupt_ms, "interrupt"
    return stop_ms, "stop_timeout"


def cancel_overdue(model: Model, crawl: Crawl) -> None:
    """What a pause or an end has waited for in vain is cancelled."""
    its = bound(model, crawl)
    if its is None or its[0] > model.now_ms:
        return
    if not crawl.cancelled:
        crawl.cancelled = True
        crawl.events.append(("flights_cancelled", str(model.leases_of(crawl)), its[1]))
    why = Lapse.PAUSE if crawl.state is S.PAUSING else Lapse.STOP
    for lease in [lease for lease in model.leases.values() if lease.number == crawl.number]:
        reporting.lapsed(model, lease, why)
