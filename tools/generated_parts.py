"""Parts of pages that programs write: each stands between markers, `<!-- generated: NAME -->` and
`<!-- /generated -->`. With --check a program only compares, and exits with 1 where a page is not current."""

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

_PART = re.compile(r"(<!-- generated: ([a-z ]+) -->\n).*?(<!-- /generated -->\n)", re.DOTALL)


def update(path: Path, parts: Mapping[str, Callable[[], str]]) -> None:
    """Write a page with all of its parts made anew, or check that it is so already."""
    page = path.read_text()
    current = _PART.sub(lambda found: found[1] + parts[found[2]]() + found[3], page)
    if page == current:
        return
    if sys.argv[1:] == ["--check"]:
        sys.exit(f"docs/{path.name} is not current: run `make generate` and commit what it writes.")
    path.write_text(current)
    print(f"docs/{path.name}: written")
