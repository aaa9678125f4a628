"""`job.log`: a line for each event of a crawl's life except `IntervalStatistics`.

A line is written when its event is durable, and before anybody sees the event. It begins with
the event's time and number, so the file itself shows how far it has come. It is synced a little
later, and the store remembers the synced length. After a crash the lines beyond it count up to
the first one that is not whole; the events after that are fed again, from the store.
"""

import os
import re
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

import structlog

from toehold_base.durable import sync_names

from ..core.rows.records import EventRow
from ..replicated.buckets import BucketFailed
from ..shell.clock import digits, iso
from .archive import LogArchive
from .cut_logs import keep_whole, remove

# After so many `IntervalStatistics` without a line between them, one gets a line. Otherwise a crawl with no
# other events would seem, after a restart, to lack events that are no longer kept.
STATISTICS_PER_LINE = 10_000
MAX_LINE_BYTES = 64 * 1024  # no line is longer: the operators' texts in it are bounded

_log = structlog.get_logger()

_LINE = re.compile(rb"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (\d{1,18}) [^\n\0]+\n")

# Each kind of the contract's Event. Fields are words, and empty ones a dash; only `detail`, always the last,
# keeps its blanks.
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
    """The line of an event: its time, number and text. Empty for `IntervalStatistics`.

    A change of state is the state's name, and the launch id once there is one.
    """
    if row.kind == "statistics":
        return b""
    if row.kind == "status_changed":
        return _line(row.time_ms, sequence, _status(row, launch_id))
    words = defaultdict(lambda: "-", {name: _word(str(value)) for name, value in row.fields.items()})
    words["detail"] = _harmless(str(row.fields.get("detail", "")))
    return _line(row.time_ms, sequence, _TEXTS[row.kind].format_map(words))


def number_of(text: bytes) -> int:
    """The number of a whole line's event; 0 if the text is not a line of a job log."""
    match = _LINE.fullmatch(text)
    return int(match[1]) if match is not None else 0


def launch_id_of(launch_ms: int) -> str:
    """The id of a launch: its time as 17 digits; empty for 0, which means not launched."""
    return digits(launch_ms) if launch_ms else ""


class Synced(NamedTuple):
    """The durable part of a log: its last event, and its length."""

    event: int = 0
    size: int = 0


NOTHING = Synced()


