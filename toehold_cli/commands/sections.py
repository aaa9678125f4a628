"""Help of a command with many options, in sections; and lengths of time as options."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import click

_MOST_TIME_S = 10 * 365 * 86_400
_TIME_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class SectionedCommand(click.Command):
    """A command whose help lists its options by section, in the order in which sections first occur."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        for option in sorted(options, key=lambda option: not isinstance(option, _SectionOption)):
            record = option.get_help_record(ctx)
            if record is not None:
                title = option.section if isinstance(option, _SectionOption) else "Other options"
                sections.setdefault(title, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


class _SectionOption(click.Option):
    def __init__(self, *arguments: Any, section: str, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.section = section


def section(title: str) -> Callable[..., Callable[[Any], Any]]:
    """`click.option` for the options of a section."""
    return partial(click.option, cls=_SectionOption, section=title)


class Time(click.ParamType[float]):
    """A length of time such as `90s`, `30m`, `2h`, `1d` or `1h30m`, in seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        text = str(value).strip().lower()
        if not re.fullmatch(f"(?:{_TIME_PART.pattern}\\s*)+", text):
            self.fail(f"{value!r:.80} must be a time such as 90s, 30m, 2h, 1d or 1h30m.", param, ctx)
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in _TIME_PART.findall(text))
        if not 0 < seconds <= _MOST_TIME_S:
            self.fail(f"{value!r:.80} must be more than 0, and at most 3650d.", param, ctx)
        return seconds
