"""The two streams of URLs that clients put: in batches, acknowledged in order.

While the frontier works on one batch, more URLs arrive. So a batch is as large as the client is fast.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from toehold_client.rpc.batches import MAX_ITEMS
from urlfrontier.urlfrontier_pb2 import AckMessage, BatchAck, DiscoveredBatch, URLItem

from .calls import ServedCall, decoded
from .intake import Status, UrlIntake
from .items import UrlOffer, discovered, known


class _Unit(NamedTuple):
    """A message of a client: its name, and the URLs in it."""

    name: str
    offers: Sequence[UrlOffer | None]


async def put_urls(intake: UrlIntake, call: ServedCall) -> None:
    """Serves a stream of PutURLs."""
    await _serve(intake, call, _read_item, _item_ack)


async def put_discovered(intake: UrlIntake, call: ServedCall) -> None:
    """Serves a stream of PutDiscovered."""
    await _serve(intake, call, _read_batch, _batch_ack)


async def _serve(
    intake: UrlIntake,
    call: ServedCall,
    read: Callable[[bytes], _Unit],
    ack: Callable[[str, Sequence[Status]], bytes],
) -> None:
    while messages := await call.read():
        for units in _batches(messages, read):
            statuses = iter(await intake.put([offer for unit in units for offer in unit.offers]))
            await call.write(*(ack(name, [next(statuses) for _ in offers]) for name, offers in units))


def _batches(messages: Sequence[bytes], read: Callable[[bytes], _Unit]) -> Iterator[list[_Unit]]:
    """Messages with at most as many URLs together as the frontier takes at once, or one with more."""
    units: list[_Unit] = []
    count = 0
    for message in messages:
        unit = decoded(read, message)
        if units and count + len(unit.offers) > MAX_ITEMS:
            yield units
            units, count = [], 0
        units.append(unit)
        count += len(unit.offers)
    yield units


def _read_item(message: bytes) -> _Unit:
    item = URLItem.FromString(message)
    kind = item.WhichOneof("item")
    if kind == "discovered":
        info = item.discovered.info
        name = item.ID or info.url
        return _Unit(name, (discovered(info),))
    info = item.known.info
    name = item.ID or info.url
    return _Unit(name, (known(info, item.known.refetchable_from_date) if kind else None,))


def _item_ack(name: str, statuses: Sequence[Status]) -> bytes:
    return AckMessage(ID=name, status=statuses[0]).SerializeToString()


def _read_batch(message: bytes) -> _Unit:
    batch = DiscoveredBatch.FromString(message)
    return _Unit(batch.ID, [discovered(info) for info in batch.items])


def _batch_ack(name: str, statuses: Sequence[Status]) -> bytes:
    return BatchAck(ID=name, statuses=statuses).SerializeToString()
