"""Why TLS with a server fails. gRPC says little more than that a connection ended; another one finds out."""

import socket
import ssl
import threading
import time
from pathlib import Path

from toehold_base.access.pem import TlsUnusable, check_valid
from toehold_base.serving.addresses import Address

_PROBE_S = 2.0
_PROBES_APART_S = 1.0
# In gRPC's words for a connection that TLS may have ended.
_SUSPICIOUS = ("Socket closed", "handshake", "Hostname Verification", "Connection reset", "end of")
_UNKNOWN_AUTHORITY = (18, 19, 20, 21)  # OpenSSL's codes


class Diagnosis:
    """Finds out for one server. `own` is the client's certificate and its key."""

    def __init__(
        self,
        address: Address,
        server: str,
        encrypts: bool,
        authority: Path | None,
        own: tuple[Path, Path] | None,
    ) -> None:
        self._address = address
        self._where = f"the {server} at {address}"
        self._encrypts = encrypts
        self._authority = authority
        self._own = own
        self._lock = threading.Lock()
        self._probed_s = -_PROBES_APART_S
        self._found = ""

    def of(self, details: str) -> str:
        """The reason as a sentence; empty if it is not TLS. `details` are gRPC's."""
        if self._address.is_socket or not any(word in details for word in _SUSPICIOUS):
            return ""
        with self._lock:
            if time.monotonic() - self._probed_s >= _PROBES_APART_S:
                self._found = self._probed()
                self._probed_s = time.monotonic()
            return self._found

    def _probed(self) -> str:
        try:
            context = self._context()
            with (
                socket.create_connection(self._address, _PROBE_S) as plain,
                context.wrap_socket(plain, server_hostname=self._address.host) as encrypted,
            ):
                if not self._encrypts:
                    return f"{self._where} speaks TLS; give the authority of its certificate (tls_ca)"
                return "" if encrypted.recv(1) else self._refused()
        except ssl.SSLCertVerificationError as error:
            return self._untrusted(error)
        except ssl.SSLError as error:
            return self._failed(error)
        except ConnectionResetError:
            return self._refused() if self._encrypts else ""
        except OSError:
            return ""

    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self._authority and str(self._authority))
        context.set_alpn_protocols(["h2"])
        if not self._encrypts:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if self._own is not None:
            context.load_cert_chain(*self._own, password=lambda: "")
        return context

    def _untrusted(self, error: ssl.SSLCertVerificationError) -> str:
        reason = error.verify_message.rstrip(".")
        if error.verify_code in _UNKNOWN_AUTHORITY:
            reason = "its authority is not in tls_ca"
        return f"the certificate of {self._where} is not trusted: {reason}"

    def _failed(self, error: ssl.SSLError) -> str:
        if not self._encrypts:
            return ""  # neither side speaks TLS
        if error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_EOF_WHILE_READING"):
            return f"{self._where} does not speak TLS; leave tls_ca out"
        return f"TLS with {self._where} failed: {error.reason or error}"

    def _refused(self) -> str:
        """Why a server ends a connection after the handshake: it does not take the client's certificate."""
        if self._own is None:
            return f"{self._where} asks for a client certificate; give tls_cert and tls_key"
        try:
            check_valid(self._own[0])
        except TlsUnusable as problem:
            return f"{self._where} refuses the client certificate: {problem}"
        except ModuleNotFoundError:  # the client alone has nothing that reads certificates
            reason = "it has expired, or the server does not know its authority"
        else:
            reason = "the server does not know its authority, or it is not for clients"
        return f"{self._where} refuses the client certificate {self._own[0]}: {reason}"
