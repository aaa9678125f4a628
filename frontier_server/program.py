"""The frontier server from its flags to its exit code: flags, wiring, and serving until asked to stop.

Exit codes: 0 stopped as asked; 2 bad arguments; 3 cannot listen; 4 the data directory
cannot be used; 5 the store, or a part of the server, failed while serving (start again:
nothing acknowledged is lost); 6 the store is damaged (`--salvage`); 7 with
`--read-only`: a frontier runs on the data directory.
"""

import asyncio
import os
import resource
import secrets
import signal
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
import grpc
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from toehold import logs
from toehold.access.callers import Callers
from toehold.access.callers_file import CallersInvalid
from toehold.access.pem import TlsUnusable
from toehold.access.server_tls import ServerTls
from toehold.tracing import tracer_of

from . import salvaging, wire
from .checkpoints import Checkpoints
from .clock import Clock, iso, wall_ms
from .config import (
    DEFAULT_LISTEN,
    Config,
    ConfigError,
    ServerFile,
    checked_log_level,
    read_file,
    usable,
)
from .core import opening
from .core.core import Core
from .core.errors import OtherFormat, StoreCorrupt
from .core.records import FORMAT
from .core.resetting import set_time
from .core.shard import Shard
from .core.store import StoreDamaged, StoreFailed
from .crawl_log import CrawlLogs
from .durable import make_directory, sync_directory
from .exchange import Exchange
from .grpc_log import leave_out_callers_doings
from .job_feed import JobFeed
from .job_log import JobLogs
from .log_check import CannotKeep, check_logs
from .runner import CLOSE_S, Runner
from .service import (
    MAX_CALLS,
    MAX_RECEIVED_BYTES,
    Gate,
    Guarded,
    LeaseTraces,
    add_reflection,
    core_kind,
    register,
    service_names,
    version,
)
from .stores.patient import write_patiently
from .stores.rocks import RocksStore, StoreUnavailable
from .stores.unchanged import StoreInUse, open_unchanged

if TYPE_CHECKING:
    from .metrics.page import FrontierMetrics

MIN_DESCRIPTORS = 64
EXIT_USAGE, EXIT_LISTEN, EXIT_DATA, EXIT_STORE, EXIT_DAMAGED, EXIT_IN_USE = 2, 3, 4, 5, 6, 7
WAY_OUT = "start once with --salvage to keep all rows that can be read, or put a checkpoint in its place"
GRACE_S = 3.0
NO_THREAD = "can't start new thread"  # Python's message
MAX_PENDING, MAX_PENDING_S = 2 * MAX_CALLS, 120
MAX_SENT_BYTES = 32 * 1024 * 1024
ORPHAN_DRAIN_S = 12.0  # for nodes to hand leases back once the parent is gone
CLOCK_CHECK_S, CLOCK_JUMP_MS = 10.0, 2_000
CLOCK_WRONG_MS = 60_000

_log = structlog.get_logger()


