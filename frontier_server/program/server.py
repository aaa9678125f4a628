"""Serving: everything that a server consists of, from its start until it is asked to stop."""

import asyncio
import socket
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import structlog

from toehold_base.access.callers import Callers
from toehold_base.access.server_tls import ServerTls
from toehold_base.observability.tracing import tracer_of
from toehold_base.process.service_manager import ServiceManager
from toehold_base.serving.addresses import SOCKET
from toehold_base.serving.open_services import add_open_services

from ..config import FRONT, Config
from ..coordinator.leader import BEAT_S
from ..core.opening.registry import made_of
from ..logs.crawl_log import CrawlLogs
from ..service import (
    Gate,
    LeaseTraces,
    Load,
    core_kind,
    refuse_openly,
    register,
    register_shard,
    service_names,
    version,
)
from ..shards.pipe import Both, PipeServer, pipe_beside
from ..shards.trust import Trust
from ..shell.clock import Clock, wall_ms
from ..shell.exchange import Exchange
from ..shell.runner import CLOSE_S, Runner
from ..shell.tasks import Tasks
from ..stores.checkpoints import Checkpoints
from ..stores.logged import LoggedStore
from ..stores.rocks import RocksStore
from .data_directory import archive_of, recover
from .expiry import RENEW, watch_expiry
from .front import Front, crawls_of, map_around
from .inner import TokenCheck, open_for_cluster, trust_of
from .listeners import CannotListen, listen
from .pulse import Pulse
from .replicating import keep_replicas
from .server_options import bare_server
from .signals import Stop, reread_at_hangup, stop_events

if TYPE_CHECKING:
    from ..metrics.page import FrontierMetrics

GRACE_S, HURRIED_GRACE_S = 3.0, 0.3  # for calls that have begun
NO_THREAD = "can't start new thread"  # Python's message
ORPHAN_DRAIN_S = 12.0  # for nodes to hand leases back once the parent is gone
FRONT_SILENT_S = 1.5 * BEAT_S  # then no node reaches a shard
CLOCK_CHECK_S, CLOCK_JUMP_MS = 10.0, 2_000

_log = structlog.get_logger()


def serve(
    config: Config,
    store: RocksStore,
    clock: Clock,
    tls: ServerTls | None,
    callers: Callers | None,
    manager: ServiceManager,
) -> str:
    """Serve until the end; returns the failure, or "". Ending takes a thread, which may be refused."""
    failure = ""
    try:
        with asyncio.Runner() as runner:
            failure = runner.run(_serve(config, store, clock, tls, callers, manager))
    except MemoryError:
        failure = failure or "memory has run out"
    except RuntimeError as problem:
        if str(problem) != NO_THREAD:
            raise
        failure = failure or "the machine refuses to start another thread"
    return failure


