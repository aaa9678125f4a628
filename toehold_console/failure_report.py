"""The failures of a crawl, read from the outcomes that the frontier keeps, and read on at each question."""

import threading
from typing import Any

from toehold_client.controller import CrawlController
from toehold_client.errors import CursorTooOld
from toehold_client.watching.failures import Failures

MOST_GROUPS = 200


class FailureReport:
    """Reads outcomes, each once."""

    def __init__(self, crawl: CrawlController) -> None:
        self._crawl = crawl
        self._lock = threading.Lock()
        self._failures = Failures()
        self._cursor = "start"

    def record(self) -> dict[str, Any]:
        """The failures now, for a page. Takes a while at first; call it in a thread."""
        with self._lock:
            try:
                self._read()
            except CursorTooOld:  # more has happened meanwhile than is kept
                self._failures, self._cursor = Failures(), "start"
                self._read()
            groups = self._failures.groups()
            return {
                "uri_count": len(self._failures),
                "host_count": self._failures.host_count,
                "groups": [
                    {
                        "host": failure.host,
                        "fetch_status": failure.fetch_status,
                        "why": str(failure),
                        "uri_count": number,
                        "examples": list(examples),
                    }
                    for failure, number, examples in groups[:MOST_GROUPS]
                ],
                "left_out": max(len(groups) - MOST_GROUPS, 0),
            }

    def _read(self) -> None:
        for outcome in self._crawl.outcomes(self._cursor):
            self._failures.note(outcome)
            self._cursor = outcome.cursor
