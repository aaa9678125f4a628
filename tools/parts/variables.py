"""The tables of options and variables in docs/reference.md, from the programs."""

from collections.abc import Iterator
from pathlib import Path

import click

from crawler_node.program import main as node
from frontier_server.program.program import main as frontier
from toehold_base.options.variables import long_name, settable, shared_variables
from toehold_cli.main import toehold
from tools.parts.pages import DOCS, page, table

PAGE = DOCS / "reference.md"
HEAD = ("option", "meaning")
SHARED_HEAD = ("variable", "option", "of")

Row = tuple[str, ...]


def files() -> dict[Path, str]:
    return page(
        PAGE,
        {
            "options of the frontier": lambda: table(HEAD, [*rows(frontier)]),
            "options of a node": lambda: table(HEAD, [*rows(node)]),
            "shared": lambda: table(SHARED_HEAD, [*shared_rows()]),
        },
    )


def rows(command: click.Command) -> Iterator[Row]:
    """A row for each option of a program."""
    context = click.Context(command, info_name=command.name)
    for option in settable(command):
        record = option.get_help_record(context)
        assert record is not None, "hidden options have no variable"
        yield f"`{record[0]}`", " ".join(record[1].split())


def shared_rows() -> Iterator[Row]:
    """A row for each variable that several commands read."""
    of: dict[tuple[str, str], list[str]] = {}
    for command, option in (*options_of(toehold, ""), *options_of(node, "")):
        for variable in shared_variables(option)[1:]:
            flag = long_name(option).replace("_", "-")
            of.setdefault((variable, f"--{flag}"), []).append(command)
    for (variable, flag), commands in of.items():
        whose = ", ".join(dict.fromkeys("`toehold-node`" if each == "" else "`toehold`" for each in commands))
        yield f"`{variable}`", f"`{flag}`", whose


def options_of(command: click.Command, path: str) -> Iterator[tuple[str, click.Option]]:
    """The options of a command and of those below it, with the names of the commands."""
    yield from ((path, option) for option in settable(command))
    for name, below in getattr(command, "commands", {}).items():
        yield from options_of(below, f"{path} {name}".strip())
