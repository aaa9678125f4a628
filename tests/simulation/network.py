"""A network that delays, reorders, drops and doubles messages; recorded requests are sent again later."""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from simulation.calls import Call
from simulation.loop import Loop
from simulation.plan import NetworkPlan
from simulation.server import Server

Answered = Callable[[Any], None]
TIMEOUT_MS = 10_000
RECORDED = 200


class Network:
    """Between everybody and the server."""

    def __init__(self, loop: Loop, rng: Random, plan: NetworkPlan, server: Server) -> None:
        self.loop = loop
        self.rng = rng
        self.plan = plan
        self.server = server
        self.recorded: deque[Call] = deque(maxlen=RECORDED)
        self.lost = 0

    def call(self, call: Call, answered: Answered, failed: Callable[[], None], patience_ms: int = 0) -> None:
        """Send a request. One of both is called: with its answer, or once nobody waits for that any more."""
        open_ = [True]

        def back(answer: Any) -> None:
            if self._dropped():
                self._nobody_has_it(call, answer)
            else:
                self.loop.after(self._delay_ms(), arrive, answer)

        def arrive(answer: Any) -> None:
            if open_:
                open_.clear()
                answered(answer)
            else:
                self._nobody_has_it(call, answer)

        def give_up() -> None:
            if open_:
                open_.clear()
                self.server.when_up(failed)

        self.recorded.append(call)
        self.loop.after(TIMEOUT_MS + patience_ms, give_up)
        copies = 1 + (self.rng.randrange(1_000) < self.plan.doubled)
        for _ in range(copies):
            if not self._dropped():
                self.loop.after(self._delay_ms(), self.server.receive, call, back)

    def _nobody_has_it(self, call: Call, answer: Any) -> None:
        """An answer is lost. The server often sees that the connection is gone, and takes leases back."""
        self.lost += 1
        grants = getattr(answer, "grants", None)
        if call.kind == "next" and grants and self.rng.random() < 0.5:
            tokens = tuple(grant.token for grant in grants)
            self.server.receive(Call("take-back", call.name, (tokens,)), lambda answer: None)

    def replay(self, pick: int) -> None:
        """Somebody sends a recorded request again; nobody waits for its answer."""
        if self.recorded:
            call = self.recorded[pick % len(self.recorded)]
            self.server.receive(call, lambda answer: None)

    def calm(self) -> None:
        """From now on everything arrives, soon, and once."""
        self.plan = NetworkPlan()

    def _dropped(self) -> bool:
        return self.rng.randrange(1_000) < self.plan.dropped

    def _delay_ms(self) -> int:
        if self.rng.randrange(1_000) < self.plan.slow:
            return self.rng.randint(1, self.plan.slow_ms)
        return self.rng.randint(1, self.plan.delay_ms)