class CannotListen(Exception):
    """The address is taken, or not this machine's."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    required=True,
    help="Directory of the store and the logs. Created if it is missing.",
)
@click.option("--listen", help=f"HOST:PORT to serve on; port 0 takes a free one. Default {DEFAULT_LISTEN}.")
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    help="Settings file (TOML). Options given here override it.",
)
@click.option("--tls-cert", metavar="FILE", help="The frontier's certificate (PEM). Callers then use TLS.")
@click.option("--tls-key", metavar="FILE", help="The certificate's key (PEM).")
@click.option(
    "--tls-ca",
    metavar="FILE",
    help="Take only callers whose certificates an authority in FILE (PEM) has issued (mutual TLS).",
)
@click.option(
    "--callers", metavar="FILE", help="Take only the callers in FILE, each with its roles ('toehold tokens')."
)
@click.option(
    "--insecure",
    is_flag=True,
    default=None,
    help="Allow an address beyond loopback without TLS and callers.",
)
@click.option(
    "--metrics",
    help="HOST:PORT to serve metrics on, for Prometheus; port 0 takes a free one. Default: not served.",
)
@click.option(
    "--lease-seconds",
    type=float,
    help="Seconds that a node keeps its leases without a heartbeat. Default 30.",
)
@click.option("--heartbeat-seconds", type=float, help="Seconds between the heartbeats of a node. Default 3.")
@click.option(
    "--disk-reserve-mib", type=int, help="Free disk space below which crawls are paused, in MiB. Default 512."
)
@click.option(
    "--cache-mib",
    type=int,
    help="Memory for cached reads, in MiB. Default: a sixteenth of the machine's, from 32 to 256.",
)
@click.option(
    "--durability",
    type=click.Choice(["power-loss", "process"]),
    help="The failure that acknowledged changes survive: a power loss (default), or only the end of the "
    "process, which is faster.",
)
@click.option(
    "--log-format",
    type=click.Choice(logs.FORMATS),
    help="The form of the log on standard error: JSON lines, or text for people. Default auto: text on a "
    "terminal, JSON elsewhere.",
)
@click.option(
    "--log-level",
    type=click.Choice(logs.LEVELS),
    help="Log this level and those above it. Default info. Can be changed while the frontier runs: set "
    "log_level in the settings file, then send SIGHUP.",
)
@click.option(
    "--otlp",
    metavar="ADDRESS",
    help="Send traces of leases to this OpenTelemetry collector (OTLP over gRPC): HOST:PORT, or an http or "
    "https URL. Default: the variable OTEL_EXPORTER_OTLP_ENDPOINT, or no traces.",
)
@click.option(
    "--trace-ratio", type=float, help="The share of leases that are traced, from 0 to 1. Default 0.01."
)
@click.option(
    "--until-stdin-ends", is_flag=True, help="Stop when standard input ends (for a parent process)."
)
@click.option(
    "--salvage",
    is_flag=True,
    help="Rebuild a damaged store from all rows that can be read, then exit. The damaged store is kept.",
)
@click.option(
    "--set-clock",
    is_flag=True,
    help="Set the frontier's time to the machine's. Rests keep the time that they have left.",
)
@click.option(
    "--read-only",
    is_flag=True,
    help="Only answer questions about the crawls. The data directory stays as it is.",
)
@click.version_option(
    version(), prog_name="toehold-frontier", message=f"%(prog)s, version %(version)s ({core_kind()} core)"
)
def main(
    data: Path,
    config_file: Path | None,
    until_stdin_ends: bool,
    salvage: bool,
    set_clock: bool,
    read_only: bool,
    **flags: str | float | bool | None,
) -> None:
    """Serve a crawl frontier.

    Prints one line once it serves. Logs on standard error.

    \b
    Exit codes:
      0  stopped as asked
      2  an argument is wrong
      3  the address is taken, or is not this machine's
      4  the data directory cannot be used
      5  the store, or a part of the server, failed: start it again
      6  the store is damaged: see --salvage
      7  another frontier runs on the data directory (only with --read-only)
    """
    try:
        file = read_file(config_file) if config_file is not None else ServerFile()
        for name, value in flags.items():
            if value is not None:
                setattr(file, name, value)
        config = usable(data, file, until_stdin_ends, set_clock, read_only, config_file)
        if salvage and read_only:
            raise ConfigError("--salvage changes the data directory; use it without --read-only")
    except ConfigError as problem:
        _exit(EXIT_USAGE, str(problem))
    logs.configure(config.log_format, config.log_level)
    if config_file is not None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it can be obeyed
    leave_out_callers_doings()
    if salvage:
        _salvage(config)
        return
    try:
        access = _access(config)
    except (TlsUnusable, CallersInvalid) as problem:
        _exit(EXIT_USAGE, str(problem))
    _raise_descriptor_limit()
    try:
        store, clock = _open_unchanged(config) if read_only else _open(config)
    except StoreInUse as problem:
        _exit(EXIT_IN_USE, f"data directory {data}: {problem}")
    except (StoreUnavailable, OtherFormat) as problem:
        _exit(EXIT_DATA, f"data directory {data}: {problem}")
    except (StoreDamaged, StoreCorrupt) as problem:
        _exit(EXIT_DAMAGED, f"data directory {data}: the store is damaged: {problem}; {WAY_OUT}")
    except OSError as problem:
        _exit(EXIT_DATA, f"data directory {data} cannot be used: {problem.strerror}")
    except StoreFailed as problem:
        _exit(EXIT_STORE, f"data directory {data}: {problem}")
    try:
        failure = _run(config, store, clock, *access)
    except CannotListen as problem:
        store.close()
        _exit(EXIT_LISTEN, str(problem))
    except (CannotKeep, OtherFormat) as problem:
        _exit(EXIT_DATA, f"data directory {data}: {problem}")
    except StoreDamaged as problem:
        _exit(EXIT_DAMAGED, f"data directory {data}: the store is damaged: {problem}; {WAY_OUT}")
    except StoreCorrupt as problem:
        again = f"start again; if that fails too, {WAY_OUT}"
        _exit(EXIT_DAMAGED, f"data directory {data}: the store contradicts itself: {problem}; {again}")
    except StoreFailed as problem:  # before it served
        _exit(EXIT_STORE, f"data directory {data}: {problem}")
    if store.damage:
        _exit(EXIT_DAMAGED, f"data directory {data}: the store is damaged ({store.damage}); {WAY_OUT}")
    if failure:
        _exit(EXIT_STORE, f"{failure}; the frontier stopped, so that it acknowledges only stored changes")
    store.close()


def _access(config: Config) -> tuple[ServerTls | None, Callers | None]:
    """TLS and the callers, or None. Raises TlsUnusable, CallersInvalid."""
    tls = None
    if config.tls_cert is not None and config.tls_key is not None:
        tls = ServerTls(config.tls_cert, config.tls_key, config.tls_ca, _note_certificates)
    return tls, None if config.callers is None else Callers(config.callers)


def _note_certificates(problem: str) -> None:
    if problem:
        _log.error("certificates_unusable", problem=problem, advice="those in use stay")
    else:
        _log.info("certificates_reloaded")


def _salvage(config: Config) -> None:
    try:
        salvaging.salvage(config, version(), lambda line: print(line, flush=True))
    except (StoreUnavailable, OtherFormat) as problem:
        _exit(EXIT_DATA, f"data directory {config.data}: {problem}")
    except StoreDamaged as problem:
        _exit(EXIT_DAMAGED, f"data directory {config.data}: {problem}; put a checkpoint in its place")
    except (OSError, StoreFailed) as problem:
        _exit(EXIT_DATA, f"data directory {config.data}: the store cannot be salvaged: {problem}")


def _raise_descriptor_limit() -> None:
    """Raise the process's limit of descriptors to the hard limit: each connection and open file takes one.

    With too few at the start, gRPC would end the process without a message.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    except (OSError, ValueError) as problem:
        _log.warning("descriptor_limit_not_raised", limit=soft, problem=str(problem))
    if soft != resource.RLIM_INFINITY and soft < MIN_DESCRIPTORS:
        _exit(
            EXIT_USAGE, f"the limit of open files (ulimit -n) must be at least {MIN_DESCRIPTORS}, got {soft}"
        )


