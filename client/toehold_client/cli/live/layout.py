"""How a look at a crawl fills a screen, whatever its size: the most important comes first and is cut last.

It only turns a look and a size into lines of text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from toehold.frontier.v1.admin_pb2 import Job, JobState, Node, WorkQueue
from toehold.frontier.v1.crawl_pb2 import CrawlState, Event, FetchStatus, QueueState, Statistics
from toehold_client.cli import output
from toehold_client.cli.event_text import event_text
from toehold_client.cli.text import bytes_text, count_text, duration_text, fetch_status_text
from toehold_client.spec.plain import enum_word, seconds_of

from .crawl_log import LoggedPage
from .look import Look, seconds_until, waiting_text

WHOLE = 100_000
"""A width and a height in which everything has room."""

_LABEL_CELLS = 9
_MOST_WHY_LINES = 3
_LEAST_NAME_CELLS = 12
_MOST_ERRORS = 5
_QUEUE_STATES = ("ready", "busy", "snoozed", "inactive", "exhausted")
_WAITING = "ABOUT_TO_GET_URI"
_STATE_STYLES = {
    CrawlState.CRAWL_STATE_RUNNING: "bold green",
    CrawlState.CRAWL_STATE_FINISHED: "bold cyan",
}

Part = str | tuple[str, str]
"""Text, or text and its style."""


def picture(look: Look, width: int, height: int) -> list[Text]:
    """A look in at most `height` lines of at most `width` cells each."""
    standing, statistics = list(_standing(look, width)), list(_statistics(look))
    named = max(width // 3, _LEAST_NAME_CELLS)  # a key or a name, with room for what is said of it
    sections = [
        _rows("problems", [_problem(look, event) for event in [*reversed(look.problems)][:height]]),
        _rows("nodes", _nodes(look, named, height)),
        _rows("jobs", [_text(_job(job)) for job in look.jobs[:height]]),
        _rows("slowest", _slowest(look, named)),
        _rows("largest", _largest(look, named)),
        _rows("fetched", [_page(page) for page in [*reversed(look.pages)][:height]]),
    ]
    shares = share(height - len(standing) - len(statistics), [len(section) for section in sections])
    told = [statistics, *(section[:many] for section, many in zip(sections, shares, strict=True) if many)]
    gaps = len(standing) + sum(map(len, told)) + len(told) - 1 <= height
    lines = standing
    for place, part in enumerate(told):
        if gaps and place:
            lines.append(Text())
        if look.away:  # all this may not be so any more
            for line in part:
                line.stylize("dim")
        lines += part
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return lines[:height]


def share(room: int, wanted: Sequence[int]) -> list[int]:
    """How many lines each section gets: one in turn, the first sections first, until all is used up."""
    shares = [0] * len(wanted)
    while room > 0 and shares != list(wanted):
        for place, most in enumerate(wanted):
            if shares[place] < most and room > 0:
                shares[place] += 1
                room -= 1
    return shares


def line(look: Look) -> str:
    """A look in one line of any length."""
    statistics = look.statistics
    parts = [
        output.status_text(look.status),
        f"{count_text(statistics.succeeded_count)} pages",
        _rate(look),
        f"{count_text(statistics.queued_count)} queued",
        f"{count_text(statistics.failed_count)} failed",
        bytes_text(statistics.bytes_count),
        _away(look) or look.why,
        waiting_text(statistics),
    ]
    return "  ".join(part for part in parts if part)


# Where the crawl stands.


def _standing(look: Look, width: int) -> Iterator[Text]:
    """The first lines: the crawl's state, and what holds it up."""
    style = _STATE_STYLES.get(look.status.state, "bold yellow")
    elapsed = duration_text(seconds_of(look.statistics.elapsed_duration))
    yield _line(
        "crawl",
        (output.status_text(look.status), style),
        f"  {look.crawl.crawl}, for {elapsed}, at {look.address}",
    )
    if look.away:
        yield from _wrapped("away", (_away(look), "bold red"), width)
    if look.status.reason:
        yield from _wrapped("reason", (look.status.reason, "red"), width)
    if look.why:
        yield from _wrapped("why", (look.why, "yellow"), width)
    waiting = waiting_text(look.statistics)
    if waiting:
        yield from _wrapped("waiting", (waiting, "yellow"), width)


