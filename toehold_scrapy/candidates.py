"""The candidate that the frontier is offered for a request."""

from scrapy import Request, Spider
from scrapy.utils.httpobj import urlparse_cached

from toehold.frontier.v1.frontier_pb2 import Candidate

from .book import SpiderLease
from .codec import Unserialisable, encode

MARK = "toehold_lease"
"""The key of `meta` for the lease that a request is fetched for."""

LEASED_META = frozenset(
    (
        *(MARK, "download_slot", "download_latency", "download_fail_on_dataloss"),
        *("dont_retry", "dont_obey_robotstxt"),
    )
)
"""The keys of `meta` that belong to one fetch. Copies of a fetched request's `meta` have them, too."""

LINK, REDIRECT = "L", "R"

MIDDLE_PRECEDENCE, MAX_PRECEDENCE = 63, 127
"""The precedence of Scrapy's priority 0, and the last of all."""

MAX_PATH_HOPS = 2048

CLOCK_SLACK_S = 5
"""How much the frontier's clock may be ahead of this machine's, when a page is wanted again."""


def candidate_of(request: Request, spider: Spider, parent: SpiderLease | None, hop: str) -> Candidate:
    """The candidate of a request that was found on the page of `parent`, if on any.

    Raises Unserialisable if the frontier cannot keep the request.
    """
    if request.method != "GET" or request.body:
        raise Unserialisable("it has a body, or another method than GET")
    if urlparse_cached(request).scheme not in ("http", "https"):
        raise Unserialisable("it is neither http nor https")
    candidate = Candidate(
        uri=without_fragment(request),
        annotations=encode(request, spider, without_meta=LEASED_META if MARK in request.meta else ()),
        precedence=min(max(MIDDLE_PRECEDENCE - request.priority, 0), MAX_PRECEDENCE),
    )
    is_start = bool(request.meta.get("is_start_request")) and (parent is None or hop == REDIRECT)
    if parent is not None:
        candidate.via = parent.lease.uri
        candidate.path = (parent.lease.path + hop)[-MAX_PATH_HOPS:]
        candidate.source = parent.lease.source
        if hop == REDIRECT:
            candidate.redirects = parent.lease.redirects
    elif is_start:
        candidate.seed = True
    # Every process of a crawl has the same start requests, and each is meant once.
    if request.dont_filter and not is_start:
        force(candidate)
    return candidate


def force(candidate: Candidate) -> None:
    """Has a URI fetched again, unless that happens after now."""
    candidate.refetch_before_time.GetCurrentTime()
    candidate.refetch_before_time.seconds += CLOCK_SLACK_S


def without_fragment(request: Request) -> str:
    """The URL as servers get it."""
    return request.url.partition("#")[0]
