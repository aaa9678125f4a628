"""Requests as no honest caller sends them: bytes made of a real one, by the descriptor of its message."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeAlias, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from frontier_server import wire

_VARINT, _LONG, _BYTES, _GROUP, _GROUP_END, _SHORT = 0, 1, 2, 3, 4, 5
_WIRE = {
    **dict.fromkeys(
        (FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FIXED64, FieldDescriptor.TYPE_SFIXED64), _LONG
    ),
    **dict.fromkeys(
        (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_FIXED32, FieldDescriptor.TYPE_SFIXED32), _SHORT
    ),
    **dict.fromkeys(
        (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_MESSAGE), _BYTES
    ),
}

NUMBERS = (
    0,
    1,
    2,
    99,
    1000,
    1001,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**62,
    2**63 - 1,
    2**63,
    2**64 - 2**31,
    2**64 - 1,
)
_FIXED = (
    *(b"\0" * 8, b"\xff" * 8, bytes((0, 0, 0, 0, 0, 0, 0xF0, 0x7F)), bytes((0, 0, 0, 0, 0, 0, 0xF8, 0x7F))),
    *(
        bytes((0, 0, 0, 0, 0, 0, 0xF0, 0xFF)),
        bytes((1, 0, 0, 0, 0, 0, 0, 0)),
        bytes((0, 0, 0, 0, 0, 0, 0xF0, 0x3F)),
    ),
)
TEXTS = (
    *(
        b"",
        b"\0",
        b"x" * 100_000,
        b"x" * 8_200,
        "é".encode() * 999,
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b"\xc0\x80",
        b"\xf4\x90\x80\x80",
    ),
    *(
        "\u202e\u0000\n\r\t\x7f\ufeff".encode(),
        b"../../../etc/passwd",
        b"a\0b",
        b"*",
        b".*",
        b"(" * 1000,
        b"[[:alpha:]]{1000}",
    ),
    *(
        b"http://" + b"a." * 3000,
        b"http://[::1]:0/",
        b"http://a.example:99999/",
        b"https://a.example/%00",
        "http://ä。example/".encode(),
    ),
    *(
        b"start",
        b"end",
        b"e0",
        b"e999999999999999999",
        b"o999999999999999999",
        b"e-1",
        b"politeness.min_delay.seconds",
    ),
    *(
        b"cp00001-20260101000000",
        b"cp99999-99999999999999",
        b"http://(example,a,",
        b"+http://(com,",
        b"9" * 5000,
        b"nan",
    ),
)
_LISTINGS = (
    "queues QueueState.READY",
    "queues None",
    "statistics 0",
    "statistics 1",
    "uris ",
    "export",
    "seeds",
    "jobs",
    "overrides",
)
MAX_DEPTH = 200


@dataclass(slots=True)
class Field:
    """A field as it is on the wire. Its value is a number, bytes, or the fields of a message."""

    number: int
    kind: int
    value: int | bytes | Fields


Fields: TypeAlias = "list[Field]"


def mutated(chance: Random, request: Message, known: Sequence[bytes]) -> bytes:
    """A request with something wrong in it. `known` are texts that mean something to the server."""
    fields, descriptor = _parsed(request), cast(Descriptor, request.DESCRIPTOR)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        chance.choice(_CHANGES)(chance, fields, descriptor, known)
    data = _written(fields)
    if chance.random() < 0.15:
        data = _broken(chance, data)
    return data


def _parsed(message: Message) -> Fields:
    """The fields of a message, in the order of its descriptor."""
    found: Fields = []
    for field, value in message.ListFields():
        for each in value if field.is_repeated else (value,):
            kind = _WIRE.get(field.type, _VARINT)
            if field.message_type is not None:
                found.append(Field(field.number, kind, _parsed(each)))
            elif field.type == FieldDescriptor.TYPE_STRING:
                found.append(Field(field.number, kind, each.encode()))
            elif isinstance(each, float):
                found.append(Field(field.number, kind, _FIXED[-1]))
            else:
                found.append(Field(field.number, kind, int(each) % 2**64 if isinstance(each, int) else each))
    return found


def _written(fields: Fields) -> bytes:
    return b"".join(_field(field) for field in fields)


def _field(field: Field) -> bytes:
    tag = varint(field.number << 3 | field.kind)
    value = field.value
    if isinstance(value, int):
        return tag + varint(value)
    if isinstance(value, list):
        value = _written(value)
    return tag + (varint(len(value)) + value if field.kind == _BYTES else value)


def varint(number: int) -> bytes:
    """A number as protobuf writes it."""
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


# Changes.

_Change: TypeAlias = Callable[[Random, Fields, Descriptor, Sequence[bytes]], None]


def _places(
    fields: Fields, descriptor: Descriptor | None, depth: int = 0
) -> Iterator[tuple[Fields, Descriptor | None]]:
    """A message and all within it, with their descriptors where they are known."""
    yield fields, descriptor
    for field in fields:
        if isinstance(field.value, list) and depth < 20:
            known = descriptor.fields_by_number.get(field.number) if descriptor is not None else None
            yield from _places(field.value, known.message_type if known is not None else None, depth + 1)


def _place(chance: Random, fields: Fields, descriptor: Descriptor) -> tuple[Fields, Descriptor | None]:
    return chance.choice(list(_places(fields, descriptor)))


def _drop(chance: Random, fields: Fields, descriptor: Descriptor, known: Sequence[bytes]) -> None:
    place, _ = _place(chance, fields, descriptor)
    if place:
        del place[chance.randrange(len(place))]


def _double(chance: Random, fields: Fields, descriptor: Descriptor, known: Sequence[bytes]) -> None:
    place, _ = _place(chance, fields, descriptor)
    if place:
        place += [chance.choice(place)] * chance.choice((1, 1, 2, 50, 1001))


def _shuffle(chance: Random, fields: Fields, descriptor: Descriptor, known: Sequence[bytes]) -> None:
    place, _ = _place(chance, fields, descriptor)
    chance.shuffle(place)


def _extreme(chance: Random, fields: Fields, descriptor: Descriptor, known: Sequence[bytes]) -> None:
    """Another value of the same kind."""
    place, within = _place(chance, fields, descriptor)
    if not place:
        return
    at = chance.randrange(len(place))
    field = place[at]
    asked = within.fields_by_number.get(field.number) if within is not None else None
    place[at] = Field(field.number, field.kind, _value(chance, field.kind, asked, known))


def _add(chance: Random, fields: Fields, descriptor: Descriptor, known: Sequence[bytes]) -> None:
    """A field that the message may have."""
    place, within = _place(chance, fields, descriptor)
    if within is None or not within.fields:
        return
    asked = chance.choice(list(within.fields))
    kind = _WIRE.get(asked.type, _VARINT)
    place.insert(
        chance.randrange(len(place) + 1), Field(asked.number, kind, _value(chance, kind, asked, known))
    )


def _other_kind(chance: Random, fields: Fields, descriptor: Descriptor, known: Sequence[bytes]) -> None:
    """A field with the wire type of another."""
    place, _ = _place(chance, fields, descriptor)
    if place:
        at = chance.randrange(len(place))
        kind = chance.choice((_VARINT, _LONG, _BYTES, _SHORT))
        place[at] = Field(place[at].number, kind, _value(chance, kind, None, known))


def _unknown(chance: Random, fields: Fields, descriptor: Descriptor, known: Sequence[bytes]) -> None:
    """A field that no message has, or a number that none may have."""
    place, _ = _place(chance, fields, descriptor)
    kind = chance.choice((_VARINT, _LONG, _BYTES, _SHORT))
    number = chance.choice((0, 999, 19_000, 2**29 - 1))
    place.append(Field(number, kind, _value(chance, kind, None, known)))


def _nest(chance: Random, fields: Fields, descriptor: Descriptor, known: Sequence[bytes]) -> None:
    """A message in a message in a message, or groups that nobody asked for."""
    place, _ = _place(chance, fields, descriptor)
    number = chance.choice(place).number if place else 1
    depth = chance.choice((3, 99, 101, MAX_DEPTH))
    if chance.random() < 0.5:
        opened = varint(number << 3 | _GROUP) * depth
        place.append(Field(number, _GROUP, opened + varint(number << 3 | _GROUP_END) * (depth + 1)))
        return
    inner = b""
    for _ in range(depth):
        inner = varint(number << 3 | _BYTES) + varint(len(inner)) + inner
    place.append(Field(number, _BYTES, inner))


_CHANGES: tuple[_Change, ...] = (
    *(
        _drop,
        _double,
        _shuffle,
        _extreme,
        _extreme,
        _extreme,
        _extreme,
        _add,
        _add,
        _add,
        _other_kind,
        _unknown,
        _nest,
    ),
)


def _value(
    chance: Random, kind: int, asked: FieldDescriptor | None, known: Sequence[bytes]
) -> int | bytes | Fields:
    if kind == _VARINT:
        return (
            chance.choice(NUMBERS)
            if chance.random() < 0.8
            else chance.getrandbits(chance.choice((3, 8, 31, 64)))
        )
    if kind == _LONG:
        return chance.choice(_FIXED) if chance.random() < 0.8 else chance.randbytes(8)
    if kind == _SHORT:
        return chance.randbytes(4)
    if asked is not None and asked.message_type is not None and chance.random() < 0.8:
        return _any_message(chance, asked.message_type, known)
    if asked is not None and asked.name in ("page_token", "cursor") and chance.random() < 0.7:
        place = chance.randbytes(chance.choice((1, 7, 8, 16, 17, 24, 25, 33)))
        place = chance.choice((b"", b"\0", b"\1")) + place
        return wire.page_token(chance.choice(_LISTINGS), place).encode()
    if known and chance.random() < 0.4:
        return chance.choice(known)
    return chance.choice(TEXTS) if chance.random() < 0.8 else chance.randbytes(chance.choice((1, 9, 200)))


def _any_message(chance: Random, descriptor: Descriptor, known: Sequence[bytes], depth: int = 0) -> Fields:
    """Some fields of a message, with any values."""
    fields: Fields = []
    for asked in descriptor.fields:
        if chance.random() < 0.4 and depth < 5:
            kind = _WIRE.get(asked.type, _VARINT)
            value: int | bytes | Fields
            if asked.message_type is not None:
                value = _any_message(chance, asked.message_type, known, depth + 1)
            else:
                value = _value(chance, kind, asked, known)
            fields += [Field(asked.number, kind, value)] * (
                chance.choice((1, 2, 30)) if asked.is_repeated else 1
            )
    return fields


def _broken(chance: Random, data: bytes) -> bytes:
    """Bytes that are hardly a message any more."""
    match chance.randrange(4):
        case 0:
            return data[: chance.randrange(len(data) + 1)]
        case 1:
            return chance.randbytes(chance.choice((1, 10, 300)))
        case 2 if data:
            at = chance.randrange(len(data))
            return data[:at] + bytes((chance.randrange(256),)) + data[at + 1 :]
        case _:
            return data + b"\xff" * 11
