"""Which URIs failed and why, by host."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from toehold.frontier.v1.admin_pb2 import UriOutcome
from toehold.frontier.v1.crawl_pb2 import Disposition

from ..text import fetch_status_text

MOST_EXAMPLES = 3
_ERROR_STATUS = 400  # HTTP's first status that is an error
_PREREQUISITE = "P"  # the last hop to a robots.txt


class Failure(NamedTuple):
    """Why URIs of a host failed."""

    host: str
    fetch_status: int
    reason: str

    def __str__(self) -> str:
        status = fetch_status_text(self.fetch_status)
        return f"{status}: {self.reason}" if self.reason else status


class Failures:
    """The URIs whose latest outcome is a failure."""

    def __init__(self) -> None:
        self._of: dict[str, Failure] = {}

    def __len__(self) -> int:
        return len(self._of)

    @property
    def host_count(self) -> int:
        """How many hosts they are of."""
        return len({failure.host for failure in self._of.values()})

    def note(self, outcome: UriOutcome) -> None:
        """Notes an outcome that is later than all before."""
        self._of.pop(outcome.uri, None)
        if _failed(outcome):
            host = urlsplit(outcome.uri).netloc
            self._of[outcome.uri] = Failure(host, outcome.fetch_status, outcome.reason)

    def groups(self) -> Sequence[tuple[Failure, int, Sequence[str]]]:
        """Each failure, how many URIs have it, and the first of them.

        By host, the one with most failures first; in each the most common failure first.
        """
        numbers = Counter(self._of.values())
        examples: dict[Failure, list[str]] = {}
        for uri, failure in self._of.items():
            known = examples.setdefault(failure, [])
            if len(known) < MOST_EXAMPLES:
                known.append(uri)
        of_host: Counter[str] = Counter()
        for each, number in numbers.items():
            of_host[each.host] += number
        order = sorted(numbers, key=lambda each: (-of_host[each.host], each.host, -numbers[each], each))
        return [(each, numbers[each], examples[each]) for each in order]


def _failed(outcome: UriOutcome) -> bool:
    """Whether it is a failure for people. A host without a robots.txt has not failed."""
    if outcome.disposition == Disposition.DISPOSITION_FAILED:
        return True
    return outcome.fetch_status >= _ERROR_STATUS and not is_robots(outcome)


def is_robots(outcome: UriOutcome) -> bool:
    """Whether it is about a robots.txt, which the statistics don't count as a page."""
    return outcome.path.endswith(_PREREQUISITE)
