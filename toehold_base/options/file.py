"""Options by a settings file: `tls_cert = "node.crt"` in it is --tls-cert.

A file for a group of commands has a table for each command that it is about. A key above the tables holds for
every command below that has the option.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import click

from toehold_base.options.toml_file import FileUnusable, read_settings

from .variables import PREFIX, long_name, settable, shared_variables

_T = TypeVar("_T")

_FILE = "toehold_base.options.file"
_CONFIG = "config"

Defaults = dict[str, Any]
"""Values by the name of a parameter, with a table for each command below: click's `default_map`."""


def config_option(
    text: str, *, usual: Callable[[], Path | None] = lambda: None
) -> Callable[[Callable[..., _T]], Callable[..., _T]]:
    """Gives a command, or a group of commands, the option --config, which reads a settings file before other
    options are looked at. `usual` is the file that is read without the option."""

    def read(context: click.Context, option: click.Parameter, path: Path | None) -> None:
        path = path or usual()
        if path is None:
            return
        try:
            context.default_map = defaults(context.command, read_settings(path), path)
        except FileUnusable as problem:
            raise click.UsageError(str(problem)) from problem
        context.meta[_FILE] = path

    return click.option(
        f"--{_CONFIG}",
        metavar="FILE",
        type=click.Path(path_type=Path),
        is_eager=True,
        expose_value=False,
        callback=read,
        help=text,
    )


def file_of(context: click.Context) -> Path | None:
    """The settings file that was read."""
    path = context.meta.get(_FILE)
    return path if isinstance(path, Path) else None


def defaults(command: click.Command, table: Mapping[str, Any], path: Path) -> Defaults:
    """The values of a file for a command and those below it. Raises FileUnusable."""
    found: Defaults = {}
    try:
        _take_table(command, table, found, "")
    except ValueError as problem:
        raise FileUnusable(f"settings file {path}: {problem}") from None
    return found


def _take_table(command: click.Command, table: Mapping[str, Any], found: Defaults, place: str) -> None:
    """Takes the values of a table, then those of the tables in it, which are more special."""
    below: Mapping[str, click.Command] = getattr(command, "commands", {})
    for key, value in table.items():
        if isinstance(value, dict) and key in below:
            continue
        holders = list(_holders(command, key, ()))
        if not holders:
            raise ValueError(_not_a_key(command, key, place, is_table=isinstance(value, dict)))
        for path, option in holders:
            checked = _checked(option, value, f"{place}{key}")
            _table_at(found, path)[option.name or ""] = checked
    for key, value in table.items():
        if isinstance(value, dict) and key in below:
            _take_table(below[key], value, _table_at(found, (key,)), f"{place}{key}.")


def _holders(
    command: click.Command, key: str, path: tuple[str, ...]
) -> list[tuple[tuple[str, ...], click.Option]]:
    """The options that a key of a command's table is about, with the names of the commands below.

    Options may have one name and different meanings. If some of them have a variable for all commands, the
    key is about those.
    """
    found = list(_named(command, key, path))
    shared = f"{PREFIX}_{key.upper()}"
    return [each for each in found if shared in shared_variables(each[1])] or found


def _named(
    command: click.Command, key: str, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Option]]:
    yield from ((path, option) for option in settable(command) if key == long_name(option) != _CONFIG)
    for name, below in getattr(command, "commands", {}).items():
        yield from _named(below, key, (*path, name))


def _table_at(found: Defaults, path: tuple[str, ...]) -> Defaults:
    for name in path:
        found = found.setdefault(name, {})
    return found


def _not_a_key(command: click.Command, key: str, place: str, *, is_table: bool) -> str:
    below: Mapping[str, click.Command] = getattr(command, "commands", {})
    known, kind = ([*below], "command") if is_table and below else (sorted(_keys(command)), "setting")
    close = get_close_matches(key, known, 1)
    right = f"did you mean {place}{close[0]}?" if close else f"the {kind}s here are {', '.join(known)}"
    return f"{place}{key} is not a {kind}; {right}"


def _keys(command: click.Command) -> set[str]:
    own = {long_name(option) for option in settable(command)} - {_CONFIG}
    return own.union(*(_keys(below) for below in getattr(command, "commands", {}).values()))


def _checked(option: click.Option, value: Any, name: str) -> Any:
    """The value, if it has the right type. Raises ValueError."""
    fits, kind = _kind(option)
    if option.multiple:
        if not (isinstance(value, list) and all(map(fits, value))):
            raise ValueError(f"{name} must be a list of {kind[1]}, got {_shown(value)}")
    elif not fits(value):
        raise ValueError(f"{name} must be {kind[0]}, got {_shown(value)}")
    return value


def _kind(option: click.Option) -> tuple[Callable[[Any], bool], tuple[str, str]]:
    """Whether a value has the option's type, and the name of the type: of one value, and of several."""
    kind = option.type
    if option.is_flag:
        return (lambda value: isinstance(value, bool)), ("true or false", "true or false")
    if kind.name == "integer" or isinstance(kind, click.IntRange):
        return (lambda value: isinstance(value, int) and not isinstance(value, bool)), (
            "a whole number",
            "whole numbers",
        )
    if kind.name == "float" or isinstance(kind, click.FloatRange):
        return (lambda value: isinstance(value, int | float) and not isinstance(value, bool)), (
            "a number",
            "numbers",
        )
    return (lambda value: isinstance(value, str)), ("text", "texts")


def _shown(value: Any) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)[:80]
