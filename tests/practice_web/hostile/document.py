"""Writes the tables of docs/reliability.md from the table of the code.

python tests/practice_web/hostile/document.py
"""

from collections import defaultdict
from pathlib import Path

from practice_web.hostile.nastiness import Nastiness
from practice_web.hostile.table import THEMES

DOCUMENT = Path(__file__).parents[3] / "docs" / "reliability.md"

MARK = "<!-- tests/practice_web/hostile/document.py writes everything below. -->\n"

_NAMES = {
    -2: "CONNECT_FAILED",
    -3: "CONNECT_LOST",
    -4: "TIMEOUT",
    -7: "UNFETCHABLE_URI",
    -10: "PROTOCOL_ERROR",
    -61: "ROBOTS_PREREQUISITE_FAILURE",
    -9998: "ROBOTS_PRECLUDED",
}

_MOST_ENDS, _MOST_CHARACTERS = 5, 48


def tables() -> str:
    """The nastinesses, theme by theme, in Markdown."""
    return "\n".join(_table(theme, rows) for theme, rows in THEMES.items())


def written(document: str) -> str:
    """The document with its tables as they should be."""
    return document.partition(MARK)[0] + MARK + "\n" + tables()


def _table(theme: str, rows: tuple[Nastiness, ...]) -> str:
    by_outcome: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        by_outcome[_outcome(row)].append(f"`{row.name}` {_escaped(row.does)}")
    lines = [
        f"### {theme}",
        "",
        "| result | of a site that … |",
        "|---|---|",
        *(f"| {outcome} | {' · '.join(sites)} |" for outcome, sites in by_outcome.items()),
        "",
    ]
    return "\n".join(lines)


def _outcome(row: Nastiness) -> str:
    ends = [f"{_path(path)} {_status(status)}" for path, status in row.ends.items()]
    if list(row.ends) == [row.start]:
        ends = [_status(row.ends[row.start])]
    shown = ends if len(ends) <= _MOST_ENDS else [*ends[: _MOST_ENDS - 1], f"… {len(ends)} in all"]
    if row.notes:
        shown.append(" or ".join(f"`{note}`" for note in row.notes))
    if row.times > 1:
        shown.append(f"{'each ' if len(row.ends) > 1 else ''}{row.times} times")
    if row.more:
        shown.append(f"and up to {row.more} more")
    return ", ".join(shown)


def _path(path: str) -> str:
    short = path if len(path) <= _MOST_CHARACTERS else path[: _MOST_CHARACTERS - 1] + "…"
    return f"`{short.replace('{decoy}', 'PORT')}`"


def _status(status: int) -> str:
    return f"{status} {_NAMES[status]}" if status < 0 else str(status)


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("|", "\\|")


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
