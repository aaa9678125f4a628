"""The verdict on a crawl: one sentence that says how it is, and the setting that limits it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from toehold.frontier.v1.admin_pb2 import SeedResult
from toehold.frontier.v1.crawl_pb2 import CrawlState, ExitStatus
from toehold_client.events import Event
from toehold_client.spec.plain import seconds_of
from toehold_client.text import bytes_text, counted, duration_text, revisited_text, rough_text, urls_left
from toehold_client.watching.look import Look, seconds_until, time_left
from toehold_client.watching.seeds import TROUBLES
from toehold_client.watching.trouble import LAPSED, absences, troubles

GOOD, WAITING, BAD, ENDED = "good", "waiting", "bad", "ended"
"""How urgent a verdict is."""

START_S = 10.0
"""A crawl that has just begun to run need not have a page yet."""

_PAUSES = "the crawl is pausing: "
_LIMITED, _HOW_LONG = "Limited by ", ". "


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a crawl is."""

    tone: str
    text: str
    setting: str = ""
    """The setting that limits it, as a spec file names it; empty if none does."""


def verdict(look: Look, acts: Sequence[Event] = ()) -> Verdict:
    """The verdict on a crawl. `acts` are the latest requests of operators, the latest last."""
    if look.away:
        for_s = duration_text(look.away_s)
        text = f"No answer from the frontier for {for_s}: {look.away}. The rest is as it was before"
        return Verdict(BAD, text)
    if look.status.held:
        return Verdict(WAITING, f"Held{_by(look, acts, 'hold')}: nothing of it is written until its release")
    return _OF_STATE[look.status.state](look, acts)


def _running(look: Look, _: Sequence[Event]) -> Verdict:
    rate = look.statistics.succeeded_per_second
    # Lapsed leases are fetched again by themselves; a node that is silent is trouble in its own right.
    wrong = [each.text for each in (*troubles(look), *absences(look)) if each.subject != LAPSED]
    parts = [f"{rate:.1f} pages/s" if rate < 10 else f"{rate:.0f} pages/s"]
    if look.why:
        parts[0] += _limit(look.why)
    parts += filter(None, [time_left(look.statistics), _seeds(look)])
    pace, setting = "; ".join(parts), look.statistics.limiting_setting
    if wrong:
        more = f" (and {counted(len(wrong) - 1, 'further problem')})" if len(wrong) > 1 else ""
        return Verdict(BAD, f"Trouble: {wrong[0]}{more}. {pace}", setting)
    runs_s = -seconds_until(look.statistics, look.status.reach_time)
    if rate == 0:
        tone, word = (WAITING, "Waiting") if runs_s > START_S else (GOOD, "Starting")
        return Verdict(tone, f"{word}: {look.why or 'no page for some seconds'}", setting)
    return Verdict(GOOD, f"Healthy: {pace}", setting)


def _seeds(look: Look) -> str:
    """`1 of 18 seeds failed, 2 redirected elsewhere, 2 tried in vain so far`."""
    of = counted(sum(look.seeds.counts.values()), "seed")
    vain = sum(seed.tried_in_vain for seed in look.seeds.troubled)
    elsewhere = look.seeds.counts.get(SeedResult.SEED_RESULT_REDIRECTED, 0)
    failed = sum(look.seeds.counts.get(result, 0) for result in TROUBLES) - elsewhere
    counts = ((failed, "failed"), (elsewhere, "redirected elsewhere"), (vain, "tried in vain so far"))
    found = [(count, words) for count, words in counts if count]
    return ", ".join(
        f"{count}{'' if place else f' of {of}'} {words}" for place, (count, words) in enumerate(found)
    )


def _limit(why: str) -> str:
    """`, limited by politeness: 12 hosts wait 3 s`: the time that it takes stands elsewhere."""
    text = why.partition(_HOW_LONG)[0]
    begin, joint = (1, ", ") if text.startswith(_LIMITED) else (0, "; ")
    return joint + text[:begin].lower() + text[begin:]


def _nascent(look: Look, _: Sequence[Event]) -> Verdict:
    seeds = look.crawl.seed_count
    if not seeds:
        return Verdict(WAITING, "Not launched yet: it has no seed. Add one, then launch it")
    return Verdict(WAITING, f"Not launched yet: {counted(seeds, 'seed')} {_wait(seeds)} for the launch")


def _preparing(look: Look, _: Sequence[Event]) -> Verdict:
    return Verdict(GOOD, f"Preparing: {counted(look.crawl.seed_count, 'seed')} being announced")


def _empty(look: Look, _: Sequence[Event]) -> Verdict:
    return Verdict(WAITING, f"Waiting: {look.why or 'no URI is left to fetch'}")


def _pausing(look: Look, acts: Sequence[Event]) -> Verdict:
    if look.status.reason and look.why:
        return Verdict(BAD, f"Pausing: {look.why.removeprefix(_PAUSES)}")
    out = counted(look.statistics.leased_count, "URI")
    return Verdict(WAITING, f"Pausing{_by(look, acts, 'pause')}: {out} still being fetched")


def _paused(look: Look, acts: Sequence[Event]) -> Verdict:
    if look.status.reason:
        return Verdict(BAD, f"Paused: {look.status.reason}")
    left = time_left(look.statistics)
    return Verdict(
        WAITING, f"Paused{_by(look, acts, 'pause')}" + (f"; {left} once it goes on" if left else "")
    )


def _stopping(look: Look, acts: Sequence[Event]) -> Verdict:
    out = counted(look.statistics.leased_count, "URI")
    most = duration_text(seconds_of(look.crawl.spec.stop_timeout))
    how = f"{out} still being fetched, for at most {most}. Interrupt to break them off"
    return Verdict(WAITING, f"Stopping{_by(look, acts, 'stop')}: {how}")


