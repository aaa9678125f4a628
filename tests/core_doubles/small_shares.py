"""Small shares of work: jobs have several slices, and some queues sleep on disk, in a web of a few hosts."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from frontier_server.core import operation
from frontier_server.core.jobs import deletion, importing, seeding, steering, verification, work

SHARES = (
    (seeding, "SEEDS_PER_SLICE", 3),
    (deletion, "URIS_PER_SLICE", 3),
    (steering, "QUEUES_PER_SLICE", 2),
    (importing, "ROWS_PER_SLICE", 2),
    (verification, "ROWS_PER_SLICE", 4),
    (verification, "QUEUES_PER_SLICE", 2),
    (operation, "MAX_SNOOZED_IN_MEMORY", 2),
    (work, "QUEUES_PER_SLICE", 2),
)


@contextmanager
def small_shares() -> Iterator[None]:
    """Inside, shares are small."""
    with ExitStack() as stack:
        for module, name, share in SHARES:
            stack.enter_context(patch.object(module, name, share))
        yield
