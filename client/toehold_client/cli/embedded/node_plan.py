"""How the node of an embedded crawl runs, and what becomes of the pages that it fetches.

Nothing of it is the frontier's business, so all of it may differ from run to run of a crawl.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from toehold_client.cli.exits import BadPlan

DEFAULT_TOES = 16
"""How many URIs are fetched at once, at most."""

MOST_PROCESSES = 64
TOES_A_PROCESS = 4
"""Fewer toes than these are not worth a process: its memory, and the second that it takes to start."""


def usual_processes(toes: int, hook: str | None, max_bytes_per_second: int | None) -> int | None:
    """How many processes share the toes if nobody says so: one for each processor that has TOES_A_PROCESS.

    None, for one that nobody watches over, where that makes one; with a hook, which may count on having all
    pages in one process; and with a bound of bytes, of which each process would have a share, even if the
    crawl has one host.
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
    """What a crawl's node is told beside where its frontier is. Each part is named as its option is."""

    toes: int = DEFAULT_TOES
    processes: int | None = None
    """None: one, which nobody watches over but this run."""
    warc: bool = True
    warc_metadata: str | None = None
    """This and whatever else is None: as a node does by itself."""
    pages: bool = False
    pages_text: str | None = None
    hook: str | None = None
    max_bytes_per_second: int | None = None
    resolve: tuple[str, ...] = ()
    """HOST:PORT:ADDR."""
    ca_file: Path | None = None

    def check(self) -> None:
        """BadPlan for options that contradict each other. What else makes no sense the node tells itself."""
        if not (self.warc or self.pages or self.hook):
            raise BadPlan("With --no-warc pages would go nowhere: give --pages or --hook.")
        if self.warc_metadata is not None and not self.warc:
            raise BadPlan("--warc-metadata is about the files that --no-warc leaves out.")
        if self.pages_text is not None and not self.pages:
            raise BadPlan("--pages-text is about the files that --pages writes: give that, too.")

    def arguments(self, warcs: Path, pages: Path, logs: Path) -> Iterator[str]:
        """What the node's command line says of it, and where its files go."""
        yield from ("--toes", str(self.toes), "--logs", str(logs))
        if self.warc:
            yield from ("--warc", str(warcs))
        if self.pages:
            yield from ("--pages", str(pages))
        said = {
            "--processes": self.processes,
            "--warc-metadata": self.warc_metadata,
            "--pages-text": self.pages_text,
            "--hook": self.hook,
            "--max-bytes-per-second": self.max_bytes_per_second,
            "--ca-file": self.ca_file,
        }
        for option, value in said.items():
            if value is not None:
                yield from (option, str(value))
        for entry in self.resolve:
            yield from ("--resolve", entry)
