"""When the client tries again: with a clock that is a variable, and answers in place of a frontier."""

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from toehold.frontier.v1.admin_pb2 import (
    Crawl,
    CreateCrawlResponse,
    GetCrawlResponse,
    TearDownCrawlResponse,
    VerifyJob,
)
from toehold.frontier.v1.crawl_pb2 import CrawlSpec, CrawlState, CrawlStatus, TargetState, Verdict
from toehold.frontier.v1.frontier_pb2 import (
    Candidate,
    HeartbeatResponse,
    NextResponse,
    RequestStateResponse,
    ScheduleResponse,
)
from toehold_client import FrontierClient, errors
from toehold_client.rpc.retry import Patience

T = TypeVar("T")
AWAY = errors.FrontierUnavailable("away")


class Play(FrontierClient):
    """A client whose calls get these answers, each of which takes `answer_s`; it notes requests and rests."""

    def __init__(self, patience_s: float = 0.0, *, chance: float = 1.0, answer_s: float = 0.0) -> None:
        self.now_s = 1000.0
        self.rests: list[float] = []
        self.requests: list[Any] = []
        self.waits: list[float] = []
        self._patience = Patience(patience_s, clock=lambda: self.now_s, chance=lambda: chance)
        self._answer_s = answer_s
        self._answers: list[Any] = []

    def run(self, ask: "Callable[[Play], T]", *answers: object) -> T:
        """The result of a method, or its error. Fails if answers are left over."""
        self._answers = list(answers)
        try:
            return ask(self)
        finally:
            assert not self._answers or not self.requests, f"not asked for: {self._answers}"

    def _attempt(self, pick: Any, request: Any, wait_s: float = 0.0) -> Any:
        self.requests.append(type(request).FromString(request.SerializeToString()))
        self.waits.append(wait_s)
        self.now_s += self._answer_s
        answer = self._answers.pop(0)
        if isinstance(answer, errors.ToeholdError):
            raise answer
        return answer

    def _rest(self, seconds: float) -> None:
        self.rests.append(seconds)
        self.now_s += seconds


def beat(play: Play) -> HeartbeatResponse:
    return play.heartbeat(node="n", session="s", tokens=[])


def stop(play: Play) -> CrawlStatus:
    return play.request_state("c", TargetState.TARGET_STATE_FINISH)


def create(play: Play) -> Crawl:
    return play.create_crawl("c", CrawlSpec())


def tear_down(play: Play) -> TearDownCrawlResponse:
    return play.tear_down_crawl("c")


def test_without_patience_a_call_is_tried_once() -> None:
    play = Play()
    with pytest.raises(errors.FrontierUnavailable):
        play.run(beat, AWAY)
    assert play.rests == []


def test_rests_double_up_to_two_seconds() -> None:
    play = Play(60)
    play.run(beat, *[AWAY] * 7, HeartbeatResponse())
    assert play.rests == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0])


def test_chance_halves_a_rest_at_most() -> None:
    play = Play(60, chance=0.0)
    play.run(beat, *[AWAY] * 3, HeartbeatResponse())
    assert play.rests == pytest.approx([0.05, 0.1, 0.2])


def test_no_try_begins_after_patience_is_over() -> None:
    play = Play(1.0)
    with pytest.raises(errors.FrontierUnavailable):
        play.run(beat, *[AWAY] * 4)
    assert play.rests == pytest.approx([0.1, 0.2, 0.4])  # 0.8 more would be beyond


def test_time_spent_on_answers_counts_as_patience() -> None:
    play = Play(1.0, answer_s=0.8)
    with pytest.raises(errors.FrontierUnavailable):
        play.run(beat, AWAY, AWAY)
    assert play.rests == pytest.approx([0.1])


@pytest.mark.parametrize("kind", [errors.Overloaded, errors.CrawlHeld])
def test_a_retry_waits_as_long_as_the_frontier_says(kind: type[errors.RefusedForNow]) -> None:
    play = Play(60)
    play.run(beat, kind("not now", retry_after_s=7), HeartbeatResponse())
    assert play.rests == pytest.approx([7.1])


def test_uris_offered_to_a_held_crawl_wait_until_it_is_released() -> None:
    """S0.32: HOLD is a stable state; nothing of it is done meanwhile, so nothing is done twice."""
    play = Play(60)
    offered = [Candidate(uri="u")]
    verdicts = play.run(
        lambda client: client.schedule("c", offered),
        *[errors.CrawlHeld("held", retry_after_s=1)] * 3,
        ScheduleResponse(verdicts=[Verdict.VERDICT_QUEUED]),
    )
    assert verdicts == [Verdict.VERDICT_QUEUED]
    assert play.rests == pytest.approx([1.1, 1.2, 1.4])


def test_a_hint_beyond_patience_is_not_waited_for() -> None:
    play = Play(5)
    with pytest.raises(errors.Overloaded):
        play.run(beat, errors.Overloaded("busy", retry_after_s=7))
    assert play.rests == []


@pytest.mark.parametrize(
    "error", [errors.DeadlineExceeded("late"), errors.CrawlFinished("over"), errors.UnexpectedAnswer("?")]
)
def test_a_call_whose_error_a_retry_cannot_mend_is_not_repeated(error: errors.ToeholdError) -> None:
    play = Play(60)
    with pytest.raises(type(error)):
        play.run(beat, error)


@pytest.mark.parametrize(
    "ask",
    [create, lambda client: client.start_job("c", VerifyJob()), lambda client: client.create_checkpoint()],
    ids=["create_crawl", "start_job", "create_checkpoint"],
)
def test_calls_that_might_take_effect_twice_are_not_repeated_after_a_broken_connection(
    ask: Callable[[Play], object],
) -> None:
    play = Play(60)
    with pytest.raises(errors.FrontierUnavailable):
        play.run(ask, AWAY)


