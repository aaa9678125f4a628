"""How the node of `toehold crawl` runs, and where its pages go.

The frontier does not know any of this, so it may change from run to run of a crawl.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from toehold_cli.exits import BadPlan

DEFAULT_TOES = 16
"""How many URIs are fetched at once, at most."""

MOST_PROCESSES = 64
TOES_A_PROCESS = 4
"""A process costs memory and a second to start, which pays only from this many toes on."""


def usual_processes(toes: int, hook: str | None, max_bytes_per_second: int | None) -> int | None:
    """The default number of processes that share the toes: one per processor and TOES_A_PROCESS toes.

    None is one process, without a supervisor. That is also the default with a hook, which may need all pages
    in one process, and with a rate limit, which processes would divide even if the crawl has only one host.
    """
    if hook is not None or max_bytes_per_second is not None:
        return None
    most = min(_processors(), toes // TOES_A_PROCESS, MOST_PROCESSES)
    return most if most > 1 else None


def _processors() -> int:
    """How many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # systems that bind no process to processors
        return os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class NodePlan:
    """Options for a crawl's node, under their names on the command line."""

    toes: int = DEFAULT_TOES
    processes: int | None = None
    """None: one, without a supervisor."""
    warc: bool = True
    warc_metadata: str | None = None
    """None, here and below, leaves the node's default."""
    gzip_level: int | None = None
    pages: bool = False
    pages_text: str | None = None
    mirror: bool = False
    hook: str | None = None
    file_prefix: str | None = None
    max_file_mib: int | None = None
    max_file_hours: float | None = None
    max_bytes_per_second: int | None = None
    resolve: tuple[str, ...] = ()
    """HOST:PORT:ADDR."""
    ca_file: Path | None = None

    def check(self) -> None:
        """BadPlan for options that contradict each other. The node checks all other rules itself."""
        if not (self.warc or self.pages or self.mirror or self.hook):
            raise BadPlan("--no-warc needs --pages, --mirror or --hook, or pages would be lost")
        if self.warc_metadata is not None and not self.warc:
            raise BadPlan("--warc-metadata needs WARC files; remove --no-warc")
        if self.gzip_level is not None and not self.warc:
            raise BadPlan("--gzip-level needs WARC files; remove --no-warc")
        if not (self.warc or self.pages):
            for option, value in self._of_files().items():
                if value is not None:
                    raise BadPlan(f"{option} needs WARC files or --pages; remove it, or --no-warc")
        if self.pages_text is not None and not self.pages:
            raise BadPlan("--pages-text needs --pages")

    def arguments(self, warcs: Path, pages: Path, mirror: Path, logs: Path) -> Iterator[str]:
        """The same as arguments for the node's command line, with the directories for its files."""
        yield from ("--toes", str(self.toes), "--logs", str(logs))
        if self.warc:
            yield from ("--warc", str(warcs))
        if self.pages:
            yield from ("--pages", str(pages))
        if self.mirror:
            yield from ("--mirror", str(mirror))
        said = {
            "--processes": self.processes,
            "--warc-metadata": self.warc_metadata,
            "--gzip-level": self.gzip_level,
            "--pages-text": self.pages_text,
            "--hook": self.hook,
            **self._of_files(),
            "--max-bytes-per-second": self.max_bytes_per_second,
            "--ca-file": self.ca_file,
        }
        for option, value in said.items():
            if value is not None:
                yield from (option, str(value))
        for entry in self.resolve:
            yield from ("--resolve", entry)

    def _of_files(self) -> dict[str, str | int | float | None]:
        """The options of files that hold many pages."""
        return {
            "--file-prefix": self.file_prefix,
            "--max-file-mib": self.max_file_mib,
            "--max-file-hours": self.max_file_hours,
        }
