"""`job.log`: a line for each event of a crawl's life but `Figures` (S0.6, S0.8, S0.29).

A line is written when its event is durable, and before anybody hears of it. It begins
with the event's time and number, so the file itself tells how far it has come: after a
crash the events behind its last whole line are fed again, from the store.
"""

import os
import re
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import structlog

from .core.records import EventRow

# So many `Figures` without a line between them get one after all. Otherwise the log of a
# crawl where nothing else happens would, after a restart, seem to lack what is not kept.
FIGURES_PER_LINE = 10_000
TAIL_BYTES = 64 * 1024  # where the last whole line is looked for first

_log = structlog.get_logger()

_LINE = re.compile(rb"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (\d+) [^\n]+\n", re.MULTILINE)

# Each kind of the contract's Event. Fields are words: what is empty is a dash; only a
# `detail`, always the last, is left as it is written.
_TEXTS: Mapping[str, str] = {
    "seeds_concluded": "SEEDS_CONCLUDED {seed_count} queued:{queued_count}",
    "limit_reached": "LIMIT_REACHED {limit} {value} reached:{reached} leased:{leased_count}",
    "round_begun": "ROUND_BEGUN {round}",
    "uris_left": "URIS_LEFT retired:{retired_count} ineligible:{ineligible_count}",
    "job_ended": "JOB_ENDED {job} {kind} {outcome}",
    "node_joined": "NODE_JOINED {node} session:{session}",
    "node_left": "NODE_LEFT {node} {reason} session:{session}",
    "operator_acted": "OPERATOR {operator} {action} {detail}",
    "problem": "PROBLEM {kind} {detail}",
    "held": "HELD",
    "released": "RELEASED",
    "checkpointed": "CHECKPOINTED {checkpoint}",
    "flights_cancelled": "FLIGHTS_CANCELLED {leased_count} {bound}",
    "torn_down": "Job instance discarded",
}


def line(sequence: int, row: EventRow, launch_id: str) -> bytes:
    """The line of an event: its time, its number, what happened. Empty for `Figures`.

    A change of state is the state's name, and the launch id once there is one (S0.6).
    """
    if row.kind == "figures":
        return b""
    if row.kind == "status_changed":
        return _line(row.time_ms, sequence, _status(row, launch_id))
    words = defaultdict(lambda: "-", {name: _word(str(value)) for name, value in row.fields.items()})
    words["detail"] = _harmless(str(row.fields.get("detail", "")))
    return _line(row.time_ms, sequence, _TEXTS[row.kind].format_map(words))


def launch_id_of(launch_ms: int) -> str:
    """The id of a launch: its time as 17 digits; empty for 0, which is no launch."""
    return _digits(launch_ms) if launch_ms else ""


class JobLogs:
    """The logs of all crawls, under `<data>/crawls/<name>/job.log`. Used by any threads.

    The events of a crawl are to be fed in their order. After a start, and while a crawl is
    among those `behind`, they are fed from its `position` on. No file is kept open: one that
    is moved away is followed by a new one.
    """

    def __init__(self, data: Path) -> None:
        self._data = data
        self._lock = threading.Lock()
        self._places: dict[str, _Place] = {}
        self._behind: dict[str, int] = {}  # the last event that was fed and is not written

    def path(self, crawl: str) -> Path:
        """Where a crawl's log is."""
        return self._data / "crawls" / crawl / "job.log"

    def append(self, crawl: str, launch_id: str, rows: Sequence[tuple[int, EventRow]]) -> None:
        """Write those events that are new, by number and in their order; `launch_id_of` the crawl.

        A gap before or between them are events that are no longer kept: a line tells how many. A
        file that cannot be written is told of in the server's log; its crawl is then `behind`.
        """
        if not rows:
            return
        last = rows[-1][0]
        with self._lock:
            try:
                self._append(crawl, launch_id, rows)
            except OSError as problem:
                self._fall_behind(crawl, last, problem)

    def position(self, crawl: str, last: int | None = None) -> int:
        """The number of the last event that is written, 0 if none is.

        `last` is the number of the crawl's last event, if the caller knows it: lines beyond it are of
        events that a crash took from the store, and are cut off.
        """
        with self._lock:
            try:
                place = self._place(crawl)
                if last is not None and place.position > last:
                    place = self._places[crawl] = _Place(_cut(self.path(crawl), last))
            except OSError as problem:
                self._fall_behind(crawl, 0, problem)
                return 0
            return place.position

    def behind(self) -> dict[str, int]:
        """The crawls whose files could not be written, and of each the last event that was fed."""
        with self._lock:
            return dict(self._behind)

    def close(self, crawl: str) -> None:
        """Let go of what memory has of a crawl's log; the file stays. TornDown does so by itself."""
        with self._lock:
            self._places.pop(crawl, None)

    def forget(self, crawl: str) -> None:
        """Remove the log of a crawl that was deleted."""
        path = self.path(crawl)
        with self._lock:
            self._places.pop(crawl, None)
            self._behind.pop(crawl, None)
            try:
                path.unlink(missing_ok=True)
                if path.parent.is_dir() and not any(path.parent.iterdir()):
                    path.parent.rmdir()
            except OSError as problem:
                _log.warning("job_log", crawl=crawl, problem=str(problem), consequence="the log stays")

    # Under the lock.

    def _append(self, crawl: str, launch_id: str, rows: Sequence[tuple[int, EventRow]]) -> None:
        path, place = self.path(crawl), self._place(crawl)
        first, (last, last_row) = rows[0][0], rows[-1]
        if first == 1 and place.position and not _begins_with(path, line(*rows[0], launch_id)):
            # Left behind by a crawl of this name that was deleted just before a crash.
            place = self._places[crawl] = _Place(_cut(path, 0))
        missed = self._behind.get(crawl)
        if missed is not None and first > max(missed, place.position + 1):
            self._behind[crawl] = last  # what could not be written before these comes first
            return
        text, reached = _text(rows, launch_id, place)
        over = last_row.kind == "torn_down"
        if text:
            _write(path, text, durable=over)
        if over:
            del self._places[crawl]
        else:
            self._places[crawl] = reached
        if missed is not None and missed <= reached.position:
            del self._behind[crawl]
            _log.info("job_log", crawl=crawl, caught_up_to=reached.position)

    def _place(self, crawl: str) -> "_Place":
        place = self._places.get(crawl)
        if place is None:
            place = self._places[crawl] = _Place(_cut(self.path(crawl)))
        return place

    def _fall_behind(self, crawl: str, last: int, problem: OSError) -> None:
        self._places.pop(crawl, None)  # a part may be written: it is looked for as after a crash
        if crawl not in self._behind:
            _log.error("job_log", crawl=crawl, problem=str(problem), consequence="events wait in the store")
        self._behind[crawl] = max(last, self._behind.get(crawl, 0))


