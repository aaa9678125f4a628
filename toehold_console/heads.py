"""Heads of requests: they arrive in time, or give way, so that half of one keeps nobody out."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 10.0
"""For so long a head may arrive, from the connection or its first byte on."""
MOST_WAITING = 400
"""The connections without a whole head that are kept; one more closes the one that waits longest."""


class PromptProtocol(H11Protocol):
    """A connection that is closed unless the head of each request is there in time."""

    waiting: "dict[PromptProtocol, None]" = {}  # noqa: RUF012  # of the process, the longest first

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._forget()
        elif self._timer is None:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self._timer = self.loop.call_later(HEAD_S, self.transport.close)
        self.waiting[self] = None
        if len(self.waiting) > MOST_WAITING:
            longest = next(iter(self.waiting))
            longest._forget()
            longest.transport.close()

    def _forget(self) -> None:
        self.waiting.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
