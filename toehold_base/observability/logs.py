"""The logs of all programs: one line an event on standard error, as JSON for programs or as text for people.

docs/reference.md lists the events. Lines of libraries (gRPC, asyncio, httpx) come as `library_message`,
Python's warnings too, and an error that nobody caught as `unhandled_error`.

Values may come from pages and callers. Control characters in them are escaped and long ones are cut, so that
no value can pass for a line of its own; secrets are left out.
"""

import json
import logging
import re
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict

MAX_CHARACTERS = 2_000
"""The longest value of a line."""
MAX_TRACE_CHARACTERS = 20_000
MAX_ITEMS = 50
"""The most items of a list or a table in a line."""

HIDDEN = "[hidden]"

_log = structlog.get_logger()
_level = "info"


def configure(log_format: str, level: str, **fields: str) -> None:
    """Log to standard error from now on; `fields` are in each line."""
    as_text = log_format == "text" or (log_format == "auto" and sys.stderr.isatty())
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            lambda logger, method, line: {**line, **fields},
            harmless,
            text if as_text else structlog.processors.JSONRenderer(),
        ],
        logger_factory=lambda *_: _Output(sys.stderr),
    )
    set_level(level)
    logging.root.handlers[:] = [_Libraries()]
    logging.captureWarnings(True)
    sys.excepthook = _on_error
    threading.excepthook = _on_thread_error


def set_level(level: str) -> None:
    """Log this level and those above it. Libraries are heard from `warning` on."""
    global _level
    _level = level
    number = getattr(logging, level.upper())
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(number))
    logging.root.setLevel(max(number, logging.WARNING))


def level() -> str:
    """The level that is logged."""
    return _level


def debugging() -> bool:
    """Whether `debug` is logged."""
    return _level == "debug"


def change_level(level: str) -> None:
    """Set the level while the program runs, and say so."""
    before = _level
    set_level("info")  # so that the change is told at any level
    _log.info("log_level_changed", before=before, after=level)
    set_level(level)


# Values.

_TRACES = ("exception", "stack")
_SECRET_NAME = re.compile(
    r"passw|secret|credential|authorization|cookie|api_?key|private_?key|^token$|_tokens?$|^tokens$"
)
# `user:password@`; in a URL also `user@`, which may be a token; in a header, the part after the scheme.
_USER_INFO = re.compile(
    r"(?<=://)[^/?#\s@]*(?:@[^/?#\s@]*)*(?=@)|(?<![\w:/@.~%+-])[\w.~%+-]+:[^\s/@:'\"]+(?=@[\w\[])"
)
_AUTHORIZATION = re.compile(r"(?i)\b(bearer|basic|digest|negotiate)\s+[\w.~+/=-]{6,}")
_ASSIGNED = re.compile(
    r"(?i)\b((?:\w*passw(?:or)?d|\w*secret|access_token|api_?key)['\"]?\s*[=:]\s*)(['\"]?)[^\s,;&'\"]+"
)


def harmless(logger: object, method: str, line: EventDict) -> EventDict:
    """The line with values that can be written and shown anywhere."""
    return {
        _one_line(str(name), MAX_CHARACTERS): HIDDEN
        if value and _SECRET_NAME.search(str(name).lower())
        else trace(value)
        if name in _TRACES and isinstance(value, str)
        else _harmless(value)
        for name, value in line.items()
    }


def trace(value: str) -> str:
    """A stack trace: its end, with its line breaks."""
    if len(value) > MAX_TRACE_CHARACTERS:
        value = "…" + value[-MAX_TRACE_CHARACTERS:]
    return "\n".join(_one_line(each, MAX_TRACE_CHARACTERS) for each in value.split("\n"))


def _harmless(value: Any, depth: int = 3) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth and isinstance(value, Mapping):
        items = list(value.items())[:MAX_ITEMS]
        return {
            _one_line(str(name), 200): HIDDEN
            if _SECRET_NAME.search(str(name).lower())
            else _harmless(each, depth - 1)
            for name, each in items
        }
    if depth and isinstance(value, list | tuple | set | frozenset):
        return [_harmless(each, depth - 1) for each in list(value)[:MAX_ITEMS]]
    return _one_line(value if isinstance(value, str) else str(value), MAX_CHARACTERS)


def _one_line(value: str, most: int) -> str:
    if len(value) > 4 * most:  # far more than is shown, so that no time is lost on the rest
        value = value[: 4 * most]
    value = _USER_INFO.sub(HIDDEN, value)
    value = _AUTHORIZATION.sub(rf"\1 {HIDDEN}", value)
    value = _ASSIGNED.sub(rf"\1\2{HIDDEN}", value)
    if not value.isprintable():
        value = "".join(each if each.isprintable() else _escaped(each) for each in value)
    return value if len(value) <= most else value[: most - 1] + "…"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


# Lines for people.

_PLAIN = re.compile(r"[^\s\"'=\\]+")


def text(logger: object, method: str, line: EventDict) -> str:
    """The line as text: time, level, event, then the values. A stack trace follows, indented, so that its
    lines cannot pass for others."""
    line = dict(line)
    stacks = [str(line.pop(name)) for name in _TRACES if line.get(name)]
    time, grade, event = (line.pop(name, "") for name in ("timestamp", "level", "event"))
    shown = " ".join(f"{name}={_quoted(value)}" for name, value in line.items())
    head = f"{str(time)[:19]}Z {grade:<7} {event} {shown}".rstrip()
    return head + "".join(f"\n    {each}" for stack in stacks for each in stack.splitlines())


def _quoted(value: Any) -> str:
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if _PLAIN.fullmatch(value):
        return value
    return '"' + value.replace('"', '\\"') + '"'


class _Output:
    """Writes each line at once. A full disk or a closed pipe costs lines, and never the program's work."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def msg(self, line: str) -> None:
        with _output_lock, suppress(OSError, ValueError):
            self._file.write(f"{line}\n")
            self._file.flush()

    debug = info = warning = error = critical = exception = msg


_output_lock = threading.Lock()


# Lines of others.


class _Libraries(logging.Handler):
    """Logs the lines of libraries as events."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log a line."""
        try:
            message = record.getMessage()
        except Exception as problem:  # its arguments do not fit: whose line it is still tells something
            message = f"{record.msg!r} ({problem!r})"
        about: dict[str, Any] = {"library": record.name, "message": message}
        if record.exc_info:
            about["exc_info"] = record.exc_info
        if record.levelno >= logging.ERROR:
            _log.error("library_message", **about)
        else:
            _log.warning("library_message", **about)


def _on_error(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, traceback)
        return
    _log.error("unhandled_error", exc_info=(kind, error, traceback))


def _on_thread_error(arguments: threading.ExceptHookArgs) -> None:
    if arguments.exc_value is None or isinstance(arguments.exc_value, SystemExit):
        return
    _log.error(
        "unhandled_error",
        thread=arguments.thread.name if arguments.thread else "",
        exc_info=(arguments.exc_type, arguments.exc_value, arguments.exc_traceback),
    )
