"""Small shares of work, and little memory, in a web of a few hosts: jobs have several slices, some queues
sleep on disk, and what memory keeps is soon let go of.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from frontier_server.core.jobs import deletion, importing, restoring, steering, verification, work
from frontier_server.core.state import crawl, ledger, operation, origin, read_ahead, seeds

SHARES = (
    (seeds, "SEEDS_PER_SLICE", 3),
    (deletion, "URIS_PER_SLICE", 3),
    (steering, "QUEUES_PER_SLICE", 2),
    (importing, "ROWS_PER_SLICE", 2),
    (restoring, "ROWS_PER_SLICE", 3),
    (verification, "ROWS_PER_SLICE", 4),
    (verification, "QUEUES_PER_SLICE", 2),
    (operation, "MAX_SNOOZED_IN_MEMORY", 2),
    (work, "QUEUES_PER_SLICE", 2),
    (read_ahead, "READ_AHEAD", 2),
    (ledger, "MAX_KEPT_BYTES", 80),
    (crawl, "MAX_STATISTICS", 2),
    (crawl, "MAX_UNLOGGED", 3),
    (origin, "MAX_KNOWN", 3),
)


@contextmanager
def small_shares() -> Iterator[None]:
    """Inside, both are small."""
    with ExitStack() as stack:
        for module, name, share in SHARES:
            stack.enter_context(patch.object(module, name, share))
        yield
