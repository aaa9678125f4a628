"""Finds logs that are newer than the store, at the start.

A line is written when its outcome or event is durable. So a whole line that the store does not know is
evidence: an older store was put in its place, as a restore does, or the store's own log was damaged or lost.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import structlog

from ..core.core import Core
from ..core.operators.idle import some
from ..core.rows.store import WritableStore
from ..stores.patient import write_patiently
from .cut_logs import LogAhead, first_unknown, keep, keep_whole
from .job_log import number_of

_log = structlog.get_logger()


class CannotKeep(Exception):
    """The lines that the store has lost cannot be kept aside, or not be cut off."""


def check_logs(core: Core, store: WritableStore, data: Path, now_ms: int, sync: bool) -> None:
    """Check the logs of all crawls. Call it before serving.

    Lines that the store has lost are kept aside and logged as an error, and every crawl is paused until
    somebody resumes it. Without `sync` a power cut may take the end of the store, so the lines are cut off
    with a warning. Raises CannotKeep; the next start then does the rest.
    """
    found = list(_all_ahead(core, data))
    newer: dict[str, list[tuple[str, str]]] = {}  # by crawl: what its logs have more, and where it is kept
    for crawl, ahead in found:
        lines = some(ahead.lines, "outcome" if ahead.path.name == "crawl.log" else "event")
        if sync:
            try:
                aside = keep(ahead)  # first: it is the evidence
            except OSError as problem:
                raise CannotKeep(f"the end of {ahead.path} cannot be copied: {problem}") from problem
            newer.setdefault(crawl, []).append((lines, aside.name))
            _log.error("log_ahead", crawl=crawl, problem=_told([(lines, aside.name)]), file=str(aside))
        else:
            _log.warning("log_ahead", crawl=crawl, problem="the log is newer than the store", cut_off=lines)
    told = {crawl: _told(more) for crawl, more in newer.items()}
    if told:
        _, changes = core.upkeep.record_lost(told, now_ms)
        write_patiently(store, changes)
        store.flush()
    for _, ahead in found:
        try:
            os.truncate(ahead.path, ahead.offset)
        except OSError as problem:
            raise CannotKeep(f"the end of {ahead.path} cannot be cut off: {problem}") from problem
    _set_strangers_aside(core, data / "crawls")


def _told(more: list[tuple[str, str]]) -> str:
    """`the log is newer than the store (expected after a restore): 5 outcomes, kept in crawl.log.cut-…`."""
    lines, files = ", ".join([each for each, _ in more]), " and ".join([each for _, each in more])
    return f"the log is newer than the store (expected after a restore): {lines}, kept in {files}"


def _set_strangers_aside(core: Core, crawls: Path) -> None:
    """Rename logs whose crawls are not in the store (it has lost them, or a crash interrupted a deletion), so
    that new crawls can have their names."""
    for path in sorted(crawls.glob("*/*.log")):
        if path.is_file() and path.parent.name not in core.shard.registry:
            try:
                aside = keep_whole(path)
            except OSError as problem:
                _log.error("log_ahead", not_renamed=str(path), problem=str(problem))
            else:
                _log.warning("log_ahead", problem="the store does not know this log's crawl", file=str(aside))


def _all_ahead(core: Core, data: Path) -> Iterator[tuple[str, LogAhead]]:
    for crawl in core.shard.registry.crawls.values():  # torn-down crawls had all their lines before
        counters, directory = crawl.counters, data / "crawls" / crawl.name
        outcomes, last = counters.next_outcome - 1 - counters.logged_outcome, counters.next_event - 1

        def has_no_outcome(index: int, _: bytes, outcomes: int = outcomes) -> bool:
            return index >= outcomes

        def has_no_event(_: int, text: bytes, last: int = last) -> bool:
            return number_of(text) > last

        for ahead in (
            first_unknown(directory / "crawl.log", counters.log_bytes, has_no_outcome),
            first_unknown(directory / "job.log", counters.job_log_bytes, has_no_event),
        ):
            if ahead is not None:
                yield crawl.name, ahead
