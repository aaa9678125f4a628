"""The gateway from its flags to its exit code: flags, wiring, and serving until asked to stop."""

import asyncio
import os
import signal
import socket
import sys
from enum import IntEnum
from functools import partial
from typing import Any

import click
import structlog

from toehold_base.access.privacy import warn_if_open
from toehold_base.observability import logs
from toehold_base.observability.grpc_log import leave_out_callers_doings
from toehold_base.observability.log_choices import FORMATS, LEVELS
from toehold_base.options.checks import MAX_NAME_CHARS, node_name, read_by
from toehold_base.serving.addresses import Address, parsed_address, taken
from toehold_base.serving.connections import address_count, raise_descriptor_limit, too_few_descriptors
from toehold_base.serving.open_services import add_open_services
from toehold_client.credential_options import credential_options
from toehold_client.credentials import SYSTEM, VARIABLES, Credentials
from toehold_client.errors import InvalidArgument, SessionSuperseded, ToeholdError
from toehold_client.rpc.channel import DEFAULT_ADDRESS, checked_address

from .calls import new_server
from .frontier import PATIENCE_S, FrontierCalls
from .leases import Leases
from .service import SERVICE, URLFrontier, register

DEFAULT_LISTEN = "127.0.0.1:7071"
GRACE_S = 3.0

_log = structlog.get_logger()


class GatewayExitCode(IntEnum):
    """How the gateway ended."""

    STOPPED = 0
    FAILED = 1
    USAGE = 2
    SUPERSEDED = 3


def _name(given: str | None) -> str:
    if given is None:
        return f"urlfrontier-{socket.gethostname()[: MAX_NAME_CHARS - 40]}-{os.getpid()}"
    return node_name(given)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--frontier",
    metavar="HOST:PORT",
    default=DEFAULT_ADDRESS,
    callback=read_by(lambda address: str(checked_address(address)), InvalidArgument),
    show_default=True,
    help="The Toehold frontier that keeps the URLs. It may stop and start again while the gateway runs.",
)
@credential_options(
    {
        "tls_ca": f"Use TLS with the frontier, and trust the authorities in FILE (PEM), or '{SYSTEM}' ones.",
        "tls_cert": "The gateway's certificate (PEM), for a frontier that asks for one.",
        "tls_key": "The key of the certificate (PEM).",
        "token_file": "A file with the token that tells the frontier who the gateway is.",
    }
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default=DEFAULT_LISTEN,
    callback=read_by(partial(parsed_address, example=DEFAULT_LISTEN)),
    show_default=True,
    help="The address on which to serve URLFrontier's API; port 0 takes a free one.",
)
@click.option(
    "--insecure", is_flag=True, help="Allow --listen to take an address beyond loopback, without TLS."
)
@click.option(
    "--name",
    callback=read_by(_name),
    help="The gateway's name at the frontier. If another process starts under the same name, it takes over "
    "the URLs of this one, which ends. [default: urlfrontier, host name and process id]",
)
@click.option(
    "--log-format",
    type=click.Choice(FORMATS),
    default="auto",
    show_default=True,
    help="The form of the log on standard error: JSON lines, or text for people; auto means text on a "
    "terminal and JSON elsewhere.",
)
@click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    default="info",
    show_default=True,
    help="The lowest level to log. Clients can change it (SetLogLevel).",
)
@click.version_option(package_name="toehold-crawler")
def main(**given: Any) -> None:
    """Serves URLFrontier's API on a Toehold frontier, until it gets SIGTERM or SIGINT.

    Clients connect to it as to URLFrontier itself. It keeps no data, so you can run several gateways.
    When it stops, it answers the calls under way, and gives the URLs that clients have back to their queues.

    \b
    Exit codes:
      0  stopped as asked
      1  the gateway failed, or could not give its URLs back
         (the frontier takes them back within half a minute)
      2  an argument is wrong, or the address is taken
      3  another process has taken over this gateway's name
    """
    logs.configure(given["log_format"], given["log_level"])
    warn_if_open(given["tls_key"], given["token_file"])
    listen: Address = given["listen"]
    if not given["insecure"] and not listen.is_loopback:
        raise click.BadParameter(
            f"{listen.host} is not a loopback address, and the gateway has neither TLS nor passwords; "
            "use a loopback address such as 127.0.0.1, or --insecure on a network that you trust",
            param_hint="--listen",
        )
    leave_out_callers_doings()
    limit, _ = raise_descriptor_limit()
    lack = too_few_descriptors(limit)
    if lack:
        _say(lack)
        sys.exit(GatewayExitCode.USAGE)
    try:
        credentials = Credentials(**{name: given[name] for name in VARIABLES})
        code = asyncio.run(_serve(given["frontier"], credentials, listen, given["name"]))
    except InvalidArgument as problem:
        raise click.UsageError(str(problem)) from None
    sys.exit(code)


async def _serve(address: str, credentials: Credentials, listen: Address, name: str) -> GatewayExitCode:
    """Serves until asked to stop, or until the frontier refuses this gateway."""
    async with FrontierCalls(
        address, patience_s=PATIENCE_S, operator=name, credentials=credentials
    ) as frontier:
        leases = Leases(frontier, name)
        bound = listen
        server = new_server(address_count(listen))
        health = add_open_services(server, (SERVICE.full_name,))
        register(server, URLFrontier(frontier, leases, lambda: str(bound)))
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        try:
            bound = listen._replace(port=server.add_insecure_port(str(listen)))
        except RuntimeError as problem:
            raise click.BadParameter(taken(listen), param_hint="--listen") from problem
        await server.start()
        click.echo(f"toehold-urlfrontier serving on {bound}, frontier {address}")
        sys.stdout.flush()
        living = asyncio.create_task(leases.run())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait((living, stopping), return_when=asyncio.FIRST_COMPLETED)
        health.end()
        await server.stop(GRACE_S)
        stopping.cancel()
        return await _ended(living, leases)


async def _ended(living: asyncio.Task[str], leases: Leases) -> GatewayExitCode:
    """Gives the leases back, unless they are another process's now."""
    living.cancel()
    try:
        _log.info("stopping", reason=await living)
    except asyncio.CancelledError:
        pass
    except SessionSuperseded as problem:
        _say(str(problem))
        return GatewayExitCode.SUPERSEDED
    try:
        await leases.leave()
    except ToeholdError as problem:
        _say(f"could not give the URLs that clients have back to their queues: {problem}")
        return GatewayExitCode.FAILED
    return GatewayExitCode.STOPPED


def _say(message: str) -> None:
    click.echo(f"toehold-urlfrontier: {message}", err=True)
