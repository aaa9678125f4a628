"""How a fetch ended, and the report of it."""

import base64
import hashlib
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from OpenSSL import SSL
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
    NotSupported,
    ResponseDataLossError,
    StopDownload,
    UnsupportedURLSchemeError,
)
from scrapy.http import Response
from twisted.internet.error import ConnectError, ConnectionClosed, SSLError
from twisted.internet.error import TimeoutError as ConnectTimeout
from twisted.web._newclient import ParseError

from toehold.frontier.v1 import crawl_pb2, frontier_pb2

DEFERRED = crawl_pb2.FetchStatus.FETCH_STATUS_DEFERRED
FAILED = crawl_pb2.FetchStatus.FETCH_STATUS_RUNTIME_EXCEPTION
KILLED = crawl_pb2.FetchStatus.FETCH_STATUS_PROCESSING_THREAD_KILLED
REFUSED = crawl_pb2.FetchStatus.FETCH_STATUS_UNFETCHABLE_URI

ADDRESS_REFUSED = "addressRefused"
"""The remark on a fetch whose host has no address that the crawl allows."""

MAX_PROTOCOL_ERRORS = 2
MAX_TARGET = 200
"""The frontier would cut a longer reason."""
_RETRIED = frozenset(
    (
        crawl_pb2.FetchStatus.FETCH_STATUS_DOMAIN_UNRESOLVABLE,
        crawl_pb2.FetchStatus.FETCH_STATUS_CONNECT_FAILED,
        crawl_pb2.FetchStatus.FETCH_STATUS_CONNECT_LOST,
        429,
        503,
    )
)
"""The statuses that the frontier retries without a rule of the crawl."""

MAX_RETRY_AFTER_S = 366 * 86_400
MAX_VALIDATOR_BYTES = 1024


class FetchClock:
    """The beginning of a fetch, and how long ago that is."""

    def __init__(self) -> None:
        self.start_time_ms = int(time.time() * 1000)
        self._start_s = time.monotonic()

    def duration_ms(self) -> int:
        """How long ago it began."""
        return int((time.monotonic() - self._start_s) * 1000)


@dataclass(frozen=True, slots=True)
class SpiderFetch:
    """How a fetch ended: with a response, as it came, or without."""

    status: int
    start_time_ms: int
    duration_ms: int
    response: Response | None = None
    notes: tuple[str, ...] = ()
    reason: str = ""  # why there is no answer, for people; empty if the status says it all


def answered(response: Response, clock: FetchClock) -> SpiderFetch:
    """A fetch that the server answered."""
    return SpiderFetch(response.status, clock.start_time_ms, clock.duration_ms(), response)


def failed(error: BaseException, clock: FetchClock) -> SpiderFetch:
    """A fetch that ended with this error."""
    if isinstance(error, StopDownload) and error.response is not None:
        return answered(error.response, clock)
    status, note = status_of(error)
    notes = (note,) if note else ()
    return SpiderFetch(
        status, clock.start_time_ms, clock.duration_ms(), notes=notes, reason=_reason_of(error)
    )


class AddressRefused(CannotResolveHostError):
    """A request was not begun: the crawl may not connect to any address of its host. The spider is told the
    address and the rule.
    """


def refused(reason: str, clock: FetchClock) -> SpiderFetch:
    """A fetch that was not begun: the crawl may not connect to any address of the host."""
    return SpiderFetch(
        REFUSED, clock.start_time_ms, clock.duration_ms(), notes=(ADDRESS_REFUSED,), reason=reason
    )


def status_of(error: BaseException) -> tuple[int, str]:
    """The fetch status that an error means, and a remark for the crawl log."""
    match error:
        case CannotResolveHostError():
            return crawl_pb2.FetchStatus.FETCH_STATUS_DOMAIN_UNRESOLVABLE, ""
        case DownloadConnectionRefusedError() | ConnectError():
            return crawl_pb2.FetchStatus.FETCH_STATUS_CONNECT_FAILED, ""
        case DownloadTimeoutError() if isinstance(error.__cause__, ConnectTimeout):
            return crawl_pb2.FetchStatus.FETCH_STATUS_CONNECT_FAILED, ""
        case DownloadTimeoutError():
            return crawl_pb2.FetchStatus.FETCH_STATUS_TIMEOUT, ""
        case DownloadFailedError():
            return _status_of_failure(error), ""
        case ResponseDataLossError() | ConnectionClosed():
            return crawl_pb2.FetchStatus.FETCH_STATUS_CONNECT_LOST, ""
        case DownloadCancelledError():
            return FAILED, "downloadCancelled"
        case NotSupported() | UnsupportedURLSchemeError():
            return REFUSED, ""
        case IgnoreRequest():
            return FAILED, "ignoredByMiddleware"
    return FAILED, type(error).__name__


def _status_of_failure(error: DownloadFailedError) -> int:
    for cause in _causes(error):
        if isinstance(cause, ParseError):
            return crawl_pb2.FetchStatus.FETCH_STATUS_PROTOCOL_ERROR
        if isinstance(cause, (SSLError, SSL.Error)):
            return crawl_pb2.FetchStatus.FETCH_STATUS_CONNECT_FAILED
    return crawl_pb2.FetchStatus.FETCH_STATUS_CONNECT_LOST


