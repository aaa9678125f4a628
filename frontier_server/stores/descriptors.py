"""The process's descriptors, and what they are for: files of the store, connections, and everything else."""

from toehold_base.serving.connections import MOST_CONNECTIONS, descriptor_limit

MAX_OPEN_FILES = 10_000
OTHERS = 128
"""For logs, the page of metrics, checkpoints, sockets, and what RocksDB opens beside its tables."""


def open_files() -> int:
    """How many files a store keeps open: at most half of the process's descriptors."""
    return min(descriptor_limit() // 2, MAX_OPEN_FILES)


def connections(addresses: int = 1) -> int:
    """How many connections the frontier takes at a time at each of its addresses: what is left beside its
    files."""
    limit = descriptor_limit()
    return min(limit - open_files() - min(OTHERS, limit // 4), MOST_CONNECTIONS) // addresses
