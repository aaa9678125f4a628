"""The settings of a console, from its start to its end."""

from dataclasses import dataclass, field
from pathlib import Path

from toehold_base.serving.addresses import Address
from toehold_client.credentials import Credentials
from toehold_client.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Settings:
    """Valid settings. InvalidArgument for those that do not fit together."""

    frontier: str
    """The frontier's address."""
    listen: Address
    credentials: Credentials = field(default_factory=Credentials)
    """How the frontier is reached. They name no caller: each browser brings a token of its own."""
    https_cert: Path | None = None
    https_key: Path | None = None
    host_names: tuple[str, ...] = ()
    """Names under which browsers may address a console without HTTPS. Addresses and the machine's own name
    always count."""
    insecure: bool = False
    """Serve beyond loopback without HTTPS, and without logins if the frontier has no callers."""
    data: Path | None = None
    """The frontier's data directory, if it is on this machine: the console then offers its logs."""
    directory: Path | None = None
    """The directory of a `toehold crawl`: the console then offers its WARC files, logs and report."""
    session_key: Path | None = None
    """The file of the key that seals cookies; without it, a restart of the console ends all sessions."""

    def __post_init__(self) -> None:
        if (self.https_cert is None) != (self.https_key is None):
            given, missing = ("--https-cert", "--https-key")
            if self.https_cert is None:
                given, missing = missing, given
            raise InvalidArgument(f"{given} needs {missing}: give a certificate and its key, or neither")
        if not (self.listen.is_loopback or self.serves_https or self.insecure):
            raise InvalidArgument(
                f"{self.listen.host} is not a loopback address, so the console must speak HTTPS there: give "
                "--https-cert and --https-key, or --insecure behind a proxy or on a network that you trust"
            )
        if self.credentials.token is not None or self.credentials.token_file is not None:
            raise InvalidArgument(
                "the console has no token of its own, as everybody who reaches it could use that; log in "
                "with a token in the browser"
            )

    @property
    def serves_https(self) -> bool:
        """Whether browsers reach it by HTTPS."""
        return self.https_cert is not None

    @property
    def needs_callers(self) -> bool:
        """Whether each call must name a caller that the frontier knows. Otherwise everybody who reaches the
        console could act in the name of its certificate, or without any name."""
        return self.credentials.tls_cert is not None or not (self.listen.is_loopback or self.insecure)
