"""What a program gets of a crawl reads like the contract's messages, and prints in words."""

import copy

import pytest

from toehold.frontier.v1 import crawl_pb2
from toehold.frontier.v1.admin_pb2 import Crawl, GetStatisticsResponse
from toehold.frontier.v1.crawl_pb2 import CrawlSpec, CrawlState, CrawlStatus, ExitStatus
from toehold_client.events import Event
from toehold_client.shown import shown_crawl, shown_statistics, shown_status
from toehold_client.spec.plain import to_plain

RUNNING = CrawlStatus(
    state=CrawlState.CRAWL_STATE_RUNNING, exit_status=ExitStatus.EXIT_STATUS_RUNNING, reason="because"
)


@pytest.mark.parametrize(
    "status",
    [
        shown_status(RUNNING),
        shown_crawl(Crawl(crawl="c", status=RUNNING)).status,
        shown_statistics(GetStatisticsResponse(status=RUNNING)).status,
        Event(crawl_pb2.Event(status_changed=RUNNING)).status_changed,
    ],
    ids=["status", "description", "statistics", "event"],
)
def test_a_state_prints_its_name_wherever_it_comes_from(status: CrawlStatus) -> None:
    assert (str(status.state), f"{status.state:>8}", repr(status.state)) == ("RUNNING", " RUNNING", "RUNNING")
    assert str(status.exit_status) == "RUNNING"
    assert str(status) == "RUNNING: because"
    assert status.state == CrawlState.CRAWL_STATE_RUNNING and status == RUNNING
    assert to_plain(status) == to_plain(RUNNING)
    assert status.reason == "because" and not status.held


def test_a_state_that_this_version_does_not_know_prints_its_number() -> None:
    assert str(shown_status(CrawlStatus(state=99)).state) == "99"  # type: ignore[arg-type]


def test_an_updated_crawl_prints_old_and_new_values() -> None:
    before, after = CrawlSpec(max_toes=1, description="a"), CrawlSpec(max_toes=2, description="b\n")
    told = str(shown_crawl(Crawl(spec=after), before))
    assert told == 'max_toes was 1, is 2; description was "a", is "b\\n"'
    assert str(shown_crawl(Crawl(spec=after), after)) == "nothing has changed"
    assert str(shown_crawl(Crawl(crawl="c", status=RUNNING))) == "c: RUNNING: because"


def test_a_status_can_be_copied() -> None:
    assert copy.copy(shown_status(RUNNING)) == RUNNING
