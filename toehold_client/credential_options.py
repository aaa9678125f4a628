"""The options --tls-ca, --tls-cert, --tls-key and --token-file of programs. Needs click."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from .credentials import VARIABLES

_T = TypeVar("_T")


def credential_options(
    texts: Mapping[str, str], **settings: Any
) -> Callable[[Callable[..., _T]], Callable[..., _T]]:
    """Gives a command an option for each variable of credentials. `texts` explain them, by the name of the
    field; `settings` are further ones of click's.
    """

    def with_options(command: Callable[..., _T]) -> Callable[..., _T]:
        for name, variable in reversed(list(VARIABLES.items())):
            command = click.option(
                f"--{name.replace('_', '-')}",
                name,
                metavar="FILE",
                envvar=variable,
                show_envvar=True,
                help=texts[name],
                **settings,
            )(command)
        return command

    return with_options
