"""What it costs to be asked for leases when nothing is due, however many queues rest."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from benchmarks.fetchers import Fetcher, fetch_together
from benchmarks.load import Link, Load, host_names, schedule_requests
from benchmarks.measuring import SERVER, Figure, Limit, measure
from benchmarks.processes import FrontierServer

from toehold.frontier.v1 import crawl_pb2

DEFAULT = (300_000,)
REST_MS = 6 * 3600 * 1000  # of each host after its robots.txt
PART = 100_000
ASKED = 400  # a round
ROUNDS = 5
NODES = 4
MAX_P99_MS, MAX_CPU_US = 5.0, 300.0


def idle(folder: Path, queues: Sequence[int]) -> Iterator[Figure]:
    """Next while all hosts rest, asked by one client and by four."""
    for number, count in enumerate(queues):
        with FrontierServer(folder / str(number)) as server, Load(server.address) as load:
            load.create_crawl("bench", ["example"], REST_MS, surt_prefixes=["http://(example,"])
            names = host_names(count)
            for first in range(0, count, PART):
                offered = [Link(f"https://{name}/", "") for name in names[first : first + PART]]
                load.schedule(schedule_requests("bench", offered), crawl_pb2.VERDICT_QUEUED)()
            load.launch("bench", names[0])
            fetchers = [Fetcher(load, 100) for _ in range(NODES)]
            fetch_together(fetchers, count)()
            for clients in (1, NODES):
                asking = [Fetcher(load, 100, wait_s=0) for _ in range(clients)]
                waits_s: list[float] = []
                for fetcher in asking:
                    fetcher.waits_s = waits_s
                name = f"Asked when nothing is due, {clients} client{'s' * (clients > 1)}; {count} queues"
                figure = measure(name, server.cpu_s, [_asking(asking)] * ROUNDS, waits_s)
                words = f"ms until 99 of 100 answers ({name})"
                yield replace(figure, limit=Limit(words, figure.wait_ms["p99"], MAX_P99_MS))
            words = f"µs of the server's CPU for an answer that there is nothing; {count} queues"
            limit = Limit(words, figure.scaled_us(SERVER), MAX_CPU_US)
            yield replace(figure, name=f"the same, CPU; {count} queues", limit=limit)


def _asking(fetchers: Sequence[Fetcher]) -> Callable[[], int]:
    """Work that asks at the same time, in vain; how often. Raises RuntimeError if anything was given."""

    def ask(fetcher: Fetcher) -> int:
        times = ASKED // len(fetchers)
        if any(fetcher.next() for _ in range(times)):
            raise RuntimeError("a lease was given though all hosts rest")
        return times

    def work() -> int:
        with ThreadPoolExecutor(len(fetchers)) as threads:
            return sum(threads.map(ask, fetchers))

    return work
