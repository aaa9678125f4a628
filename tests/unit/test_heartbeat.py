"""Heartbeats: what they tell, what the node does with the answers, and that they go on."""

import threading
from collections import Counter
from collections.abc import Collection, Iterable

import pytest
from google.protobuf.duration_pb2 import Duration
from node_doubles.client import FakeClient
from node_doubles.leases import POLICY, held, lease
from structlog.testing import capture_logs

from crawler_node.leases.book import HeldLease, LeaseBook, LeaseStage
from crawler_node.leases.heartbeat import Heartbeat
from toehold.frontier.v1.frontier_pb2 import HeartbeatResponse, PoolStatistics
from toehold_client.errors import FrontierUnavailable, InvalidArgument, Overloaded, SessionSuperseded

POOL = PoolStatistics(size=8, alive_count=7, died_count=3, killed_count=2, abandoned_count=1)


class Rig:
    """A heartbeat whose waits are only noted, and which ends after as many beats as it has answers."""

    def __init__(self, *answers: HeartbeatResponse | Exception) -> None:
        self.now_s = 100.0
        self.answers = list(answers)
        self.client = FakeClient(on_heartbeat=self.answer)
        self.book = LeaseBook(lambda: self.now_s)
        self.book.resize(8)
        self.given_back: list[HeldLease] = []
        self.ended_crawls: list[str] = []
        self.drains = 0
        self.sizes: list[int] = []
        self.size_error: Exception | None = None
        self.waits: list[float] = []
        self.heartbeat = Heartbeat(
            self.client.as_frontier(),
            self.book,
            self,
            self.give_back,
            toes=8,
            service_address="127.0.0.1:7708",
            drain=self.drain,
            trouble=lambda: "disk low",
            idle_crawls=lambda: ["a", "b"],
            end_crawls=self.ended_crawls.extend,
            clock_s=lambda: self.now_s,
        )
        self.heartbeat._stop = Waits(self.waits, lambda: not self.answers)

    def answer(self, tokens: Collection[bytes]) -> HeartbeatResponse:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def give_back(self, held: Iterable[HeldLease]) -> None:
        self.given_back.extend(held)

    def set_size(self, size: int) -> None:
        self.sizes.append(size)
        if self.size_error is not None:
            raise self.size_error

    def drain(self) -> None:
        self.drains += 1

    def statistics(self) -> PoolStatistics:
        return POOL

    def steps(self) -> Counter[str]:
        return Counter(FETCHING=2)


class Waits(threading.Event):
    def __init__(self, waits: list[float], over: object) -> None:
        super().__init__()
        self.waits, self.over = waits, over

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0.0)
        if callable(self.over) and self.over():
            self.set()
        return self.is_set()


def told(**answer: object) -> HeartbeatResponse:
    return HeartbeatResponse(**answer)  # type: ignore[arg-type]


def test_all_that_is_held_is_named_at_once() -> None:
    rig = Rig(told())
    held(rig.book, lease("a"))
    rig.book.add([(lease("b"), POLICY)])
    rig.heartbeat.run()
    assert rig.client.told == [("heartbeat", ["a", "b"])]


def test_each_tells_what_has_become_of_the_pool_where_the_node_can_be_asked_and_its_trouble() -> None:
    rig = Rig(told())
    rig.heartbeat.run()
    assert rig.client.described == [(POOL, "127.0.0.1:7708", "disk low")]


def test_idle_crawls_are_asked_about_and_those_that_have_ended_are_told() -> None:
    rig = Rig(told(), told(ended_crawls=["b"]))
    rig.heartbeat.run()
    assert rig.client.asked_about == [["a", "b"]] * 2
    assert rig.ended_crawls == ["b"]


def test_the_frontier_may_want_the_node_to_end_and_need_not_say_so_twice() -> None:
    rig = Rig(told(drain=True), told(drain=True), told())
    rig.heartbeat.run()
    assert rig.drains == 1


