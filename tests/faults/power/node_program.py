"""The node, with one promise broken if it is told so: `node_program.py MUTANT [flags …]`, where `none` breaks
nothing.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from crawler_node import program
from crawler_node.leases.report import FinishedPage
from crawler_node.leases.reporter import Reporter
from crawler_node.output import rotation

NONE = "none"


def reports_before_the_sync() -> None:
    """What is told to the frontier is written, and not durable."""

    def at_once(reporter: Reporter, pages: list[FinishedPage]) -> list[FinishedPage]:
        return pages

    assert hasattr(Reporter, "_stored")
    setattr(Reporter, "_stored", at_once)  # noqa: B010  mypy: a method


def a_sync_is_tried_again() -> None:
    """After a sync that has failed the next one of the same file is believed."""

    def stubborn(descriptor: int) -> None:
        try:
            os.fsync(descriptor)
        except OSError:
            os.fsync(descriptor)

    vars(rotation)["os"] = SimpleNamespace(**{**vars(os), "fsync": stubborn})


MUTANTS: dict[str, Callable[[], None]] = {
    "pages are reported before they are synced": reports_before_the_sync,
    "a sync of an archive file that failed is tried again": a_sync_is_tried_again,
}
PROGRAM = str(Path(__file__))


if __name__ == "__main__":
    mutant = sys.argv.pop(1)
    if mutant != NONE:
        MUTANTS[mutant]()
    program.main()
