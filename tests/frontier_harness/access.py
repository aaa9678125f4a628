"""An installation whose frontier knows its callers: their file, their tokens, and certificates."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from toehold_base.access.tokens import AUTHORIZATION, bearer
from toehold_cli.access.authority import Authority
from toehold_cli.access.registry import Registry

from .calls import Stubs


class Installation:
    """Callers and certificates in a directory."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.callers = directory / "callers.toml"
        self.registry = Registry(self.callers)
        self.certs = directory / "certs"
        self.authority = Authority(self.certs)

    def caller(self, name: str, *roles: str, **settings: Any) -> str:
        """Add a caller; a token of it."""
        self.registry.set_caller(name, {"roles": list(roles), **settings})
        return self.token(name)

    def token(self, name: str) -> str:
        return self.registry.create_token(name, None).text

    def cert(self, name: str, *hosts: str, days: int = 1, renew: bool = False) -> tuple[Path, Path]:
        """A certificate and its key."""
        cert = self.authority.issue(name, hosts, days, renew=renew).cert
        return cert, cert.with_suffix(".key")

    def flags(self, *, mutual: bool = True) -> list[str]:
        """The flags of a frontier that has the certificate `frontier`."""
        cert, key = self.certs / "frontier.crt", self.certs / "frontier.key"
        own = ["--tls-cert", str(cert), "--tls-key", str(key), "--callers", str(self.callers)]
        return [*own, "--tls-ca", str(self.authority.cert)] if mutual else own

    def channel_credentials(self, name: str = "") -> grpc.ChannelCredentials:
        """Those of a client, with the certificate of a caller."""
        authority = self.authority.cert.read_bytes()
        if not name:
            return grpc.ssl_channel_credentials(authority)
        cert = self.certs / f"{name}.crt"
        return grpc.ssl_channel_credentials(
            authority, cert.with_suffix(".key").read_bytes(), cert.read_bytes()
        )


class _Call(NamedTuple):
    method: str
    timeout: float | None
    metadata: Any
    credentials: grpc.CallCredentials | None
    wait_for_ready: bool | None
    compression: grpc.Compression | None


class _Bearer(
    grpc.UnaryUnaryClientInterceptor,
    grpc.UnaryStreamClientInterceptor,
    grpc.StreamUnaryClientInterceptor,
):
    def __init__(self, authorization: str) -> None:
        self._metadata = ((AUTHORIZATION, authorization),)

    def _sent(self, continuation: Any, call: Any, request: Any) -> Any:
        sent = _Call(
            call.method, call.timeout, self._metadata, call.credentials, call.wait_for_ready, call.compression
        )
        return continuation(sent, request)

    def intercept_unary_unary(self, continuation: Any, call: Any, request: Any) -> Any:
        return self._sent(continuation, call, request)

    def intercept_unary_stream(self, continuation: Any, call: Any, request: Any) -> Any:
        return self._sent(continuation, call, request)

    def intercept_stream_unary(self, continuation: Any, call: Any, requests: Any) -> Any:
        return self._sent(continuation, call, requests)


@contextmanager
def bearer_channel(
    address: str, token: str = "", credentials: grpc.ChannelCredentials | None = None
) -> Iterator[grpc.Channel]:
    """A channel of somebody with this token, or certificate."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    if credentials is None:
        channel = grpc.insecure_channel(address, options=options)
    else:
        channel = grpc.secure_channel(address, credentials, options=options)
    with channel:
        yield grpc.intercept_channel(channel, _Bearer(bearer(token))) if token else channel


@contextmanager
def stubs_of(
    address: str, token: str = "", credentials: grpc.ChannelCredentials | None = None
) -> Iterator[Stubs]:
    """The services of a frontier for somebody with this token, or certificate."""
    with bearer_channel(address, token, credentials) as channel:
        yield Stubs(channel)
