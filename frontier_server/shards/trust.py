"""How the processes of a cluster know each other: by mutual TLS and a token between machines."""

import hmac
import ssl
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import grpc
import msgspec

from toehold_base.access.pem import TlsUnusable, check_pair, check_valid, read_authority

TOKEN_KEY = "toehold-cluster"  # the name of a header


class Trust(msgspec.Struct, frozen=True):
    """How the processes of a cluster know each other on the network."""

    token: str = ""
    cert: Path | None = None
    key: Path | None = None
    ca: Path | None = None
    tls_name: str = ""
    """The name in all certificates; empty: each has that of its machine."""

    def name_of(self, host: str) -> str:
        """The name that the certificate of a machine must have."""
        return self.tls_name or host

    @property
    def is_encrypted(self) -> bool:
        """Whether they use mutual TLS."""
        return self.cert is not None

    def client(self) -> ssl.SSLContext | None:
        """The TLS of a caller's pipe."""
        if self.cert is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=self.ca)
        context.load_cert_chain(self.cert, self.key)
        return context

    def server(self) -> ssl.SSLContext | None:
        """The TLS of a pipe's server: it asks for certificates."""
        if self.cert is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.ca)
        context.load_cert_chain(self.cert, self.key)
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def channel_credentials(self) -> grpc.ChannelCredentials | None:
        """The TLS of a caller's streams."""
        if self.cert is None or self.key is None or self.ca is None:
            return None
        return grpc.ssl_channel_credentials(
            self.ca.read_bytes(), self.key.read_bytes(), self.cert.read_bytes()
        )

    def server_credentials(self) -> grpc.ServerCredentials | None:
        """The TLS of a server of streams."""
        if self.cert is None or self.key is None or self.ca is None:
            return None
        pair = self.key.read_bytes(), self.cert.read_bytes()
        return grpc.ssl_server_credentials([pair], self.ca.read_bytes(), require_client_auth=True)

    def check(self, host: str) -> None:
        """Check that a machine with these files, which others reach by `host`, could call itself. Raises
        TlsUnusable."""
        if self.cert is None or self.key is None or self.ca is None:
            return
        check_pair(self.cert, self.key)
        check_valid(self.cert)
        read_authority(self.ca)
        client, server = self.client(), self.server()
        assert client is not None and server is not None
        upwards, downwards = ssl.MemoryBIO(), ssl.MemoryBIO()
        ends = (
            client.wrap_bio(downwards, upwards, server_hostname=self.name_of(host)),
            server.wrap_bio(upwards, downwards, server_side=True),
        )
        try:
            for end in ends * 3:  # more than enough
                with suppress(ssl.SSLWantReadError):
                    end.do_handshake()
        except ssl.SSLError as problem:
            why = getattr(problem, "verify_message", "") or problem.reason
            raise TlsUnusable(
                f"certificate {self.cert} must be of an authority in {self.ca}, for clients and servers, and "
                f"for the host {self.name_of(host)}: {why}"
            ) from None

    def knows(self, token: bytes) -> bool:
        """Whether a token is the cluster's."""
        return hmac.compare_digest(token, self.token.encode())


ALONE = Trust()
"""That of the processes of one machine: their sockets are in a private folder."""


def token_of(secret: bytes) -> str:
    """What the processes of a cluster show each other, of the secret in its bucket."""
    return hmac.new(secret, b"toehold-cluster", sha256).hexdigest()
