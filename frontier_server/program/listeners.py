"""Where the server listens: its address, and the socket of the console beside it."""

import socket

import grpc

from toehold_base.access.server_tls import ServerTls
from toehold_base.serving.addresses import Address, taken

from ..config import Config
from .console import Console


class CannotListen(Exception):
    """An address is taken, or not this machine's; or there is no place for the console's socket."""


def listen(server: grpc.aio.Server, config: Config, tls: ServerTls | None) -> tuple[Address, Console | None]:
    """Listen. The address with its port, and the console if one is wanted. Raises CannotListen."""
    if config.listen.is_socket:
        _listen_by_socket(server, config.listen)
        return config.listen, None
    for address in filter(None, (config.console, config.listen)):
        _check_free(address)  # first: gRPC's own error comes with lines for its developers
    console = None if config.console is None else _console(server, config)
    try:
        port = (
            server.add_insecure_port(str(config.listen))
            if tls is None
            else server.add_secure_port(str(config.listen), tls.credentials())
        )
    except RuntimeError as problem:
        raise CannotListen(taken(config.listen)) from problem
    return config.listen._replace(port=port), console


def _listen_by_socket(server: grpc.aio.Server, place: Address) -> None:
    try:
        server.add_insecure_port(str(place))
    except RuntimeError as problem:
        raise CannotListen(f"cannot listen on {place}: the folder must be writable") from problem


def _console(server: grpc.aio.Server, config: Config) -> Console:
    try:
        console = Console(config)
    except OSError as problem:
        raise CannotListen(
            f"the console needs a folder for its socket: {problem.filename}: {problem.strerror}"
        ) from problem
    try:
        server.add_insecure_port(console.socket)
    except RuntimeError as problem:
        console.clear()
        raise CannotListen(
            f"cannot listen for the console on {console.socket}: the folder must be writable, and the path "
            "shorter than 108 bytes (TMPDIR counts where that of the data directory is longer)"
        ) from problem
    return console


def _check_free(place: Address) -> None:
    """Raise CannotListen if the address cannot be listened on."""
    try:
        for family, kind, number, _, address in socket.getaddrinfo(
            *place, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            with socket.socket(family, kind, number) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
    except OSError as problem:
        raise CannotListen(taken(place)) from problem
