"""What values say, as a text that is the same in every process, of every build."""

import dataclasses
from collections.abc import Mapping, Sequence, Set
from enum import Enum
from typing import Any

import msgspec


def told(value: Any) -> str:
    """A value and all that is in it. Of an object without fields: its type."""
    match value:
        case Enum():
            return f"{type(value).__name__}.{value.name}"
        case None | bool() | int() | float() | str() | bytes():
            return repr(value)
        case Mapping():
            return f"{{{', '.join(sorted(f'{told(key)}: {told(each)}' for key, each in value.items()))}}}"
        case Set():
            return f"{{{', '.join(sorted(map(told, value)))}}}"
        case Sequence():
            return f"[{', '.join(map(told, value))}]"
        case BaseException():
            return f"{type(value).__name__}({value}, {told(vars(value))})"
        case msgspec.Struct():
            return _fields(value, value.__struct_fields__)
    if dataclasses.is_dataclass(value):
        return _fields(value, [field.name for field in dataclasses.fields(value)])
    return type(value).__name__


def _fields(value: Any, names: Sequence[str]) -> str:
    return f"{type(value).__name__}({', '.join(f'{name}={told(getattr(value, name))}' for name in names)})"


def difference(one: str, other: str) -> str:
    """Where two texts begin to differ, and what stands there."""
    place = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))
    return f"at {place}: {one[place - 60 : place + 60]!r} and {other[place - 60 : place + 60]!r}"
