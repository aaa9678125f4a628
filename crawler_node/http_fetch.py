"""HttpFetcher: the Fetcher over HTTP/1.1, with httpx on top of the Link of each fetch."""

import base64
import hashlib
import re
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import BinaryIO, TypeAlias, cast

import can_ada
import httpcore
import httpx

from .addresses import Resolver
from .connection import Cancellation, Cancelled, ConnectionLost, DeadlinePassed, Link, WireLimitReached
from .fetch import MAX_ROBOTS_REDIRECTS, NO_VALIDATORS, Fetch, FetchPolicy, Validators
from .links import resolve
from .outcome import Status, Truncation, note, status_of

MAX_HEAD_BYTES = 256 * 1024
"""Most bytes until an answer's head is complete, interim answers included; h11 holds one head to 100 KiB."""

SPOOL_BYTES = 1024 * 1024
"""The part of a body that is kept in memory; a longer body goes to a temporary file."""

ACCEPTED_CODINGS = b"gzip, deflate"

_Header: TypeAlias = tuple[bytes, bytes]
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class HttpFetcher:
    """The Fetcher over httpx.

    Each fetch has a connection of its own, which is closed after it (`Connection: close`, as Heritrix
    does): politeness keeps two fetches of a host seconds apart, a server's idle connections are its own
    again, and a connection that one rule of addresses allowed can never serve another.

    `ca_file` names further trusted certificates (PEM), beside the system's and those that httpx ships.
    Bodies that do not fit in memory are kept in `spool_directory` (the system's temporary folder by
    default). Raises ValueError when the certificates cannot be read.
    """

    def __init__(
        self, resolver: Resolver, *, ca_file: Path | None = None, spool_directory: Path | None = None
    ) -> None:
        self._resolver = resolver
        self._spool_directory = None if spool_directory is None else str(spool_directory)
        # None of its own ideas: no proxies from the environment, cookies, credentials or redirects.
        self._client = httpx.Client(
            transport=_Transport(_trust(ca_file)), trust_env=False, follow_redirects=False, timeout=None
        )
        self._lock = threading.Lock()
        self._running: set[Cancellation] = set()
        self._closed = False

    def fetch(
        self,
        uri: str,
        policy: FetchPolicy,
        cancellation: Cancellation | None = None,
        validators: Validators = NO_VALIDATORS,
    ) -> Fetch:
        with self._in_flight(cancellation) as cut:
            return self._fetch(uri, policy, cut, _deadline_s(policy), _conditions(validators))

    def fetch_robots(self, uri: str, policy: FetchPolicy, cancellation: Cancellation | None = None) -> Fetch:
        deadline_s = _deadline_s(policy)
        hops: list[Fetch] = []
        with self._in_flight(cancellation) as cut:
            fetch = self._fetch(uri, policy, cut, deadline_s)
            while fetch.redirect_target is not None and len(hops) < MAX_ROBOTS_REDIRECTS:
                hops.append(fetch)
                fetch = self._fetch(fetch.redirect_target, policy, cut, deadline_s)
        fetch.hops = tuple(hops)
        fetch.redirects_exhausted = fetch.redirect_target is not None
        return fetch

    def interrupt(self) -> None:
        with self._lock:
            running = list(self._running)
        for cancellation in running:
            cancellation.cancel()

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self.interrupt()
        self._client.close()

    def _fetch(
        self,
        uri: str,
        policy: FetchPolicy,
        cancellation: Cancellation,
        deadline_s: float,
        conditions: Sequence[_Header] = (),
    ) -> Fetch:
        fetch = Fetch(uri, start_time_ms=time.time_ns() // 1_000_000, conditional=bool(conditions))
        started_s = time.monotonic()
        link = Link(self._resolver, policy.addresses, deadline_s, cancellation, MAX_HEAD_BYTES)
        try:
            self._exchange(fetch, policy, link, conditions)
        except MemoryError:
            fetch.close()
            raise
        except Exception as error:  # whatever it is, it is this fetch's outcome and nobody else's
            # After a cut the error is the cut itself, whatever it looks like.
            fetch.status = status_of(Cancelled() if cancellation.cancelled else error)
            if fetch.status == Status.RUNTIME_EXCEPTION:
                fetch.error = error
            fetch.redirect_target = None
            fetch.annotations += (note(f"{type(error).__name__}:{error}"),)
        fetch.peer_address = link.peer
        fetch.duration_ms = round((time.monotonic() - started_s) * 1000)
        return fetch

    @contextmanager
    def _in_flight(self, cancellation: Cancellation | None) -> Iterator[Cancellation]:
        """Keeps a fetch's cancellation, or a new one, at hand for `interrupt`."""
        cancellation = cancellation or Cancellation()
        with self._lock:
            self._running.add(cancellation)
            if self._closed:
                cancellation.cancel()
        try:
            yield cancellation
        finally:
            with self._lock:
                self._running.discard(cancellation)

    def _exchange(self, fetch: Fetch, policy: FetchPolicy, link: Link, conditions: Sequence[_Header]) -> None:
        target = _Target.of(fetch.uri)
        headers = [
            (b"Host", target.authority.encode("ascii")),
            (b"User-Agent", policy.user_agent.encode("ascii")),
            (b"Accept", b"*/*"),
            (b"Accept-Encoding", ACCEPTED_CODINGS),
            *conditions,
            (b"Connection", b"close"),
        ]
        companions = {"target": target, "link": link}
        request = httpx.Request("GET", target.uri, headers=headers, extensions=companions)
        fetch.request_head = _head(b"GET %s HTTP/1.1" % target.path, request.headers.raw)
        response = self._client.send(request, stream=True)
        try:
            _take_head(fetch, response)
            # Chunks cost bytes beside the body's; as many again are more than any honest server needs.
            link.wire_limit = link.received + 2 * policy.max_bytes + MAX_HEAD_BYTES
            self._take_body(fetch, response, policy.max_bytes)
        finally:
            response.close()

    def _take_body(self, fetch: Fetch, response: httpx.Response, max_bytes: int) -> None:
        spool = SpooledTemporaryFile(SPOOL_BYTES, dir=self._spool_directory)  # noqa: SIM115 (Fetch.close)
        fetch.body = cast(BinaryIO, spool)
        digest = hashlib.sha1(usedforsecurity=False)
        try:
            for chunk in response.iter_raw():
                piece = chunk[: max_bytes - fetch.body_bytes]
                fetch.body.write(piece)
                digest.update(piece)
                fetch.body_bytes += len(piece)
                if len(piece) < len(chunk):
                    _truncate(fetch, Truncation.LENGTH, "lenTrunc")
                    break
        except WireLimitReached:
            _truncate(fetch, Truncation.LENGTH, "lenTrunc")
        except DeadlinePassed:
            _truncate(fetch, Truncation.TIME, "timeTrunc")
        except (ConnectionLost, httpcore.RemoteProtocolError):
            fetch.truncation = Truncation.DISCONNECT
            raise
        finally:
            fetch.digest = "sha1:" + base64.b32encode(digest.digest()).decode("ascii")


class _Transport(httpx.BaseTransport):
    """Carries a request over a connection of its own, opened by the Link that the request brings along.

    httpx sees an answer without headers: it would act on Set-Cookie, and refuse a whole answer for a
    Location that it cannot read.
    """

    def __init__(self, trust: ssl.SSLContext) -> None:
        self._trust = trust

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        target: _Target = request.extensions["target"]
        url = httpcore.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path)
        connection = httpcore.HTTPConnection(
            url.origin, ssl_context=self._trust, network_backend=request.extensions["link"]
        )
        try:
            answer = connection.handle_request(httpcore.Request("GET", url, headers=request.headers.raw))
            if answer.status < 200:
                raise httpcore.RemoteProtocolError(f"status {answer.status}, which nobody asked for")
        except BaseException:
            connection.close()
            raise
        return httpx.Response(
            answer.status,
            stream=_Body(answer, connection),
            extensions={**answer.extensions, "headers": answer.headers},
        )


