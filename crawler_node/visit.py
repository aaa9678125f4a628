"""Visit: one lease and what came of it, as all that keep pages are given it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toehold.frontier.v1.frontier_pb2 import PURPOSE_PAGE, Lease

from .fetch import Fetch
from .links import Outlink


@dataclass(frozen=True, slots=True, eq=False)
class Visit:
    """A fetch, what it was for, and the links that were found. It ends with the fetch: keep nothing of it.

    `extra` is what the user's own function has to say about the page.
    """

    lease: Lease
    fetch: Fetch
    links: Sequence[Outlink] = ()
    extra: Mapping[str, object] | None = None

    @property
    def is_page(self) -> bool:
        """Whether a page was asked for and something answered; not a robots.txt."""
        return self.lease.purpose == PURPOSE_PAGE and self.fetch.status > 0

    @property
    def is_identical(self) -> bool:
        """Whether the whole body came, and is that of the last visit."""
        fetch = self.fetch
        return (
            fetch.body_bytes > 0
            and not fetch.truncation.value
            and bool(fetch.digest)
            and fetch.digest == self.lease.last_digest
        )


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of a visit that was to be stored."""

    epoch: int | None
    """The stretch between two failed syncs that it belongs to (see Archive); None if there was nothing to
    store."""
    notes: tuple[str, ...] = ()
    """Remarks for the crawl log."""
