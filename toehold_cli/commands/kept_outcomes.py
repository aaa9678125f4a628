"""The outcomes that a frontier keeps, for reports that are made of them."""

from collections.abc import Iterator

from toehold.frontier.v1.admin_pb2 import UriOutcome
from toehold_cli import output
from toehold_client.controller import CrawlController
from toehold_client.text import count_text
from toehold_client.watching.failures import is_robots


class KeptOutcomes:
    """The outcomes of a crawl that the frontier keeps, the oldest first. To be read once."""

    def __init__(self, crawl: CrawlController) -> None:
        self._crawl = crawl
        counts = crawl.statistics().statistics
        self._finished = counts.succeeded_count + counts.failed_count + counts.disregarded_count
        self._seen = 0

    def __iter__(self) -> Iterator[UriOutcome]:
        for outcome in self._crawl.outcomes():
            self._seen += not is_robots(outcome)
            yield outcome

    def tell_gap(self) -> None:
        """Once they are read: tells people if earlier ones are missing."""
        if self._seen < self._finished:
            seen = count_text(self._seen)
            output.note(f"This covers only the latest {seen} outcomes (outcomes_kept). crawl.log has all.")
