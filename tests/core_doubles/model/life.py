"""A crawl's life as operators ask for it, and as events tell of it (S0)."""

from collections.abc import Sequence

from core_doubles.model import attendance
from core_doubles.model.things import Crawl, Job, Model
from core_doubles.web import Spelled

from frontier_server.core.machines.lifecycle import CrawlState, ExitStatus, Input
from frontier_server.core.machines.target import Target
from frontier_server.core.spec.settings import CrawlSettings
from frontier_server.core.state.job import JobKind
from frontier_server.core.state.queue import QueueState

S, X = CrawlState, ExitStatus
STANDS_STILL = (S.NASCENT, S.PAUSED, S.FINISHED)  # the clock does
STEERABLE = (S.RUNNING, S.EMPTY, S.PAUSING, S.PAUSED)
WISHES = {
    Input.RESUME: (Target.RUN, "resume"),
    Input.PAUSE: (Target.PAUSE, "pause"),
    Input.HOLD: (Target.HOLD, "hold"),
    Input.STOP: (Target.FINISH, "stop"),
}
TOLD = ("succeeded", "failed", "disregarded", "deferred", "lapsed", "bytes")


# What events tell.


def acted(crawl: Crawl, by: str, action: str, detail: str = "") -> None:
    """Somebody asked something of a crawl; an event tells it if he has a name."""
    if by:
        crawl.events.append(("operator_acted", by, action, detail))


def to_state(
    model: Model, crawl: Crawl, state: CrawlState, exit_status: ExitStatus | None = None, reason: str = ""
) -> None:
    """Change, which an event must tell."""
    if state in (S.PAUSED, S.FINISHED):
        tell_statistics(model, crawl)
    crawl.reason = reason or (crawl.reason if state in (S.PAUSED, S.FINISHED) else "")
    crawl.trouble = crawl.trouble if state in (S.PAUSED, S.FINISHED) else ""
    crawl.state, crawl.exit_status = state, exit_status or crawl.exit_status
    crawl.reach_ms, crawl.excused_ms = model.now_ms, 0
    told = state.value, crawl.exit_status.value, crawl.reason, str(int(crawl.tearing_down))
    crawl.events.append(("status_changed", *told))
    if state in STANDS_STILL and crawl.running_since_ms is not None:
        crawl.elapsed_ms += model.now_ms - crawl.running_since_ms
        crawl.running_since_ms = None
    elif state not in STANDS_STILL and crawl.running_since_ms is None:
        crawl.running_since_ms = model.now_ms
    if state is S.FINISHED:
        crawl.nodes.clear()
        crawl.jobs += crawl.receiving.values()  # nobody can bring the rest: they will be cancelled
        crawl.receiving.clear()


def statistics_of(crawl: Crawl) -> dict[str, int]:
    """What the statistics' events tell of."""
    return {**{name: crawl.statistics[name] for name in TOLD}, "discovered": len(crawl.uris)}


def tell_statistics(model: Model, crawl: Crawl) -> None:
    """What became of URIs since that was last told, if anything did."""
    statistics = statistics_of(crawl)
    news = {name: count - crawl.told[name] for name, count in statistics.items()}
    interval_ms = model.now_ms - max(crawl.told_ms, crawl.launch_ms, crawl.create_ms)
    crawl.told_ms = model.now_ms
    if any(news.values()):
        crawl.told.update(news)
        queued = len(crawl.queued()) - behind(crawl)[0]
        crawl.events.append(("statistics", *map(str, (interval_ms, *news.values(), queued))))


def next_statistics_ms(crawl: Crawl) -> int:
    """When statistics are told again."""
    return max(crawl.told_ms, crawl.launch_ms) + crawl.settings.statistics_interval_ms


def elapsed_ms(model: Model, crawl: Crawl) -> int:
    """How long a crawl has run, pauses left out."""
    since_ms = model.now_ms if crawl.running_since_ms is None else crawl.running_since_ms
    return crawl.elapsed_ms + model.now_ms - since_ms


# What is asked.


def created(model: Model, name: str, number: int, settings: CrawlSettings) -> Crawl:
    """A crawl was created."""
    crawl = model.crawls[name] = Crawl(name, number, settings, scope=set(settings.scope.hosts))
    crawl.create_ms = crawl.reach_ms = model.now_ms
    crawl.events.append(("status_changed", S.NASCENT.value, X.CREATED.value))
    return crawl


def start_job(model: Model, crawl: Crawl, kind: JobKind, parameters: dict[str, str] | None = None) -> Job:
    """A job was started."""
    job = Job(crawl.next_job, kind, dict(parameters or {}), begun=model.step)
    crawl.next_job += 1
    crawl.jobs.append(job)
    return job


def launched(model: Model, crawl: Crawl, by: str) -> None:
    """A crawl was launched (S0.10)."""
    acted(crawl, by, "launch")
    to_state(model, crawl, S.PREPARING, X.RUNNING)
    crawl.launch_ms = model.now_ms
    start_job(model, crawl, JobKind.SEED)


