"""The contract's messages as plain dicts, for JSON, for comparing and for spec files.

Numbers stay numbers (protobuf's own JSON makes strings of 64-bit numbers). A duration is a number of seconds,
and its name gets the unit (`min_delay` → `min_delay_seconds`). A time is RFC 3339 text in UTC, an enum is its
short name (`RUNNING`), and bytes are base64.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

_DURATION = Duration.DESCRIPTOR.full_name
_TIMESTAMP = Timestamp.DESCRIPTOR.full_name


def to_plain(message: Message) -> dict[str, Any]:
    """All fields of a message; those not set are zero, empty or None. Oneofs only have the member that is
    set."""
    fields = fields_of(message)
    return _plain(
        message, (f for f in fields if f.containing_oneof is None or _optional(f) or message.HasField(f.name))
    )


def set_to_plain(message: Message) -> dict[str, Any]:
    """Only the fields of a message that are set, at every depth."""
    return _plain(message, (field for field, _ in message.ListFields()), only_set=True)


def _plain(message: Message, fields: Iterable[FieldDescriptor], *, only_set: bool = False) -> dict[str, Any]:
    inner = set_to_plain if only_set else to_plain

    def one(field: FieldDescriptor, value: Any) -> Any:
        if field.enum_type is not None:
            return enum_word(field.enum_type, value)
        if field.type == FieldDescriptor.TYPE_BYTES:
            return base64.b64encode(value).decode()
        if field.message_type is None:
            return value
        if field.message_type.full_name == _DURATION:
            return seconds_of(value)
        if field.message_type.full_name == _TIMESTAMP:
            return value.ToJsonString()
        return inner(value)

    plain: dict[str, Any] = {}
    for field in fields:
        value = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            entry = field.message_type.fields_by_name["value"]
            plain[field.name] = {str(key): one(entry, value[key]) for key in sorted(value)}
        elif field.is_repeated:
            plain[field.name] = [one(field, each) for each in value]
        elif field.has_presence and not message.HasField(field.name):
            plain[key_of(field)] = None
        else:
            plain[key_of(field)] = one(field, value)
    return plain


def from_plain(said: Mapping[str, Any], message: Message) -> None:
    """Sets the fields of a message from their plain form, except for maps; None leaves a field unset.

    Raises ValueError, which names the unknown field or the invalid value.
    """
    known = {key_of(field): field for field in fields_of(message)}
    for key, value in said.items():
        if key not in known:
            raise ValueError(f"there is no field {key!r:.80}")
        if value is not None:
            try:
                _set(message, known[key], value)
            except (TypeError, AttributeError, ValueError) as error:
                raise ValueError(f"{key}: {error}") from None


def _set(message: Message, field: FieldDescriptor, value: Any) -> None:
    if field.is_repeated and field.message_type is not None:
        for each in value:
            from_plain(each, getattr(message, field.name).add())
    elif field.is_repeated:
        getattr(message, field.name).extend(_value_of(field, each) for each in value)
    elif field.message_type is None:
        setattr(message, field.name, _value_of(field, value))
    elif field.message_type.full_name == _DURATION:
        getattr(message, field.name).FromNanoseconds(round(value * 1e9))
    elif field.message_type.full_name == _TIMESTAMP:
        getattr(message, field.name).FromJsonString(value)
    else:
        getattr(message, field.name).SetInParent()
        from_plain(value, getattr(message, field.name))


def _value_of(field: FieldDescriptor, value: Any) -> Any:
    if field.enum_type is not None:
        return enum_number(field.enum_type, value)
    return base64.b64decode(value, validate=True) if field.type == FieldDescriptor.TYPE_BYTES else value


def flat(table: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """The values in a table and in those within it, by their paths: `politeness.min_delay_seconds`."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        found.update(flat(value, f"{path}{key}.") if isinstance(value, dict) else {f"{path}{key}": value})
    return found


def fields_of(message: Message) -> Sequence[FieldDescriptor]:
    """The fields of a message, in the contract's order."""
    return cast(Sequence[FieldDescriptor], message.DESCRIPTOR.fields)


def key_of(field: FieldDescriptor) -> str:
    """The plain name of a field; the name of a duration ends with its unit."""
    if field.message_type is not None and field.message_type.full_name == _DURATION:
        return f"{field.name.removesuffix('_duration')}_seconds"
    return field.name


def enum_word(enum: EnumDescriptor, number: int) -> str:
    """The short name of an enum's value, such as `RUNNING`; the number if the contract has no name for it."""
    value = enum.values_by_number.get(number)
    if value is None:
        return str(number)
    shared = enum.values_by_number[0].name.removesuffix("UNSPECIFIED") if 0 in enum.values_by_number else ""
    return value.name.removeprefix(shared)


def enum_number(enum: EnumDescriptor, word: str) -> int:
    """The number of an enum's value, by its short name. Raises ValueError for an unknown name."""
    for value in enum.values:
        if enum_word(enum, value.number) == word:
            return value.number
    raise ValueError(f"there is no {enum.name} {word!r:.80}")


def seconds_of(duration: Duration) -> float:
    """A duration as a number of seconds."""
    return float(duration.seconds + duration.nanos / 1e9)


def _optional(field: FieldDescriptor) -> bool:
    # The compiler makes a oneof of each `optional` field.
    return field.containing_oneof is not None and field.containing_oneof.name == f"_{field.name}"
