"""A frontier that does everything at once, for long: how soon Next answers, whether memory grows, whether
counts stay exact, and whether any host is forgotten.

As many URIs come in as are fetched, so that what waits stays as much; readers follow events and outcomes, an
operator looks at lists, and checkpoints are made.
"""

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc
from benchmarks.calibration import loop_ms
from benchmarks.fetchers import Fetcher
from benchmarks.load import BATCH, CALL_S, Load, schedule_requests
from benchmarks.measuring import CLIENT, SERVER, Figure, Limit, waits_ms
from benchmarks.processes import FrontierServer
from benchmarks.workload import Workload

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

LEAST_MIN, DEFAULT_MIN, MOST_MIN = 0.5, 30.0, 10_000.0
QUEUES, WAITING = 20_000, 200_000
PER_S = 1_500  # URIs that come in, and as many that are fetched
NODES, LEASES_A_CALL = 4, 100
EVENT_READERS, OUTCOME_READERS = 8, 2
LOOK_S, SAMPLE_S = 2.0, 5.0
CHECKPOINT_S = 300.0
CACHE = ("--cache-mib", "64")
MAX_P99_MS = 50.0
MAX_GROWTH = 1.2  # of memory, from a third of the time on
MAX_FORGOTTEN_S = 600.0


class Books:
    """What was acknowledged, and since when each host has waited for a lease."""

    def __init__(self) -> None:
        self.taken_in = self.fetched = 0
        self.waits_s: list[float] = []
        self._waiting: dict[str, int] = {}
        self._since_s: dict[str, float] = {}
        self._longest_s = 0.0
        self._lock = threading.Lock()

    def queued(self, hosts: Sequence[str]) -> None:
        """A URI of each of these is in its queue."""
        now_s = time.monotonic()
        with self._lock:
            self.taken_in += len(hosts)
            for host in hosts:
                self._waiting[host] = self._waiting.get(host, 0) + 1
                self._since_s.setdefault(host, now_s)

    def leased(self, hosts: Sequence[str], robots: Sequence[str]) -> None:
        """A URI of each of these is out, or its robots.txt."""
        now_s = time.monotonic()
        with self._lock:
            for host in (*hosts, *robots):
                self._longest_s = max(self._longest_s, now_s - self._since_s.get(host, now_s))
                self._since_s[host] = now_s
            for host in hosts:
                self._waiting[host] -= 1
                if not self._waiting[host]:
                    del self._waiting[host], self._since_s[host]

    def finished(self, pages: int) -> None:
        """So many have been fetched."""
        with self._lock:
            self.fetched += pages

    def longest_s(self) -> float:
        """The longest time that a host with URIs has waited for a lease."""
        now_s = time.monotonic()
        with self._lock:
            return max([self._longest_s, *(now_s - since_s for since_s in self._since_s.values())])


