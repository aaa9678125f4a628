"""HttpFetcher: the Fetcher over HTTP/1.1."""

import hashlib
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import BinaryIO, cast

import httpx

from ..meter import PageStage
from .addresses import Resolver
from .answer_head import Header, ProtocolError
from .authentication import authorization
from .cancellation import Cancellation, Cancelled
from .connection import ConnectionLost, DeadlinePassed, HostLink, Stalled, WireLimitReached
from .cookies import CookieJars, Cookies
from .exchange import Answer, head
from .fetch import (
    MAX_ROBOTS_BYTES,
    MAX_ROBOTS_REDIRECTS,
    NO_VALIDATORS,
    NOT_MODIFIED,
    FetchPolicy,
    FetchResult,
    Validators,
    digest_text,
)
from .kept import IDLE_S, ConnectionKey
from .outcome import Status, Truncation, note, reason_of, status_of
from .proxy import Proxy
from .references import reference_of, resolve
from .throttle import Throttle
from .transport import FetchTarget, Transport

MAX_HEAD_BYTES = 300 * 1024
"""The most bytes of an answer's head, interim answers included; curl takes as many."""

SPOOL_BYTES = 1024 * 1024
"""How much of a body is kept in memory; a longer body goes to a temporary file."""

UNAUTHORIZED = 401

COOKIES_IGNORED = "cookiesIgnored"
"""Annotates a redirect that sets a cookie, if the crawl keeps none: it may be a cookie wall."""

ACCEPTED_CODINGS = b"gzip, deflate"

_REDIRECTS = frozenset({300, 301, 302, 303, 307, 308})  # with 300, the choice that the server prefers
_WITHOUT_BODY = frozenset({204, NOT_MODIFIED})


@dataclass(frozen=True, slots=True)
class _FetchTask:
    """The common part of a fetch's exchanges. It has several if the server asks for credentials, and for the
    redirects of a robots.txt."""

    uri: str  # of the first exchange
    policy: FetchPolicy
    crawl: str
    cancellation: Cancellation
    deadline_s: float
    conditions: Sequence[Header] = ()
    via: str = ""
    is_robots: bool = False


