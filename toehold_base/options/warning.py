"""Warns of variables that were probably meant as options, in the log of a program."""

import os

import click
import structlog

from .variables import unknown_variables

_log = structlog.get_logger()


def warn_of_unknown_variables(command: click.Command, prefix: str) -> None:
    """Logs each variable that begins with `prefix`, or is misspelt, and that no option has."""
    for unknown in unknown_variables(os.environ, command, prefix):
        _log.warning("unknown_variable", variable=unknown.name, advice=unknown.advice)
