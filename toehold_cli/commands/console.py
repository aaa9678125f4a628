"""`toehold console`: a page in the browser for the crawls of a frontier."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import click
from click.core import ParameterSource

from toehold_base.observability.log_choices import FORMATS, LEVELS
from toehold_base.options.checks import read_by
from toehold_base.process.extras import packages_of
from toehold_base.serving.addresses import Address, parsed_address
from toehold_cli.embedded.directory_frontier import frontier_in, has_moved
from toehold_cli.frontier_file import EmbeddedFrontier
from toehold_client.credentials import Credentials
from toehold_client.errors import FrontierUnavailable

from .given_credentials import given_credentials
from .options import frontier_options

_File = click.Path(path_type=Path, dir_okay=False)
_DEFAULT_LISTEN = "127.0.0.1:7780"


@click.command()
@frontier_options
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default=_DEFAULT_LISTEN,
    show_default=True,
    callback=read_by(partial(parsed_address, example=_DEFAULT_LISTEN)),
    help="Serve the page here; port 0 takes a free one.",
)
@click.option(
    "--https-cert", metavar="FILE", type=_File, help="The console's certificate (PEM): serve HTTPS."
)
@click.option("--https-key", metavar="FILE", type=_File, help="The key of that certificate (PEM).")
@click.option(
    "--host-name",
    "host_names",
    metavar="NAME",
    multiple=True,
    help="A name under which browsers reach the console without its HTTPS, such as that of a proxy. May be "
    "repeated. Addresses, localhost and the machine's name always count.",
)
@click.option(
    "--data",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="The frontier's data directory, if it is on this machine: offer the logs in it.",
)
@click.option(
    "--session-key",
    metavar="FILE",
    type=_File,
    help="Keep the key that seals sessions' cookies in FILE (created if missing), so that logins outlive a "
    "restart.",
)
@click.option(
    "--insecure",
    is_flag=True,
    help="Allow --listen beyond loopback without HTTPS, and without logins if the frontier has no callers.",
)
@click.option(
    "--until-stdin-ends", is_flag=True, help="Stop when standard input ends (for a parent process)."
)
@click.option("--log-format", type=click.Choice(FORMATS), default="auto", help="The form of the log.")
@click.option("--log-level", type=click.Choice(LEVELS), default="info", help="The lowest level to log.")
def console(
    frontier: str,
    directory: Path | None,
    listen: Address,
    https_cert: Path | None,
    https_key: Path | None,
    host_names: tuple[str, ...],
    data: Path | None,
    session_key: Path | None,
    insecure: bool,
    until_stdin_ends: bool,
    log_format: str,
    log_level: str,
) -> None:
    """Serve a page for the browser that shows and steers crawls.

    It also offers the contract as JSON over HTTP, at /v1/. The console acts in the name of whoever uses it:
    if the frontier knows its callers, users log in with their tokens. It stops at Ctrl-C or SIGTERM.

    With --dir it also offers the crawl's WARC files, logs and report. While the crawl in DIR is not running,
    the console only answers questions; when it goes on, or ends, pages go on by themselves.
    """
    with packages_of("console", "toehold console"):
        from toehold_base.access.privacy import warn_if_open
        from toehold_base.observability import logs
        from toehold_console.program import Place, serve, serve_places
        from toehold_console.settings import Settings
    logs.configure(log_format, log_level)
    credentials = _credentials()
    warn_if_open(credentials.tls_key, credentials.token_file, https_key)
    settings = Settings(
        frontier=frontier,
        listen=listen,
        credentials=credentials,
        https_cert=https_cert,
        https_key=https_key,
        host_names=host_names,
        insecure=insecure,
        data=data,
        directory=directory,
        session_key=session_key,
    )
    if directory is None:
        serve(settings, until_stdin_ends=until_stdin_ends)
        return

    @contextmanager
    def place() -> Iterator[Place]:
        """The directory's frontier now: that of the crawl, or one that only answers questions."""
        with _present_frontier(directory) as found:
            yield Place(
                replace(settings, frontier=found.address), partial(has_moved, directory, found.address)
            )

    serve_places(place, settings, until_stdin_ends=until_stdin_ends)


@contextmanager
def _present_frontier(directory: Path) -> Iterator[EmbeddedFrontier]:
    """The frontier of a directory, however long it takes to start or end."""
    with ExitStack() as stack:
        while True:
            try:
                found = stack.enter_context(frontier_in(directory))
            except FrontierUnavailable:
                continue  # it has waited for some seconds
            yield found
            return


def _credentials() -> Credentials:
    """How the frontier is reached. A token that a variable or the settings file has for all commands is the
    operator's own, and not for whoever opens the page.
    """
    given = given_credentials()
    source = click.get_current_context().get_parameter_source("token_file")
    return given if source is ParameterSource.COMMANDLINE else replace(given, token_file=None)
