"""The access log: one line of JSON for every request, written when it is done. It is the truth that tests
judge a crawl by.
"""

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Entry:
    """One request as the server saw it.

    `start_time` is wall clock, `start` the monotonic clock of this machine (until it is rebooted), both
    in seconds and taken when the request had arrived. `duration_s` ends just before the last bytes were
    handed over, or where the request was broken off (`aborted`). `path` is the request target as sent,
    `bytes_sent` counts head and body. `status` 0: closed without an answer. `retry_until`: the wall clock
    until which Retry-After asked for patience. `connection` is the number of its connection.
    """

    start_time: float
    start: float
    duration_s: float
    scheme: str
    host: str
    port: int
    method: str
    path: str
    status: int
    bytes_sent: int
    user_agent: str
    aborted: bool
    retry_until: float | None
    connection: int = 0

    @property
    def end(self) -> float:
        """When it was done, on the same clock as `start`."""
        return self.start + self.duration_s

    @property
    def url(self) -> str:
        """The URL that was asked for."""
        return f"{self.scheme}://{self.host}:{self.port}{self.path}"


def read(file: Path) -> list[Entry]:
    """All requests, by their start. A last line that is still being written is left out."""
    lines = file.read_text(encoding="utf-8").split("\n")[:-1] if file.exists() else []
    return sorted((Entry(**json.loads(line)) for line in lines), key=lambda entry: entry.start)
