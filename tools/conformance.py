"""Writes the lists of docs/conformance.md, or checks that they are current.

`conformance.py` writes the list of cases, and gives each case its row in the table of fetchers.
`conformance.py --check` only compares, and exits with 1 where they differ. `conformance.py --run` runs the
kit for our own node and for each example that is built, and writes their columns of the table; columns of
examples that are not built stay. It exits with 1 if one of these fetchers does not conform.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from toehold_conformance import kit, table
from tools.generated_parts import update

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "conformance.md"
EXAMPLES = ROOT / "build" / "examples"
LANGUAGES = ("go", "java", "typescript", "rust")
NODE = "toehold-node"
FLAGS = ("--frontier", "{frontier}", "--crawl", "{crawl}", "--name", "{name}", "--toes", "10")
ROW = re.compile(r"^\| `([a-z0-9-]+)` \| (?:required|advised) \| (.*) \|$", re.MULTILINE)
MARKS = {"holds": True, "**fails**": False}

Columns = dict[str, dict[str, bool]]  # by fetcher and case


def main() -> None:
    page = PAGE.read_text()
    columns, conforming = columns_of(page), True
    if sys.argv[1:] == ["--run"]:
        for name, command in fetchers():
            results = kit.run(command)
            print(f"{name}: {table.summary(results)}")
            for result in results:
                if not result.holds:
                    print(f"  {result.case.name}: {table.reason(result)}")
            columns[name] = {result.case.name: result.holds for result in results}
            conforming = conforming and kit.conforms(results)
    update(
        PAGE,
        {
            "cases": lambda: f"\n{table.markdown_cases()}\n",
            "fetchers": lambda: f"\n{table.markdown_results(columns)}\n",
        },
    )
    if not conforming:
        sys.exit(1)


def columns_of(page: str) -> Columns:
    """Which cases hold for which fetchers, as a page says."""
    columns: Columns = {name: {} for name in (NODE, *LANGUAGES)}
    part = page.partition("<!-- generated: fetchers -->")[2].partition("<!-- /generated -->")[0]
    for case, cells in ROW.findall(part):
        for name, cell in zip(columns, cells.split(" | "), strict=False):
            if cell.strip() in MARKS:
                columns[name][case] = MARKS[cell.strip()]
    return columns


def fetchers() -> Iterator[tuple[str, list[str]]]:
    """Our own node and the examples that are built, and how to run them."""
    node = str(Path(sys.executable).with_name(NODE))
    yield NODE, [node, *FLAGS, "--warc", "{dir}"]
    for language in LANGUAGES:
        program = EXAMPLES / language / "fetcher"
        if program.exists():
            yield language, [str(program), *FLAGS]
        else:
            print(f"{language}: not built (make examples), so its column stays as it is")


if __name__ == "__main__":
    main()
