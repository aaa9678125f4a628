"""A reporter whose frontier and WARC writer are not real."""

from pathlib import Path
from typing import Any

from node_doubles.client import FakeClient
from node_doubles.leases import held, lease
from node_doubles.stages import FakeWriter, page

from crawler_node.extraction.links import Hop, Outlink
from crawler_node.leases.book import LeaseBook
from crawler_node.leases.report import FinishedPage, fetched
from crawler_node.leases.reporter import Reporter
from crawler_node.output.archive import Archive
from crawler_node.output.visit import PageVisit


class Rig:
    """A reporter whose frontier and WARC writer are not real. Pages put before `report` are one batch."""

    def __init__(self, directory: Path) -> None:
        self.client = FakeClient()
        self.writer = FakeWriter(directory)
        self.archive = Archive([self.writer])
        self.book = LeaseBook()
        self.book.resize(100)
        self.reporter = Reporter(self.client.as_frontier(), self.book, self.archive)

    def page(
        self,
        uri: str,
        *links: str,
        crawl: str = "crawl",
        path: str = "",
        status: int = 200,
        source: str = "",
        versions: tuple[bytes, bytes] = (b"", b""),
    ) -> FinishedPage:
        """A page that was fetched and stored. A link `R:…` is a redirect."""
        fetch = page(uri, status)
        (one,) = held(self.book, lease(uri, crawl=crawl, path=path, source=source, versions=versions))
        stored_in = self.archive.append(PageVisit(one.lease, fetch)).epoch
        self.book.done(one)
        outlinks = [
            Outlink(link.removeprefix("R:"), Hop.REDIRECT if link.startswith("R:") else Hop.LINK, "")
            for link in links
        ]
        return FinishedPage(one, fetched(one.lease, fetch, 1), outlinks, stored_in)

    def put(self, uri: str, *links: str, **more: Any) -> FinishedPage:
        one = self.page(uri, *links, **more)
        self.reporter.put(one)
        return one

    def report(self) -> None:
        """Reports everything that was put, then starts anew."""
        self.reporter.finish()
        self.reporter.run()
        self.reporter._finishing = False

    def annotations(self) -> dict[str, list[str]]:
        return {report.token.decode(): list(report.annotations) for report in self.client.reports}
