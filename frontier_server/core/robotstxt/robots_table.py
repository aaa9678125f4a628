"""The robots.txt rows of all authorities; recently used rules stay parsed in memory.

A caller who may act on some crawls only must not decide what others fetch. So an answer that it reports
counts for its crawl alone, in a row of its own. The later of the two rows counts for that crawl.
"""

from collections import OrderedDict

from ..rows.keys import own_robots_key
from ..rows.records import RobotsRow, decode, encode
from ..rows.store import Family, Transaction
from ..spec.settings import CrawlSettings
from .authority import Gate, as_seen, standing
from .robots import Rules

MAX_IN_MEMORY = 20_000  # authorities, with or without a row: the hosts of new links come again and again
MAX_CHARACTERS = 16 * 1024 * 1024  # of rules; parsed ones take several times as much


class RobotsTable:
    """Rows by key; the least recently used ones are dropped from memory."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, tuple[RobotsRow | None, Rules | None]] = OrderedDict()
        self._size = 0  # characters of rules

    def row(self, tx: Transaction, key: bytes) -> RobotsRow | None:
        """The row of an authority; None if its robots.txt was never asked for."""
        known = self._known.get(key)
        if known is None:
            value = tx.get(Family.ROBOTS, key)
            known = (as_seen(decode(RobotsRow, value)) if value else None, None)
            self._remember(key, *known)
        else:
            self._known.move_to_end(key)
        return known[0]

    def key_for(self, tx: Transaction, shared: bytes, crawl: int, bound: bool) -> bytes:
        """The key of the row that counts for a crawl: the one that all share, or its own if that is later.

        `bound` says whether the crawl may have rows of its own.
        """
        if not bound:
            return shared
        own = own_robots_key(shared, crawl)
        mine, all_have = self.row(tx, own), self.row(tx, shared)
        if mine is None or (all_have is not None and all_have.fetch_ms > mine.fetch_ms):
            return shared
        return own

    def rules(self, tx: Transaction, key: bytes) -> Rules:
        """The rules of an authority that has a row."""
        _, rules = self._known.get(key) or (None, None)
        if rules is None:
            row = self.row(tx, key)
            rules = Rules(row.rules if row else "")
            self._remember(key, row, rules)
        else:
            self._known.move_to_end(key)
        return rules

    def crawl_delay_ms(self, tx: Transaction, key: bytes, settings: CrawlSettings) -> int:
        """The Crawl-delay of an authority that a crawl with these settings heeds."""
        return 0 if settings.robots.ignored else self.rules(tx, key).crawl_delay_ms

    def put(self, tx: Transaction, key: bytes, row: RobotsRow) -> None:
        """Store a row."""
        tx.put(Family.ROBOTS, key, encode(row))
        self._remember(key, row, None)

    def drop(self, key: bytes) -> None:
        """Forget a deleted row."""
        row, _ = self._known.pop(key, (None, None))
        self._size -= len(row.rules) if row else 0

    def _remember(self, key: bytes, row: RobotsRow | None, rules: Rules | None) -> None:
        before, _ = self._known.get(key, (None, None))
        self._size += (len(row.rules) if row else 0) - (len(before.rules) if before else 0)
        self._known[key] = (row, rules)
        self._known.move_to_end(key)
        while len(self._known) > 1 and (len(self._known) > MAX_IN_MEMORY or self._size > MAX_CHARACTERS):
            _, (dropped, _) = self._known.popitem(last=False)
            self._size -= len(dropped.rules) if dropped else 0

    def valid_rules(self, tx: Transaction, key: bytes, settings: CrawlSettings, now_ms: int) -> Rules | None:
        """The rules of an authority, if they are known and valid, and the crawl heeds them."""
        if settings.robots.ignored:
            return None
        row = self.row(tx, key)
        if row is None or standing(row, now_ms, settings.robots).gate is not Gate.OPEN:
            return None
        return self.rules(tx, key)
