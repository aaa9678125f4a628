"""Names that a shell completes: crawls, queues, nodes and others, as the frontier has them now.

A shell waits for them. So the frontier has half a second to answer, and a failure means that there are none.
"""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import click

from toehold_client.client import FrontierClient
from toehold_client.credentials import Credentials
from toehold_client.errors import ToeholdError
from toehold_client.watching.presence import team_of
from toehold_client.watching.which_queues import names_of

from .given_credentials import given_credentials
from .which_frontier import chosen, find_frontier, only_crawl

_PATIENCE_S = 0.5
_MOST = 100
_MOST_READ = 1_000

Names: TypeAlias = Callable[[FrontierClient, str], Iterable[str]]
"""The names that a frontier has for a crawl; the crawl is empty if they don't depend on one."""

Complete: TypeAlias = Callable[[click.Context, click.Parameter, str], list[str]]


def _completes(names: Names, *, of_crawl: bool) -> Complete:
    """Completes an argument or option with these names."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        until_s = time.monotonic() + _PATIENCE_S
        try:
            given = chosen(context, context.params)
            with context.scope(cleanup=False):
                address, crawl = find_frontier(given["frontier"], given.get("directory"))
                credentials = None if given.get("directory") else given_credentials()
            if of_crawl and not (crawl := given.get("name") or crawl):
                with _client(address, credentials, until_s) as client:
                    crawl = only_crawl(client)
            with _client(address, credentials, until_s) as client:
                found = _in_time(names(client, crawl), until_s)
                fitting = (name for name in found if name.startswith(incomplete))
                return list(dict.fromkeys(itertools.islice(fitting, _MOST)))
        except (ToeholdError, click.UsageError):
            return []

    return complete


def _client(address: str, credentials: Credentials | None, until_s: float) -> FrontierClient:
    return FrontierClient(address, timeout_s=max(until_s - time.monotonic(), 0.01), credentials=credentials)


def _in_time(names: Iterable[str], until_s: float) -> Iterator[str]:
    for name in itertools.islice(names, _MOST_READ):
        yield name
        if time.monotonic() > until_s:
            return


def _nodes(client: FrontierClient, crawl: str) -> Iterator[str]:
    """Nodes, and those whose processes they are."""
    names = [node.node for node in client.get_frontier().nodes]
    return iter(sorted({*names, *map(team_of, names)}))


crawl_names = _completes(lambda client, crawl: (each.crawl for each in client.list_crawls()), of_crawl=False)
checkpoint_names = _completes(
    lambda client, crawl: (each.checkpoint for each in client.list_checkpoints()), of_crawl=False
)
node_names = _completes(_nodes, of_crawl=False)
queue_names = _completes(lambda client, crawl: names_of(client.list_queues(crawl)), of_crawl=True)
queue_keys = _completes(
    lambda client, crawl: (each.queue_key for each in client.list_queues(crawl)), of_crawl=True
)
job_numbers = _completes(
    lambda client, crawl: (str(each.job) for each in client.list_jobs(crawl)), of_crawl=True
)
override_prefixes = _completes(
    lambda client, crawl: (each.surt_prefix for each in client.list_overrides(crawl)), of_crawl=True
)
refusal_rules = _completes(
    lambda client, crawl: (each.rule for each in client.list_refusals(crawl)), of_crawl=True
)
