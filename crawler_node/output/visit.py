"""PageVisit: one lease and its fetch, as all that keep pages get it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from toehold.frontier.v1.frontier_pb2 import PURPOSE_PAGE, Lease

from ..extraction.links import Outlink
from ..fetching.fetch import NO_PROVENANCE, FetchResult, Provenance
from .content import Content


@dataclass(eq=False)
class PageVisit:
    """A fetch, its lease, and the links that were found. It ends with the fetch, so keep no part of it."""

    lease: Lease
    fetch: FetchResult
    links: Sequence[Outlink] = ()
    extra: str = ""
    """The value of the user's own function for the page, as JSON; empty before it was called."""
    provenance: Provenance = NO_PROVENANCE
    """Whose fetch it is, beside the name of the crawl."""

    @property
    def is_page(self) -> bool:
        """Whether it is a page, and not a robots.txt, and was answered."""
        return self.lease.purpose == PURPOSE_PAGE and self.fetch.status > 0

    @property
    def is_identical(self) -> bool:
        """Whether the body is whole, and is that of the last visit."""
        fetch = self.fetch
        return (
            fetch.body_bytes > 0
            and not fetch.truncation.value
            and bool(fetch.digest)
            and fetch.digest == self.lease.last_digest
        )

    @property
    def is_revisit(self) -> bool:
        """Whether it is enough to refer to the record of an earlier visit, which archives the page as it is
        now. A redirect is stored again: its body is short, and pywb would leave it out.
        """
        if not self.lease.HasField("capture_time"):
            return False
        return self.fetch.unchanged or (self.is_identical and not 300 <= self.fetch.status < 400)

    @cached_property
    def content(self) -> Content:
        return Content(self.fetch)


@dataclass(frozen=True, slots=True)
class Stored:
    """The outcome of storing a visit."""

    epoch: int | None
    """The stretch between two failed syncs that it belongs to (see Archive); None if there was nothing to
    store."""
    notes: tuple[str, ...] = ()
    """Annotations for the crawl log."""
    captured: bool = False
    """Whether a record archives the answer whole, so that later visits can refer to it."""
