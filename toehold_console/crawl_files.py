"""The files of a crawl that are on this machine: WARC files, pages, logs and the report.

Only files that a listing names can be read, so no name leads anywhere else.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from toehold_client.watching.crawl_directory import frontier_data_of, report_of, shards_in

from .settings import Settings

MOST_FILES = 1_000
_COORDINATOR = "coordinator"  # of a frontier with several shards: it has the job.log of all
_OUTPUT = ("warcs", "pages")


class CrawlFile(NamedTuple):
    """A file that a browser may read."""

    folder: str
    name: str
    path: Path
    size: int
    changed_s: float


class CrawlFiles:
    """The files of crawls."""

    def __init__(self, settings: Settings) -> None:
        directory = settings.directory
        self._directory = directory
        self._data = settings.data if directory is None else frontier_data_of(directory)

    @property
    def are_here(self) -> bool:
        """Whether any files of crawls may be here."""
        return self._data is not None

    def of(self, crawl: str) -> list[CrawlFile]:
        """The files of a crawl that exists: report and logs first, then the latest."""
        found = list(self._logs(crawl))
        if self._directory is not None:
            found = [*_listed("", [report_of(self._directory)]), *found]
            for folder in _OUTPUT:
                paths = (self._directory / folder).glob("[!.]*")
                files = list(_listed(folder, sorted(path for path in paths if _is_of(path.name, crawl))))
                found += sorted(files, key=lambda file: (-file.changed_s, file.name))
        return found[:MOST_FILES]

    def named(self, crawl: str, folder: str, name: str) -> CrawlFile | None:
        """The file of this name; None if a crawl has none."""
        return next((file for file in self.of(crawl) if (file.folder, file.name) == (folder, name)), None)

    def _logs(self, crawl: str) -> Iterator[CrawlFile]:
        if self._data is not None:
            for part in shards_in(self._data):
                folder = "logs" if part == self._data else part.name
                yield from _listed(folder, [part / "crawls" / crawl / "crawl.log"])
            coordinator = self._data / _COORDINATOR
            whole = coordinator if coordinator.is_dir() else self._data
            yield from _listed("logs", [whole / "crawls" / crawl / "job.log"])


def _is_of(name: str, crawl: str) -> bool:
    """Whether a node's file may be one of a crawl: its name says so, or, as an older node's, names none."""
    its = rf".+-{re.escape(crawl)}-[0-9]{{17}}-.*"
    return re.fullmatch(its, name) is not None or re.match(r"toehold-[0-9]{17}-", name) is not None


def _listed(folder: str, paths: list[Path]) -> Iterator[CrawlFile]:
    for path in paths:
        try:
            found = path.lstat()
        except OSError:
            continue
        if path.is_file() and not path.is_symlink():
            yield CrawlFile(folder or "crawl", path.name, path, found.st_size, found.st_mtime)
