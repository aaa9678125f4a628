"""Records which session has a node's name: the one that was accepted last, also across restarts.

A process that hung may come back after another session has taken its name. It is refused while the name is
remembered: until the name is unused for a month, or MAX_NAMES others were used since.
"""

from collections import OrderedDict

from ..rows.errors import SessionSuperseded
from ..rows.keys import SERVER, CrawlRow, crawl_key
from ..rows.records import SessionRow, decode, encode
from ..rows.store import Family, Store, Transaction
from ..spec.settings import DAY_MS
from ..uri.assign import hash64

MAX_NAMES = 10_000
SUPERSEDED_KEPT = 64  # sessions of a name
EXPIRE_MS = 30 * DAY_MS
REFRESH_MS = 60_000  # how often the time that a name was last seen is stored
FORGOTTEN_PER_CALL = 100
PREFIX = crawl_key(SERVER, CrawlRow.SESSION)


class Sessions:
    """The names of nodes with their sessions; the name that was last seen longest ago comes first. Stored."""

    def __init__(self, store: Store) -> None:
        found = [
            (key[len(PREFIX) :].decode(), decode(SessionRow, value))
            for key, value in store.scan(Family.CRAWLS, PREFIX, PREFIX)
        ]
        self._rows = OrderedDict(sorted(found, key=lambda each: each[1].last_seen_ms))

    def of(self, name: str) -> str | None:
        """The session that has a name, if it is known."""
        row = self._rows.get(name)
        return row.session if row is not None else None

    def listed(self, now_ms: int) -> list[tuple[str, SessionRow]]:
        """The names that were seen within a day and are not forgotten; the one last seen comes last."""
        return [
            (name, row)
            for name, row in self._rows.items()
            if now_ms < row.last_seen_ms + DAY_MS and not row.forgotten
        ]

    def check(self, name: str, session: str) -> None:
        """Raise SessionSuperseded if another session has replaced this one."""
        row = self._rows.get(name)
        if row is not None and row.session != session and hash64(session) in row.superseded:
            raise SessionSuperseded(
                f"another process now has the node name {name!r}; give each process its own name", node=name
            )

    def accept(self, tx: Transaction, name: str, session: str, now_ms: int) -> None:
        """Give a name to a session. Raises SessionSuperseded if another session has replaced it."""
        self.check(name, session)
        row = self._rows.get(name)
        if row is None:
            row = self._rows[name] = SessionRow(session, now_ms)
        elif row.session != session:
            row.superseded = [*row.superseded, hash64(row.session)][-SUPERSEDED_KEPT:]
            row.session, row.last_seen_ms = session, now_ms
        elif now_ms >= row.last_seen_ms + REFRESH_MS or row.left or row.forgotten:
            row.last_seen_ms = now_ms
        else:
            self._rows.move_to_end(name)
            return
        row.left = row.forgotten = False
        self._rows.move_to_end(name)
        self._put(tx, name)
        self._forget(tx, now_ms)

    def record_left(self, tx: Transaction, name: str, now_ms: int) -> None:
        """Note that the session of a name has said goodbye."""
        row = self._rows[name]
        row.left, row.last_seen_ms = True, now_ms
        self._put(tx, name)

    def hide(self, tx: Transaction, name: str) -> None:
        """Leave a name out of listings until it is seen again. Its sessions stay known."""
        row = self._rows.get(name)
        if row is not None:
            row.forgotten = True
            self._put(tx, name)

    def _put(self, tx: Transaction, name: str) -> None:
        tx.put(Family.CRAWLS, _key(name), encode(self._rows[name]))

    def _forget(self, tx: Transaction, now_ms: int) -> None:
        """Forget some of the names that have expired or exceed MAX_NAMES."""
        for _ in range(FORGOTTEN_PER_CALL):
            name, row = next(iter(self._rows.items()))
            if len(self._rows) <= MAX_NAMES and now_ms < row.last_seen_ms + EXPIRE_MS:
                return
            del self._rows[name]
            tx.delete(Family.CRAWLS, _key(name))


def _key(name: str) -> bytes:
    return PREFIX + name.encode()
