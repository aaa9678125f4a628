"""A spider asks for leases until its crawl, or its part in it, is over."""

from collections.abc import Sequence
from typing import Any, cast

import pytest
from scrapy.settings import Settings

from toehold.frontier.v1.crawl_pb2 import FetchPolicy
from toehold.frontier.v1.frontier_pb2 import (
    EMPTY_REASON_FINISHED,
    EMPTY_REASON_PAUSED,
    PURPOSE_ROBOTS,
    Lease,
    NextResponse,
)
from toehold_client import errors
from toehold_client.worker.contact import Contact
from toehold_scrapy.book import Book, SpiderLease
from toehold_scrapy.configuration import Configuration
from toehold_scrapy.log import SpiderLog
from toehold_scrapy.poller import Poller

OVER = NextResponse(empty_reason=EMPTY_REASON_FINISHED)
POLICY = FetchPolicy(fetch_policy_id="p", user_agent="toehold")


class Frontier:
    """Gives these answers, one after another."""

    def __init__(self, *answers: NextResponse | errors.ToeholdError) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []

    def next(self, **asked: Any) -> NextResponse:
        self.asked.append(asked)
        answer = self.answers.pop(0)
        if isinstance(answer, errors.ToeholdError):
            raise answer
        return answer


class Listener:
    """Takes down what it hears."""

    def __init__(self) -> None:
        self.robots: list[bytes] = []
        self.ends: list[tuple[str, str]] = []

    def arrived(self, robots: Sequence[SpiderLease]) -> None:
        self.robots += [held.lease.token for held in robots]

    def crawl_over(self) -> None:
        self.ends.append(("finished", ""))

    def must_end(self, reason: str, message: str) -> None:
        self.ends.append((reason, message))


def polled(*answers: NextResponse | errors.ToeholdError) -> tuple[Frontier, Book, Listener]:
    """A poller's doings until it has heard all these answers."""
    frontier, book, listener = Frontier(*answers), Book(4), Listener()
    settings = Settings({"TOEHOLD_FRONTIER": "127.0.0.1:1", "TOEHOLD_CRAWL": "c"})
    Poller(Configuration.of(settings), cast(Any, frontier), book, Contact(SpiderLog()), listener).run()
    assert frontier.answers == []
    return frontier, book, listener


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (OVER, "finished"),
        (errors.SessionSuperseded("another"), "toehold_superseded"),
        (errors.UnknownCrawl("no such"), "toehold_unknown_crawl"),
        (errors.InvalidArgument("node must have 1 to 128 characters, got 400"), "toehold_misconfigured"),
    ],
)
def test_a_spider_that_gets_no_more_leases_ends_and_says_why(
    answer: NextResponse | errors.ToeholdError, reason: str
) -> None:
    message = str(answer) if isinstance(answer, errors.ToeholdError) else ""
    _, _, listener = polled(answer)
    assert listener.ends == [(reason, message)]


def test_a_frontier_that_is_away_or_pauses_is_asked_again() -> None:
    frontier, _, listener = polled(
        errors.FrontierUnavailable("away"), NextResponse(empty_reason=EMPTY_REASON_PAUSED), OVER
    )
    assert len(frontier.asked) == 3
    assert listener.ends == [("finished", "")]


def test_leases_of_robots_txt_files_are_fetched_at_once_and_others_wait() -> None:
    leases = [
        Lease(token=b"page", fetch_policy_id="p"),
        Lease(token=b"robots", fetch_policy_id="p", purpose=PURPOSE_ROBOTS),
    ]
    frontier, book, listener = polled(NextResponse(leases=leases, fetch_policies=[POLICY]), OVER)
    assert listener.robots == [b"robots"]
    assert [held.lease.token for held in book.withdraw()] == [b"page"]
    assert [(asked["max_leases"], asked["known_fetch_policy_ids"]) for asked in frontier.asked] == [
        (4, []),
        (2, ["p"]),
    ]


def test_settings_of_the_crawl_that_scrapy_does_not_heed_are_told(caplog: pytest.LogCaptureFixture) -> None:
    policy = FetchPolicy(fetch_policy_id="p", proxy="http://proxy.test", max_bytes_per_second=5)
    polled(NextResponse(fetch_policies=[POLICY]), NextResponse(fetch_policies=[policy]), OVER)
    [warning] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "these settings of the crawl: fetch.proxy, fetch.max_bytes_per_second." in warning
