"""Answers of a frontier about the crawl `c`, for tests of the client."""

from google.protobuf.duration_pb2 import Duration

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

NASCENT = crawl_pb2.CrawlState.CRAWL_STATE_NASCENT
PREPARING = crawl_pb2.CrawlState.CRAWL_STATE_PREPARING
RUNNING = crawl_pb2.CrawlState.CRAWL_STATE_RUNNING
PAUSING = crawl_pb2.CrawlState.CRAWL_STATE_PAUSING
PAUSED = crawl_pb2.CrawlState.CRAWL_STATE_PAUSED
STOPPING = crawl_pb2.CrawlState.CRAWL_STATE_STOPPING
FINISHED = crawl_pb2.CrawlState.CRAWL_STATE_FINISHED

SPEC = crawl_pb2.CrawlSpec(contact="a@b.example")
FILLED = crawl_pb2.CrawlSpec(
    contact="a@b.example", politeness=crawl_pb2.PolitenessSpec(min_delay=Duration(seconds=3))
)
"""SPEC, with defaults filled in."""


def found(
    state: crawl_pb2.CrawlState.ValueType, spec: crawl_pb2.CrawlSpec = FILLED, *, torn_down: bool = False
) -> admin_pb2.GetCrawlResponse:
    """The answer of GetCrawl."""
    status = crawl_pb2.CrawlStatus(state=state, torn_down=torn_down)
    return admin_pb2.GetCrawlResponse(crawl=admin_pb2.Crawl(crawl="c", spec=spec, status=status))


def present(
    state: crawl_pb2.CrawlState.ValueType, cursor: str = "e0", *, torn_down: bool = False
) -> frontier_pb2.StateEventsResponse:
    """The first message of the events."""
    return frontier_pb2.StateEventsResponse(
        present=crawl_pb2.CrawlStatus(state=state, torn_down=torn_down), cursor=cursor
    )


def became(number: int, state: crawl_pb2.CrawlState.ValueType) -> frontier_pb2.StateEventsResponse:
    """The event of a change of state."""
    return _told(crawl_pb2.Event(sequence=number, status_changed=crawl_pb2.CrawlStatus(state=state)))


def seeded(number: int) -> frontier_pb2.StateEventsResponse:
    """The event of announced seeds."""
    return _told(crawl_pb2.Event(sequence=number, seeds_concluded=crawl_pb2.SeedsConcluded(seed_count=1)))


def torn_down(number: int) -> frontier_pb2.StateEventsResponse:
    """The last event."""
    return _told(crawl_pb2.Event(sequence=number, torn_down=crawl_pb2.TornDown()))


def _told(event: crawl_pb2.Event) -> frontier_pb2.StateEventsResponse:
    event.cursor = f"e{event.sequence}"
    return frontier_pb2.StateEventsResponse(event=event, cursor=event.cursor)
