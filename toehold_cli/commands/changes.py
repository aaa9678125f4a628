"""`toehold report changes`: what had changed when pages were fetched again."""

from collections import Counter
from collections.abc import Iterable
from http import HTTPStatus
from typing import NamedTuple

from toehold.frontier.v1.admin_pb2 import UriOutcome
from toehold.frontier.v1.crawl_pb2 import Disposition
from toehold_cli import output
from toehold_client.controller import CrawlController
from toehold_client.text import count_text, counted, fetch_status_text
from toehold_client.watching.failures import is_robots

from .kept_outcomes import KeptOutcomes

_COLUMNS = ("URI", "now", "before")
_DUPLICATE = "duplicate"  # annotates a body that is the same as last time
_FINDINGS = ("changed", "unchanged", "failed")


class _Refetch(NamedTuple):
    """The latest fetch of a URI that was fetched before."""

    finding: str
    fetch_status: int
    fetch_status_before: int


def tell_changes(crawl: CrawlController, as_json: bool) -> None:
    """Prints the URIs that had changed when they were fetched again, and counts the others."""
    kept = KeptOutcomes(crawl)
    refetches = _refetches(kept)
    changed = {uri: each for uri, each in refetches.items() if each.finding == "changed"}
    if as_json:
        for uri, each in changed.items():
            statuses = (each.fetch_status, each.fetch_status_before)
            output.record({"uri": uri, "fetch_status": statuses[0], "fetch_status_before": statuses[1]})
        return
    if changed:
        rows = (
            (uri, fetch_status_text(each.fetch_status), fetch_status_text(each.fetch_status_before))
            for uri, each in changed.items()
        )
        output.table(_COLUMNS, rows)
    output.line(_summary(Counter(each.finding for each in refetches.values())))
    kept.tell_gap()


def _refetches(outcomes: Iterable[UriOutcome]) -> dict[str, _Refetch]:
    before: dict[str, int] = {}
    found: dict[str, _Refetch] = {}
    for outcome in outcomes:
        if is_robots(outcome) or outcome.disposition == Disposition.DISPOSITION_DISREGARDED:
            continue
        status = outcome.fetch_status
        if outcome.uri in before:
            found[outcome.uri] = _Refetch(_finding(outcome), status, before[outcome.uri])
        before[outcome.uri] = status
    return found


def _finding(outcome: UriOutcome) -> str:
    if outcome.fetch_status <= 0:
        return "failed"
    if outcome.fetch_status == HTTPStatus.NOT_MODIFIED:
        return "unchanged"
    is_same = any(each.startswith(_DUPLICATE) for each in outcome.annotations)
    return "unchanged" if is_same else "changed"


def _summary(counts: Counter[str]) -> str:
    if not counts:
        return "No page was fetched again."
    parts = ", ".join(f"{count_text(counts[each])} {each}" for each in _FINDINGS if counts[each])
    return f"{counted(counts.total(), 'page')} fetched again: {parts}"
