"""The table of roles in docs/network.md, from `toehold_base.access.roles`."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from toehold_base.access.roles import ROLES, Role
from tools.parts.pages import DOCS, page

PAGE = DOCS / "network.md"
HEAD = f"| RPC | {' | '.join(role.value for role in Role)} |\n|---|{'---|' * len(Role)}\n"


def files() -> dict[Path, str]:
    return page(PAGE, {"roles": lambda: HEAD + "".join(rows())})


def rows() -> Iterator[str]:
    """A row for the RPCs of a service that are for the same roles."""

    def service_and_roles(method: str) -> tuple[str, frozenset[Role]]:
        return method.partition("/")[0].rpartition(".")[2], ROLES[method]

    for (service, roles), methods in groupby(ROLES, service_and_roles):
        names = ", ".join(f"`{method.partition('/')[2]}`" for method in methods)
        marks = " | ".join("yes" if role in roles else "" for role in Role)
        yield f"| {service}: {names} | {marks} |\n"
