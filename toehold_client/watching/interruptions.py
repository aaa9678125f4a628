"""Two ways to wake a waiting thread: a bell that others ring, and a count of SIGINT, SIGTERM and SIGHUP.

Signals raise no exception. The waiting loop decides what the first and the second signal mean.
"""

import os
import select
import signal
from types import FrameType
from typing import Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Bell:
    """A bell that threads and signal handlers ring, and that one thread waits for. Rung once or often, it is
    heard once. A context; nobody may ring it afterwards.
    """

    def __init__(self) -> None:
        # A pipe, because an Event set by a handler can meet its own lock held by the code it interrupted.
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        os.set_blocking(self._write_end, False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._read_end)
        os.close(self._write_end)

    def fileno(self) -> int:
        """A file descriptor that can be read when it has been rung."""
        return self._read_end

    def ring(self) -> None:
        try:
            os.write(self._write_end, b"\0")
        except BlockingIOError:
            return  # full: it has been rung

    def silence(self) -> None:
        """Lets it be quiet until it is rung again."""
        try:
            os.read(self._read_end, 65_536)
        except BlockingIOError:
            return  # it was


class Interruptions:
    """A context in which those signals are counted. Only for the main thread, as Python's signal handlers
    are.
    """

    def __init__(self) -> None:
        self.count = 0
        self._bell = Bell()
        self._before = {number: signal.getsignal(number) for number in _SIGNALS}

    def __enter__(self) -> Self:
        for number, handler in self._before.items():
            # nohup asks us to ignore SIGHUP.
            if number != signal.SIGHUP or handler != signal.SIG_IGN:
                signal.signal(number, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._bell.__exit__(*error)

    def wait(self, seconds: float, readable: int | None = None) -> bool:
        """Waits for a further signal, for `readable` (a file descriptor), or until the time is over.

        True if `readable` can be read.
        """
        wanted = [self._bell.fileno()] if readable is None else [self._bell.fileno(), readable]
        ready, _, _ = select.select(wanted, [], [], seconds)
        if self._bell.fileno() in ready:
            self._bell.silence()
        return readable in ready

    def interrupt_once(self) -> None:
        """Acts as if a first signal had come, unless one has."""
        self.count = max(self.count, 1)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        self._bell.ring()
