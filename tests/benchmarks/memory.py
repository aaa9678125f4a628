"""How much memory the server takes as a crawl grows: with a thousand hosts known, and with a million."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.calibration import loop_ms
from benchmarks.fetchers import Fetcher
from benchmarks.load import Link, Load, host_names, schedule_requests
from benchmarks.measuring import SERVER, Figure, Limit
from benchmarks.processes import FrontierServer

from toehold.frontier.v1 import crawl_pb2

FEW, MANY = 1_000, 1_000_000
ACTIVE = 1_000
PART = 100_000
MAX_GROWTH_MIB = 150
CACHE = ("--cache-mib", "32")
GROWTH = f"Memory with {MANY} hosts known beside {FEW}, {ACTIVE} active (MiB)"


def memory(folder: Path) -> Iterator[Figure]:
    """Resident memory of the server with as many hosts active, however many it knows.

    The cache of the store is small: it takes what it is given, and does not grow with hosts.
    """
    few_mib = 0.0
    for known in (FEW, MANY):
        with FrontierServer(folder / str(known), *CACHE) as server, Load(server.address) as load:
            load.create_crawl("bench", ["example"], launch=True, surt_prefixes=["http://(example,"])
            before_s = server.cpu_s()
            for start in range(0, known, PART):
                names = host_names(known)[start : start + PART]
                offered = [Link(f"https://{name}/", "") for name in names]
                load.schedule(schedule_requests("bench", offered), crawl_pb2.VERDICT_QUEUED)()
            fetcher = Fetcher(load, 100)
            active = 0
            while active < ACTIVE:
                active += len(fetcher.next())
            mib = server.resident_mib()
            used_us = (server.cpu_s() - before_s) / known * 1e6
        if known == FEW:
            few_mib = mib
            continue
        yield Figure(
            GROWTH,
            known,
            0.0,
            {SERVER: used_us, "client": 0.0},
            loop_ms(),
            mib={"few": few_mib, "many": mib, "growth": mib - few_mib},
            limit=Limit("MiB for a million hosts beside a thousand", mib - few_mib, MAX_GROWTH_MIB),
        )
