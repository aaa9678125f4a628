"""What failed calls mean for a worker, how often and when it makes them again, and what its log is told."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from toehold_client.errors import (
    BatchTooLarge,
    ClientClosed,
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
    ShardAway,
    ToeholdError,
    Unauthenticated,
    UnexpectedAnswer,
    UnknownCrawl,
)
from toehold_client.rpc.request_ids import request_id_in, with_request_id
from toehold_client.worker import tasks
from toehold_client.worker.contact import Contact, ContactLog
from toehold_client.worker.meaning import Meaning, meaning_of
from toehold_client.worker.rests import LONGEST_HEARTBEAT_REST_S, MAX_FAILURES, Abandoned, CallPace, Rests
from toehold_client.worker.threads import keep_calling, persist

AWAY, SUPERSEDED = FrontierUnavailable("away"), SessionSuperseded("somebody else")
DENIED = Unauthenticated("token 07 expired", reason="TOKEN_EXPIRED")


class FakeLog(ContactLog):
    """Takes down what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def lost(self, error: ToeholdError) -> None:
        self.lines.append(f"lost: {error}")

    def back(self, silent_s: float) -> None:
        self.lines.append(f"back after {silent_s:g}")

    def denied(self, error: ToeholdError) -> None:
        self.lines.append(f"denied: {error}")

    def allowed(self) -> None:
        self.lines.append("allowed")

    def busy(self, error: ToeholdError) -> None:
        self.lines.append(f"busy: {error}")

    def failed(self, error: ToeholdError) -> None:
        self.lines.append(f"failed: {error}")


class Waits(threading.Event):
    """An event that is set after so many waits, and remembers for how long it was waited."""

    def __init__(self, over_after: int = 1000) -> None:
        super().__init__()
        self.waits: list[float] = []
        self._over_after = over_after

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0.0)
        if len(self.waits) == self._over_after:
            self.set()
        return self.is_set()


def answering(*outcomes: Exception | float) -> Callable[[], float]:
    left = list(outcomes)

    def call() -> float:
        outcome = left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return call


def unexpected(error: ToeholdError) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (FrontierUnavailable("x"), Meaning.SILENT),
        (DeadlineExceeded("x"), Meaning.SILENT),
        (Overloaded("x"), Meaning.BUSY),
        (DiskReserve("x"), Meaning.BUSY),
        (CrawlHeld("x"), Meaning.BUSY),
        (ShardAway("x"), Meaning.BUSY),
        (SessionSuperseded("x"), Meaning.SUPERSEDED),
        (CrawlFinished("x"), Meaning.CRAWL_OVER),
        (CrawlTornDown("x"), Meaning.CRAWL_OVER),
        (UnknownCrawl("x"), Meaning.CRAWL_OVER),
        (InvalidArgument("x"), Meaning.REFUSED),
        (BatchTooLarge("x"), Meaning.REFUSED),
        (UnexpectedAnswer("x"), Meaning.FAILED),
        (ClientClosed("x"), Meaning.CLOSED),
        (Unauthenticated("x", reason="TOKEN_EXPIRED"), Meaning.DENIED),
        (PermissionDenied("x", reason="ROLE_MISSING"), Meaning.DENIED),
        (PermissionDenied("x", reason="NODE_NOT_ALLOWED"), Meaning.DENIED),
        (PermissionDenied("x", reason="CRAWL_NOT_ALLOWED"), Meaning.REFUSED),
    ],
)
def test_an_error_has_one_meaning_for_every_worker(error: ToeholdError, meaning: Meaning) -> None:
    assert meaning_of(error) is meaning


def test_rests_grow_from_a_tenth_of_a_second_to_two() -> None:
    rests = Rests()
    assert [rests.next_s() for _ in range(7)] == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]


def test_a_longer_rest_that_is_asked_for_is_taken_within_reason() -> None:
    rests = Rests()
    assert [rests.next_s(5.0), rests.next_s(3600.0), rests.next_s(0.01)] == [5.0, 60.0, 0.4]


def test_a_call_is_made_until_it_is_answered() -> None:
    waits, log = Waits(), FakeLog()
    errors = [AWAY] * 10 + [Overloaded("much to do", retry_after_s=7.0), DENIED]
    assert persist(answering(*errors, 1.0), log, waits) == 1.0
    assert waits.waits == [0.1, 0.2, 0.4, 0.8, 1.6, *[2.0] * 5, 7.0, 5.0]
    assert log.lines == ["busy: much to do"]


@pytest.mark.parametrize("error", [CrawlFinished("finished"), SUPERSEDED, InvalidArgument("no")])
def test_a_refusal_ends_the_tries_at_once(error: ToeholdError) -> None:
    waits = Waits()
    with pytest.raises(type(error)):
        persist(answering(error), FakeLog(), waits)
    assert waits.waits == []


