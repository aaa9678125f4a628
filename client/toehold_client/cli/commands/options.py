"""Options that several commands have: which frontier, which crawl, how to print."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from google.protobuf.message import Message

from toehold_client.cli import frontier_file, output
from toehold_client.cli.embedded.asking import frontier_in
from toehold_client.client import FrontierClient
from toehold_client.controller import CrawlController
from toehold_client.errors import InvalidArgument, InvalidSpec, ToeholdError, UnknownCrawl
from toehold_client.rpc.channel import DEFAULT_ADDRESS
from toehold_client.spec import file as spec_file
from toehold_client.spec.plain import to_plain

CALL_TIMEOUT_S = 10.0
TABLE_ROWS = 100
_MOST_NAMED = 10
_COMPLETION_TIMEOUT_S = 0.5
_MOST_COMPLETED = 100

_M = TypeVar("_M", bound=Message)
_T = TypeVar("_T")


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

wait_option = click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0, max=31_536_000),
    metavar="SECONDS",
    help="Wait up to this long until it is done.",
)


def stream_options(noun: str) -> Callable[[Callable[..., _T]], Callable[..., _T]]:
    """Gives a command that reads a stream of these --follow and --from."""
    follow = click.option("--follow", is_flag=True, help="Go on until the crawl has finished.")
    begin = click.option(
        "--from",
        "cursor",
        metavar="CURSOR",
        default="start",
        show_default=True,
        callback=lambda context, parameter, value: "" if value == "now" else value,
        help=f"Begin after the {noun} with this cursor, or at the `start` of all that are kept, or `now`.",
    )
    return lambda command: follow(begin(command))


class Listing(click.Group):
    """Commands about one kind of thing; `list` is the default: `toehold queues --state ready`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        completing = ctx.resilient_parsing and not args  # a shell that asks which commands there are
        if not completing and (not args or (args[0][:1] == "-" and args[0] not in ctx.help_option_names)):
            args = ["list", *args]
        return super().parse_args(ctx, args)


limit_option = click.option(
    "--limit",
    type=click.IntRange(min=1),
    help=f"Show at most this many.  [default: {TABLE_ROWS} in a table, all as JSON]",
)


def tell(
    items: Iterable[_M],
    columns: Sequence[str],
    row: Callable[[_M], Sequence[str]],
    *,
    limit: int | None,
    as_json: bool,
) -> None:
    """Prints a listing: one object per line for programs, a table for people."""
    if as_json:
        for item in itertools.islice(items, limit):
            output.record(to_plain(item))
        return
    shown = limit or TABLE_ROWS
    listed = list(itertools.islice(items, shown + 1))
    output.table(columns, map(row, listed[:shown]))
    if len(listed) > shown:
        output.note(f"There are more than {shown}. Use --limit to see more.")


def with_frontier(command: Callable[..., _T]) -> Callable[..., _T]:
    """Gives a command --frontier and --dir, and calls it with a client of that frontier."""

    @frontier_options
    @functools.wraps(command)
    def run(*, frontier: str, directory: Path | None, **others: Any) -> _T:
        with (
            reached(frontier, directory) as (address, _),
            FrontierClient(address, timeout_s=CALL_TIMEOUT_S) as client,
        ):
            return command(client, **others)

    return run


def with_crawl(command: Callable[..., _T]) -> Callable[..., _T]:
    """Gives a command --frontier, --dir and --crawl, and calls it with the controller of that crawl."""

    @frontier_options
    @_crawl_option("The crawl. Optional if the frontier has only one.")
    @functools.wraps(command)
    def run(*, frontier: str, directory: Path | None, name: str | None, **others: Any) -> _T:
        with (
            reached(frontier, directory) as (address, only),
            FrontierClient(address, timeout_s=CALL_TIMEOUT_S) as client,
        ):
            return command(CrawlController(client, name or only or _only_crawl(client)), **others)

    return run


