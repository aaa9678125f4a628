"""Numbers, times and a crawl's status as text for people."""

from __future__ import annotations

from collections.abc import Iterator

from toehold.frontier.v1.crawl_pb2 import CrawlState, CrawlStatus, ExitStatus, Statistics

from .spec.plain import enum_word


def count_text(count: int) -> str:
    """`1 234 567`."""
    return f"{count:,}".replace(",", " ")


def counted(count: int, noun: str) -> str:
    """`1 seed`, `2 seeds`, `1 234 URIs`."""
    return f"{count_text(count)} {noun}" if count == 1 else f"{count_text(count)} {noun}s"


def revisited_text(revisited: int, known: int) -> str:
    """How far a recrawl has come: `293 of 600 known pages`, and what became of the others."""
    left = known - revisited
    told = f"{count_text(revisited)} of {counted(known, 'known page')}"
    return f"{told}; {count_text(left)} not fetched again" if left else told


def bytes_text(count: int) -> str:
    """`12.3 MB`, in powers of 1000."""
    if count < 1000:
        return f"{count} B"
    value = float(count)
    for unit in ("kB", "MB", "GB", "TB"):
        value /= 1000
        if value < 999.95:
            return f"{value:.1f} {unit}"
    return f"{value / 1000:.1f} PB"


def duration_text(seconds: float) -> str:
    """`4.2 s`, `3 min 05 s`, `2 h 03 min`."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


LIMITS = {
    "limits.max_documents": "page limit",
    "limits.max_bytes": "limit of bytes",
    "limits.max_elapsed_seconds": "time limit",
}
"""The limits of a crawl in words, by the names of their settings."""


_ENDS = {
    "FINISHED": "Finished",
    "ABORTED": "Finished: stopped",
    "FINISHED_DOCUMENT_LIMIT": "Finished: page limit reached",
    "FINISHED_DATA_LIMIT": "Finished: limit of bytes reached",
    "FINISHED_TIME_LIMIT": "Finished: time limit reached",
    "UNSPECIFIED": "Finished",
}


def status_text(status: CrawlStatus, statistics: Statistics | None = None) -> str:
    """`RUNNING`, or `Finished: page limit reached, 934 URLs left, torn down` if there is more to say. Only
    the statistics tell how many are left.
    """
    left = 0 if statistics is None else urls_left(statistics)
    return ", ".join([state_text(*status_names(status), left), *standing(status)])


def status_and_reason(status: CrawlStatus, statistics: Statistics | None = None) -> str:
    """The same with the problem that caused it, if there was one."""
    text = status_text(status, statistics)
    return f"{text}: {status.reason}" if status.reason else text


def state_text(state: str, exit_status: str, left: int = 0) -> str:
    """The same of the names of the states, and of how many URLs are left."""
    if state != "FINISHED":
        return state if exit_status == state else f"{state} ({exit_status})"
    text = _ENDS.get(exit_status, f"Finished ({exit_status})")
    return f"{text}, {counted(left, 'URL')} left" if left else text


def urls_left(statistics: Statistics) -> int:
    """How many URLs a crawl has in its queues, those of retired queues included."""
    return statistics.queued_count + statistics.retired_uri_count


def standing(status: CrawlStatus) -> Iterator[str]:
    """More about the crawl than its state: `held`, `torn down`."""
    if status.held:
        yield "held"
    if status.torn_down:
        yield "torn down"
    elif status.tearing_down:
        yield "being torn down"


def status_names(status: CrawlStatus) -> tuple[str, str]:
    """State and exit status, each in one word."""
    return enum_word(CrawlState.DESCRIPTOR, status.state), enum_word(
        ExitStatus.DESCRIPTOR, status.exit_status
    )


def harmless(text: str) -> str:
    """The text with escapes in place of unprintable characters."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
