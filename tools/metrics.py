"""Writes the tables of metrics in docs/metrics.md from the programs' definitions, or checks that they are
current.

`metrics.py --check` only compares, and exits with 1 where they differ.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from crawler_node.metrics import definitions as node
from frontier_server.metrics import definitions as frontier
from toehold.metrics import PROCESS, Metric, Section

PAGE = Path(__file__).resolve().parent.parent / "docs" / "metrics.md"
GENERATED = re.compile(r"(<!-- generated: (frontier|node|both) -->\n).*?(<!-- /generated -->\n)", re.DOTALL)
TABLES: dict[str, Sequence[Section]] = {
    "frontier": [section for section in frontier.SECTIONS if section is not PROCESS],
    "node": [section for section in node.SECTIONS if section is not PROCESS],
    "both": [PROCESS],
}
HEAD = "| {} | type | labels | unit | meaning |\n|---|---|---|---|---|\n"


def main() -> None:
    page = PAGE.read_text()
    current = GENERATED.sub(lambda found: found[1] + "\n".join(tables(TABLES[found[2]])) + found[3], page)
    if sys.argv[1:] == ["--check"]:
        if page != current:
            sys.exit(f"docs/{PAGE.name} is not current: run `make generate` and commit what it writes.")
    elif page != current:
        PAGE.write_text(current)
        print(f"docs/{PAGE.name}: written")


def tables(sections: Sequence[Section]) -> Iterator[str]:
    """A table for each section."""
    for section in sections:
        yield HEAD.format(section.heading) + "".join(map(row, section.metrics))


def row(metric: Metric) -> str:
    """A metric's row."""
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.unit} | {metric.meaning} |\n"


if __name__ == "__main__":
    main()