async def _serve(
    config: Config,
    store: RocksStore,
    clock: Clock,
    tls: ServerTls | None,
    callers: Callers | None,
    manager: ServiceManager,
) -> str:
    """Serve until asked to stop; returns the failure that ended it, or ""."""
    checkpoints = Checkpoints(config.data, store)
    logged = store if isinstance(store, LoggedStore) else None
    shard_map = map_around(config) if config.member == FRONT else None
    make = made_of if shard_map is None else crawls_of(shard_map)
    archive = None if logged is None else archive_of(config, logged)
    core, feed = recover(config, store, clock, checkpoints, make, archive)
    pipe = PipeServer() if config.is_inner else None
    trust = None if logged is None or pipe is None else trust_of(config, core.shard.server.secret)
    runner = Runner(
        core,
        store,
        clock,
        data=config.data,
        disk_reserve_bytes=config.disk_reserve_bytes,
        heartbeat_ms=config.heartbeat_ms,
        feed=feed,
        sync=config.sync,
        when_idle=checkpoints.close_readers,
        read_only=config.read_only,
        is_reached=lambda: pipe is None or pipe.silent_s < FRONT_SILENT_S,
        ownership=logged,
    )
    async with AsyncExitStack() as ending:  # the last one to begin is the first to end
        traces = _traces(config, ending)
        front = None if shard_map is None else Front(config, shard_map, core, runner, trust)
        if front is not None:
            ending.push_async_callback(front.close)  # when nothing uses its ways to shards any more
        ending.push_async_callback(runner.close)
        server = bare_server(config, () if trust is None else (TokenCheck(trust),))
        gate = Gate(callers, trusts_names=config.is_inner)
        crawl_logs = CrawlLogs(runner, feed.logs, config.data, archive)
        parts = () if shard_map is None else shard_map.names[: shard_map.shards]
        health = add_open_services(server, service_names(), refuse_openly, parts)
        health.tell(front is None)  # a front serves once it knows its shards
        metrics = _metrics(config, runner, store, front)
        served = server if pipe is None else Both(server, pipe)
        measured = served if metrics is None else metrics.measured(served)
        if front is not None:
            front.register(measured, crawl_logs, checkpoints, clock.now_ms(), gate)
            if trust is not None:
                front.register_guide(served, None if metrics is None else metrics.rpcs.hear)
        else:
            exchange, start_ms = Exchange(runner), clock.now_ms()
            register(measured, exchange, config, crawl_logs, checkpoints, start_ms, gate, traces)
            if config.is_shard:
                load = Load(config.shard, exchange, config.data / "store", logged)
                register_shard(served, exchange, core.shard.incarnation, checkpoints, load, crawl_logs)
                runner.tasks.keep("watch of the load", load.watch())
        bound, console = listen(server, config, tls)
        stop = stop_events(config)
        reread_at_hangup(config, is_managed=bool(manager))
        reached = await _reached(server, pipe, config, trust)
        await server.start()
        if pipe is not None:
            await _open(pipe, pipe_beside(Path(str(config.listen).removeprefix(SOCKET))))
        if front is not None:
            await front.begin(health.tell_of)
            health.tell(True)
        ending.push_async_callback(_end_server, server, pipe, stop)
        if front is not None:
            ending.callback(front.begin_close)
        ending.callback(runner.begin_close)
        if metrics is not None:
            metrics.start()
            ending.push_async_callback(metrics.close)
        if not config.read_only:
            logging = runner.tasks.keep("crawl log", crawl_logs.run())
            ending.push_async_callback(_end_crawl_logs, runner, crawl_logs, logging)
            ending.push_async_callback(_drained, runner, front, stop)
        if console is not None:
            ending.push_async_callback(runner.tasks.end, runner.tasks.keep("console", console.run()))
        pulse = Pulse(runner.is_alive, health.tell, manager, lambda: runner.answers)
        if logged is not None:
            runner.tasks.keep("replicas", keep_replicas(logged, config.data, clock))
        _keep_watch(runner.tasks, pulse, clock, tls, None if callers is None else gate)
        ending.callback(health.end)
        shown = {} if metrics is None else {"metrics": metrics.address}
        _log.info(
            "serving", listen=str(bound), **shown, data=str(config.data), version=version(), core=core_kind()
        )
        if logged is not None and reached:
            print(f"{reached} {logged.log.epoch}", flush=True)
        print(f"toehold-frontier serving on {bound}", flush=True)
        manager.ready(f"Serving on {bound}")
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait((stopping, runner.failed), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        manager.stopping("Stopping")
    _log.info("stopped")
    if runner.corrupt is not None:
        raise runner.corrupt
    return runner.failed.result() if runner.failed.done() else ""


async def _reached(
    server: grpc.aio.Server, pipe: PipeServer | None, config: Config, trust: Trust | None
) -> str:
    """Let other machines of the cluster reach this process; what it says of that."""
    if pipe is None or trust is None:
        return ""
    try:
        return await open_for_cluster(server, pipe, config, trust)
    except (OSError, RuntimeError) as problem:
        raise CannotListen(
            f"cannot listen for other machines on {config.cluster_listen}: {problem}"
        ) from problem


async def _open(pipe: PipeServer, place: Path) -> None:
    try:
        await pipe.start(place)
    except OSError as problem:
        raise CannotListen(f"cannot listen on {place}: {problem.strerror}") from problem


async def _end_server(server: grpc.aio.Server, pipe: PipeServer | None, stop: Stop) -> None:
    grace_s = HURRIED_GRACE_S if stop.is_hurried else GRACE_S
    await asyncio.gather(server.stop(grace_s), *([] if pipe is None else [pipe.stop(grace_s)]))


def _keep_watch(tasks: Tasks, pulse: Pulse, clock: Clock, tls: ServerTls | None, gate: Gate | None) -> None:
    """Keep watch of what may change while the server runs."""
    tasks.keep("pulse", pulse.run())
    tasks.keep("watch of the clock", _watch_clock(clock))
    if tls is not None:
        tasks.keep("watch of the certificate", watch_expiry(lambda: tls.expires, RENEW))
    if gate is not None:
        tasks.keep("watch of the callers", gate.watch())


def _traces(config: Config, ending: AsyncExitStack) -> LeaseTraces | None:
    """The traces of leases, if they are wanted. A read-only frontier gives out no leases."""
    if config.read_only:
        return None
    tracer = tracer_of(config.otlp, "toehold-frontier", _instance(config))
    if tracer is None:
        return None
    ending.push_async_callback(asyncio.to_thread, tracer.close)
    return LeaseTraces(tracer, config.trace_ratio)


def _instance(config: Config) -> str:
    """The name of this process among others' traces."""
    return f"{socket.gethostname()}{f'/{config.member}' if config.is_shard else f':{config.listen.port}'}"


def _metrics(
    config: Config, runner: Runner, store: RocksStore, front: Front | None
) -> "FrontierMetrics | None":
    """The page of metrics, if one is wanted. Raises CannotListen if its address cannot be taken."""
    if config.metrics is None:
        return None
    from ..metrics.page import FrontierMetrics

    try:
        loads = None if front is None else front.loads
        return FrontierMetrics(runner, store, config, (version(), core_kind()), loads)
    except OSError as problem:
        raise CannotListen(
            f"cannot serve metrics on {config.metrics}: the port is taken, or the address is not this "
            "machine's"
        ) from problem


async def _end_crawl_logs(runner: Runner, crawl_logs: CrawlLogs, logging: asyncio.Task[None]) -> None:
    """Write the lines of all that is done, unless the store has failed, or its log's storage is away."""
    await runner.tasks.end(logging)
    if not runner.failed.done() and runner.answers:
        with suppress(TimeoutError):  # if it times out, closing the runner does too, and says so
            async with asyncio.timeout(CLOSE_S):
                await crawl_logs.drain()


async def _drained(runner: Runner, front: Front | None, stop: Stop) -> None:
    """If the parent is gone, wait for a while until nodes have handed their leases back."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + ORPHAN_DRAIN_S
    while stop.orphaned and not stop.is_hurried and not runner.failed.done() and loop.time() < end_s:
        if not (runner.core.nodes.leases_out if front is None else await front.leases_out()):
            break
        await asyncio.sleep(0.1)


async def _watch_clock(clock: Clock) -> None:
    """Log jumps of the wall clock. They have no effect."""
    offset_ms = wall_ms() - clock.now_ms()
    while True:
        await asyncio.sleep(CLOCK_CHECK_S)
        now_offset_ms = wall_ms() - clock.now_ms()
        if abs(now_offset_ms - offset_ms) > CLOCK_JUMP_MS:
            _log.warning("wall_clock_jumped", by_ms=now_offset_ms - offset_ms)
            offset_ms = now_offset_ms
