"""The end of a parent process, as a child sees it: its standard input ends."""

import os
import threading
from collections.abc import Callable
from contextlib import suppress


def watch_parent(at_end: Callable[[], object]) -> None:
    """Calls `at_end` in another thread once standard input ends. One that cannot be read counts as ended."""

    def watch() -> None:
        with suppress(OSError):
            while os.read(0, 65536):
                continue
        at_end()

    threading.Thread(target=watch, name="stdin", daemon=True).start()
