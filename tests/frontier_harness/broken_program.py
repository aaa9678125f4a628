"""The program, with a part that breaks once a file is there: `broken_program.py PART FILE [flags …]`."""

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from frontier_server.core.rows.errors import UnknownCrawl
from frontier_server.core.rows.store import WriteStalled
from frontier_server.core.upkeep import Upkeep
from frontier_server.logs.crawl_log import CrawlLogs
from frontier_server.logs.job_feed import JobFeed
from frontier_server.program import program, server
from frontier_server.shell import runner
from frontier_server.shell.absence import Absence
from frontier_server.stores.checkpoints import Checkpoints
from frontier_server.stores.rocks import RocksStore
from frontier_server.wire import ContractCodec

# No task, but what each of them may come to wait for.
STALL = "stalled write"
# No task either, but what one who asks for leases runs into, in the middle of giving one out.
OPERATION = "operation"
PARTS: dict[str, tuple[Any, str, Exception]] = {
    "flusher": (JobFeed, "collect", IndexError("a defect")),
    "worker": (Checkpoints, "close_readers", RuntimeError("a defect")),
    "watcher": (RocksStore, "pressed", RuntimeError("a defect")),
    "presence": (Absence, "answered", RuntimeError("a defect")),
    # A refusal is for those who ask; nobody asks for a tick.
    "timer": (Upkeep, "tick", UnknownCrawl("a defect", crawl="t")),
    "crawl log": (CrawlLogs, "_append", RuntimeError("a defect")),
    "watch of the clock": (server, "wall_ms", RuntimeError("a defect")),
}
"""Of each task of the server's: an object that it uses, of that a name, and what this raises then."""


def breaking(whole: Callable[..., Any], problem: Exception, trigger: Path) -> Callable[..., Any]:
    """A function that raises as soon as there is a file."""

    @functools.wraps(whole)
    def part(*arguments: Any, **named: Any) -> Any:
        if trigger.exists():
            raise problem
        return whole(*arguments, **named)

    return part


if __name__ == "__main__":
    part, trigger, *flags = sys.argv[1:]
    stall = (RocksStore, "write", WriteStalled("Result incomplete: Write stall"))
    operation = (ContractCodec, "decode", RuntimeError("a defect"))
    owner, name, problem = (PARTS | {STALL: stall, OPERATION: operation})[part]
    setattr(owner, name, breaking(getattr(owner, name), problem, Path(trigger)))
    vars(server)["CLOCK_CHECK_S"] = 0.05
    vars(server)["CLOSE_S"] = vars(runner)["CLOSE_S"] = 0.5
    if part == STALL:  # and nobody is answered any more
        vars(server)["GRACE_S"] = 0.5
    program.main(flags)
