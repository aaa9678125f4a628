"""Ports of loopback that are known before somebody listens there, or that several listeners have in common.

Where nobody need know a port beforehand, whoever listens takes port 0 and tells what it was given.
"""

import contextlib
import errno
import socket
import weakref
from typing import Self

TRIES = 1_000
"""How many ports are tried before none is said to be free on all of some addresses."""


class KeptPort:
    """A port that nobody else is given, while servers come to it and go, or though none ever comes.

    A port without a server is free for the system to give to any other process, as a server's or as the near
    end of a connection; the latter blocks it for a minute more. One with a socket that is bound to it and
    does not listen is not given away. Servers can listen there all the same if they allow the reuse of
    addresses, as ours and gRPC's do; connections are refused while none does.

    It ends with `close`, with a `with` block, or with the last reference to it.
    """

    def __init__(self, host: str = "127.0.0.1") -> None:
        keeper = socket.socket()
        self.close = weakref.finalize(self, keeper.close)
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind((host, 0))
        self.port: int = keeper.getsockname()[1]
        self.address = f"{host}:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def bound_at_one_port(*hosts: str) -> list[socket.socket]:
    """Sockets that are bound to these addresses of loopback, all at the same port; none listens yet.

    A port that is free on one address may be taken on another: then another port is tried. They do not allow
    the reuse of addresses, lest they come to be beside somebody's `KeptPort`.
    """
    for _ in range(TRIES):
        with contextlib.ExitStack() as opened:
            found: list[socket.socket] = []
            for host in hosts:
                one = opened.enter_context(socket.socket(_family(host)))
                try:
                    one.bind((host, found[0].getsockname()[1] if found else 0))
                except OSError as problem:
                    if problem.errno != errno.EADDRINUSE:
                        raise
                    break
                found.append(one)
            else:
                opened.pop_all()
                return found
    raise AssertionError(f"none of {TRIES} ports is free on all of {', '.join(hosts)}")


def listeners_at_one_port(*hosts: str) -> list[socket.socket]:
    """The same, and they listen."""
    found = bound_at_one_port(*hosts)
    for one in found:
        one.listen()
    return found


def is_there(host: str) -> bool:
    """Whether this system has an address."""
    with socket.socket(_family(host)) as one:
        try:
            one.bind((host, 0))
        except OSError as problem:
            if problem.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                raise
            return False
    return True


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
