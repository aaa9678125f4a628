"""FetchFailure: why a fetch has no answer, in words for the crawl log and for people. Pure."""

import errno
import socket
import ssl

MAX_SHOWN_BYTES = 40
"""How much of what a server sent is shown."""


class FetchFailure(Exception):
    """A fetch has no answer, or no more of it.

    The message is for the crawl log. `reason` is for people, who read it behind the words of the status
    (`connection failed: 192.0.2.1:443: connection refused`). It does not repeat these; it is empty if they
    say all that is known. By default it is the message.
    """

    def __init__(self, message: str = "", reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = message if reason is None else reason


def shown(data: bytes | bytearray) -> str:
    """What a server sent, in quotes, cut, and without bytes that are not printable ASCII."""
    text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "?" for byte in data.strip()[:MAX_SHOWN_BYTES])
    return f'"{text}…"' if len(data.strip()) > MAX_SHOWN_BYTES else f'"{text}"'


def of_system(error: OSError, connect_s: float) -> str:
    """An error of the system at a connection that may take `connect_s`: `connection refused`."""
    if isinstance(error, TimeoutError):
        return f"no answer within connect_timeout_seconds = {connect_s:g}"
    words = _SYSTEM.get(error.errno or 0) or error.strerror or str(error)
    return words[:1].lower() + words[1:]


def of_tls(error: Exception, connect_s: float) -> str:
    """An error of a TLS handshake that may take `connect_s`: `certificate has expired`."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _of_certificate(error.verify_message)
    if isinstance(error, ssl.SSLEOFError):
        return "the server hung up"
    if isinstance(error, ssl.SSLError):
        return _TLS.get(error.reason or "") or (error.reason or "failed").lower().replace("_", " ")
    if isinstance(error, OSError):
        return of_system(error, connect_s)
    return str(error)


def has_no_answer_of_dns(error: Exception) -> bool:
    """Whether a look-up failed because DNS did not answer, and not because it knows no such name."""
    return isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN


def _of_certificate(message: str) -> str:
    # OpenSSL: "Hostname mismatch, certificate is not valid for 'www.example.org'."
    if message == "unable to get local issuer certificate":
        return "the issuer of the certificate is unknown"
    words = message.rpartition("mismatch, ")[2].rstrip(".")
    return words[:1].lower() + words[1:]


_SYSTEM = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "reset by the server",
    errno.ECONNABORTED: "reset by the server",
    errno.EPIPE: "closed by the server",
    errno.EHOSTUNREACH: "no route to this host",
    errno.ENETUNREACH: "no route to this network",
    errno.EADDRNOTAVAIL: "this machine has no free port, or no address of this kind",
    errno.EAFNOSUPPORT: "this machine has no address of this kind",
    errno.EMFILE: "this process has too many open files",
    errno.ENFILE: "this machine has too many open files",
    errno.EACCES: "this machine does not permit it",
    errno.EPERM: "this machine does not permit it",
}
_TLS = {
    "WRONG_VERSION_NUMBER": "the server does not speak TLS on this port",
    "HTTP_REQUEST": "the server does not speak TLS on this port",
    "UNSUPPORTED_PROTOCOL": "the server speaks only old versions of TLS",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the server speaks no version of TLS that this node speaks",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the server refused the handshake",
    "TLSV1_ALERT_INTERNAL_ERROR": "the server reports an internal error",
    "TLSV1_UNRECOGNIZED_NAME": "the server does not know this name",
    "DH_KEY_TOO_SMALL": "the server's key is too small",
}
