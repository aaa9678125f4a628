"""The front of a frontier with several shards: the router and the coordinator, joined.

They know each other through a few functions alone, since they need not be in one process.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NoReturn, cast

import grpc

from toehold.frontier.v1 import admin_pb2, frontier_pb2
from toehold.shard.v1 import shard_pb2, shard_pb2_grpc

from ..config import Config
from ..coordinator.coordinator import Announcement, Coordinator
from ..coordinator.errands import Errands
from ..coordinator.jobs import PartedJobs
from ..coordinator.leader import Leader
from ..coordinator.parking import Parked, Parking
from ..coordinator.requests import Requests
from ..coordinator.whole import whole_crawls
from ..core.core import Core
from ..core.opening.registry import MakeCrawl
from ..core.spec.settings import CrawlSettings
from ..core.state.model import Verdict
from ..logs.crawl_log import CrawlLogs
from ..router.candidates import Candidates
from ..router.chances import Chances
from ..router.frontier import RoutedFrontier
from ..router.guide import Board, CountCalls, FrontService
from ..router.introductions import Introductions
from ..router.loads import loads_of
from ..router.operators import RoutedAdmin
from ..router.places import Placing
from ..service import Arrivals, FrontierService, Gate
from ..service.arrivals import Server
from ..shards.links import Link, Links
from ..shards.locations import Location, Locations, watch_locations
from ..shards.trust import Trust
from ..shards.watch import watch_all
from ..shell.exchange import Exchange
from ..shell.runner import Closing, Runner
from ..stores.checkpoints import Checkpoints
from .inner import locations_file
from .offers import Offers
from .shard_map import MapUnusable, ShardMap, read_map

START_S = 10.0
CLUSTER_START_S = 1.0  # their machine may be lost
CRAWLS_PLACED = 1_000  # whose settings the router has at hand


def map_around(config: Config) -> ShardMap:
    """The map of the frontier that a front's data directory belongs to. Raises MapUnusable."""
    found = read_map(config.data.parent)
    if found is None:
        raise MapUnusable("has no shards")
    return found


def crawls_of(shard_map: ShardMap) -> MakeCrawl:
    """Makes the crawls of a front."""
    return whole_crawls(shard_map.shards)


