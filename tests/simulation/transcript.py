"""A history in words, in the manner of the transcripts in `tests/scenarios`."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from core_doubles.shell import START_MS
from core_doubles.web import ROBOTS_FILES, SITES
from simulation.entry import Entry
from simulation.history import History
from simulation.plan import Plan
from simulation.shrink import USUAL

from frontier_server.core.rows.errors import FrontierError
from frontier_server.core.spec.settings import CrawlSettings

QUIET = ("tick", "work", "logged", "heartbeat", "next")  # not told if nothing comes of them


def transcript(plan: Plan) -> str:
    """All operations of a plan, with their answers, up to what is wrong."""
    history = History(plan)
    problem: Exception | None = None
    try:
        history.play()
    except Exception as caught:
        problem = caught
    lines = [*_web(plan), ""]
    for entry in history.told:
        lines += _told(history, entry)
    if problem is not None:
        lines.append(f"# {type(problem).__name__}: {problem}")
    return "\n".join(lines)


def _web(plan: Plan) -> Iterator[str]:
    for site in plan.sites:
        robots = ", ".join(
            f"{status} ({ROBOTS_FILES[file].name})" if status == 200 else str(status)
            for status, file in site.robots
        )
        yield f"# {short(SITES[site.site].uri(''))}/robots.txt: {robots}"
        for page in site.pages:
            statuses = ", ".join(map(str, page.statuses))
            uri = short(SITES[site.site].uri(page.target))
            yield f"# {uri}: {statuses}, {page.duration_ms * site.slow} ms"
    for crawl in plan.crawls:
        yield f"# {crawl.name}: {settings_words(crawl.settings) or 'usual settings'}"
    for event in (*plan.wishes, *plan.faults):
        yield f"# at {event.at_ms / 1000:g}: {event.kind}"


def settings_words(settings: CrawlSettings) -> str:
    """What is not as usual."""
    return ", ".join(_unusual("", settings, USUAL))


def _unusual(prefix: str, value: Any, usual: Any) -> Iterator[str]:
    for field in fields(value):
        mine, its = getattr(value, field.name), getattr(usual, field.name)
        if mine == its:
            continue
        if is_dataclass(mine) and type(mine) is type(its):
            yield from _unusual(f"{prefix}{field.name}.", mine, its)
        else:
            yield f"{prefix}{field.name} {mine}"


def _told(history: History, entry: Entry) -> Iterator[str]:
    call = entry.call
    if call.kind in QUIET and not (entry.changes or entry.refused):
        return
    second = (entry.now_ms - START_MS) / 1000
    said = ", ".join(words(each, history) for each in call.said)
    yield f"at {second:<9g} {call.kind} {call.name} {said}".rstrip()
    yield f"----         {words(entry.answer, history) or 'done'}"


def short(uri: str) -> str:
    """A URI of the simulated web in few characters."""
    return uri.replace("http://", "").replace(".example", "")


def words(value: Any, history: History) -> str:
    """A value of a request or an answer, for people."""
    if isinstance(value, bytes):
        return named(value, history)
    if isinstance(value, FrontierError):
        return f"{type(value).__name__}: {value}"
    if isinstance(value, str):
        return short(value)
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(words(each, history) for each in value) + "]" if value else "[]"
    if hasattr(value, "grants"):
        granted = (f"{short(grant.uri)} (try {grant.attempt})" for grant in value.grants)
        return ", ".join(granted) or str(value.empty_reason.value)
    if hasattr(value, "fetch_status") and hasattr(value, "token"):
        status = "released" if value.released else value.fetch_status
        return f"{named(value.token, history)} {status} in {value.duration_ms}ms"
    if hasattr(value, "disposition"):
        return f"{value.disposition.value}{' again' if value.repeated else ''}"
    if hasattr(value, "exit_status"):
        return f"{value.name} {value.state.value} {value.exit_status.value}"
    if hasattr(value, "uri") and hasattr(value, "path"):
        return f"{short(value.uri)} via {value.path}"
    if isinstance(value, CrawlSettings):
        return settings_words(value)
    if hasattr(value, "ended"):
        told = [f"ended {words(value.ended, history)}"] if value.ended else []
        told += [f"release {words(value.release, history)}"] if value.release else []
        return ", ".join(told) or "go on"
    return str(getattr(value, "value", value))


def named(token: bytes, history: History) -> str:
    """A token, by what it is for."""
    for entry in history.told:
        for grant in getattr(entry.answer, "grants", ()):
            if grant.token == token:
                return short(grant.uri)
    return token.hex()[:12]
