"""How a process of a node is told what to do, and tells how it fares: its options, the line that it prints
when it is ready, and its exit codes."""

from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """The command line of `toehold-node`, an option a field. `toehold-node --help` explains them."""

    frontier: str
    toes: int
    processes: int | None
    name: str
    crawl: str
    warc: Path | None
    warc_metadata: str
    gzip_level: int | None
    pages: Path | None
    pages_text: str
    mirror: Path | None
    hook: str | None
    logs: Path | None
    file_prefix: str
    max_file_mib: int
    max_file_hours: float
    disk_reserve_mib: int
    max_bytes_per_second: int
    listen: str
    metrics: str | None
    insecure: bool
    tls_ca: str | None
    tls_cert: str | None
    tls_key: str | None
    token_file: str | None
    mutual_tls: bool
    callers: Path | None
    fetcher_kinds: tuple[str, ...]
    resolves: tuple[str, ...]
    ca_file: Path | None
    max_left_behind: int
    hang_seconds: float
    until_stdin_ends: bool
    log_format: str
    log_level: str
    otlp: str
    worker: int | None
    """Which worker process of a node this is; None for a node of one process, and for a supervisor."""
    node_service: str
    """Where the node of a worker process can be asked."""


class NodeExitCode(IntEnum):
    """The exit codes of a node."""

    DRAINED = 0
    """Everything is reported."""
    UNREPORTED = 1
    """The node gave up reporting, or one of its threads failed."""
    BAD_ARGUMENT = 2
    """An argument makes no sense."""
    SUPERSEDED = 3
    """Another process has taken the node's name."""
    OUTPUT_UNUSABLE = 4
    """A directory that pages go to cannot be used."""
    WORN_OUT = 5
    """Too many toe threads had to be left behind; everything else is reported."""


WORKER_TOKEN = "TOEHOLD_WORKER_TOKEN"
"""The environment variable with the token by which a worker process knows its supervisor."""

WORKER_COOKIES = "TOEHOLD_WORKER_COOKIES"
"""The environment variable with the descriptor of the socket over which a worker process asks its supervisor
for cookies."""

_SERVICE = ", service at "
_METRICS = ", metrics at "


def ready_line(options: NodeOptions, service_address: str, metrics_address: str = "") -> str:
    """The line that a node prints on its standard output once it works, for people and its supervisor."""
    among = ""
    if options.processes is not None:
        among = " in 1 process" if options.processes == 1 else f" in {options.processes} processes"
    toes = "1 toe" if options.toes == 1 else f"{options.toes} toes"
    return (
        f"toehold-node {options.name} fetching for {options.frontier} with {toes}"
        f"{among}{_METRICS if metrics_address else ''}{metrics_address}{_SERVICE}{service_address}"
    )


def service_of(line: str) -> str:
    """The service address in a ready line; empty for any other text."""
    return line.strip().rpartition(_SERVICE)[2] if _SERVICE in line else ""


def metrics_of(line: str) -> str:
    """The address of the metrics in a ready line; empty if it has none."""
    return line.rpartition(_SERVICE)[0].partition(_METRICS)[2]
