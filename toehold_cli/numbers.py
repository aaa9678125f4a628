"""Numbers on the command line, with their bounds in words."""

from typing import Any

import click

LARGE = 10_000_000
"""Help does not mention an upper bound from here on. It only keeps a number in the range of its type."""


class Whole(click.IntRange):
    """A whole number: `1 to 1000`, `at least 1`."""

    name = "n"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number; wrong usage if it is out of bounds."""
        try:
            number = int(value)
        except ValueError:
            self.fail(f"must be a whole number, got {value!r:.80}", param, ctx)
        if not within(self, number):
            self.fail(f"must be {_demand(self)}, got {number}", param, ctx)
        return number

    def _describe_range(self) -> str:
        return bounds_text(self)


class Real(click.FloatRange):
    """A number that may have a fraction: `0 to 86400`, `more than 0, at most 60`."""

    name = "x"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; wrong usage if it is out of bounds."""
        try:
            number = float(value)
        except ValueError:
            self.fail(f"must be a number, got {value!r:.80}", param, ctx)
        if not within(self, number):
            self.fail(f"must be {_demand(self)}, got {number:g}", param, ctx)
        return number

    def _describe_range(self) -> str:
        return bounds_text(self)


def within(bounds: click.IntRange | click.FloatRange, number: float) -> bool:
    """Whether a number is between the bounds. NaN is not."""
    least, most = bounds.min, bounds.max
    above = least is None or (number > least if bounds.min_open else number >= least)
    return above and (number <= most if most is not None else number == number)


def bounds_text(bounds: click.IntRange | click.FloatRange) -> str:
    """`1 to 1000`; without a meaningful upper bound `at least 1`."""
    least, most = bounds.min, bounds.max
    if most is None or most >= LARGE:
        return f"more than {least:g}" if bounds.min_open else f"at least {least:g}"
    if bounds.min_open:
        return f"more than {least:g}, at most {_plain(most)}"
    return f"{_plain(least)} to {_plain(most)}"


def _demand(bounds: click.IntRange | click.FloatRange) -> str:
    if bounds.max is None or bounds.min_open:
        return bounds_text(bounds)
    return f"between {_plain(bounds.min)} and {_plain(bounds.max)}"


def _plain(number: float | None) -> str:
    """Without an exponent, which `:g` has for large numbers."""
    return str(int(number)) if number is not None and number == int(number) else f"{number:g}"
