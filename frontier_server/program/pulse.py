"""Pulse: whether the frontier works, as its health service and a service manager are told.

The frontier is asked a question again and again, as callers ask theirs. While it does not answer, because an
operation or the disk hangs, its health is NOT_SERVING, and a watchdog is not fed.
"""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from toehold_base.process.service_manager import ServiceManager

ASK_EVERY_S = 1.0
PATIENCE_S = 15.0
"""How long an answer may take."""

_log = structlog.get_logger()


class Pulse:
    """`run` it while the frontier serves."""

    def __init__(
        self,
        ask: Callable[[], Awaitable[object]],
        tell_health: Callable[[bool], None],
        manager: ServiceManager,
        answers: Callable[[], bool] = lambda: True,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`ask` returns once the frontier could answer. `tell_health` gets whether it serves: it does not
        while it could, but `answers` says that nothing leaves it."""
        self._answers = answers
        self._answered = True
        self._ask = ask
        self._tell_health = tell_health
        self._manager = manager
        self._patience_s = patience_s
        self._every_s = min(ASK_EVERY_S, manager.beat_s / 2 or ASK_EVERY_S)

    async def run(self) -> None:
        """Ask again and again."""
        while True:
            await self._beat()
            await asyncio.sleep(self._every_s)

    async def _beat(self) -> None:
        """Wait for one answer, and tell if it takes too long."""
        beat = asyncio.ensure_future(self._ask())
        beat.add_done_callback(_noted)  # it may fail while the pulse itself ends
        try:
            done, _ = await asyncio.wait((beat,), timeout=self._patience_s)
            if not done:
                _log.error("not_answering", seconds=self._patience_s)
                self._tell_health(False)
                await asyncio.wait((beat,))
                _log.warning("answers_again")
                self._tell_health(self._answered)
            beat.result()
        finally:
            beat.cancel()
        if (answers := self._answers()) != self._answered:
            self._answered = answers
            self._tell_health(answers)
        self._manager.alive()


def _noted(beat: asyncio.Future[object]) -> None:
    if not beat.cancelled():
        beat.exception()
