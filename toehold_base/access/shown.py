"""The credentials that a call shows."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from .tokens import AUTHORIZATION

CALLER_KEY = "toehold-caller"
"""The metadata by which a front tells its shards who calls; empty: the front itself does."""


class Shown(NamedTuple):
    """What a call and its connection show of who calls."""

    authorization: str
    """The metadata of that name; empty without it."""
    certificate: bytes
    """The client's certificate (PEM), which TLS has verified; empty without one."""
    name: str = ""
    """The caller's name, if a server before this one has identified it."""


def shown_by(metadata: Iterable[Any] | None, peer: Mapping[str, Iterable[Any]]) -> Shown:
    """The credentials in a call's metadata, and in gRPC's `auth_context` of its connection."""
    header = next((str(value) for key, value in metadata or () if key == AUTHORIZATION), "")
    certificate = next(iter(peer.get("x509_pem_cert", ())), b"")
    return Shown(header, certificate)


def named_by(metadata: Iterable[Any] | None) -> Shown | None:
    """The name in the metadata of a call that comes through a front; None if the front itself calls."""
    found = next((str(value) for key, value in metadata or () if key == CALLER_KEY), None)
    return None if found == "" else Shown("", b"", found or "")