def seeds_added(model: Model, crawl: Crawl, seeds: Sequence[Spelled], by: str) -> None:
    """Seeds were stored."""
    acted(crawl, by, "add-seeds")
    crawl.seeds.extend(seeds)
    if crawl.state is not S.NASCENT and crawl.job_of(JobKind.SEED) is None:
        start_job(model, crawl, JobKind.SEED)


def is_legal(crawl: Crawl, wish: Input) -> bool:
    """Whether a request is possible."""
    return wish is Input.STOP or crawl.state in STEERABLE


def ask(crawl: Crawl, target: Target) -> None:
    """Let a crawl go somewhere else than before."""
    crawl.target, crawl.cancelled, crawl.unseen = target, False, False
    if crawl.held:
        crawl.held = False
        crawl.events.append(("released",))


def asked(model: Model, crawl: Crawl, wish: Input, by: str) -> None:
    """A crawl was asked to run, pause, hold or stop; what is so already, or under way, is nothing new."""
    target, action = WISHES[wish]
    if crawl.state is S.STOPPING and wish is Input.STOP:
        if crawl.interrupt_ms is None:  # S0.17
            acted(crawl, by, "interrupt")
            crawl.interrupt_ms = model.now_ms
        return
    stays = bool(crawl.trouble) and target in (Target.PAUSE, Target.HOLD)
    if crawl.target is target and not stays:
        return
    acted(crawl, by, action)
    if stays:
        crawl.trouble = ""
    if crawl.target is target:
        return
    was_held = crawl.held
    ask(crawl, target)
    if wish is Input.STOP:  # S0.18, S0.19, S0.22
        to_state(model, crawl, S.FINISHED if crawl.state is S.NASCENT else S.STOPPING, X.ABORTED)
    elif wish is not Input.RESUME and crawl.state in (S.RUNNING, S.EMPTY):  # S0.15, S0.16
        to_state(model, crawl, S.PAUSING, X.WAITING_FOR_PAUSE)
    if was_held:
        attendance.reconcile(model, crawl)


def reopened(model: Model, crawl: Crawl, target: Target, by: str) -> None:
    """A finished crawl was reopened; seeds that it has never announced are announced."""
    acted(crawl, by, "reopen")
    ask(crawl, target)
    to_state(model, crawl, S.PAUSED, X.PAUSED)
    crawl.interrupt_ms = None
    crawl.launch_ms = crawl.launch_ms or model.now_ms
    if crawl.announced < len(crawl.seeds) and crawl.job_of(JobKind.SEED) is None:
        start_job(model, crawl, JobKind.SEED)


def teardown_asked(model: Model, crawl: Crawl, by: str) -> bool:
    """A crawl is to end, and to be let go of; whether this request began it (S0.25 to S0.30)."""
    begun = not crawl.tearing_down
    if begun:
        acted(crawl, by, "teardown")
        crawl.tearing_down = True
    asked(model, crawl, Input.STOP, "" if begun else by)
    return begun


def paused_for(model: Model, crawl: Crawl, kind: str, detail: str, passes: bool = False) -> None:
    """A problem pauses a crawl, if it runs; one that passes may let it go on then."""
    if crawl.state in (S.RUNNING, S.EMPTY):
        crawl.events.append(("problem", kind, detail))
        pause(model, crawl, detail)
        crawl.trouble = kind if passes else ""


def trouble_over(crawl: Crawl, kind: str) -> None:
    """The trouble that paused a crawl has passed: it goes on if it wishes to, and nobody wants it paused."""
    paused = crawl.state in (S.PAUSING, S.PAUSED) and crawl.target is Target.PAUSE
    if paused and crawl.trouble == kind and crawl.settings.resume_after_trouble:
        ask(crawl, Target.RUN)


def pause(model: Model, crawl: Crawl, reason: str) -> None:
    """A crawl pauses though nobody has asked for that."""
    ask(crawl, Target.PAUSE)
    to_state(model, crawl, S.PAUSING, X.WAITING_FOR_PAUSE, reason)


# What is left.


def behind(crawl: Crawl) -> tuple[int, int]:
    """URIs in retired queues, and in those at the precedence floor: neither keeps a crawl going (D20)."""
    retired = ineligible = 0
    for uri in crawl.queued():
        queue = crawl.queues[uri.queue]
        retired += queue.state is QueueState.RETIRED
        ineligible += queue.state is QueueState.INELIGIBLE and not queue.paused
    return retired, ineligible


def left(model: Model, crawl: Crawl) -> bool:
    """Whether anything is left that can be leased some time, or is under way."""
    retired, ineligible = behind(crawl)
    waits = len(crawl.queued()) > retired + ineligible or bool(crawl.future())
    return waits or bool(model.leases_of(crawl) or crawl.jobs or crawl.receiving)


def rounds_left(crawl: Crawl) -> bool:
    """Whether the seeds may be announced anew."""
    most = crawl.settings.reseed.max_rounds
    return most < 0 or crawl.round < most


def next_round_ms(crawl: Crawl) -> int:
    """When the next round may begin."""
    return max(crawl.launch_ms, crawl.round_ms) + crawl.settings.reseed.min_interval_ms
