"""A program whose options may also come from variables and a settings file, and whose errors name these."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from click.core import ParameterSource

from .file import file_of
from .variables import give_variables, long_name, settable, source_of, variable_used


class Program(click.Command):
    """A command whose options have variables that begin with `variables`: TOEHOLD_NODE."""

    def __init__(self, *given: Any, variables: str, **more: Any) -> None:
        super().__init__(*given, **more)
        give_variables(self, variables)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with naming_sources():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with naming_sources():
            return super().invoke(ctx)


@contextmanager
def naming_sources() -> Iterator[None]:
    """A context in which errors about an option name the variable or file that its value came from."""
    try:
        yield
    except click.BadParameter as error:
        name_source(error)
        raise


def name_source(error: click.BadParameter) -> None:
    """Makes an error about an option name the variable, or the key and the file, that the value came from."""
    context = error.ctx or click.get_current_context(silent=True)
    option = error.param
    if option is None and context is not None:
        hint = error.param_hint
        named = (each for each in settable(context.command) if hint in [repr(name) for name in each.opts])
        option = next(named, None)
    if context is None or not isinstance(option, click.Option):
        return
    source = source_of(context, option)
    if source is ParameterSource.ENVIRONMENT:
        error.param_hint = f"'{variable_used(option)}'"
    elif source is ParameterSource.DEFAULT_MAP:
        error.param_hint = f"'{long_name(option)}' in {file_of(context)}"


def spelt_out(context: click.Context) -> list[str]:
    """The present command's options as arguments, wherever they came from: all that have a value."""
    arguments: list[str] = []
    for option in settable(context.command):
        value = context.params.get(option.name or "")
        flag = f"--{long_name(option).replace('_', '-')}"
        if option.is_flag:
            arguments += [flag] if value else []
        elif option.multiple:
            arguments += [f"{flag}={each}" for each in value or ()]
        elif value is not None:
            arguments.append(f"{flag}={value}")
    return arguments
