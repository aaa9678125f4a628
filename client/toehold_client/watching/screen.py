"""A terminal taken over for a while: the same place drawn over again and again, and given back as it was."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

from rich.console import Console
from rich.control import Control
from rich.screen import Screen
from rich.text import Text

_ENDS = (signal.SIGTERM, signal.SIGHUP)


class TakenScreen:
    """The whole screen of a terminal, given back at the end, however that comes, and while it is stopped.

    A context, for the main thread, as signals are heard there. `changed` is called by a signal handler when
    the screen has another size, or is to be drawn again.
    """

    def __init__(self, console: Console, changed: Callable[[], None]) -> None:
        self._console = console
        self._changed = changed
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._hear(signal.SIGWINCH, self._resized)
        self._hear(signal.SIGTSTP, self._stop)
        for number in _ENDS:
            # Under nohup a hang-up is not meant for us.
            if signal.getsignal(number) != signal.SIG_IGN:
                self._hear(number, self._end)
        self._take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hear(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not leave it half given back
        with contextlib.suppress(OSError):  # the terminal is gone
            self._give_back()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def draw(self, lines: Sequence[Text]) -> None:
        """Shows lines, which should fit, in place of those before."""
        self._console.control(Control.home())
        self._console.print(Screen(Text("\n").join(lines)), end="")

    def _hear(self, number: signal.Signals, handler: Any) -> None:
        self._before[number] = signal.signal(number, handler)

    def _take(self) -> None:
        self._console.set_alt_screen(True)
        self._console.show_cursor(False)

    def _give_back(self) -> None:
        self._console.show_cursor(True)
        self._console.set_alt_screen(False)

    def _resized(self, number: int, frame: FrameType | None) -> None:
        self._changed()

    def _end(self, number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._take()  # somebody has let it go on
        self._changed()
