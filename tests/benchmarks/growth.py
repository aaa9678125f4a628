"""What an item costs as the frontier grows: new URIs, known ones, and leases, at each size."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.fetchers import Fetcher, fetch_together
from benchmarks.load import Load, schedule_requests
from benchmarks.measuring import SERVER, Figure, Limit, measure
from benchmarks.processes import PROGRAM, FrontierServer
from benchmarks.workload import RUN, Workload

from toehold.frontier.v1 import crawl_pb2

QUEUED, SEEN = crawl_pb2.VERDICT_QUEUED, crawl_pb2.VERDICT_ALREADY_SEEN
ROUNDS = 5
PART = 100_000  # URIs that are made at a time
LEASES_A_CALL = 100
PAIRS = 4_000  # a round, or a twentieth of the URIs
LEAST_URIS, MOST_QUEUES_A_URI = 1_000, 0.4  # of a size that can be measured
MOST_GROWTH = 1.3


@dataclass(frozen=True, slots=True)
class Size:
    """How much a frontier holds."""

    uris: int
    queues: int

    def __str__(self) -> str:
        return f"{self.uris} URIs, {self.queues} queues"


DEFAULT = (Size(100_000, 10_000), Size(1_000_000, 50_000))
WITHOUT_SYNC = ("--durability", "process")


def growth(folder: Path, sizes: Sequence[Size]) -> Iterator[Figure]:
    """The figures of each size; those of the larger ones beside those of the first."""
    least: dict[str, float] = {}
    for number, size in enumerate(sizes):
        for what, figure in figures(folder / str(number), size):
            cost = figure.scaled_us(SERVER)
            if what not in least:
                least[what] = cost
                yield figure
                continue
            words = f"times as much for {what} as with {sizes[0]}, with {size}"
            yield replace(figure, limit=Limit(words, cost / least[what], MOST_GROWTH))


def durability(folder: Path, size: Size) -> Iterator[Figure]:
    """The figures of one size where answers outlive the server's end, but no power cut."""
    for _, figure in figures(folder, size, *WITHOUT_SYNC):
        yield replace(figure, name=f"{figure.name}; durability process")


def figures(
    folder: Path, size: Size, *flags: str, program: Sequence[str] = PROGRAM
) -> Iterator[tuple[str, Figure]]:
    """The figures of one size with these flags, each with what it is about."""
    work = Workload(size.queues)
    round_uris = max(min(size.uris // 25, 40_000) // RUN * RUN, RUN)
    filled = size.uris - ROUNDS * round_uris
    with FrontierServer(folder, *flags, program=program) as server, Load(server.address) as load:
        load.create_crawl("bench", ["example"], surt_prefixes=["http://(example,"])
        for first in range(0, filled, PART):
            _offer(load, work, first, min(PART, filled - first), QUEUED)
        fresh = [_requests(work, filled + turn * round_uris, round_uris) for turn in range(ROUNDS)]
        rounds = [load.schedule(requests, QUEUED) for requests in fresh]
        yield "a new URI", measure(f"New URIs; {size}", server.cpu_s, rounds)
    # A server that has just started remembers no texts: each URI is looked up in the store.
    with FrontierServer(folder, *flags, program=program) as server, Load(server.address) as load:
        step = size.uris // ROUNDS // RUN * RUN
        known = [_requests(work, turn * step, round_uris) for turn in range(ROUNDS)]
        rounds = [load.schedule(requests, SEEN) for requests in known]
        yield "a known URI", measure(f"Known URIs; {size}", server.cpu_s, rounds)
        load.launch("bench", work.hosts[0])
        for clients in (1, 4):
            fetchers = [Fetcher(load, LEASES_A_CALL) for _ in range(clients)]
            fetch = fetch_together(fetchers, min(PAIRS, size.uris // 20))
            fetch()
            waits_s: list[float] = []
            for fetcher in fetchers:
                fetcher.waits_s = waits_s
            name = f"Next+Finished by {LEASES_A_CALL}, {clients} client{'s' * (clients > 1)}; {size}"
            figure = measure(name, server.cpu_s, [fetch] * ROUNDS, waits_s)
            mib = {"memory": server.resident_mib(), "disk": _disk_mib(folder)}
            yield f"a lease, {clients} client{'s' * (clients > 1)}", replace(figure, mib=mib)


def _requests(work: Workload, first: int, count: int) -> list[bytes]:
    return schedule_requests("bench", work.part(first, count))


def _offer(load: Load, work: Workload, first: int, count: int, verdict: crawl_pb2.Verdict.ValueType) -> None:
    load.schedule(_requests(work, first, count), verdict)()


def _disk_mib(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("store/*")) / 2**20
