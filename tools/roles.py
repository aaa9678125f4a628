"""Writes the table of roles in docs/network.md from `toehold.access.roles`, or checks that it is current.

`roles.py --check` only compares, and exits with 1 where they differ.
"""

import re
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from toehold.access.roles import ROLES, Role

PAGE = Path(__file__).resolve().parent.parent / "docs" / "network.md"
GENERATED = re.compile(r"(<!-- generated: roles -->\n).*?(<!-- /generated -->\n)", re.DOTALL)
HEAD = f"| RPC | {' | '.join(role.value for role in Role)} |\n|---|{'---|' * len(Role)}\n"


def main() -> None:
    page = PAGE.read_text()
    table = HEAD + "".join(rows())
    current = GENERATED.sub(lambda found: found[1] + table + found[2], page)
    if sys.argv[1:] == ["--check"]:
        if page != current:
            sys.exit(f"docs/{PAGE.name} is not current: run `make generate` and commit what it writes.")
    elif page != current:
        PAGE.write_text(current)
        print(f"docs/{PAGE.name}: written")


def rows() -> Iterator[str]:
    """A row for the RPCs of a service that are for the same roles."""

    def service_and_roles(method: str) -> tuple[str, frozenset[Role]]:
        return method.partition("/")[0].rpartition(".")[2], ROLES[method]

    for (service, roles), methods in groupby(ROLES, service_and_roles):
        names = ", ".join(f"`{method.partition('/')[2]}`" for method in methods)
        marks = " | ".join("yes" if role in roles else "" for role in Role)
        yield f"| {service}: {names} | {marks} |\n"


if __name__ == "__main__":
    main()
