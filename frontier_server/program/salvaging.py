"""`--salvage`: replaces a damaged store by a new one with all rows that can be read.

The new store is built beside the damaged one (it needs as much room), opened as a start would open it, and
only then put in place; the damaged one stays, under another name. Every crawl that runs is paused.
"""

import fcntl
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from toehold_base.durable import sync_directory

from .. import wire
from ..config import Config
from ..coordinator.whole import whole_crawls
from ..core.core import Core
from ..core.opening import opening
from ..core.opening.registry import made_of
from ..core.opening.shard import Shard
from ..core.operators.idle import some
from ..core.rows.store import Family
from ..core.salvage.rebuild import Rebuilding, Rebuilt
from ..core.state import life
from ..logs.cut_logs import keep_whole
from ..shell.clock import Clock, wall_ms
from ..stores.patient import write_patiently
from ..stores.rocks import RocksStore, StoreUnavailable
from ..stores.wreck import Wreck
from .shard_map import is_of_front, whole_around
from .suffix_list import installed

NEW, COPY = "store.new", "store.copy"
MOST_NAMED = 3  # gaps of a family that are shown


def salvage(config: Config, version: str, secret: bytes, say: Callable[[str], None]) -> None:
    """Salvage the store of a data directory, and `say` what was kept and what was lost. `secret` takes
    the place of the store's if that is lost.

    Raises StoreUnavailable if a server uses it, StoreDamaged if no row can be read, and OSError; the store
    is then as it was.
    """
    store, new = config.data / "store", config.data / NEW
    if was_cut_short(config.data):
        new.rename(store)
        sync_directory(config.data)
        say("An interrupted salvage lacked only its last step. The new store is in place now.")
        return
    if not store.is_dir():
        raise StoreUnavailable(f"{store} is missing; nothing can be salvaged")
    with (store / "LOCK").open("a") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # RocksDB's own lock
        except BlockingIOError:
            raise StoreUnavailable(f"{store} is in use by a server; stop it first") from None
        shutil.rmtree(new, ignore_errors=True)  # left by an interrupted salvage
        wreck = Wreck(store, config.data / COPY)
        try:
            _build(config, version, secret, wreck, new, say)
        finally:
            with suppress(OSError):
                wreck.remove()
        aside = config.data / f"store.damaged-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        store.rename(aside)
        new.rename(store)
        sync_directory(config.data)
    say(f"The new store is in place. The damaged one is in {aside}; remove it when you no longer need it.")
    say("Start the frontier as usual. Crawls that ran are paused: verify them, then resume them.")


def was_cut_short(data: Path) -> bool:
    """Whether the damaged store has its new name already, and the new one does not have its own yet."""
    return not (data / "store").exists() and (data / NEW).exists()


def _build(
    config: Config, version: str, secret: bytes, wreck: Wreck, new: Path, say: Callable[[str], None]
) -> None:
    codec = wire.ContractCodec()
    whole = whole_around(config.data) if is_of_front(config.data) else None
    target = RocksStore(new)
    try:
        rebuilding = Rebuilding(
            wreck.scan,
            target,
            codec,
            wire.settings_with,
            wall_ms(),
            installed(),
            leads=whole is not None,
        )
        for changes in rebuilding.changes(secret):
            write_patiently(target, changes)
        row = opening.read_server_row(target)
        assert row is not None
        clock = Clock(row.time_ms)
        shard = Shard(
            target,
            codec,
            settings_of=wire.settings_with,
            version=version,
            period_ms=config.lease_ms,
            now_ms=clock.now_ms(),
            incarnation=secrets.randbits(32),
            make=made_of if whole is None else whole_crawls(whole.shards),
        )
        core = Core(shard)
        message = _message(wreck)
        told = {
            found.name: f"{message}; known losses: {', '.join(found.lost) or 'none'}"
            for found in rebuilding.crawls
        }
        if told:
            _, changes = core.upkeep.record_lost(told, clock.now_ms(), life.SALVAGED)
            write_patiently(target, changes)
        target.flush()
    finally:
        target.close()
    _tell(wreck, rebuilding, say)
    for found in rebuilding.crawls:
        log = config.data / "crawls" / found.name / "crawl.log"
        if found.has_lost_log and log.exists():  # it would be begun anew, from the outcomes that are stored
            say(f"Crawl {found.name}: its crawl.log is kept as {keep_whole(log).name}.")


def _message(wreck: Wreck) -> str:
    gaps = sum(len(found) for found in wreck.gaps.values())
    return f"the store was damaged, and was salvaged with {some(gaps, 'gap')}"


def _tell(wreck: Wreck, rebuilding: Rebuilding, say: Callable[[str], None]) -> None:
    if wreck.rebuilt:
        say(f"The store's list of files cannot be read ({wreck.rebuilt}): deleted rows may be back.")
    for family in Family:
        gaps = wreck.gaps[family]
        rows, ranges = some(wreck.rows[family], "row"), some(len(gaps), "range")
        line = f"{family.value:>10}: {rows} read, {ranges} unreadable"
        if rebuilding.left_out[family]:
            line += f", {some(rebuilding.left_out[family], 'row')} left out, as they cannot be decoded"
        shown = [
            f"{gap.after.hex() or 'the first'} to {gap.before.hex() if gap.before else 'the last'}"
            for gap in gaps
        ]
        say(
            line
            + (
                f" ({'; '.join(shown[:MOST_NAMED])}{'; …' if len(shown) > MOST_NAMED else ''})"
                if gaps
                else ""
            )
        )
    for found in rebuilding.crawls:
        say(_line(found))
    for loss in rebuilding.lost:
        say(loss)


def _line(found: Rebuilt) -> str:
    lost = ", ".join(found.lost) or "none"
    uris = "its URIs are in the shards"
    if found.uris is not None:
        uris = f"{some(found.uris, 'URI')}, {found.waiting} of them waiting"
    return f"crawl {found.name}: {uris}; known losses: {lost}"