def _exit(code: int, message: str) -> NoReturn:
    print(f"toehold-frontier: {message}", file=sys.stderr, flush=True)
    sys.exit(code)


def _open(config: Config) -> tuple[RocksStore, Clock]:
    make_directory(config.data)
    if not os.access(config.data, os.W_OK | os.X_OK):
        raise PermissionError(13, "not writable")
    _check_salvage(config)
    store = RocksStore(config.data / "store", cache_bytes=config.cache_bytes)
    row = opening.read_server_row(store)
    if row is None:
        write_patiently(store, opening.new_store(secrets.token_bytes(16), wall_ms()))
        store.flush()
        sync_directory(config.data)  # the name of the store
        row = opening.server_row(store)
    clock = Clock(row.time_ms, row.boot, row.boot_ms)
    if config.set_clock:
        last_ms = clock.now_ms()
        write_patiently(store, set_time(store, last_ms, wall_ms()))
        row, clock = opening.server_row(store), Clock()
        _log.warning("clock_set", before=iso(last_ms), after=iso(clock.now_ms()))
    ours = FORMAT, version(), clock.boot, clock.boot_ms
    if (row.format, row.version, row.boot, row.boot_ms) != ours:
        row.format, row.version, row.boot, row.boot_ms = ours
        write_patiently(store, opening.server_changes(row))
        store.flush()
    return store, clock


def _open_unchanged(config: Config) -> tuple[RocksStore, Clock]:
    _check_salvage(config)
    store = open_unchanged(config.data / "store", config.cache_bytes)
    row = opening.read_server_row(store)
    if row is None:
        raise StoreUnavailable("its store is empty: no frontier has served on it yet")
    return store, Clock(row.time_ms, row.boot, row.boot_ms)


def _check_salvage(config: Config) -> None:
    if salvaging.was_cut_short(config.data):
        raise StoreUnavailable("a salvage was interrupted; start once with --salvage to complete it")


