"""Numbers, times and codes as text for people."""

from collections.abc import Mapping

from toehold.frontier.v1.crawl_pb2 import FetchStatus
from toehold_client.spec.plain import enum_word

_NEARLY = 0.9  # of a unit counts as one


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


def remaining_text(min_s: float, max_s: float) -> str:
    """`about 2 h left`, `1 to 3 h left`, `40 min to 2 h left`."""
    unit, unit_s = _unit_of(max(min_s, max_s))
    least, most = _rounded(min_s, unit_s), _rounded(max(min_s, max_s), unit_s)
    if unit != "s" and min_s < unit_s * _NEARLY:
        return f"{rough_text(min_s)} to {most} {unit} left"
    return f"about {most} {unit} left" if least == most else f"{least} to {most} {unit} left"


def _unit_of(seconds: float) -> tuple[str, float]:
    """The unit that suits a time, and its length."""
    for unit, unit_s, most_s in (("s", 1.0, 90.0), ("min", 60.0, 5_400.0), ("h", 3_600.0, 129_600.0)):
        if seconds < most_s:
            return unit, unit_s
    return "days", 86_400.0


def _rounded(seconds: float, unit_s: float) -> int:
    return max(round(seconds / unit_s), 1)
