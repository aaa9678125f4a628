"""The process that started this one: its end, and its word, come by standard input; what it is told goes to
standard output."""

import os
import threading
from collections.abc import Callable, MutableMapping
from contextlib import suppress

from toehold_base.process.service_manager import ServiceManager

BEAT_S = "TOEHOLD_BEAT_SECONDS"
"""The environment variable with how often a supervisor wants to hear that its process is alive."""


def watch_parent(at_end: Callable[[], object], at_word: Callable[[], object] = lambda: None) -> None:
    """Calls `at_end`, in a thread, when standard input ends, as it does when its other side dies in whatever
    way; and `at_word` when something comes by it."""

    def watch() -> None:
        with suppress(OSError):  # an unreadable standard input counts as ended
            while os.read(0, 65536):
                at_word()
        at_end()

    threading.Thread(target=watch, name="stdin", daemon=True).start()


class Parent(ServiceManager):
    """The process that started this one, a supervisor. It is told by lines on standard output, a pipe, in the
    words of sd_notify(3)."""

    @classmethod
    def of_process(cls, environment: MutableMapping[str, str] = os.environ) -> "Parent":
        """The one that started this process. What it set leaves the environment."""
        os.set_blocking(1, False)
        return cls("standard output", 3 * float(environment.pop(BEAT_S, "0")))

    def _tell(self, *lines: str) -> None:
        with suppress(OSError):  # it has not read for hours, or is gone, and then this process ends, too
            os.write(1, "".join(f"{line}\n" for line in lines).encode())