class Together:
    """Threads that do their work again and again, within a `with` block that lasts so long.

    Raises what one of them raised; the others end then, too.
    """

    def __init__(self, length_s: float) -> None:
        self._end_s = time.monotonic() + length_s
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        self._problems: list[Exception] = []
        self._streams: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._ended.wait(max(self._end_s - time.monotonic(), 0))
        self._ended.set()
        for stream in self._streams:
            stream.cancel()
        for thread in self._threads:
            thread.join()
        if self._problems and error is None:
            raise RuntimeError("a part of the mixed load failed") from self._problems[0]

    def paced(self, every_s: float, work: Callable[[], object], after_s: float = 0.0) -> None:
        """Do work that often, first after a while; at once, where that takes longer."""

        def run() -> None:
            self._ended.wait(after_s)
            due_s = time.monotonic()
            while not self._ended.is_set():
                work()
                due_s = max(due_s + every_s, time.monotonic() - every_s)  # does not make up for much
                self._ended.wait(due_s - time.monotonic())

        self._start(run)

    def following(self, stream: Any) -> None:
        """Read a stream to its end."""

        def run() -> None:
            try:
                for _ in stream:
                    pass
            except grpc.RpcError:
                if not self._ended.is_set():
                    raise

        self._streams.append(stream)
        self._start(run)

    def _start(self, run: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                run()
            except Exception as problem:
                self._problems.append(problem)
                self._ended.set()

        self._threads.append(threading.Thread(target=guarded, daemon=True))
        self._threads[-1].start()


def mixed(folder: Path, minutes: float) -> Iterator[Figure]:
    """So many minutes of it."""
    work, books = Workload(QUEUES), Books()
    with FrontierServer(folder / "store", *CACHE) as server, Load(server.address) as load:
        load.create_crawl("bench", ["example"], surt_prefixes=["http://(example,"], run_while_empty=True)
        feed = _feeder(load, work, books)
        while books.taken_in < WAITING:
            feed()
        books.queued(work.hosts[:1])  # the seed
        load.launch("bench", work.hosts[0])
        loops_ms, before_s, start_s = [loop_ms()], server.cpu_s(), time.monotonic()
        client_s = time.process_time()
        resident_mib: list[float] = []
        with ExitStack() as opened:
            nodes = [opened.enter_context(Load(server.address)) for _ in range(NODES)]
            with Together(minutes * 60) as together:
                together.paced(BATCH / PER_S, feed)
                for number, node in enumerate(nodes):  # each at another time: they know nothing of each other
                    every_s = NODES * LEASES_A_CALL / PER_S
                    together.paced(every_s, _fetcher(node, books), number * every_s / NODES)
                together.paced(LOOK_S, _operator(load))
                together.paced(CHECKPOINT_S, _checkpoints(load))
                together.paced(SAMPLE_S, lambda: resident_mib.append(server.resident_mib()))
                for _ in range(EVENT_READERS):
                    together.following(load.events("bench"))
                for _ in range(OUTCOME_READERS):
                    together.following(load.outcomes("bench"))
        used_s = {SERVER: server.cpu_s() - before_s, CLIENT: time.process_time() - client_s}
        per_s = books.fetched / (time.monotonic() - start_s)
        loops_ms.append(loop_ms())
        _check(load, books)
    waits = waits_ms(books.waits_s)
    early = max(resident_mib[: len(resident_mib) // 3 + 1])
    late = max(resident_mib[len(resident_mib) * 5 // 6 :])
    figure = Figure(
        f"Next amid all else, {minutes:g} minutes",
        books.fetched,
        per_s,
        {name: seconds / max(books.fetched, 1) * 1e6 for name, seconds in used_s.items()},
        min(loops_ms),
        waits,
        {"after a third": early, "in the end": late},
        Limit("ms to answer 99 of 100 Next amid all else", waits["p99"], MAX_P99_MS),
    )
    yield figure
    grown = Limit("times the memory after a third of the time", late / early, MAX_GROWTH)
    yield replace(figure, name="the same, memory", limit=grown)
    words = "s that a host with URIs waited for a lease, at most"
    yield replace(figure, name="the same, hosts", limit=Limit(words, books.longest_s(), MAX_FORGOTTEN_S))


def _feeder(load: Load, work: Workload, books: Books) -> Callable[[], None]:
    """Offers the next batch of new URIs."""
    numbers = itertools.count(0, BATCH)

    def feed() -> None:
        part = work.part(next(numbers), BATCH)
        books.queued([_host(link.uri) for link in part])  # before a node can have one of them
        load.schedule(schedule_requests("bench", part), crawl_pb2.VERDICT_QUEUED)()

    return feed


def _fetcher(load: Load, books: Books) -> Callable[[], None]:
    """Takes leases, and reports them."""
    fetcher = Fetcher(load, LEASES_A_CALL)
    fetcher.waits_s = books.waits_s

    def fetch() -> None:
        leases = fetcher.next()
        robots = [lease.purpose == frontier_pb2.PURPOSE_ROBOTS for lease in leases]
        hosts = [_host(lease.uri) for lease in leases]
        pages = [host for host, its in zip(hosts, robots, strict=True) if not its]
        books.leased(pages, [host for host, its in zip(hosts, robots, strict=True) if its])
        if leases:
            fetcher.finished(leases)
        books.finished(len(pages))

    return fetch


def _operator(load: Load) -> Callable[[], None]:
    """Looks at what there is to see of a crawl."""
    admin = load.admin

    def look() -> None:
        admin.GetStatistics(admin_pb2.GetStatisticsRequest(crawl="bench"), timeout=CALL_S)
        admin.ListQueues(admin_pb2.ListQueuesRequest(crawl="bench"), timeout=CALL_S)
        admin.ListLargestQueues(admin_pb2.ListLargestQueuesRequest(crawl="bench"), timeout=CALL_S)
        admin.ListHosts(admin_pb2.ListHostsRequest(crawl="bench"), timeout=CALL_S)
        admin.ListUris(admin_pb2.ListUrisRequest(crawl="bench"), timeout=CALL_S)

    return look


def _checkpoints(load: Load) -> Callable[[], None]:
    """Makes a checkpoint, and deletes the one before."""
    made: list[str] = []

    def make() -> None:
        answer = load.admin.CreateCheckpoint(admin_pb2.CreateCheckpointRequest(), timeout=CALL_S)
        made.append(answer.checkpoint.checkpoint)
        if len(made) > 1:
            old = admin_pb2.DeleteCheckpointRequest(checkpoint=made.pop(0))
            load.admin.DeleteCheckpoint(old, timeout=CALL_S)

    return make


def _check(load: Load, books: Books) -> None:
    """Raises RuntimeError unless the server counts what it acknowledged."""
    answer = load.admin.GetStatistics(admin_pb2.GetStatisticsRequest(crawl="bench"), timeout=CALL_S)
    told = answer.statistics
    waiting = books.taken_in - books.fetched
    expected = {"taken in": books.taken_in, "fetched": books.fetched, "waiting": waiting}
    found = told.discovered_count, told.succeeded_count, told.queued_count
    counts = dict(zip(expected, found, strict=True))
    if counts != expected:
        raise RuntimeError(f"the server counts {counts}; it acknowledged {expected}")


def _host(uri: str) -> str:
    return uri.split("/", 3)[2]
