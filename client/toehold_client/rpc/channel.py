"""How the client connects: the address, gRPC's settings for a frontier, and who it says is calling."""

from __future__ import annotations

import getpass
import os
import re
import socket

from toehold_client.errors import FRONTIER, InvalidArgument

from .batches import MAX_MESSAGE_BYTES

DEFAULT_ADDRESS = "127.0.0.1:7707"

# Beside the 8 MiB that the contract allows: what gRPC wraps around a message, and answers that echo what was
# asked.
_SLACK_BYTES = 1024 * 1024

# Each problem of a spec is told in the trailing metadata, for which gRPC's own limit is 8 KiB.
_MAX_METADATA_BYTES = 256 * 1024

CHANNEL_OPTIONS: list[tuple[str, int | str]] = [
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES + _SLACK_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES + _SLACK_BYTES),
    ("grpc.absolute_max_metadata_size", _MAX_METADATA_BYTES),
    # A peer that is gone without a word is noticed while a call waits.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # A connection attempt ends after five seconds (gRPC: 20), and the next begins soon, so that a restart is
    # noticed.
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # The frontier is named by its own address; a proxy for the web is not meant.
    ("grpc.enable_http_proxy", 0),
]

_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9_.-]+):(?P<port>[0-9]{1,5})")


def checked_address(address: str, server: str = FRONTIER) -> str:
    """The address of a server as given; InvalidArgument unless it is HOST:PORT (`[::1]:7707` for IPv6)."""
    match = _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match["port"]) < 65536:
        raise InvalidArgument(
            f"{address!r:.200} is not the address of a {server}: HOST:PORT, such as {DEFAULT_ADDRESS}"
        )
    return address


_OPERATOR_KEY = "toehold-operator"
_MAX_OPERATOR_CHARS = 128
# gRPC takes printable ASCII, and cuts blanks off its ends.
_OPERATOR = re.compile(r"[!-~](?:[ -~]*[!-~])?")


def operator_metadata(operator: str) -> tuple[tuple[str, str], ...]:
    """The metadata of a call that says who makes it; empty: `user@host`, as this machine knows them.

    InvalidArgument unless it is at most 128 printable ASCII characters, without blanks at its ends.
    """
    if not operator:
        operator = _this_user()
    elif _OPERATOR.fullmatch(operator) is None or len(operator) > _MAX_OPERATOR_CHARS:
        raise InvalidArgument(
            f"{operator!r:.200} cannot be an operator's name: at most {_MAX_OPERATOR_CHARS} printable ASCII "
            "characters, without blanks at its ends"
        )
    return ((_OPERATOR_KEY, operator),)


def _this_user() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in many containers
        user = str(os.getuid())
    name = f"{user}@{socket.gethostname()}"[:_MAX_OPERATOR_CHARS]
    return "".join(char if "!" <= char <= "~" else "?" for char in name)
