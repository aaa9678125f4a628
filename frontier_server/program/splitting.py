"""`--split`: doubles the number of shards of a data directory that no frontier uses.

All stores are built anew in `DIR/split.new`, which takes as much room again, and compared with the old ones
row by row. Then they are called `DIR/split`, and change places with the old ones, in steps that another run
completes. The old directory stays whole, as `DIR/before-split-N`.
"""

import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from toehold_base.durable import make_directory, sync_directory

from .. import wire
from ..config import FRONT, MAX_SHARDS
from ..coordinator.doubling import doubled_row
from ..coordinator.whole import whole_crawls
from ..core.opening import opening
from ..core.opening.registry import made_of
from ..core.opening.shard import Shard
from ..core.operators.idle import some
from ..core.rows import keys
from ..core.rows.records import FORMAT, JobRow, decode
from ..core.rows.store import Changes, Family
from ..core.salvage.division import Division, Unequal
from ..core.spec.settings import CrawlSettings
from ..core.state.job import ENDED, JobKind
from ..service import version
from ..stores.patient import write_patiently
from ..stores.rocks import RocksStore
from . import salvaging
from .shard_map import (
    FILE,
    SPLIT,
    STORES,
    MapUnusable,
    ShardMap,
    check_no_member,
    check_store,
    read_map,
    was_split_halfway,
)

ROWS_PER_WRITE = 500
LEASE_MS = 30_000  # of a store that is opened for a look: nothing of it is written
CHECKPOINTS, CRAWLS = "checkpoints", "crawls"
CRAWL_LOG, JOB_LOG = "crawl.log", "job.log"
_ANNOUNCED = (JobKind.SEED.value, JobKind.RESEED.value)  # the jobs that a coordinator goes on with

Say = Callable[[str], None]


def split(data: Path, say: Say) -> None:
    """Double the shards of a data directory that the caller has locked, and `say` what is done.

    Raises MapUnusable if it cannot be divided, StoreUnavailable if a server uses a part of it, Unequal,
    StoreCorrupt, StoreFailed and OSError: the old stores are then in their places, unchanged, or the next
    call completes what is left.
    """
    if was_split_halfway(data) or _lacks_tidying(data):
        say("An interrupted split lacked only its last steps.")
    else:
        _build(data, say)
    _put_in_place(data, say)


def _build(data: Path, say: Say) -> None:
    old = read_map(data)
    shards = old.shards if old is not None else 1
    if 2 * shards > MAX_SHARDS:
        raise MapUnusable(f"has {shards} shards, and can have at most {MAX_SHARDS}")
    aside = data / _aside(shards)
    if aside.exists():
        raise MapUnusable(f"was split before, and has {aside.name} from then; remove that first")
    if old is not None:
        old.check()
    else:
        check_no_member(data)
        check_store(data)
    if (data / SPLIT).exists() and not _is_empty(data / SPLIT):
        raise MapUnusable(f"has a folder {SPLIT} that is none of Toehold's; move it away")
    new = data / f"{SPLIT}.new"
    with built(data, old, new, say):
        new.rename(data / SPLIT)  # while no frontier can begin: from now on, none will
        sync_directory(data)


@contextmanager
def built(data: Path, old: ShardMap | None, new: Path, say: Say) -> Iterator[ShardMap]:
    """Make twice as many members, in a new directory, as a directory has by its map (None: it has no shards).
    A context in which they are made, and no other process can use the old ones; their map, which is written
    last. Raises what `split` does."""
    shards = old.shards if old is not None else 1
    with ExitStack() as stack:
        sources = [
            stack.enter_context(_opened(old.directory_of(name) if old else data)) for name in _shards_of(old)
        ]
        row = opening.server_row(sources[0])
        made = ShardMap(new, 2 * shards, old.secret if old is not None else row.secret, complete=True)
        dividings = [
            _Dividing(source, number, made, undivided=old is None) for number, source in enumerate(sources)
        ]
        for dividing in dividings:
            dividing.check()
        if old is not None:
            coordinator = stack.enter_context(_opened(old.directory_of(FRONT)))
            _check_jobs(coordinator, "the coordinator")
        shutil.rmtree(new, ignore_errors=True)  # left by an interrupted split
        make_directory(new, 0o700)
        try:
            for dividing in dividings:
                dividing.run(say)
            if old is not None:
                _double(coordinator, made)
            _copy_all_logs(data, old, made)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        made.write()
        yield made


def _shards_of(old: ShardMap | None) -> Sequence[str]:
    return old.names[:-1] if old is not None else ("",)