def _reason_of(error: BaseException) -> str:
    match error:
        case CannotResolveHostError():
            return ""
        case DownloadFailedError():
            return "; ".join(filter(None, map(_cause_text, _causes(error))))
        case IgnoreRequest():
            return f"a downloader middleware ignored the request: {error}".removesuffix(": ")
    if status_of(error)[0] == FAILED:
        return f"{type(error).__name__}: {error}".removesuffix(": ")
    return str(error)


def _causes(error: DownloadFailedError) -> list[BaseException]:
    """The errors that Twisted gives for a failure."""
    return [getattr(cause, "value", cause) for cause in getattr(error.__cause__, "reasons", ())]


def _cause_text(cause: BaseException) -> str:
    if isinstance(cause, ParseError):
        return ""  # its text is the data
    if isinstance(cause, SSL.Error):  # its text is a list of tuples, each with library, function and reason
        return ", ".join(each[-1] for each in cause.args[0]) if cause.args else ""
    return str(cause)


def is_retried(status: int, attempt: int, retry: crawl_pb2.RetrySpec) -> bool:
    """Whether the frontier will have a URI fetched again after this attempt, as far as the crawl's own
    settings tell: overrides may differ. `retry` is as the frontier tells it, with all defaults.
    """
    for rule in retry.statuses:
        if rule.fetch_status == status:
            return attempt < rule.max_attempts
    if status == crawl_pb2.FetchStatus.FETCH_STATUS_PROTOCOL_ERROR:
        return attempt < min(MAX_PROTOCOL_ERRORS, retry.max_attempts)
    return status in _RETRIED and attempt < retry.max_attempts


def report(lease: frontier_pb2.Lease, fetch: SpiderFetch) -> frontier_pb2.Report:
    """The report of a page."""
    report = frontier_pb2.Report(
        token=lease.token, outcome=frontier_pb2.OUTCOME_FETCHED, fetch_status=fetch.status
    )
    report.start_time.FromMilliseconds(fetch.start_time_ms)
    report.fetch_duration.FromMilliseconds(fetch.duration_ms)
    annotate(report, fetch.notes)
    report.reason = " ".join(fetch.reason.split())
    response = fetch.response
    if response is None:
        return report
    if 300 <= response.status < 400:
        report.reason = _target(response)
    report.body_bytes = len(response.body)
    report.truncation = _truncation(response)
    report.media_type = _header(response, "Content-Type").partition(";")[0].strip().lower()[:256]
    if response.status == 304:
        report.digest = lease.last_digest
    else:
        report.digest = "sha1:" + base64.b32encode(hashlib.sha1(response.body).digest()).decode()
    if not report.truncation:
        report.etag = _validator(response, "ETag")
        report.last_modified = _validator(response, "Last-Modified")
    if response.ip_address is not None:
        report.peer_address = str(response.ip_address)
    retry_after_s = _retry_after_s(response)
    if retry_after_s is not None:
        report.retry_after_duration.FromSeconds(retry_after_s)
    return report


def bare_report(lease: frontier_pb2.Lease, status: int, *notes: str, reason: str = "") -> frontier_pb2.Report:
    """The report of a lease whose fetch has nothing to tell."""
    report = frontier_pb2.Report(
        token=lease.token, outcome=frontier_pb2.OUTCOME_FETCHED, fetch_status=status, reason=reason
    )
    annotate(report, notes)
    return report


def release(lease: frontier_pb2.Lease) -> frontier_pb2.Report:
    """Hands back a lease whose fetch has not begun."""
    return frontier_pb2.Report(token=lease.token, outcome=frontier_pb2.OUTCOME_RELEASED)


def annotate(report: frontier_pb2.Report, notes: Iterable[str]) -> None:
    """Adds remarks for the crawl log, in its letters."""
    report.annotations.extend(re.sub(r"[^!-+\--~]+", "_", note)[:128] for note in notes)


def _truncation(response: Response) -> frontier_pb2.Truncation.ValueType:
    if "download_stopped" in response.flags:
        return frontier_pb2.TRUNCATION_LENGTH
    if "dataloss" in response.flags:
        return frontier_pb2.TRUNCATION_DISCONNECT
    return frontier_pb2.TRUNCATION_UNSPECIFIED


def _header(response: Response, name: str) -> str:
    value = response.headers.get(name)
    return value.decode("latin-1") if value else ""


def _target(response: Response) -> str:
    """Where an answer redirects to, as printable text; without the origin if that is the answer's own."""
    location = (response.headers.get("Location") or b"").decode(errors="replace")
    target = " ".join("".join([char if char.isprintable() else " " for char in location]).split())
    parts = urlsplit(response.url)
    origin = f"{parts.scheme}://{parts.netloc}"
    return (target.removeprefix(origin) if target.startswith(f"{origin}/") else target)[:MAX_TARGET]


def _validator(response: Response, name: str) -> str:
    value = _header(response, name)
    return value if len(value.encode()) <= MAX_VALIDATOR_BYTES else ""


def _retry_after_s(response: Response) -> int | None:
    """Seconds from now, by a Retry-After of seconds or of a date; None without one that makes sense."""
    text = _header(response, "Retry-After").strip()[:64]
    if re.fullmatch(r"[0-9]{1,10}", text):
        return min(int(text), MAX_RETRY_AFTER_S)
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return min(max(0, int(date.timestamp() - time.time()) + 1), MAX_RETRY_AFTER_S)
