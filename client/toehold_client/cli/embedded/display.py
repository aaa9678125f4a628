"""What `toehold crawl` shows while it runs: a live panel on a terminal, plain lines elsewhere, nothing with
--json.

Only shows: it asks nobody, and decides nothing.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from toehold.frontier.v1.crawl_pb2 import CrawlState, CrawlStatus, FetchStatus, Statistics
from toehold_client.cli.output import harmless, status_words
from toehold_client.cli.text import bytes_text, count_text, duration_text, fetch_status_text

from .crawl_log import LoggedPage

LINE_S = 5.0
"""Between two plain lines, while the state stays the same."""

_RATE_WINDOW_S = 10.0
_MOST_SAMPLES = 200
_LABEL_WIDTH = 7
_FIXED_LINES = 9  # of the panel, without the pages
_MOST_PAGES_SHOWN = 12
_MOST_ERRORS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class View:
    """One moment of a crawl."""

    crawl: str
    status: CrawlStatus
    statistics: Statistics
    pages_per_s: float
    """Of late, not on average."""
    last_pages: list[LoggedPage]
    """The latest last."""


class Display(Protocol):
    """Somewhere to show a crawl. A context: what it changed on the screen is undone at the end."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def show(self, view: View) -> None:
        """Show this moment, in place of the one before."""

    def say(self, text: str) -> None:
        """Tell something that stays on the screen."""


class Rate:
    """Pages per second over the last `_RATE_WINDOW_S` seconds, from samples of a count."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque(maxlen=_MOST_SAMPLES)

    def add(self, now_s: float, count: int) -> float:
        """Add a sample; the rate with it. `now_s` is by a clock that never goes back."""
        self._samples.append((now_s, count))
        while self._samples[0][0] < now_s - _RATE_WINDOW_S:
            self._samples.popleft()
        start_s, start_count = self._samples[0]
        return (count - start_count) / (now_s - start_s) if now_s > start_s else 0.0


class LivePanel:
    """For a terminal: a panel that is drawn over again, below whatever is said. Gone at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True, vertical_overflow="crop")

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, view: View) -> None:
        """See Display."""
        # Never more than the screen has: what scrolls away could not be drawn over.
        room = self._console.height - _FIXED_LINES - 1
        self._live.update(panel(view, max(0, min(room, _MOST_PAGES_SHOWN))), refresh=True)

    def say(self, text: str) -> None:
        """See Display."""
        # Wrapped by the terminal alone: a command in it can be copied as a whole.
        self._console.print(Text(_printable_lines(text)), soft_wrap=True)


class PlainLines:
    """For a file or a pipe: a line when the state changes, and every `LINE_S` seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._state = CrawlState.CRAWL_STATE_UNSPECIFIED
        self._shown_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def show(self, view: View) -> None:
        """See Display."""
        now_s = time.monotonic()
        if view.status.state == self._state and now_s < self._shown_s + LINE_S:
            return
        self._state, self._shown_s = view.status.state, now_s
        self.say(line(view))

    def say(self, text: str) -> None:
        """See Display."""
        self._console.print(Text(_printable_lines(text)), soft_wrap=True)


class WhileSeen:
    """Another display, until it cannot be written to any more: then `lost` is called, and nothing is shown
    from there on.
    """

    def __init__(self, display: Display, lost: Callable[[], None]) -> None:
        self._display = display
        self._lost = lost
        self._seen = True

    def __enter__(self) -> Self:
        with self._watched():
            self._display.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._watched():
            self._display.__exit__(kind, error, trace)

    def show(self, view: View) -> None:
        """See Display."""
        if self._seen:
            with self._watched():
                self._display.show(view)

    def say(self, text: str) -> None:
        """See Display."""
        if self._seen:
            with self._watched():
                self._display.say(text)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except (OSError, SystemExit):  # rich leaves by SystemExit when a pipe is broken
            self._seen = False
            self._lost()


class Silent:
    """For --json: shows nothing; what is said goes to stderr."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def show(self, view: View) -> None:
        """See Display."""

    def say(self, text: str) -> None:
        """See Display."""
        print(_printable_lines(text), file=sys.stderr, flush=True)


def line(view: View) -> str:
    """A moment in one line."""
    statistics = view.statistics
    parts = [
        status_words(view.status),
        f"{count_text(statistics.succeeded_count)} pages",
        _rate_text(view),
        f"{count_text(statistics.queued_count)} queued",
        f"{count_text(statistics.failed_count)} failed",
        bytes_text(statistics.bytes_count),
    ]
    waiting = _waiting_text(view)
    return "  ".join(parts) + (f"  {waiting}" if waiting else "")


