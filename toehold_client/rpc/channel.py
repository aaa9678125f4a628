"""How the client connects: addresses, gRPC's settings, and the caller's name."""

import getpass
import os
import re
import socket

from toehold_base.serving.addresses import SOCKET, Address
from toehold_client.errors import FRONTIER, InvalidArgument

from .batches import MAX_MESSAGE_BYTES

DEFAULT_ADDRESS = "127.0.0.1:7707"

# Beyond the contract's 8 MiB: gRPC's own bytes, and answers that repeat a request.
_SLACK_BYTES = 1024 * 1024

# The trailing metadata lists all problems of a spec; gRPC's own limit is 8 KiB.
_MAX_METADATA_BYTES = 256 * 1024

CHANNEL_OPTIONS: list[tuple[str, int | str]] = [
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES + _SLACK_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES + _SLACK_BYTES),
    ("grpc.absolute_max_metadata_size", _MAX_METADATA_BYTES),
    # Notices a silent peer while a call waits.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # A connection attempt ends after five seconds (gRPC: 20), and the next begins soon, to notice a restart.
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Proxies are for the web, not for a frontier.
    ("grpc.enable_http_proxy", 0),
]

_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9_.-]+):(?P<port>[0-9]{1,5})")


def checked_address(text: str, server: str = FRONTIER) -> Address:
    """The address of a server. InvalidArgument unless it is HOST:PORT (`[::1]:7707` for IPv6), or unix:PATH
    for a socket of this machine."""
    if text.startswith(SOCKET) and len(text) > len(SOCKET):
        return Address(text, 0)
    match = _ADDRESS.fullmatch(text)
    if match is None or not 0 < int(match["port"]) < 65536:
        raise InvalidArgument(
            f"the address of a {server} must be HOST:PORT, such as {DEFAULT_ADDRESS}, got {text!r:.200}"
        )
    return Address(match["host"].strip("[]"), int(match["port"]))


_OPERATOR_KEY = "toehold-operator"
_MAX_OPERATOR_CHARS = 128
# gRPC takes printable ASCII, and removes blanks at its ends.
_OPERATOR = re.compile(r"[!-~](?:[ -~]*[!-~])?")


def operator_metadata(operator: str) -> tuple[tuple[str, str], ...]:
    """The metadata that names a call's operator; by default `user@host`.

    InvalidArgument unless it is at most 128 printable ASCII characters, without blanks at its ends.
    """
    if not operator:
        operator = _this_user()
    elif _OPERATOR.fullmatch(operator) is None or len(operator) > _MAX_OPERATOR_CHARS:
        raise InvalidArgument(
            f"an operator's name must have at most {_MAX_OPERATOR_CHARS} printable ASCII characters, without "
            f"blanks at its ends, got {operator!r:.200}"
        )
    return ((_OPERATOR_KEY, operator),)


def _this_user() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in many containers
        user = str(os.getuid())
    name = f"{user}@{socket.gethostname()}"[:_MAX_OPERATOR_CHARS]
    return "".join(char if "!" <= char <= "~" else "?" for char in name)
