"""Where looks at a crawl are shown: on the whole screen, as lines, as JSON."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.text import Text

from toehold_client.cli import output
from toehold_client.cli.event_text import event_words

from .layout import WHOLE, line, picture
from .look import Look, to_record
from .screen import TakenScreen, fit


class Display(Protocol):
    """Somewhere to show a crawl. A context: what it changed of a terminal is undone at the end."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def show(self, look: Look) -> None:
        """Show a look, the latest so far."""

    def refresh(self) -> None:
        """Show it again where it does not stay as it was shown."""


class FullScreen:
    """For a terminal: a picture as large as it is, drawn over again. The last one of a crawl that has ended
    stays there.
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


class Lines:
    """For a file or a pipe: a line for each look that was due, each change of state and each problem."""

    def __init__(self) -> None:
        self._shown = ("", False)  # the state, and whether the frontier answered
        self._since_ns: int | None = None  # when the watch began, by the frontier's clock
        self._told = 0  # the last problem that was

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def show(self, look: Look) -> None:
        """See Display."""
        self._tell_problems(look)
        shown = (output.status_words(look.status), bool(look.away))
        if shown != self._shown or look.due:
            self._shown = shown
            output.line(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC  {line(look)}")

    def refresh(self) -> None:
        """See Display."""

    def _tell_problems(self, look: Look) -> None:
        """Tells those that have come since the first look."""
        if self._since_ns is None:
            self._since_ns = look.statistics.snapshot_time.ToNanoseconds()
        for event in look.problems:
            if event.sequence > self._told and event.event_time.ToNanoseconds() >= self._since_ns:
                self._told = event.sequence
                output.line(f"{output.moment(event.event_time)}  {event_words(event)}")


class Objects:
    """For programs: a JSON object for each look."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def show(self, look: Look) -> None:
        """See Display."""
        output.record(to_record(look))

    def refresh(self) -> None:
        """See Display."""


def show_once(look: Look, console: Console | None) -> None:
    """Shows a look for good: as large as the terminal, with room for its prompt, or (None) whole."""
    if console is None:
        for text in picture(look, WHOLE, WHOLE):
            output.line(text.plain.rstrip())
    else:
        width, height = fit(console)
        console.print(Text("\n").join(picture(look, width, height - 1)), soft_wrap=True)
