"""Checks of arguments that are easily given in a wrong form."""

from collections.abc import Iterable
from typing import TypeVar

from toehold_client.errors import InvalidArgument

_T = TypeVar("_T")


def several(items: Iterable[_T], name: str, noun: str) -> Iterable[_T]:
    """The same items. InvalidArgument for one text, whose letters would pass for items, and for anything else
    that is not iterable. `name` is the argument's; `noun` says what its items are.
    """
    if isinstance(items, str | bytes):
        kind = "string" if isinstance(items, str) else "bytes object"
        shown = f'"{items}"' if isinstance(items, str) and len(items) <= 200 else "…"
        raise InvalidArgument(
            f"{name} must be an iterable of {noun}, got one {kind}; put it into a list: [{shown}]"
        )
    if not isinstance(items, Iterable):
        raise InvalidArgument(f"{name} must be an iterable of {noun}, got one {type(items).__name__}")
    return items
