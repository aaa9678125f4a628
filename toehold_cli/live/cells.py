"""Text in the cells of a terminal: labels, rows beside them, and text that is wrapped instead of cut."""

from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import Console
from rich.text import Text

from toehold_cli import output

LABEL_CELLS = 9
_LEAST_NAME_CELLS = 12
_LEAST_BESIDE_CELLS = 20
_MOST_LINES = 4

Part = str | tuple[str, str]
"""Text, or text and its style."""

Item = list[Text]
"""Lines that belong together."""

_CONSOLE = Console(width=80)  # for tabs alone, which harmless text does not have


def text_of(*parts: Part) -> Text:
    """Parts joined. This is where all text becomes safe for a terminal."""
    text = Text(no_wrap=True)
    for part in parts:
        said, style = (part, "") if isinstance(part, str) else part
        text.append(output.harmless(said), style)
    return text


def wrapped(text: Text, width: int) -> Item:
    """Text in lines of this width, at most `_MOST_LINES`: more is the fault of whoever named something."""
    if text.cell_len <= width:
        return [text]
    lines = [*text.wrap(_CONSOLE, max(width, 1), no_wrap=False)]
    for each in lines:
        each.rstrip()
    lines = [each for each in lines if each.plain]
    kept = [*lines[: _MOST_LINES - 1], Text(" ").join(lines[_MOST_LINES - 1 :])]
    return [each for each in kept if each.plain]


def shortened(text: str, cells: int) -> str:
    """Text of at most so many cells, without its middle if it is longer: both ends of a URI matter."""
    if cell_len(text) <= cells or cells < _LEAST_NAME_CELLS:
        return text
    tail = chop_cells(text[::-1], cells // 2)[0][::-1]
    return f"{chop_cells(text, cells - cell_len(tail) - 1)[0]}…{tail}"


def row(label: str, width: int, *parts: Part) -> Item:
    """Text beside a label, wrapped."""
    return labelled(label, wrapped(text_of(*parts), width - LABEL_CELLS))


def labelled(label: str, lines: Iterable[Text]) -> list[Text]:
    """Lines beside a label."""
    named, blank = text_of((label.ljust(LABEL_CELLS), "bold")), Text(" " * LABEL_CELLS)
    return [(blank if place else named) + line for place, line in enumerate(lines)]


def beside(named: Sequence[tuple[str, Text]], width: int) -> Iterator[Item]:
    """Names, and beside them what is told of each, wrapped. Names get the room that the rest leaves."""
    room = width - LABEL_CELLS
    names = [output.harmless(name) for name, _ in named]
    spare = room - 2 - max((text.cell_len for _, text in named), default=0)
    most = max(spare, room // 3, _LEAST_NAME_CELLS)
    cells = min(max(map(cell_len, names), default=0), most)
    for name, (_, text) in zip(names, named, strict=True):
        begin, blank = Text(set_cell_size(shortened(name, cells), cells + 2)), Text(" " * (cells + 2))
        lines = wrapped(text, max(room - cells - 2, _LEAST_BESIDE_CELLS))
        yield [(blank if place else begin) + line for place, line in enumerate(lines)]
