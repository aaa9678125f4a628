"""A bell that threads and signal handlers ring, and that one thread waits for."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Self


class Bell:
    """Rung once or often, it is heard once. A context; nobody may ring it after that."""

    def __init__(self) -> None:
        # A pipe, because an Event set by a handler can meet its own lock held by the code it interrupted.
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        os.set_blocking(self._write_end, False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._read_end)
        os.close(self._write_end)

    def fileno(self) -> int:
        """A file descriptor that can be read when it has been rung."""
        return self._read_end

    def ring(self) -> None:
        """Rings it."""
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
