"""Serves a program's metrics to Prometheus, over plain HTTP, in threads of its own."""

import socket
import socketserver
import sys
import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from itertools import accumulate
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import MetricsHandler
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry
from prometheus_client.utils import floatToGoString

from ..serving.addresses import Address
from .metrics import Metric, MetricType

PATH = "/metrics"
MAX_CONNECTIONS = 8
IDLE_S = 10.0  # after so long a silent connection is closed
MOST_S = 30.0  # and after so long any: its caller may send, or take, a byte now and then

Family = CounterMetricFamily | GaugeMetricFamily


class Unavailable(Exception):
    """The program cannot tell its metrics now."""


def new_registry() -> CollectorRegistry:
    """A registry that has the metrics of the process."""
    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    return registry


class Count:
    """A count under its labels. The library's own touch several times as many objects, which counts where a
    program has more to do than its caches hold. Thread-safe, as is Buckets."""

    __slots__ = ("_lock", "value")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.value = 0.0

    def inc(self, more: float = 1) -> None:
        """Count one more, or so many."""
        with self._lock:
            self.value += more


class Buckets:
    """Observations under their labels, counted in buckets."""

    __slots__ = ("_bounds", "_lock", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._lock = threading.Lock()
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count an observation."""
        bucket = bisect_left(self._bounds, value)
        with self._lock:
            self.counts[bucket] += 1
            self.sum += value

    def add(self, counts: Sequence[int], total: float) -> None:
        """Add observations that were counted elsewhere, by bucket, and their sum."""
        with self._lock:
            self.counts = [own + others for own, others in zip(self.counts, counts, strict=True)]
            self.sum += total

    def shown(self) -> tuple[list[tuple[str, float]], float]:
        """The buckets as Prometheus has them, each with those below it; and the sum."""
        with self._lock:
            counts, total = list(self.counts), self.sum
        bounds = (*map(floatToGoString, self._bounds), "+Inf")
        return list(zip(bounds, accumulate(counts), strict=True)), total


class Counter(Collector):
    """A counter that is kept up while the program works. Keep its children: to find one takes longer."""

    def __init__(self, metric: Metric, registry: CollectorRegistry) -> None:
        self._metric = metric
        self._children: dict[tuple[str, ...], Count] = {}
        self._lock = threading.Lock()
        registry.register(self)

    def labels(self, *labels: str) -> Count:
        """The count under these labels."""
        with self._lock:
            return self._children.setdefault(labels, Count())

    def collect(self) -> Iterable[Family]:
        family = _family(self._metric)
        with self._lock:
            children = list(self._children.items())
        for labels, child in children:
            family.add_metric(labels, child.value)
        yield family


class Histogram(Collector):
    """A histogram that is kept up while the program works. Keep its children, as those of a counter."""

    def __init__(self, metric: Metric, registry: CollectorRegistry) -> None:
        self._metric = metric
        self._children: dict[tuple[str, ...], Buckets] = {}
        self._lock = threading.Lock()
        registry.register(self)

    def labels(self, *labels: str) -> Buckets:
        """The observations under these labels."""
        with self._lock:
            return self._children.setdefault(labels, Buckets(self._metric.buckets))

    def collect(self) -> Iterable[HistogramMetricFamily]:
        metric = self._metric
        family = HistogramMetricFamily(metric.name, metric.meaning, labels=metric.labels)
        with self._lock:
            children = list(self._children.items())
        for labels, child in children:
            family.add_metric(labels, *child.shown())
        yield family


class Families:
    """Values that are read at a scrape. A metric without values is named all the same."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._families = {metric.name: _family(metric) for metric in metrics}

    def add(self, metric: Metric, value: float, *labels: str) -> None:
        """Add the value of a metric under its labels."""
        self._families[metric.name].add_metric(labels, value)

    def __iter__(self) -> Iterator[Family]:
        return iter(self._families.values())


def _family(metric: Metric) -> Family:
    assert metric.kind is not MetricType.HISTOGRAM
    kind = CounterMetricFamily if metric.kind is MetricType.COUNTER else GaugeMetricFamily
    return kind(metric.name, metric.meaning, labels=metric.labels)


class MetricsPage:
    """A page at PATH that shows what a collector has. `start` it; `close` it before what it reads from."""

    def __init__(self, address: Address, collector: Collector) -> None:
        """Take an address; port 0 takes a free one. Raises OSError if it cannot be taken."""
        self._server = _Server(address, collector)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.25}, name="metrics", daemon=True
        )

    @property
    def address(self) -> str:
        """Where it is, HOST:PORT."""
        host, port = self._server.server_address[:2]
        return str(Address(host if isinstance(host, str) else host.decode(), port))

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def close(self) -> None:
        """Give the address back."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: Address, collector: Collector) -> None:
        found: Sequence[Any] = socket.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family, *_, place = found[0]
        self._room = threading.Semaphore(MAX_CONNECTIONS)
        super().__init__(place, _handler(collector))

    def server_bind(self) -> None:
        """Bind, without a look-up of the host's name, which may take long."""
        socketserver.TCPServer.server_bind(self)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        patience = threading.Timer(MOST_S, _cut_off, (request,))
        patience.daemon = True
        patience.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            patience.cancel()
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print a defect. A caller that has left is none."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def _cut_off(connection: socket.socket) -> None:
    with suppress(OSError):  # it has ended
        connection.shutdown(socket.SHUT_RDWR)


def _handler(collector: Collector) -> type[MetricsHandler]:
    class Handler(MetricsHandler):
        registry = collector
        timeout = IDLE_S

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != PATH:
                self.send_error(HTTPStatus.NOT_FOUND, f"The metrics are at {PATH}")
                return
            try:
                super().do_GET()
            except Unavailable as problem:  # before anything was sent
                self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, str(problem))

    return Handler
