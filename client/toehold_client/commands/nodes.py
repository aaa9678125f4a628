"""`toehold nodes`: the crawler nodes that a frontier has heard of, and how many toe threads they have."""

from __future__ import annotations

from collections.abc import Sequence

import click

from toehold.frontier.v1.admin_pb2 import Node
from toehold_client import show
from toehold_client.client import FrontierClient

from .options import Listing, json_option, limit_option, tell, with_frontier

_COLUMNS = ("node", "last heard", "out", "toes", "wanted", "toes by step")
_MOST_TOES = 10_000


@click.group(cls=Listing)
def nodes() -> None:
    """The frontier's crawler nodes: list them (also without `list`), resize their pools, let one end."""


@nodes.command("list")
@limit_option
@json_option
@with_frontier
def list_nodes(client: FrontierClient, limit: int | None, as_json: bool) -> None:
    """List the nodes that the frontier has heard of since it started, the latest first."""
    tell(client.get_frontier().nodes, _COLUMNS, _row, limit=limit, as_json=as_json)


def _size(context: click.Context, parameter: click.Parameter, value: str) -> int | None:
    return None if value == "default" else click.IntRange(0, _MOST_TOES)(value, parameter, context)


@nodes.command()
@click.argument("size", metavar="N|default", callback=_size)
@click.option("--node", default="", metavar="NAME", help="Only the node with this name, whatever all have.")
@json_option
@with_frontier
def resize(client: FrontierClient, size: int | None, node: str, as_json: bool) -> None:
    """Let the nodes have N toe threads each, now and later.

    They hear of it with their next heartbeat, new ones with their first. With `default` a node has as many
    again as it was started with, or with --node, as all have.
    """
    client.set_pool_size(size, node)
    if as_json:
        show.record({"node": node or None, "size": size})
    else:
        told = "the default number of" if size is None else str(size)
        show.line(f"{node or 'all nodes'}: {told} toe threads")


@nodes.command()
@click.argument("node")
@json_option
@with_frontier
def drain(client: FrontierClient, node: str, as_json: bool) -> None:
    """Let NODE end in order.

    It hears of it with its next heartbeat, takes no more leases, finishes what it has started, and hands back
    the rest.
    """
    client.drain_node(node)
    if as_json:
        show.record({"node": node, "draining": True})
    else:
        show.line(f"{node}: ends when it has finished what it has started")


def _row(node: Node) -> Sequence[str]:
    steps = sorted((each.step, each.count) for each in node.toe_steps if each.count)
    return (
        node.node,
        show.moment(node.last_heard_time) or "-",
        str(node.leased_count),
        str(sum(count for _, count in steps)),
        str(node.pool_size) if node.HasField("pool_size") else "-",
        ", ".join(f"{step}: {count}" for step, count in steps) or "-",
    )
