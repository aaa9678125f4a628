"""The table of docs/operating.md that says, for each trouble, what an operator sees and does."""

import re
from dataclasses import dataclass
from pathlib import Path

MANUAL = Path(__file__).parents[3] / "docs" / "operating.md"
SECTION = "## When something breaks"
NONE = "–"


@dataclass(frozen=True, slots=True)
class Row:
    """One trouble."""

    trouble: str
    said: tuple[str, ...]  # words of the program's standard error, or of its answer
    exit_codes: frozenset[int]  # one of these; none: it goes on
    event: str  # the kind of the event Problem; empty: there is none
    health: str  # the last that gRPC health says; empty: nothing, as nobody serves
    do: str

    def is_told(self, text: str) -> bool:
        """Whether a text has all that the row says that is said."""
        return all(words in text for words in self.said)


def rows() -> dict[str, Row]:
    """All rows, by their trouble."""
    section = MANUAL.read_text().partition(f"\n{SECTION}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    found = [_row(line) for line in lines if not line.startswith("| trouble |")]
    return {row.trouble: row for row in found}


def _row(line: str) -> Row:
    trouble, said, code, event, health, do = (cell.strip() for cell in line.strip("| ").split(" | "))
    return Row(
        trouble,
        tuple(re.findall(r"`([^`]+)`", said)),
        frozenset(int(number) for number in re.findall(r"-?\d+", code)),
        "" if event == NONE else event.strip("`"),
        "" if health == NONE else health.strip("`"),
        do,
    )
