"""Inputs made of other inputs: flipped, cut, doubled, spliced, with words and numbers that matter."""

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeAlias

MAX_BYTES = 8 * 1024
"""Longer inputs are cut; how parsers stand long ones is `growth`'s business."""

Mutation: TypeAlias = Callable[[Random, bytes, "Stock"], bytes]

_INTEGERS = (-(2**63) - 1, -(2**63), -(2**31), -1, 0, 1, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 10**30)
NUMBERS = (
    *(str(each).encode() for each in _INTEGERS),
    *(b"1e400", b"9" * 5000, b"nan", b"-inf", b"0x7f", b"007", "٣".encode(), "²".encode()),
)
"""The last ones are digits to some of Python's functions; 5000 are more than it makes a number of."""

ODD = (
    *(b"", b"\0", b"\x7f", b"\x80", b"\xff", b"\xfe\xff", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80"),
    *(
        b"\r",
        b"\n",
        b"\r\n",
        b"\t",
        b" ",
        b"\x0b",
        b"\x0c",
        b"\x1c",
        b"\x85",
        "\u2028".encode(),
        "\u00a0".encode(),
    ),
    *("İ".encode(), "ß".encode(), "ﬁ".encode(), "\u200d".encode(), "\U0010ffff".encode(), "。".encode()),
    *(
        b"%",
        b"%0",
        b"%00",
        b"%zz",
        b"%2f",
        b"\\",
        b"/",
        b"//",
        b"..",
        b":",
        b"@",
        b"#",
        b"?",
        b"&",
        b"=",
        b";",
        b",",
    ),
    *(
        b"'",
        b'"',
        b"<",
        b">",
        b"[",
        b"]",
        b"{",
        b"}",
        b"(",
        b")",
        b"*",
        b"+",
        b"-",
        b"|",
        b"^",
        b"$",
        b"!",
        b"&#0;",
    ),
)

_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")


class Stock:
    """What inputs are made of: those that are kept, and words."""

    def __init__(self, inputs: Sequence[bytes], words: Sequence[bytes]) -> None:
        self.inputs = list(inputs)
        self.words = [*words, *ODD]

    def some(self, chance: Random) -> bytes:
        """An input; a late one, which is a rare one, as often as not."""
        kept = self.inputs
        return chance.choice(kept[-16:] if chance.random() < 0.5 else kept)


def mutated(chance: Random, stock: Stock) -> bytes:
    """A new input."""
    data = stock.some(chance)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 5, 8))):
        data = chance.choice(_MUTATIONS)(chance, data, stock)[:MAX_BYTES]
    return data


def part(chance: Random, data: bytes, most: int = 64) -> tuple[int, int]:
    """Where a part of an input begins and ends."""
    start = chance.randrange(len(data) + 1)
    return start, min(len(data), start + chance.randrange(1, most + 1))


def _flip(chance: Random, data: bytes, stock: Stock) -> bytes:
    if not data:
        return bytes((chance.randrange(256),))
    at = chance.randrange(len(data))
    return data[:at] + bytes((data[at] ^ (1 << chance.randrange(8)),)) + data[at + 1 :]


def _any_byte(chance: Random, data: bytes, stock: Stock) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + bytes((chance.randrange(256),)) + data[at + chance.randrange(2) :]


def _cut(chance: Random, data: bytes, stock: Stock) -> bytes:
    start, end = part(chance, data)
    return data[:start] + data[end:]


def _end(chance: Random, data: bytes, stock: Stock) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def _double(chance: Random, data: bytes, stock: Stock) -> bytes:
    start, end = part(chance, data)
    return data[:end] + data[start:end] * chance.choice((1, 1, 2, 7, 40, 300)) + data[end:]


def _word(chance: Random, data: bytes, stock: Stock) -> bytes:
    start, end = part(chance, data, 8)
    return data[:start] + chance.choice(stock.words) + data[chance.choice((start, end)) :]


def _number(chance: Random, data: bytes, stock: Stock) -> bytes:
    found = list(_NUMBER.finditer(data))
    if not found:
        return _word(chance, data, stock)
    number = chance.choice(found)
    return data[: number.start()] + chance.choice(NUMBERS) + data[number.end() :]


def _splice(chance: Random, data: bytes, stock: Stock) -> bytes:
    other = stock.some(chance)
    start, end = part(chance, other, 256)
    at, behind = part(chance, data)
    return data[:at] + other[start:end] + data[chance.choice((at, behind)) :]


def _join(chance: Random, data: bytes, stock: Stock) -> bytes:
    other = stock.some(chance)
    return data[: chance.randrange(len(data) + 1)] + other[chance.randrange(len(other) + 1) :]


def _case(chance: Random, data: bytes, stock: Stock) -> bytes:
    start, end = part(chance, data)
    return data[:start] + data[start:end].swapcase() + data[end:]


def _move(chance: Random, data: bytes, stock: Stock) -> bytes:
    start, end = part(chance, data)
    rest = data[:start] + data[end:]
    at = chance.randrange(len(rest) + 1)
    return rest[:at] + data[start:end] + rest[at:]


_MUTATIONS: tuple[Mutation, ...] = (
    *(_flip, _any_byte, _cut, _end, _double, _word, _word, _number, _splice, _join, _case, _move),
)
