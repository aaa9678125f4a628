"""The tables of metrics in docs/reference.md, from the programs' definitions."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from crawler_node.metrics import definitions as node
from frontier_server.metrics import definitions as frontier
from toehold_base.observability.metrics import PROCESS, Metric, Section
from tools.parts.pages import DOCS, page

PAGE = DOCS / "reference.md"
TABLES: dict[str, Sequence[Section]] = {
    "metrics of the frontier": [section for section in frontier.SECTIONS if section is not PROCESS],
    "metrics of a node": [section for section in node.SECTIONS if section is not PROCESS],
    "metrics of both": [PROCESS],
}
HEAD = "| {} | type | meaning |\n|---|---|---|\n"


def files() -> dict[Path, str]:
    return page(PAGE, {name: partial(tables, sections) for name, sections in TABLES.items()})


def tables(sections: Sequence[Section]) -> str:
    return "\n".join(
        HEAD.format(section.heading) + "".join(map(row, section.metrics)) for section in sections
    )


def row(metric: Metric) -> str:
    """A metric's row. Its unit is in its name."""
    labels = f"{{{', '.join(metric.labels)}}}" if metric.labels else ""
    return f"| `{metric.name}{labels}` | {metric.kind} | {metric.meaning} |\n"
