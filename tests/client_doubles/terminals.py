"""A terminal as a test sees it: what programs have written to it."""

import os
import time

from frontier_harness.waiting import PATIENCE_S


def read_until(terminal: int, words: str) -> str:
    """The output on a terminal, up to these words and some more."""
    return _read(terminal, words)


def read_all(terminal: int) -> str:
    """The output on a terminal until its last writer closes it; then this closes it."""
    content = _read(terminal, None)
    os.close(terminal)
    return content


def _read(terminal: int, words: str | None) -> str:
    until_s = time.monotonic() + PATIENCE_S
    content = b""
    while time.monotonic() < until_s and (words is None or words.encode() not in content):
        try:
            content += os.read(terminal, 65_536)
        except OSError:  # EIO: nobody writes any more
            break
    return content.decode(errors="replace")
