"""A bell that one thread waits for, and that other threads and signal handlers ring."""

from __future__ import annotations

import os
import select


class Bell:
    """Rung once or often since the last wait, it is heard once."""

    def __init__(self) -> None:
        # A pipe, because an Event set by a handler can meet its own lock held by the code it interrupted.
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        os.set_blocking(self._write_end, False)

    def ring(self) -> None:
        """Ends the present wait, or else the next one."""
        try:
            os.write(self._write_end, b"\0")
        except BlockingIOError:
            return  # full: it has been rung

    def wait(self, seconds: float) -> bool:
        """Waits so long at most; whether it was rung."""
        rung, _, _ = select.select([self._read_end], [], [], seconds)
        if rung:
            os.read(self._read_end, 65_536)
        return bool(rung)

    def close(self) -> None:
        """Lets go of it; nobody may ring or wait any more."""
        os.close(self._read_end)
        os.close(self._write_end)
