"""Visit: one lease and what came of it, as all that keep pages are given it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from toehold.frontier.v1.frontier_pb2 import PURPOSE_PAGE, Lease

from ..extraction.links import Outlink
from ..fetching.fetch import Fetch
from .content import Content


@dataclass(eq=False)
class Visit:
    """A fetch, what it was for, and the links that were found. It ends with the fetch: keep nothing of it."""

    lease: Lease
    fetch: Fetch
    links: Sequence[Outlink] = ()
    extra: str = ""
    """What the user's own function says of the page, as JSON; set when it was asked."""

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

    @cached_property
    def content(self) -> Content:
        """What the page says."""
        return Content(self.fetch)


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of a visit that was to be stored."""

    epoch: int | None
    """The stretch between two failed syncs that it belongs to (see Archive); None if there was nothing to
    store."""
    notes: tuple[str, ...] = ()
    """Remarks for the crawl log."""
