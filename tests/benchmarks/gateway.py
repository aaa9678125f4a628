"""URLFrontier's API: the gateway on a frontier, and URLFrontier's own RocksDB service on the same work.

Both do it with few queues, as in a crawl of some sites, and with many: with these a request of URLFrontier's
service takes longer.

The latter needs URLFRONTIER_HOME in the environment: its source tree, built.
"""

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from benchmarks.measuring import Figure, Limit, measure
from benchmarks.processes import Child, FrontierServer, cpu_s
from benchmarks.raw_http2 import Connection, Stream, packed
from benchmarks.workload import Workload
from frontier_harness.ports import KeptPort

from urlfrontier.urlfrontier_pb2 import (
    AckMessage,
    BatchAck,
    DiscoveredBatch,
    DiscoveredURLItem,
    GetParams,
    KnownURLItem,
    QueueDelayParams,
    URLInfo,
    URLItem,
)

HOME = "URLFRONTIER_HOME"
ROUNDS = 5
EACH = 10_000  # URLs a round
STREAMS = 2
BATCH = 100
LEASES = 100
PAIRS = 2_000  # a round
HOLD_S = 60
STUCK_S = 60.0
FAR_S = 10 * 365 * 86_400
STARTED = "Started URLFrontierServer"
START_S = 60.0

NEW, KNOWN, BATCHES, GET = (
    "PutURLs, new URLs",
    "PutURLs, known URLs",
    f"PutDiscovered, new URLs by {BATCH}",
    "GetURLs by 100, and their dates",
)
GOALS = {NEW: 0.5, GET: 1.0}
"""Least part of URLFrontier's rate."""


class Size(NamedTuple):
    """How many URLs are stored before any are asked for, and in how many queues."""

    urls: int
    queues: int

    def __str__(self) -> str:
        return f"{self.urls} URLs, {self.queues} queues"


SIZES = (Size(100_000, 5_000), Size(1_000_000, 50_000))


class Service(NamedTuple):
    """A service of URLFrontier's API."""

    name: str
    address: str
    cpu_s: Callable[[], float]
    gateway_cpu_s: Callable[[], float]


def urlfrontier(folder: Path) -> Iterator[Figure]:
    """What URLs cost by URLFrontier's API. The server is the frontier and the gateway together."""
    for size in SIZES:
        at = folder / str(size.queues)
        at.mkdir()
        yield from _compared(at, size)


def _compared(folder: Path, size: Size) -> Iterator[Figure]:
    with _gateway(folder) as service:
        ours = {figure.name: figure for figure in _figures(service, size)}
    home = os.environ.get(HOME)
    if not home:
        yield from ours.values()
        return
    with _peer(Path(home), folder) as service:
        theirs = {figure.name: figure for figure in _figures(service, size)}
    for name, figure in ours.items():
        peer = theirs[name]
        part = next((goal for kind, goal in GOALS.items() if name.startswith(kind)), None)
        words = f"times the gateway's rate is the goal, {part or 0:g} of URLFrontier's ({name})"
        limit = part and Limit(words, part * peer.per_s / figure.per_s, 1.0)
        yield replace(figure, limit=limit or None)
        yield replace(peer, name=f"URLFrontier: {name}")


def _figures(service: Service, size: Size) -> Iterator[Figure]:
    work = Workload(size.queues)
    count = ROUNDS * EACH
    with ExitStack() as stack:
        connections = [stack.enter_context(Connection(service.address)) for _ in range(STREAMS)]
        delay = QueueDelayParams(delay_requestable=0).SerializeToString()
        connections[0].finish(connections[0].open(_path("SetDelay")), delay)
        items = [
            URLItem(ID="k", discovered=DiscoveredURLItem(info=info)).SerializeToString()
            for info in _infos(work, 0, count)
        ]
        streams = [connection.open(_path("PutURLs")) for connection in connections]
        for name, status in ((NEW, AckMessage.OK), (KNOWN, AckMessage.SKIPPED)):
            expected = AckMessage(ID="k", status=status).SerializeToString()
            rounds = [
                _put(connections, streams, items[turn * EACH : (turn + 1) * EACH], expected)
                for turn in range(ROUNDS)
            ]
            yield _measured(f"{name}; {size}", service, rounds)
        batches = _batches(_infos(work, count, count))
        streams = [connection.open(_path("PutDiscovered")) for connection in connections]
        expected = BatchAck(ID="k", statuses=[AckMessage.OK] * BATCH).SerializeToString()
        some = EACH // BATCH
        rounds = [
            _put(connections, streams, batches[turn * some : (turn + 1) * some], expected, BATCH)
            for turn in range(ROUNDS)
        ]
        yield _measured(f"{BATCHES}; {size}", service, rounds)
        for first in range(2 * count, size.urls, count):
            batches = _batches(_infos(work, first, min(count, size.urls - first)))
            _put(connections, streams, batches, expected, BATCH)()
        for clients in (1, 4):
            fetchers = [_Fetcher(stack.enter_context(Connection(service.address))) for _ in range(clients)]
            waits_s: list[float] = []
            name = f"{GET}, {clients} client{'s' * (clients > 1)}; {size}"
            yield _measured(name, service, [_fetch(fetchers, waits_s)] * ROUNDS, waits_s)


