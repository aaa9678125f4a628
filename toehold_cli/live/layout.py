"""How a look at a crawl fills a screen, whatever its size: the most important comes first and is cut last.

It only turns a look and a size into lines of text.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, islice

from rich.cells import cell_len
from rich.text import Text

from toehold.frontier.v1.crawl_pb2 import CrawlState, FetchStatus, Statistics
from toehold_cli import output
from toehold_client.spec.plain import seconds_of
from toehold_client.text import (
    bytes_text,
    count_text,
    counted,
    duration_text,
    fetch_status_text,
    revisited_rows,
)
from toehold_client.watching.history import sparkline
from toehold_client.watching.look import Look, time_left
from toehold_client.watching.trouble import absences, troubles

from . import rows
from .cells import LABEL_CELLS, Item, labelled, row

WHOLE = 100_000
"""A width and a height in which everything has room."""

_LEAST_SPARKLINE_CELLS = 5
_MOST_ERRORS = 5
_MOST_TROUBLES = 3
_QUEUE_STATES = ("ready", "busy", "snoozed", "inactive", "exhausted")
_STATE_STYLES = {
    CrawlState.CRAWL_STATE_RUNNING: "bold green",
    CrawlState.CRAWL_STATE_FINISHED: "bold cyan",
}


class _Section:
    """A part of a picture that has as many lines as there is room for, at most `height`.

    `total` is given if each item matters, so that those without room are to be counted.
    """

    def __init__(self, label: str, items: Iterator[Item], height: int, total: int = 0) -> None:
        self.label = label
        self.items = list(islice(items, height))
        self.total = total

    def first(self, lines: int) -> list[Text]:
        """The first items, as far as they fit in the lines; a last line counts the rest."""
        if sum(map(len, self.items)) <= lines:
            return list(chain.from_iterable(self.items))
        kept: list[Text] = []
        for place, item in enumerate(self.items):
            if len(kept) + len(item) + bool(self.total) > lines:
                if not kept:
                    return item[:lines]
                return [*kept, Text(f"and {count_text(self.total - place)} more")] if self.total else kept
            kept += item
        return kept


def picture(look: Look, width: int, height: int, *, ascii_only: bool = False) -> list[Text]:
    """A look in at most `height` lines of at most `width` cells each."""
    state, counts = list(_standing(look, width)), list(_statistics(look, width, ascii_only=ascii_only))
    standing, statistics = list(chain.from_iterable(state)), list(chain.from_iterable(counts))
    # On too small a screen the first line of each will do.
    if len(standing) + len(statistics) > height:
        statistics = [item[0] for item in counts]
    if len(standing) > height:
        standing = [item[0] for item in state]
    wrong = sum(1 for _ in troubles(look))
    sections = [
        _Section("problems", rows.problems(look, width), height, wrong + len(look.problems)),
        _Section("seeds", rows.seeds(look, width), height, len(look.seeds.troubled) + 1),
        _Section("nodes", rows.nodes(look, width), height, len(look.nodes) + 1),
        _Section("jobs", rows.jobs(look, width), height),
        _Section("slowest", rows.slowest(look, width), height),
        _Section("largest", rows.largest(look, width), height),
        _Section("fetched", rows.pages(look, width), height),
    ]
    shares = share(
        height - len(standing) - len(statistics),
        [sum(map(len, section.items)) for section in sections],
        [2 if section.total else 1 for section in sections],
    )
    told = [statistics]
    for section, many in zip(sections, shares, strict=True):
        if many:
            told.append(labelled(section.label, section.first(many)))
    gaps = len(standing) + sum(map(len, told)) + len(told) - 1 <= height
    lines = standing
    for place, part in enumerate(told):
        if gaps and place:
            lines.append(Text())
        if look.away or look.waiting_in:  # all this may not be so any more
            for line in part:
                line.stylize("dim")
        lines += part
    for line in lines:
        line.truncate(width, overflow="ellipsis")
        if ascii_only:
            line.plain = line.plain.replace("…", "~")
    return lines[:height]


def share(room: int, wanted: Sequence[int], weights: Sequence[int] | None = None) -> list[int]:
    """How many lines each section gets: in turn as many as its weight, the first sections first, until all is
    used up.
    """
    weights = weights or [1] * len(wanted)
    shares = [0] * len(wanted)
    while room > 0 and shares != list(wanted):
        for place, (most, weight) in enumerate(zip(wanted, weights, strict=True)):
            more = min(weight, most - shares[place], room)
            shares[place] += more
            room -= more
    return shares


def line(look: Look) -> str:
    """A look in one line of any length."""
    statistics = look.statistics
    wrong = [trouble.text for trouble in chain(troubles(look), absences(look))]
    if len(wrong) > _MOST_TROUBLES:
        wrong[_MOST_TROUBLES:] = [f"and {counted(len(wrong) - _MOST_TROUBLES, 'further problem')}"]
    parts = [
        output.status_text(look.status, look.statistics),
        counted(statistics.succeeded_count, "page"),
        f"{statistics.succeeded_per_second:.1f} pages/s",
        f"{bytes_text(round(statistics.bytes_per_second))}/s",
        f"{count_text(statistics.queued_count)} queued",
        f"{count_text(statistics.failed_count)} failed",
        bytes_text(statistics.bytes_count),
        time_left(statistics),
        _absence(look) or look.status.failure or look.why,
        "; ".join(wrong),
    ]
    return "  ".join(part for part in parts if part)


# Where the crawl stands.


def _standing(look: Look, width: int) -> Iterator[Item]:
    """The first lines: the crawl's state, and what holds it up."""
    style = _STATE_STYLES.get(look.status.state, "bold yellow")
    state, elapsed_s = (
        output.status_text(look.status, look.statistics),
        seconds_of(look.statistics.elapsed_duration),
    )
    line = _listed([look.crawl.crawl, f"for {duration_text(elapsed_s)}", time_left(look.statistics)])
    address = f", at {look.address}"
    if look.waiting_in or cell_len(state + line + address) + 2 > width - LABEL_CELLS:
        address = ""
    yield row("crawl", width, (state, style), f"  {line}{address}")
    for label, text, colour in (
        ("away", _absence(look), "bold red" if look.away else "bold yellow"),
        ("failed", look.status.failure, "bold red"),
        ("reason", look.status.reason, "red"),
        ("why", look.why, "yellow"),
    ):
        if text:
            yield row(label, width, (text, colour))


