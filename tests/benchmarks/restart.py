"""How soon a server serves again after `kill -9`: with a hundred thousand URIs, and with ten million."""

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.calibration import loop_ms
from benchmarks.fetchers import Fetcher
from benchmarks.load import LINKS_PER_PAGE, Load, host_names, links, schedule_requests
from benchmarks.measuring import SERVER, Figure, Limit, waits_ms
from benchmarks.processes import FrontierServer

from toehold.frontier.v1 import crawl_pb2

FEW, MANY = 100_000, 10_000_000
HOSTS = 50_000
PART = 100_000  # URIs that are made at a time
FETCHED = 1_000  # before each kill; as many again are out
KILLS = 5
MAX_S, MAX_RATIO = 3.0, 3.0


def restart(folder: Path) -> Iterator[Figure]:
    """From the start of the program to the first leases, the server having been killed while it took URIs in
    and gave leases. The files are in the system's cache, as after any kill."""
    few = _figure(folder / "few", FEW)
    yield few
    many = _figure(folder / "many", MANY)
    slowest = Limit(f"s until it serves again with {MANY} URIs, at most", many.wait_ms["max"] / 1e3, MAX_S)
    yield replace(many, limit=slowest)
    ratio = many.wait_ms["p50"] / few.wait_ms["p50"]
    beside = Limit(f"times as long with {MANY} URIs as with {FEW}", ratio, MAX_RATIO)
    yield replace(many, name=f"the same beside {FEW} URIs", limit=beside)


def _figure(data: Path, known: int) -> Figure:
    hosts = host_names(HOSTS)
    with FrontierServer(data) as server, Load(server.address) as load:
        load.create_crawl("bench", ["example"], launch=True, surt_prefixes=["http://(example,"])
        for first in range(0, known, PART):
            _offer(load, hosts, first)
    waits_s: list[float] = []
    cpu_s: list[float] = []
    for kill in range(KILLS):
        with FrontierServer(data) as server, Load(server.address) as load:
            fetcher = Fetcher(load, 100)
            fetcher.fetch(FETCHED)
            _offer(load, hosts, known + kill * PART)
            for _ in range(FETCHED // 100):
                fetcher.next()
            server.kill()
        start_s = time.perf_counter()
        with FrontierServer(data) as server, Load(server.address) as load:
            if not Fetcher(load, 100).next():
                raise RuntimeError("a server that was killed has nothing to fetch")
            waits_s.append(time.perf_counter() - start_s)
            cpu_s.append(server.cpu_s())
    used_us = {SERVER: statistics.median(cpu_s) * 1e6, "client": 0.0}
    return Figure(
        f"Serving again after kill -9, {known} URIs",
        KILLS,
        0.0,
        used_us,
        loop_ms(),
        waits_ms(waits_s),
    )


def _offer(load: Load, hosts: Sequence[str], first: int) -> None:
    """So many new URIs, from that number on."""
    offered = links(hosts, PART // LINKS_PER_PAGE, first // LINKS_PER_PAGE)
    load.schedule(schedule_requests("bench", offered), crawl_pb2.VERDICT_QUEUED)()
