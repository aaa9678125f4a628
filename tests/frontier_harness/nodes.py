"""Crawler nodes, with the real program."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from frontier_harness.process import ServerProcess
from frontier_harness.waiting import PATIENCE_S


@contextmanager
def node_of(frontier: ServerProcess, *options: str) -> Iterator[None]:
    """A node at work within the block; it is asked to end, and awaited, after it."""
    command = (sys.executable, "-m", "crawler_node", "--frontier", frontier.address, *options)
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        try:
            yield
        finally:
            process.terminate()
            process.wait(PATIENCE_S)
