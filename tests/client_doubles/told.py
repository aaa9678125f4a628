"""Answers of a frontier about the crawl `c`, for tests of the client."""

from google.protobuf.duration_pb2 import Duration

from toehold.frontier.v1.admin_pb2 import Crawl, GetCrawlResponse
from toehold.frontier.v1.crawl_pb2 import (
    CrawlSpec,
    CrawlState,
    CrawlStatus,
    Event,
    PolitenessSpec,
    SeedsConcluded,
    TornDown,
)
from toehold.frontier.v1.frontier_pb2 import StateEventsResponse

NASCENT = CrawlState.CRAWL_STATE_NASCENT
PREPARING = CrawlState.CRAWL_STATE_PREPARING
RUNNING = CrawlState.CRAWL_STATE_RUNNING
PAUSING = CrawlState.CRAWL_STATE_PAUSING
PAUSED = CrawlState.CRAWL_STATE_PAUSED
STOPPING = CrawlState.CRAWL_STATE_STOPPING
FINISHED = CrawlState.CRAWL_STATE_FINISHED

SPEC = CrawlSpec(contact="a@b.example")
FILLED = CrawlSpec(contact="a@b.example", politeness=PolitenessSpec(min_delay=Duration(seconds=3)))
"""SPEC, with defaults filled in."""


def found(
    state: CrawlState.ValueType, spec: CrawlSpec = FILLED, *, torn_down: bool = False
) -> GetCrawlResponse:
    """The answer of GetCrawl."""
    status = CrawlStatus(state=state, torn_down=torn_down)
    return GetCrawlResponse(crawl=Crawl(crawl="c", spec=spec, status=status))


def present(
    state: CrawlState.ValueType, cursor: str = "e0", *, torn_down: bool = False
) -> StateEventsResponse:
    """The first message of the events."""
    return StateEventsResponse(present=CrawlStatus(state=state, torn_down=torn_down), cursor=cursor)


def became(number: int, state: CrawlState.ValueType) -> StateEventsResponse:
    """The event of a change of state."""
    return _told(Event(sequence=number, status_changed=CrawlStatus(state=state)))


def seeded(number: int) -> StateEventsResponse:
    """The event of announced seeds."""
    return _told(Event(sequence=number, seeds_concluded=SeedsConcluded(seed_count=1)))


def torn_down(number: int) -> StateEventsResponse:
    """The last event."""
    return _told(Event(sequence=number, torn_down=TornDown()))


def _told(event: Event) -> StateEventsResponse:
    event.cursor = f"e{event.sequence}"
    return StateEventsResponse(event=event, cursor=event.cursor)
