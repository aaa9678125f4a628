"""Where the members of a frontier are reached: by sockets of this machine, or on another machine.

A machine of a cluster writes what it knows of all members into a file, and its own processes read that again
whenever it changes. A wrong location does no harm: whoever does not own its log answers nothing.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Never

import msgspec
import structlog

from toehold_base.durable import replace_file

LOOK_S = 0.05

_log = structlog.get_logger()


class Location(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a member is reached."""

    socket: str = ""
    """The path of its gRPC server's socket, on this machine; or else:"""
    host: str = ""
    port: int = 0
    """Of its gRPC server."""
    pipe_port: int = 0
    epoch: int = 0
    """Of its log: of two that seem to serve the same, the later one does."""


Locations = Mapping[str, Location]
"""By the names of members."""


def write_locations(path: Path, locations: Locations) -> None:
    """Write the file, in one step."""
    replace_file(path, msgspec.json.encode(dict(locations)), 0o600)


def read_locations(path: Path) -> Locations:
    """The locations in the file; none while there is no file."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Location])
    except FileNotFoundError:
        return {}


async def watch_locations(path: Path, take: Sequence[Callable[[Locations], None]]) -> Never:
    """Tell the locations, now and after each change."""
    last = None
    while True:
        version = _version(path)
        if version != last:
            last, locations = version, read_locations(path)
            for each in take:
                each(locations)
        await asyncio.sleep(LOOK_S)


def _version(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns
