"""`toehold nodes`: the crawler nodes of a frontier, and their toe threads."""

from collections.abc import Iterator, Sequence

import click

from toehold.frontier.v1.admin_pb2 import GetFrontierResponse, Node
from toehold.frontier.v1.frontier_pb2 import PoolStatistics, ToeStepCount
from toehold.node.v1.node_pb2 import GetPoolResponse, Toe, Worker
from toehold_cli import output
from toehold_cli.numbers import Whole
from toehold_client.client import FrontierClient
from toehold_client.node_client import NodeClient
from toehold_client.spec.plain import seconds_of, to_plain
from toehold_client.text import count_text, counted, duration_text
from toehold_client.watching.presence import (
    PRESENT,
    is_gone,
    presence_text,
    rival_warning,
    summary,
    toe_count,
)
from toehold_client.watching.shards import COLUMNS, shard_row

from .options import Listing, json_option, limit_option, tell, with_frontier
from .suggestions import node_names
from .which_frontier import CALL_TIMEOUT_S
from .which_node import WhichNode, all_named, at_option, named, with_which_node

_COLUMNS = (
    *("node", "presence", "leases", "toes", "wanted", "died/killed/left", "last seen", "address"),
    "toes by step",
)
_WORKER_COLUMNS = (
    *("process", "pid", "started", "toes", "died/killed/left", "unreported", "replaced", "state"),
)
_TOE_COLUMNS = ("process", "toe", "step", "for", "at URI for", "URI")
_MOST_TOES = 10_000
_MOST_NUMBER = 2**31 - 1
_MOST_SERIAL = 2**63 - 1


@click.group(cls=Listing)
def nodes() -> None:
    """List, show or change crawler nodes and their toe threads.

    NODE is a name from the list. If a node has several processes, they are NAME/1, NAME/2 and so on. NAME
    means all of them.

    `toehold nodes` means `toehold nodes list`.
    """


@nodes.command("list")
@limit_option
@json_option
@with_frontier
def list_nodes(client: FrontierClient, limit: int | None, as_json: bool) -> None:
    """List the nodes that the frontier knows, the last seen first.

    A node is `silent` after three missed heartbeats, and `lost` once its leases have lapsed. `toes` is the
    present and the intended number of toe threads; `wanted` is the requested number. `died/killed/left`
    counts lost toe threads; the `left` ones did not end, so the node abandoned them.

    If the frontier has several shards, a table of them follows. `cores` is how many processor cores a shard
    keeps busy: near 1 it can do no more.
    """
    answer = client.get_frontier()
    tell(
        answer.nodes,
        _COLUMNS,
        lambda node: _row(node, answer),
        limit=limit,
        as_json=as_json,
        spare=("wanted", "last seen", "address"),
    )
    if not as_json:
        output.line(summary(answer.nodes) if answer.nodes else _no_node(client))
        if answer.shards:
            output.line("")
            output.table(COLUMNS, map(shard_row, answer.shards), spare=("memory", "disk"))
    for node in answer.nodes:
        if node.rival_session:
            output.note(rival_warning(node))


def _no_node(client: FrontierClient) -> str:
    return f"No node has called. To start one: toehold-node --frontier {client.address} --warc DIR"


@nodes.command("show")
@json_option
@with_which_node
def show_node(which: WhichNode, as_json: bool) -> None:
    """Show a node's toe threads by step, its lost ones, and its processes."""
    with which.asked() as node:
        pool = node.get_pool()
    if as_json:
        output.record(to_plain(pool))
        return
    output.facts(_facts(pool))
    output.line("")
    output.table(_WORKER_COLUMNS, map(_worker_row, pool.workers), spare=("started", "replaced"))


