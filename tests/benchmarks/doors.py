"""What the front of a cluster takes while doors pass calls on: it is one process for all machines."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.fetchers import Fetcher, fetch_together
from benchmarks.load import Load, schedule_requests
from benchmarks.measuring import SERVER, Figure, Limit, measure
from benchmarks.processes import FrontierServer
from benchmarks.workload import Workload

from toehold.frontier.v1 import crawl_pb2

URIS, QUEUES, SHARDS = 120_000, 10_000, 4
ROUND_URIS, ROUNDS, PAIRS, CLIENTS, LEASES_A_CALL = 20_000, 5, 4_000, 4, 100
MOST_US = {"front": {"new URI": 3.0, "lease": 15.0}, "door": {"new URI": 6.0, "lease": 35.0}}
"""How many microseconds of CPU each may take for an item. The front hears how parts go on each half second,
however many items that are."""


def doors(folder: Path) -> Iterator[Figure]:
    """The figures of a machine's processes, by member."""
    work = Workload(QUEUES)
    flags = "--shards", str(SHARDS), "--log", f"file://{folder}/bucket", "--machine", "bench"
    with FrontierServer(folder / "machine", *flags) as server, Load(server.address) as load:
        load.create_crawl("bench", ["example"], surt_prefixes=["http://(example,"])
        before = URIS - ROUNDS * ROUND_URIS

        def offer(first: int, count: int) -> Callable[[], int]:
            return load.schedule(
                schedule_requests("bench", work.part(first, count)), crawl_pb2.VERDICT_QUEUED
            )

        offer(0, before)()
        used = {member: server.member_cpu_s(member) for member in MOST_US}
        rounds = [offer(before + turn * ROUND_URIS, ROUND_URIS) for turn in range(ROUNDS)]
        yield from _shares("new URI", server, used, rounds)
        load.launch("bench", work.hosts[0])
        fetch = fetch_together([Fetcher(load, LEASES_A_CALL) for _ in range(CLIENTS)], PAIRS)
        fetch()
        used = {member: server.member_cpu_s(member) for member in MOST_US}
        yield from _shares("lease", server, used, [fetch] * ROUNDS)


def _shares(
    item: str, server: FrontierServer, used_s: dict[str, float], rounds: list[Callable[[], int]]
) -> Iterator[Figure]:
    """A figure of the whole, and what each member took of it."""
    whole = measure(f"By a door: {item}s; {SHARDS} shards with a log", server.cpu_s, rounds)
    yield whole
    for member, most in MOST_US.items():
        cpu_us = (server.member_cpu_s(member) - used_s[member]) / whole.items * 1e6
        part = replace(whole, name=f"The {member}'s part of that", cpu_us={**whole.cpu_us, SERVER: cpu_us})
        words = f"µs of CPU of the {member} for a {item}"
        yield replace(part, limit=Limit(words, part.scaled_us(SERVER), most[item]))
