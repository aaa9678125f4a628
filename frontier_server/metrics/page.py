"""The frontier's page of metrics.

A scrape runs in a thread of its own. It asks the event loop for what memory has, in slices between which
others are served; no row is read, and no operation waits. Numbers may be a flush ahead of what is durable.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as NoAnswer
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice

from toehold.shard.v1 import shard_pb2
from toehold_base.observability.metrics_page import (
    Families,
    Family,
    Histogram,
    MetricsPage,
    Unavailable,
    new_registry,
)

from ..config import Config
from ..core.operators.measures import CrawlMeasures
from ..core.state.model import Presence
from ..service.arrivals import Server, refused_early
from ..service.load import facts_message
from ..shell.runner import Runner
from ..stores.logged import LoggedStore
from ..stores.rocks import RocksStore, StoreStatistics
from . import definitions
from .crawls import add_crawls
from .log import COORDINATOR, add_logs
from .rpcs import Measured, Rpcs
from .shards import Load, add_shards, presences
from .store import add_store

LAG_EVERY_S = 0.25
ANSWER_S = 5.0  # for the event loop to answer
CRAWLS_A_SLICE, HOSTS_A_SLICE = 20, 2_000


@dataclass(frozen=True, slots=True)
class _Reading:
    """The numbers of the event loop's side of the server at a scrape."""

    named: list[CrawlMeasures]
    others: list[CrawlMeasures]
    torn_down: int
    leases: int
    hosts: int
    resting: int
    nodes: Mapping[Presence, int]
    waiting_next: int
    awaiting_flush: int
    refused_early: dict[str, int]
    store: StoreStatistics
    loads: Sequence[Load]
    logs: Sequence[tuple[str, shard_pb2.LogFacts]]
    """With the labels that they have."""


Loads = Callable[[], Awaitable[Sequence[Load]]]
"""Asks shards for their loads."""


