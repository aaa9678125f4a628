"""When to repeat a failed call: after growing, partly random rests, for a limited time."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from toehold_client.errors import FrontierUnavailable, NodeUnavailable, RefusedForNow, ToeholdError

RECONNECT_S = 60.0
"""By default, how long a stream tries to reconnect."""

FIRST_REST_S = 0.1
LONGEST_REST_S = 2.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to keep trying while a server is away or refuses for now. With `total_s` = 0 there is one try.

    No try begins more than `total_s` after the first. The last one still has its own deadline.
    """

    total_s: float = 0.0
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random


class Retries:
    """The tries of one call."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._rest_s = FIRST_REST_S
        self._until_s = patience.clock() + patience.total_s

    def rest_s(self, error: ToeholdError, *, safe_to_repeat: bool) -> float | None:
        """How long to rest before the next try; None if the error is final.

        A request that the frontier refused for now had no effect, so it may always be repeated. After a
        broken connection that is unknown, so only safe requests are repeated.
        """
        if isinstance(error, RefusedForNow):
            hint_s = error.retry_after_s
        elif safe_to_repeat and isinstance(error, FrontierUnavailable | NodeUnavailable):
            hint_s = 0.0
        else:
            return None
        # At least half of it, so that rests grow; the other half at random, so that nodes don't all return at
        # once.
        rest_s = hint_s + self._rest_s * (0.5 + 0.5 * self._patience.chance())
        if self._patience.clock() + rest_s > self._until_s:
            return None
        self._rest_s = min(2 * self._rest_s, LONGEST_REST_S)
        return rest_s
