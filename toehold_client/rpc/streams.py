"""Streams from a frontier (events, outcomes, exports) that survive its restarts.

A stream reconnects at the last cursor, so it misses and repeats nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, Self, TypeAlias, TypeVar

import grpc

from toehold.frontier.v1.admin_pb2 import (
    ExportUrisRequest,
    ExportUrisResponse,
    StreamOutcomesRequest,
    StreamOutcomesResponse,
)
from toehold.frontier.v1.frontier_pb2 import StateEventsRequest, StateEventsResponse
from toehold_client.errors import DeadlineExceeded, ToeholdError

from .retry import Patience, Retries

# The deadline of one connection. The stream opens the next one at its cursor, so nobody notices.
_CONNECTION_S = 3600.0


# Requests have `crawl` and `cursor`, responses have the `cursor` to continue from.
Q = TypeVar("Q", StateEventsRequest, StreamOutcomesRequest, ExportUrisRequest)
R = TypeVar("R", StateEventsResponse, StreamOutcomesResponse, ExportUrisResponse)


class Following(Generic[Q, R]):
    """A reader's place in a stream, and what to do when its connection ends.

    `request` has the crawl and the first cursor; `what` names the items for people. If `head` is given, every
    connection begins with a message that has this field. Both kinds of stream share this class; it does not
    touch the network.
    """

    def __init__(
        self,
        request: Q,
        *,
        what: str,
        head: str = "",
        explain: Callable[[grpc.RpcError, float], ToeholdError],
        timeout_s: float | None,
        first: Patience,
        later: Patience,
    ) -> None:
        self.request: Q = request
        self._what = what
        self._head = head
        self._explain = explain
        self._timeout_s = timeout_s
        self._clock = first.clock
        self._until_s = None if timeout_s is None else first.clock() + timeout_s
        self._later = later
        self._retries: Retries | None = Retries(first)
        self._told_head = False

    def connection_s(self) -> float:
        """The deadline of the next connection."""
        if self._until_s is None:
            return _CONNECTION_S
        return min(_CONNECTION_S, max(0.001, self._until_s - self._clock()))

    def accept(self, message: R) -> bool:
        """Notes a message. False for the head of a later connection, which the reader does not need."""
        if message.cursor:
            following = type(self.request)()
            following.CopyFrom(self.request)
            following.cursor = message.cursor
            self.request = following
        if self._told_head and any(field.name == self._head for field, _ in message.ListFields()):
            return False  # it does not renew the patience either
        self._told_head = True
        self._retries = None
        return True

    def rest_s(self, failure: grpc.RpcError, connection_s: float) -> float:
        """How long to rest before the next connection. Raises the error if it is final."""
        error = self._explain(failure, connection_s)
        if isinstance(error, DeadlineExceeded):
            rest_s: float | None = 0.0
        else:
            if self._retries is None:
                self._retries = Retries(self._later)
            rest_s = self._retries.rest_s(error, safe_to_repeat=True)
        if rest_s is None:
            raise error from None
        if self._until_s is None:
            return rest_s
        left_s = self._until_s - self._clock()
        if left_s <= 0:
            crawl, limit_s = self.request.crawl, self._timeout_s
            raise DeadlineExceeded(
                f"the {self._what} of crawl {crawl!r} did not end within {limit_s:g} s", reason=error.reason
            )
        return min(rest_s, left_s)


class Stream(Generic[Q, R]):
    """An iterator over the messages of a stream.

    `close`, from any thread, ends it; so does the end of its context.
    """

    def __init__(
        self, following: Following[Q, R], connect: Callable[[Q, float], grpc._CallIterator[R]]
    ) -> None:
        self._following: Following[Q, R] = following
        self._connect: Callable[[Q, float], grpc._CallIterator[R]] = connect
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._connection: grpc._CallIterator[R] | None = None
        self._connection_s = 0.0

    @property
    def cursor(self) -> str:
        """The place after the last message that was read."""
        return self._following.request.cursor

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> R:
        while True:
            connection = self._connected()
            try:
                message = next(connection)
            except grpc.RpcError as failure:
                self._connection = None
                if self._closed.is_set():
                    raise StopIteration from None
                self._closed.wait(self._following.rest_s(failure, self._connection_s))
            else:
                if self._following.accept(message):
                    return message

    def _connected(self) -> grpc._CallIterator[R]:
        with self._lock:  # so that no connection is made after `close`
            if self._closed.is_set():
                raise StopIteration
            if self._connection is None:
                self._connection_s = self._following.connection_s()
                self._connection = self._connect(self._following.request, self._connection_s)
            return self._connection

    def close(self) -> None:
        """Ends the stream: a reader in `next` gets StopIteration. Closing again has no effect."""
        with self._lock:
            self._closed.set()
            if self._connection is not None:
                self._connection.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


EventStream: TypeAlias = Stream[StateEventsRequest, StateEventsResponse]
OutcomeStream: TypeAlias = Stream[StreamOutcomesRequest, StreamOutcomesResponse]
ExportStream: TypeAlias = Stream[ExportUrisRequest, ExportUrisResponse]
