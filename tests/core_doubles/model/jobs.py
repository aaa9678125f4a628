"""How far jobs have come: each slice does its share once, in order, whatever is killed between."""

from core_doubles.model import intake, life, outcomes, places, steering
from core_doubles.model.things import Crawl, Job, Model, Offer, Uri

from frontier_server.core.machines.lifecycle import CrawlState
from frontier_server.core.machines.target import Target
from frontier_server.core.rows.records import OutcomeRow
from frontier_server.core.rules.disposition import Disposition
from frontier_server.core.state.job import JobKind
from frontier_server.core.state.model import JobView, Verdict

S = CrawlState
FEEDING = (JobKind.SEED, JobKind.RESEED, JobKind.IMPORT)
OF_QUEUES = (JobKind.RETIRE_QUEUES, JobKind.UNRETIRE_QUEUES, JobKind.WAKE_QUEUES, JobKind.APPRAISE_QUEUES)
DELETED = -6000
ENDED = ("DONE", "CANCELLED")


def worked(model: Model, crawl: Crawl, announced: int, views: dict[int, JobView]) -> None:
    """Somebody has worked at a crawl's first job, or at none of its jobs."""
    for job in crawl.jobs[crawl.target is not Target.HOLD :]:
        assert _stands_still(job, views[job.number]), f"job {job.number} did not wait for its turn"
    if not crawl.jobs or crawl.target is Target.HOLD:
        assert announced == crawl.announced
        return
    job = crawl.jobs[0]
    view = views[job.number]
    ending = crawl.state in (S.STOPPING, S.FINISHED)
    done, job.done = view.done - job.done, view.done
    match job.kind:
        case JobKind.SEED:
            _announce(model, crawl, job, announced, ending)
        case JobKind.RESEED:
            _announce_anew(model, crawl, job, done)
        case JobKind.IMPORT:
            _take_in(model, crawl, job, done, view.state == "CANCELLED")
        case JobKind.DELETE_URIS:
            pass  # `deleted` judges each URI
        case JobKind.VERIFY:
            assert not view.findings and not view.changed, f"a verification found {view.findings}"
        case _:
            steering.queues_passed(model, crawl, job, done, view.state == "DONE")
    _check_changes(job, view)
    if view.state in ENDED:
        _end(model, crawl, job, view, ending)
    else:
        job.state = view.state


def _stands_still(job: Job, view: JobView) -> bool:
    return (view.done, view.state) == (job.done, job.state)


def _check_changes(job: Job, view: JobView) -> None:
    """A job counts what it changed, or would change."""
    if job.kind is not JobKind.VERIFY and job.parameters.get("dry_run") != "true":
        assert view.changed == job.changed, f"job {job.number} counts {view.changed}, made {job.changed}"


def _end(model: Model, crawl: Crawl, job: Job, view: JobView, ending: bool) -> None:
    cancelled = job.state in ("CANCELLING", "RECEIVING") or (ending and job.kind in FEEDING)
    cancelled |= crawl.tearing_down
    assert (view.state == "CANCELLED") == cancelled, f"job {job.number} ended {view.state}"
    crawl.jobs.remove(job)
    if job.kind is not JobKind.SEED:
        crawl.events.append(("job_ended", str(job.number), job.kind.value, view.state))
    if job.kind in OF_QUEUES and not cancelled:
        assert not [found for found in crawl.queues if found > job.cursor], "it ended before its last queue"
    if job.kind is JobKind.DELETE_URIS and not cancelled:
        _check_deletion(model, crawl, job)
    if job.kind is JobKind.SEED and not cancelled:
        assert crawl.announced == len(crawl.seeds), "it ended before the last seed"
        crawl.events.append(("seeds_concluded", str(job.done), str(job.changed)))
        if crawl.state is S.PREPARING:
            life.ask(crawl, Target.PAUSE if crawl.settings.pause_at_start else Target.RUN)
    if job.kind is JobKind.IMPORT and not cancelled:
        assert not job.imports, "it ended before its last URI"


