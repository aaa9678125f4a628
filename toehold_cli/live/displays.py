"""Displays for looks at a crawl: the whole screen, a panel below messages, lines, JSON."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import chain
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from toehold_cli import output
from toehold_client.watching.look import Look, to_record
from toehold_client.watching.trouble import absences, seed_troubles, troubles

from .layout import WHOLE, line, picture
from .screen import TakenScreen, fit

LINE_S = 5.0
"""Between two lines that say how a crawl goes, where nothing is drawn over."""

PANEL_LINES = 21
"""With a blank line above and the cursor below, it fills a terminal of 24 lines."""


class Display:
    """Somewhere to show a crawl; this one shows nothing. A context: in the end a terminal is as it was."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
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

    def __exit__(self, *error: object) -> None:
        self._screen.__exit__(*error)
        if self._last is not None and self._last.ended:
            show_once(self._last, self._console)

    def show(self, look: Look) -> None:
        self._last = look
        self.refresh()

    def refresh(self) -> None:
        if self._last is not None:
            size = fit(self._console)
            self._screen.draw(picture(self._last, *size, ascii_only=_is_ascii(self._console.encoding)))


class Panel(Display):
    """For a terminal: a picture of at most `most_lines`, drawn over again below the messages. Gone at the
    end.
    """

    def __init__(self, console: Console, most_lines: int = PANEL_LINES) -> None:
        self._console = console
        self._most_lines = most_lines
        self._live = Live(console=console, auto_refresh=False, transient=True, vertical_overflow="crop")

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, look: Look) -> None:
        width, height = self._console.size
        # Never more than the screen has: lines that scroll away could not be drawn over.
        most = max(min(height - 2, self._most_lines), 1)
        lines = picture(look, width, most, ascii_only=_is_ascii(self._console.encoding))
        self._live.update(Text("\n").join([Text(), *lines]), refresh=True)

    def say(self, message: str) -> None:
        # Wrapped by the terminal alone: a command in it can be copied as a whole.
        for each in message.split("\n"):
            self._console.print(Text(output.harmless(each)), soft_wrap=True)


class LineDisplay(Display):
    """For a file or a pipe: a line for each look that was due, each change of state and each problem.

    With `events` False somebody else tells the crawl's events, and with them its changes of state.
    """

    def __init__(self, *, events: bool = True) -> None:
        self._events = events
        self._shown = ("", "", False)  # the state, where it waits, and whether the frontier answered
        self._since_ns: int | None = None  # when the watch began, by the frontier's clock
        self._told = 0  # the last problem that was
        self._wrong: frozenset[str] = frozenset()  # the subjects of present trouble

    def show(self, look: Look) -> None:
        shown = (output.status_text(look.status), look.waiting_in, bool(look.away))
        if self._events:
            self._tell_problems(look)
        if look.due or (shown != self._shown and (self._events or shown[1:] != self._shown[1:])):
            output.line(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC  {line(look)}")
        self._shown = shown
        self._tell_trouble(look)

    def say(self, message: str) -> None:
        for each in message.split("\n"):
            output.line(each)

    def _tell_problems(self, look: Look) -> None:
        """Tells those that have come since the first look."""
        if self._since_ns is None:
            self._since_ns = look.statistics.snapshot_time.ToNanoseconds()
        for event in look.problems:
            if event.sequence > self._told and event.event_time.ToNanoseconds() >= self._since_ns:
                self._told = event.sequence
                output.line(f"{output.moment(event.event_time)}  {event}")

    def _tell_trouble(self, look: Look) -> None:
        """Tells trouble once, as soon as it is seen."""
        wrong = list(chain(troubles(look), absences(look), seed_troubles(look)))
        for trouble in wrong:
            if trouble.subject not in self._wrong:
                output.line(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC  problem: {trouble.text}")
        self._wrong = frozenset(trouble.subject for trouble in wrong)


class Objects(Display):
    """For programs: a JSON object for each look."""

    def show(self, look: Look) -> None:
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

    def __exit__(self, *error: object) -> None:
        with self._watched():
            self._display.__exit__(*error)

    def show(self, look: Look) -> None:
        if self.seen:
            with self._watched():
                self._display.show(look)

    def say(self, message: str) -> None:
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


def new_console() -> Console:
    """Standard output, for text as it is."""
    return Console(markup=False, emoji=False, highlight=False)


def show_once(look: Look, console: Console | None) -> None:
    """Shows a look for good: as large as the terminal, with room for its prompt, or (None) whole."""
    if console is None:
        for text in picture(look, WHOLE, WHOLE, ascii_only=_is_ascii(sys.stdout.encoding)):
            output.line(text.plain.rstrip())
    else:
        width, height = fit(console)
        lines = picture(look, width, height - 1, ascii_only=_is_ascii(console.encoding))
        console.print(Text("\n").join(lines), soft_wrap=True)


def following(console: Console, *, events: bool = True) -> Display:
    """The display of a command that follows a crawl and prints messages meanwhile: a panel below them, or
    lines among them. See LineDisplay for `events`.
    """
    return Panel(console) if is_screen(console) else LineDisplay(events=events)


def is_screen(console: Console) -> bool:
    """Whether a console is a terminal on which lines can be drawn over again, whatever FORCE_COLOR says."""
    return console.file.isatty() and not console.is_dumb_terminal


def _is_ascii(encoding: str | None) -> bool:
    """Whether a terminal may lack the characters of a sparkline."""
    return not (encoding or "").lower().startswith("utf")
