"""The parts of the benchmark. Each has a server with an empty store of its own, durable as by default."""

import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.calibration import REFERENCE_MS, loop_ms
from benchmarks.connections import connections
from benchmarks.console import console
from benchmarks.crowds import crowds
from benchmarks.doors import doors
from benchmarks.fetchers import Fetcher, fetch_together
from benchmarks.gateway import urlfrontier
from benchmarks.growth import Size, durability, growth
from benchmarks.idle import idle
from benchmarks.jobs import jobs
from benchmarks.load import LINKS_PER_PAGE, Link, Load, host_names, links, schedule_requests
from benchmarks.log import log
from benchmarks.measuring import SERVER, Figure, Limit, measure
from benchmarks.memory import memory
from benchmarks.metrics import metrics
from benchmarks.mixed import mixed
from benchmarks.node import node
from benchmarks.processes import Descendants, FrontierServer
from benchmarks.restart import restart
from benchmarks.shards import shards
from benchmarks.whole_crawl import whole_crawl

from practice_web.practice import PracticeWeb
from practice_web.web import LIBRARY
from toehold.frontier.v1 import crawl_pb2

QUEUED, SEEN = crawl_pb2.VERDICT_QUEUED, crawl_pb2.VERDICT_ALREADY_SEEN

NEW_URI_US = 40.0
"""Most CPU that a new URI may cost the server where the loop takes `REFERENCE_MS`."""

NEW = "Schedule, new URIs"
NEW_SHUFFLED = "Schedule, new URIs, hardly two of a batch on one host"
ROUNDS = 5
HOSTS = 2000
PAGES = 4000  # of 50 links: 100 URIs a host
LATELY = 40_000  # known URIs that the server still knows by their text
POPS = 100_000
SAMPLES = 2000
MAX_CRAWL_S = 300
SPEC = Path(__file__).resolve().parents[1] / "practice_web" / "spec.toml"


def intake(folder: Path) -> Iterator[Figure]:
    """Schedule: URIs that are new, that the store knows, and that were offered a moment ago."""
    hosts = host_names(HOSTS)
    offered = links(hosts, PAGES)
    with FrontierServer(folder / "store") as server, Load(server.address) as load:
        load.create_crawl("bench", hosts)
        rounds = [load.schedule(part, QUEUED) for part in _rounds(offered)]
        yield _limited(measure(NEW, server.cpu_s, rounds))
    with FrontierServer(folder / "shuffled") as server, Load(server.address) as load:
        load.create_crawl("bench", hosts)
        shuffled = random.Random(1).sample(offered, len(offered))
        rounds = [load.schedule(part, QUEUED) for part in _rounds(shuffled)]
        yield _limited(measure(NEW_SHUFFLED, server.cpu_s, rounds))
    # A server that has just started remembers no texts: each URI is looked up in the store.
    with FrontierServer(folder / "store") as server, Load(server.address) as load:
        rounds = [load.schedule(part, SEEN) for part in _rounds(offered)]
        yield measure("Schedule, known URIs", server.cpu_s, rounds)
        again = load.schedule(schedule_requests("bench", offered[-LATELY:]), SEEN)
        again()
        yield measure("Schedule, URIs offered lately", server.cpu_s, [again] * ROUNDS)


def _limited(figure: Figure) -> Figure:
    words = f"µs of the server's CPU for a URI ({figure.name}), where the loop takes {REFERENCE_MS:.0f} ms"
    return replace(figure, limit=Limit(words, figure.scaled_us(SERVER), NEW_URI_US))


def _rounds(offered: Sequence[Link]) -> list[list[bytes]]:
    size = len(offered) // ROUNDS
    return [schedule_requests("bench", offered[n * size : (n + 1) * size]) for n in range(ROUNDS)]


def pairs(folder: Path) -> Iterator[Figure]:
    """Next and Finished, over many hosts: leases by 50 and one by one."""
    hosts = host_names(HOSTS)
    offered = links(hosts, PAGES)
    with FrontierServer(folder / "resting") as server, Load(server.address) as load:
        _fill(load, hosts, offered, rest_ms=10)
        yield _pairs("Next+Finished by 50, 4 nodes, rests of 10 ms", server, load, 4, 50)
    with FrontierServer(folder / "store") as server, Load(server.address) as load:
        _fill(load, hosts, offered, rest_ms=0)
        yield _pairs("Next+Finished by 50, 4 nodes", server, load, 4, 50)
        yield _pairs("Next+Finished one by one, 16 nodes", server, load, 16, 1)
        yield _pairs("Next+Finished one by one, 1 node", server, load, 1, 1)


def _pairs(name: str, server: FrontierServer, load: Load, nodes: int, leases_a_call: int) -> Figure:
    fetchers = [Fetcher(load, leases_a_call) for _ in range(nodes)]
    work = fetch_together(fetchers, 12_000 if leases_a_call > 1 else 1_000)
    work()
    return measure(name, server.cpu_s, [work] * ROUNDS)