def _recover(
    config: Config, store: RocksStore, clock: Clock, checkpoints: Checkpoints
) -> tuple[Core, JobFeed]:
    """Recover from the end of the last server, however it came, before serving; read-only, only in memory."""
    if not config.read_only:
        checkpoints.clear()
    shard = Shard(
        store,
        wire.ContractCodec(),
        settings_of=wire.settings_with,
        version=version(),
        period_ms=config.lease_ms,
        now_ms=clock.now_ms(),
        incarnation=secrets.randbits(32),
        checkpoint_of=checkpoints.open,
        heartbeat_ms=config.heartbeat_ms,
        read_only=config.read_only,
    )
    core = Core(shard)
    feed = JobFeed(JobLogs(config.data), core)
    if not config.read_only:
        check_logs(core, store, config.data, clock.now_ms(), config.sync)
        _check_clock(core, store, clock)
        feed.catch_up()
    return core, feed


def _run(
    config: Config, store: RocksStore, clock: Clock, tls: ServerTls | None, callers: Callers | None
) -> str:
    """Serve until the end; returns the failure, or "". Ending takes a thread, which may be refused."""
    failure = ""
    try:
        with asyncio.Runner() as runner:
            failure = runner.run(_serve(config, store, clock, tls, callers))
    except MemoryError:
        failure = failure or "memory has run out"
    except RuntimeError as problem:
        if str(problem) != NO_THREAD:
            raise
        failure = failure or "the machine refuses to start another thread"
    return failure


async def _serve(
    config: Config, store: RocksStore, clock: Clock, tls: ServerTls | None, callers: Callers | None
) -> str:
    """Serve until asked to stop; returns the failure that ended it, or ""."""
    checkpoints = Checkpoints(config.data, store)
    core, feed = _recover(config, store, clock, checkpoints)
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
    )
    crawl_logs = CrawlLogs(runner, config.data)
    server, health_service = await _server()
    gate = Gate(callers)
    tracer = traces = None
    if not config.read_only:  # it gives out no leases
        tracer = tracer_of(config.otlp, "toehold-frontier", f"{socket.gethostname()}:{config.port}")
        traces = None if tracer is None else LeaseTraces(tracer, config.trace_ratio)
    metrics = await _metrics(config, runner, store)
    measured: Any = server if metrics is None else metrics.measured(server)
    register(measured, Exchange(runner), config, crawl_logs, checkpoints, clock.now_ms(), gate, traces)
    host = f"[{config.host}]" if ":" in config.host else config.host
    try:
        _check_free(config)  # first: gRPC's own error comes with lines for its developers
        address = f"{host}:{config.port}"
        port = (
            server.add_insecure_port(address)
            if tls is None
            else server.add_secure_port(address, tls.credentials())
        )
    except (RuntimeError, OSError) as problem:
        await runner.close()
        raise CannotListen(
            f"cannot listen on {host}:{config.port}: the port is taken, or the address is not this machine's"
        ) from problem
    stop = _stop_events(config)
    _reread_at_hangup(config)
    await server.start()
    logging_task = None if config.read_only else runner.tasks.keep("crawl log", crawl_logs.run())
    runner.tasks.keep("watch of the clock", _watch_clock(clock))
    if callers is not None:
        runner.tasks.keep("watch of the callers", gate.watch())
    shown = {}
    if metrics is not None:
        metrics.start()
        shown = {"metrics": metrics.address}
    _log.info(
        "serving",
        listen=f"{host}:{port}",
        **shown,
        data=str(config.data),
        version=version(),
        core=core_kind(),
    )
    print(f"toehold-frontier serving on {host}:{port}", flush=True)
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait((stopping, runner.failed), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    await health_service.enter_graceful_shutdown()
    if logging_task is not None:
        if not runner.failed.done() and stop.orphaned:
            await _drained(runner)
        await runner.tasks.end(logging_task)
        if not runner.failed.done():
            with suppress(TimeoutError):  # if it times out, closing the runner does too, and says so
                async with asyncio.timeout(CLOSE_S):
                    await crawl_logs.drain()
    if metrics is not None:
        await metrics.close()
    runner.begin_close()
    await server.stop(GRACE_S)
    await runner.close()
    if tracer is not None:
        await asyncio.to_thread(tracer.close)
    _log.info("stopped")
    if runner.corrupt is not None:
        raise runner.corrupt
    return runner.failed.result() if runner.failed.done() else ""


async def _metrics(config: Config, runner: Runner, store: RocksStore) -> "FrontierMetrics | None":
    """The page of metrics, if one is wanted. If its address cannot be taken, closes the runner and raises
    CannotListen."""
    if config.metrics is None:
        return None
    from .metrics.page import FrontierMetrics  # here: the library takes a tenth of a start

    try:
        return FrontierMetrics(runner, store, config, (version(), core_kind()))
    except OSError as problem:
        await runner.close()
        host, port = config.metrics
        raise CannotListen(
            f"cannot serve metrics on {host}:{port}: the port is taken, or the address is not this machine's"
        ) from problem


async def _server() -> tuple[grpc.aio.Server, health.aio.HealthServicer]:
    server = grpc.aio.server(
        options=[
            ("grpc.so_reuseport", 0),  # so that a taken port is an error
            ("grpc.max_receive_message_length", MAX_RECEIVED_BYTES),
            ("grpc.max_send_message_length", MAX_SENT_BYTES),
            ("grpc.http2.bdp_probe", 0),
            # Beyond these, gRPC would silently cancel calls that wait to be taken up.
            ("grpc.server.max_pending_requests", MAX_PENDING),
            ("grpc.server.max_pending_requests_hard_limit", MAX_PENDING),
            ("grpc.server_max_unrequested_time_in_server", MAX_PENDING_S),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        ]
    )
    names = service_names()
    health_service = health.aio.HealthServicer()
    guarded: Any = Guarded(server)
    health_pb2_grpc.add_HealthServicer_to_server(health_service, guarded)
    for name in ("", *names):
        await health_service.set(name, health_pb2.HealthCheckResponse.SERVING)
    add_reflection(guarded, (*names, health.SERVICE_NAME), asynchronous=True)
    return server, health_service


def _check_free(config: Config) -> None:
    """Raise OSError if the address cannot be listened on."""
    for family, kind, number, _, address in socket.getaddrinfo(
        config.host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    ):
        with socket.socket(family, kind, number) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)


