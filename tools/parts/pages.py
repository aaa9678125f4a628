"""Pages of the manual with generated parts, which stand between markers: `<!-- generated: NAME -->` and
`<!-- /generated -->`."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
_PART = re.compile(r"(<!-- generated: ([a-z ]+) -->\n).*?(<!-- /generated -->\n)", re.DOTALL)


def page(path: Path, parts: Mapping[str, Callable[[], str]]) -> dict[Path, str]:
    """A page with these parts made anew. Others are another module's."""

    def made(found: re.Match[str]) -> str:
        return found[1] + parts[found[2]]() + found[3] if found[2] in parts else found[0]

    text = path.read_text()
    if missing := parts.keys() - {found[2] for found in _PART.finditer(text)}:
        raise LookupError(f"docs/{path.name} must have a part {sorted(missing)[0]!r} between its markers")
    return {path: _PART.sub(made, text)}


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [tuple(cell.replace("|", "\\|") for cell in row) for row in rows]
    lines = [f"| {' | '.join(line)} |" for line in (head, *cells)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:], ""])
