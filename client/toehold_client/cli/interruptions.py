"""SIGINT, SIGTERM and SIGHUP as a count that a loop looks at, and waits that they cut short.

Nothing is raised: what the first signal means, and what the second, is the loop's own business.
"""

from __future__ import annotations

import os
import select
import signal
import time
from types import FrameType, TracebackType
from typing import Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruptions:
    """A context in which those signals are counted. Only for the main thread, as Python's signal handlers
    are.
    """

    def __init__(self) -> None:
        self.count = 0
        # A pipe, because an Event set by a handler can meet its own lock held by the code it interrupted.
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        os.set_blocking(self._write_end, False)
        self._before = {number: signal.getsignal(number) for number in _SIGNALS}

    def __enter__(self) -> Self:
        for number, handler in self._before.items():
            # Under nohup a hang-up is not meant for us.
            if number != signal.SIGHUP or handler != signal.SIG_IGN:
                signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._read_end)
        os.close(self._write_end)

    def wait(self, seconds: float, readable: int | None = None) -> bool:
        """Wait until a further signal comes, `readable` (a file descriptor) can be read, or the time is over.

        True if `readable` can be read.
        """
        deadline = time.monotonic() + seconds
        wanted = [self._read_end] if readable is None else [self._read_end, readable]
        ready, _, _ = select.select(wanted, [], [], max(0.0, deadline - time.monotonic()))
        if self._read_end in ready:
            os.read(self._read_end, 64)
        return readable in ready

    def interrupt_once(self) -> None:
        """Act as if a first signal had come, unless one has."""
        self.count = max(self.count, 1)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        try:
            os.write(self._write_end, b"\0")
        except BlockingIOError:
            return  # full: whoever waits is woken by what is already in it
