"""The node that a command names: by its name in a frontier, or by its address."""

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from toehold.frontier.v1.admin_pb2 import GetFrontierResponse, Node
from toehold_cli import output
from toehold_client.client import FrontierClient
from toehold_client.errors import NodeUnavailable, UnknownNode
from toehold_client.node_client import NodeClient
from toehold_client.watching.presence import is_gone, team_of

from .given_credentials import given_credentials
from .options import frontier_options
from .suggestions import node_names
from .which_frontier import CALL_TIMEOUT_S, reached

_MOST_NAMED = 10

_T = TypeVar("_T")

at_option = click.option(
    "--at", metavar="HOST:PORT", help="Ask the node at this address, without a frontier."
)


@dataclass(frozen=True, slots=True)
class WhichNode:
    """A node as a command names it."""

    name: str
    """As its frontier lists it; of several processes NAME/1, NAME/2 … NAME alone, too. Empty if it is named
    by `at`."""
    frontier: FrontierClient | None
    """Its frontier; None if it is named by `at`."""
    at: str
    """The node's own address; empty if it is named by `name`."""

    def __str__(self) -> str:
        return self.name or self.at

    @contextmanager
    def asked(self) -> Iterator[NodeClient]:
        """A client of its NodeService.

        UnknownNode if the frontier does not have it; NodeUnavailable if it does not answer, or another one
        does.
        """
        if self.at:
            with NodeClient(self.at, timeout_s=CALL_TIMEOUT_S, credentials=given_credentials()) as client:
                yield client
            return
        assert self.frontier is not None, "it is named by `name`"
        node = self._listed(self.frontier)
        given = self.frontier.credentials
        if given is not None and (given.token or given.token_file) and given.tls_ca is None:
            raise NodeUnavailable(
                f"{node.node!r} announces {node.service_address}, and without TLS whoever listens there "
                "could read your token; give the node's address with --at if you know it, or use --tls-ca"
            )
        with NodeClient(
            node.service_address, timeout_s=CALL_TIMEOUT_S, credentials=self.frontier.credentials
        ) as client:
            self._check(client, node)
            yield client

    def _listed(self, frontier: FrontierClient) -> Node:
        answer = frontier.get_frontier()
        found = named(answer, self.name)
        if not found:
            names = [node.node for node in answer.nodes[:_MOST_NAMED]]
            more = ", …" if len(answer.nodes) > _MOST_NAMED else ""
            known = f"it has {', '.join(names)}{more}" if names else "it knows none"
            raise UnknownNode(f"the frontier at {frontier.address} has no node {self.name!r}; {known}")
        for node in found:
            if node.service_address:
                return node
        raise NodeUnavailable(
            f"the frontier at {frontier.address} has no address for {self.name!r}; give its address with --at"
        )

    def _check(self, client: NodeClient, node: Node) -> None:
        """Makes sure that the right node answers: a loopback address means another node on each machine."""
        try:
            answering = client.get_pool().node
        except NodeUnavailable as error:
            seen = output.moment(node.last_seen_time)
            raise NodeUnavailable(f"{error}; {node.node!r} was last seen at {seen}") from error
        if answering not in (node.node, team_of(node.node)):
            raise NodeUnavailable(
                f"{answering!r} answers at {node.service_address}, not {node.node!r}; if {node.node!r} runs "
                "on another machine, give its address with --at"
            )


def with_which_node(command: Callable[..., _T]) -> Callable[..., _T]:
    """Gives a command NODE, --at, --frontier and --dir, and calls it with the node that they name."""

    # Any number of arguments, so that a required one may follow an optional one.
    @click.argument("names", metavar="[NODE]", nargs=-1, shell_complete=node_names)
    @at_option
    @frontier_options
    @functools.wraps(command)
    def run(
        *, names: Sequence[str], at: str | None, frontier: str, directory: Path | None, **others: Any
    ) -> _T:
        source = click.get_current_context().get_parameter_source
        if names and source("at") is not ParameterSource.COMMANDLINE:
            at = None
        if len(names) + (at is not None) != 1:
            raise click.UsageError("Give one NODE, or an address with --at.")
        if at is None:
            with reached(frontier, directory) as (client, _):
                return command(WhichNode(names[0], client, ""), **others)
        if ParameterSource.COMMANDLINE in (source("frontier"), source("directory")):
            raise click.UsageError("--at needs no frontier. Remove --frontier and --dir.")
        return command(WhichNode("", None, at), **others)

    return run


def named(answer: GetFrontierResponse, name: str) -> list[Node]:
    """The nodes of a frontier with this name, or the processes NAME/1, NAME/2 … of one, the last seen first.
    Leaves out those that are lost or have left, unless all are.
    """
    found = all_named(answer, name)
    return [node for node in found if not is_gone(node)] or found


def all_named(answer: GetFrontierResponse, name: str) -> list[Node]:
    """The same, with those that are lost or have left."""
    return [node for node in answer.nodes if name in (node.node, team_of(node.node))]
