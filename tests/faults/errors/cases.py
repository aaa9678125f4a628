"""Which trouble is made, in which files, and which row of the manual tells what follows from it.

A line of trouble is one of `power/trouble.c`.
"""

from typing import NamedTuple

STORE = "RocksDB cannot read, write or sync a file"
UNNOTICED = "A write is short, and its other half finds room"
SLOW_SYNC = "A sync takes seconds"
STALL = "RocksDB cannot write its files as fast as rows come"
CRAWL_LOG = "`crawl.log` cannot be written or synced"
JOB_LOG = "`job.log` cannot be written or synced"
FILES = "Descriptors run out"
MEMORY = "Memory runs out"
NODE = "A node cannot write or sync what it stores"
EMBEDDED = "The frontier of `toehold crawl` fails"
LEFT_DAMAGED = "A file that a dead node has left is damaged, or ends in the middle of a record"
CHECKPOINT = "A checkpoint cannot be written or synced"
READ_ONLY = "The data directory, or one for pages, is on a read-only mount"
READ_ONLY_STORE = "The directory `store` alone is read-only"
NO_START = "The store cannot be opened, for want of room or descriptors, or an error of the disk"


class Case(NamedTuple):
    """A trouble, and the row of it."""

    row: str
    trouble: str
    quick: bool = False  # tried with every change, not only in the soak


def store(files: str) -> tuple[Case, ...]:
    """What may befall files of RocksDB's."""
    return (
        Case(STORE, f"write {files} EIO 1"),
        Case(STORE, f"write {files} ENOSPC 0"),
        Case(STORE, f"sync {files} EIO 1"),
        Case(UNNOTICED, f"write {files} short 1"),
    )


def log(row: str, files: str) -> tuple[Case, ...]:
    """What may befall a log."""
    return (
        Case(row, f"write {files} EIO 1"),
        Case(row, f"write {files} ENOSPC 0"),
        Case(row, f"write {files} short 1"),
        Case(row, f"sync {files} EIO 0"),
        Case(row, f"make {files} EMFILE 0"),
    )


UNDER_LOAD = (
    *store("*store/*.log"),
    *store("*.sst"),
    *store("*store/MANIFEST*"),
    Case(STORE, "make *store/*.sst EMFILE 0"),
    Case(STORE, "read *.sst EIO 0"),
    Case(STORE, "write *store/*.log EDQUOT 0"),
    Case(STORE, "sync *store/*.log EIO 2", quick=True),
    Case(SLOW_SYNC, "sync *store/*.log slow 2000"),
    *log(CRAWL_LOG, "*crawl.log"),
    Case(CRAWL_LOG, "sync *crawl.log EIO 1", quick=True),
    *log(JOB_LOG, "*job.log"),
    Case(JOB_LOG, "sync *job.log EIO 1"),
)
"""While nodes, feeders and operators are at work."""

AT_CHECKPOINTS = tuple(
    Case(CHECKPOINT, trouble, quick)
    for trouble, quick in (
        ("write *checkpoints/*.part ENOSPC 0", True),
        ("make *checkpoints/*.tmp ENOSPC 0", False),
        ("make *checkpoints/*.part EMFILE 0", False),
        ("write *checkpoints/*.part EIO 1", False),
        ("sync *checkpoints/*.part EIO 1", False),
        ("sync *checkpoints/cp* EIO 3", False),
        ("make *checkpoints/cp?????-?????????????? EIO 1", False),
    )
)
"""While checkpoints are made of a store that is written to."""

AT_START = (
    Case(READ_ONLY_STORE, "make * EROFS 0", quick=True),
    Case(NO_START, "make *.dbtmp ENOSPC 0"),
    Case(NO_START, "write *MANIFEST* ENOSPC 0"),
    Case(NO_START, "open *.sst EMFILE 0"),
    Case(NO_START, "read *.sst EIO 0"),
)

AT_NODES = tuple(
    Case(NODE, f"{call} *{files}.open {fault}")
    for files in (".warc.gz", ".jsonl")
    for call, fault in (
        ("write", "EIO 1"),
        ("write", "ENOSPC 0"),
        ("write", "short 1\nwrite *.open ENOSPC 3"),
        ("sync", "EIO 1"),
        ("sync", "EIO 0"),
        ("make", "EMFILE 0"),
    )
)
"""While a node stores pages."""
