"""`toehold health`: whether a frontier or a node serves, as its health service tells everybody."""

from contextlib import suppress
from pathlib import Path

import click
import grpc
from click.core import ParameterSource
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from toehold_base.serving.addresses import parsed_address
from toehold_cli import output
from toehold_cli.exits import ExitCode, UnknownService
from toehold_cli.numbers import Real
from toehold_client.errors import FRONTIER, NODE, InvalidArgument
from toehold_client.rpc.channel import DEFAULT_ADDRESS
from toehold_client.rpc.driver import Driver

from .given_credentials import given_credentials
from .options import MOST_SHARDS, frontier_options, json_option
from .which_frontier import find_frontier

TIMEOUT_S = 3.0
"""How long to wait for an answer."""

_METHOD = "/grpc.health.v1.Health/Check"
_SERVING = HealthCheckResponse.ServingStatus.Name(HealthCheckResponse.SERVING)
_HERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Where to reach a server on this machine that listens on all addresses."""


@click.command()
@click.option(
    "--node", metavar="HOST:PORT", help="Ask the node whose --listen has this address, instead of a frontier."
)
@click.option(
    "--service",
    default="",
    metavar="NAME",
    help="Ask about this gRPC service, such as toehold.frontier.v1.FrontierService, or about a shard, such "
    "as shard-0.  [default: the whole server]",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=Real(0.1, 3_600),
    default=TIMEOUT_S,
    show_default=True,
    metavar="SECONDS",
    help="Wait this long for an answer.",
)
@json_option
@frontier_options
def health(
    *, frontier: str, directory: Path | None, node: str | None, service: str, timeout_s: float, as_json: bool
) -> ExitCode:
    """Tell whether a frontier or a node serves.

    Everybody who can connect may ask; no role is needed. 0.0.0.0 and [::] mean this machine, so that you can
    give the address on which a server listens. A frontier of several shards serves while one of them is
    there; those that are away are named.

    \b
    Exit codes:
      0   it serves
      3   nothing answers in time
      9   it has no such service
      11  it answers, but does not serve: it ends, or cannot work at present
    """
    source = click.get_current_context().get_parameter_source
    if node is not None and ParameterSource.COMMANDLINE in (source("frontier"), source("directory")):
        if source("node") is ParameterSource.COMMANDLINE:
            raise click.UsageError("--node needs no frontier. Remove --frontier and --dir.")
        node = None
    kind = FRONTIER if node is None else NODE
    address = find_frontier(frontier, directory)[0] if node is None else node
    with _Health(_reachable(address, kind), kind, timeout_s) as client:
        status = client.status(service)
        absent = client.absent_shards() if kind == FRONTIER and not service else None
    of_service = f", {service}" if service else ""
    away = f"; away: {', '.join(f'shard {number}' for number in absent)}" if absent else ""
    of_shards = {} if absent is None else {"absent_shards": absent}
    output.result(
        {"server": kind, "address": client.address, "service": service, "status": status, **of_shards},
        f"{kind} at {client.address}{of_service}: {status.lower().replace('_', ' ')}{away}",
        as_json=as_json,
    )
    return ExitCode.DONE if status == _SERVING else ExitCode.NOT_SERVING


def _reachable(address: str, kind: str) -> str:
    try:
        given = parsed_address(address, DEFAULT_ADDRESS)
    except ValueError as problem:
        raise InvalidArgument(f"the address of a {kind} {problem}") from None
    return str(given._replace(host=_HERE.get(given.host, given.host)))


class _Health(Driver):
    """The health service of one server."""

    def __init__(self, address: str, server: str, timeout_s: float) -> None:
        self._server = server
        super().__init__(address, timeout_s=timeout_s, credentials=given_credentials())

    def absent_shards(self) -> list[int]:
        """The numbers of the shards that are away. A frontier without shards has none."""
        absent: list[int] = []
        with suppress(UnknownService):
            for number in range(MOST_SHARDS):
                if self.status(f"shard-{number}") != _SERVING:
                    absent.append(number)
        return absent

    def status(self, service: str) -> str:
        """Whether a service is served, or the whole server if its name is empty: SERVING, NOT_SERVING."""
        metadata = self._call_metadata()
        with self._used_channel() as used:
            call = used.channel.unary_unary(
                _METHOD,
                request_serializer=HealthCheckRequest.SerializeToString,
                response_deserializer=HealthCheckResponse.FromString,
            )
            try:
                answer = call(HealthCheckRequest(service=service), timeout=self._timeout_s, metadata=metadata)
            except grpc.RpcError as error:
                if error.code() is grpc.StatusCode.NOT_FOUND:
                    raise UnknownService(
                        f"the {self._server} at {self.address} has no service {service!r}"
                    ) from None
                raise self._explained(error, self._timeout_s, metadata) from error
        return HealthCheckResponse.ServingStatus.Name(answer.status)
