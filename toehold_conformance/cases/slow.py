"""Hosts with slow pages, which are under way when something happens, and what is judged of such a crawl."""

from collections import Counter
from collections.abc import Mapping

from toehold.frontier.v1.frontier_pb2 import OUTCOME_FETCHED
from toehold_conformance.answers import LEAF, Answer, Pages, drip, head, later, page
from toehold_conformance.evidence import Evidence, Fails, Given

SLOW = "/slow"
SLOW_S = 1.5
"""How long a slow page takes."""

_ENDLESS_S = 40.0

ENDLESS: Answer = drip(head(), seconds=_ENDLESS_S)
"""A page that does not end while a play lasts."""


def hosts(count: int, slow: Answer | None = None) -> Mapping[str, Pages]:
    """Hosts whose first page links to a slow one, which links to a last one."""
    pages: Pages = {"/": page(SLOW), SLOW: slow or later(SLOW_S, page("/last")), "/last": LEAF}
    return {f"host-{number}": pages for number in range(1, count + 1)}


def must_fetch_all_once(seen: Evidence, *, but: set[str] | None = None) -> None:
    """Every page of the hosts must have been fetched to its end, once, except that `but` may be repeated."""
    seen.must_be_complete()
    counts = Counter(seen.uri_of(request) for request in seen.requests)
    complete = {seen.uri_of(request) for request in seen.requests if request.complete}
    for key, origin in seen.origins.items():
        if not key.startswith(f"{seen.hosts}/"):
            continue
        for path in ("/", SLOW, "/last"):
            uri = origin + path
            if uri not in complete:
                raise Fails(f"The fetcher did not fetch {uri} to its end.")
            if counts[uri] > 1 and uri not in (but or set()):
                raise Fails(f"The fetcher fetched {uri} {counts[uri]} times; once is right.")


def in_flight(seen: Evidence, begin_s: float, end_s: float) -> set[str]:
    """The URIs that were out at the fetcher at any time between two moments. An answer of Next that was under
    way then counts as well.
    """
    reported = {each.report.token: each.call.began_s for each in seen.reported}
    return {
        given.lease.uri
        for given in seen.leases
        if given.call.began_s <= end_s and reported.get(given.lease.token, end_s) >= begin_s
    }


def unreported(seen: Evidence, at_s: float) -> list[Given]:
    """The leases that the fetcher had, and had not reported, at a moment."""
    reported = {each.report.token: each.call.ended_s for each in seen.reported}
    return [
        given
        for given in seen.leases
        if given.at_s <= at_s and reported.get(given.lease.token, float("inf")) > at_s
    ]


def started(seen: Evidence, given: Given, at_s: float) -> bool:
    """Whether the fetch of a lease had begun at a moment."""
    return any(
        seen.uri_of(request) == given.lease.uri and given.call.began_s <= request.began_s <= at_s
        for request in seen.requests
    )


def statuses(seen: Evidence, given: Given) -> list[int]:
    """The fetch statuses that were reported for a lease."""
    return [
        each.report.fetch_status
        for each in seen.reported
        if each.report.token == given.lease.token and each.report.outcome == OUTCOME_FETCHED
    ]
