"""`toehold report failures`: which URIs failed and why, by host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import urlsplit

from toehold.frontier.v1.admin_pb2 import UriOutcome
from toehold.frontier.v1.crawl_pb2 import Disposition
from toehold_client.cli import output
from toehold_client.cli.text import count_text, counted, fetch_status_text
from toehold_client.controller import CrawlController

from .kept_outcomes import KeptOutcomes, is_robots

_COLUMNS = ("host", "URIs", "why", "example")
_ERROR_STATUS = 400  # HTTP's first status that is an error


class _Failure(NamedTuple):
    host: str
    fetch_status: int
    reason: str


def tell_failures(crawl: CrawlController, as_json: bool) -> None:
    """Prints each reason why URIs of a host failed, with their number and an example."""
    kept = KeptOutcomes(crawl)
    failures = _latest(kept)
    numbers = Counter(failures.values())
    examples: dict[_Failure, str] = {}
    for uri, failure in failures.items():
        examples.setdefault(failure, uri)
    order = _order(numbers)
    if as_json:
        for each in order:
            output.record({**each._asdict(), "uri_count": numbers[each], "example_uri": examples[each]})
        return
    if not order:
        output.line("No URI failed or was answered with an error.")
    else:
        rows = ((each.host, count_text(numbers[each]), _why(each), examples[each]) for each in order)
        output.table(_COLUMNS, rows)
        hosts = counted(len({each.host for each in order}), "host")
        were = "was" if len(failures) == 1 else "were"
        output.line(f"{counted(len(failures), 'URI')} of {hosts} failed or {were} answered with an error.")
    kept.tell_gap()


def _latest(outcomes: Iterable[UriOutcome]) -> dict[str, _Failure]:
    """The URIs whose latest outcome is a failure."""
    failures: dict[str, _Failure] = {}
    for outcome in outcomes:
        failures.pop(outcome.uri, None)
        if _failed(outcome):
            host = urlsplit(outcome.uri).netloc
            failures[outcome.uri] = _Failure(host, outcome.fetch_status, outcome.reason)
    return failures


def _failed(outcome: UriOutcome) -> bool:
    """Whether it is a failure for people. A host without a robots.txt has not failed."""
    if outcome.disposition == Disposition.DISPOSITION_FAILED:
        return True
    return outcome.fetch_status >= _ERROR_STATUS and not is_robots(outcome)


def _order(numbers: Counter[_Failure]) -> list[_Failure]:
    """By host, the one with most failures first; in each the most common reason first."""
    of_host: Counter[str] = Counter()
    for each, number in numbers.items():
        of_host[each.host] += number
    return sorted(numbers, key=lambda each: (-of_host[each.host], each.host, -numbers[each], each))


def _why(failure: _Failure) -> str:
    status = fetch_status_text(failure.fetch_status)
    return f"{status}: {failure.reason}" if failure.reason else status
