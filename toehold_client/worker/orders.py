"""What the frontier asks of a worker by its answers to heartbeats."""

from collections.abc import Collection

from toehold.frontier.v1.frontier_pb2 import HeartbeatResponse

DEFAULT_INTERVAL_S = 3.0
"""The time between heartbeats for a frontier that tells none."""

SHORTEST_INTERVAL_S, LONGEST_INTERVAL_S = 0.1, 60.0
"""The frontier may choose an interval between these two."""


class Orders:
    """A worker as the frontier commands it. Each method does nothing unless a worker has its own."""

    def end(self, tokens: Collection[bytes]) -> None:
        """Gives up leases that are over: whatever is reported of them would come too late."""

    def hand_back(self, tokens: Collection[bytes]) -> None:
        """Returns those of these leases that were not started."""

    def interrupt(self, tokens: Collection[bytes]) -> None:
        """Breaks off the fetches of these leases for good. Those that were not started go back."""

    def resize(self, size: int | None) -> None:
        """Changes how many fetches there may be at once; None stands for the worker's own size."""

    def share_name(self, rival_session: str) -> None:
        """Hears once of each other process that has this worker's name."""

    def drain(self) -> None:
        """Takes no more leases, and ends. Asked once."""


class Obedience:
    """Gives a worker the orders of one answer after another, each order once."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._asked_size: int | None = None
        self._rivals: set[str] = set()
        self._draining = False

    def obey(self, answer: HeartbeatResponse) -> float:
        """Gives the orders of an answer. Returns how long to wait before the next heartbeat."""
        orders = self._orders
        orders.end(answer.ended_tokens)
        orders.hand_back(answer.release_tokens)
        orders.interrupt(answer.interrupt_tokens)
        asked_size = answer.pool_size if answer.HasField("pool_size") else None
        if asked_size != self._asked_size:  # otherwise a size stays that somebody else has set meanwhile
            self._asked_size = asked_size
            orders.resize(asked_size)
        if answer.rival_session and answer.rival_session not in self._rivals:
            self._rivals.add(answer.rival_session)
            orders.share_name(answer.rival_session)
        if answer.drain and not self._draining:
            self._draining = True
            orders.drain()
        interval_s = answer.interval_duration.ToTimedelta().total_seconds() or DEFAULT_INTERVAL_S
        return min(max(interval_s, SHORTEST_INTERVAL_S), LONGEST_INTERVAL_S)
