"""The contract as both clients see it: its services, pages and durations, and what its answers tell."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import grpc
from google.protobuf.duration_pb2 import Duration
from grpc import aio

from toehold.frontier.v1.admin_pb2 import TearDownCrawlResponse
from toehold.frontier.v1.admin_pb2_grpc import FrontierAdminServiceStub
from toehold.frontier.v1.crawl_pb2 import CrawlState, CrawlStatus
from toehold.frontier.v1.frontier_pb2 import RequestStateResponse
from toehold.frontier.v1.frontier_pb2_grpc import FrontierServiceStub
from toehold.node.v1.node_pb2_grpc import NodeServiceStub
from toehold_client.errors import UnexpectedAnswer

_T = TypeVar("_T")

PAGE_SIZE = 100
"""How many entries of a listing one request asks for."""


@dataclass(frozen=True, slots=True)
class Stubs:
    """The services of one channel: a frontier has the first two, a node the third."""

    frontier: FrontierServiceStub
    admin: FrontierAdminServiceStub
    node: NodeServiceStub


def stubs_of(channel: grpc.Channel | aio.Channel) -> Stubs:
    """The services behind a channel."""
    return Stubs(FrontierServiceStub(channel), FrontierAdminServiceStub(channel), NodeServiceStub(channel))


class Listing(Protocol):
    """A request for a part of a listing."""

    page_size: int
    page_token: str


class Page(Protocol):
    """A part of a listing."""

    @property
    def next_page_token(self) -> str:
        """Asks for the part after it; empty on the last."""


def duration(seconds: float) -> Duration:
    """The contract's form of a time in seconds."""
    whole = Duration()
    whole.FromNanoseconds(round(seconds * 1e9))
    return whole


def one_for_each(items: Sequence[object], answers: Sequence[_T]) -> Sequence[_T]:
    """The answers, if there is one for each item."""
    if len(answers) != len(items):
        raise UnexpectedAnswer(f"the frontier gave {len(answers)} answers for {len(items)} items")
    return answers


def stopping(status: CrawlStatus) -> RequestStateResponse | None:
    """The answer to a stop of a crawl with this status, if it was stopped."""
    stopped = status.state in (CrawlState.CRAWL_STATE_STOPPING, CrawlState.CRAWL_STATE_FINISHED)
    return RequestStateResponse(status=status) if stopped else None


def tearing_down(status: CrawlStatus) -> TearDownCrawlResponse | None:
    """The answer to a teardown of a crawl with this status, if it was begun."""
    begun = status.tearing_down or status.torn_down
    return TearDownCrawlResponse(status=status) if begun else None
