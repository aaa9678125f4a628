"""Displays for looks at a crawl: the whole screen, a panel below messages, lines, JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from toehold_client.cli import output
from toehold_client.cli.event_text import event_text

from .layout import WHOLE, line, picture
from .look import Look, to_record
from .screen import TakenScreen, fit


class Display:
    """Somewhere to show a crawl; this one shows nothing. A context: in the end a terminal is as it was."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def show(self, look: Look) -> None:
        """Shows a look, the latest so far."""

    def say(self, message: str) -> None:
        """Prints a message that stays."""
        for each in message.split("\n"):
            output.note(each)

    def refresh(self) -> None:
        """Shows the latest look again, where it does not stay as it was shown."""


class FullScreen(Display):
    """For a terminal: a picture as large as it is, drawn over again. The last picture of a crawl that has
    ended stays.
    """

    def __init__(self, console: Console, changed: Callable[[], None]) -> None:
        self._console = console
        self._screen = TakenScreen(console, changed)
        self._last: Look | None = None

    def __enter__(self) -> Self:
        self._screen.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._screen.__exit__(kind, error, trace)
        if self._last is not None and self._last.ended:
            show_once(self._last, self._console)

    def show(self, look: Look) -> None:
        """See Display."""
        self._last = look
        self.refresh()

    def refresh(self) -> None:
        """See Display."""
        if self._last is not None:
            self._screen.draw(picture(self._last, *fit(self._console)))


class Panel(Display):
    """For a terminal: a picture of at most `most_lines`, drawn over again below the messages. Gone at the
    end.
    """

    def __init__(self, console: Console, most_lines: int) -> None:
        self._console = console
        self._most_lines = most_lines
        self._live = Live(console=console, auto_refresh=False, transient=True, vertical_overflow="crop")

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, look: Look) -> None:
        """See Display."""
        width, height = self._console.size
        # Never more than the screen has: lines that scroll away could not be drawn over.
        lines = picture(look, width, max(min(height - 2, self._most_lines), 1))
        self._live.update(Text("\n").join([Text(), *lines]), refresh=True)

    def say(self, message: str) -> None:
        """See Display."""
        # Wrapped by the terminal alone: a command in it can be copied as a whole.
        for each in message.split("\n"):
            self._console.print(Text(output.harmless(each)), soft_wrap=True)


class Lines(Display):
    """For a file or a pipe: a line for each look that was due, each change of state and each problem."""

    def __init__(self) -> None:
        self._shown = ("", False)  # the state, and whether the frontier answered
        self._since_ns: int | None = None  # when the watch began, by the frontier's clock
        self._told = 0  # the last problem that was

    def show(self, look: Look) -> None:
        """See Display."""
        self._tell_problems(look)
        shown = (output.status_text(look.status), bool(look.away))
        if shown != self._shown or look.due:
            self._shown = shown
            output.line(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC  {line(look)}")

    def say(self, message: str) -> None:
        """See Display."""
        for each in message.split("\n"):
            output.line(each)

    def _tell_problems(self, look: Look) -> None:
        """Tells those that have come since the first look."""
        if self._since_ns is None:
            self._since_ns = look.statistics.snapshot_time.ToNanoseconds()
        for event in look.problems:
            if event.sequence > self._told and event.event_time.ToNanoseconds() >= self._since_ns:
                self._told = event.sequence
                output.line(f"{output.moment(event.event_time)}  {event_text(event)}")


class Objects(Display):
    """For programs: a JSON object for each look."""

    def show(self, look: Look) -> None:
        """See Display."""
        output.record(to_record(look))


class WhileSeen(Display):
    """Another display, until it cannot be written to any more: then it calls `lost`, and shows nothing from
    there on.
    """

    def __init__(self, display: Display, lost: Callable[[], None]) -> None:
        self._display = display
        self._lost = lost
        self.seen = True
        """Whether it can still be written to."""

    def __enter__(self) -> Self:
        with self._watched():
            self._display.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._watched():
            self._display.__exit__(kind, error, trace)

    def show(self, look: Look) -> None:
        """See Display."""
        if self.seen:
            with self._watched():
                self._display.show(look)

    def say(self, message: str) -> None:
        """See Display."""
        if self.seen:
            with self._watched():
                self._display.say(message)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except (OSError, SystemExit):  # rich leaves by SystemExit when a pipe is broken
            self.seen = False
            self._lost()


def show_once(look: Look, console: Console | None) -> None:
    """Shows a look for good: as large as the terminal, with room for its prompt, or (None) whole."""
    if console is None:
        for text in picture(look, WHOLE, WHOLE):
            output.line(text.plain.rstrip())
    else:
        width, height = fit(console)
        console.print(Text("\n").join(picture(look, width, height - 1)), soft_wrap=True)


def is_screen(console: Console) -> bool:
    """Whether a console is a terminal on which lines can be drawn over again, whatever FORCE_COLOR says."""
    return console.file.isatty() and not console.is_dumb_terminal
