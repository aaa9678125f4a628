"""Numbers, times and a crawl's status as text for people."""

from __future__ import annotations

from collections.abc import Iterator

from toehold.frontier.v1.crawl_pb2 import CrawlState, CrawlStatus, ExitStatus

from .spec.plain import enum_word


def count_text(count: int) -> str:
    """`1 234 567`."""
    return f"{count:,}".replace(",", " ")


def counted(count: int, noun: str) -> str:
    """`1 seed`, `2 seeds`, `1 234 URIs`."""
    return f"{count_text(count)} {noun}" if count == 1 else f"{count_text(count)} {noun}s"


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


def status_text(status: CrawlStatus) -> str:
    """`RUNNING`, or `FINISHED (ABORTED), torn down` if there is more to say."""
    state, end = status_names(status)
    return ", ".join([state if end == state else f"{state} ({end})", *standing(status)])


def status_and_reason(status: CrawlStatus) -> str:
    """The same with the problem that caused it, if there was one."""
    return f"{status_text(status)}: {status.reason}" if status.reason else status_text(status)


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
