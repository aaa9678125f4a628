"""A terminal with somebody at it: a pty whose foreground process group gets what is typed."""

import contextlib
import os
import pty
import termios
import threading
from typing import Self

from acceptance.programs import Program, Programs, script
from frontier_harness.divided import of_toehold
from frontier_harness.waiting import eventually

CTRL_C = b"\x03"
CTRL_Z = b"\x1a"
_MARK = b"\x1f"  # which no program writes


class Terminal:
    """A pty within a `with` block. What is written to it is read all the time, as a terminal does."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self._shown = b""
        self._master, self._slave = pty.openpty()
        self._reader = threading.Thread(target=self._read)

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._programs.clear_away()  # what still runs keeps the terminal open
        os.close(self._slave)
        self._reader.join()
        os.close(self._master)

    @property
    def shown(self) -> str:
        """What was read so far of all that was written to it."""
        return self._shown.replace(_MARK, b"").decode(errors="replace")

    def all_shown(self) -> str:
        """All that programs have written to it that have ended, or been stopped."""
        marks = self._shown.count(_MARK)
        os.write(self._slave, _MARK)  # behind all that
        eventually(lambda: self._shown.count(_MARK) > marks, "the last that was written to the terminal")
        return self.shown

    def toehold(self, *arguments: str) -> Program:
        """The command line tool, started here: this is its controlling terminal."""
        command = (script("toehold"), *of_toehold(arguments))
        return self._programs.start("at-terminal", *command, terminal=self._slave)

    def resize(self, columns: int, lines: int) -> None:
        """Gives it another size, and tells the program in its foreground, as terminals do."""
        termios.tcsetwinsize(self._master, (lines, columns))

    def type(self, keys: bytes) -> None:
        """What somebody types."""
        os.write(self._master, keys)

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # EIO: nobody has it open any more
            while part := os.read(self._master, 65536):
                self._shown += part