@contextmanager
def _opened(directory: Path) -> Iterator[RocksStore]:
    """The store of a member, which no other process can use meanwhile."""
    if salvaging.was_cut_short(directory):
        raise MapUnusable(f"has an interrupted salvage in {directory}; start that with --salvage first")
    if not (directory / "store").is_dir():
        raise MapUnusable(f"has no store in {directory}; start the frontier on it once, then split it")
    with closing(RocksStore(directory / "store")) as store:
        if opening.server_row(store).format != FORMAT:
            raise MapUnusable(
                "was last used by an earlier version; start the frontier on it once, then split it"
            )
        yield store


class _Target:
    """A store that is being made."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        """The store is closed with `stack`."""
        make_directory(directory, 0o700)
        self._directory = directory
        self.store = RocksStore(directory / "store")
        stack.callback(self.store.close)
        self._changes: Changes = {}

    def flush(self) -> None:
        """Make all durable, and the name of the store."""
        self.store.flush()
        sync_directory(self._directory)

    def put(self, family: Family, key: bytes, value: bytes) -> None:
        self._changes[family, key] = value
        if len(self._changes) >= ROWS_PER_WRITE:
            self.write()

    def write(self) -> None:
        """Write all that was put."""
        write_patiently(self.store, self._changes)
        self._changes = {}
        if self.store.log_is_full():
            self.store.rotate_wal()


class _Dividing:
    """The division of one store into new ones."""

    def __init__(self, source: RocksStore, number: int, made: ShardMap, undivided: bool) -> None:
        self._source = source
        self._undivided = undivided
        self._names = [f"shard-{2 * number}", f"shard-{2 * number + 1}", *((FRONT,) if undivided else ())]
        self._where = "the store" if undivided else f"shard {number}"
        self._made = made
        self._division = Division(
            source,
            lambda partition: made.shard_of(partition) - 2 * number,
            wire.settings_with,
            wire.ContractCodec(),
            undivided,
        )

    def check(self) -> None:
        """Raise MapUnusable if the store cannot be divided, Unequal if it contradicts itself."""
        _check_jobs(self._source, self._where, _ANNOUNCED if self._undivided else ())
        for crawl in self._division.crawls.values():
            if self._undivided and not crawl.state_row.deleted:
                check_settings(crawl.name, crawl.settings, self._division.by_site)
        try:
            self._division.check()
        except Unequal as problem:
            raise Unequal(
                f"{self._where}: {problem}. Start the frontier, and repair the crawl with 'toehold verify "
                "--repair' first"
            ) from None

    def run(self, say: Say) -> None:
        """Make the new stores, and compare them with this one."""
        with ExitStack() as stack:
            targets = [_Target(self._made.directory_of(name), stack) for name in self._names]
            stores = [target.store for target in targets]
            for rows in (self._division.rows(), self._division.crawl_rows(stores)):
                for owner, family, key, value in rows:
                    targets[owner].put(family, key, value)
                for target in targets:
                    target.write()
            self._division.compare(stores)
            for target in targets:
                target.flush()
                self._look(target.store, is_whole=target is targets[-1] and self._undivided)
            for name, store in zip(self._names, stores, strict=True):
                if name != FRONT:
                    uris = sum(1 for _ in store.scan(Family.SEEN, b"", b""))
                    say(f"{self._made.directory_of(name).name}: {some(uris, 'URI')}, compared row by row")

    def _look(self, store: RocksStore, is_whole: bool) -> None:
        """Open a new store as a start does. Raises StoreCorrupt."""
        Shard(
            store,
            wire.ContractCodec(),
            settings_of=wire.settings_with,
            version=version(),
            period_ms=LEASE_MS,
            now_ms=opening.server_row(store).time_ms,
            incarnation=secrets.randbits(32),
            read_only=True,
            make=whole_crawls(self._made.shards) if is_whole else made_of,
        )


def check_settings(crawl: str, settings: CrawlSettings, by_site: bool) -> None:
    """Raise MapUnusable for a crawl that several shards could not crawl."""
    lacks = ""
    if settings.limits.source_quota != type(settings.limits.source_quota)():
        lacks = "limits.source_quota, and what descends from a seed is in several shards"
    elif settings.address_group != type(settings.address_group)():
        lacks = "address_group, and the hosts of an address are in several shards"
    elif not by_site and (settings.identity.rules or settings.identity.rewrites or settings.groups):
        lacks = (
            "identity rules, rewrites or groups, and an early version made the store: hosts of one site are "
            "far apart in it"
        )
    if lacks:
        raise MapUnusable(
            f"cannot be split: crawl {crawl} has {lacks}. Delete the crawl, or keep the frontier undivided"
        )


def _check_jobs(store: RocksStore, where: str, allowed: Sequence[str] = _ANNOUNCED) -> None:
    """Raise MapUnusable if a job has not ended: its parts could not be told apart."""
    crawls = {rows.number: rows for rows in opening.crawl_rows(store, opening.server_row(store).next_crawl)}
    for key, value in store.scan(Family.JOBS, b"", b""):
        row, crawl = decode(JobRow, value), crawls.get(int.from_bytes(key[:4], "big"))
        if crawl is None or crawl.state.deleted or row.state in ENDED or row.kind in allowed:
            continue
        raise MapUnusable(
            f"cannot be split yet: job {keys.serial_of(key)} ({row.kind}) of crawl {crawl.spec.name} has not "
            f"ended in {where}. Start the frontier, and wait until 'toehold jobs' says that it has ended"
        )


def _double(source: RocksStore, made: ShardMap) -> None:
    """Make the coordinator's store for twice as many shards."""
    with ExitStack() as stack:
        target = _Target(made.directory_of(FRONT), stack)
        for family in Family:
            for key, value in _rows(source, family):
                target.put(family, *doubled_row(family, key, value))
        target.write()
        target.flush()
        for family in Family:
            copies = target.store.scan(family, b"", b"")
            for key, value in _rows(source, family):
                if next(copies, None) != doubled_row(family, key, value):
                    raise Unequal(
                        f"the row {key.hex()} of {family.value} is missing in the coordinator's store"
                    )


