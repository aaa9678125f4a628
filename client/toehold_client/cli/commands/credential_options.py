"""The options for frontiers and nodes on a network: whom to trust, and who the caller is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from toehold_client.credentials import SYSTEM, VARIABLES, Credentials

_KEY = "toehold_client.credentials"
_HELP = {
    "tls_ca": f"Use TLS, and trust the authorities in FILE (PEM), or '{SYSTEM}' ones.",
    "tls_cert": "Your certificate (PEM), for a frontier that asks for one.",
    "tls_key": "The key of your certificate (PEM).",
    "token_file": "A file with the token that names you.",
}

_T = TypeVar("_T")


def credential_options(command: Callable[..., _T]) -> Callable[..., _T]:
    """Gives a command --tls-ca, --tls-cert, --tls-key and --token-file, which `given_credentials` reads."""
    for name, text in reversed(_HELP.items()):
        option = click.option(
            f"--{name.replace('_', '-')}",
            name,
            metavar="FILE",
            envvar=VARIABLES[name],
            show_envvar=True,
            expose_value=False,
            callback=_note,
            help=text,
        )
        command = option(command)
    return command


def given_credentials() -> Credentials:
    """Those that the options of the present command give. InvalidArgument if they do not fit together."""
    given: dict[str, Any] = click.get_current_context().meta.get(_KEY, {})
    return Credentials(**given)


def _note(context: click.Context, option: click.Parameter, value: str | None) -> None:
    context.meta.setdefault(_KEY, {})[option.name] = value or None
