"""TLS of a server: its certificate and key, and the authority of its clients' certificates, all from files.

New files take effect with the next connection.
"""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import grpc

from .files import mark_of
from .pem import TlsUnusable, check_not_expired, check_pair, read_authority, read_pem


class ServerTls:
    """A server's files. `on_change` hears of new ones, with the problem or "" if they are in use."""

    def __init__(
        self, cert: Path, key: Path, client_ca: Path | None, on_change: Callable[[str], None]
    ) -> None:
        """Check the files. Raises TlsUnusable.

        With `client_ca`, each client must present a certificate that this authority has issued.
        """
        self._cert, self._key, self._client_ca = cert, key, client_ca
        self._files = (cert, key) if client_ca is None else (cert, key, client_ca)
        self._on_change = on_change
        self._marks = [mark_of(file) for file in self._files]
        self.expires: datetime
        """When the certificate expires that was read last."""
        self._first = self._read()

    def credentials(self) -> grpc.ServerCredentials:
        """What a port of gRPC takes."""
        renewed: Any = self._renewed  # its type says nothing of None, which keeps the present files
        return grpc.dynamic_ssl_server_credentials(self._first, renewed, self._client_ca is not None)

    def _renewed(self) -> grpc.ServerCertificateConfiguration | None:
        """The files, if they have changed and can be used. gRPC asks at each handshake, in any thread."""
        marks = [mark_of(file) for file in self._files]
        if marks == self._marks:
            return None
        self._marks = marks
        try:
            renewed = self._read()
        except TlsUnusable as problem:
            self._on_change(str(problem))
            return None
        if marks != [mark_of(file) for file in self._files]:  # they may differ from those that were checked
            return None
        self._on_change("")
        return renewed

    def _read(self) -> grpc.ServerCertificateConfiguration:
        check_pair(self._cert, self._key)
        self.expires = check_not_expired(self._cert)
        authority = None if self._client_ca is None else read_authority(self._client_ca)
        return grpc.ssl_server_certificate_configuration(
            [(read_pem(self._key), read_pem(self._cert))], root_certificates=authority
        )
