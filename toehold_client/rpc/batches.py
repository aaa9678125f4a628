"""Splits items into messages within the contract's limits, in order: by count and by bytes."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from google.protobuf.message import Message

from toehold_client.errors import BatchTooLarge

MAX_ITEMS = 1000
"""Most candidates, reports, seeds or entries in one message."""

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
"""Most bytes of one message."""

# A field's tag and length before each item.
_FRAME_BYTES = 6

_T = TypeVar("_T")
_M = TypeVar("_M", bound=Message)


def split_messages(items: Iterable[_M], *, envelope: Message) -> list[list[_M]]:
    """The items as batches that each fit into one message with `envelope`, the request without items.

    BatchTooLarge, before anything is sent, if one item alone is too large.
    """
    return list(batches_of(items, envelope=envelope))


def batches_of(items: Iterable[_M], *, envelope: Message) -> Iterator[list[_M]]:
    """The items, read as needed, as batches that each fit into one message with `envelope`.

    BatchTooLarge if one item alone is too large.
    """
    return _split(((item, item.ByteSize()) for item in items), _room(envelope))


def split_texts(texts: Iterable[str], *, envelope: Message) -> Iterator[list[str]]:
    """The texts, read as needed, as batches that each fit into one message with `envelope`."""
    return _split(((text, len(text.encode())) for text in texts), _room(envelope))


def _room(envelope: Message) -> int:
    return MAX_MESSAGE_BYTES - envelope.ByteSize()


def _split(sized: Iterable[tuple[_T, int]], room_bytes: int) -> Iterator[list[_T]]:
    batch: list[_T] = []
    batch_bytes = 0
    for number, (item, item_bytes) in enumerate(sized, start=1):
        framed_bytes = item_bytes + _FRAME_BYTES
        if framed_bytes > room_bytes:
            raise BatchTooLarge(
                f"item {number} alone has {item_bytes} bytes; a message may have at most {MAX_MESSAGE_BYTES}",
                reason="BATCH_TOO_LARGE",
            )
        if len(batch) == MAX_ITEMS or batch_bytes + framed_bytes > room_bytes:
            yield batch
            batch, batch_bytes = [], 0
        batch.append(item)
        batch_bytes += framed_bytes
    if batch:
        yield batch
