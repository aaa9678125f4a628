"""Writes all files that are generated, or checks that they are current.

`generate.py` writes what is not current. `generate.py --check` only compares, and exits with 1 if anything is
not. Names of parts (`generate.py commands errors`) take only these.

Each part is a module of `tools/parts/` with a function `files`: the text of every file that the part writes,
by its path, and None for a file that must not be there any more.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

ROOT = Path(__file__).resolve().parent.parent
PARTS = (  # a later one may import what an earlier one writes, so each is imported in its turn
    "settings",
    "protos",
    "blocking_client",
    "commands",
    "errors",
    "roles",
    "metrics",
    "variables",
    "conformance",
    "diagrams",
)

Files = Mapping[Path, str | None]


class Part(Protocol):
    """A module of `tools/parts/`."""

    def files(self) -> Files:
        """The files that it writes."""


def main(arguments: Sequence[str]) -> None:
    only_check = "--check" in arguments
    names = [each for each in arguments if each != "--check"]
    if unknown := sorted(set(names) - set(PARTS)):
        sys.exit(f"{', '.join(unknown)}: not a part. The parts are {', '.join(PARTS)}.")
    stale: list[str] = []
    for name in names or PARTS:
        for path, text in out_of_date(cast(Part, import_module(f"tools.parts.{name}")).files()):
            stale.append(str(path.relative_to(ROOT)))
            if not only_check:
                write(path, text)
                print(f"{stale[-1]}: {'removed' if text is None else 'written'}")
    if only_check and stale:
        sys.exit(f"{', '.join(stale)}: not current. Run `make generate` and commit what it writes.")


def out_of_date(files: Files) -> Iterator[tuple[Path, str | None]]:
    """The files that are not as they should be."""
    for path, text in files.items():
        current = path.read_bytes() if path.exists() else None
        if current != (None if text is None else text.encode()):
            yield path, text


def write(path: Path, text: str | None) -> None:
    """Write a file, or remove it."""
    if text is None:
        path.unlink()
    else:
        path.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
