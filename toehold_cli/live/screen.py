"""The whole screen of a terminal, for a while."""

import contextlib
import os
import signal
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Self

from rich.console import Console, ConsoleDimensions
from rich.control import Control
from rich.screen import Screen
from rich.text import Text


def fit(console: Console) -> tuple[int, int]:
    """Gives a console the present size of its terminal; columns and lines.

    COLUMNS and LINES in the environment may be out of date.
    """
    try:
        columns, lines = os.get_terminal_size(console.file.fileno())
    except OSError:
        columns = lines = 0  # it is no terminal
    if columns and lines:
        console.size = ConsoleDimensions(columns, lines)
    return console.size


class TakenScreen:
    """The whole screen of a terminal, given back at the end, and while the program is stopped (Ctrl-Z).

    A context, only for the main thread, which receives signals. A signal handler calls `changed` when the
    screen must be drawn again: the terminal's size has changed, or the program is about to stop.
    """

    def __init__(self, console: Console, changed: Callable[[], None]) -> None:
        self._console = console
        self._changed = changed
        self._before: dict[signal.Signals, Any] = {}
        self._to_stop = False

    def __enter__(self) -> Self:
        for number in (signal.SIGWINCH, signal.SIGTSTP):
            self._before[number] = signal.signal(number, self._note)
        self._take()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):  # the terminal is gone
            self._give_back()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def draw(self, lines: Sequence[Text]) -> None:
        """Replaces the screen by these lines, which should fit."""
        if self._to_stop:
            self._to_stop = False
            self._give_back()
            os.kill(os.getpid(), signal.SIGSTOP)
            self._take()  # after SIGCONT
        self._console.control(Control.home())
        self._console.print(Screen(Text("\n").join(lines)), end="")

    def _take(self) -> None:
        self._console.set_alt_screen(True)
        self._console.show_cursor(False)

    def _give_back(self) -> None:
        self._console.show_cursor(True)
        self._console.set_alt_screen(False)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._to_stop = self._to_stop or number == signal.SIGTSTP
        self._changed()
