"""NodeLogs: the node's own logs of errors of URIs and of programs.

`uri-errors.log` has a line for each fetch that ended without an answer or within one: time, fetch status,
URI, and reason. `runtime-errors.log` has a block for each error of a program: one line with time, thread and
URI, then the trace, indented. Both are rolled by size, and only the youngest old files are kept.
"""

import os
import threading
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import structlog

from ..fetching.outcome import Truncation
from .open_file import OutputError, is_at
from .visit import PageVisit

URI_ERRORS = "uri-errors.log"
RUNTIME_ERRORS = "runtime-errors.log"

MAX_LOG_BYTES = 50_000_000
"""A log that would grow beyond this is rolled: it becomes `….log.1`, the former `….log.1` `….log.2`, and so
on."""

OLD_LOGS = 4
"""How many old files of a log are kept."""

MAX_TRACE_CHARS = 16_000

_BROKEN_OFF = (Truncation.TIME, Truncation.DISCONNECT)

log = structlog.get_logger()


class NodeLogs:
    """The logs in one directory, which is created if it does not exist. Many threads use them at once, and
    the processes of a node may share them.

    Without a directory there is only the program's own log. That also tells, once, of a log that cannot be
    written, which breaks nothing else. Raises OutputError when the directory cannot be created.
    """

    def __init__(self, directory: Path | None = None, max_bytes: int = MAX_LOG_BYTES) -> None:
        self._uri_errors: _Log | None = None
        self._runtime_errors: _Log | None = None
        if directory is not None:
            try:
                directory.mkdir(parents=True, exist_ok=True)
                self._uri_errors = _Log(directory / URI_ERRORS, max_bytes)
                self._runtime_errors = _Log(directory / RUNTIME_ERRORS, max_bytes)
            except OSError as problem:
                raise OutputError(
                    f"cannot keep logs in {str(directory)!r}: {problem.strerror or problem}"
                ) from problem

    def visited(self, visit: PageVisit) -> None:
        """Logs a fetch that has a status below zero or was broken off within the answer."""
        fetch = visit.fetch
        if fetch.error is not None:
            self.runtime_error(fetch.uri, fetch.error)
        if self._uri_errors is not None and (fetch.status < 0 or fetch.truncation in _BROKEN_OFF):
            why = ",".join((fetch.truncation.value, *fetch.annotations)).strip(",") or "-"
            self._uri_errors.write(f"{_now()} {fetch.status} {''.join(fetch.uri.split())} {why}")

    def runtime_error(self, uri: str, error: BaseException) -> None:
        """Logs an error of the node's or the user's program at a URI, with its trace."""
        # The trace goes to runtime-errors.log; if there is none, to the program's log.
        trace_here = error if self._runtime_errors is None else None
        problem = f"{type(error).__name__}: {str(error)[:1000]}"
        log.error("page_failed", uri=uri, error=problem, exc_info=trace_here)
        if self._runtime_errors is not None:
            trace = "".join(traceback.format_exception(error))[-MAX_TRACE_CHARS:]
            block = "".join(f"\n    {line}" for line in trace.splitlines())
            toe = threading.current_thread().name
            self._runtime_errors.write(f"{_now()} {toe} {''.join(uri.split())}{block}")

    def close(self) -> None:
        for each in (self._uri_errors, self._runtime_errors):
            if each is not None:
                each.close()


class _Log:
    """One log, unbuffered, so that each text is in the file at once. Several processes may write to it."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._failing = False
        self._closed = False
        self._descriptor = self._open()

    def write(self, text: str) -> None:
        """Adds a line, or several. Does nothing after `close`."""
        data = f"{text}\n".encode("utf-8", "replace")
        with self._lock:
            if self._closed:
                return
            was_failing, self._failing = self._failing, True
            if was_failing:
                data = b"\n" + data  # the last line may be torn
            try:
                self._roll_if_long(len(data))
                while data:
                    data = data[os.write(self._descriptor, data) :]
            except OSError as error:
                if not was_failing:
                    log.error("log_failed", file=str(self._path), error=str(error))
            else:
                self._failing = False

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._descriptor)

    def _roll_if_long(self, more: int) -> None:
        if is_at(self._path, self._descriptor):  # no other process has rolled it
            length = os.fstat(self._descriptor).st_size
            if not length or length + more <= self._max_bytes:
                return
            for number in range(OLD_LOGS - 1, 0, -1):
                with suppress(FileNotFoundError):
                    self._old(number).replace(self._old(number + 1))
            with suppress(FileNotFoundError):
                self._path.replace(self._old(1))
        descriptor, self._descriptor = self._descriptor, self._open()
        os.close(descriptor)

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def _old(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
