"""A crawl's life: from state to state, with limits, rounds and the natural end (S0, S3, 2.19)."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from core_doubles.model import leasing
from core_doubles.model.things import Crawl, Job, Model
from core_doubles.web import Spelled

from frontier_server.core.jobs.job import Kind
from frontier_server.core.machines.lifecycle import CrawlState, ExitStatus
from frontier_server.core.queue import QueueState
from frontier_server.core.spec.settings import CrawlSettings

S, X = CrawlState, ExitStatus
STANDS_STILL = (S.NASCENT, S.PAUSED, S.FINISHED)  # the clock does


class Seen(NamedTuple):
    """What an observer sees of a crawl: time alone changes it only when somebody looks."""

    exit_status: ExitStatus
    round: int


def to_state(model: Model, crawl: Crawl, state: CrawlState, exit_status: ExitStatus) -> None:
    """Change, which an event must tell."""
    crawl.state, crawl.exit_status = state, exit_status
    crawl.events.append(("status_changed", state.value, exit_status.value))
    if state in STANDS_STILL and crawl.running_since_ms is not None:
        crawl.elapsed_ms += model.now_ms - crawl.running_since_ms
        crawl.running_since_ms = None
    elif state not in STANDS_STILL and crawl.running_since_ms is None:
        crawl.running_since_ms = model.now_ms


def elapsed_ms(model: Model, crawl: Crawl) -> int:
    """How long a crawl has run, pauses left out."""
    since_ms = model.now_ms if crawl.running_since_ms is None else crawl.running_since_ms
    return crawl.elapsed_ms + model.now_ms - since_ms


def created(model: Model, name: str, number: int, settings: CrawlSettings) -> Crawl:
    """A crawl was created."""
    crawl = model.crawls[name] = Crawl(name, number, settings, scope=set(settings.scope.hosts))
    to_state(model, crawl, S.NASCENT, X.CREATED)
    return crawl


def start_job(model: Model, crawl: Crawl, kind: Kind, parameters: dict[str, str] | None = None) -> Job:
    """A job was started."""
    job = Job(crawl.next_job, kind, dict(parameters or {}), begun=model.step)
    crawl.next_job += 1
    crawl.jobs.append(job)
    return job


def launched(model: Model, crawl: Crawl) -> None:
    """A crawl was launched (S0.10)."""
    to_state(model, crawl, S.PREPARING, X.RUNNING)
    crawl.launch_ms = model.now_ms
    start_job(model, crawl, Kind.SEED)


def seeds_added(model: Model, crawl: Crawl, seeds: Sequence[Spelled]) -> None:
    """Seeds were stored."""
    crawl.seeds.extend(seeds)
    if crawl.state is not S.NASCENT and crawl.job_of(Kind.SEED) is None:
        start_job(model, crawl, Kind.SEED)


def resumed(model: Model, crawl: Crawl) -> None:
    """A crawl was asked to run (S0.13: only from PAUSING and PAUSED does that mean anything)."""
    if crawl.state in (S.PAUSING, S.PAUSED):
        to_state(model, crawl, S.RUNNING, X.RUNNING)


def paused(model: Model, crawl: Crawl) -> None:
    """A crawl was asked to pause (S0.15, S0.16)."""
    if crawl.state in (S.RUNNING, S.EMPTY):
        to_state(model, crawl, S.PAUSING, X.WAITING_FOR_PAUSE)


def stopped(model: Model, crawl: Crawl) -> None:
    """A crawl was asked to stop (S0.18, S0.19, S0.22)."""
    if crawl.state is S.NASCENT:
        to_state(model, crawl, S.FINISHED, X.ABORTED)
    elif crawl.state not in (S.STOPPING, S.FINISHED):
        to_state(model, crawl, S.STOPPING, X.ABORTED)


# What is left.


def behind(crawl: Crawl) -> tuple[int, int]:
    """URIs in retired queues, and in those at the precedence floor: neither keeps a crawl going (D20)."""
    retired = barred = 0
    for uri in crawl.queued():
        queue = crawl.queues[uri.queue]
        retired += queue.state is QueueState.RETIRED
        barred += queue.state is QueueState.INELIGIBLE and not queue.paused
    return retired, barred


def left(model: Model, crawl: Crawl) -> bool:
    """Whether anything is left that can be leased some time, or is under way."""
    retired, barred = behind(crawl)
    waits = len(crawl.queued()) > retired + barred or bool(crawl.future())
    return waits or bool(model.leases_of(crawl) or crawl.jobs or crawl.receiving)


def rounds_left(crawl: Crawl) -> bool:
    """Whether the seeds may be announced anew."""
    most = crawl.settings.reseed.max_rounds
    return most < 0 or crawl.round < most


def next_round_ms(crawl: Crawl) -> int:
    """When the next round may begin."""
    return max(crawl.launch_ms, crawl.round_ms) + crawl.settings.reseed.min_interval_ms


# What follows.


def settle(model: Model, crawl: Crawl, seen: Seen, on_time: bool) -> None:
    """Let a crawl reach what counts say; what time alone says is reached at the latest by the timer."""
    steps: dict[CrawlState, Callable[[Model, Crawl, Seen, bool], bool]] = {
        S.RUNNING: _run,
        S.EMPTY: _wait,
        S.PAUSING: _pause,
        S.STOPPING: _stop,
    }
    while crawl.state in steps and steps[crawl.state](model, crawl, seen, on_time):
        pass


def _run(model: Model, crawl: Crawl, seen: Seen, on_time: bool) -> bool:
    if _time_is_over(model, crawl, seen, on_time) or _limit_reached(model, crawl):
        return True
    if left(model, crawl):
        return False
    if rounds_left(crawl):
        due = model.now_ms >= next_round_ms(crawl)
        if due and (on_time or seen.round > crawl.round):
            crawl.round += 1
            crawl.round_ms = model.now_ms
            crawl.events.append(("round_begun", str(crawl.round)))
            start_job(model, crawl, Kind.RESEED)
        return False
    to_state(model, crawl, S.EMPTY, crawl.exit_status)  # D1: before STOPPING
    return True


def _wait(model: Model, crawl: Crawl, seen: Seen, on_time: bool) -> bool:
    if _time_is_over(model, crawl, seen, on_time):
        return True
    if left(model, crawl):
        to_state(model, crawl, S.RUNNING, X.RUNNING)
        return True
    if crawl.settings.run_while_empty:
        return False
    retired, barred = behind(crawl)
    if retired + barred:
        crawl.events.append(("uris_left", str(retired), str(barred)))
        if crawl.settings.pause_with_uris_left:
            to_state(model, crawl, S.PAUSING, X.WAITING_FOR_PAUSE)
            return True
    to_state(model, crawl, S.STOPPING, X.FINISHED)
    return True


def _pause(model: Model, crawl: Crawl, seen: Seen, on_time: bool) -> bool:
    if not model.leases_of(crawl):
        to_state(model, crawl, S.PAUSED, X.PAUSED)
    return False


def _stop(model: Model, crawl: Crawl, seen: Seen, on_time: bool) -> bool:
    if not model.leases_of(crawl):
        to_state(model, crawl, S.FINISHED, crawl.exit_status)
    return False


def _time_is_over(model: Model, crawl: Crawl, seen: Seen, on_time: bool) -> bool:
    most_ms, actual_ms = crawl.settings.limits.max_elapsed_ms, elapsed_ms(model, crawl)
    over = 0 < most_ms <= actual_ms
    if not over or not (on_time or seen.exit_status is X.FINISHED_TIME_LIMIT):
        return False
    _end(model, crawl, "max_elapsed", most_ms, actual_ms, X.FINISHED_TIME_LIMIT)
    return True


def _limit_reached(model: Model, crawl: Crawl) -> bool:
    """Bytes end a crawl at once, documents when those that fill the limit are in (2.19)."""
    limits, figures = crawl.settings.limits, crawl.figures
    if 0 < limits.max_bytes <= figures["bytes"]:
        _end(model, crawl, "max_bytes", limits.max_bytes, figures["bytes"], X.FINISHED_DATA_LIMIT)
        return True
    if leasing.limited(model, crawl) and not model.leases_of(crawl, robots_too=False):
        status = X.FINISHED_DOCUMENT_LIMIT
        _end(model, crawl, "max_documents", limits.max_documents, figures["succeeded"], status)
        return True
    return False


def _end(model: Model, crawl: Crawl, limit: str, value: int, actual: int, status: ExitStatus) -> None:
    told = (limit, value, actual, model.leases_of(crawl))
    crawl.events.append(("limit_reached", *map(str, told)))
    to_state(model, crawl, S.STOPPING, status)
