"""The gateway's log level, in URLFrontier's names."""

from __future__ import annotations

from toehold_base.observability import logs

_LEVELS = {"TRACE": "debug", "DEBUG": "debug", "INFO": "info", "WARN": "warning", "ERROR": "error"}


def set_level(name: str) -> None:
    """Sets the lowest level to log, as a client asks for it."""
    logs.change_level(_LEVELS[name])
