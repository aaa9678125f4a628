"""The table of errors in docs/api.md, from the client's classes."""

from collections.abc import Iterator
from pathlib import Path

from toehold_client import errors
from toehold_client.errors import ToeholdError
from tools.parts.pages import DOCS, page

PAGE = DOCS / "api.md"
HEAD = "| class in `toehold_client.errors` | reason | meaning |\n|---|---|---|\n"
INDENT = "&nbsp;&nbsp;"


def files() -> dict[Path, str]:
    return page(PAGE, {"errors": lambda: HEAD + "".join(rows(ToeholdError))})


def rows(above: type[ToeholdError], depth: int = 0) -> Iterator[str]:
    """A row for each class of errors, each kind below its parent."""
    for kind in above.__subclasses__():
        if kind.__module__ != errors.__name__:
            continue  # a program's own
        reasons = ", ".join(f"`{reason}`" for reason, made in errors._BY_REASON.items() if made is kind)
        meaning = " ".join((kind.__doc__ or "").split())
        yield f"| {INDENT * depth}`{kind.__name__}` | {reasons} | {meaning} |\n"
        yield from rows(kind, depth + 1)