def with_spec(*, required: bool) -> Callable[[Callable[..., _T]], Callable[..., _T]]:
    """Gives a command SPEC and the options of `with_crawl`. --crawl names the crawl, or else the file does.
    The command is called with the controller and the file's content, or None without a file.
    """

    def decorate(command: Callable[..., _T]) -> Callable[..., _T]:
        @click.argument("spec", type=click.Path(path_type=Path), required=required)
        @frontier_options
        @_crawl_option("The crawl. Optional if SPEC names it, or if the frontier has only one.")
        @functools.wraps(command)
        def run(
            *,
            spec: Path | None,
            frontier: str,
            directory: Path | None,
            name: str | None,
            **others: Any,
        ) -> _T:
            asked = None if spec is None else spec_file.load(spec)
            if asked is not None:
                name = name or asked.name
                if not name:
                    raise InvalidSpec(f"{spec} has no name for the crawl; add one there, or use --crawl")
            with (
                reached(frontier, directory) as (address, only),
                FrontierClient(address, timeout_s=CALL_TIMEOUT_S) as client,
            ):
                crawl = CrawlController(client, name or only or _only_crawl(client))
                return command(crawl, asked, **others)

        return run

    return decorate


def frontier_options(command: Callable[..., _T]) -> Callable[..., _T]:
    """Gives a command --frontier and --dir; `reached` and `find_frontier` know what they mean."""
    frontier = click.option(
        "--frontier",
        metavar="HOST:PORT",
        default=DEFAULT_ADDRESS,
        envvar="TOEHOLD_FRONTIER",
        show_default=True,
        show_envvar=True,
        help="The address of the frontier.",
    )
    directory = click.option(
        "--dir",
        "directory",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Use the frontier and the crawl of a `toehold crawl` in DIR. While it is not running, you can "
        "ask about it, but not change it.",
    )
    return frontier(directory(command))


def _crawl_option(told: str) -> Callable[[Callable[..., _T]], Callable[..., _T]]:
    return click.option("--crawl", "name", metavar="NAME", shell_complete=_crawl_names, help=told)


def _crawl_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """For the shell: the crawls whose names begin like this; none if the frontier does not answer soon."""
    try:
        with context.scope(cleanup=False):
            address, _ = find_frontier(context.params["frontier"], context.params.get("directory"))
        with FrontierClient(address, timeout_s=_COMPLETION_TIMEOUT_S) as client:
            names = (crawl.crawl for crawl in client.list_crawls())
            fitting = (name for name in names if name.startswith(incomplete))
            return list(itertools.islice(fitting, _MOST_COMPLETED))
    except (ToeholdError, click.UsageError):
        return []


def find_frontier(frontier: str, directory: Path | None) -> tuple[str, str]:
    """A running frontier's address, and the crawl if `directory` names it. UsageError if both were given."""
    _check_only_one(directory)
    if directory is None:
        return frontier, ""
    found = frontier_file.find(directory)
    return found.address, found.crawl


@contextmanager
def reached(frontier: str, directory: Path | None) -> Iterator[tuple[str, str]]:
    """The frontier's address, and the crawl if `directory` names it, inside the context.

    If no frontier runs in `directory`, it is one that only answers questions. UsageError if both were given.
    """
    _check_only_one(directory)
    if directory is None:
        yield frontier, ""
        return
    with frontier_in(directory) as found:
        yield found.address, found.crawl


def _check_only_one(directory: Path | None) -> None:
    source = click.get_current_context().get_parameter_source("frontier")
    if directory is not None and source is ParameterSource.COMMANDLINE:
        raise click.UsageError("--frontier and --dir both name a frontier. Give only one of them.")


def _only_crawl(client: FrontierClient) -> str:
    names = [crawl.crawl for crawl, _ in zip(client.list_crawls(), range(_MOST_NAMED + 1), strict=False)]
    if not names:
        raise UnknownCrawl(f"the frontier at {client.address} has no crawl")
    if len(names) > 1:
        named = ", ".join(names[:_MOST_NAMED]) + (", …" if len(names) > _MOST_NAMED else "")
        raise InvalidArgument(
            f"the frontier at {client.address} has several crawls; choose one with --crawl ({named})"
        )
    return names[0]
