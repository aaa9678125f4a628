"""The door of a machine of a cluster: where its callers arrive. Shards and front that answer may be
elsewhere.

Each machine has one, so callers may use any. It has no state that counts.
"""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Never

import structlog

from toehold_base.access.callers import Callers
from toehold_base.access.server_tls import ServerTls
from toehold_base.process.service_manager import ServiceManager
from toehold_base.serving.open_services import add_open_services

from ..config import FRONT, Config
from ..core.rows.errors import ShardAway
from ..router.candidates import Candidates
from ..router.chances import Chances
from ..router.fetchers import RoutedFetchers
from ..router.guided import Guided
from ..router.relay import register_door
from ..router.tally import Tally
from ..service import Arrivals, Gate, core_kind, refuse_openly, service_names, version
from ..shards.links import Link, Links
from ..shards.locations import Locations, watch_locations
from ..shell.tasks import Closing, Tasks
from .expiry import RENEW, watch_expiry
from .inner import locations_file, trust_of
from .listeners import listen
from .pulse import Pulse
from .server_options import bare_server
from .shard_map import COORDINATOR, ShardMap
from .signals import reread_at_hangup, stop_events

GRACE_S = 3.0
LOOK_S, PATIENCE_S = 0.5, 2.0

_log = structlog.get_logger()


def serve_door(
    config: Config,
    tls: ServerTls | None,
    callers: Callers | None,
    manager: ServiceManager,
    shard_map: ShardMap,
) -> str:
    """Serve until asked to stop; the failure that ended it, or "". Raises CannotListen."""
    return asyncio.run(_serve(config, tls, callers, manager, shard_map))


async def _serve(
    config: Config,
    tls: ServerTls | None,
    callers: Callers | None,
    manager: ServiceManager,
    shard_map: ShardMap,
) -> str:
    failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def fail(why: str, problem: BaseException | None = None) -> None:
        if not failed.done():
            failed.set_result(why)

    tasks = Tasks(fail)
    async with AsyncExitStack() as ending:
        ending.push_async_callback(tasks.end)
        trust = trust_of(config, shard_map.secret)
        link = Link(0, None, trust, "the coordinator")
        ending.push_async_callback(link.close)
        names = shard_map.names[: shard_map.shards]
        shards = [Link(number, None, trust, must_be_met=True) for number in range(len(names))]
        links = Links(shards, shard_map.shard_of)
        ending.push_async_callback(links.close)
        server, gate = bare_server(config), Gate(callers)
        guided, chances, tally = Guided(link, links), Chances(links, tasks), Tally()
        candidates = Candidates(links, guided.placing_for, guided)
        fetchers = RoutedFetchers(links, chances, candidates, guided, guided)
        register_door(server, Arrivals(gate), link, fetchers, guided, tally)
        health = add_open_services(server, service_names(), refuse_openly, (COORDINATOR,))
        bound, console = listen(server, config, tls)
        stop = stop_events(config)
        reread_at_hangup(config, is_managed=bool(manager))
        await server.start()
        ending.push_async_callback(server.stop, GRACE_S)
        ending.callback(chances.end, Closing())

        def take(locations: Locations) -> None:
            link.move(locations.get(FRONT))
            for shard, name in zip(shards, names, strict=True):
                shard.move(locations.get(name))

        guided.begin(tasks)
        tasks.keep("report of calls", tally.report(link))
        tasks.keep("locations", watch_locations(locations_file(config), [take]))
        present = partial(health.tell_of, COORDINATOR)
        tasks.keep("presence of the coordinator", _follow(link, present))
        if console is not None:
            ending.push_async_callback(tasks.end, tasks.keep("console", console.run()))
        if callers is not None:
            tasks.keep("watch of the callers", gate.watch())
        if tls is not None:
            tasks.keep("watch of the certificate", watch_expiry(lambda: tls.expires, RENEW))
        stopping = asyncio.create_task(stop.wait())
        ready = asyncio.create_task(link.is_present.wait())
        await asyncio.wait((ready, stopping, failed), return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if ready.done() and not failed.done():
            tasks.keep("pulse", Pulse(_nothing, health.tell, manager).run())
            _log.info("serving", listen=str(bound), version=version(), core=core_kind())
            print(f"toehold-frontier serving on {bound}", flush=True)
            manager.ready(f"Serving on {bound}")
        await asyncio.wait((stopping, failed), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        manager.stopping("Stopping")
        health.end()
    return failed.result() if failed.done() else ""


async def _nothing() -> None:
    return


async def _follow(link: Link, tell: Callable[[bool], None]) -> Never:
    """Keep watch of whether the front answers, and tell."""
    while True:
        try:
            await link.ping(PATIENCE_S)
        except ShardAway as problem:
            if not link.away:
                _log.warning("front_away", problem=str(problem))
            link.away = True
            tell(False)
            await asyncio.sleep(LOOK_S / 5)
        else:
            if link.away:
                _log.info("front_present")
            link.away = False
            tell(True)
            await asyncio.sleep(LOOK_S)
