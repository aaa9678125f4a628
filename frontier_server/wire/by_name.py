"""Views → messages, by name.

A field of a message has the value of the view's field of the same name; a count `queued_count` that of
`queued`, a moment `wake_time` that of `wake_ms`, a length of time `run_duration` or `min_gap` that of
`run_ms` or `min_gap_ms`. A value of an enum has the name that it has in the core.
"""

from collections.abc import Callable, Container
from dataclasses import fields
from typing import Any, TypeVar

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from .times import duration, timestamp

M = TypeVar("M", bound=Message)

_Way = tuple[str, str, Callable[[Any], Any] | None]
"""A message's field, the view's, and how its value is converted."""

_ways: dict[tuple[type, type, tuple[str, ...]], list[_Way]] = {}
"""By message, view, and the fields that are given."""


def message_of(kind: type[M], view: Any, **given: Any) -> M:
    """A message with what a view has. `given` are the fields that the view has by other names, or not at
    all. Raises AttributeError if one is missing."""
    of = (kind, type(view), tuple(given))
    ways = _ways.get(of)
    if ways is None:
        own = {each.name for each in fields(view)}
        message: Any = kind.DESCRIPTOR
        ways = _ways[of] = [_way(field, own) for field in message.fields if field.name not in given]
    for field, name, convert in ways:
        value = getattr(view, name)
        given[field] = value if convert is None else convert(value)
    return kind(**given)


def _way(field: FieldDescriptor, own: Container[str]) -> _Way:
    name = field.name
    if not field.is_repeated and field.message_type is Timestamp.DESCRIPTOR:
        return name, f"{name.removesuffix('_time')}_ms", timestamp
    if not field.is_repeated and field.message_type is Duration.DESCRIPTOR:
        return name, f"{name.removesuffix('_duration')}_ms", duration
    if field.enum_type is not None:
        return name, name, _number_of(field.enum_type)
    return name, name if name in own else name.removesuffix("_count"), None


def _number_of(enum: EnumDescriptor) -> Callable[[Any], int]:
    """Gives the number of a value of the core's; in the contract's names it follows what all begin with."""
    prefix = enum.values_by_number[0].name.removesuffix("UNSPECIFIED")
    numbers = {value.name.removeprefix(prefix): value.number for value in enum.values}
    return lambda value: numbers[value if isinstance(value, str) else value.value]