def _absence(look: Look) -> str:
    """Why no frontier answers now; empty if one does."""
    if look.waiting_in:
        return f"paused; waiting for it to go on in {look.waiting_in}"
    return f"no answer for {duration_text(look.away_s)}: {look.away}" if look.away else ""


def _listed(parts: Sequence[str]) -> str:
    return ", ".join(part for part in parts if part)


def _statistics(look: Look, width: int, *, ascii_only: bool) -> Iterator[Item]:
    """The crawl's progress. Rows without content are left out."""
    statistics = look.statistics
    pages = f"{count_text(statistics.succeeded_count)} succeeded, {bytes_text(statistics.bytes_count)}"
    yield row("pages", width, f"{pages}; {count_text(statistics.disregarded_count)} disregarded")
    for name, value in revisited_rows(statistics):
        yield row(name, width, value)
    yield row("rate", width, *_rate(look, width - LABEL_CELLS, ascii_only=ascii_only))
    queued, fetched = count_text(statistics.queued_count), count_text(statistics.leased_count)
    future = f", {count_text(statistics.future_count)} for later" if statistics.future_count else ""
    found = f"{count_text(statistics.discovered_count)} discovered"
    yield row("URIs", width, f"{queued} queued ({fetched} being fetched){future}; {found}")
    yield row("queues", width, _queues(statistics))
    if statistics.failed_count or any(map(_is_error, statistics.fetch_status_counts)):
        yield row("errors", width, (_errors(statistics), "red" if statistics.failed_count else ""))
    limits = _listed(list(_limits(look)))
    if limits:
        yield row("limits", width, limits)


def _rate(look: Look, room: int, *, ascii_only: bool) -> Iterator[str | tuple[str, str]]:
    """The rates now and on average, and behind them, as far as there is room, those of the last minutes."""
    statistics = look.statistics
    now = f"{statistics.succeeded_per_second:.1f} pages/s, {bytes_text(round(statistics.bytes_per_second))}/s"
    text = f"{now}; {statistics.average_succeeded_per_second:.1f} pages/s on average"
    yield text
    cells = room - len(text) - 2
    if look.history and cells >= min(len(look.history), _LEAST_SPARKLINE_CELLS):
        yield "  "
        yield sparkline(look.history[-cells:], ascii_only=ascii_only), "green"


def _queues(statistics: Statistics) -> str:
    """Work queues by state: `1 ready, 3 busy`."""
    counts = {
        name.removeprefix("QUEUE_STATE_").lower(): count
        for name, count in statistics.queue_state_counts.items()
    }
    known = [name for name in _QUEUE_STATES if name in counts] + sorted(set(counts) - set(_QUEUE_STATES))
    return ", ".join(f"{count_text(counts[name])} {name}" for name in known if counts[name]) or "none"


def _errors(statistics: Statistics) -> str:
    """How many failed, and the fetch statuses that are errors, the most frequent first."""
    errors = [(count, code) for code, count in statistics.fetch_status_counts.items() if _is_error(code)]
    most = sorted(errors, reverse=True)[:_MOST_ERRORS]
    counts = [f"{fetch_status_text(code)}: {count_text(count)}" for count, code in most]
    return "; ".join([f"{count_text(statistics.failed_count)} failed", *counts])


def _is_error(fetch_status: int) -> bool:
    """URIs that robots.txt forbids are no errors."""
    return fetch_status >= 400 or (
        fetch_status < 0 and fetch_status != FetchStatus.FETCH_STATUS_ROBOTS_PRECLUDED
    )


def _limits(look: Look) -> Iterator[str]:
    statistics, spec = look.statistics, look.crawl.spec
    limits = spec.limits
    if limits.max_documents:
        yield f"{count_text(statistics.limited_count)} of {count_text(limits.max_documents)} pages"
    if limits.max_bytes:
        yield f"{bytes_text(statistics.limited_bytes_count)} of {bytes_text(limits.max_bytes)}"
    if limits.HasField("max_elapsed") and seconds_of(limits.max_elapsed):
        elapsed = duration_text(seconds_of(statistics.limited_duration))
        yield f"{elapsed} of {duration_text(seconds_of(limits.max_elapsed))}"
    if spec.max_toes:
        yield f"{count_text(statistics.leased_count)} of {count_text(spec.max_toes)} toes"
