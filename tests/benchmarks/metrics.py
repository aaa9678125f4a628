"""What metrics cost: the same work by programs with --metrics, which are scraped, and without, in turn."""

import json
import os
import statistics
import threading
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.calibration import loop_ms
from benchmarks.fetchers import Fetcher, fetch_together
from benchmarks.load import LINKS_PER_PAGE, Load, host_names, links, schedule_requests
from benchmarks.measuring import CLIENT, SERVER, Figure, Limit
from benchmarks.node import HOSTS, THREADS, crawl_pages, listed_pages
from benchmarks.processes import Child, FrontierServer

from crawler_node.process import metrics_of
from practice_web.practice import PAGES
from toehold.frontier.v1 import crawl_pb2

MOST = 0.02
"""The most CPU of an item that metrics may take."""

SCRAPE_EVERY_S = 15.0  # as in deploy/monitoring/prometheus.yml
TURNS, NODE_TURNS = 100, 40
URIS, FRONTIER_HOSTS = 150_000, 2000
BATCHED, SINGLE, NODE_PAGES = 1_000, 250, 300  # leases and pages in a turn
METRICS = ("--metrics", "127.0.0.1:0")


@dataclass
class _Program:
    """One of the two that take turns."""

    work: Callable[[], int]
    cpu_s: Callable[[], float]
    us: list[float] = field(default_factory=list)
    """CPU of an item, turn by turn."""
    items: int = 0

    def turn(self) -> None:
        since_s = self.cpu_s()
        count = self.work()
        self.us.append((self.cpu_s() - since_s) / count * 1e6)
        self.items += count


def metrics(folder: Path) -> Iterator[Figure]:
    """Leases by 50 and one by one, where metrics of calls weigh most; and pages of a node."""
    with ExitStack() as stack:
        stack.enter_context(_same_hashes())
        servers = [
            stack.enter_context(FrontierServer(folder / name, *flags))
            for name, flags in (("plain", ()), ("measured", METRICS))
        ]
        lines = map(json.loads, (folder / "measured.err").read_text().splitlines())
        scraped = [next(line["metrics"] for line in lines if line["event"] == "serving")]
        loads = [stack.enter_context(Load(server.address)) for server in servers]
        hosts = host_names(FRONTIER_HOSTS)
        for load in loads:
            load.create_crawl("bench", hosts, 0, launch=True)
            requests = schedule_requests("bench", links(hosts, URIS // LINKS_PER_PAGE))
            load.schedule(requests, crawl_pb2.VERDICT_QUEUED)()
        with _scrapes(scraped):
            for name, count, nodes, leases_a_call in (
                ("Next+Finished by 50, 4 nodes", BATCHED, 4, 50),
                ("Next+Finished one by one, 16 nodes", SINGLE, 16, 1),
            ):
                works = [
                    fetch_together([Fetcher(load, leases_a_call) for _ in range(nodes)], count)
                    for load in loads
                ]
                programs = [_Program(work, server.cpu_s) for work, server in zip(works, servers, strict=True)]
                yield from _compared(name, programs, SERVER)
        yield from _node(folder)


def _node(folder: Path) -> Iterator[Figure]:
    hosts = host_names(HOSTS)
    with ExitStack() as stack:
        site = stack.enter_context(Child("benchmarks.page_server", str(PAGES), errors=folder / "site.err"))
        port = site.hear()
        urls = listed_pages(hosts, port)[:NODE_PAGES]
        programs, scraped = [], []
        for name, flags in (("plain", ()), ("measured", METRICS)):
            server = stack.enter_context(FrontierServer(folder / f"{name}-node"))
            load = stack.enter_context(Load(server.address))
            options = (f"--frontier={server.address}", f"--toes={THREADS}", f"--warc={folder / name}.warcs")
            resolves = [f"--resolve={host}:{port}:127.0.0.1" for host in hosts]
            node = stack.enter_context(
                Child("crawler_node", *options, *resolves, *flags, errors=folder / f"{name}-node.out")
            )
            scraped += [address] if (address := metrics_of(node.hear())) else []
            programs.append(_Program(_pages(urls, node, server, load), node.cpu_s))
        with _scrapes(scraped):
            yield from _compared(f"Pages of a node, {THREADS} toes", programs, CLIENT, NODE_TURNS)


def _pages(urls: Sequence[str], node: Child, server: FrontierServer, load: Load) -> Callable[[], int]:
    numbers = iter(range(1_000))
    return lambda: crawl_pages(f"round-{next(numbers)}", urls, node, server, load).pages


def _compared(name: str, programs: Sequence[_Program], process: str, turns: int = TURNS) -> Iterator[Figure]:
    """Figures of both. They take many short turns, and who begins changes. A turn is compared with the turn
    beside it, and the median counts: what else the machine does falls on both."""
    plain, measured = programs
    for program in programs:  # once, to fill caches
        program.work()
    loops_ms = [loop_ms()]
    for number in range(turns):
        for program in programs if number % 2 else reversed(programs):
            program.turn()
        loops_ms.append(loop_ms())
    more = statistics.median(ours / us for us, ours in zip(plain.us, measured.us, strict=True)) - 1
    made = [
        _figure(f"{name}, {how}", program, loops_ms, process)
        for how, program in (("without metrics", plain), ("with metrics", measured))
    ]
    yield made[0]
    words = f"of the CPU of an item more with metrics ({name})"
    yield replace(made[1], limit=Limit(words, more, MOST))


def _figure(name: str, program: _Program, loops_ms: Sequence[float], process: str) -> Figure:
    cpu_us = {SERVER: 0.0, CLIENT: 0.0} | {process: statistics.median(program.us)}
    return Figure(name, program.items, 0.0, cpu_us, min(loops_ms))


@contextmanager
def _same_hashes() -> Iterator[None]:
    """Programs that start within hash alike: otherwise one of two is some per cent slower by chance."""
    before = os.environ.get("PYTHONHASHSEED")
    os.environ["PYTHONHASHSEED"] = "0"
    try:
        yield
    finally:
        del os.environ["PYTHONHASHSEED"]
        if before is not None:
            os.environ["PYTHONHASHSEED"] = before


@contextmanager
def _scrapes(addresses: Sequence[str]) -> Iterator[None]:
    """Scrapes pages within, as often as a Prometheus would."""
    over = threading.Event()

    def scrape() -> None:
        while True:
            for address in addresses:
                with urllib.request.urlopen(f"http://{address}/metrics") as page:
                    page.read()
            if over.wait(SCRAPE_EVERY_S):
                return

    thread = threading.Thread(target=scrape, name="scrapes")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
