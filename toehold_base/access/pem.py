"""Certificates and keys in files (PEM)."""

import ssl
from codecs import BOM_UTF8
from datetime import UTC, datetime
from pathlib import Path


class TlsUnusable(Exception):
    """Files cannot be used for TLS; the message says why, and what would be right."""


def read_pem(path: Path) -> bytes:
    """The bytes of a file, without byte order mark. Raises TlsUnusable."""
    try:
        return path.read_bytes().removeprefix(BOM_UTF8)
    except OSError as problem:
        raise TlsUnusable(f"{path}: {problem.strerror}") from problem


def read_authority(path: Path) -> bytes:
    """The certificates of authorities in a file. Raises TlsUnusable."""
    data = read_pem(path)
    try:
        ssl.create_default_context(cadata=data.decode("ascii"))
    except (ValueError, ssl.SSLError):
        raise TlsUnusable(f"{path} must have certificates of authorities in PEM, but has none") from None
    return data


def check_pair(cert: Path, key: Path) -> None:
    """Raise TlsUnusable unless a certificate and a key belong together."""
    for path in (cert, key):
        read_pem(path)

    def no_password() -> str:
        raise TlsUnusable(f"key {key} is encrypted; TLS needs a key without a password")

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password=no_password)
    except ssl.SSLError as problem:
        if problem.reason == "KEY_VALUES_MISMATCH":
            raise TlsUnusable(f"key {key} does not belong to certificate {cert}") from None
        raise TlsUnusable(f"{cert} must be a certificate and {key} its key, both in PEM") from None


def _times_of(cert: Path) -> tuple[datetime, datetime]:
    """When a certificate begins to be valid, and when it expires. Raises TlsUnusable."""
    from cryptography import x509  # takes a while, and only TLS needs it

    try:
        found = x509.load_pem_x509_certificate(read_pem(cert))
    except ValueError:
        raise TlsUnusable(f"{cert} must be a certificate in PEM") from None
    return found.not_valid_before_utc, found.not_valid_after_utc


def check_not_expired(cert: Path) -> datetime:
    """When a certificate expires. Raises TlsUnusable if it has."""
    until = _times_of(cert)[1]
    if until <= datetime.now(UTC):
        raise TlsUnusable(f"certificate {cert} expired at {until:%Y-%m-%d %H:%M:%S} UTC; renew it")
    return until


def check_valid(cert: Path) -> None:
    """Raise TlsUnusable if a certificate has expired, or is not valid yet."""
    check_not_expired(cert)
    since = _times_of(cert)[0]
    if since > datetime.now(UTC):
        raise TlsUnusable(
            f"certificate {cert} is valid from {since:%Y-%m-%d %H:%M:%S} UTC on; is the clock right?"
        )