@nodes.command()
@click.option("--stacks", is_flag=True, help="Show the Python stack of each.")
@limit_option
@json_option
@with_which_node
def toes(which: WhichNode, stacks: bool, limit: int | None, as_json: bool) -> None:
    """List a node's toe threads.

    Those that have worked longest on their URI come first. One of them may be stuck.
    """
    with which.asked() as node:
        by_time = sorted(node.list_toes(stacks), key=_longest_first)
    if stacks and not as_json:
        for toe in by_time[:limit]:
            _tell_stack(toe)
    else:
        tell(by_time, _TOE_COLUMNS, _toe_row, limit=limit, as_json=as_json)


@nodes.command()
@with_which_node
@click.argument("serial", type=Whole(1, _MOST_SERIAL))
@click.option(
    "--worker",
    type=Whole(1, _MOST_NUMBER),
    metavar="N",
    help="Kill the toe thread in process N, if the node has several.",
)
@click.option("--no-replace", is_flag=True, help="Don't start another toe thread instead.")
@json_option
def kill(which: WhichNode, serial: int, worker: int | None, no_replace: bool, as_json: bool) -> None:
    """Kill the toe thread with this SERIAL number.

    Its fetch is interrupted, and its URI is reported with -7000. If the thread has not ended after 5 s, the
    node abandons it and discards its results.
    """
    with which.asked() as node:
        node.kill_toe(serial, worker or 0, replace=not no_replace)
    if as_json:
        output.record({"node": str(which), "worker": worker, "serial": serial, "replace": not no_replace})
    else:
        instead = "the pool is one smaller" if no_replace else "another one replaces it"
        output.line(f"{which}: toe thread {serial} is being killed; {instead}")


def _size(context: click.Context, parameter: click.Parameter, value: str) -> int | None:
    return None if value == "default" else Whole(0, _MOST_TOES)(value, parameter, context)


@nodes.command()
@click.argument("size", metavar="N|default", callback=_size)
@click.option("--node", default="", metavar="NAME", shell_complete=node_names, help="Resize only this node.")
@at_option
@json_option
@with_frontier
def resize(client: FrontierClient, size: int | None, node: str, at: str | None, as_json: bool) -> None:
    """Give each node N toe threads, now and later.

    Nodes follow with their next heartbeat, new ones with their first. `default` restores the number that each
    node was started with; with --node, the number that all nodes have. If a node has several processes, each
    gets N toe threads; with --node NAME, they share N. A node --at an address follows at once, until its
    frontier asks for another number.
    """
    if at is None:
        _resize_by_frontier(client, size, node)
    elif node or size is None:
        raise click.UsageError("With --at, N must be a number. Remove --node.")
    else:
        with NodeClient(at, timeout_s=CALL_TIMEOUT_S, credentials=client.credentials) as node_client:
            node_client.set_pool_size(size)
    if as_json:
        output.record({"node": node or at, "size": size})
    else:
        wanted = "the default number of toe threads" if size is None else counted(size, "toe thread")
        output.line(f"{node or at or 'all nodes'}: {wanted}")


def _resize_by_frontier(client: FrontierClient, size: int | None, node: str) -> None:
    processes = sorted(each.node for each in named(client.get_frontier(), node)) if node else []
    names = processes or [node]  # a node that joins later gets it, too
    for place, name in enumerate(names):
        share = None if size is None else size // len(names) + (place < size % len(names))
        client.set_pool_size(share, name)


@nodes.command()
@click.argument("node", shell_complete=node_names)
@json_option
@with_frontier
def forget(client: FrontierClient, node: str, as_json: bool) -> None:
    """Remove a node that is lost or has left from the list.

    If it calls again, the list has it again. A node that has not called for a day is removed by itself.
    """
    found = all_named(client.get_frontier(), node)
    names = [each.node for each in found if is_gone(each)] or [each.node for each in found] or [node]
    for name in names:  # the frontier refuses those that are there
        client.forget_node(name)
    output.result({"node": node, "forgotten": names}, f"{', '.join(names)}: forgotten", as_json=as_json)


