"""Messages of which every field is set, each to another value."""

import itertools
from collections.abc import Iterator
from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

_M = TypeVar("_M", bound=Message)
_MOST_DEEP = 5


def filled(kind: type[_M]) -> _M:
    """A message of a kind. A oneof has its last field."""
    message = kind()
    _fill(message, itertools.count(1), 0)
    return message


def _fill(message: Any, numbers: Iterator[int], depth: int) -> None:
    name = message.DESCRIPTOR.full_name
    if name == "google.protobuf.FieldMask":
        message.paths.extend(("politeness.min_delay", "limits"))
        return
    if name in ("google.protobuf.Timestamp", "google.protobuf.Duration"):
        message.seconds, message.nanos = 1_000 + next(numbers), 5_000_000
        return
    for field in message.DESCRIPTOR.fields:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
            for _ in range(2):
                getattr(message, field.name)[_value(key, numbers)] = _value(value, numbers)
        elif field.message_type is not None:
            if depth < _MOST_DEEP:
                parts = (
                    [getattr(message, field.name).add() for _ in range(2)]
                    if field.is_repeated
                    else [getattr(message, field.name)]
                )
                for part in parts:
                    part.SetInParent()
                    _fill(part, numbers, depth + 1)
        elif field.is_repeated:
            getattr(message, field.name).extend(_value(field, numbers) for _ in range(2))
        else:
            setattr(message, field.name, _value(field, numbers))


def _value(field: FieldDescriptor, numbers: Iterator[int]) -> Any:
    number = next(numbers)
    match field.type:
        case FieldDescriptor.TYPE_BOOL:
            return True
        case FieldDescriptor.TYPE_STRING:
            return f'text {number}: ü "\\" \n\t<&>'
        case FieldDescriptor.TYPE_BYTES:
            return bytes([0, 255, number % 256])
        case FieldDescriptor.TYPE_DOUBLE:
            return number + 0.25
        case FieldDescriptor.TYPE_ENUM:
            assert field.enum_type is not None
            return field.enum_type.values[-1].number
        case FieldDescriptor.TYPE_INT64:
            return 2**53 + number
    return number