class Front:
    """A front that can be served."""

    def __init__(
        self, config: Config, shard_map: ShardMap, core: Core, runner: Runner, trust: Trust | None
    ) -> None:
        """With `trust`, shards may be on other machines."""
        assert config.sockets is not None, "a front is told where the shards' sockets are"
        names = shard_map.names[: shard_map.shards]
        if trust is None:
            locations = [Location(socket=str(config.sockets / f"{name}.sock")) for name in names]
            links = [Link(number, location) for number, location in enumerate(locations)]
        else:
            links = [Link(number, None, trust) for number in range(len(names))]
        self._is_of_cluster = trust is not None
        self.links = Links(links, shard_map.shard_of)
        self._names = shard_map.names
        self._config = config
        self._core = core
        self._runner = runner
        self._chances = Chances(self.links, runner.tasks)
        self._coordinator = Coordinator(core.shard, shard_map.shards)
        parking = Parking(core.shard)
        self._leader = Leader(self._coordinator, parking, runner, links, self._announce, self._deliver)
        jobs = PartedJobs(core.shard, shard_map.shards)
        self._errands = Errands(jobs, runner, links)
        self._requests = Requests(self._coordinator, parking, jobs, self._leader, runner)
        self._placing = functools.lru_cache(maxsize=CRAWLS_PLACED)(self._made_placing)
        self._candidates = Candidates(self.links, self._placing_for, self._requests)
        self._introductions = Introductions(self.links, self._requests)
        self._board = Board(self.links, self._requests)
        self._offers = Offers(self.links, self._candidates, core.shard.registry.__contains__)

    def register(
        self, server: Server, logs: CrawlLogs, checkpoints: Checkpoints, start_ms: int, gate: Gate
    ) -> Arrivals:
        """Let a server serve the contract's services over all shards; the count of their requests."""
        arrivals = Arrivals(gate, self._runner.log_check)
        frontier = frontier_pb2.DESCRIPTOR.services_by_name["FrontierService"]
        admin = admin_pb2.DESCRIPTOR.services_by_name["FrontierAdminService"]
        whole = FrontierService(Exchange(self._runner), self._config)
        fetchers = RoutedFrontier(
            self.links, self._chances, self._candidates, self._requests, self._introductions, whole
        )
        operators = RoutedAdmin(
            self._runner,
            self._config,
            logs,
            checkpoints,
            start_ms,
            self.links,
            self._placing_of,
            self._requests,
        )
        arrivals.register(server, fetchers, frontier, self._config.read_only)
        arrivals.register(server, operators, admin, self._config.read_only)
        return arrivals

    def register_guide(self, server: Server, count_calls: CountCalls | None) -> None:
        """Let a server serve the doors of a cluster's machines, too."""
        places = self._core.shard.places
        guide = FrontService(self._board, self._requests, self._introductions, places, count_calls)
        shard_pb2_grpc.add_FrontServiceServicer_to_server(guide, cast(grpc.aio.Server, server))

    async def begin(self, tell_of: Callable[[str, bool], None]) -> None:
        """Begin to lead the shards, or only to read them. At a start they are all there soon; after that one
        may be away. `tell_of` gets the name of each shard that comes, or is away."""
        if self._is_of_cluster:
            watching = watch_locations(locations_file(self._config), [self._take_locations])
            self._runner.tasks.keep("locations of shards", watching)
            self._runner.tasks.keep("guidance of doors", self._board.run())
        for link, name in zip(self.links.all, self._names, strict=False):
            tell = functools.partial(self._tell_of, functools.partial(tell_of, name))
            self._runner.tasks.keep(f"presence of {name}", _presence(link, tell))
        if self._config.read_only:
            await watch_all(self.links, self._runner.tasks)
            return
        await self._leader.begin()
        self._runner.tasks.keep("parts of jobs", self._errands.run())
        await self._leader.all_present(CLUSTER_START_S if self._is_of_cluster else START_S)

    def _take_locations(self, locations: Locations) -> None:
        for link, name in zip(self.links.all, self._names, strict=False):
            link.move(locations.get(name))

    def _tell_of(self, tell: Callable[[bool], None], is_there: bool) -> None:
        tell(is_there)
        self._board.note_presence()

    def begin_close(self) -> None:
        """End all waits for leases, and the guidance of doors."""
        why = Closing("STORE_FAILED" if self._runner.failed.done() else "SHUTTING_DOWN")
        self._chances.end(why)
        self._board.end(why)

    async def loads(self) -> list[shard_pb2.TellLoadResponse]:
        """The load of each shard; of one that is away only its number, and the state of its log."""
        return await loads_of(self.links, self._requests, asks_away=self._is_of_cluster)

    async def leases_out(self) -> int:
        """How many leases the shards have given."""
        return sum([load.shard.leased_count for load in await self.loads()])

    async def close(self) -> None:
        """Leave the shards."""
        await self.links.close()

    def _placing_of(self, name: str) -> Placing:
        """How the router places the URIs of a crawl. Raises UnknownCrawl."""
        crawl = self._core.shard.registry.named(name)
        return self._placing(crawl.number)

    async def _placing_for(self, name: str) -> Placing:
        return self._placing_of(name)

    def _made_placing(self, number: int) -> Placing:
        shard = self._core.shard
        crawl = shard.crawls.get(number)
        settings = crawl.settings if crawl is not None else self._torn_settings(number)
        return Placing(settings, shard.places, self.links.shard_of, number)

    def _torn_settings(self, number: int) -> CrawlSettings:
        registry = self._core.shard.registry
        name = next(name for name, known in registry.torn.items() if known == number)
        return registry.named(name).settings

    async def _announce(self, announcement: Announcement) -> Sequence[Verdict]:
        return await self._offers.announce(announcement)

    async def _deliver(self, parked: Parked) -> None:
        await self._offers.deliver(parked)


async def _presence(link: Link, tell: Callable[[bool], None]) -> NoReturn:
    """Tell when a shard comes, and when it is away again."""
    while True:
        await link.is_present.wait()
        tell(True)
        await link.until_away()
        tell(False)
