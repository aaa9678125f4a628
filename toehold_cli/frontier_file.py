"""Finds the frontier of a running `toehold crawl`, by the frontier.json in its directory."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path

import msgspec

from toehold_client.errors import FrontierUnavailable, InvalidArgument

NAME = "frontier.json"
_MAX_BYTES = 65_536
_HOST = "127.0.0.1"  # where `toehold crawl` lets its frontier listen
_CONNECT_S = 1.0


@dataclass(frozen=True, slots=True)
class EmbeddedFrontier:
    """The address, process and crawl of a directory's frontier."""

    address: str
    pid: int
    crawl: str


def find(directory: Path) -> EmbeddedFrontier:
    """The frontier that runs for this directory.

    FrontierUnavailable if none does; InvalidArgument if there is no such directory, or its file is damaged.
    """
    file = directory / NAME
    try:
        with file.open("rb") as opened:
            content = opened.read(_MAX_BYTES)
    except FileNotFoundError:
        if not directory.is_dir():
            raise InvalidArgument(f"{directory} is not a directory") from None
        raise FrontierUnavailable(
            f"no frontier runs in {directory}, because the directory has no {NAME}"
        ) from None
    except OSError as error:
        raise InvalidArgument(f"{file} cannot be read: {error.strerror}") from None
    try:
        found = msgspec.json.decode(content, type=EmbeddedFrontier)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"{file} is damaged: {error}") from None
    if not (_runs(found.pid) and listens(found.address)):
        raise FrontierUnavailable(
            f"the frontier of {directory} (process {found.pid}) has ended; `toehold crawl` restarts it"
        )
    return found


def _runs(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # it is another user's
        return True
    return True


def listens(address: str) -> bool:
    """Whether a program listens there: after a boot of the machine, another one may have the process id."""
    host, _, port = address.rpartition(":")
    if host != _HOST:
        return True  # a call will say what is wrong
    try:
        socket.create_connection((host, int(port)), _CONNECT_S).close()
    except ConnectionRefusedError:
        return False
    except (OSError, ValueError, OverflowError):
        return True
    return True
