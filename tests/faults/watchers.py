"""Readers of a crawl's events, each of a kind of its own, and what each of them has read."""

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator

import grpc
from frontier_harness.waiting import PATIENCE_S

from toehold.frontier.v1.crawl_pb2 import Event
from toehold.frontier.v1.frontier_pb2 import StateEventsRequest, StateEventsResponse
from toehold.frontier.v1.frontier_pb2_grpc import FrontierServiceStub
from toehold_client import AsyncFrontierClient, CrawlController, FrontierClient

"""How long a frontier may be away, on a busy machine."""

LOOK_AGAIN_S = 0.05

Read = tuple[str, int, bytes]
"""An event as a reader has it: the cursor that came with it, its number, all that it says."""


class Watcher(ABC):
    """Reads all events of a crawl from the first, in a thread of its own, until they end."""

    def __init__(self, address: str, crawl: str) -> None:
        self.address = address
        self.crawl = crawl
        self.read: list[Read] = []
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)
        self._thread.start()

    def ended(self) -> list[Read]:
        """All that it has read, once its stream has ended as a crawl's events end. Raises what it failed
        with.
        """
        self._thread.join(PATIENCE_S)
        if self._failure is not None:
            raise self._failure
        assert not self._thread.is_alive(), f"{self._thread.name} still reads after {len(self.read)} events"
        return self.read

    @abstractmethod
    def watch(self) -> None:
        """Reads until the events end."""

    def note(self, cursor: str, event: Event) -> None:
        """An event was read."""
        self.read.append(read(cursor, event))

    def _run(self) -> None:
        try:
            self.watch()
        except BaseException as failure:  # `ended` raises it
            self._failure = failure


def read(cursor: str, event: Event) -> Read:
    """An event as a reader has it."""
    return cursor, event.sequence, event.SerializeToString(deterministic=True)


class Plain(Watcher):
    """A bare gRPC client: whenever its call fails it asks again, behind the last cursor."""

    CALL_S: float | None = None
    """The deadline of a call."""

    def watch(self) -> None:
        cursor = "start"
        heard_s = time.monotonic()
        while True:
            try:
                for answer in self._answers(cursor):
                    heard_s = time.monotonic()
                    cursor = answer.cursor
                    if answer.HasField("event"):
                        self.note(cursor, answer.event)
                return
            except grpc.RpcError as error:
                code = error.code()
                if code is grpc.StatusCode.UNAVAILABLE and time.monotonic() < heard_s + PATIENCE_S:
                    time.sleep(LOOK_AGAIN_S)
                elif code is not grpc.StatusCode.DEADLINE_EXCEEDED:
                    raise

    def _answers(self, cursor: str) -> Iterator[StateEventsResponse]:
        request = StateEventsRequest(crawl=self.crawl, cursor=cursor)
        # A channel of its own: one that has failed waits before it connects again.
        with grpc.insecure_channel(self.address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
            yield from FrontierServiceStub(channel).StateEvents(request, timeout=self.CALL_S)


class Restless(Plain):
    """One that breaks off and asks again every second."""

    CALL_S = 1.0


class Streaming(Watcher):
    """An EventStream, which reconnects by itself."""

    def watch(self) -> None:
        with (
            FrontierClient(self.address, patience_s=PATIENCE_S) as client,
            client.state_events(self.crawl, "start", reconnect_s=PATIENCE_S) as stream,
        ):
            for message in stream:
                if message.HasField("event"):
                    self.note(message.cursor, message.event)


class StreamingAsync(Watcher):
    """An AsyncEventStream, likewise."""

    def watch(self) -> None:
        asyncio.run(self._watch())

    async def _watch(self) -> None:
        async with (
            AsyncFrontierClient(self.address, patience_s=PATIENCE_S) as client,
            client.state_events(self.crawl, "start", reconnect_s=PATIENCE_S) as stream,
        ):
            async for message in stream:
                if message.HasField("event"):
                    self.note(message.cursor, message.event)


class Listening(Watcher):
    """A controller's listener."""

    def watch(self) -> None:
        with (
            FrontierClient(self.address, patience_s=PATIENCE_S) as client,
            CrawlController(client, self.crawl) as controller,
        ):
            listener = controller.listen(lambda event: self.note(event.cursor, event.message), "start")
            assert listener.join()
