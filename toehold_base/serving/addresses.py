"""Addresses of servers, as people write them: HOST:PORT, or [V6]:PORT; for clients also unix:PATH."""

import re
from ipaddress import ip_address
from typing import NamedTuple

SOCKET = "unix:"

_PORT = re.compile(r"[0-9]{1,5}")


class Address(NamedTuple):
    """Where a server listens, or is reached."""

    host: str
    """A name or an address, without brackets; or `unix:PATH`, a socket in the file system."""
    port: int
    """0 for a socket in the file system."""

    def __str__(self) -> str:
        if self.is_socket:
            return self.host
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_socket(self) -> bool:
        """Whether it is a socket in the file system."""
        return self.host.startswith(SOCKET)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it, for sure."""
        return self.is_socket or is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, for sure."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a name may lead anywhere
        return False


def taken(address: Address) -> str:
    """Why nobody can listen at an address; gRPC and the system say it in their own words."""
    return f"cannot listen on {address}: the port is taken, or the address is not this machine's"


def parsed_address(text: str, example: str) -> Address:
    """The address in a text. Raises ValueError, which names an `example`."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (colon and host and _PORT.fullmatch(port)) or int(port) > 65535:
        raise ValueError(f"must be HOST:PORT, such as {example}, got {text!r:.200}")
    return Address(host, int(port))
