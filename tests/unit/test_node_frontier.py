"""The frontier as the node sees it: what failures mean, how often a call is made, what the log is told."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from node_doubles.client import FakeClient
from structlog.testing import capture_logs

from crawler_node.leases.frontier import (
    MAX_FAILURES,
    Abandoned,
    Busy,
    Contact,
    CrawlOver,
    Failed,
    FrontierConnection,
    NotNow,
    Refused,
    Rests,
    Superseded,
    Unwelcome,
    persist,
)
from toehold_client.errors import (
    BatchTooLarge,
    CrawlFinished,
    CrawlHeld,
    CrawlTornDown,
    DeadlineExceeded,
    DiskReserve,
    FrontierUnavailable,
    InvalidArgument,
    Overloaded,
    PermissionDenied,
    SessionSuperseded,
    Unauthenticated,
    UnexpectedAnswer,
    UnknownCrawl,
)
from toehold_client.rpc.request_ids import request_id_in, with_request_id


def failing(error: Exception) -> FrontierConnection:
    def fail(*arguments: object) -> list[object]:
        raise error

    return FakeClient(on_finished=fail).as_frontier()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (FrontierUnavailable("x"), NotNow),
        (DeadlineExceeded("x"), NotNow),
        (Overloaded("x"), Busy),
        (DiskReserve("x"), Busy),
        (CrawlHeld("x"), Busy),
        (SessionSuperseded("x"), Superseded),
        (CrawlFinished("x"), CrawlOver),
        (CrawlTornDown("x"), CrawlOver),
        (UnknownCrawl("x"), CrawlOver),
        (InvalidArgument("x"), Refused),
        (BatchTooLarge("x"), Refused),
        (UnexpectedAnswer("x"), Failed),
        (Unauthenticated("x", reason="TOKEN_EXPIRED"), Unwelcome),
        (PermissionDenied("x", reason="ROLE_MISSING"), Unwelcome),
        (PermissionDenied("x", reason="NODE_NOT_ALLOWED"), Unwelcome),
        (PermissionDenied("x", reason="CRAWL_NOT_ALLOWED"), Refused),
    ],
)
def test_what_a_failure_means_for_the_node(error: Exception, meaning: type[Exception]) -> None:
    with pytest.raises(meaning) as raised:
        failing(error).finished([])
    assert type(raised.value) is meaning and str(raised.value) == "x"


def test_a_frontier_that_refuses_for_now_says_for_how_long() -> None:
    with pytest.raises(Busy) as raised:
        failing(CrawlHeld("x", retry_after_s=7.0)).finished([])
    assert raised.value.retry_after_s == 7.0


def test_after_closing_every_failure_means_that_the_node_gave_up() -> None:
    frontier = failing(ValueError("Cannot invoke RPC on closed channel!"))
    with pytest.raises(ValueError, match="closed channel"):
        frontier.finished([])
    frontier.close()
    with pytest.raises(Abandoned):
        frontier.finished([])


def test_rests_grow_from_a_tenth_of_a_second_to_two() -> None:
    rests = Rests()
    assert [rests.next_s() for _ in range(7)] == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]


def test_a_longer_rest_that_is_asked_for_is_taken_within_reason() -> None:
    rests = Rests()
    assert [rests.next_s(5.0), rests.next_s(3600.0), rests.next_s(0.01)] == [5.0, 60.0, 0.4]


class Waits(threading.Event):
    """An event that is never set, and remembers for how long it was waited."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0.0)
        return self.is_set()


def answering(*outcomes: Exception | str) -> Callable[[], str]:
    left = list(outcomes)

    def call() -> str:
        outcome = left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return call


def test_a_call_is_made_until_it_is_answered() -> None:
    waits = Waits()
    away = [NotNow("away")] * 10
    assert persist(answering(*away, Busy("much to do", 7.0), "done"), waits) == "done"
    assert waits.waits == [0.1, 0.2, 0.4, 0.8, 1.6, *[2.0] * 5, 7.0]


def test_a_refusal_is_final() -> None:
    with pytest.raises(CrawlOver):
        persist(answering(CrawlOver("finished")), Waits())


def test_a_failure_without_a_name_is_final_after_a_few_tries() -> None:
    waits = Waits()
    with pytest.raises(Failed):
        persist(answering(*[Failed("INTERNAL")] * MAX_FAILURES), waits)
    assert len(waits.waits) == MAX_FAILURES - 1


def test_giving_up_ends_the_tries() -> None:
    waits = Waits()
    waits.set()
    with pytest.raises(Abandoned):
        persist(answering(NotNow("away"), "never asked"), waits)


def test_an_outage_is_two_lines_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    contact = Contact()
    for _ in range(3):
        contact.missed(FrontierUnavailable("no frontier answers"))
    for _ in range(3):
        contact.answered()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert "frontier_lost" in lines[0] and "frontier_back" in lines[1]


def test_a_node_that_may_not_call_has_two_lines_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    """Or nobody would know why it fetches nothing, or the log would fill."""
    answers: list[Exception | None] = [Unauthenticated("token 07 expired")] * 3 + [None] * 2

    def answer(*arguments: object) -> list[object]:
        if (error := answers.pop(0)) is not None:
            raise error
        return []

    frontier = FakeClient(on_finished=answer).as_frontier()  # type: ignore[arg-type]
    for _ in range(3):
        with pytest.raises(Unwelcome):
            frontier.finished([])
    for _ in range(2):
        frontier.finished([])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert "calls_denied" in lines[0] and "token 07 expired" in lines[0]
    assert "calls_allowed" in lines[1]


def test_silence_is_reckoned_from_the_last_answer() -> None:
    now_s = [100.0]
    contact = Contact(lambda: now_s[0])
    now_s[0] = 105.0
    contact.missed(FrontierUnavailable("away"))
    assert contact.answered_at_s() == 100.0
    contact.answered()
    assert contact.answered_at_s() == 105.0


def test_lines_about_failed_calls_name_the_request_whose_tries_share_it() -> None:
    seen: list[str] = []

    def refuse(*_: object) -> list[Any]:
        seen.append(request_id_in(with_request_id(())))
        error = Overloaded("too busy")
        error.request_id = "given"
        raise error

    connection = FrontierConnection(FakeClient(on_schedule=refuse), Contact(), "n", "s")

    def offer() -> object:
        if len(seen) == 3:
            raise CrawlOver("finished")
        return connection.schedule("c", [])

    with capture_logs() as lines, pytest.raises(CrawlOver):
        persist(offer, Waits())
    assert [(line["event"], line["request_id"]) for line in lines] == [("frontier_busy", "given")]
    assert len(seen) == 3 and len(set(seen)) == 1
