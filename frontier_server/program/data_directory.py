"""The data directory: opens its store, and recovers from the end of the last server, however it came."""

import secrets

import structlog

from toehold_base.durable import make_own_directory, sync_directory

from .. import wire
from ..cluster.identity import check_current
from ..config import Config
from ..core.core import Core
from ..core.opening import opening
from ..core.opening.registry import MakeCrawl, made_of
from ..core.opening.shard import Shard
from ..core.opening.time_reset import set_time
from ..core.rows.records import FORMAT, PlacesRow
from ..core.rows.store import Changes
from ..logs.archive import LogArchive
from ..logs.job_feed import JobFeed
from ..logs.job_log import JobLogs
from ..logs.log_check import check_logs
from ..replicated.buckets import open_bucket
from ..replicated.folders import below
from ..replicated.object_log import ObjectLog
from ..replicated.replicas import Replicas
from ..service import version
from ..shell.clock import Clock, iso, wall_ms
from ..stores.checkpoints import Checkpoints
from ..stores.logged import LoggedStore, LogNeeded, mark_of, open_logged
from ..stores.patient import write_patiently
from ..stores.rocks import RocksStore, StoreUnavailable
from ..stores.unchanged import open_unchanged
from . import salvaging
from .shard_map import check_undivided
from .suffix_list import installed

CLOCK_WRONG_MS = 60_000

_log = structlog.get_logger()


def open_data(config: Config, secret: bytes) -> tuple[RocksStore, Clock]:
    """Open the store, or make it. Raises what makes it unusable, and MapUnusable.

    `secret` is for a new store. The store has the passwords of sites, so a new directory is for its owner
    alone.
    """
    make_own_directory(config.data)
    _check_salvage(config)
    store = _opened(config)
    if not config.cluster and mark_of(store) is not None:
        store.close()
        raise LogNeeded("has a store that is a log's; start the frontier with --log")
    row = opening.read_server_row(store)
    if row is None:
        write_patiently(store, opening.new_store(secret, wall_ms(), installed()))
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
        changes: Changes = {}
        if opening.places_row(store, row) is None:  # an older version made it, by the list that it had
            changes = opening.places_changes(PlacesRow(installed(), by_site=False))
        row.format, row.version, row.boot, row.boot_ms = ours
        write_patiently(store, changes | opening.server_changes(row))
        store.flush()
    return store, clock


def _opened(config: Config) -> RocksStore:
    """The store, which is locked from now on. A split locks it as well, and may have just let go of it."""
    if config.cluster:
        return _logged(config)
    if config.member:
        return RocksStore(config.data / "store", cache_bytes=config.cache_bytes)
    check_undivided(config.data)
    store = RocksStore(config.data / "store", cache_bytes=config.cache_bytes)
    try:
        check_undivided(config.data)
    except BaseException:
        store.close()
        raise
    return store


def _logged(config: Config) -> LoggedStore:
    """The store as its log has it, which is this process's from now on. Raises Superseded."""
    whole = open_bucket(config.log)
    bucket, name = below(whole, config.folder), config.data.name
    log = ObjectLog(bucket, name, config.cluster, version())
    store = open_logged(config.data, log, Replicas(bucket, name), version(), config.cache_bytes, wall_ms())
    try:
        check_current(whole, config.generation)  # once nobody can have the log without this process's fence
    except BaseException:
        store.close()
        raise
    return store


def archive_of(config: Config, store: LoggedStore) -> LogArchive:
    """Where the logs of a member's crawls are kept."""
    return LogArchive(below(open_bucket(config.log), config.folder), config.data.name, store.log.epoch)


def open_data_unchanged(config: Config) -> tuple[RocksStore, Clock]:
    """Open the store to be read only. Raises what makes it unusable."""
    _check_salvage(config)
    store = open_unchanged(config.data / "store", config.cache_bytes)
    row = opening.read_server_row(store)
    if row is None:
        raise StoreUnavailable("its store is empty: no frontier has served on it yet")
    return store, Clock(row.time_ms, row.boot, row.boot_ms)


def _check_salvage(config: Config) -> None:
    if salvaging.was_cut_short(config.data):
        raise StoreUnavailable("a salvage was interrupted; start once with --salvage to complete it")


def recover(
    config: Config,
    store: RocksStore,
    clock: Clock,
    checkpoints: Checkpoints,
    make: MakeCrawl = made_of,
    archive: LogArchive | None = None,
) -> tuple[Core, JobFeed]:
    """Recover from the end of the last server, however it came, before serving; read-only, only in memory.

    `make` makes crawls of their rows.
    """
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
        check_dearly=config.check_operations,
        make=make,
    )
    core = Core(shard)
    feed = JobFeed(JobLogs(config.data, archive), core)
    if not config.read_only:
        check_logs(core, store, config.data, clock.now_ms(), config.sync)
        _check_clock(core, store, clock)
        feed.catch_up()
    return core, feed


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
    _, changes = core.upkeep.record_clock(detail, now_ms)
    write_patiently(store, changes)
    store.flush()
