"""How long a reader of events stays at it, judged with a clock that is a variable."""

import grpc
import pytest
from client_doubles.fake_frontier import UNAVAILABLE, Refusal
from grpc.aio import AioRpcError, Metadata

from toehold.frontier.v1.crawl_pb2 import CrawlStatus, Event
from toehold.frontier.v1.frontier_pb2 import StateEventsRequest, StateEventsResponse
from toehold_client.errors import DeadlineExceeded, FrontierUnavailable, from_rpc_error
from toehold_client.rpc.retry import Patience
from toehold_client.rpc.streams import Following

PRESENT = StateEventsResponse(present=CrawlStatus(), cursor="e1")
EVENT = StateEventsResponse(event=Event(sequence=2), cursor="e2")
ALIVE = StateEventsResponse(cursor="e2")
LATE = Refusal(grpc.StatusCode.DEADLINE_EXCEEDED)
HOUR_S = 3600.0


class Reader:
    """A reader of events at a time that is set; it begins at 1000 s."""

    def __init__(self, *, timeout_s: float | None = None, first_s: float = 0.0, later_s: float = 1.0) -> None:
        self.now_s = 1000.0

        def patience(seconds: float) -> Patience:
            return Patience(seconds, clock=lambda: self.now_s, chance=lambda: 1.0)

        self.following: Following[StateEventsRequest, StateEventsResponse] = Following(
            StateEventsRequest(crawl="c"),
            what="events",
            head="present",
            explain=lambda failure, timeout_s: from_rpc_error(
                failure, address="here:7707", timeout_s=timeout_s
            ),
            timeout_s=timeout_s,
            first=patience(first_s),
            later=patience(later_s),
        )

    def breaks(self, refusal: Refusal = UNAVAILABLE) -> float:
        """The connection ends; the rest before the next one, which is taken."""
        failure = AioRpcError(refusal.code, Metadata(), Metadata(*refusal.trailer()), refusal.message)
        rest_s = self.following.rest_s(failure, self.following.connection_s())
        self.now_s += rest_s
        return rest_s


def test_patience_counts_from_the_break_not_from_the_last_message() -> None:
    reader = Reader(later_s=1.0)
    reader.following.accept(PRESENT)
    reader.now_s += HOUR_S
    assert reader.breaks() == pytest.approx(0.1)


def test_a_message_gives_patience_anew() -> None:
    reader = Reader(later_s=1.0)
    for message in (PRESENT, EVENT, ALIVE):
        reader.following.accept(message)
        assert [reader.breaks() for _ in range(3)] == pytest.approx([0.1, 0.2, 0.4])


def test_the_present_state_again_gives_none() -> None:
    """A frontier that only ever gets as far as that is as good as away."""
    reader = Reader(later_s=1.0)
    with pytest.raises(FrontierUnavailable):
        for _ in range(5):
            reader.following.accept(PRESENT)
            reader.breaks()


def test_before_the_first_message_the_clients_own_patience_counts() -> None:
    with pytest.raises(FrontierUnavailable):
        Reader(first_s=0.0, later_s=60).breaks()
    assert Reader(first_s=1.0, later_s=0.0).breaks() == pytest.approx(0.1)


def test_every_connection_has_a_deadline_and_its_end_goes_unnoticed() -> None:
    reader = Reader()
    reader.following.accept(PRESENT)
    assert reader.following.connection_s() == HOUR_S
    reader.now_s += HOUR_S
    assert reader.breaks(LATE) == 0.0
    assert reader.following.request.cursor == "e1"


def test_a_limit_cuts_connections_and_rests_short() -> None:
    reader = Reader(timeout_s=10.0, later_s=60)
    reader.following.accept(PRESENT)
    assert reader.following.connection_s() == 10.0
    reader.now_s += 9.95
    assert reader.breaks() == pytest.approx(0.05)
    with pytest.raises(DeadlineExceeded, match="the events of crawl 'c' did not end within 10 s"):
        reader.breaks()


def test_the_present_state_is_passed_on_once() -> None:
    following = Reader().following
    assert [following.accept(message) for message in (PRESENT, EVENT, PRESENT, ALIVE)] == [
        True,
        True,
        False,
        True,
    ]