class FrontierMetrics:
    """The metrics of a frontier, and the page that shows them."""

    def __init__(
        self,
        runner: Runner,
        store: RocksStore,
        config: Config,
        build: tuple[str, str],
        loads: Loads | None = None,
    ) -> None:
        """Take the address. `build` is the version and the kind of core. A front has `loads`. Needs the
        running event loop. Raises OSError."""
        assert config.metrics is not None
        self._runner = runner
        self._store = store
        self._config = config
        self._build = build
        self._loads = loads
        self._loop = asyncio.get_running_loop()
        registry = new_registry()
        self._rpcs = Rpcs(registry)
        self._lag = Histogram(definitions.LOOP_LAG, registry).labels()
        flush, commit = (
            Histogram(metric, registry).labels() for metric in (definitions.FLUSH, definitions.COMMIT)
        )
        registry.register(self)
        self._page = MetricsPage(config.metrics, registry)
        runner.measure(flush.observe, commit.observe)

    def measured(self, server: Server) -> Measured:
        """A server to which services are added whose calls are measured."""
        return Measured(server, self._rpcs)

    @property
    def rpcs(self) -> Rpcs:
        """The calls."""
        return self._rpcs

    @property
    def address(self) -> str:
        """Where the page is, HOST:PORT."""
        return self._page.address

    def start(self) -> None:
        """Begin to answer."""
        self._page.start()
        self._runner.tasks.keep("watch of the event loop", self._watch_loop())

    async def close(self) -> None:
        """Answer no more."""
        await asyncio.to_thread(self._page.close)

    async def _watch_loop(self) -> None:
        while True:
            due_s = self._loop.time() + LAG_EVERY_S
            await asyncio.sleep(LAG_EVERY_S)
            self._lag.observe(max(self._loop.time() - due_s, 0.0))

    def collect(self) -> Iterable[Family]:
        """The metrics that are read at a scrape. Raises Unavailable if the event loop does not answer."""
        reading = self._read()
        server = Families(definitions.READ)
        server.add(definitions.AWAITING_FLUSH, reading.awaiting_flush)
        server.add(definitions.DISK_RESERVE, self._config.disk_reserve_bytes)
        server.add(definitions.BUILD_INFO, 1, *self._build)
        for reason, count in reading.refused_early.items():
            server.add(definitions.REFUSED, count, reason)
        with suppress(OSError):  # then the metric has no value
            space = os.statvfs(self._config.data)
            server.add(definitions.DISK_FREE, space.f_bavail * space.f_frsize)
        whole = Families(definitions.OF_ALL)
        whole.add(definitions.CRAWLS_TORN_DOWN, reading.torn_down)
        whole.add(definitions.LEASES_OUT, reading.leases)
        whole.add(definitions.HOSTS, reading.hosts)
        whole.add(definitions.HOSTS_RESTING, reading.resting)
        whole.add(definitions.WAITING_NEXT, reading.waiting_next)
        for presence in Presence:
            whole.add(definitions.NODES, reading.nodes.get(presence, 0), presence.value)
        crawls, store = Families(definitions.OF_CRAWLS), Families(definitions.OF_STORE)
        shards, logs = Families(definitions.OF_SHARDS), Families(definitions.OF_LOGS)
        add_crawls(crawls, reading.named, reading.others)
        add_shards(shards, reading.loads)
        add_logs(logs, reading.logs)
        add_store(store, reading.store)
        return chain(crawls, whole, server, shards, logs, store)

    def _read(self) -> _Reading:
        asked = asyncio.run_coroutine_threadsafe(self._reading(), self._loop)
        try:
            return asked.result(ANSWER_S)
        except NoAnswer:
            asked.cancel()
            raise Unavailable(f"the frontier did not answer within {ANSWER_S:g} s") from None
        except CancelledError:
            raise Unavailable("the frontier stops") from None

    async def _reading(self) -> _Reading:
        runner, measures = self._runner, self._runner.core.measures
        named, others = measures.crawls(definitions.MAX_CRAWLS)
        named_measures = await self._crawls(named)
        other_measures = await self._crawls(others)
        hosts = measures.hosts()
        resting = 0
        for start in range(0, len(hosts), HOSTS_A_SLICE):
            resting += measures.resting(hosts[start : start + HOSTS_A_SLICE], runner.now_ms())
            await asyncio.sleep(0)
        nodes: Mapping[Presence, int] = measures.nodes(runner.now_ms())
        waiting_next = len(runner.waiting)
        loads = [] if self._loads is None else await self._loads()
        if loads:  # a front has no nodes of its own, and its calls wait elsewhere
            nodes, waiting_next = presences(loads), self._rpcs.open_calls("Next")
        return _Reading(
            named_measures,
            other_measures,
            measures.torn_down,
            runner.core.nodes.leases_out + sum([load.shard.leased_count for load in loads]),
            len(hosts) + sum([load.host_count for load in loads]),
            resting + sum([load.resting_count for load in loads]),
            nodes,
            waiting_next,
            runner.awaiting_flush,
            dict(refused_early),
            self._store.statistics(),
            loads,
            self._logs(loads),
        )

    def _logs(self, loads: Sequence[Load]) -> list[tuple[str, shard_pb2.LogFacts]]:
        if not isinstance(self._store, LoggedStore):
            return []
        own = facts_message(self._store.facts(self._runner.now_ms()))
        others = [(str(load.shard.shard), load.log_facts) for load in loads if load.HasField("log_facts")]
        return [(COORDINATOR, own), *others]

    async def _crawls(self, numbers: Iterable[int]) -> list[CrawlMeasures]:
        measures: list[CrawlMeasures] = []
        for part in _slices(numbers, CRAWLS_A_SLICE):
            found = map(self._runner.core.measures.crawl, part)
            measures.extend(crawl for crawl in found if crawl is not None)
            await asyncio.sleep(0)
        return measures


def _slices(numbers: Iterable[int], size: int) -> Iterator[list[int]]:
    left = iter(numbers)
    while part := list(islice(left, size)):
        yield part