class _Body(httpx.SyncByteStream):
    def __init__(self, answer: httpcore.Response, connection: httpcore.HTTPConnection) -> None:
        self._answer = answer
        self._connection = connection

    def __iter__(self) -> Iterator[bytes]:
        return self._answer.iter_stream()

    def close(self) -> None:
        self._answer.close()
        self._connection.close()


@dataclass(frozen=True, slots=True)
class _Target:
    """The parts of a URI that a request is made of. By the same parser as everywhere: httpx has one of its
    own, which quotes more."""

    uri: str
    scheme: bytes
    host: bytes  # without brackets
    port: int
    authority: str
    path: bytes

    @classmethod
    def of(cls, uri: str) -> "_Target":
        """Raises httpx.UnsupportedProtocol."""
        try:
            url = can_ada.parse(uri)
        except (ValueError, TypeError) as problem:
            raise httpx.UnsupportedProtocol("not an absolute URI") from problem
        scheme = url.protocol[:-1]
        if scheme not in ("http", "https"):
            raise httpx.UnsupportedProtocol(f"scheme {scheme} is not fetched")
        url.hash = ""
        url.username = url.password = ""  # httpx would send them
        return cls(
            uri=url.href,
            scheme=scheme.encode("ascii"),
            host=url.hostname.strip("[]").encode("ascii"),
            port=int(url.port or ("443" if scheme == "https" else "80")),
            authority=url.host,
            path=(url.pathname + url.search).encode("ascii"),
        )