@pytest.mark.parametrize("kind", [errors.Overloaded, errors.CrawlHeld])
def test_creating_a_crawl_is_repeated_when_it_was_refused_for_now(kind: type[errors.RefusedForNow]) -> None:
    play = Play(60)
    created = play.run(create, kind("not now"), CreateCrawlResponse())
    assert created == CreateCrawlResponse().crawl


def found(state: CrawlState.ValueType, *, tearing_down: bool = False) -> GetCrawlResponse:
    return GetCrawlResponse(crawl=Crawl(status=CrawlStatus(state=state, tearing_down=tearing_down)))


def asked(play: Play) -> list[str]:
    return [type(request).__name__ for request in play.requests]


@pytest.mark.parametrize("state", [CrawlState.CRAWL_STATE_STOPPING, CrawlState.CRAWL_STATE_FINISHED])
def test_a_stop_whose_answer_got_lost_is_no_second_stop(state: CrawlState.ValueType) -> None:
    """S0.17: a second stop interrupts what is in flight, so only an operator may ask a second time."""
    play = Play(60)
    assert play.run(stop, AWAY, AWAY, found(state)).state == state
    assert asked(play) == ["RequestStateRequest", "GetCrawlRequest", "GetCrawlRequest"]


def test_a_stop_that_got_lost_is_asked_again() -> None:
    play = Play(60)
    stopping = RequestStateResponse(status=CrawlStatus(state=CrawlState.CRAWL_STATE_STOPPING))
    running = found(CrawlState.CRAWL_STATE_RUNNING)
    assert play.run(stop, AWAY, running, AWAY, running, stopping) == stopping.status
    assert asked(play) == [*["RequestStateRequest", "GetCrawlRequest"] * 2, "RequestStateRequest"]


def test_a_second_stop_is_asked_for_as_it_is() -> None:
    """S0.17."""
    play = Play(60)
    stopping = RequestStateResponse(status=CrawlStatus(state=CrawlState.CRAWL_STATE_STOPPING))
    play.run(stop, stopping)
    play.run(stop, errors.Overloaded("busy"), stopping)
    assert asked(play) == ["RequestStateRequest"] * 3


def test_a_stop_has_the_patience_of_one_call() -> None:
    play = Play(1.0)
    with pytest.raises(errors.FrontierUnavailable):
        play.run(stop, *[AWAY] * 4)
    assert play.rests == pytest.approx([0.1, 0.2, 0.4])


def test_a_pause_whose_answer_got_lost_is_asked_for_again() -> None:
    play = Play(60)
    pause = TargetState.TARGET_STATE_PAUSE
    play.run(lambda client: client.request_state("c", pause), AWAY, RequestStateResponse())
    assert asked(play) == ["RequestStateRequest"] * 2


def test_a_teardown_whose_answer_got_lost_is_no_second_one() -> None:
    """S0.28: a teardown of a crawl that stops counts as a second stop. S0.30: and it is done once."""
    play = Play(60)
    stopping = found(CrawlState.CRAWL_STATE_STOPPING, tearing_down=True)
    answer = play.run(tear_down, AWAY, stopping)
    assert (answer.status, answer.begun) == (stopping.crawl.status, False)
    assert asked(play) == ["TearDownCrawlRequest", "GetCrawlRequest"]


def test_a_teardown_that_got_lost_is_asked_for_again() -> None:
    play = Play(60)
    begun = TearDownCrawlResponse(begun=True)
    stopping = found(CrawlState.CRAWL_STATE_STOPPING)
    assert play.run(tear_down, AWAY, stopping, begun) == begun
    assert asked(play) == ["TearDownCrawlRequest", "GetCrawlRequest", "TearDownCrawlRequest"]


def test_each_batch_has_patience_of_its_own_and_order_is_kept() -> None:
    play = Play(0.5)
    offered = [Candidate(uri=str(number)) for number in range(1500)]
    first, second = [Verdict.VERDICT_QUEUED] * 1000, [Verdict.VERDICT_ALREADY_SEEN] * 500
    verdicts = play.run(
        lambda client: client.schedule("c", offered),
        *(AWAY, AWAY, ScheduleResponse(verdicts=first)),
        *(AWAY, AWAY, ScheduleResponse(verdicts=second)),
    )
    assert verdicts == first + second
    assert [len(request.candidates) for request in play.requests] == [1000] * 3 + [500] * 3


def test_an_answer_of_another_length_is_not_taken_for_verdicts() -> None:
    play = Play()
    with pytest.raises(errors.UnexpectedAnswer, match="1 answers for 2 items"):
        play.run(
            lambda client: client.schedule("c", [Candidate(), Candidate()]),
            ScheduleResponse(verdicts=[Verdict.VERDICT_QUEUED]),
        )


def test_nothing_to_schedule_asks_nobody() -> None:
    play = Play()
    assert play.run(lambda client: client.schedule("c", [])) == []
    assert play.requests == []


def test_a_long_poll_has_its_wait_added_to_the_deadline() -> None:
    play = Play()
    play.run(
        lambda client: client.next(
            node="n", session="s", max_leases=5, wait_s=12.5, crawl="c", known_fetch_policy_ids=["p"]
        ),
        NextResponse(),
    )
    assert play.waits == [12.5]
    (request,) = play.requests
    assert request.wait_duration.ToMilliseconds() == 12_500
    assert list(request.known_fetch_policy_ids) == ["p"]
