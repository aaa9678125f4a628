"""Places for messages that are being received, a few at a time: each takes memory before it is whole, and its
sender may never finish it."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress


class Places:
    """So many messages are received at a time; others wait.

    Connections take turns, so that one with many calls holds up no other. While others wait, a message has
    `hurried_s` to arrive, otherwise the time that its call may take.
    """

    def __init__(self, count: int, hurried_s: float) -> None:
        self._free = count
        self._hurried_s = hurried_s
        self._receiving: dict[asyncio.Timeout, float] = {}  # since when
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # by connection, the next one first

    @property
    def all_taken(self) -> bool:
        """Whether another message would have to wait."""
        return not self._free

    @asynccontextmanager
    async def one(self, connection: Callable[[], str], within_s: float) -> AsyncIterator[None]:
        """A place, within which to receive a message. Raises TimeoutError if it comes too late, or the
        message does. `connection` names the caller's, and is asked only if the call has to wait."""
        async with asyncio.timeout(within_s):
            if self._free:
                self._free -= 1
            else:
                await self._turn(connection())
            try:
                async with asyncio.timeout(self._hurried_s if self._waiting else None) as patience:
                    self._receiving[patience] = asyncio.get_running_loop().time()
                    try:
                        yield
                    finally:
                        del self._receiving[patience]
            finally:
                self._give_on()

    async def _turn(self, connection: str) -> None:
        """Wait for a place."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue = self._waiting.setdefault(connection, deque())
        queue.append(turn)
        self._hurry()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with suppress(ValueError):  # it may be gone already
                    queue.remove(turn)
                if not queue and self._waiting.get(connection) is queue:
                    del self._waiting[connection]
            else:  # it had just got the place
                self._give_on()
            raise

    def _hurry(self) -> None:
        for patience, since_s in self._receiving.items():
            if patience.when() is None:
                patience.reschedule(since_s + self._hurried_s)

    def _give_on(self) -> None:
        """Give a place to the first call of the connection whose turn it is, which then has its turn last."""
        while self._waiting:
            connection, queue = next(iter(self._waiting.items()))
            del self._waiting[connection]
            turn = queue.popleft()
            if queue:
                self._waiting[connection] = queue
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