def _away(look: Look) -> str:
    return f"no answer for {duration_text(look.away_s)}: {look.away}" if look.away else ""


def _wrapped(label: str, part: Part, width: int) -> list[Text]:
    """Text in up to _MOST_WHY_LINES lines; the last one may be cut."""
    whole = _text(part)
    lines = whole.wrap(Console(), max(width - _LABEL_CELLS, 1), no_wrap=False)
    for each in lines:
        each.rstrip()
    kept = [*lines[: _MOST_WHY_LINES - 1], Text(" ").join(lines[_MOST_WHY_LINES - 1 :])]
    return _rows(label, [each for each in kept if each.plain])


def _statistics(look: Look) -> Iterator[Text]:
    """The crawl's progress. Rows without content are left out."""
    statistics = look.statistics
    pages = f"{count_text(statistics.succeeded_count)} succeeded, {bytes_text(statistics.bytes_count)}"
    yield _line("pages", f"{pages}; {count_text(statistics.disregarded_count)} disregarded")
    yield _line("rate", _rate(look))
    waiting = (
        f"{count_text(statistics.queued_count)} queued, {count_text(statistics.leased_count)} of them out"
    )
    future = f", {count_text(statistics.future_count)} for later" if statistics.future_count else ""
    yield _line("URIs", f"{waiting}{future}; {count_text(statistics.discovered_count)} discovered")
    yield _line("queues", _queues(statistics))
    if statistics.failed_count or statistics.fetch_status_counts:
        yield _line("errors", (_errors(statistics), "red" if statistics.failed_count else ""))
    limits = ", ".join(_limits(look))
    if limits:
        yield _line("limits", limits)


def _rate(look: Look) -> str:
    statistics = look.statistics
    now = f"{statistics.succeeded_per_second:.1f} pages/s, {bytes_text(round(statistics.bytes_per_second))}/s"
    average_bytes = bytes_text(round(statistics.average_bytes_per_second))
    return f"{now} now; {statistics.average_succeeded_per_second:.1f}, {average_bytes}/s on average"


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
    told = [f"{fetch_status_text(code)}: {count_text(count)}" for count, code in most]
    return "; ".join([f"{count_text(statistics.failed_count)} failed", *told])


def _is_error(fetch_status: int) -> bool:
    """URIs that robots.txt forbids are no errors."""
    return fetch_status >= 400 or (
        fetch_status < 0 and fetch_status != FetchStatus.FETCH_STATUS_ROBOTS_PRECLUDED
    )


def _limits(look: Look) -> Iterator[str]:
    statistics, spec = look.statistics, look.crawl.spec
    limits = spec.limits
    if limits.max_documents:
        yield f"{count_text(statistics.succeeded_count)} of {count_text(limits.max_documents)} pages"
    if limits.max_bytes:
        yield f"{bytes_text(statistics.bytes_count)} of {bytes_text(limits.max_bytes)}"
    if limits.HasField("max_elapsed") and seconds_of(limits.max_elapsed):
        elapsed = duration_text(seconds_of(statistics.elapsed_duration))
        yield f"{elapsed} of {duration_text(seconds_of(limits.max_elapsed))}"
    if spec.max_toes:
        yield f"{count_text(statistics.leased_count)} of {count_text(spec.max_toes)} toes"


def _job(job: Job) -> str:
    rows = f"{count_text(job.done_count)} of {count_text(job.total_count) if job.total_count else '?'} rows"
    state = enum_word(JobState.DESCRIPTOR, job.state).lower()
    return f"{job.job} {job.kind}, {state}: {rows}, {count_text(job.changed_count)} changed"


# The sections. All names at the beginning of rows have the same number of cells.


def _problem(look: Look, event: Event) -> Text:
    ago = duration_text(max(-seconds_until(look.statistics, event.event_time), 0.0))
    return _text((f"{ago} ago  ", "red"), event_text(event))


def _nodes(look: Look, most_cells: int, most: int) -> list[Text]:
    """All nodes together, if there are several; then each, at most `most`."""
    names = _cells([node.node for node in look.nodes[:most]], most_cells)
    rows = [_node(look, node, name) for node, name in zip(look.nodes, names, strict=False)]
    if len(look.nodes) > 1:
        there = [node for node in look.nodes if _silent_s(look, node) <= look.lease_s]
        told = f"{count_text(len(there))} of {count_text(len(look.nodes))} present, {_at_work(there)}"
        rows.insert(0, _text((told, "bold")))
    return rows


