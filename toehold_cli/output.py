"""How commands print: tables for people, JSON for programs."""

import json
import sys
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC
from typing import Any

import click
from google.protobuf.timestamp_pb2 import Timestamp
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from toehold_client.text import harmless as harmless
from toehold_client.text import standing as standing
from toehold_client.text import status_and_reason as status_and_reason
from toehold_client.text import status_names as status_names
from toehold_client.text import status_text as status_text

_ROOMY_WIDTH = 120
_SHORT = 12  # columns up to this width are not wrapped: numbers and states stay whole
_LEAST_ROOM = 20


def line(text: str) -> None:
    """A line for people, safe for a terminal: the text may come from the web."""
    click.echo(harmless(text))


def note(text: str) -> None:
    """A line for people on standard error."""
    click.echo(harmless(text), err=True)


def record(content: Mapping[str, Any]) -> None:
    """One JSON object, on one line."""
    click.echo(json.dumps(content, ensure_ascii=False))


def result(content: Mapping[str, Any], text: str, *, as_json: bool) -> None:
    """The result of a command: an object for programs, or a line for people."""
    if as_json:
        record(content)
    else:
        line(text)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, spare: Collection[str] = ()) -> None:
    """Rows under headings: drawn on a terminal, elsewhere aligned with blanks. Cells are never cut.

    A narrow terminal leaves out the `spare` columns.
    """
    cells = [[harmless(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _draw(columns, cells, () if is_roomy() else spare)
        return
    for row in [[*columns], *cells]:
        widths = (max(len(each[place]) for each in [columns, *cells]) for place in range(len(columns)))
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _draw(columns: Sequence[str], cells: Sequence[Sequence[str]], without: Collection[str]) -> None:
    drawn = Table(box=SIMPLE_HEAD, pad_edge=False)
    shown = [place for place, name in enumerate(columns) if name not in without]
    for place in shown:
        width = max(len(columns[place]), *(len(row[place]) for row in cells), 0)
        drawn.add_column(columns[place], overflow="fold", no_wrap=width <= _SHORT)
    for row in cells:
        drawn.add_row(*(Text(row[place]) for place in shown))
    Console().print(drawn)


def is_roomy() -> bool:
    """Whether there is room for more columns than fit into 80 characters."""
    return not sys.stdout.isatty() or Console().width >= _ROOMY_WIDTH


def facts(pairs: Iterable[tuple[str, str]]) -> None:
    """Names and values, one pair per line, without empty values. On a terminal long values are wrapped."""
    shown = [(name, harmless(value)) for name, value in pairs if value]
    width = max(len(name) for name, _ in shown)
    for name, value in shown:
        lines = [value]
        if sys.stdout.isatty():
            room = max(Console().width - width - 2, _LEAST_ROOM)
            lines = textwrap.wrap(value, room, break_long_words=False, break_on_hyphens=False)
        for place, part in enumerate(lines):
            click.echo(f"{'' if place else name:{width}}  {part}")


def moment(time: Timestamp) -> str:
    """A time for people, in UTC; empty for one that is not set."""
    if not time.seconds:
        return ""
    return time.ToDatetime(tzinfo=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
