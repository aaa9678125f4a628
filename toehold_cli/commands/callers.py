"""`toehold callers`: who may call a frontier or node, and what they may do."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toehold_base.access.callers_file import CallerRow
from toehold_base.access.roles import Role
from toehold_cli import output
from toehold_cli.numbers import Whole

from .options import Listing, json_option

if TYPE_CHECKING:
    from toehold_cli.access.registry import Registry

_COLUMNS = ("caller", "roles", "crawls", "nodes", "tokens", "state")
_ALL = "all"

callers_option = click.option(
    "--callers",
    "callers_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    default=Path("callers.toml"),
    envvar="TOEHOLD_CALLERS",
    show_default=True,
    show_envvar=True,
    help="The file of the callers, which the frontier or node was started with.",
)


@click.group(cls=Listing)
def callers() -> None:
    """List, add, change or revoke the callers of a frontier or node.

    `toehold callers` means `toehold callers list`.
    """


@callers.command("set")
@click.argument("name")
@click.option(
    "--role",
    "roles",
    type=click.Choice([role.value for role in Role]),
    multiple=True,
    help="A role of the caller; may be repeated.",
)
@click.option(
    "--crawl",
    "crawls",
    metavar="CRAWL",
    multiple=True,
    help=f"A crawl that it may act on; may be repeated. '{_ALL}' stands for all.  [default: all]",
)
@click.option(
    "--node",
    "nodes",
    metavar="NODE",
    multiple=True,
    help="A node that it may speak for; may be repeated. 'north' stands for north/1, north/2 … too, "
    "'north-*' for all nodes that begin so.  [default: the node NAME]",
)
@click.option(
    "--max-calls", type=Whole(min=0, max=1_000_000), metavar="N", help="Calls that it may have open; 0: any."
)
@click.option(
    "--max-candidates-per-second",
    type=Whole(min=0, max=1_000_000_000),
    metavar="N",
    help="Candidates and seeds that it may send a second; 0: any number.",
)
@callers_option
@json_option
def set_caller(
    name: str,
    roles: Sequence[str],
    crawls: Sequence[str],
    nodes: Sequence[str],
    max_calls: int | None,
    max_candidates_per_second: int | None,
    callers_file: Path,
    as_json: bool,
) -> None:
    """Add the caller NAME, or change what you name of it.

    A caller shows who it is by a token (`toehold tokens create`) or by a certificate of its name
    (`toehold certs create`).

    \b
    Roles:
      watch    look at crawls, queues and nodes
      fetch    take leases, report, offer links: what a node does
      feed     offer candidates and seeds
      operate  begin, steer and end crawls; change settings, queues and nodes
      admin    everything, and see passwords in specs
    """
    changes: dict[str, Any] = {}
    if roles:
        changes["roles"] = list(dict.fromkeys(roles))
    if crawls:
        changes["crawls"] = None if _ALL in crawls else list(crawls)
    if nodes:
        changes["nodes"] = list(nodes)
    for key, number in (
        ("max_calls", max_calls),
        ("max_candidates_per_second", max_candidates_per_second),
    ):
        if number is not None:
            changes[key] = number or None
    if not changes:
        raise click.UsageError("Nothing to change. Give at least one --role, --crawl, --node or --max-….")
    is_new = registry(callers_file).set_caller(name, changes)
    output.result(
        {"caller": name, "new": is_new}, f"{name}: {'added' if is_new else 'changed'}", as_json=as_json
    )


@callers.command("list")
@callers_option
@json_option
def list_callers(callers_file: Path, as_json: bool) -> None:
    """List the callers, their roles and the state of their rights."""
    rows = registry(callers_file).callers()
    if as_json:
        for name, row in rows.items():
            output.record(_record(name, row))
        return
    output.table(_COLUMNS, (_row(name, row) for name, row in rows.items()))


@callers.command("revoke")
@click.argument("name")
@callers_option
@json_option
def revoke_caller(name: str, callers_file: Path, as_json: bool) -> None:
    """Refuse the caller NAME from now on, with all of its tokens and certificates."""
    registry(callers_file).revoke_caller(name)
    output.result({"caller": name, "revoked": True}, f"{name}: revoked", as_json=as_json)


def registry(path: Path) -> "Registry":
    """The callers in a file."""
    from toehold_cli.access.registry import Registry  # the other commands need no TOML writer

    return Registry(path)


def moment(at: datetime | None) -> str:
    """A moment, or `-`."""
    return "-" if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _names(rows: Sequence[str] | None, default: str) -> str:
    """Names as one text."""
    return default if rows is None else ", ".join(rows) or "none"


def _row(name: str, row: CallerRow) -> tuple[str, ...]:
    return (
        name,
        ", ".join(row.roles),
        _names(row.crawls, _ALL),
        _names(row.nodes, name),
        str(sum(token.revoked is None for token in row.tokens)),
        "valid" if row.revoked is None else f"revoked {moment(row.revoked)}",
    )


def _record(name: str, row: CallerRow) -> dict[str, object]:
    return {
        "caller": name,
        "roles": row.roles,
        "crawls": row.crawls,
        "nodes": [name] if row.nodes is None else row.nodes,
        "max_calls": row.max_calls,
        "max_candidates_per_second": row.max_candidates_per_second,
        "tokens": len(row.tokens),
        "revoked": None if row.revoked is None else moment(row.revoked),
        "revoked_certificates": row.revoked_certificates,
    }