class JobLogs:
    """The logs of all crawls, under `<data>/crawls/<name>/job.log`. Thread-safe.

    Feed the events of a crawl in their order. After a start, and while a crawl is among those
    `behind`, feed them from its `position` on. No file is kept open: if one is moved away, a new
    one follows.
    """

    def __init__(self, data: Path, archive: LogArchive | None = None) -> None:
        """With an `archive`, what is in it counts as durable, and files are restored from it."""
        self._data = data
        self._archive = archive
        self._lock = threading.Lock()
        self._places: dict[str, _Place] = {}
        self._synced: dict[str, Synced] = {}
        self._unsynced: dict[str, _Place] = {}
        self._lost: set[str] = set()  # their files have failed: only the synced part counts
        self._behind: dict[str, int] = {}  # the last event that was fed, but not written

    def path(self, crawl: str) -> Path:
        return self._data / "crawls" / crawl / "job.log"

    def append(self, crawl: str, launch_id: str, rows: Sequence[tuple[int, EventRow]]) -> None:
        """Write the new ones among these events, in their order. `launch_id` is `launch_id_of` the crawl.

        A gap before or between them means events that are no longer kept: a line says how many. If
        the file cannot be written, the server's log says so, and the crawl is then `behind`.
        """
        if not rows:
            return
        last = rows[-1][0]
        with self._lock:
            try:
                self._append(crawl, launch_id, rows)
            except OSError as problem:
                self._fall_behind(crawl, last, problem)

    def position(self, crawl: str, last: int | None = None, synced: Synced = NOTHING) -> int:
        """The number of the last written event, or 0.

        `last` is the number of the crawl's last event, if the caller knows it: lines beyond it belong to
        events that the store lost in a crash, and are cut off. `synced` is the store's note of the log.
        """
        with self._lock:
            self._synced.setdefault(crawl, synced)
            if self._archive is not None and synced.event == last and not self.path(crawl).exists():
                return synced.event  # it is restored when a line is to follow
            try:
                place = self._place(crawl, last)
                if last is not None and place.position > last:
                    del self._places[crawl]
                    place = self._place(crawl, last)
            except OSError as problem:
                self._fall_behind(crawl, 0, problem)
                return 0
            return place.position

    def behind(self) -> dict[str, int]:
        """The crawls whose files could not be written, each with the last event that was fed."""
        with self._lock:
            return dict(self._behind)

    def sync(self) -> dict[str, Synced]:
        """Make all appended lines durable. Returns the newly durable parts, by crawl. May block.

        A log that cannot be synced is cut to its durable part, and its crawl is then `behind`: the
        system drops data that it could not write, and the next sync of the same file succeeds.
        """
        with self._lock:
            unsynced, self._unsynced = self._unsynced, {}
            reached = {crawl: Synced(place.position, place.size) for crawl, place in unsynced.items()}
        for crawl, place in unsynced.items():
            problem = self._sync_file(crawl, reached[crawl].size)
            with self._lock:
                if problem is not None:
                    del reached[crawl]
                if self._places.get(crawl) is not place:
                    continue  # the crawl was torn down or deleted, or its log begun anew
                if problem is None:
                    self._synced[crawl] = reached[crawl]
                elif isinstance(problem, BucketFailed):
                    self._unsynced.setdefault(crawl, place)
                elif not isinstance(problem, FileNotFoundError):  # a missing file was moved away
                    self._lost.add(crawl)
                    self._fall_behind(crawl, place.position, problem)
                    with suppress(OSError):  # if the cut fails, the next use tries again
                        self._place(crawl)
        return reached

    def _sync_file(self, crawl: str, size: int) -> OSError | BucketFailed | None:
        path, synced = self.path(crawl), self._synced.get(crawl, NOTHING).size
        try:
            with path.open("rb") as file:
                os.fsync(file.fileno())
            if not synced:
                sync_names(path, self._data)
            if self._archive is not None:
                self._archive.keep(crawl, path, synced, size)
        except (OSError, BucketFailed) as problem:
            return problem
        return None

    def close(self, crawl: str) -> None:
        """Free the memory of a crawl's log; the file stays. The event TornDown does this by itself."""
        with self._lock:
            self._let_go(crawl)

    def forget(self, crawl: str) -> None:
        """Remove the log of a crawl that was deleted."""
        path = self.path(crawl)
        with self._lock:
            self._let_go(crawl)
            self._behind.pop(crawl, None)
            try:
                remove(path)
                if self._archive is not None:
                    self._archive.forget(crawl, path)
            except (OSError, BucketFailed) as problem:
                _log.warning(
                    "job_log", crawl=crawl, problem=str(problem), consequence="the log was not removed"
                )

    # These hold the lock.

    def _append(self, crawl: str, launch_id: str, rows: Sequence[tuple[int, EventRow]]) -> None:
        path, place = self.path(crawl), self._place(crawl)
        first, (last, last_row) = rows[0][0], rows[-1]
        if first == 1 and place.position and not _begins_with(path, line(*rows[0], launch_id)):
            # The file belongs to a crawl of this name that was deleted just before a crash.
            kept = keep_whole(path)
            _log.warning("job_log", crawl=crawl, problem="it belongs to a deleted crawl", kept=str(kept))
            self._let_go(crawl)
            place = self._place(crawl)
        missed = self._behind.get(crawl)
        if missed is not None and first > max(missed, place.position + 1):
            self._behind[crawl] = last  # the events that could not be written before go first
            return
        text, position, statistics = _text(rows, launch_id, place)
        over = last_row.kind == "torn_down"
        if text:
            size = _write(path, text, durable=over)
            if size - len(text) < self._synced.get(crawl, NOTHING).size:
                self._synced[crawl] = NOTHING  # a new file: the one before was moved away
            place.size = size
            self._unsynced[crawl] = place
        place.position, place.statistics = position, statistics
        if over:
            self._let_go(crawl)
        if missed is not None and missed <= position:
            del self._behind[crawl]
            _log.info("job_log", crawl=crawl, caught_up_to=position)

    def _place(self, crawl: str, last: int | None = None) -> "_Place":
        place = self._places.get(crawl)
        if place is None:
            synced = self._synced.get(crawl, NOTHING)
            if self._archive is not None and synced.size:
                try:
                    self._archive.restore(crawl, self.path(crawl), synced.size)
                except BucketFailed as problem:
                    raise OSError(str(problem)) from problem
            place = _opened(self.path(crawl), synced, last, crawl not in self._lost)
            self._lost.discard(crawl)
            self._places[crawl] = place
            if place.size > synced.size:
                self._unsynced[crawl] = place
        return place

    def _let_go(self, crawl: str) -> None:
        for known in (self._places, self._synced, self._unsynced):
            known.pop(crawl, None)
        self._lost.discard(crawl)

    def _fall_behind(self, crawl: str, last: int, problem: OSError) -> None:
        self._places.pop(crawl, None)  # part of the text may be written: read the file as after a crash
        if crawl not in self._behind:
            _log.error("job_log", crawl=crawl, problem=str(problem), consequence="events wait in the store")
        self._behind[crawl] = max(last, self._behind.get(crawl, 0))


