"""NodeLogs: the node's own logs of what went wrong with URIs and with its programs.

`uri-errors.log` has a line for each fetch that ended without an answer or within one: time, fetch status,
URI, and why. `runtime-errors.log` has a block for each error of the programs: time, thread and URI in one
line, the trace in the next ones, indented. Both are rolled by size, and only the youngest old ones are kept.
"""

import logging
import sys
import threading
import traceback
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path

import structlog

from .outcome import Truncation
from .rolling import OutputError
from .visit import Visit

URI_ERRORS = "uri-errors.log"
RUNTIME_ERRORS = "runtime-errors.log"

MAX_LOG_BYTES = 50_000_000
"""A log that would grow beyond this is rolled: it gets the name `….log.1`, that `….log.2`, and so on."""

OLD_LOGS = 4
"""How many old ones of a log are kept."""

MAX_TRACE_CHARS = 16_000

_BROKEN_OFF = (Truncation.TIME, Truncation.DISCONNECT)

log = structlog.get_logger()


class NodeLogs:
    """The logs of one process in one directory, made if it is not there. Used by many threads at once.

    Without a directory there are none but the program's own. A log that cannot be written is told of there,
    once, and breaks nothing. Raises OutputError when the directory cannot be made.
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
                raise OutputError(f"logs cannot be kept in {str(directory)!r}: {problem}") from problem

    def visited(self, visit: Visit) -> None:
        """Notes how a fetch ended, if not well: with a status below zero, or broken off within the answer."""
        fetch = visit.fetch
        if fetch.error is not None:
            self.runtime_error(fetch.uri, fetch.error)
        if self._uri_errors is not None and (fetch.status < 0 or fetch.truncation in _BROKEN_OFF):
            why = ",".join((fetch.truncation.value, *fetch.annotations)).strip(",") or "-"
            self._uri_errors.write(f"{_now()} {fetch.status} {''.join(fetch.uri.split())} {why}")

    def runtime_error(self, uri: str, error: BaseException) -> None:
        """Notes an error of the node's own or the user's programs at a URI, with its trace."""
        log.error("an error of a program", uri=uri, error=f"{type(error).__name__}: {str(error)[:1000]}")
        if self._runtime_errors is not None:
            trace = "".join(traceback.format_exception(error))[-MAX_TRACE_CHARS:]
            block = "".join(f"\n    {line}" for line in trace.splitlines())
            toe = threading.current_thread().name
            self._runtime_errors.write(f"{_now()} {toe} {''.join(uri.split())}{block}")

    def close(self) -> None:
        """Closes the files."""
        for each in (self._uri_errors, self._runtime_errors):
            if each is not None:
                each.close()


class _Log(RotatingFileHandler):
    """One log, as the standard library rolls them."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        super().__init__(path, maxBytes=max_bytes, backupCount=OLD_LOGS, encoding="utf-8", errors="replace")
        self._failing = False

    def write(self, text: str) -> None:
        failing, self._failing = self._failing, False
        self.handle(logging.makeLogRecord({"msg": text}))
        if self._failing and not failing:
            log.error("a log of the node cannot be written", file=self.baseFilename, error=self._why)

    def handleError(self, record: logging.LogRecord) -> None:
        """What the standard library would write to standard error for each line."""
        self._failing, self._why = True, str(sys.exc_info()[1])

    _why = ""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
