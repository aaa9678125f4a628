"""The cost of metrics: the same work by programs with --metrics, which are scraped, and without, in turn."""

import json
import statistics
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
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
PAIRS, TURNS = 20, 6  # pairs of programs, and how often each program of a pair works
URIS, FRONTIER_HOSTS = 20_000, 2000
METRICS = ("--metrics", "127.0.0.1:0")
BATCHED = "Next+Finished by 50, 4 nodes"
SINGLE = "Next+Finished one by one, 16 nodes"
NODE = f"Pages of a node, {THREADS} toes"
BATCHED_LEASES, SINGLE_LEASES, NODE_PAGES = 1_000, 250, 300  # in a turn

Work = tuple[Callable[[], int], Callable[[], float]]
"""Work that returns how many items it was, and the CPU time that its program has used so far."""


@dataclass
class _Case:
    """One kind of work, by programs without and with metrics."""

    process: str
    us: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    """CPU of an item, turn by turn, of both."""
    ratios: list[float] = field(default_factory=list)
    """The ratio of each pair of programs."""
    items: int = 0

    def compare(self, works: Sequence[Work]) -> None:
        """Let a pair take turns. Each turn is compared with the turn beside it; who begins changes."""
        turns: list[list[float]] = []
        for work, _ in works:  # once, to fill caches
            work()
        for number in range(TURNS):
            turn = [0.0, 0.0]
            for index in (0, 1) if number % 2 else (1, 0):
                work, cpu_s = works[index]
                since_s = cpu_s()
                count = work()
                turn[index] = (cpu_s() - since_s) / count * 1e6
                self.items += count
            turns.append(turn)
        for index in (0, 1):
            self.us[index].extend(turn[index] for turn in turns)
        self.ratios.append(statistics.median(ours / plain for plain, ours in turns))


def metrics(folder: Path) -> Iterator[Figure]:
    """Leases by 50 and one by one, where metrics of calls weigh most; and pages of a node.

    Of two programs that do the same, one uses some per cent more CPU, by chance and for as long as it runs.
    So there are many pairs, and the median pair counts.
    """
    cases = {BATCHED: _Case(SERVER), SINGLE: _Case(SERVER), NODE: _Case(CLIENT)}
    loops_ms = [loop_ms()]
    with Child("benchmarks.page_server", str(PAGES), errors=folder / "site.err") as site:
        port = site.hear()
        for number in range(PAIRS):
            names = (
                ("plain", "measured") if number % 2 else ("measured", "plain")
            )  # in the order of their starts
            here = folder / str(number)
            here.mkdir()
            _frontiers(here, names, cases)
            _nodes(here, names, cases[NODE], port)
            loops_ms.append(loop_ms())
    for name, case in cases.items():
        for how, us in zip(("without metrics", "with metrics"), case.us, strict=True):
            cpu_us = {SERVER: 0.0, CLIENT: 0.0} | {case.process: statistics.median(us)}
            figure = Figure(f"{name}, {how}", case.items // 2, 0.0, cpu_us, min(loops_ms))
            if us is case.us[1]:
                words = f"of the CPU of an item more with metrics ({name})"
                figure = replace(figure, limit=Limit(words, statistics.median(case.ratios) - 1, MOST))
            yield figure


def _frontiers(folder: Path, names: Sequence[str], cases: Mapping[str, _Case]) -> None:
    """Let a pair of frontiers give leases."""
    programs: dict[str, tuple[FrontierServer, Load]] = {}
    scraped: list[str] = []
    with ExitStack() as stack:
        for name in names:
            flags = METRICS if name == "measured" else ()
            server = stack.enter_context(FrontierServer(folder / name, *flags))
            lines = map(json.loads, (folder / f"{name}.err").read_text().splitlines())
            scraped += [line["metrics"] for line in lines if "metrics" in line]
            load = stack.enter_context(Load(server.address))
            hosts = host_names(FRONTIER_HOSTS)
            load.create_crawl("bench", hosts, 0, launch=True)
            requests = schedule_requests("bench", links(hosts, URIS // LINKS_PER_PAGE))
            load.schedule(requests, crawl_pb2.VERDICT_QUEUED)()
            programs[name] = server, load
        pair = [programs["plain"], programs["measured"]]
        with _scrapes(scraped):
            for case, leases, nodes, leases_a_call in (
                (cases[BATCHED], BATCHED_LEASES, 4, 50),
                (cases[SINGLE], SINGLE_LEASES, 16, 1),
            ):
                crowds = [[Fetcher(load, leases_a_call) for _ in range(nodes)] for _, load in pair]
                works = [fetch_together(crowd, leases) for crowd in crowds]
                case.compare([(work, server.cpu_s) for work, (server, _) in zip(works, pair, strict=True)])


def _nodes(folder: Path, names: Sequence[str], case: _Case, port: str) -> None:
    """Let a pair of nodes fetch pages, each for a frontier of its own."""
    hosts = host_names(HOSTS)
    pages = listed_pages(hosts, port)[:NODE_PAGES]
    works: dict[str, Work] = {}
    scraped: list[str] = []
    with ExitStack() as stack:
        for name in names:
            server = stack.enter_context(FrontierServer(folder / f"{name}-node"))
            load = stack.enter_context(Load(server.address))
            options = (f"--frontier={server.address}", f"--toes={THREADS}", f"--warc={folder / name}.warcs")
            resolves = [f"--resolve={host}:{port}:127.0.0.1" for host in hosts]
            flags = METRICS if name == "measured" else ()
            errors = folder / f"{name}.out"
            node = stack.enter_context(Child("crawler_node", *options, *resolves, *flags, errors=errors))
            scraped += [address] if (address := metrics_of(node.hear())) else []
            works[name] = _pages(pages, node, server, load), node.cpu_s
        with _scrapes(scraped):
            case.compare([works["plain"], works["measured"]])


def _pages(urls: Sequence[str], node: Child, server: FrontierServer, load: Load) -> Callable[[], int]:
    numbers = iter(range(1_000))
    return lambda: crawl_pages(f"round-{next(numbers)}", urls, node, server, load).pages


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