@nodes.command()
@json_option
@with_which_node
def drain(which: WhichNode, as_json: bool) -> None:
    """Let a node finish its work and end.

    The node follows with its next heartbeat, or at once with --at: it takes no more leases, finishes what it
    has started, and returns the rest.
    """
    if which.at:
        with which.asked() as node:
            node.drain()
    else:
        frontier = which.frontier
        assert frontier is not None, "it is named by `name`"
        processes = named(frontier.get_frontier(), which.name)
        for name in [each.node for each in processes] or [which.name]:
            frontier.drain_node(name)
    output.result(
        {"node": str(which), "draining": True},
        f"{which}: drains, and ends once its fetches have ended",
        as_json=as_json,
    )


def _row(node: Node, answer: GetFrontierResponse) -> Sequence[str]:
    has_pool = node.HasField("pool")
    there = node.presence == PRESENT  # otherwise the toe threads are those of its last heartbeat
    toes = _alive(node.pool) if has_pool else str(toe_count(node))
    return (
        node.node,
        presence_text(node, answer),
        str(node.leased_count),
        toes if there else "-",
        str(node.pool_size) if node.HasField("pool_size") else "-",
        _lost(node.pool) if has_pool else "-",
        output.moment(node.last_seen_time) or "-",
        node.service_address or "-",
        (_steps(node.toe_steps) if there else "") or "-",
    )


def _facts(pool: GetPoolResponse) -> Iterator[tuple[str, str]]:
    statistics = pool.pool
    yield "node", pool.node
    yield "frontier", pool.frontier_address
    yield "state", "drains, and then ends" if pool.draining else "fetches"
    yield "toes", f"{count_text(statistics.alive_count)} of {count_text(statistics.size)}"
    for step in pool.toe_steps:
        yield f"  {step.step}", count_text(step.count)
    yield "died", count_text(statistics.died_count)
    yield "killed", count_text(statistics.killed_count)
    yield "left behind", count_text(statistics.abandoned_count)
    yield "unreported", counted(sum(each.unreported_count for each in pool.workers), "finished page")


def _worker_row(worker: Worker) -> Sequence[str]:
    return (
        str(worker.worker),
        str(worker.process_id),
        output.moment(worker.start_time) or "-",
        "-" if worker.silent else _alive(worker.pool),
        "-" if worker.silent else _lost(worker.pool),
        "-" if worker.silent else str(worker.unreported_count),
        str(worker.restart_count),
        "silent" if worker.silent else "answers",
    )


def _alive(pool: PoolStatistics) -> str:
    return f"{pool.alive_count}/{pool.size}"


def _lost(pool: PoolStatistics) -> str:
    return f"{pool.died_count}/{pool.killed_count}/{pool.abandoned_count}"


def _steps(steps: Sequence[ToeStepCount]) -> str:
    return ", ".join(f"{step}: {count}" for step, count in sorted((s.step, s.count) for s in steps) if count)


def _longest_first(toe: Toe) -> tuple[bool, float]:
    """Those without a URI come last, by how long they have waited."""
    return not toe.uri, -seconds_of(toe.uri_duration if toe.uri else toe.step_duration)


def _toe_row(toe: Toe) -> Sequence[str]:
    return (
        str(toe.worker),
        str(toe.serial),
        _step(toe),
        duration_text(seconds_of(toe.step_duration)),
        duration_text(seconds_of(toe.uri_duration)) if toe.uri else "-",
        toe.uri or "-",
    )


def _step(toe: Toe) -> str:
    """Its step, and whether it was left behind, killed or retired."""
    if toe.abandoned:
        return f"{toe.step}, left behind"
    if toe.killed:
        return f"{toe.step}, killed"
    return f"{toe.step}, retired" if toe.retired else toe.step


def _tell_stack(toe: Toe) -> None:
    at = f", for {duration_text(seconds_of(toe.uri_duration))} at {toe.uri}" if toe.uri else ""
    output.line(
        f"toe {toe.serial} of process {toe.worker}: {_step(toe)} for "
        f"{duration_text(seconds_of(toe.step_duration))}{at}"
    )
    for line in toe.stack.splitlines():
        output.line(f"  {line}")
