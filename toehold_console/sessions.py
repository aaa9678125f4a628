"""Sessions of browsers: the token that a user has logged in with, sealed in a cookie.

The console keeps nothing: the cookie holds the token, and only the console has the key. So a session outlives
the console if the key is in a file. It ends with its time, with a logout, and with the token's own end.
"""

import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import NamedTuple

from cryptography.fernet import Fernet, InvalidToken

from toehold_client.errors import InvalidArgument

SESSION_S = 12 * 3600
_MOST_BYTES = 4_096


class Session(NamedTuple):
    """A user's login in one browser."""

    token: str
    csrf: str
    """The page sends it back in a header with each change. Another site's page cannot read it."""


class Sessions:
    """Seals and opens cookies."""

    def __init__(self, key_file: Path | None) -> None:
        """Reads the key, or makes it. InvalidArgument for a file that cannot be used."""
        key = Fernet.generate_key() if key_file is None else _key_in(key_file)
        self._seal = Fernet(key)
        self.cookie = f"toehold-{hashlib.sha256(key).hexdigest()[:12]}"
        """The cookie's name. Consoles on other ports of a host get the same cookies; each has its own."""

    def begin(self, token: str) -> tuple[Session, str]:
        """A new session, and the cookie for it."""
        session = Session(token, secrets.token_urlsafe(24))
        return session, self._seal.encrypt(json.dumps(session).encode()).decode()

    def opened(self, cookie: str) -> Session | None:
        """The session in a cookie; None if it is over, or the cookie is no cookie of ours."""
        if not 0 < len(cookie) <= _MOST_BYTES:
            return None
        try:
            return Session(*json.loads(self._seal.decrypt(cookie.encode(), ttl=SESSION_S)))
        except (InvalidToken, UnicodeEncodeError):
            return None


def _key_in(file: Path) -> bytes:
    try:
        if not file.exists():
            _write(file, Fernet.generate_key())
        key = file.read_bytes().strip()
        Fernet(key)
    except OSError as problem:
        raise InvalidArgument(f"the key of sessions {file} cannot be used: {problem.strerror}") from None
    except ValueError:
        raise InvalidArgument(
            f"{file} must have a key of sessions and nothing else; delete it, and the console makes a new one"
        ) from None
    return key


def _write(file: Path, key: bytes) -> None:
    """Whole or not at all, and for this user alone."""
    part = file.with_name(f"{file.name}.{os.getpid()}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(key)
    part.replace(file)
