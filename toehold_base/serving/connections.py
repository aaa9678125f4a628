"""The connections of a program's gRPC server: how many there are, how long they may be silent, and how many
calls each has.

Anybody who reaches the port can open connections, and each takes a descriptor. Without bounds they would take
those that the program needs for its own files. A connection beyond the most is closed at once; one that says
nothing leaves soon, so that others find room.
"""

import resource
import socket

from .addresses import Address

HANDSHAKE_S = 10.0
"""So long may take what comes before the first call: TLS, and the first frames of HTTP/2."""

IDLE_S = 60.0
"""A connection without a call is closed after this time; gRPC's clients connect again by themselves."""

MOST_CONNECTIONS = 20_000
"""However many descriptors there are: each connection takes memory, too."""

MIN_DESCRIPTORS = 256
"""A server does not start with fewer: gRPC would end the process without a message, or connections would find
none left."""

NO_LIMIT = 1 << 20
"""As many descriptors as are counted where the system sets no limit."""


def raise_descriptor_limit() -> tuple[int, str]:
    """Raise the process's limit of descriptors to the hard limit; the limit that holds now, and why it could
    not be raised, or "".
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    problem = ""
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    except (OSError, ValueError) as refused:
        problem = str(refused)
    return (NO_LIMIT if soft == resource.RLIM_INFINITY else soft), problem


def too_few_descriptors(limit: int) -> str:
    """Why a server cannot start with so many descriptors; "" if it can."""
    if limit >= MIN_DESCRIPTORS:
        return ""
    return f"the limit of open files (ulimit -n) must be at least {MIN_DESCRIPTORS}, got {limit}"


def descriptor_limit() -> int:
    """How many descriptors the process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return NO_LIMIT if soft == resource.RLIM_INFINITY else soft


def address_count(place: Address) -> int:
    """How many addresses a place stands for, as localhost does for one of IPv4 and one of IPv6. gRPC counts
    connections at each."""
    if place.is_socket:
        return 1
    try:
        found = socket.getaddrinfo(*place, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:  # who listens there says why not
        return 1
    return max(1, len({address for *_, address in found}))


def connection_options(most_connections: int, most_calls: int) -> list[tuple[str, int]]:
    """gRPC's options of a server that takes so many connections at each of its addresses, and so many calls
    at a time on each connection. A client keeps further calls until others have ended.
    """
    return [
        ("grpc.max_allowed_incoming_connections", most_connections),
        ("grpc.server_handshake_timeout_ms", int(HANDSHAKE_S * 1000)),
        ("grpc.max_connection_idle_ms", int(IDLE_S * 1000)),
        ("grpc.max_concurrent_streams", most_calls),
        # Without probes a call has received 64 KiB at most that nobody has asked for.
        ("grpc.http2.bdp_probe", 0),
    ]
