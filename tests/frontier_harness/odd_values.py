"""What a field of a message may hold on the wire, but no honest caller sends."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

ODD_SECONDS = [-(2**62), -(10**15), -(10**12), -1, 10**12, 10**15, 2**62, 2**63 - 1]
_ODD_NUMBERS: dict[int, list[float]] = {
    FieldDescriptor.TYPE_INT32: [-(2**31), -1, 2**31 - 1],
    FieldDescriptor.TYPE_INT64: [-(2**63), -1, 2**63 - 1],
    FieldDescriptor.TYPE_ENUM: [-(2**31), 99, 2**31 - 1],
    FieldDescriptor.TYPE_DOUBLE: [math.nan, math.inf, -math.inf, -1.0, 1e308],
}
_TEXTS = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)
_OF_TIME = (Duration, Timestamp)

Path = tuple[str, ...]
"""The way to a field: a name for each message that it is in, and its own."""


def odd_fields(kind: type[Message]) -> Iterator[tuple[str, object]]:
    """Names and values for every number, moment and length of time of a message."""
    for field in kind.DESCRIPTOR.fields:
        for value in _odd_values(field):
            yield field.name, value


def odd_numbers(message: Descriptor) -> Iterator[tuple[Path, object]]:
    """Every number, moment and length of time of a message and of all within it: at its ends, below zero,
    zero, and one."""
    for path, field in _leaves(message):
        odd = _odd_values(field)
        if odd:
            plain = [type(odd[0])(), *([1] if isinstance(odd[0], int) else [])]
            yield from ((path, value) for value in (*odd, *plain))


def texts(message: Descriptor) -> Iterator[tuple[Path, bool]]:
    """Every text of a message and of all within it, and whether it is bytes."""
    for path, field in _leaves(message):
        if field.type in _TEXTS:
            yield path, field.type == FieldDescriptor.TYPE_BYTES


def put(message: Any, path: Path, value: Any) -> None:
    """Set a field, however deep: of a list of messages, in its first one; of another, as its only one."""
    for name in path[:-1]:
        part = getattr(message, name)
        repeated = message.DESCRIPTOR.fields_by_name[name].is_repeated
        message = (part[0] if len(part) else part.add()) if repeated else part
    if message.DESCRIPTOR.fields_by_name[path[-1]].is_repeated:
        message.ClearField(path[-1])
        getattr(message, path[-1]).append(value)
    elif isinstance(value, Message):
        getattr(message, path[-1]).CopyFrom(value)
    else:
        setattr(message, path[-1], value)


def _leaves(message: Descriptor, before: Path = ()) -> Iterator[tuple[Path, Any]]:
    for field in message.fields:
        path = (*before, field.name)
        if field.message_type is None or _kind_of_time(field):
            yield path, field
        else:
            yield from _leaves(field.message_type, path)


def _kind_of_time(field: Any) -> Any:
    for of_time in _OF_TIME:
        if field.message_type is not None and field.message_type.full_name == of_time.DESCRIPTOR.full_name:
            return of_time
    return None


def _odd_values(field: Any) -> Sequence[object]:
    of_time = _kind_of_time(field)
    if of_time is not None:
        return [*(of_time(seconds=value) for value in ODD_SECONDS), of_time(nanos=-(2**31))]
    return _ODD_NUMBERS.get(field.type, [])
