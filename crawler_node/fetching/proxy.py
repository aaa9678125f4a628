"""A proxy for all fetches (RFC 9110 9.3.6 and RFC 9112 3.2.2)."""

import base64
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote_to_bytes, urlsplit

from .addresses import Unresolvable
from .answer_head import ProtocolError
from .connection import (
    ConnectFailed,
    ConnectionLost,
    DeadlinePassed,
    HostLink,
    SiteConnection,
    Stalled,
    WireLimitReached,
)
from .exchange import CONNECT, ask

_NO_ANSWER = (ConnectionLost, DeadlinePassed, Stalled, WireLimitReached, ProtocolError)


@dataclass(frozen=True, slots=True)
class Proxy:
    """The address of a proxy, and the header with our credentials for it, if we have any."""

    host: str
    port: int
    headers: tuple[tuple[bytes, bytes], ...]

    @classmethod
    @lru_cache(maxsize=100)
    def parse(cls, text: str) -> "Proxy":
        """Reads http://HOST:PORT or http://USER:PASSWORD@HOST:PORT.

        Raises ValueError, whose message does not show the password.
        """
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError:
            parts, port = urlsplit(""), None
        if parts.scheme != "http" or not parts.hostname or not port:
            shown = text.rpartition("@")[2][:80]
            raise ValueError(
                f"proxy must be http://HOST:PORT or http://USER:PASSWORD@HOST:PORT, got {shown!r}"
            )
        headers: tuple[tuple[bytes, bytes], ...] = ()
        if parts.username is not None:
            login = unquote_to_bytes(parts.username) + b":" + unquote_to_bytes(parts.password or "")
            headers = ((b"Proxy-Authorization", b"Basic " + base64.b64encode(login)),)
        return cls(parts.hostname, port, headers)

    def connect(self, link: HostLink, host: str) -> SiteConnection:
        """Connects to the proxy on behalf of a host.

        The proxy may have any address, as an operator chose it. The host must be allowed as far as its URI
        tells (see HostLink.vet), as the proxy looks up its name. Raises AddressRefused, ConnectFailed.
        """
        link.vet(host)
        try:
            connection = link.connect(self.host, self.port, as_configured=True)
        except (Unresolvable, ConnectFailed) as problem:
            reason = problem.reason or f"{self.host}: name not found"
            raise ConnectFailed(f"proxy {problem}", f"proxy {reason}") from problem
        link.peer = None  # the address is not the host's
        return connection

    def tunnel(self, connection: SiteConnection, host: bytes, port: int) -> None:
        """Asks the proxy for a tunnel to a host. Raises ConnectFailed."""
        authority = (b"[%s]:%d" if b":" in host else b"%s:%d") % (host, port)
        try:
            answer = ask(connection, CONNECT, authority, [(b"Host", authority), *self.headers])
        except _NO_ANSWER as problem:
            raise ConnectFailed(f"proxy: {problem}", f"proxy: {problem.reason}") from problem
        if not 200 <= answer.status < 300:
            raise ConnectFailed(
                f"proxy: CONNECT answered {answer.status}",
                f"the proxy answered CONNECT with {answer.status}",
            )
