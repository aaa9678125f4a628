"""Checks of options' values that several programs share."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

MAX_NAME_CHARS = 128
"""The contract's bound for the name of a node."""

_T = TypeVar("_T")


def read_by(
    read: Callable[[Any], _T], refused: type[Exception] = ValueError
) -> Callable[[click.Context, click.Parameter, Any], _T]:
    """A callback of an option: its value as `read` gives it, whose exceptions are the user's errors."""

    def callback(context: click.Context, option: click.Parameter, value: Any) -> _T:
        try:
            return read(value)
        except refused as problem:
            raise click.BadParameter(str(problem)) from None

    return callback


def node_name(name: str) -> str:
    """A name under which a program may be a node at the frontier; ValueError for any other."""
    if not 1 <= len(name) <= MAX_NAME_CHARS or not name.isprintable():
        raise ValueError(
            f"must have 1 to {MAX_NAME_CHARS} printable characters, got {len(name)}: {name[:200]!r}"
        )
    return name