def _rows(source: RocksStore, family: Family) -> Iterator[tuple[bytes, bytes]]:
    """The rows of a family that any store may have."""
    return (row for row in source.scan(family, b"", b"") if not keys.is_mark(family, row[0]))


def _copy_all_logs(data: Path, old: ShardMap | None, made: ShardMap) -> None:
    """Copy the logs: those of a shard for its first half, those of the coordinator for the new one."""
    if old is None:
        _copy_logs(data, made.directory_of("shard-0"), (CRAWL_LOG,))
        _copy_logs(data, made.directory_of(FRONT), (JOB_LOG,))
        return
    _copy_logs(old.directory_of(FRONT), made.directory_of(FRONT), (CRAWL_LOG, JOB_LOG))
    for number in range(old.shards):
        source, first = old.directory_of(f"shard-{number}"), made.directory_of(f"shard-{2 * number}")
        _copy_logs(source, first, (CRAWL_LOG, JOB_LOG))


def _copy_logs(source: Path, target: Path, names: Sequence[str]) -> None:
    """Copy the logs of all crawls, durably: the frontier goes on writing to the copies."""
    for log in sorted((source / CRAWLS).glob("*/*.log")):
        if log.name in names:
            copy = target / CRAWLS / log.parent.name / log.name
            make_directory(copy.parent)
            shutil.copy2(log, copy)
            with copy.open("rb") as file:
                os.fsync(file.fileno())
            sync_directory(copy.parent)


def _aside(shards: int) -> str:
    """The directory that has the old stores after a split."""
    return f"before-split-{shards}"


def _lacks_tidying(data: Path) -> bool:
    """Whether a split has put all in place, and was interrupted before it removed its folder."""
    made = read_map(data)
    return made is not None and (data / _aside(made.shards // 2)).exists() and _is_empty(data / SPLIT)


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def _put_in_place(data: Path, say: Say) -> None:
    """Let the new stores and the old ones change places. Each step is one rename, and done once."""
    made = read_map(data / SPLIT) or read_map(data)  # the map is the last of the new ones to come
    assert made is not None
    shards, new = made.shards // 2, data / SPLIT
    aside = data / _aside(shards)
    if (new / FILE).exists():
        make_directory(aside, 0o700)
        for name in _former(data, shards):
            if (data / name).exists() and not (aside / name).exists():
                (data / name).rename(aside / name)
        sync_directory(aside)
        sync_directory(data)
        for name in (*(made.directory_of(member).name for member in made.names), FILE):
            if (new / name).exists():
                (new / name).rename(data / name)
                sync_directory(data)
        sync_directory(new)
    new.rmdir()
    say(f"{data} has {made.shards} shards now. Start the frontier as usual.")
    say(f"What it had before is in {aside}; remove it when you no longer need it.")


def _former(data: Path, shards: int) -> Sequence[str]:
    """The names of what a directory has with so many shards."""
    if shards == 1:
        return (STORES[0], CHECKPOINTS, CRAWLS)
    old = ShardMap(data, shards, b"")
    return (FILE, *(old.directory_of(name).name for name in old.names))
