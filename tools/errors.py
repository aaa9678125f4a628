"""Writes the table of errors in docs/api.md from the client's classes, or checks that it is current.

`errors.py --check` only compares, and exits with 1 where they differ.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from toehold_client import errors
from toehold_client.errors import ToeholdError

PAGE = Path(__file__).resolve().parent.parent / "docs" / "api.md"
GENERATED = re.compile(r"(<!-- generated: errors -->\n).*?(<!-- /generated -->\n)", re.DOTALL)
HEAD = "| class in `toehold_client.errors` | reason | meaning |\n|---|---|---|\n"
INDENT = "&nbsp;&nbsp;"


def main() -> None:
    page = PAGE.read_text()
    table = HEAD + "".join(rows(ToeholdError))
    current = GENERATED.sub(lambda found: found[1] + table + found[2], page)
    if sys.argv[1:] == ["--check"]:
        if page != current:
            sys.exit(f"docs/{PAGE.name} is not current: run `make generate` and commit what it writes.")
    elif page != current:
        PAGE.write_text(current)
        print(f"docs/{PAGE.name}: written")


def rows(above: type[ToeholdError], depth: int = 0) -> Iterator[str]:
    """A row for each class of errors, each kind below its parent."""
    for kind in above.__subclasses__():
        reasons = ", ".join(f"`{reason}`" for reason, made in errors._BY_REASON.items() if made is kind)
        meaning = " ".join((kind.__doc__ or "").split())
        yield f"| {INDENT * depth}`{kind.__name__}` | {reasons} | {meaning} |\n"
        yield from rows(kind, depth + 1)


if __name__ == "__main__":
    main()
