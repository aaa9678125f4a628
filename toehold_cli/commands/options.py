"""Options that several commands have: which frontier, which crawl, how to print."""

import functools
import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from google.protobuf.message import Message

from toehold_cli import output
from toehold_cli.help import Group
from toehold_cli.numbers import Real, Whole
from toehold_client.controller import CrawlController
from toehold_client.errors import InvalidSpec
from toehold_client.rpc.channel import DEFAULT_ADDRESS
from toehold_client.spec import file as spec_file
from toehold_client.spec.plain import to_plain

from .given_credentials import with_credentials
from .suggestions import crawl_names
from .which_frontier import chosen, only_crawl, reached

TABLE_ROWS = 100
MOST_SHARDS = 64  # the frontier's own limit

_M = TypeVar("_M", bound=Message)
_T = TypeVar("_T")


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

wait_option = click.option(
    "--wait",
    "wait_s",
    type=Real(min=0, max=31_536_000),
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


class Listing(Group):
    """Commands about one kind of thing; `list` is the default: `toehold queues --state ready`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        completing = ctx.resilient_parsing and not args  # a shell that asks which commands there are
        if not completing and (not args or (args[0][:1] == "-" and args[0] not in ctx.help_option_names)):
            args = ["list", *args]
        return super().parse_args(ctx, args)


limit_option = click.option(
    "--limit",
    type=Whole(min=1),
    help=f"Show at most this many.  [default: {TABLE_ROWS} in a table, all as JSON]",
)


def tell(
    items: Iterable[_M],
    columns: Sequence[str],
    row: Callable[[_M], Sequence[str]],
    *,
    limit: int | None,
    as_json: bool,
    spare: Collection[str] = (),
) -> None:
    """Prints a listing: one object per line for programs, a table for people. A narrow terminal leaves out
    the `spare` columns.
    """
    if as_json:
        for item in itertools.islice(items, limit):
            output.record(to_plain(item))
        return
    shown = limit or TABLE_ROWS
    listed = list(itertools.islice(items, shown + 1))
    output.table(columns, map(row, listed[:shown]), spare=spare)
    if len(listed) > shown:
        output.note(f"There are more than {shown}. Use --limit to see more.")


def with_frontier(command: Callable[..., _T]) -> Callable[..., _T]:
    """Gives a command --frontier and --dir, and calls it with a client of that frontier."""

    @frontier_options
    @functools.wraps(command)
    def run(*, frontier: str, directory: Path | None, **others: Any) -> _T:
        with reached(frontier, directory) as (client, _):
            return command(client, **others)

    return run


def with_crawl(command: Callable[..., _T]) -> Callable[..., _T]:
    """Gives a command --frontier, --dir and --crawl, and calls it with the controller of that crawl."""

    @frontier_options
    @_crawl_option("The crawl. Optional if the frontier has only one.")
    @functools.wraps(command)
    def run(*, frontier: str, directory: Path | None, name: str | None, **others: Any) -> _T:
        with reached(frontier, directory) as (client, only):
            return command(CrawlController(client, name or only or only_crawl(client)), **others)

    return run


def crawl_options(command: Callable[..., _T]) -> Callable[..., _T]:
    """Gives a command --frontier, --dir and --crawl, which `with_crawl` interprets."""
    return frontier_options(_crawl_option("The crawl. Optional if the frontier has only one.")(command))


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
            file = None if spec is None else spec_file.load(spec)
            if file is not None:
                source = click.get_current_context().get_parameter_source("name")
                if file.name and source is not ParameterSource.COMMANDLINE:  # SPEC is on the command line
                    name = file.name
                if not name:
                    raise InvalidSpec(f"{spec} has no name for the crawl; add one there, or use --crawl")
            with reached(frontier, directory) as (client, only):
                crawl = CrawlController(client, name or only or only_crawl(client))
                return command(crawl, file, **others)

        return run

    return decorate


def frontier_options(command: Callable[..., _T]) -> Callable[..., _T]:
    """Gives a command --frontier, --dir and credentials; `reached` and `find_frontier` interpret them. If
    both options name a frontier, the command gets the one that counts."""

    @functools.wraps(command)
    def run(**given: Any) -> _T:
        return command(**chosen(click.get_current_context(), given))

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
        envvar="TOEHOLD_DIR",
        show_envvar=True,
        help="Use the frontier and the crawl of a `toehold crawl` in DIR. While it is not running, you can "
        "ask about it, but not change it.",
    )
    return frontier(directory(with_credentials(run)))


def _crawl_option(help_text: str) -> Callable[[Callable[..., _T]], Callable[..., _T]]:
    return click.option(
        "--crawl",
        "name",
        metavar="NAME",
        envvar="TOEHOLD_CRAWL",
        show_envvar=True,
        shell_complete=crawl_names,
        help=help_text,
    )
