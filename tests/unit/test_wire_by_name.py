"""Views become messages by the names of their fields: each field of a view changes its message."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any

import pytest
from google.protobuf.message import Message

from frontier_server import wire
from frontier_server.core.machines.lifecycle import CrawlState, ExitStatus
from frontier_server.core.state.model import (
    Candidate,
    CrawlView,
    JobView,
    NodeView,
    PoolStatistics,
    Presence,
    QueueView,
    Reason,
    RefusalView,
    RuleView,
    SeedResult,
    SeedView,
    SeenCounts,
    UriState,
    UriStory,
    UriView,
    Why,
)
from frontier_server.core.state.queue import QueueState
from frontier_server.wire.by_name import message_of
from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

URI = "http://a.example/"
OFFERED, OTHER = (
    Candidate(uri, frontier_pb2.Candidate(uri=uri).SerializeToString()) for uri in (URI, URI + "b")
)
SPEC = crawl_pb2.CrawlSpec(contact="https://a.example/").SerializeToString()
WAITING = UriView(OFFERED, "example,a,", cost=1, precedence=2, attempts=3, due_ms=4_000)
STORY = UriStory(
    *(
        URI,
        "a",
        UriState.LEASED,
        "example,a,",
        "hosts",
        200,
        "SUCCEEDED",
        1_000,
        2,
        "etag",
        "modified",
        "digest",
    ),
    *(3_000, WAITING, "node", 4_000, 5_000, 6_000, "no route"),
)
CRAWL = CrawlView(
    *(1, "crawl", SPEC, CrawlState.PAUSED, ExitStatus.PAUSED, 1_000, 2_000, 3_000, 4_000, 5, 6, 7, 8),
    *("no room", True, True, True, "no seed was fetched"),
)
QUEUE = QueueView(
    *("example,a,", "a.example", QueueState.SNOOZED, 1, 2, 3, 4, 5_000, "retry", 6, 7, 8, 9, 10, 11, 12, 1.5),
    *(True, True, 13_000, 14_000, 15_000),
)
NODE = NodeView(
    *("node", "session", 1_000, 2, (("fetch", 3),), 4, PoolStatistics(5, 6, 7, 8, 9), "node:7708", True),
    *(Presence.LOST, "rival"),
)
JOB = JobView(1, "verify", "DONE", {"repair": "true"}, 1_000, 2_000, 3, 4, 5, ("found",), {"queues": 6})
TOLD: list[tuple[Callable[[Any], Message], Any]] = [
    (wire.crawl, CRAWL),
    (wire.queue, QUEUE),
    (wire.node, NODE),
    (lambda pool: wire.node(replace(NODE, pool=pool)), NODE.pool),
    (wire.job, JOB),
    (wire.reason, Reason(Why.PAUSED, "it is paused", 1_000)),
    (wire.waiting_uri, WAITING),
    (wire.story, STORY),
    (wire.seen_counts, SeenCounts(1, 2, 3, 4)),
    (wire.seed, SeedView(URI, STORY, "fetched (200)", SeedResult.FETCHED, True, "http://b.example/")),
    (wire.refusal_rule, RuleView("hosts", 1, (RefusalView(URI, "via", "L", 1_000),), "not in scope")),
]
NOT_TOLD = {(CrawlView, "number"), (CrawlView, "oldest_event"), (CrawlView, "last_event")}


def changes(view: Any) -> Iterator[tuple[str, Any]]:
    """A view with each of its fields changed in turn."""
    for field in fields(view):
        value = getattr(view, field.name)
        if isinstance(value, Enum):
            value = next(other for other in type(value) if other is not value)
        elif field.name == "state":
            value = "RUNNING"
        elif field.name == "candidate":
            value = OTHER
        elif isinstance(value, (UriView, UriStory, PoolStatistics)):
            value = None
        else:
            value = type(value)()
        yield field.name, replace(view, **{field.name: value})


@pytest.mark.parametrize(("converted", "view"), TOLD, ids=[type(view).__name__ for _, view in TOLD])
def test_each_field_of_a_view_changes_its_message(converted: Callable[[Any], Message], view: Any) -> None:
    whole = converted(view)
    same = {name for name, changed in changes(view) if converted(changed) == whole}
    assert same == {name for kind, name in NOT_TOLD if kind is type(view)}


@dataclass
class Nameless:
    """A view without a field that its message has."""

    why: Why = Why.PAUSED
    message: str = ""


def test_a_field_that_the_view_lacks_is_an_error() -> None:
    with pytest.raises(AttributeError, match="until_ms"):
        message_of(admin_pb2.Reason, Nameless())