# Seeds.


def _announce(model: Model, crawl: Crawl, job: Job, announced: int, ending: bool) -> None:
    news = crawl.seeds[crawl.announced : announced]
    assert not news or not ending, "seeds announced at the end"
    assert announced == crawl.announced + len(news)
    for seed in news:
        _offer(model, crawl, job, Offer(seed, directive=3, seed=True))
    crawl.announced = announced


def _announce_anew(model: Model, crawl: Crawl, job: Job, count: int) -> None:
    seeds = crawl.seeds[job.done - count : job.done]
    assert len(seeds) == count
    for seed in seeds:
        _offer(
            model,
            crawl,
            job,
            Offer(seed, directive=3, seed=True, anew=True, refetch_before_ms=crawl.round_ms + 1),
        )


def _offer(model: Model, crawl: Crawl, job: Job, offer: Offer) -> Verdict:
    answer = intake.verdict(model, crawl, offer)
    intake.offered(model, crawl, offer, answer)
    job.changed += answer is Verdict.QUEUED
    return answer


# Imports.


def _take_in(model: Model, crawl: Crawl, job: Job, count: int, cancelled: bool) -> None:
    """First all that is only noted, then what is scheduled (2.17)."""
    job.imports.sort(key=lambda entry: not entry[1])
    taken, job.imports = job.imports[:count], job.imports[count:]
    assert len(taken) == count and not (count and cancelled)
    for offer, noted in taken:
        if noted:
            target = offer.spelled.target
            job.changed += steering.seen_noted(model, crawl, offer.spelled.site, target)
        else:
            offer.anew = job.parameters.get("force") == "true"
            if offer.anew:
                offer.refetch_before_ms = max(offer.refetch_before_ms or 0, job.create_ms + 1)
            _offer(model, crawl, job, offer)


# Deletion.


def deletes(crawl: Crawl) -> bool:
    """Whether the job whose turn it is deletes URIs."""
    return bool(crawl.jobs) and crawl.jobs[0].kind is JobKind.DELETE_URIS


def deleted(model: Model, crawl: Crawl, row: OutcomeRow) -> None:
    """A URI was deleted by the job whose turn it is."""
    job = crawl.jobs[0]
    assert job.kind is JobKind.DELETE_URIS and row.fetch_status == DELETED, f"{row.uri} came from nowhere"
    uri = next((uri for uri in _waiting(crawl) if uri.uri == row.uri), None)
    assert uri is not None, f"{row.uri} was deleted, though it did not wait"
    assert not model.is_out(crawl, uri), f"{row.uri} was deleted while it was out"
    assert _is_meant(crawl, job, uri), f"{row.uri} was deleted, though it does not match"
    assert row.disposition == "DISREGARDED" and job.parameters.get("dry_run") != "true"
    job.changed += 1
    how = outcomes.conclude if uri.queued else outcomes.record
    how(model, crawl, uri, DELETED, Disposition.DISREGARDED, stored=True)


def _waiting(crawl: Crawl) -> list[Uri]:
    return [*crawl.queued(), *crawl.future()]


def _is_meant(crawl: Crawl, job: Job, uri: Uri) -> bool:
    key = crawl.queues[uri.queue].key if uri.queued else places.queue_id(crawl, uri.site, uri.target)[1]
    queues, uris = job.parameters["queue_pattern"], job.parameters["uri_pattern"]
    return steering.matches(queues, key) and steering.matches(uris, uri.uri)


def _check_deletion(model: Model, crawl: Crawl, job: Job) -> None:
    """What is left does not match; or it came, moved or was out while the job ran."""
    if job.parameters.get("dry_run") == "true" or crawl.overridden >= job.begun:
        return
    missed = [
        uri.uri
        for uri in _waiting(crawl)
        if uri.touched < job.begun and not model.is_out(crawl, uri) and _is_meant(crawl, job, uri)
    ]
    assert not missed, f"job {job.number} has left {missed}"
