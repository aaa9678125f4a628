"""The door of a machine of a cluster: where its callers arrive. The front that answers them may be elsewhere.

Each machine has one, so callers may use any. It has no state.
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
from ..router.relay import register_relay
from ..service import Arrivals, Gate, core_kind, refuse_openly, service_names, version
from ..shards.links import Link
from ..shards.places import Places, watch_places
from ..shell.tasks import Tasks
from .inner import places_file, trust_of
from .listeners import listen
from .pulse import Pulse
from .server_options import bare_server
from .shard_map import COORDINATOR
from .signals import reread_at_hangup, stop_events

GRACE_S = 3.0
LOOK_S, PATIENCE_S = 0.5, 2.0

_log = structlog.get_logger()


def serve_door(
    config: Config, tls: ServerTls | None, callers: Callers | None, manager: ServiceManager, secret: bytes
) -> str:
    """Serve until asked to stop; the failure that ended it, or "". Raises CannotListen."""
    return asyncio.run(_serve(config, tls, callers, manager, secret))


async def _serve(
    config: Config, tls: ServerTls | None, callers: Callers | None, manager: ServiceManager, secret: bytes
) -> str:
    failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def fail(why: str, problem: BaseException | None = None) -> None:
        if not failed.done():
            failed.set_result(why)

    tasks = Tasks(fail)
    async with AsyncExitStack() as ending:
        ending.push_async_callback(tasks.end)
        link = Link(0, None, trust_of(config, secret), "the coordinator")
        ending.push_async_callback(link.close)
        server, gate = bare_server(config), Gate(callers)
        register_relay(server, Arrivals(gate), link)
        health = add_open_services(server, service_names(), refuse_openly, (COORDINATOR,))
        bound, console = listen(server, config, tls)
        stop = stop_events(config)
        reread_at_hangup(config, is_managed=bool(manager))
        await server.start()
        ending.push_async_callback(server.stop, GRACE_S)

        def take(places: Places) -> None:
            link.move(places.get(FRONT))

        tasks.keep("places", watch_places(places_file(config), [take]))
        present = partial(health.tell_of, COORDINATOR)
        tasks.keep("presence of the coordinator", _follow(link, present))
        if console is not None:
            ending.push_async_callback(tasks.end, tasks.keep("console", console.run()))
        if callers is not None:
            tasks.keep("watch of the callers", gate.watch())
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
