"""The gateway's log: JSON lines on standard error, from a level on that a client may change."""

from __future__ import annotations

import logging
import sys

import structlog

_LEVELS = {
    "TRACE": logging.DEBUG,  # Python's lowest
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "WARNING": logging.WARNING,
    "ERROR": logging.ERROR,
}


def set_level(name: str) -> None:
    """Sets the lowest level to log."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[name]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
