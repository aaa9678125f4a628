"""Removes rows of hosts and robots.txt files that no crawl needs any more, little by little.

They belong to no crawl, so no crawl's end removes them.
"""

from itertools import islice

from ..robotstxt.robots_table import RobotsTable
from ..rows.records import HostRow, RobotsRow, decode
from ..rows.store import Family
from ..spec.settings import DAY_MS
from ..state.host import Hosts
from ..state.operation import Operation

EVERY_MS = DAY_MS // 4
KEPT_MS = 7 * DAY_MS  # after a host's rest, and after the last use of a robots.txt
ROWS_PER_SLICE = 500
_FAMILIES = (Family.HOSTS, Family.ROBOTS)


class Housekeeping:
    """Goes through both families every few hours, in slices. Starts over with the server."""

    def __init__(self, hosts: Hosts, robots: RobotsTable, now_ms: int) -> None:
        self._hosts = hosts
        self._robots = robots
        self._due_ms = now_ms + EVERY_MS
        self._place: tuple[int, bytes] | None = None  # the family and key that it has come to

    def wanted(self, now_ms: int) -> bool:
        """Whether there is a slice to do."""
        return self._place is not None or now_ms >= self._due_ms

    def slice(self, op: Operation, longest_validity_ms: int) -> None:
        """Delete those of the next rows that nobody needs.

        A robots.txt is needed for twice its longest validity, since a good copy counts while later
        fetches fail (RFC 9309, 2.3.1.4).
        """
        number, after = self._place or (0, b"")
        family = _FAMILIES[number]
        rows = list(islice(op.tx.scan(family, after, b""), ROWS_PER_SLICE))
        for key, value in rows:
            if family is Family.HOSTS:
                self._consider_host(op, key, value)
            else:
                self._consider_robots(op, key, value, max(KEPT_MS, 2 * longest_validity_ms))
        if len(rows) == ROWS_PER_SLICE:
            self._place = number, rows[-1][0] + b"\0"
        elif number + 1 < len(_FAMILIES):
            self._place = number + 1, b""
        else:
            self._place, self._due_ms = None, op.now_ms + EVERY_MS

    def _consider_host(self, op: Operation, key: bytes, value: bytes) -> None:
        row = decode(HostRow, value)
        if row.next_allowed_ms + KEPT_MS <= op.now_ms and self._hosts.drop(key[8:].decode()):
            op.tx.delete(Family.HOSTS, key)

    def _consider_robots(self, op: Operation, key: bytes, value: bytes, kept_ms: int) -> None:
        row = decode(RobotsRow, value)
        if max(row.report_ms, row.fetch_ms, row.expire_ms) + kept_ms <= op.now_ms:
            self._robots.drop(key)
            op.tx.delete(Family.ROBOTS, key)
