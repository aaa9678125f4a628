"""Numbers, times and a crawl's status as text for people."""

from collections.abc import Iterator, Mapping

from toehold.frontier.v1.crawl_pb2 import CrawlState, CrawlStatus, ExitStatus, FetchStatus, Statistics

from .spec.plain import enum_word

_NEARLY = 0.9  # of a unit counts as one


def count_text(count: int) -> str:
    """`1 234 567`."""
    return f"{count:,}".replace(",", " ")


def counted(count: int, noun: str) -> str:
    """`1 seed`, `2 seeds`, `1 234 URIs`."""
    return f"{count_text(count)} {noun}" if count == 1 else f"{count_text(count)} {noun}s"


def revisited_text(revisited: int, known: int) -> str:
    """How far a recrawl has come: `293 of 600 known pages`, and what became of the others."""
    left = known - revisited
    share = f"{count_text(revisited)} of {counted(known, 'known page')}"
    return f"{share}; {count_text(left)} not fetched again" if left else share


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


def counts_text(counts: Mapping[str, int]) -> str:
    """`READY: 3, SNOOZED: 1`, without those that are 0."""
    return ", ".join(f"{name}: {count_text(counts[name])}" for name in sorted(counts) if counts[name])


def fetch_status_text(code: int | str) -> str:
    """`404`, or `-2 connect failed`."""
    word = enum_word(FetchStatus.DESCRIPTOR, int(code))
    return word if word == str(code) else f"{code} {word.lower().replace('_', ' ')}"


def rough_text(seconds: float) -> str:
    """`40 s`, `3 min`, `2 h`, `4 days`."""
    unit, unit_s = _unit_of(seconds)
    return f"{_rounded(seconds, unit_s)} {unit}"


def remaining_text(min_s: float, max_s: float, until: str = "left") -> str:
    """`about 2 h left`, `1 to 3 h left`, `40 min to 2 h to the page limit`."""
    unit, unit_s = _unit_of(max(min_s, max_s))
    least, most = _rounded(min_s, unit_s), _rounded(max(min_s, max_s), unit_s)
    if unit != "s" and min_s < unit_s * _NEARLY:
        return f"{rough_text(min_s)} to {most} {unit} {until}"
    return f"about {most} {unit} {until}" if least == most else f"{least} to {most} {unit} {until}"


def _unit_of(seconds: float) -> tuple[str, float]:
    """The unit that suits a time, and its length."""
    for unit, unit_s, most_s in (("s", 1.0, 90.0), ("min", 60.0, 5_400.0), ("h", 3_600.0, 129_600.0)):
        if seconds < most_s:
            return unit, unit_s
    return "days", 86_400.0


def _rounded(seconds: float, unit_s: float) -> int:
    return max(round(seconds / unit_s), 1)


def rule_text(rule: str, message: str) -> str:
    """`scope.hosts: its host is not in scope`: a rule, and why it refuses. A message may name its rule."""
    return message if message.startswith(rule) else ": ".join(filter(None, (rule, message)))


def connections_text(statistics: Statistics) -> str:
    """How many connections fetchers have made and used again: `2 new, 61 kept, 2 TLS handshakes`. Empty if
    none of them has told."""
    new, kept, tls = (
        statistics.connection_count,
        statistics.kept_connection_count,
        statistics.tls_handshake_count,
    )
    if not (new or kept or tls):
        return ""
    return f"{count_text(new)} new, {count_text(kept)} kept, {counted(tls, 'TLS handshake')}"


def revisited_rows(statistics: Statistics) -> list[tuple[str, str]]:
    """How far a recrawl has come, if there is one."""
    known = statistics.revisit_count
    return [("revisited", revisited_text(statistics.revisited_count, known))] if known else []
