"""What the processes of a cluster share that only others of the cluster reach: shards, and the front."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc

from toehold_base.serving.addresses import Address

from ..config import Config
from ..shards.pipe import PipeServer
from ..shards.trust import TOKEN_KEY, Trust, token_of
from .member import REACHED

LOCATIONS = "places.json"


def locations_file(config: Config) -> Path:
    """The file in which a machine tells its processes where all members are."""
    assert config.sockets is not None, "a member is told where the sockets are"
    return config.sockets / LOCATIONS


def trust_of(config: Config, secret: bytes) -> Trust:
    """How the processes of the cluster know each other: those of one generation."""
    return Trust(
        token_of(secret + config.folder.encode()),
        config.cluster_cert,
        config.cluster_key,
        config.cluster_ca,
        config.cluster_tls_name,
    )


class TokenCheck(grpc.aio.ServerInterceptor):
    """Lets only processes of the cluster in."""

    def __init__(self, trust: Trust) -> None:
        self._trust = trust

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        for key, value in handler_call_details.invocation_metadata or ():
            if key == TOKEN_KEY and self._trust.knows(str(value).encode()):
                return handler
        return None if handler is None else _refusing(handler)


def _refusing(handler: Any) -> Any:
    """A handler of the same kind that refuses."""
    message = "only processes of the cluster may call this one; call the frontier's own address"

    async def refuse(_: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, message)

    if handler.response_streaming:
        return grpc.stream_stream_rpc_method_handler(refuse)
    return grpc.stream_unary_rpc_method_handler(refuse)


async def open_for_cluster(server: grpc.aio.Server, pipe: PipeServer, config: Config, trust: Trust) -> str:
    """Let other machines reach a process; call it before the server starts. What is said on standard output,
    but for the epoch. Raises OSError or RuntimeError."""
    address = str(Address(config.cluster_listen, 0))
    credentials = trust.server_credentials()
    port = (
        server.add_insecure_port(address)
        if credentials is None
        else server.add_secure_port(address, credentials)
    )
    return f"{REACHED}{port} {await pipe.start_for(config.cluster_listen, trust)}"
