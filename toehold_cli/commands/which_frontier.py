"""The frontier and the crawl that a command names."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from toehold_cli import frontier_file
from toehold_cli.embedded.directory_frontier import frontier_in
from toehold_client.client import FrontierClient
from toehold_client.errors import InvalidArgument, UnknownCrawl

from .given_credentials import given_credentials

CALL_TIMEOUT_S = 10.0
_MOST_NAMED = 10
_NAMES = {
    ParameterSource.COMMANDLINE: "--frontier and --dir",
    ParameterSource.ENVIRONMENT: "The variables TOEHOLD_FRONTIER and TOEHOLD_DIR",
    ParameterSource.DEFAULT_MAP: "frontier and dir in the settings file",
}


def find_frontier(frontier: str, directory: Path | None) -> tuple[str, str]:
    """A running frontier's address, and the crawl if `directory` names it."""
    if directory is None:
        return frontier, ""
    found = frontier_file.find(directory)
    return found.address, found.crawl


@contextmanager
def reached(frontier: str, directory: Path | None) -> Iterator[tuple[FrontierClient, str]]:
    """A client of the frontier, and the crawl if `directory` names it, inside the context.

    If no frontier runs in `directory`, it is one that only answers questions.
    """
    if directory is None:
        with FrontierClient(frontier, timeout_s=CALL_TIMEOUT_S, credentials=given_credentials()) as client:
            yield client, ""
        return
    with (
        frontier_in(directory) as found,
        FrontierClient(found.address, timeout_s=CALL_TIMEOUT_S) as client,
    ):
        yield client, found.crawl


def chosen(context: click.Context, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a command, with one frontier. If --frontier and --dir both name one, that of the command
    line counts, then that of a variable, then that of the settings file. The directory of a crawl also names
    the crawl, unless --crawl was given in the same way. UsageError if both frontiers were given in one way.
    """
    own = dict(given)
    if own.get("directory") is None:
        return own
    frontier, directory, crawl = (
        context.get_parameter_source(name) or ParameterSource.DEFAULT
        for name in ("frontier", "directory", "name")
    )
    if frontier is directory:
        names = _NAMES.get(frontier, _NAMES[ParameterSource.COMMANDLINE])
        raise click.UsageError(f"{names} both name a frontier. Give only one of them.")
    if frontier < directory:
        own["directory"] = None
    elif "name" in own and crawl > directory:
        own["name"] = None
    return own


def only_crawl(client: FrontierClient) -> str:
    """The name of the frontier's crawl, if it has one crawl. UnknownCrawl, InvalidArgument."""
    names = [crawl.crawl for crawl, _ in zip(client.list_crawls(), range(_MOST_NAMED + 1), strict=False)]
    if not names:
        raise UnknownCrawl(f"the frontier at {client.address} has no crawl")
    if len(names) > 1:
        named = ", ".join(names[:_MOST_NAMED]) + (", …" if len(names) > _MOST_NAMED else "")
        raise InvalidArgument(
            f"the frontier at {client.address} has several crawls; choose one with --crawl ({named})"
        )
    return names[0]
