"""Page: what a toe hands to the reporter when it is done with a lease."""

from collections.abc import Sequence
from dataclasses import dataclass

from toehold.frontier.v1.frontier_pb2 import Report

from ..extraction.links import Outlink
from .book import Held

_LINK_OVERHEAD_BYTES = 150  # the objects that an Outlink is made of


@dataclass(frozen=True, slots=True, eq=False)
class Page:
    """A lease that is done with: fetched, failed, or handed back.

    `stored_in` is what Archive.append answered; None when nothing was stored for it.
    """

    held: Held
    report: Report
    links: Sequence[Outlink] = ()
    stored_in: int | None = None

    @property
    def size_bytes(self) -> int:
        """The memory that it takes while it waits, about."""
        return sum(len(link.uri) + _LINK_OVERHEAD_BYTES for link in self.links) + len(self.report.robots_body)
