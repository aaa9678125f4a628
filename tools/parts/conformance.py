"""The table of fetchers in docs/fetchers.md."""

import re
from collections.abc import Mapping
from pathlib import Path

from toehold_conformance.cases import GROUPS
from tools.parts import pages

PAGE = pages.DOCS / "fetchers.md"
LANGUAGES = ("go", "java", "typescript", "rust")
NODE = "toehold-node"
NAMES = [case.name for group in GROUPS for case in group]
HEAD = ("fetcher", "cases that hold", "that fail", "that were not tried")
ROW = re.compile(r"^\| ([a-z-]+) \| [0-9]+ of [0-9]+ \| (.*) \| (.*) \|$", re.MULTILINE)

Columns = dict[str, dict[str, bool]]  # by fetcher and case


def files(columns: Columns | None = None) -> dict[Path, str]:
    """The page; results that are not given stay as they are."""
    results = columns_of(PAGE.read_text()) | (columns or {})
    parts = {
        "fetchers": lambda: pages.table(HEAD, [row(name, held) for name, held in results.items()]),
    }
    return pages.page(PAGE, parts)


def row(fetcher: str, held: Mapping[str, bool]) -> tuple[str, str, str, str]:
    """What a fetcher's run has shown."""
    failed = [name for name in NAMES if held.get(name) is False]
    untried = [name for name in NAMES if name not in held]
    return fetcher, f"{len(NAMES) - len(failed) - len(untried)} of {len(NAMES)}", told(failed), told(untried)


def told(names: list[str]) -> str:
    """Names of cases in a cell."""
    return "none" if not names else "all" if names == NAMES else ", ".join(f"`{name}`" for name in names)


def columns_of(text: str) -> Columns:
    """Which cases hold for which fetchers, as a page says."""
    columns: Columns = {name: {} for name in (NODE, *LANGUAGES)}
    part = text.partition("<!-- generated: fetchers -->")[2].partition("<!-- /generated -->")[0]
    for fetcher, failed, untried in ROW.findall(part):
        if untried != "all":
            known = set(NAMES) - set(re.findall("`([^`]+)`", untried))
            columns[fetcher] = {name: failed != "all" and f"`{name}`" not in failed for name in known}
    return columns
