"""The two streams of URLs that clients put: read ahead, put in batches, acknowledged in order.

While the frontier works on one batch, the next one is read. So a batch is as large as the client is fast.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError
from grpc import StatusCode, aio

from urlfrontier.urlfrontier_pb2 import AckMessage, BatchAck, DiscoveredBatch, URLItem

from .items import Offer, discovered, known
from .putting import MAX_BATCH, Putting, Status

_MAX_AHEAD = 4 * MAX_BATCH
"""URLs that are read and not acknowledged. The client waits beyond them."""

_BYTES_A_URL = 1024
_LOOK_S, _MOST_LOOKS = 0.001, 5


class _Unit(NamedTuple):
    """A message of a client, and the URLs in it."""

    name: str
    offers: Sequence[Offer | None]
    weight: int
    """How many URLs of usual size it is."""


class PutStream:
    """One stream: `read` makes the URLs of a message, `answer` its acknowledgement."""

    def __init__(
        self,
        putting: Putting,
        read: Callable[[bytes], tuple[str, Sequence[Offer | None]]],
        answer: Callable[[str, Sequence[Status]], bytes],
    ) -> None:
        self._putting, self._read, self._answer = putting, read, answer
        self._ahead: deque[_Unit] = deque()
        self._ahead_weight = 0
        self._ended = False
        self._arrived, self._room = asyncio.Event(), asyncio.Event()
        self._acks: asyncio.Queue[list[bytes] | None] = asyncio.Queue(maxsize=2)

    async def serve(self, context: aio.ServicerContext[Any, Any]) -> None:
        """Serves the stream to its end."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._receive(context))
                tasks.create_task(self._put())
                tasks.create_task(self._acknowledge(context))
        except* DecodeError:
            await context.abort(StatusCode.INVALID_ARGUMENT, "a message of the stream can't be decoded")

    async def _receive(self, context: aio.ServicerContext[Any, Any]) -> None:
        while (message := await context.read()) is not aio.EOF:
            name, offers = self._read(message)
            weight = max(1, len(offers), len(message) // _BYTES_A_URL)
            self._ahead.append(_Unit(name, offers, weight))
            self._ahead_weight += weight
            self._arrived.set()
            while self._ahead_weight >= _MAX_AHEAD:
                self._room.clear()
                await self._room.wait()
        self._ended = True
        self._arrived.set()

    async def _put(self) -> None:
        while await self._has_more():
            await self._put_batch()
        await self._acks.put(None)

    async def _has_more(self) -> bool:
        """Waits for URLs; whether there are any. Those that come together go together."""
        if not self._ahead and not self._ended:
            self._arrived.clear()
            await self._arrived.wait()
            seen, looks = 0, _MOST_LOOKS
            while seen < len(self._ahead) < MAX_BATCH and looks and not self._ended:
                seen, looks = len(self._ahead), looks - 1
                await asyncio.sleep(_LOOK_S)
        return bool(self._ahead)

    async def _put_batch(self) -> None:
        units: list[_Unit] = []
        offers: list[Offer | None] = []
        while self._ahead and (not units or len(offers) + len(self._ahead[0].offers) <= MAX_BATCH):
            units.append(self._ahead.popleft())
            offers += units[-1].offers
        statuses = await self._putting.put(offers)
        acks, start = [], 0
        for unit in units:
            end = start + len(unit.offers)
            acks.append(self._answer(unit.name, statuses[start:end]))
            start = end
        self._ahead_weight -= sum(unit.weight for unit in units)
        self._room.set()
        await self._acks.put(acks)

    async def _acknowledge(self, context: aio.ServicerContext[Any, Any]) -> None:
        while (acks := await self._acks.get()) is not None:
            for ack in acks:
                await context.write(ack)


def put_urls(putting: Putting) -> PutStream:
    """A stream of PutURLs."""
    return PutStream(putting, _read_item, _item_ack)


def put_discovered(putting: Putting) -> PutStream:
    """A stream of PutDiscovered."""
    return PutStream(putting, _read_batch, _batch_ack)


def _read_item(message: bytes) -> tuple[str, Sequence[Offer | None]]:
    item = URLItem.FromString(message)
    kind = item.WhichOneof("item")
    if kind == "discovered":
        info = item.discovered.info
        name = item.ID or info.url
        return name, (discovered(info),)
    info = item.known.info
    name = item.ID or info.url
    return name, (known(info, item.known.refetchable_from_date) if kind else None,)


def _item_ack(name: str, statuses: Sequence[Status]) -> bytes:
    return AckMessage(ID=name, status=statuses[0]).SerializeToString()


def _read_batch(message: bytes) -> tuple[str, Sequence[Offer | None]]:
    batch = DiscoveredBatch.FromString(message)
    return batch.ID, [discovered(info) for info in batch.items]


def _batch_ack(name: str, statuses: Sequence[Status]) -> bytes:
    return BatchAck(ID=name, statuses=statuses).SerializeToString()
