"""Pages of the manual with generated parts, which stand between markers: `<!-- generated: NAME -->` and
`<!-- /generated -->`."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
_PART = re.compile(r"(<!-- generated: ([a-z ]+) -->\n).*?(<!-- /generated -->\n)", re.DOTALL)


def page(path: Path, parts: Mapping[str, Callable[[], str]]) -> dict[Path, str]:
    """A page with all of its parts made anew."""
    return {path: _PART.sub(lambda found: found[1] + parts[found[2]]() + found[3], path.read_text())}


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    cells = [tuple(cell.replace("|", "\\|") for cell in row) for row in rows]
    lines = [f"| {' | '.join(line)} |" for line in (head, *cells)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:], ""])
