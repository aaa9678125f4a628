"""How groups of commands show their commands: each with a whole sentence, and by what one wants to do."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

_WHOLE = 10_000  # click cuts sentences that are longer than this


class Group(click.Group):
    """Commands whose sentences are wrapped, not cut, if the terminal is narrow."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write(formatter, "Commands", self.commands.values())


class Sections(Group):
    """Commands under headings."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.sections: dict[str, Sequence[click.Command]] = {}

    def add_sections(self, sections: Mapping[str, Sequence[click.Command]]) -> None:
        """Adds commands, and the headings under which help lists them."""
        for heading, commands in sections.items():
            self.sections[heading] = commands
            for command in commands:
                self.add_command(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.commands))
        for heading, commands in self.sections.items():
            _write(formatter, heading, commands, width)


def _write(
    formatter: click.HelpFormatter, heading: str, commands: Iterable[click.Command], width: int = 0
) -> None:
    """A heading, and below it each command with its sentence. `width` aligns several sections."""
    rows = [((command.name or "").ljust(width), sentence(command)) for command in commands]
    with formatter.section(heading):
        formatter.write_dl(rows)


def sentence(command: click.Command) -> str:
    """The first sentence of a command's help, whole."""
    return command.get_short_help_str(_WHOLE)
