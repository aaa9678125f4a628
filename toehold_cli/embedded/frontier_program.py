"""The frontier server of `toehold crawl`, as a program to start."""

import re
import sys
from pathlib import Path

from .children import Program

DATA_UNUSABLE, IN_USE = 4, 7  # exit codes


def frontier_program(
    data: Path, *, port: int = 0, shards: int = 0, log: Path | None = None, read_only: bool = False
) -> Program:
    """A frontier that listens on loopback, and ends with the process that started it. With `shards` = 0 it
    has as many as its data has."""
    return Program(
        name="frontier server",
        command=(
            *(sys.executable, "-P", "-m", "frontier_server"),
            *("--data", str(data), "--listen", f"127.0.0.1:{port}", "--until-stdin-ends"),
            *(("--shards", str(shards)) if shards else ()),
            *(("--read-only",) if read_only else ()),
        ),
        log=log,
        ready=re.compile(r"toehold-frontier serving on (\S+)"),
        exit_codes={
            2: "its arguments are wrong",
            3: "it cannot listen",
            DATA_UNUSABLE: "its data directory is unusable, or in use",
            5: "its store failed",
            6: "its store is damaged; `toehold-frontier --salvage --data DIR` keeps the readable part",
            IN_USE: "another frontier runs on its data directory",
        },
    )
