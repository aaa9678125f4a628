"""The list of cases in docs/conformance.md, and the rows of its table of fetchers."""

import re
from pathlib import Path

from toehold_conformance import table
from tools.parts.pages import DOCS, page

PAGE = DOCS / "conformance.md"
LANGUAGES = ("go", "java", "typescript", "rust")
NODE = "toehold-node"
ROW = re.compile(r"^\| `([a-z0-9-]+)` \| (?:required|advised) \| (.*) \|$", re.MULTILINE)
MARKS = {"holds": True, "**fails**": False}

Columns = dict[str, dict[str, bool]]  # by fetcher and case


def files(columns: Columns | None = None) -> dict[Path, str]:
    """The page; results that are not given stay as they are."""
    results = columns_of(PAGE.read_text()) | (columns or {})
    parts = {
        "cases": lambda: f"\n{table.markdown_cases()}\n",
        "fetchers": lambda: f"\n{table.markdown_results(results)}\n",
    }
    return page(PAGE, parts)


def columns_of(text: str) -> Columns:
    """Which cases hold for which fetchers, as a page says."""
    columns: Columns = {name: {} for name in (NODE, *LANGUAGES)}
    part = text.partition("<!-- generated: fetchers -->")[2].partition("<!-- /generated -->")[0]
    for case, cells in ROW.findall(part):
        for name, cell in zip(columns, cells.split(" | "), strict=False):
            if cell.strip() in MARKS:
                columns[name][case] = MARKS[cell.strip()]
    return columns
