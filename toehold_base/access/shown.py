"""The credentials that a call shows."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from .tokens import AUTHORIZATION


class Shown(NamedTuple):
    """What a call and its connection show of who calls."""

    authorization: str
    """The metadata of that name; empty without it."""
    certificate: bytes
    """The client's certificate (PEM), which TLS has verified; empty without one."""


def shown_by(metadata: Iterable[Any] | None, peer: Mapping[str, Iterable[Any]]) -> Shown:
    """The credentials in a call's metadata, and in gRPC's `auth_context` of its connection."""
    header = next((str(value) for key, value in metadata or () if key == AUTHORIZATION), "")
    certificate = next(iter(peer.get("x509_pem_cert", ())), b"")
    return Shown(header, certificate)
