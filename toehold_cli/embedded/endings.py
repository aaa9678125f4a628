"""How a crawl ended, in words, and what one can do then."""

from collections.abc import Mapping
from typing import Any

_LIMITS = {
    "FINISHED_DOCUMENT_LIMIT": ("limits.max_documents", "--max-pages"),
    "FINISHED_DATA_LIMIT": ("limits.max_bytes", ""),
    "FINISHED_TIME_LIMIT": ("limits.max_elapsed_seconds", "--max-time"),
}


def limit_of(exit_status: str) -> str:
    """The setting whose limit ended a crawl, as a spec file names it; empty if none did."""
    return _LIMITS.get(exit_status, ("", ""))[0]


def how_it_ended(report: Mapping[str, Any]) -> str:
    """From a report, in words that follow "the crawl": `ended at its limit, limits.max_documents = 7`."""
    limit = report.get("limit")
    exit_status = str(report.get("exit_status", ""))
    if isinstance(limit, dict):
        return f"ended at its limit, {limit.get('setting')} = {limit.get('value')}"
    if limit_of(exit_status):
        return f"ended at its limit, {limit_of(exit_status)}"
    if exit_status == "ABORTED":
        return "was stopped"
    return "has finished: nothing was left to fetch"


def how_to_extend(exit_status: str) -> str:
    """A sentence about the way to extend a crawl that a limit has ended; empty if none did."""
    setting, option = _LIMITS.get(exit_status, ("", ""))
    if not setting:
        return ""
    raised = f"a higher {option}" if option else f"a higher {setting} in --spec FILE"
    return f"To fetch more, run the same command with {raised}."
