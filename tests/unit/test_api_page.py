"""The table of errors in docs/api.md says what the client says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from toehold_client import errors
from toehold_client.errors import ToeholdError

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
INDENT = "&nbsp;&nbsp;"


def rows(above: type[ToeholdError], depth: int = 0) -> Iterator[str]:
    """A row for each class of errors, each kind below its parent."""
    for kind in above.__subclasses__():
        if kind.__module__ == errors.__name__:
            reasons = ", ".join(f"`{reason}`" for reason, made in errors._BY_REASON.items() if made is kind)
            meaning = " ".join((kind.__doc__ or "").split())
            yield f"| {INDENT * depth}`{kind.__name__}` | {reasons} | {meaning} |"
            yield from rows(kind, depth + 1)


def test_every_error_has_a_row_with_its_reasons_and_its_meaning() -> None:
    table = PAGE.read_text().partition("<!-- errors -->")[2].partition("<!-- /errors -->")[0]
    assert table.strip().splitlines()[2:] == list(rows(ToeholdError))