def test_an_answer_extends_leases_from_when_the_heartbeat_was_sent() -> None:
    rig = Rig(told(lease_duration=Duration(seconds=10)))
    rig.book.add([(lease("a"), POLICY), (lease("b"), POLICY)])
    rig.now_s = 120.0
    rig.heartbeat.run()
    rig.now_s = 129.9
    first = rig.book.take(threading.Event())
    rig.now_s = 130.0
    second = rig.book.take(threading.Event())
    assert first is not None and first.stage is LeaseStage.STARTED
    assert second is not None and second.stage is LeaseStage.DONE


def test_ended_leases_are_cut_and_those_to_release_given_back() -> None:
    rig = Rig(told(ended_tokens=[b"running"], release_tokens=[b"waiting"]))
    (running,) = held(rig.book, lease("running"))
    rig.book.add([(lease("waiting"), POLICY)])
    rig.heartbeat.run()
    assert running.ended and running.cancellation.cancelled
    assert [one.lease.uri for one in rig.given_back] == ["waiting"]


def test_fetches_to_interrupt_are_broken_off_and_what_was_not_started_is_given_back() -> None:
    rig = Rig(told(interrupt_tokens=[b"running", b"finished", b"waiting", b"never heard of"]))
    running, finished, other = held(rig.book, lease("running"), lease("finished"), lease("other"))
    rig.book.done(finished)
    rig.book.add([(lease("waiting"), POLICY)])
    rig.heartbeat.run()
    assert running.killed and running.cancellation.cancelled and not running.ended
    assert not finished.killed and not other.cancellation.cancelled
    assert [one.lease.uri for one in rig.given_back] == ["waiting"]


def test_the_pool_gets_the_size_that_the_frontier_wants_or_else_the_one_it_began_with() -> None:
    rig = Rig(*[told(), told(pool_size=3), told(pool_size=3), told(pool_size=0), told(), told(pool_size=8)])
    rig.heartbeat.run()
    assert rig.sizes == [3, 0, 8, 8], "the last one, although another may have changed it meanwhile"


def test_a_pool_that_cannot_be_so_large_is_no_reason_to_be_silent() -> None:
    rig = Rig(told(pool_size=10_000), told(pool_size=10_000), told())
    rig.size_error = RuntimeError("can't start new thread")
    rig.heartbeat.run()
    assert rig.sizes == [10_000, 8] and len(rig.client.told) == 3


def test_a_node_warns_once_of_each_other_process_of_its_name() -> None:
    rivals = ("", "a", "a", "", "b", "a")
    rig = Rig(*(told(rival_session=each) for each in rivals))
    with capture_logs() as lines:
        rig.heartbeat.run()
    name = rig.client.as_frontier().node
    warnings = [line for line in lines if line["log_level"] == "warning"]
    assert [(line["event"], line["name"], line["rival_session"]) for line in warnings] == [
        ("name_shared", name, "a"),
        ("name_shared", name, "b"),
    ]


def test_the_last_heartbeat_of_a_node_that_ends_says_so() -> None:
    rig = Rig(told())
    rig.heartbeat.leave()
    rig.heartbeat.run()
    assert rig.client.told == [("goodbye", [])]


def test_heartbeats_that_are_just_stopped_say_no_goodbye() -> None:
    rig = Rig(told())
    rig.heartbeat.run()
    assert rig.client.told == [("heartbeat", [])]


@pytest.mark.parametrize(
    "error", [FrontierUnavailable("away"), SessionSuperseded("somebody else"), InvalidArgument("no")]
)
def test_a_goodbye_that_nobody_hears_is_no_error(error: Exception) -> None:
    rig = Rig(error)
    rig.heartbeat.leave()
    rig.heartbeat.run()
    assert rig.client.told == [("goodbye", [])]


def test_heartbeats_go_on_while_the_frontier_is_away_and_come_soon_when_it_is_back() -> None:
    rig = Rig(
        *[FrontierUnavailable("away")] * 7,
        told(interval_duration=Duration(seconds=5)),
        Overloaded("much to do", retry_after_s=4),
        InvalidArgument("no"),
        told(interval_duration=Duration(seconds=5)),
    )
    rig.heartbeat.run()
    assert rig.waits == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 5.0, 4.0, 2.0, 5.0]


def test_a_superseded_session_ends_them() -> None:
    rig = Rig(SessionSuperseded("somebody else"))
    with pytest.raises(SessionSuperseded):
        rig.heartbeat.run()