def panel(view: View, most_pages: int) -> RenderableType:
    """A moment as a panel of at most `_FIXED_LINES` lines and `most_pages` pages."""
    statistics = view.statistics
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="bold", min_width=_LABEL_WIDTH)
    table.add_column(no_wrap=True, overflow="ellipsis")
    elapsed = duration_text(statistics.elapsed_duration.ToMilliseconds() / 1000)
    table.add_row(
        "crawl", Text.assemble((status_words(view.status), "bold cyan"), f"  {view.crawl}, for {elapsed}")
    )
    table.add_row(
        "pages",
        f"{count_text(statistics.succeeded_count)}, {bytes_text(statistics.bytes_count)}; {_rate_text(view)}",
    )
    table.add_row(
        "URIs",
        f"{count_text(statistics.queued_count)} queued, {count_text(statistics.leased_count)} out"
        f"; {count_text(statistics.discovered_count)} discovered",
    )
    table.add_row("queues", queues_text(statistics))
    table.add_row("errors", Text(errors_text(statistics), style="red" if statistics.failed_count else ""))
    table.add_row("waiting", Text(_waiting_text(view) or "no", style="yellow"))
    parts: list[RenderableType] = [Text(), table]
    shown = view.last_pages[-most_pages:] if most_pages else []
    if shown:
        parts += [Text(), *(_page_line(page) for page in shown)]
    return Group(*parts)


def _rate_text(view: View) -> str:
    elapsed_s = view.statistics.elapsed_duration.ToMilliseconds() / 1000
    average = view.statistics.succeeded_count / elapsed_s if elapsed_s > 0 else 0.0
    return f"{view.pages_per_s:.1f} pages/s now, {average:.1f} on average"


def queues_text(statistics: Statistics) -> str:
    """Work queues by state: `1 ready, 3 busy`."""
    counts = {
        name.removeprefix("QUEUE_STATE_").lower(): count
        for name, count in statistics.queue_state_counts.items()
    }
    order = ("ready", "busy", "snoozed", "inactive", "exhausted")
    known = [name for name in order if name in counts] + sorted(set(counts) - set(order))
    return ", ".join(f"{count_text(counts[name])} {name}" for name in known if counts[name]) or "none"


def errors_text(statistics: Statistics) -> str:
    """What failed, and the fetch statuses that were no success, the most frequent first."""
    bad = sorted(
        ((n, code) for code, n in statistics.fetch_status_counts.items() if _is_error(code)),
        reverse=True,
    )
    text = f"{count_text(statistics.failed_count)} failed"
    for count, code in bad[:_MOST_ERRORS_SHOWN]:
        text += f"; {fetch_status_text(code)}: {count_text(count)}"
    return text


def _is_error(fetch_status: int) -> bool:
    """What robots.txt forbids is no error."""
    return fetch_status >= 400 or (
        fetch_status < 0 and fetch_status != FetchStatus.FETCH_STATUS_ROBOTS_PRECLUDED
    )


def _waiting_text(view: View) -> str:
    """What is awaited and until when, while nothing is due; empty while something is."""
    statistics = view.statistics
    if not statistics.waiting_for:
        return ""
    text = harmless(statistics.waiting_for)
    if not statistics.HasField("next_due_time"):
        return text
    left = statistics.next_due_time.ToDatetime(UTC) - statistics.snapshot_time.ToDatetime(UTC)
    # Shown by this machine's clock: the frontier's may be another.
    until = datetime.now(UTC).astimezone() + max(left, timedelta())
    # The time first: on a narrow terminal the end is cut off.
    return f"until {until:%H:%M:%S} (in {max(0.0, left.total_seconds()):.0f} s): {text}"


def _page_line(page: LoggedPage) -> Text:
    good = 200 <= page.fetch_status < 400
    size = "" if page.size is None else bytes_text(page.size)
    return Text.assemble(
        (f"{page.fetch_status:>6}", "green" if good else "red"),
        f"  {size:>9}  {harmless(page.uri)}",
        no_wrap=True,
        overflow="ellipsis",
    )


def _printable_lines(text: str) -> str:
    return "\n".join(harmless(part) for part in text.split("\n"))
