"""Fetches a robots.txt for the frontier, which reads and obeys it."""

from collections.abc import Callable
from urllib.parse import urljoin

from scrapy import Request
from scrapy.core.engine import ExecutionEngine
from scrapy.http import Response

from toehold.frontier.v1.frontier_pb2 import Lease, Report

from .fetches import FetchClock, SpiderFetch, answered, report
from .log import logger

MAX_BODY_BYTES = 500 * 1024
MAX_DOWNLOAD_BYTES = 10 * 1024 * 1024
MAX_REDIRECTS = 5
NOT_FOUND = -404
"""The status of a robots.txt that redirects too often, or to nowhere: it counts as missing."""


async def robots_report(
    engine: ExecutionEngine,
    lease: Lease,
    request_of: Callable[[str], Request],
    failed: Callable[[Request, Exception, FetchClock], SpiderFetch],
) -> Report:
    """Fetches the robots.txt of a lease, following redirects, and returns its report.

    `request_of` makes the request of a URL, and `failed` judges errors.
    """
    clock = FetchClock()
    url = lease.uri
    own_address = ""
    for redirects in range(MAX_REDIRECTS + 1):
        request = request_of(url)
        try:
            response = await engine.download_async(request)
        except Exception as error:  # each means that there is no robots.txt now
            result = report(lease, failed(request, error, clock))
            logger.warning(
                "No robots.txt from %s: %s", url, result.reason or error
            )  # no page of the host is fetched
            break
        if not redirects and response.ip_address is not None:
            own_address = str(response.ip_address)
        if not 300 <= response.status < 400:
            result = report(lease, answered(response, clock))
            if 200 <= response.status < 300:
                result.robots_body = response.body[:MAX_BODY_BYTES]
                result.robots_empty = not response.body
            break
        url = _target(request, response)
        if not url:
            result = _missing(lease, clock, f"status {response.status} without a target")
            break
    else:
        result = _missing(lease, clock, f"more than {MAX_REDIRECTS} redirects")
    result.peer_address = own_address
    return result


def _target(request: Request, response: Response) -> str:
    location = response.headers.get("Location")
    if not location:
        return ""
    try:
        target = urljoin(request.url, location.decode("latin-1").strip())
    except ValueError:
        return ""
    return target if target.startswith(("http://", "https://")) else ""


def _missing(lease: Lease, clock: FetchClock, reason: str) -> Report:
    return report(lease, SpiderFetch(NOT_FOUND, clock.start_time_ms, clock.duration_ms(), reason=reason))
