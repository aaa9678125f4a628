"""Why a call is refused because of who calls."""

from collections.abc import Mapping


class AccessDenied(Exception):
    """A call is refused because of its caller. `reason` is that of ErrorInfo."""

    def __init__(self, reason: str, message: str, **metadata: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.metadata: Mapping[str, str] = metadata


class Unauthenticated(AccessDenied):
    """It is unknown who calls: credentials are missing, wrong, expired or revoked."""


class PermissionDenied(AccessDenied):
    """The caller is known, and may not do this."""
