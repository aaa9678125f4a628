"""Credentials: how a client checks who answers (TLS), and shows who it is (a certificate, or a token)."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from toehold_base.access.tokens import can_be_sent
from toehold_client.errors import InvalidArgument

SYSTEM = "system"
"""As `tls_ca`: the authorities that gRPC brings."""

VARIABLES: Mapping[str, str] = {
    "tls_ca": "TOEHOLD_TLS_CA",
    "tls_cert": "TOEHOLD_TLS_CERT",
    "tls_key": "TOEHOLD_TLS_KEY",
    "token_file": "TOEHOLD_TOKEN_FILE",
}
"""The environment variable for each field of Credentials that programs take from there."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a client needs for a frontier or node on a network.

        FrontierClient("frontier.example:7707", credentials=Credentials(tls_ca="ca.crt", token_file="token"))

    `tls_ca` is a file (PEM) with the authorities that the server's certificate may come from; "system" means
    those that gRPC brings. With it, the client speaks TLS. `tls_cert` and `tls_key` are the client's own
    certificate and its key (PEM), for a server that asks for one. `token`, or the file `token_file` with
    nothing else in it, names the caller; it is sent over TLS and to loopback addresses only.

    The client reads files anew when they change: the next call then uses them. InvalidArgument for fields
    that do not fit together.
    """

    tls_ca: str | Path | None = None
    tls_cert: str | Path | None = None
    tls_key: str | Path | None = None
    token: str | None = field(default=None, repr=False)
    token_file: str | Path | None = None

    def __post_init__(self) -> None:
        if (self.tls_cert is None) != (self.tls_key is None):
            given, missing = ("tls_cert", "tls_key") if self.tls_key is None else ("tls_key", "tls_cert")
            raise InvalidArgument(f"{given} needs {missing}: give a certificate and its key, or neither")
        if self.tls_cert is not None and self.tls_ca is None:
            raise InvalidArgument("tls_cert needs tls_ca: a certificate is shown over TLS only")
        if self.token is not None and self.token_file is not None:
            raise InvalidArgument("token and token_file both name a token; give only one of them")
        if self.token is not None and not can_be_sent(self.token):
            raise InvalidArgument("token must be one word of printable ASCII characters")

    @classmethod
    def from_environment(cls) -> "Credentials":
        """Those that the variables TOEHOLD_TLS_CA, TOEHOLD_TLS_CERT, TOEHOLD_TLS_KEY and TOEHOLD_TOKEN_FILE
        name; unset or empty ones count as not given."""
        return cls(**{name: os.environ.get(variable) or None for name, variable in VARIABLES.items()})