class _Stop:
    """Whether the server has been asked to stop, and whether because its parent is gone."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.orphaned = False

    def ask(self) -> None:
        """A signal came."""
        self._event.set()

    def orphan(self) -> None:
        """The parent is gone."""
        self.orphaned = True
        self._event.set()

    async def wait(self) -> None:
        """Wait until the server is asked to stop."""
        await self._event.wait()


def _stop_events(config: Config) -> _Stop:
    stop = _Stop()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.ask)
    if config.until_stdin_ends:

        def watch() -> None:
            with suppress(OSError):  # an unreadable standard input counts as ended
                while os.read(0, 65536):
                    continue
            loop.call_soon_threadsafe(stop.orphan)

        threading.Thread(target=watch, name="stdin", daemon=True).start()
    return stop


def _reread_at_hangup(config: Config) -> None:
    """At SIGHUP take the log's level from the settings file. Without one, SIGHUP ends the frontier."""
    path = config.settings_file
    if path is None:
        return

    def reread() -> None:
        try:
            level = checked_log_level(read_file(path).log_level)
        except ConfigError as problem:
            _log.error("settings_refused", file=str(path), problem=str(problem))
        else:
            logs.change_level(level)

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reread)


async def _drained(runner: Runner) -> None:
    """Wait for a while until nodes have handed their leases back."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + ORPHAN_DRAIN_S
    while runner.core.nodes.leases_out and loop.time() < end_s:  # noqa: ASYNC110  # there is no event for it
        await asyncio.sleep(0.1)


def _check_clock(core: Core, store: RocksStore, clock: Clock) -> None:
    """If the frontier's time differs from the machine's, say so in the log and as each crawl's event."""
    ahead_ms = clock.ahead_ms()
    if abs(ahead_ms) <= CLOCK_WRONG_MS:
        return
    now_ms = clock.now_ms()
    differs = f"{abs(ahead_ms) // 1000} s {'ahead of' if ahead_ms > 0 else 'behind'}"
    ours, machine = iso(now_ms), iso(now_ms - ahead_ms)
    _log.error(
        "clock_differs",
        frontier_time=ours,
        machine_time=machine,
        ahead_ms=ahead_ms,
        advice="if the machine's time is right, start once with --set-clock",
    )
    detail = (
        f"the frontier's time {ours} is {differs} the machine's {machine};"
        " if the machine's is right, start once with --set-clock"
    )
    _, changes = core.upkeep.note_clock(detail, now_ms)
    write_patiently(store, changes)
    store.flush()


async def _watch_clock(clock: Clock) -> None:
    """Log jumps of the wall clock. They have no effect."""
    offset_ms = wall_ms() - clock.now_ms()
    while True:
        await asyncio.sleep(CLOCK_CHECK_S)
        now_offset_ms = wall_ms() - clock.now_ms()
        if abs(now_offset_ms - offset_ms) > CLOCK_JUMP_MS:
            _log.warning("wall_clock_jumped", by_ms=now_offset_ms - offset_ms)
            offset_ms = now_offset_ms
