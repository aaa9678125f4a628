"""Why a call is refused because of who calls."""

import threading
from collections.abc import Mapping

LOGGED_A_SECOND = 10


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


class DenialRate:
    """Bounds how many denials a log tells of in a second: anybody who can connect causes them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._second = self._count = self._left_out = 0

    def take(self, now_s: float) -> int | None:
        """How many were left out since the last one that was told; None if this one is left out, too."""
        with self._lock:
            second = int(now_s)
            if second != self._second:
                self._second, self._count = second, 0
            self._count += 1
            if self._count > LOGGED_A_SECOND:
                self._left_out += 1
                return None
            left_out, self._left_out = self._left_out, 0
            return left_out
