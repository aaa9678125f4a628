"""The frontier and the crawl that a command names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from click.core import ParameterSource

from toehold_client.cli import frontier_file
from toehold_client.cli.embedded.asking import frontier_in
from toehold_client.client import FrontierClient
from toehold_client.errors import InvalidArgument, UnknownCrawl

from .given_credentials import given_credentials

CALL_TIMEOUT_S = 10.0
_MOST_NAMED = 10


def find_frontier(frontier: str, directory: Path | None) -> tuple[str, str]:
    """A running frontier's address, and the crawl if `directory` names it. UsageError if both were given."""
    check_only_one(directory)
    if directory is None:
        return frontier, ""
    found = frontier_file.find(directory)
    return found.address, found.crawl


@contextmanager
def reached(frontier: str, directory: Path | None) -> Iterator[tuple[FrontierClient, str]]:
    """A client of the frontier, and the crawl if `directory` names it, inside the context.

    If no frontier runs in `directory`, it is one that only answers questions. UsageError if both were given.
    """
    check_only_one(directory)
    if directory is None:
        with FrontierClient(frontier, timeout_s=CALL_TIMEOUT_S, credentials=given_credentials()) as client:
            yield client, ""
        return
    with (
        frontier_in(directory) as found,
        FrontierClient(found.address, timeout_s=CALL_TIMEOUT_S) as client,
    ):
        yield client, found.crawl


def check_only_one(directory: Path | None) -> None:
    """UsageError if both --frontier and --dir were given."""
    source = click.get_current_context().get_parameter_source("frontier")
    if directory is not None and source is ParameterSource.COMMANDLINE:
        raise click.UsageError("--frontier and --dir both name a frontier. Give only one of them.")


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