def _silent_s(look: Look, node: Node) -> float:
    return -seconds_until(look.statistics, node.last_seen_time)


def _node(look: Look, node: Node, name: str) -> Text:
    silent_s = _silent_s(look, node)
    if silent_s > look.lease_s:
        return _text(name, (f"silent for {duration_text(silent_s)}", "red"))
    asked = f"; {node.pool_size} asked for" if node.HasField("pool_size") else ""
    return _text(name, ("drains: ", "yellow") if node.draining else "", *_lost(node), _at_work([node]), asked)


def _lost(node: Node) -> Iterator[Part]:
    """Lost toe threads. They come first, because the end of the row may be cut."""
    if node.pool.died_count:
        yield (f"{count_text(node.pool.died_count)} died", "red")
        yield ", "
    if node.pool.abandoned_count:
        yield (f"{count_text(node.pool.abandoned_count)} left behind", "red")
        yield ", "


def _at_work(nodes: Sequence[Node]) -> str:
    """`8 toes: 6 fetching, 1 writing, 1 waiting; 9 out`, of nodes together."""
    steps: Counter[str] = Counter()
    for node in nodes:
        for told in node.toe_steps:
            steps[told.step] += told.count
    waiting = steps.pop(_WAITING, 0)
    at = [f"{count_text(count)} {step.lower()}" for step, count in steps.most_common() if count]
    at += [f"{count_text(waiting)} waiting"] if waiting else []
    toes = f"{count_text(steps.total() + waiting)} toes{': ' if at else ''}{', '.join(at)}"
    return f"{toes}; {count_text(sum(node.leased_count for node in nodes))} out"


def _slowest(look: Look, most_cells: int) -> list[Text]:
    """Queues that rest: how long, and why."""
    keys = _cells([queue.queue_key for queue in look.slowest], most_cells)
    wakes = [max(seconds_until(look.statistics, queue.wake_time), 0.0) for queue in look.slowest]
    return [
        _text(key, f"for {duration_text(wake_s)}: {queue.reason}; {count_text(queue.queued_count)} queued")
        for queue, key, wake_s in zip(look.slowest, keys, wakes, strict=True)
    ]


def _largest(look: Look, most_cells: int) -> list[Text]:
    """Queues with URIs: how many, and their state."""
    queues = [queue for queue in look.largest if queue.queued_count]
    keys = _cells([queue.queue_key for queue in queues], most_cells)
    return [
        _text(key, f"{count_text(queue.queued_count)} queued, {_state(queue)}")
        for queue, key in zip(queues, keys, strict=True)
    ]


def _page(page: LoggedPage) -> Text:
    good = 200 <= page.fetch_status < 400
    size = "" if page.size is None else bytes_text(page.size)
    return _text((f"{page.fetch_status:>5}", "green" if good else "red"), f"  {size:>8}  {page.uri}")


def _state(queue: WorkQueue) -> str:
    state = enum_word(QueueState.DESCRIPTOR, queue.state).lower()
    return f"{state}: {queue.reason}" if queue.reason else state


# Text.


def _rows(label: str, lines: Sequence[Text]) -> list[Text]:
    """Lines beside a label."""
    return [
        Text(" " * _LABEL_CELLS) + line if place else _label(label) + line for place, line in enumerate(lines)
    ]


def _line(label: str, *parts: Part) -> Text:
    return _label(label) + _text(*parts)


def _label(label: str) -> Text:
    return _text((label.ljust(_LABEL_CELLS), "bold"))


def _text(*parts: Part) -> Text:
    """Parts joined. This is where all text becomes safe for a terminal."""
    text = Text(no_wrap=True)
    for part in parts:
        said, style = (part, "") if isinstance(part, str) else part
        text.append(output.harmless(said), style)
    return text


def _cells(names: Sequence[str], most: int) -> list[str]:
    """Names, padded or cut to the same number of cells, with two blanks after them."""
    named = [output.harmless(name) for name in names]
    cells = min(max(map(cell_len, named), default=0), most)
    cut = (name if cell_len(name) <= cells else f"{set_cell_size(name, cells - 1)}…" for name in named)
    return [set_cell_size(name, cells + 2) for name in cut]
