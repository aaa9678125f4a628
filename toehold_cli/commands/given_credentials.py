"""The credentials of a command: whom to trust, and who the caller is."""

from typing import Any

import click

from toehold_client.credential_options import credential_options
from toehold_client.credentials import SYSTEM, Credentials

_KEY = "toehold_client.credentials"


def _note(context: click.Context, option: click.Parameter, value: str | None) -> None:
    context.meta.setdefault(_KEY, {})[option.name] = value or None


with_credentials = credential_options(
    {
        "tls_ca": f"Use TLS, and trust the authorities in FILE (PEM), or '{SYSTEM}' ones.",
        "tls_cert": "Your certificate (PEM), for a frontier that asks for one.",
        "tls_key": "The key of your certificate (PEM).",
        "token_file": "A file with the token that names you.",
    },
    expose_value=False,
    callback=_note,
)
"""Gives a command the options that `given_credentials` reads."""


def given_credentials() -> Credentials:
    """Those that the options of the present command give. InvalidArgument if they do not fit together."""
    given: dict[str, Any] = click.get_current_context().meta.get(_KEY, {})
    return Credentials(**given)
