"""When a call that failed is made again: after growing rests with chance in them, for a limited time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from toehold_client.errors import FrontierUnavailable, NodeUnavailable, RefusedForNow, ToeholdError

RECONNECT_S = 60.0
"""How long a stream that was connected once tries to reconnect, unless another time is given."""

_FIRST_REST_S = 0.1
_LONGEST_REST_S = 2.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to keep trying while a server is away or refuses for now. `total_s` = 0 tries once.

    No new try begins later than `total_s` after the first began; the last one still has its own deadline.
    """

    total_s: float = 0.0
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random


class Retries:
    """The tries of one call."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._rest_s = _FIRST_REST_S
        self._until_s = patience.clock() + patience.total_s

    def rest_s(self, error: ToeholdError, *, safe_to_repeat: bool) -> float | None:
        """How long to rest before the next try, or None if there is none: raise the error then.

        A request that the frontier refused for now was not done, so it may always be repeated; after a broken
        connection nobody knows, so only what is safe to repeat is.
        """
        if isinstance(error, RefusedForNow):
            hint_s = error.retry_after_s
        elif safe_to_repeat and isinstance(error, FrontierUnavailable | NodeUnavailable):
            hint_s = 0.0
        else:
            return None
        # At least half of it, so that rests grow; the rest by chance, so that nodes do not all come back at
        # once.
        rest_s = hint_s + self._rest_s * (0.5 + 0.5 * self._patience.chance())
        if self._patience.clock() + rest_s > self._until_s:
            return None
        self._rest_s = min(2 * self._rest_s, _LONGEST_REST_S)
        return rest_s