def test_a_failure_without_a_name_is_final_after_a_few_tries() -> None:
    waits, log = Waits(), FakeLog()
    with pytest.raises(UnexpectedAnswer):
        persist(answering(*[UnexpectedAnswer("INTERNAL")] * MAX_FAILURES), log, waits)
    assert len(waits.waits) == MAX_FAILURES - 1
    assert log.lines == ["failed: INTERNAL"] * (MAX_FAILURES - 1)


def test_giving_up_ends_the_tries() -> None:
    with pytest.raises(Abandoned):
        persist(answering(AWAY, 1.0), FakeLog(), Waits(over_after=1))


def test_closing_the_client_ends_the_tries() -> None:
    with pytest.raises(Abandoned):
        persist(answering(AWAY, ClientClosed("closed"), 1.0), FakeLog(), Waits())


def test_all_tries_of_a_call_have_one_request_id_and_a_busy_frontier_is_told_once() -> None:
    seen: list[str] = []

    def call() -> int:
        seen.append(request_id_in(with_request_id(())))
        if len(seen) < 3:
            raise Overloaded("too busy")
        return len(seen)

    log = FakeLog()
    assert persist(call, log, Waits()) == 3
    assert len(set(seen)) == 1
    assert log.lines == ["busy: too busy"]


def test_calls_go_on_whatever_is_answered_and_come_soon_once_the_frontier_is_back() -> None:
    refusals: list[str] = []
    errors = (Overloaded("much to do", retry_after_s=4), InvalidArgument("no"), UnexpectedAnswer("INTERNAL"))
    outcomes: list[ToeholdError | float] = [*[AWAY] * 7, 5.0, *errors, 5.0]
    waits = Waits(over_after=len(outcomes))
    keep_calling(answering(*outcomes), CallPace(lambda error: refusals.append(str(error))), waits)
    assert waits.waits == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 5.0, 4.0, 2.0, 2.0, 5.0]
    assert refusals == ["no", "INTERNAL"]


def test_a_heartbeat_rests_five_seconds_at_most_as_leases_are_short_after_a_restart() -> None:
    waits = Waits(over_after=2)
    errors = [Overloaded("much to do", retry_after_s=60), DENIED]
    keep_calling(answering(*errors), CallPace(unexpected, LONGEST_HEARTBEAT_REST_S), waits)
    assert waits.waits == [5.0, 5.0]


def test_a_superseded_session_ends_calls_that_go_on() -> None:
    with pytest.raises(SessionSuperseded):
        keep_calling(answering(1.0, SUPERSEDED), CallPace(unexpected), Waits())


def test_closing_the_client_ends_calls_that_go_on() -> None:
    waits = Waits()
    keep_calling(answering(1.0, ClientClosed("closed")), CallPace(unexpected), waits)
    assert waits.waits == [1.0]


async def test_tasks_rest_as_threads_do(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    call = answering(AWAY, AWAY, 3.0, AWAY, DENIED, SUPERSEDED)

    async def act() -> float:
        return call()

    with pytest.raises(SessionSuperseded):
        await tasks.keep_calling(act, CallPace(unexpected))
    assert waits == [0.1, 0.2, 3.0, 0.1, 5.0]


def test_an_outage_is_two_lines_in_the_log() -> None:
    now_s, log = [100.0], FakeLog()
    contact = Contact(log, lambda: now_s[0])
    for error in (AWAY, DeadlineExceeded("late"), AWAY, None, None):
        now_s[0] += 1.0
        contact.note(error)
    assert log.lines == ["lost: away", "back after 4"]


def test_a_refusal_is_an_answer() -> None:
    log = FakeLog()
    contact = Contact(log)
    contact.note(AWAY)
    contact.note(InvalidArgument("no"))
    assert [line.split()[0] for line in log.lines] == ["lost:", "back"]


def test_a_worker_that_may_not_call_has_two_lines_in_the_log() -> None:
    """Or nobody would know why it fetches nothing, or the log would fill."""
    log = FakeLog()
    contact = Contact(log)
    for error in (DENIED, AWAY, DENIED, Overloaded("busy"), DENIED, None, None):
        contact.note(error)
    assert [line for line in log.lines if "lost" not in line and "back" not in line] == [
        "denied: token 07 expired",
        "allowed",
    ]


def test_silence_is_reckoned_from_the_last_answer() -> None:
    now_s = [100.0]
    contact = Contact(FakeLog(), lambda: now_s[0])
    now_s[0] = 105.0
    contact.note(AWAY)
    assert contact.answered_at_s() == 100.0
    contact.note(ClientClosed("closed"))
    assert contact.answered_at_s() == 100.0
    with contact.noting():
        pass
    assert contact.answered_at_s() == 105.0


def test_a_call_that_fails_is_noted_and_its_error_goes_on() -> None:
    log = FakeLog()
    with pytest.raises(FrontierUnavailable), Contact(log).noting():
        raise AWAY
    assert log.lines == ["lost: away"]
