"""Deletes the rows of a crawl that is no longer visible, some of them at a time."""

from itertools import islice

from ..rows import keys
from ..rows.records import StateRow, encode
from ..rows.store import Family
from ..state.operation import Operation

ROWS_PER_SLICE = 500

# Deleted in this order: a crawl's own rows last, so that an interrupted deletion is found again.
_OF_A_CRAWL = (
    Family.SEEDS,
    Family.QUEUES,
    Family.PENDING,
    Family.SEEN,
    Family.KEPT_URIS,
    Family.INDEX,
    Family.LEASES,
    Family.EVENTS,
    Family.OUTCOMES,
    Family.JOBS,
    Family.IMPORTS,
    Family.FETCH_STATISTICS,
    Family.OVERRIDES,
    Family.OWN_HOSTS,
    Family.CRAWLS,
)


class CrawlDeletion:
    """The deletion of a crawl that is no longer visible.

    Its progress is stored, so that scans need not walk over deleted rows again.
    """

    def __init__(self, crawl: int, state: StateRow) -> None:
        self.crawl = crawl
        self._state = state

    def slice(self, op: Operation) -> bool:
        """Delete some rows; whether any may be left."""
        prefix, reached = keys.crawl_prefix(self.crawl), self._state.deleted_to
        place, after = (reached[0], reached[1:]) if reached else (0, b"")
        family = _OF_A_CRAWL[place]
        rows = list(islice(op.tx.scan(family, prefix + after, prefix), ROWS_PER_SLICE))
        for key, _ in rows:
            op.tx.delete(family, key)
        if family is _OF_A_CRAWL[-1]:
            return False  # its own few rows, the stored progress included
        if len(rows) < ROWS_PER_SLICE:
            self._state.deleted_to = bytes((place + 1,))
        else:
            self._state.deleted_to = bytes((place,)) + rows[-1][0][len(prefix) :]
        op.tx.put(Family.CRAWLS, keys.crawl_key(self.crawl, keys.CrawlRow.STATE), encode(self._state))
        return True
