"""What operators change: queues, overrides, the seen-set (2.14, 2.23)."""

from core_doubles.model import intake, life, places, prices, reporting
from core_doubles.model.things import Crawl, Job, Model, Queue, Uri
from core_doubles.web import Site

from frontier_server.core.jobs.steering import QueueChange
from frontier_server.core.machines.lifecycle import CrawlState
from frontier_server.core.spec.settings import CrawlSettings
from frontier_server.core.state.job import JobKind
from frontier_server.core.state.queue import QueueState

OF_QUEUES = ("queues", "politeness", "groups", "address_group", "retry")  # where and when what waits may go


def settings_of_queue(crawl: Crawl, queue: Queue) -> CrawlSettings:
    """The settings of a queue as a whole: those of its head."""
    waiting = crawl.in_order(queue)
    return places.settings_of_uri(crawl, waiting[0]) if waiting else crawl.settings


def changed(model: Model, crawl: Crawl, queue: Queue, change: QueueChange) -> None:
    """A queue was changed."""
    if change.session_budget is not None:
        queue.session_budget = None if change.session_budget == -2 else change.session_budget
    if change.total_budget is not None:
        queue.total_budget = None if change.total_budget == -2 else change.total_budget
    if change.precedence is not None:
        queue.fixed_precedence = None if change.precedence == -1 else change.precedence
        prices.reprioritise(crawl, queue, settings_of_queue(crawl, queue))
    if change.paused is not None and change.paused is not queue.paused:
        queue.paused = change.paused
        if queue.paused:
            prices.perhaps_appraise(crawl, queue, settings_of_queue(crawl, queue))
        else:
            prices.reprioritise(crawl, queue, settings_of_queue(crawl, queue))
    if change.retired:
        retire(model, crawl, queue)
    elif change.retired is not None:
        unretire(crawl, queue)
    if change.wake:
        _wake(model, queue)
        intake.recalled(model, crawl, lambda found, key: found == queue.id)


def _wake(model: Model, queue: Queue) -> None:
    queue.rest_ms, queue.woken_ms = 0, model.now_ms


def retire(model: Model, crawl: Crawl, queue: Queue) -> None:
    """Nothing more of a queue is given out, at the latest when its lease has ended (T8, T12)."""
    if queue.retired:
        return
    if model.leased(crawl, queue):
        queue.retiring = True
    else:
        reporting.retire(queue)


def unretire(crawl: Crawl, queue: Queue) -> None:
    """A queue has another chance (T15)."""
    if queue.retired and crawl.in_order(queue):
        prices.reprioritise(crawl, queue, settings_of_queue(crawl, queue))
    queue.retired = queue.retiring = False


def override_put(model: Model, crawl: Crawl, prefix: str, override: bytes) -> None:
    """An override was set; it holds from the next decision on."""
    crawl.overrides[prefix] = override
    _overrides_changed(model, crawl)


def override_deleted(model: Model, crawl: Crawl, prefix: str) -> None:
    """An override was removed."""
    del crawl.overrides[prefix]
    _overrides_changed(model, crawl)


def _overrides_changed(model: Model, crawl: Crawl) -> None:
    """Queues are appraised anew by a job, unless one is about to do it anyway."""
    crawl.overridden = model.step
    if not any(job.kind is JobKind.APPRAISE_QUEUES and not job.done for job in crawl.jobs):
        life.start_job(model, crawl, JobKind.APPRAISE_QUEUES)


def seen_noted(model: Model, crawl: Crawl, site: Site, target: str) -> bool:
    """A URI is noted as seen without being queued; whether it is new."""
    identity = places.identity(crawl, site, target)
    if identity in crawl.uris:
        return False
    crawl.uris[identity] = Uri(identity, site.uri(target), site, target, finish_ms=model.now_ms)
    crawl.statistics["noted"] += 1
    return True


def seen_forgotten(crawl: Crawl, site: Site, target: str) -> bool:
    """A URI that was seen is forgotten, unless it is in a queue; whether it was."""
    identity = places.identity(crawl, site, target)
    uri = crawl.uris.get(identity)
    if uri is None or uri.queued:
        return False
    del crawl.uris[identity]
    crawl.texts = {text: known for text, known in crawl.texts.items() if known != identity}
    return True


# The crawl's own settings.


def updated(model: Model, crawl: Crawl, settings: CrawlSettings, by: str, what: str) -> None:
    """Other settings count from the next decision on."""
    life.acted(crawl, by, "update", what)
    before, crawl.settings = crawl.settings, settings
    crawl.documents_before = crawl.statistics["succeeded"] + model.leases_of(crawl, robots_too=False)
    crawl.scope.update(settings.scope.hosts)
    crawl.rescoped |= settings.scope != before.scope
    if any(getattr(settings, part) != getattr(before, part) for part in OF_QUEUES):
        crawl.overridden = model.step
    if settings.queues != before.queues and crawl.state is not CrawlState.NASCENT:
        life.start_job(model, crawl, JobKind.APPRAISE_QUEUES)


# Slices of the jobs that concern queues.


def queues_passed(model: Model, crawl: Crawl, job: Job, count: int, ended: bool) -> None:
    """A job has come so many queues further, in the order of their ids."""
    ids = sorted(found for found in crawl.queues if found > job.cursor)[:count]
    assert len(ids) == count, f"job {job.number} has passed {count} queues of {len(ids)}"
    for found in ids:
        job.cursor = found
        queue = crawl.queues[found]
        if matches(job.parameters.get("queue_pattern", ".*"), queue.key) and _concerns(job, queue):
            job.changed += 1
            _change(model, crawl, job, queue)
    if job.kind is JobKind.WAKE_QUEUES and ended:
        pattern = job.parameters.get("queue_pattern", ".*")
        intake.recalled(model, crawl, lambda found, key: matches(pattern, key))


def matches(pattern: str, text: str) -> bool:
    """The patterns of the tests: all, or those that begin with something, or those that end with it."""
    before, after = pattern.replace("\\+", "+").split(".*")
    return text.startswith(before) and text.endswith(after)


def _concerns(job: Job, queue: Queue) -> bool:
    match job.kind:
        case JobKind.RETIRE_QUEUES:
            return not queue.retired
        case JobKind.UNRETIRE_QUEUES:
            return queue.retired or queue.retiring
        case JobKind.WAKE_QUEUES:
            return queue.state is QueueState.SNOOZED
        case _:
            return queue.state in (QueueState.INACTIVE, QueueState.INELIGIBLE)


def _change(model: Model, crawl: Crawl, job: Job, queue: Queue) -> None:
    match job.kind:
        case JobKind.RETIRE_QUEUES:
            retire(model, crawl, queue)
        case JobKind.UNRETIRE_QUEUES:
            unretire(crawl, queue)
        case JobKind.WAKE_QUEUES:
            _wake(model, queue)
        case _:
            prices.reprioritise(crawl, queue, settings_of_queue(crawl, queue))
