"""What a node is told on its command line."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Output:
    """What becomes of pages, and of errors."""

    warc: Path | None
    warc_metadata: str
    gzip_level: int | None
    pages: Path | None
    pages_text: str
    hook: str | None
    logs: Path | None
    file_prefix: str
    max_file_bytes: int
    max_file_age_s: float
    disk_reserve_bytes: int


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """A node of one process."""

    frontier: str
    toes: int
    name: str
    crawl: str
    output: Output
    max_bytes_per_second: int
    resolves: tuple[str, ...]
    ca_file: Path | None
    max_left_behind: int
    service_address: str
    """Where others can ask the node."""
