"""The gateway's log: its level, in URLFrontier's names, and what it says of the frontier."""

import structlog

from toehold_base.observability import logs
from toehold_client.errors import ToeholdError
from toehold_client.worker.contact import ContactLog

_log = structlog.get_logger()

_LEVELS = {"TRACE": "debug", "DEBUG": "debug", "INFO": "info", "WARN": "warning", "ERROR": "error"}


def set_level(name: str) -> None:
    """Sets the lowest level to log, as a client asks for it."""
    logs.change_level(_LEVELS[name])


class FrontierLog(ContactLog):
    """What the gateway's log says of the frontier."""

    def lost(self, error: ToeholdError) -> None:
        _log.warning("frontier_lost", error=str(error), request_id=error.request_id)

    def back(self, silent_s: float) -> None:
        _log.info("frontier_back", silent_s=round(silent_s, 1))

    def denied(self, error: ToeholdError) -> None:
        _log.error("calls_denied", error=str(error))

    def allowed(self) -> None:
        _log.info("calls_allowed")
