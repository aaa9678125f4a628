"""Numbers, times and codes as text for people."""

from collections.abc import Mapping

from toehold.frontier.v1.crawl_pb2 import FetchStatus, Statistics
from toehold_client.spec.plain import enum_word
from toehold_client.text import bytes_text as bytes_text
from toehold_client.text import count_text as count_text
from toehold_client.text import counted as counted
from toehold_client.text import duration_text as duration_text
from toehold_client.text import revisited_text

_NEARLY = 0.9  # of a unit counts as one


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


def revisited_rows(statistics: Statistics) -> list[tuple[str, str]]:
    """How far a recrawl has come, if there is one."""
    known = statistics.revisit_count
    return [("revisited", revisited_text(statistics.revisited_count, known))] if known else []
