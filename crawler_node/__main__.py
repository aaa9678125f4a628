"""The program `toehold-node`: a crawler node, from its command line to its exit code."""

import logging
import os
import signal
import socket
import sys
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import click
import structlog

from .addresses import Resolver, parse_resolve
from .archive import Archive
from .chain import Stages
from .extract import outlinks
from .frontier import Contact, Frontier
from .http_fetch import HttpFetcher
from .node import ExitCode, Node
from .rolling import OutputError
from .sitemap import sitemaps_of_robots
from .warc import WarcWriter

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

_T = TypeVar("_T")

EXIT_WARC_UNUSABLE = 4

MAX_TOES = 1000
MAX_NAME_CHARS = 128

_LOG_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--frontier",
    "address",
    metavar="HOST:PORT",
    default="127.0.0.1:7707",
    show_default=True,
    help="The frontier to fetch for. It may come and go while the node runs.",
)
@click.option(
    "--toes",
    type=click.IntRange(1, MAX_TOES),
    default=25,
    show_default=True,
    help="How many pages to fetch at a time.",
)
@click.option(
    "--warc",
    "directory",
    type=click.Path(path_type=Path),
    required=True,
    help="Where WARC files go; made if it is not there.",
)
@click.option(
    "--name",
    help="This node's name, for one process at a time: one that comes later takes over. "
    "[default: host name and process id]",
)
@click.option("--crawl", default="", help="The only crawl to fetch for. [default: any]")
@click.option(
    "--resolve",
    "resolves",
    metavar="HOST:PORT:ADDR",
    multiple=True,
    help="An address that stands in for a host's own. May be repeated.",
)
@click.option(
    "--ca-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Certificates (PEM) to trust beside the system's.",
)
@click.option(
    "--until-stdin-ends", is_flag=True, help="End soon after standard input does, as when a parent dies."
)
@click.option(
    "--log-level",
    type=click.Choice(list(_LOG_LEVELS)),
    default="info",
    show_default=True,
    help="The least that is logged, as JSON lines on standard error.",
)
@click.version_option(package_name="toehold-crawler")
def main(
    address: str,
    toes: int,
    directory: Path,
    name: str | None,
    crawl: str,
    resolves: tuple[str, ...],
    ca_file: Path | None,
    until_stdin_ends: bool,
    log_level: str,
) -> None:
    """Fetches pages for a Toehold frontier, until it gets SIGTERM or SIGINT.

    Then it ends what it is fetching, hands back what it has not started, and reports everything. A second
    signal interrupts what it is fetching, too. Nothing is lost when it is killed.

    \b
    Exit codes:
      0  everything is reported
      1  the frontier could not be reached for 30 seconds at the end, so that pages are unreported;
         or the node failed
      2  an argument makes no sense
      3  another process has taken over this node's name
      4  the WARC directory cannot be used
    """
    # First: threads inherit it, those of gRPC too.
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    _log_json_lines(_LOG_LEVELS[log_level])
    name = _checked_name(name)
    session = uuid.uuid4().hex
    contact = Contact()
    table = _usable("--resolve", lambda: dict(map(parse_resolve, resolves)))
    fetcher = _usable("--ca-file", lambda: HttpFetcher(Resolver(table), ca_file=ca_file))
    frontier, feeding = (
        _usable("--frontier", lambda: Frontier.connect(address, contact, name, session)) for _ in range(2)
    )
    try:
        archive = Archive(WarcWriter(directory, name), directory)
    except OutputError as error:
        click.echo(f"toehold-node: {error}", err=True)
        sys.exit(EXIT_WARC_UNUSABLE)
    node = Node(
        frontier=frontier,
        feeding=feeding,
        contact=contact,
        stages=Stages(fetcher, outlinks, sitemaps_of_robots, archive),
        archive=archive,
        crawl=crawl,
        toes=toes,
    )
    try:
        node.start()
    except RuntimeError as error:  # the system has no more threads
        click.echo(f"toehold-node: {toes} toe threads cannot be started: {error}", err=True)
        sys.exit(ExitCode.UNREPORTED)
    _start_thread("signals", lambda: _watch_signals(node.drain))
    if until_stdin_ends:
        _start_thread("stdin", lambda: _watch_stdin(node.orphaned))
    with suppress(OSError):  # nobody reads it
        click.echo(f"toehold-node {name} fetching for {address} with {toes} toes")
    exit_code = node.wait()
    fetcher.close()
    sys.exit(exit_code)


def _checked_name(name: str | None) -> str:
    if name is None:
        # A host's name may be longer than the contract allows a node's.
        name = f"{socket.gethostname()[: MAX_NAME_CHARS - 20]}-{os.getpid()}"
    if not 1 <= len(name) <= MAX_NAME_CHARS or not name.isprintable():
        raise click.BadParameter(
            f"{name[:200]!r} has {len(name)} characters; 1 to {MAX_NAME_CHARS} printable ones make a name",
            param_hint="--name",
        )
    return name


def _usable(option: str, make: Callable[[], _T]) -> _T:
    try:
        return make()
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from error


def _watch_signals(at_each: Callable[[], None]) -> None:
    # Not by handlers: Python runs them in the main thread, which would sleep on when the system gave the
    # signal to another thread, or just before the main thread began to wait.
    while True:
        signal.sigwait(_SIGNALS)
        at_each()


def _watch_stdin(at_end: Callable[[], None]) -> None:
    try:
        while os.read(0, 65536):
            pass
    except OSError:  # there is none
        pass
    at_end()


def _start_thread(name: str, run: Callable[[], None]) -> None:
    threading.Thread(target=run, name=name, daemon=True).start()


def _log_json_lines(level: int) -> None:
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


if __name__ == "__main__":
    main()
