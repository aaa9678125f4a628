"""Transport: carries one request over a connection, directly or through a proxy.

It is a transport of httpx, and a fetch uses little else of httpx: the forms of a request, a response and its
body, the check of a host's name when a site's URL is read, two errors for URIs that cannot be fetched, and
in `trust` the TLS context with the certificates that httpx ships. Everything on the wire is the node's own:
`connection` opens the socket to the vetted address, `exchange` writes the request and reads the head,
`framing` finds the end of the body, and `decode` decodes it. docs/dependencies.md says why.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import can_ada
import httpx

from ..meter import PageStage
from .answer_head import Header
from .connection import ConnectFailed, ConnectionLost, HostLink, SiteConnection
from .exchange import GET, Answer, ask
from .kept import ConnectionKey, KeptConnections
from .proxy import Proxy
from .trust import Trust

PROXY_AUTHENTICATION_REQUIRED = 407

MAX_SITES = 1000

_NO_BODY = httpx.ByteStream(b"")
_site = lru_cache(MAX_SITES)(httpx.URL)
"""The URL of a site for httpx, cached as httpx takes long to parse it. The Target has the path."""


@dataclass(frozen=True, slots=True)
class FetchTarget:
    """The parts of a URI that make a request, from the same parser as everywhere: that of httpx quotes
    more."""

    uri: str
    scheme: str
    host: str  # without brackets
    port: int
    authority: str
    path: str  # with the query

    @classmethod
    def of(cls, uri: str) -> "FetchTarget":
        """Raises httpx.UnsupportedProtocol."""
        try:
            url = can_ada.parse(uri)
        except (ValueError, TypeError) as problem:
            raise httpx.UnsupportedProtocol("not an absolute URI") from problem
        scheme = url.protocol[:-1]
        if scheme not in ("http", "https"):
            raise httpx.UnsupportedProtocol(f"the scheme must be http or https, got {scheme}")
        url.hash = ""
        url.username = url.password = ""  # a page's links must not say who we are
        return cls(
            uri=url.href,
            scheme=scheme,
            host=url.hostname.strip("[]"),
            port=int(url.port or ("443" if scheme == "https" else "80")),
            authority=url.host,
            path=url.pathname + url.search,
        )

    @property
    def is_https(self) -> bool:
        return self.scheme == "https"

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    def request(
        self, headers: Sequence[Header], link: HostLink, proxy: Proxy | None, key: ConnectionKey | None
    ) -> httpx.Request:
        """A GET request for the Transport, by way of the link. Its connection is kept for requests with the
        same key; without one it is closed."""
        companions = {"target": self, "link": link, "proxy": proxy, "key": key}
        url = _site(f"{self.scheme}://{self.authority}/")
        return httpx.Request("GET", url, headers=headers, stream=_NO_BODY, extensions=companions)


class Transport(httpx.BaseTransport):
    """Carries a Target's request over a connection that its link opens, or that was kept. Closing the
    response closes it, or keeps it.

    A connection that was kept and is lost before any byte of the answer was probably closed while the request
    was on its way. So the request goes out once more, over a new one (RFC 9112 9.3.1), after the host's rest:
    there are servers that hang up at the second request, and have seen it.

    The headers are in the Answer in the response's extensions: httpx would parse them all again. Raises the
    errors of `connection` and `exchange`. Thread-safe.
    """

    def __init__(self, ca_file: Path | None) -> None:
        """`ca_file` names trusted certificates (PEM). Raises ValueError when it cannot be read."""
        self._trust = Trust(ca_file)
        self._kept = KeptConnections()

    def close(self) -> None:
        """Closes the connections that are kept. Later ones are not."""
        self._kept.close()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        target: FetchTarget = request.extensions["target"]
        link: HostLink = request.extensions["link"]
        proxy: Proxy | None = request.extensions["proxy"]
        key: ConnectionKey | None = request.extensions["key"]
        response = None if key is None else self._asked_again(request, target, link, key)
        if response is not None:
            return response
        connection = proxy.connect(link, target.host) if proxy else link.connect(target.host, target.port)
        try:
            if target.is_https:
                if proxy is not None:
                    proxy.tunnel(connection, target.host.encode("ascii"), target.port)
                    proxy = None  # from here on the proxy sees no requests
                with link.timed(PageStage.TLS):
                    connection.start_tls(self._trust, target.host)
            with link.timed(PageStage.HEAD):
                answer = _ask(connection, target, proxy, request.headers.raw)
        except BaseException:
            connection.close()
            raise
        return _response(answer, _Body(answer, connection, self._kept, key))

    def _asked_again(
        self, request: httpx.Request, target: FetchTarget, link: HostLink, key: ConnectionKey
    ) -> httpx.Response | None:
        """The answer over a connection that was kept, if there is one, and it was of use."""
        kept = self._kept.take(key)
        connection = None if kept is None else link.resume(kept, target.host, target.port)
        if connection is None:
            return None
        try:
            with link.timed(PageStage.HEAD):
                answer = _ask(connection, target, None, request.headers.raw)
        except ConnectionLost:
            connection.close()
            self._kept.distrust(key)
            if link.received or not link.rest():
                raise
            return None
        except BaseException:
            connection.close()
            raise
        return _response(answer, _Body(answer, connection, self._kept, key))


def _ask(
    connection: SiteConnection, target: FetchTarget, proxy: Proxy | None, headers: list[Header]
) -> Answer:
    """Sends the request to the target, or to a proxy that fetches it for us. Returns the answer."""
    path = target.path
    if proxy is not None:
        headers, path = [*headers, *proxy.headers], target.uri
    answer = ask(connection, GET, path.encode("ascii"), headers)
    if answer.status == PROXY_AUTHENTICATION_REQUIRED and proxy is not None:
        raise ConnectFailed("proxy: answered 407", "the proxy wants other credentials (407)")
    return answer


def _response(answer: Answer, body: "_Body") -> httpx.Response:
    return httpx.Response(answer.status, stream=body, extensions={"answer": answer})


class _Body(httpx.SyncByteStream):
    """The body of an answer. Closing it closes the connection, or lets it wait for requests with a key."""

    def __init__(
        self, answer: Answer, connection: SiteConnection, kept: KeptConnections, key: ConnectionKey | None
    ) -> None:
        self._answer = answer
        self._connection = connection
        self._kept = kept
        self._key = key

    def __iter__(self) -> Iterator[bytes]:
        return self._answer.body()

    def close(self) -> None:
        if self._key is None:
            self._connection.close()
            return
        idle_s = self._answer.idle_s()
        if idle_s:
            self._connection.keep(self._kept, self._key, idle_s)
        else:
            self._connection.close()