def _finished(look: Look, acts: Sequence[Event]) -> Verdict:
    statistics, status = look.statistics, look.status
    pages, time_taken = counted(statistics.succeeded_count, "page"), seconds_of(statistics.elapsed_duration)
    failed = f", {counted(statistics.failed_count, 'URI')} failed" if statistics.failed_count else ""
    sentence = f"{pages}{failed} in {duration_text(time_taken)}"
    known = statistics.revisit_count
    again = f"; revisited {revisited_text(statistics.revisited_count, known)}" if known else ""
    after = ", torn down" if status.torn_down else ""
    if status.failure:
        return Verdict(BAD, f"Failed{after}: {status.failure}")
    if status.exit_status in _LIMITS:
        left = counted(urls_left(statistics), "URL")
        # A recrawl has limits of its own, so these are its counts.
        pages, size = counted(statistics.limited_count, "page"), bytes_text(statistics.limited_bytes_count)
        elapsed = duration_text(seconds_of(statistics.limited_duration))
        reached = {
            "limits.max_documents": f"{pages}, the limit{failed}",
            "limits.max_bytes": f"{size}, the limit, of {pages}{failed}",
            "limits.max_elapsed_seconds": f"{elapsed}, the limit; {pages}{failed}",
        }[_LIMITS[status.exit_status]]
        return Verdict(
            ENDED, f"Finished{after}: {reached}; {left} left ({_LIMITS[status.exit_status]}){again}"
        )
    how = _ENDS.get(status.exit_status, "Ended")
    by = _by(look, acts, "stop") if status.exit_status == ExitStatus.EXIT_STATUS_ABORTED else ""
    return Verdict(ENDED, f"{how}{by}{after}: {sentence}{again}")


def next_step(look: Look) -> str:
    """What to do next with a crawl that has ended; empty for others."""
    status, left = look.status, urls_left(look.statistics)
    if look.away or status.state != CrawlState.CRAWL_STATE_FINISHED:
        return ""
    if status.torn_down or status.tearing_down:
        return "It is torn down: it can be read, copied into another crawl, or deleted, but not reopened."
    then = "Tear down takes it out of the frontier's memory for good."
    if status.failure:
        return f"Failures and Seeds say why. Once that is mended, make a new crawl. {then}"
    if not left:
        return f"Everything in its scope was fetched. Files has the report and the pages. {then}"
    if status.exit_status in _LIMITS:
        of = counted(left, "URL")
        return f"Reopen fetches the {of} left, up to a higher {_LIMITS[status.exit_status]}. {then}"
    return f"Reopen fetches the {counted(left, 'URL')} left. {then}"


def limit_reached(look: Look) -> dict[str, str | float] | None:
    """The limit at which a crawl has ended, for a page that offers to raise it: its names in a spec file and
    in JSON, the unit of its values in JSON, and its value."""
    name = _LIMITS.get(look.status.exit_status, "")
    if not name or look.status.state != CrawlState.CRAWL_STATE_FINISHED:
        return None
    limits = look.crawl.spec.limits
    field, unit, value = {
        "limits.max_documents": ("maxDocuments", "", float(limits.max_documents)),
        "limits.max_bytes": ("maxBytes", "", float(limits.max_bytes)),
        "limits.max_elapsed_seconds": ("maxElapsed", "s", seconds_of(limits.max_elapsed)),
    }[name]
    return {"name": name, "field": field, "unit": unit, "reached": value}


_ENDS: Mapping[int, str] = {
    ExitStatus.EXIT_STATUS_FINISHED: "Finished, nothing is left to fetch",
    ExitStatus.EXIT_STATUS_ABORTED: "Stopped",
}

_LIMITS: Mapping[int, str] = {
    ExitStatus.EXIT_STATUS_FINISHED_DOCUMENT_LIMIT: "limits.max_documents",
    ExitStatus.EXIT_STATUS_FINISHED_DATA_LIMIT: "limits.max_bytes",
    ExitStatus.EXIT_STATUS_FINISHED_TIME_LIMIT: "limits.max_elapsed_seconds",
}

_OF_STATE: Mapping[int, Callable[[Look, Sequence[Event]], Verdict]] = {
    CrawlState.CRAWL_STATE_UNSPECIFIED: _empty,
    CrawlState.CRAWL_STATE_NASCENT: _nascent,
    CrawlState.CRAWL_STATE_PREPARING: _preparing,
    CrawlState.CRAWL_STATE_RUNNING: _running,
    CrawlState.CRAWL_STATE_EMPTY: _empty,
    CrawlState.CRAWL_STATE_PAUSING: _pausing,
    CrawlState.CRAWL_STATE_PAUSED: _paused,
    CrawlState.CRAWL_STATE_STOPPING: _stopping,
    CrawlState.CRAWL_STATE_FINISHED: _finished,
}


def _by(look: Look, acts: Sequence[Event], action: str) -> str:
    """` by alice 5 min ago`, if the operator's request is known that still holds."""
    for event in reversed(acts):
        asked = event.operator_acted.action
        if asked in _SAME.get(action, (action,)):
            ago = rough_text(max(-seconds_until(look.statistics, event.event_time), 0.0))
            return f" by {event.operator_acted.operator} {ago} ago"
        if asked in _BEGINNINGS:
            break
    return ""


_SAME = {"stop": ("stop", "interrupt", "teardown")}
_BEGINNINGS = ("launch", "reopen", "resume")
"""An earlier request no longer holds."""


def _wait(count: int) -> str:
    return "waits" if count == 1 else "wait"