@dataclass(frozen=True, slots=True)
class _Place:
    """How far a log has come: its last event, and how many `Figures` there were since its last line."""

    position: int
    figures: int = 0


def _text(rows: Sequence[tuple[int, EventRow]], launch_id: str, place: _Place) -> tuple[bytes, _Place]:
    """The lines of those events that are new at a place, and the place behind them."""
    lines: list[bytes] = []
    position, figures = place.position, place.figures
    for sequence, row in rows:
        if sequence <= position:
            continue
        if sequence > position + 1:
            lines.append(_line(row.time_ms, sequence - 1, f"MISSING {sequence - 1 - position}"))
        text = line(sequence, row, launch_id)
        figures = 0 if text else figures + 1
        if figures == FIGURES_PER_LINE:
            text, figures = _line(row.time_ms, sequence, "FIGURES"), 0
        lines.append(text)
        position = sequence
    return b"".join(lines), _Place(position, figures)


def _write(path: Path, text: bytes, durable: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab", buffering=0) as file:
        written = file.write(text)
        if written != len(text):
            raise OSError(f"{written} of {len(text)} bytes written")
        if durable:
            os.fsync(file.fileno())


def _cut(path: Path, last: int | None = None) -> int:
    """Cut off what follows the last whole line, of an event up to `last`; its number, 0 if there is none."""
    try:
        file = path.open("r+b")
    except FileNotFoundError:
        return 0
    with file:
        size = file.seek(0, os.SEEK_END)
        reach = min(TAIL_BYTES, size)
        while True:
            file.seek(size - reach)
            tail = file.read(reach)
            begin = 0 if reach == size else tail.find(b"\n") + 1
            for found in reversed(list(_LINE.finditer(tail, begin))):
                if last is None or int(found[1]) <= last:
                    _shorten(file, size - reach + found.end())
                    return int(found[1])
            if reach == size:
                _shorten(file, 0)
                return 0
            reach = min(2 * reach, size)


def _shorten(file: BinaryIO, size: int) -> None:
    if file.seek(0, os.SEEK_END) > size:
        file.truncate(size)


def _begins_with(path: Path, text: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(text)) == text


def _status(row: EventRow, launch_id: str) -> str:
    state = str(row.fields["state"])
    # Events are fed later than they happened, too: a launch changes nothing of what came before it.
    if launch_id and state != "NASCENT" and _digits(row.time_ms) >= launch_id:
        return f"{state} {launch_id}"
    return state


def _line(time_ms: int, sequence: int, text: str) -> bytes:
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03d}Z {sequence} {text}".rstrip().encode() + b"\n"


def _digits(moment_ms: int) -> str:
    moment = datetime.fromtimestamp(moment_ms / 1000, UTC)
    return f"{moment:%Y%m%d%H%M%S}{moment_ms % 1000:03d}"


def _word(text: str) -> str:
    return _harmless(text).replace(" ", "_") or "-"


def _harmless(text: str) -> str:
    """Text in which everything that is not printed, or breaks a line, is shown as an escape."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
