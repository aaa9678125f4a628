"""Tokens: secrets that name a caller. A server keeps only their digests."""

import hashlib
import re
import secrets
from typing import NamedTuple

MAX_CHARACTERS = 512
_PREFIX = "toehold"
_ID_BYTES, _SECRET_BYTES = 5, 32
_TOKEN = re.compile(rf"{_PREFIX}_[0-9a-f]{{{2 * _ID_BYTES}}}_[A-Za-z0-9_-]{{43}}")

_SENDABLE = re.compile(rf"[!-~]{{1,{MAX_CHARACTERS - len('Bearer ')}}}")

AUTHORIZATION = "authorization"
"""The metadata that carries a token, as `Bearer TOKEN` (RFC 6750)."""


class NewToken(NamedTuple):
    """A token that nobody knows yet."""

    id: str
    """Names it in listings; not secret."""
    text: str
    digest: str


def new_token() -> NewToken:
    identity = secrets.token_hex(_ID_BYTES)
    text = f"{_PREFIX}_{identity}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    return NewToken(identity, text, digest_of(text))


def digest_of(token: str) -> str:
    """The digest under which a token is stored. Tokens are random, so a fast digest is enough."""
    return hashlib.sha256(token.encode()).hexdigest()


def looks_like_token(text: str) -> bool:
    """Whether a text has the form of a token."""
    return _TOKEN.fullmatch(text) is not None


def can_be_sent(text: str) -> bool:
    """Whether a text can be sent as a token, ours or another server's."""
    return _SENDABLE.fullmatch(text) is not None


def bearer(token: str) -> str:
    """The value of `authorization` for a token."""
    return f"Bearer {token}"


def token_in(value: str) -> str:
    """The token in a value of `authorization`; empty if it has none."""
    scheme, _, token = value.partition(" ")
    return token.strip() if scheme.lower() == "bearer" and len(value) <= MAX_CHARACTERS else ""
