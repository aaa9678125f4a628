"""How a worker obeys the answers to its heartbeats, whatever its book is like."""

from collections.abc import Collection

from google.protobuf.duration_pb2 import Duration

from toehold.frontier.v1.frontier_pb2 import HeartbeatResponse
from toehold_client.worker.orders import DEFAULT_INTERVAL_S, Obedience, Orders


class Obeyed(Orders):
    """Takes down its orders."""

    def __init__(self) -> None:
        self.orders: list[tuple[str, object]] = []

    def end(self, tokens: Collection[bytes]) -> None:
        self._note("end", list(tokens))

    def hand_back(self, tokens: Collection[bytes]) -> None:
        self._note("hand back", list(tokens))

    def interrupt(self, tokens: Collection[bytes]) -> None:
        self._note("interrupt", list(tokens))

    def resize(self, size: int | None) -> None:
        self.orders.append(("resize", size))

    def share_name(self, rival_session: str) -> None:
        self.orders.append(("rival", rival_session))

    def drain(self) -> None:
        self.orders.append(("drain", None))

    def _note(self, order: str, tokens: list[bytes]) -> None:
        if tokens:
            self.orders.append((order, tokens))


def obeyed(*answers: HeartbeatResponse) -> list[tuple[str, object]]:
    worker = Obeyed()
    obedience = Obedience(worker)
    for answer in answers:
        obedience.obey(answer)
    return worker.orders


def test_leases_end_before_others_are_handed_back_and_broken_off() -> None:
    answer = HeartbeatResponse(ended_tokens=[b"a"], release_tokens=[b"b"], interrupt_tokens=[b"c"])
    assert obeyed(answer) == [("end", [b"a"]), ("hand back", [b"b"]), ("interrupt", [b"c"])]


def test_a_size_is_an_order_when_it_changes() -> None:
    sizes = [None, 3, 3, 0, None, 8]
    assert obeyed(*(HeartbeatResponse(pool_size=size) for size in sizes)) == [
        ("resize", 3),
        ("resize", 0),
        ("resize", None),
        ("resize", 8),
    ]


def test_a_worker_drains_once_and_hears_once_of_each_rival() -> None:
    answers = [HeartbeatResponse(rival_session=rival, drain=True) for rival in ("a", "a", "b", "a", "")]
    assert obeyed(*answers) == [("rival", "a"), ("drain", None), ("rival", "b")]


def test_the_frontier_says_when_the_next_heartbeat_is_due() -> None:
    obedience = Obedience(Orders())
    intervals = [Duration(seconds=7), Duration(), Duration(nanos=1000), Duration(seconds=3600)]
    waits = [obedience.obey(HeartbeatResponse(interval_duration=each)) for each in intervals]
    assert waits == [7.0, DEFAULT_INTERVAL_S, 0.1, 60.0]