def _measured(
    name: str, service: Service, rounds: Sequence[Callable[[], int]], waits_s: list[float] | None = None
) -> Figure:
    """The figure, with the gateway's part of the server's time."""
    before_s = service.gateway_cpu_s()
    figure = measure(name, service.cpu_s, rounds, waits_s)
    gateway_us = (service.gateway_cpu_s() - before_s) / figure.items * 1e6
    return replace(figure, cpu_us={**figure.cpu_us, "gateway": gateway_us}) if gateway_us else figure


def _infos(work: Workload, first: int, count: int) -> list[URLInfo]:
    return [URLInfo(url=link.uri, key=link.uri.split("/", 3)[2]) for link in work.part(first, count)]


def _batches(infos: Sequence[URLInfo]) -> list[bytes]:
    return [
        DiscoveredBatch(ID="k", items=infos[at : at + BATCH]).SerializeToString()
        for at in range(0, len(infos), BATCH)
    ]


def _path(rpc: str) -> str:
    return f"/urlfrontier.URLFrontier/{rpc}"


def _put(
    connections: Sequence[Connection],
    streams: Sequence[Stream],
    items: Sequence[bytes],
    expected: bytes,
    size: int = 1,
) -> Callable[[], int]:
    """Work that puts messages of so many URLs by several streams; how many URLs they were."""
    shares = [items[place :: len(connections)] for place in range(len(connections))]
    payloads = [packed(share) for share in shares]

    def put(place: int) -> None:
        answers = connections[place].exchange(streams[place], payloads[place].copy(), len(shares[place]))
        wrong = [answer for answer in answers if answer != expected]
        if wrong:
            raise RuntimeError(f"{len(wrong)} of {len(answers)} answers are unexpected: {wrong[0]!r}")

    def work() -> int:
        with ThreadPoolExecutor(len(connections)) as threads:
            list(threads.map(put, range(len(connections))))
        return len(items) * size

    return work


class _Fetcher:
    """A client that gets URLs, and puts each with a date far ahead."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._put = connection.open(_path("PutURLs"))
        self._request = GetParams(
            max_urls_per_queue=1, max_queues=LEASES, delay_requestable=HOLD_S
        ).SerializeToString()
        self._date = int(time.time()) + FAR_S

    def fetch(self, count: int, waits_s: list[float]) -> int:
        """Get so many URLs or some more; how many."""
        done, last_s = 0, time.perf_counter()
        while done < count:
            start_s = time.perf_counter()
            found = self._connection.finish(self._connection.open(_path("GetURLs")), self._request)
            now_s = time.perf_counter()
            if not found:
                if now_s - last_s > STUCK_S:
                    raise RuntimeError(f"no URL within {STUCK_S:g} s")
                time.sleep(0.01)
                continue
            waits_s.append(now_s - start_s)
            last_s = now_s
            items = [
                URLItem(
                    ID="k",
                    known=KnownURLItem(info=URLInfo.FromString(info), refetchable_from_date=self._date),
                ).SerializeToString()
                for info in found
            ]
            self._connection.exchange(self._put, packed(items), len(items))
            done += len(found)
        return done


def _fetch(fetchers: Sequence[_Fetcher], waits_s: list[float]) -> Callable[[], int]:
    share = PAIRS // len(fetchers)

    def work() -> int:
        with ThreadPoolExecutor(len(fetchers)) as threads:
            return sum(threads.map(lambda fetcher: fetcher.fetch(share, waits_s), fetchers))

    return work


@contextmanager
def _gateway(folder: Path) -> Iterator[Service]:
    with FrontierServer(folder / "store") as server:
        flags = ("--frontier", server.address, "--listen", "127.0.0.1:0", "--log-level", "warning")
        with Child("urlfrontier_gateway", *flags, errors=folder / "gateway.err") as gateway:
            address = gateway.hear().partition("serving on ")[2].partition(",")[0]
            yield Service("gateway", address, lambda: server.cpu_s() + gateway.cpu_s(), gateway.cpu_s)


@contextmanager
def _peer(home: Path, folder: Path) -> Iterator[Service]:
    """URLFrontier's service, as it comes: its answers do not wait for the disk."""
    jars = sorted((home / "service/target").glob("urlfrontier-service-*.jar"))
    if not jars:
        raise RuntimeError(
            f"{HOME} has no service/target/urlfrontier-service-*.jar: build it first (mvn package)"
        )
    log = folder / "urlfrontier.log"
    with KeptPort() as free, log.open("w") as output:
        command = (
            *("java", "-Xmx1g", "-cp", str(jars[0]), "crawlercommons.urlfrontier.service.URLFrontierServer"),
            *("-h", "127.0.0.1", "-p", str(free.port), "-c", str(home / "service/config.ini")),
            "implementation=crawlercommons.urlfrontier.service.rocksdb.RocksDBService",
            f"rocksdb.path={folder / 'peer'}",
        )
        free.close()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=folder
        )
        try:
            until_s = time.monotonic() + START_S
            while STARTED not in log.read_text():
                if process.poll() is not None or time.monotonic() > until_s:
                    raise RuntimeError(f"URLFrontier did not start: {log.read_text()[-2000:]}")
                time.sleep(0.1)
            yield Service("URLFrontier", free.address, lambda: cpu_s(process.pid), lambda: 0.0)
        finally:
            process.terminate()
            process.wait()