class HttpFetcher:
    """The Fetcher over HTTP/1.1, with a transport of httpx (see `transport`).

    A connection is kept for the next fetch of its crawl and server, if the policy says so (see `kept`).
    Otherwise it is closed after one exchange, and the request says so (`Connection: close`, as in Heritrix).

    `ca_file` names trusted certificates (PEM), in addition to the system's and those that httpx ships. Long
    bodies go to `spool_directory` (by default the system's temporary folder). All fetches together read at
    most `max_bytes_per_second` of bodies (0: no limit), in equal shares. Raises ValueError when the
    certificates cannot be read. `cookies` are those of all crawls; by default they are kept in this process.
    """

    def __init__(
        self,
        resolver: Resolver,
        *,
        ca_file: Path | None = None,
        spool_directory: Path | None = None,
        max_bytes_per_second: int = 0,
        cookies: Cookies | None = None,
    ) -> None:
        self._resolver = resolver
        self._spool_directory = None if spool_directory is None else str(spool_directory)
        self._transport = Transport(ca_file)
        self._throttles = (Throttle(max_bytes_per_second),) if max_bytes_per_second else ()
        self._cookies = CookieJars() if cookies is None else cookies

    def close(self) -> None:
        """Closes the connections that are kept. Fetches that are under way go on."""
        self._transport.close()

    def fetch(
        self,
        uri: str,
        policy: FetchPolicy,
        cancellation: Cancellation | None = None,
        validators: Validators = NO_VALIDATORS,
        crawl: str = "",
        via: str = "",
    ) -> FetchResult:
        task = _FetchTask(
            uri,
            policy,
            crawl,
            cancellation or Cancellation(),
            _deadline_s(policy),
            _conditions(validators),
            via,
        )
        return self._fetch(uri, task)

    def cookie_mark(self, uri: str, policy: FetchPolicy, crawl: str) -> bytes:
        if not policy.cookies:
            return b""
        target = FetchTarget.of(uri)
        return self._cookies.header(crawl, target.host, target.path, https=target.is_https).mark

    def fetch_robots(
        self, uri: str, policy: FetchPolicy, cancellation: Cancellation | None = None, crawl: str = ""
    ) -> FetchResult:
        task = _FetchTask(
            uri, policy, crawl, cancellation or Cancellation(), _deadline_s(policy), is_robots=True
        )
        hops: list[FetchResult] = []
        fetch = self._fetch(uri, task)
        for _ in range(MAX_ROBOTS_REDIRECTS):
            if fetch.redirect_target is None:
                break
            hops.append(fetch)
            fetch = self._fetch(fetch.redirect_target, task)
        fetch.hops = tuple(hops)
        return fetch

    def _fetch(self, uri: str, task: _FetchTask) -> FetchResult:
        """Requests a URI, and once more with credentials if the server asks for them."""
        fetch = self._exchange(uri, task)
        if fetch.status == UNAUTHORIZED and task.policy.user:
            credentials = _credentials(fetch, task)
            if credentials is not None:
                fetch.close()
                refused, fetch = fetch, self._exchange(uri, task, credentials)
                fetch.annotations = ("credentialsSent", *fetch.annotations)
                fetch.connections = refused.connections + fetch.connections
                fetch.handshakes += refused.handshakes
        return fetch

    def _exchange(self, uri: str, task: _FetchTask, credentials: bytes | None = None) -> FetchResult:
        policy = task.policy
        fetch = FetchResult(uri, start_time_ms=time.time_ns() // 1_000_000, conditional=bool(task.conditions))
        started_s = time.monotonic()
        throttles = self._throttles
        if policy.max_bytes_per_second:
            throttles = (Throttle(policy.max_bytes_per_second), *throttles)
        link = HostLink(
            self._resolver,
            policy.addresses,
            task.cancellation,
            deadline_s=task.deadline_s,
            timeout_s=policy.timeout_ms / 1000,
            connect_s=policy.connect_timeout_ms / 1000,
            read_s=policy.read_timeout_ms / 1000,
            wire_limit=MAX_HEAD_BYTES,
            throttles=throttles,
            rest_s=policy.min_delay_ms / 1000,
        )
        try:
            self._converse(fetch, task, link, credentials)
        except MemoryError:
            fetch.close()
            raise
        except Exception as error:  # any error is this fetch's outcome, and must not end its thread
            # After a cut any error is the effect of the cut.
            cause = Cancelled() if task.cancellation.cancelled else error
            fetch.status, fetch.reason = status_of(cause), reason_of(cause)
            if fetch.status == Status.RUNTIME_EXCEPTION:
                fetch.error = error
            fetch.redirect_target = None
            fetch.annotations += (note(f"{type(error).__name__}:{error}"),)
        fetch.peer_address = link.peer
        fetch.connecting_ns = link.connecting_ns
        fetch.connections, fetch.handshakes = link.uses, link.handshakes
        fetch.received_bytes, fetch.took_s = link.received, link.took_s
        fetch.duration_ms = round((time.monotonic() - started_s) * 1000)
        return fetch

    def _converse(
        self, fetch: FetchResult, task: _FetchTask, link: HostLink, credentials: bytes | None
    ) -> None:
        policy = task.policy
        target = FetchTarget.of(fetch.uri)
        headers = [
            (b"Host", target.authority.encode("ascii")),
            (b"User-Agent", policy.user_agent.encode("ascii")),
            *_wishes(task, target),
            (b"Accept-Encoding", ACCEPTED_CODINGS),
            *task.conditions,
        ]
        key = ConnectionKey(task.crawl, policy.policy_id, *target.origin) if _may_keep(policy) else None
        if key is None:
            headers.append((b"Connection", b"close"))
        if policy.cookies:
            cookies = self._cookies.header(task.crawl, target.host, target.path, https=target.is_https)
            if cookies.text:
                headers.append((b"Cookie", cookies.text))
            fetch.cookie_mark = cookies.mark
        shown = list(headers)
        if credentials is not None:
            headers.append((b"Authorization", credentials))
            shown.append((b"Authorization", credentials.partition(b" ")[0] + b" *"))
        fetch.request_head = head(b"GET %s HTTP/1.1" % target.path.encode("ascii"), shown)
        proxy = Proxy.parse(policy.proxy) if policy.proxy else None
        response = self._transport.handle_request(target.request(headers, link, proxy, key))
        try:
            answer: Answer = response.extensions["answer"]
            _take_head(fetch, answer)
            redirects = fetch.redirect_target is not None and not task.is_robots
            if policy.cookies:
                lines = _set_cookies(fetch)
                self._cookies.take(task.crawl, target.host, target.path, lines, https=target.is_https)
            elif redirects and _set_cookies(fetch):
                fetch.annotations += (COOKIES_IGNORED,)
            if not task.is_robots and _is_unwanted(fetch, policy, answer.announced):
                fetch.truncation = Truncation.FILTER
                fetch.digest = digest_text(hashlib.sha1(usedforsecurity=False))
                return
            # Chunks add bytes to the body's; no honest server needs as many again.
            max_bytes = MAX_ROBOTS_BYTES if task.is_robots else policy.max_bytes
            link.wire_limit = link.received + 2 * max_bytes + MAX_HEAD_BYTES
            with link.timed(PageStage.BODY):
                self._take_body(fetch, response, max_bytes, link)
        finally:
            response.close()

    def _take_body(
        self, fetch: FetchResult, response: httpx.Response, max_bytes: int, link: HostLink
    ) -> None:
        spool = SpooledTemporaryFile(SPOOL_BYTES, dir=self._spool_directory)  # noqa: SIM115 (FetchResult.close)
        fetch.body = cast(BinaryIO, spool)
        digest = hashlib.sha1(usedforsecurity=False)
        try:
            for chunk in cast(httpx.SyncByteStream, response.stream):
                piece = chunk[: max_bytes - fetch.body_bytes]
                fetch.body.write(piece)
                digest.update(piece)
                fetch.body_bytes += len(piece)
                if len(piece) < len(chunk):
                    fetch.truncation = Truncation.LENGTH
                    break
                link.pay(len(chunk))
        except WireLimitReached:
            fetch.truncation = Truncation.LENGTH
        except (DeadlinePassed, Stalled, ConnectionLost, ProtocolError) as error:
            link.cancellation.check()  # a cut looks like a lost connection
            if isinstance(error, ProtocolError) and not fetch.body_bytes:
                raise  # no part of the body can be read
            # The head came, so there is an answer: its status, its head and the body so far count.
            is_late = isinstance(error, DeadlinePassed | Stalled)
            fetch.truncation = Truncation.TIME if is_late else Truncation.DISCONNECT
            fetch.reason = error.reason
            fetch.annotations += (note(f"{type(error).__name__}:{error}"),)
        finally:
            fetch.digest = digest_text(digest)


def _conditions(validators: Validators) -> list[Header]:
    """The headers that carry validators, without values that no header can carry."""
    conditions = ((b"If-None-Match", validators.etag), (b"If-Modified-Since", validators.last_modified))
    return [(name, value.encode("latin-1")) for name, value in conditions if _HEADER_VALUE.fullmatch(value)]


def _wishes(task: _FetchTask, target: FetchTarget) -> list[Header]:
    """Accept, the policy's further headers, and Referer: what the site's own origin is asked with."""
    policy, everything = task.policy, (b"Accept", b"*/*")
    if _is_elsewhere(task, target):
        return [everything]
    headers = list(policy.headers)
    if all(name.lower() != b"accept" for name, _ in headers):
        headers.insert(0, everything)
    if policy.referer and _may_tell(task.via, target):
        headers.append((b"Referer", task.via.encode("ascii")))
    return headers


def _is_elsewhere(task: _FetchTask, target: FetchTarget) -> bool:
    """Whether a robots.txt was redirected to another origin, which must get nothing that is for the first."""
    return task.is_robots and target.origin != FetchTarget.of(task.uri).origin


def _may_tell(via: str, target: FetchTarget) -> bool:
    """Whether a site may learn on which page it was found (RFC 9110 10.1.3)."""
    if not via.startswith(("http://", "https://") if target.is_https else "http://"):
        return False
    return via.isascii() and _HEADER_VALUE.fullmatch(via) is not None


def _set_cookies(fetch: FetchResult) -> list[bytes]:
    """The Set-Cookie headers of an answer."""
    return [value for name, value in fetch.headers if name.lower() == b"set-cookie"]


def _take_head(fetch: FetchResult, answer: Answer) -> None:
    headers = answer.head.headers
    fetch.headers = headers
    fetch.status = answer.status
    fetch.response_head = answer.head.raw
    if answer.is_chunked:
        fetch.response_head = answer.head.raw_without(b"transfer-encoding")
    if answer.has_ambiguous_length:
        fetch.annotations += ("ambiguousLength",)
    if not answer.head.is_whole:
        fetch.annotations += ("headTrunc",)
    if fetch.status in _REDIRECTS:
        location = next((value for name, value in headers if name.lower() == b"location"), None)
        if location is not None:
            fetch.redirect_target = resolve(fetch.uri, reference_of(location))


def _is_unwanted(fetch: FetchResult, policy: FetchPolicy, announced: int | None) -> bool:
    """Whether the policy leaves the body of this answer unread."""
    if not policy.is_selective or fetch.status in _WITHOUT_BODY:
        return False
    return announced != 0 and not policy.wants(fetch.media_type, announced)


def _may_keep(policy: FetchPolicy) -> bool:
    """Whether connections may wait for the next fetch: none does at a proxy, or for longer than IDLE_S."""
    return policy.keep_alive and not policy.proxy and policy.min_delay_ms <= 1000 * IDLE_S


def _credentials(fetch: FetchResult, task: _FetchTask) -> bytes | None:
    """The credentials for a 401; None if its challenge is not understood, or comes from another origin."""
    target = FetchTarget.of(fetch.uri)
    if _is_elsewhere(task, target):
        return None
    challenges = [value for name, value in fetch.headers if name.lower() == b"www-authenticate"]
    return authorization(challenges, task.policy.user, task.policy.password, target.path)


def _deadline_s(policy: FetchPolicy) -> float:
    return time.monotonic() + policy.timeout_ms / 1000


# The values that a request's header may have (RFC 9110 5.5).
_HEADER_VALUE = re.compile(r"[!-~\x80-\xff]([ \t!-~\x80-\xff]*[!-~\x80-\xff])?")
