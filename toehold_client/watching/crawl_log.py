"""The end of a crawl log: the URIs that were finished last."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import merge
from pathlib import Path

_STATUS, _SIZE = re.compile(r"-?[0-9]{1,5}"), re.compile(r"[0-9]{1,18}")
_TAIL_BYTES = 64 * 1024  # some lines; one has two URIs of at most 8 KiB


@dataclass(frozen=True, slots=True)
class LoggedPage:
    """A line of the crawl log: a URI that came to its final disposition."""

    fetch_status: int
    size: int | None
    """Bytes of its body."""
    uri: str


def last_pages(log: Path, count: int) -> list[LoggedPage]:
    """The last `count` pages of the log, the latest last; none if there is no log."""
    return last_pages_of((log,), count)


def last_pages_of(logs: Iterable[Path], count: int) -> list[LoggedPage]:
    """The same for several logs together."""
    ends = [_last_lines(log, count) for log in logs]
    lines = merge(*ends, key=_time_of) if len(ends) > 1 else ends[0]
    return [page for line in list(lines)[-count:] if (page := _page(line)) is not None] if count else []


def _last_lines(log: Path, count: int) -> list[bytes]:
    try:
        with log.open("rb") as file:
            start = max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES)
            file.seek(start)
            tail = file.read(_TAIL_BYTES)
    except OSError:
        return []
    lines = tail.split(b"\n")
    lines.pop()  # what follows the last newline is not a whole line yet
    if start:
        lines = lines[1:]
    return lines[-count:]


def _time_of(line: bytes) -> bytes:
    return line.partition(b" ")[0]


def _page(line: bytes) -> LoggedPage | None:
    columns = line.decode(errors="replace").split()
    if len(columns) < 4 or not _STATUS.fullmatch(columns[1]):
        return None
    size = int(columns[2]) if _SIZE.fullmatch(columns[2]) else None
    return LoggedPage(int(columns[1]), size, columns[3])
