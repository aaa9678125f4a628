"""How options read in help and errors: in groups, and with bounds in words."""

from collections.abc import Mapping
from typing import Any

import click

from toehold_base.options.command import Program


class GroupedCommand(Program):
    """A command whose help lists its options under headings, in the order of their declaration.

    `headings` has each heading by the name of the option that it begins with.
    """

    def __init__(self, *given: Any, headings: Mapping[str, str], **more: Any) -> None:
        super().__init__(*given, **more)
        self._headings = headings

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        heading = "Options"
        for option in self.get_params(ctx):
            heading = self._headings.get(option.name or "", heading)
            row = option.get_help_record(ctx)
            if row is not None:
                groups.setdefault(heading, []).append(row)
        for heading, rows in groups.items():
            with formatter.section(heading):
                formatter.write_dl(rows)


class Number(click.ParamType[float]):
    """A number within bounds; whole ones if `kind` is click.INT. Errors tell the bounds in words."""

    def __init__(
        self,
        least: float,
        most: float | None = None,
        *,
        kind: click.ParamType[float] = click.INT,
        above: bool = False,
    ) -> None:
        """`above`: it must be above `least`."""
        self.name = kind.name
        self.min, self.max, self._kind, self._above = least, most, kind, above

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = self._kind.convert(value, param, ctx)
        is_high_enough = number > self.min if self._above else number >= self.min
        if not is_high_enough or (self.max is not None and number > self.max):
            self.fail(f"must be {self._bounds()}, got {number:.15g}", param, ctx)
        return number

    def _bounds(self) -> str:
        if self.max is not None:
            return f"between {self.min:.15g} and {self.max:.15g}"
        return f"{'above' if self._above else 'at least'} {self.min:.15g}"