def _fill(load: Load, hosts: Sequence[str], offered: Sequence[Link], rest_ms: int) -> None:
    load.create_crawl("bench", hosts, rest_ms, launch=True)
    load.schedule(schedule_requests("bench", offered), QUEUED)()


def pops(folder: Path) -> Iterator[Figure]:
    """Next on one queue, before and after 100 000 URIs have been popped from it."""
    hosts = host_names(1)
    with FrontierServer(folder / "store") as server, Load(server.address) as load:
        _fill(load, hosts, links(hosts, (POPS + 10_000) // LINKS_PER_PAGE), rest_ms=0)
        fetcher = Fetcher(load, 1)
        fetcher.fetch(100)  # robots.txt among them
        yield _waits("Next on one queue, at first", server, fetcher)
        popping = fetch_together([fetcher], POPS // ROUNDS)
        yield measure(f"Next+Finished on that queue, {POPS} times", server.cpu_s, [popping] * ROUNDS)
        yield _waits("Next on that queue after that", server, fetcher)


def _waits(name: str, server: FrontierServer, fetcher: Fetcher) -> Figure:
    fetcher.waits_s.clear()
    work = fetch_together([fetcher], SAMPLES // ROUNDS)
    return measure(name, server.cpu_s, [work] * ROUNDS, fetcher.waits_s)


def crawl(folder: Path) -> Iterator[Figure]:
    """`toehold crawl` over the practice web's pages, whose hosts need not rest."""
    loops_ms = [loop_ms()]
    with PracticeWeb(folder / "web") as web, Descendants(_program) as programs:
        command = [
            *(sys.executable, "-m", "toehold_cli", "crawl", "--json", "--dir", str(folder / "crawl")),
            *("--spec", str(SPEC), "--min-delay", "0", "--delay-factor", "0", "--ca-file", str(web.ca_file)),
            *(argument for entry in web.resolve for argument in ("--resolve", entry)),
            *web.seeds[: len(LIBRARY)],
        ]
        start_s = time.perf_counter()
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=MAX_CRAWL_S, check=False)
        except subprocess.TimeoutExpired as problem:
            raise RuntimeError(f"toehold crawl did not end within {MAX_CRAWL_S} s") from problem
        elapsed_s = time.perf_counter() - start_s
        if done.returncode != 0:
            raise RuntimeError(f"toehold crawl ended with {done.returncode}: {done.stderr[-2000:]}")
        report = json.loads(done.stdout)
        used_s, peak_mib = programs.cpu_s(), programs.peak_mib()
    loops_ms.append(loop_ms())
    pages = report["pages"]
    yield Figure(
        f"toehold crawl, from start to end ({elapsed_s:.0f} s)",
        pages,
        pages / report["duration_seconds"],
        {name: seconds / pages * 1e6 for name, seconds in used_s.items()},
        min(loops_ms),
        mib=peak_mib,
    )


def pages_of_nodes(folder: Path) -> Iterator[Figure]:
    """What a page costs a node beside a client alone, and node and frontier together in a whole crawl."""
    yield from node(folder)
    yield from whole_crawl(folder)


def _program(command: str) -> str | None:
    known = {
        "frontier_server": "server",
        "crawler_node": "node",
        "toehold_client": "client",
        "serve.py": "web",
    }
    return next((name for word, name in known.items() if word in command), None)


_PARTS: dict[str, Callable[[Path], Iterator[Figure]]] = {
    "intake": intake,
    "pairs": pairs,
    "pops": pops,
    "jobs": jobs,
    "memory": memory,
    "restart": restart,
    "crowds": crowds,
    "node": pages_of_nodes,
    "connections": connections,
    "metrics": metrics,
    "crawl": crawl,
    "console": console,
    "urlfrontier": urlfrontier,
    "shards": shards,
    "log": log,
    "doors": doors,
}


USUAL = (*_PARTS, "growth", "durability", "idle")
NAMES = (*USUAL, "mixed")


def run(
    part: str, where: Path, sizes: Sequence[Size], queues: Sequence[int], minutes: float
) -> Iterator[Figure]:
    """A part's figures as they come. Its store is in a folder of its own below `where`, gone afterwards.

    `sizes` are those of *growth*, the first of them that of *durability*; `queues` those of *idle*; and
    *mixed* takes so many `minutes`.
    """
    with tempfile.TemporaryDirectory(prefix=f"bench-{part}-", dir=where) as folder:
        if part == "growth":
            yield from growth(Path(folder), sizes)
        elif part == "durability":
            yield from durability(Path(folder), sizes[0])
        elif part == "idle":
            yield from idle(Path(folder), queues)
        elif part == "mixed":
            yield from mixed(Path(folder), minutes)
        else:
            yield from _PARTS[part](Path(folder))
