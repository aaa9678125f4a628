"""Trust: the certificates that prove a host's name over TLS.

OpenSSL checks everything, except the names of hosts that it compares with no wildcard: those with characters
other than letters, digits and hyphens (`my_site.blog.example`), and with labels that begin or end with a
hyphen. People have such hosts, and browsers go there. For these names only, OpenSSL checks the chain, and
this module the name, as browsers do (RFC 9525, without its rule on characters).
"""

import re
import ssl
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import httpx
from publicsuffixlist import PublicSuffixList

from .addresses import literal

MAX_NAME = 253
"""The most characters of a host's name, without a dot at its end (RFC 1035 2.3.4)."""

MAX_LABEL = 63

_LABEL = "[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_USUAL_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*", re.IGNORECASE)


class Trust:
    """The certificates of the system, those that httpx ships, and those of a file (PEM). Thread-safe."""

    def __init__(self, ca_file: Path | None) -> None:
        """Raises ValueError when the file cannot be read. Without a file, certificates are read for the first
        host: that takes a sixth of a start."""
        self._ca_file = ca_file
        if ca_file is not None:
            _ = self._of_usual_names

    def context(self, name: str) -> ssl.SSLContext:
        """How to make a TLS connection to a host, whose handshake fails if the host does not prove its name.

        `name` is as in a URL (WHATWG): in ASCII, an IPv6 address without brackets. Raises ValueError when TLS
        cannot carry the name, or the file can no longer be read.
        """
        if literal(name) is not None:
            return self._of_usual_names
        if len(name) > MAX_NAME or not all(0 < len(label) <= MAX_LABEL for label in name.split(".")):
            raise ValueError(
                f"a name must have at most {MAX_NAME} characters, and its labels 1 to {MAX_LABEL}"
            )
        return self._of_usual_names if _USUAL_NAME.fullmatch(name) else self._of_other_names

    @cached_property
    def _of_usual_names(self) -> ssl.SSLContext:
        return _trusting(self._ca_file)

    @cached_property
    def _of_other_names(self) -> ssl.SSLContext:
        context = _trusting(self._ca_file)
        context.check_hostname = False  # the chain is checked as before
        context.sslsocket_class = _NamedSocket
        return context


class _NamedSocket(ssl.SSLSocket):
    """A socket whose handshake ends with our own check of the name."""

    def do_handshake(self, block: bool = False) -> None:
        super().do_handshake(block)
        name = self.server_hostname or ""
        if not proves(self.getpeercert() or {}, name):
            raise _mismatch(name)


def proves(certificate: dict[str, Any], name: str) -> bool:
    """Whether a certificate, as `getpeercert` returns it, is one of a host by name.

    One of its DNS names must be equal, or `*.` and all of the name behind its first label. No wildcard stands
    for all hosts of a registry (`*.com`, `*.co.uk`). The common name does not count.
    """
    name = name.lower()
    parent = name.partition(".")[2]
    accepted = (name, f"*.{parent}") if _is_of_one_owner(parent) else (name,)
    presented = (value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS")
    # Beyond ASCII, other letters become the same lower-case ones.
    return any(value.isascii() and value.lower() in accepted for value in presented)


def _is_of_one_owner(domain: str) -> bool:
    """Whether hosts below a domain have one owner, so it is neither empty nor a suffix of a registry. Names
    below `github.io` have one, as far as certificates go; so do those below a domain that no registry has,
    such as `lan`: only a private authority can vouch for them."""
    return bool(domain) and not _registries().is_public(domain)


@cache
def _registries() -> PublicSuffixList:
    """The list of registries' suffixes, read at its first use, as that takes some 40 ms."""
    return PublicSuffixList(only_icann=True, accept_unknown=False)


def _trusting(ca_file: Path | None) -> ssl.SSLContext:
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except ssl.SSLError as problem:
            raise ValueError(
                f"{str(ca_file)!r} has no certificates; it must have some, in PEM format"
            ) from problem
        except OSError as problem:
            why = problem.strerror or problem
            raise ValueError(f"cannot read certificates in {str(ca_file)!r}: {why}") from problem
    return context


def _mismatch(name: str) -> ssl.SSLCertVerificationError:
    """The error that OpenSSL's own check raises."""
    why = f"Hostname mismatch, certificate is not valid for '{name}'."
    error = ssl.SSLCertVerificationError(
        ssl.SSL_ERROR_SSL, f"[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: {why}"
    )
    error.verify_message = why
    return error