def _conditions(validators: Validators) -> list[_Header]:
    """The headers that ask with validators; none for what no header can carry."""
    asked = ((b"If-None-Match", validators.etag), (b"If-Modified-Since", validators.last_modified))
    return [(name, value.encode("latin-1")) for name, value in asked if _HEADER_VALUE.fullmatch(value)]


def _take_head(fetch: Fetch, response: httpx.Response) -> None:
    headers: list[tuple[bytes, bytes]] = response.extensions["headers"]
    version, reason = response.extensions["http_version"], response.extensions["reason_phrase"]
    fetch.headers = headers
    fetch.status = response.status_code
    fetch.response_head = _head(
        b"%s %d %s" % (version, response.status_code, reason),
        [(name, value) for name, value in headers if name.lower() != b"transfer-encoding"],
    )
    if fetch.status in _REDIRECTS:
        location = next((value for name, value in headers if name.lower() == b"location"), None)
        if location is not None:
            fetch.redirect_target = resolve(fetch.uri, _text(location))
    if fetch.status > 599:
        fetch.annotations += (f"status:{fetch.status}",)
        fetch.status = 500


def _head(first_line: bytes, headers: list[tuple[bytes, bytes]]) -> bytes:
    lines = [first_line, *(b"%s: %s" % each for each in headers), b"", b""]
    return b"\r\n".join(lines)


def _truncate(fetch: Fetch, truncation: Truncation, annotation: str) -> None:
    fetch.truncation = truncation
    fetch.annotations += (annotation,)


def _text(header: bytes) -> str:
    try:
        return header.decode("utf-8")
    except UnicodeDecodeError:
        return header.decode("latin-1")


def _deadline_s(policy: FetchPolicy) -> float:
    return time.monotonic() + policy.timeout_ms / 1000


def _trust(ca_file: Path | None) -> ssl.SSLContext:
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except OSError as problem:  # SSLError is one
            raise ValueError(f"certificates in {str(ca_file)!r} cannot be read: {problem}") from problem
    return context


# What h11 takes, and the servers whose headers it read sent.
_HEADER_VALUE = re.compile(r"[!-~\x80-\xff]([ \t!-~\x80-\xff]*[!-~\x80-\xff])?")
