"""`toehold` run in this process: what tests of its commands have in common."""

import json
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from toehold.frontier.v1.crawl_pb2 import CrawlState, CrawlStatus, Event, ExitStatus
from toehold.frontier.v1.frontier_pb2 import StateEventsResponse

TIME = Timestamp(seconds=1_800_000_000)
WHEN = "2027-01-15 08:00:00 UTC"


def status(state: str, end: str = "", **more: Any) -> CrawlStatus:
    """`status("PAUSED")`, `status("FINISHED", "ABORTED")`."""
    return CrawlStatus(
        state=CrawlState.Value(f"CRAWL_STATE_{state}"),
        exit_status=ExitStatus.Value(f"EXIT_STATUS_{end or state}"),
        reach_time=TIME,
        **more,
    )


NASCENT = status("NASCENT", "CREATED")
PREPARING = status("PREPARING", "RUNNING")
RUNNING = status("RUNNING")
PAUSING = status("PAUSING", "WAITING_FOR_PAUSE")
PAUSED = status("PAUSED")
STOPPING = status("STOPPING", "ABORTED")
STOPPED = status("FINISHED", "ABORTED")


def said(output: str) -> list[Any]:
    """JSON objects, one a line."""
    return [json.loads(line) for line in output.splitlines()]


def message(event: Event) -> StateEventsResponse:
    """A message of the event stream with this event."""
    return StateEventsResponse(event=event, cursor=event.cursor)


def present(now: CrawlStatus, cursor: str) -> StateEventsResponse:
    """The first message of the event stream."""
    return StateEventsResponse(present=now, cursor=cursor)
