"""A hook that does with some pages what no page should be able to do to a node."""

import os
import re
import time

from crawler_node.output.hook import HookPage


def page(page: HookPage) -> None:
    """Stays at a page for ever, in Python or in C, takes all memory, or ends the thread or the process."""
    if page.url.endswith("/loop-in-python"):
        while True:
            time.sleep(0)
    if page.url.endswith("/loop-in-c"):
        re.match(r"(?:a|a?)+$", "a" * 60 + "b")  # holds the interpreter's lock for longer than anybody lives
    if page.url.endswith("/ends-the-thread"):
        raise KeyboardInterrupt
    if page.url.endswith("/out-of-memory"):
        bytearray(1 << 62)
    if page.url.endswith("/ends-the-process"):
        os.abort()