@dataclass(slots=True)
class _Place:
    """A log's last event and length, and the number of `IntervalStatistics` since its last line."""

    position: int
    size: int
    statistics: int = 0


def _text(rows: Sequence[tuple[int, EventRow]], launch_id: str, place: _Place) -> tuple[bytes, int, int]:
    """The lines of the events that are new at a place; its last event and its `statistics` after them."""
    lines: list[bytes] = []
    position, statistics = place.position, place.statistics
    for sequence, row in rows:
        if sequence <= position:
            continue
        if sequence > position + 1:
            lines.append(_line(row.time_ms, sequence - 1, f"MISSING {sequence - 1 - position}"))
        text = line(sequence, row, launch_id)
        statistics = 0 if text else statistics + 1
        if statistics == STATISTICS_PER_LINE:
            text, statistics = _line(row.time_ms, sequence, "STATISTICS"), 0
        lines.append(text)
        position = sequence
    return b"".join(lines), position, statistics


def _write(path: Path, text: bytes, durable: bool) -> int:
    """Append; the file's length then."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab", buffering=0) as file:
        written = file.write(text)
        if written != len(text):
            raise OSError(f"{written} of {len(text)} bytes written")
        if durable:
            os.fsync(file.fileno())
        return file.tell()


def _opened(path: Path, synced: Synced, last: int | None, trusted: bool) -> _Place:
    """A log's synced part, and the whole lines after it if the log is `trusted`.

    The rest is cut off, and so are lines of events beyond `last`. A file that has no line end at the synced
    length is read from its start: the synced one was moved away.
    """
    try:
        file = path.open("r+b")
    except FileNotFoundError:
        return _Place(0, 0)
    with file:
        position, size = synced
        if (last is not None and position > last) or not _has_line_end(file, size):
            position = size = 0
        file.seek(size)
        while trusted and (match := _LINE.fullmatch(file.readline(MAX_LINE_BYTES))) is not None:
            number = int(match[1])
            if number <= position or (last is not None and number > last):
                break
            position, size = number, size + len(match[0])
        _shorten(file, size)
        return _Place(position, size)


def _has_line_end(file: BinaryIO, size: int) -> bool:
    """Whether a line ends there."""
    if size == 0:
        return True
    file.seek(size - 1)
    return file.read(1) == b"\n"


def _shorten(file: BinaryIO, size: int) -> None:
    if file.seek(0, os.SEEK_END) > size:
        file.truncate(size)


def _begins_with(path: Path, text: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(text)) == text


def _status(row: EventRow, launch_id: str) -> str:
    state = str(row.fields["state"])
    # An event may be fed late: the launch id belongs only to events since the launch.
    if launch_id and state != "NASCENT" and digits(row.time_ms) >= launch_id:
        return f"{state} {launch_id}"
    return state


def _line(time_ms: int, sequence: int, text: str) -> bytes:
    return f"{iso(time_ms)} {sequence} {text}".rstrip().encode() + b"\n"


def _word(text: str) -> str:
    return _harmless(text).replace(" ", "_") or "-"


def _harmless(text: str) -> str:
    """Text with escapes for all characters that are not printable, line ends included."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
