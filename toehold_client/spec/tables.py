"""Tables of settings, from a file or from a program, and the contract's messages that they describe."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from toehold.frontier.v1.crawl_pb2 import OverrideSettings
from toehold_client.errors import InvalidSpec

from .fields import LISTS, Override
from .plain import fields_of, key_of
from .problems import explained

_S = TypeVar("_S", bound=msgspec.Struct)


def read(said: Any, kind: type[_S], *, source: str = "", beside: Iterable[str] = ()) -> _S:
    """The values of a table, with defaults for those that it does not have.

    InvalidSpec names the place and the problem, after `source`. `beside` are further keys, for suggestions.
    """
    try:
        return msgspec.convert(said, kind)
    except msgspec.ValidationError as error:
        place, problem = explained(str(error), said, kind(), beside)
        message = ": ".join(filter(None, (source, place, problem)))
        raise InvalidSpec(message, metadata={place: problem}) from None


def fill(message: Message, values: msgspec.Struct, defaults: msgspec.Struct) -> None:
    """Sets the fields of the message whose values differ from the defaults."""
    for field in fields_of(message):
        value, default = getattr(values, key_of(field)), getattr(defaults, key_of(field))
        if value == default:
            continue
        if isinstance(value, msgspec.Struct):
            fill(getattr(message, field.name), value, default)
        else:
            _put(message, field, value)


def put(message: Message, given: Mapping[str, Any], values: msgspec.Struct) -> Iterator[tuple[str, bool]]:
    """Sets the fields of the message that a table has, also to defaults. `values` are what `read` made of it.

    Yields the contract's path of each, and whether it is an empty list, which a message cannot tell from one
    that is not set.
    """
    for field in fields_of(message):
        key = key_of(field)
        if key not in given:
            continue
        value = getattr(values, key)
        if isinstance(value, msgspec.Struct):
            for path, is_empty in put(getattr(message, field.name), given[key], value):
                yield f"{field.name}.{path}", is_empty
            continue
        is_empty = field.is_repeated and not value
        if not is_empty:
            _put(message, field, value)
        yield field.name, is_empty


def override_of(given: Any, *, source: str = "") -> OverrideSettings:
    """The settings of an override from its tables. InvalidSpec as in `read`."""
    settings = OverrideSettings()
    set_ = put(settings, given, read(given, Override, source=source))
    settings.empty_lists.extend([path for path, is_empty in set_ if is_empty])
    return settings


def _put(message: Message, field: FieldDescriptor, value: Any) -> None:
    if field.name in LISTS:
        for each in value:
            fill(getattr(message, field.name).add(), each, LISTS[field.name])
    elif field.message_type is not None:
        getattr(message, field.name).FromNanoseconds(round(value * 1e9))
    elif field.is_repeated:
        getattr(message, field.name).extend(value)
    else:
        setattr(message, field.name, _number_of(field, value))


def _number_of(field: FieldDescriptor, value: Any) -> Any:
    if field.enum_type is None:
        return value
    return next(each.number for each in field.enum_type.values if each.name.endswith(f"_{value.upper()}"))
