"""A connection's credentials at work: TLS for its channel, and a token for its calls."""

from pathlib import Path

import grpc

from toehold_base.access.files import Mark, mark_of
from toehold_base.access.pem import TlsUnusable, check_pair, read_authority, read_pem
from toehold_base.access.tokens import AUTHORIZATION, bearer, can_be_sent
from toehold_base.serving.addresses import Address
from toehold_client.credentials import SYSTEM, Credentials
from toehold_client.errors import InvalidArgument

from .diagnosis import Diagnosis


class Security:
    """The credentials of the client of one server. `server` is FRONTIER or NODE, for messages."""

    def __init__(self, credentials: Credentials | None, address: Address, server: str) -> None:
        given = credentials or Credentials()
        self._authority = None if given.tls_ca in (None, SYSTEM) else Path(given.tls_ca or "")
        self._own = (Path(given.tls_cert), Path(given.tls_key)) if given.tls_cert and given.tls_key else None
        self._encrypts = given.tls_ca is not None
        self._token_file = None if given.token_file is None else Path(given.token_file)
        self._token = given.token or ""
        self._token_mark: Mark | None = None
        self._tls_files = (*filter(None, (self._authority,)), *(self._own or ()))
        self._tls_marks: list[Mark | None] = []
        self._diagnosis = Diagnosis(address, server, self._encrypts, self._authority, self._own)
        names_caller = bool(self._token) or self._token_file is not None
        if names_caller and not self._encrypts and not address.is_loopback:
            raise InvalidArgument(
                f"without TLS a token can be read on the way to {address}; give tls_ca, too, or use a "
                "loopback address"
            )

    def channel_credentials(self) -> grpc.ChannelCredentials | None:
        """Those of a new channel; None without TLS. InvalidArgument for files that cannot be used."""
        if not self._encrypts:
            return None
        self._tls_marks = [mark_of(file) for file in self._tls_files]
        try:
            authority = None if self._authority is None else read_authority(self._authority)
            if self._own is None:
                return grpc.ssl_channel_credentials(authority)
            cert, key = self._own
            check_pair(cert, key)
            return grpc.ssl_channel_credentials(authority, read_pem(key), read_pem(cert))
        except TlsUnusable as problem:
            raise InvalidArgument(str(problem)) from None

    def renewed(self) -> grpc.ChannelCredentials | None:
        """Those of a new channel if the files have changed, and can be used; else None."""
        if not self._tls_files or self._tls_marks == [mark_of(file) for file in self._tls_files]:
            return None
        try:
            return self.channel_credentials()
        except InvalidArgument:  # they are being written: the channel at hand will do until they change again
            return None

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The metadata that tells a server who calls. InvalidArgument if the token's file cannot be used."""
        if self._token_file is not None:
            self._read_token(self._token_file)
        return ((AUTHORIZATION, bearer(self._token)),) if self._token else ()

    def diagnosis(self, details: str) -> str:
        """Why the server cannot be reached, if TLS is the reason; else empty. `details` are gRPC's."""
        return self._diagnosis.of(details)

    def _read_token(self, path: Path) -> None:
        mark = mark_of(path)
        if mark is not None and mark == self._token_mark:
            return
        try:
            words = read_pem(path).decode(errors="replace").split()
        except TlsUnusable as problem:
            words, fault = [], str(problem)
        else:
            fault = f"{path} must have one token and nothing else"
        if len(words) == 1 and can_be_sent(words[0]):
            self._token, self._token_mark = words[0], mark
        elif not self._token:  # one that was read before will do while the file is being written
            raise InvalidArgument(fault)
