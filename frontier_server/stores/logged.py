"""A store of which a log elsewhere has every change: the machine may be lost with its disk.

A write is applied at once, and remembered. `flush` appends one record with all change lists since the last
one, so the log takes the place of the disk's sync: answers and events leave after it. The local store is a
cache.

Change lists are numbered. Each write puts a *mark* into the same batch: the epoch of the owner, the number of
the list, and the number that the next record will have. A store is often ahead of its log, by lists that were
written and not appended when its process died, and a replica may have been copied in the middle of a record.
So a record has its lists apart, and a replay skips what the store has: replaying whole records would put
older values over newer ones.

When a store is opened, there are four cases:

* It lacks the last records: they are replayed.
* It is ahead, and nobody has appended since: its last lists are sound, as nobody has heard of them. A replica
  is made before anything else, since no record has them.
* It is ahead, and somebody else has appended since: it is another history now. It is wiped and restored.
* It is missing, damaged, or lacks more than the log still has: it is restored from the last replica.
"""

import shutil
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import structlog

from ..core.rows.keys import SERVER, CrawlRow, crawl_key
from ..core.rows.store import Changes, Family, StoreDamaged, StoreFailed, WriteStalled
from ..replicated.buckets import requests_made
from ..replicated.change_lists import Lists, packed, unpacked
from ..replicated.log import Fenced, Kind, Log, LogDamaged, LogFailed
from ..replicated.replicas import Manifest, Replicas
from ..replicated.replicas import packed as packed_manifest
from ..replicated.replicas import unpacked as unpacked_manifest
from .copies import copy_live
from .log_facts import Appends, LogFacts
from .rocks import CACHE_BYTES, RocksStore

MARK_KEY = crawl_key(SERVER, CrawlRow.LOG)
STALL_S = 0.01
COPY, RESTORING = "replica.tmp", "store.restoring"
DAMAGED = "damaged"  # a file in the store
CHECK_S = 1.0
"""For so long an owner that has appended, or has looked, takes it that it still is the owner."""
SLOW_S = 3.0
"""A flush that takes longer holds up new work: it is refused until the log answers."""
_MARK = struct.Struct(">QQQ")

_log = structlog.get_logger()


class Mark(NamedTuple):
    """How far a store has come."""

    epoch: int = 0
    list: int = 0
    record: int = 0  # the first record that may have it, or lists after it


class LogNeeded(Exception):
    """A store belongs to a log; it cannot be used by itself."""


class LogFence(StoreFailed):
    """Another process owns the log now."""


def mark_of(store: RocksStore) -> Mark | None:
    """The mark of a store; None if it never had a log."""
    value = store.get(Family.CRAWLS, MARK_KEY)
    return None if value is None else Mark._make(_MARK.unpack(value))


def mark_for_new_log(store: RocksStore) -> None:
    """Let a store without a log be what a new log begins with: as if an owner had died before it could append
    what the store has, so whoever opens the log makes a replica first. Raises StoreFailed."""
    store.write({(Family.CRAWLS, MARK_KEY): _MARK.pack(*Mark(1, 1, 1))})
    store.flush()


class LoggedStore(RocksStore):
    """A store and its log. `open_logged` makes it."""

    def __init__(
        self,
        path: Path,
        log: Log,
        replicas: Replicas,
        version: str,
        cache_bytes: int = CACHE_BYTES,
        clock_s: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
    ) -> None:
        super().__init__(path, cache_bytes=cache_bytes)
        try:
            self._mark = mark_of(self) or Mark()
        except BaseException:
            self.close()
            raise
        self.log, self._replicas = log, replicas
        self._version = version
        self._clock_s = clock_s
        self._waiting: deque[Changes] = deque()  # written, but in no record yet
        self._appending = threading.Lock()
        self._applying = threading.Lock()  # taken after the one above, if both are
        self._failure_of_log: LogFailed | None = None
        self._appended = self._mark.list  # the last list that a record has
        self._next_record = 0
        self._is_owner_until_s = 0.0
        self._flush_since_s: float | None = None
        self._appends = Appends()
        self.fence = ""
        """Why this process does not own the log any more; empty as long as it may."""
        self.tail_rows = 0
        """Rows in records since the last replica."""
        self.manifests: list[tuple[int, Manifest]] = []
        """The last two, with their numbers."""
        self.is_ahead = False
        """Whether it has lists that no record has, and that its predecessor has left."""
        self.is_restored = False
        """Whether it was made anew of a log that had been used."""

    def write(self, changes: Changes) -> None:
        with self._applying:
            self._write_marked(changes, Mark(self.log.epoch, self._mark.list + 1, self._next_record))
            self._waiting.append(changes)

    def _write_marked(self, changes: Changes, mark: Mark) -> None:
        batch = self._batch_of(changes)
        batch.put(MARK_KEY, _MARK.pack(*mark), self._handles[Family.CRAWLS])
        self._write(batch)
        self._mark = mark

    def flush(self) -> None:
        """Append all lists that no record has yet; or look whether the log is still ours, if there are none.
        Raises StoreFailed."""
        self._flush_since_s = self._clock_s()
        try:
            with self._appending:
                self._append_waiting()
        finally:
            self._flush_since_s = None

    def _append_waiting(self) -> None:
        self._need_log()
        began_s = self._clock_s()
        lists = [self._waiting.popleft() for _ in range(len(self._waiting))]
        try:
            if lists:
                rows = self.tail_rows + sum(map(len, lists))
                self._next_record = self.log.append(packed(Lists(self._appended + 1, rows, lists))) + 1
                self._appends.add(self._clock_s() - began_s)
                self.tail_rows = rows
                self._appended += len(lists)
            elif began_s >= self._is_owner_until_s:
                self.log.check()
        except LogFailed as problem:
            self._failure_of_log, self._is_owner_until_s = problem, 0.0
            raise self._failure_of(problem) from problem
        self._is_owner_until_s = began_s + CHECK_S

    def _need_log(self) -> None:
        """Raises StoreFailed once the log has failed: the lists that it was given then may be in no record,
        and later ones would get their numbers."""
        if self._failure_of_log is not None:
            raise self._failure_of(self._failure_of_log)

    def _failure(self, what: str, problem: Exception) -> StoreFailed:
        failure = super()._failure(what, problem)
        if isinstance(failure, StoreDamaged):
            with suppress(OSError):  # RocksDB may open it without a complaint: the next start restores it
                (self._path / DAMAGED).touch()
        return failure

    @property
    def tail_records(self) -> int:
        """Records that a start elsewhere would read."""
        return self._next_record - (self.manifests[-1][1].replay_from if self.manifests else 1)

    @property
    def is_empty(self) -> bool:
        """Whether it has no rows, not even the server's."""
        return next(iter(self.scan(Family.CRAWLS, b"", b"")), None) is None

    @property
    def is_current(self) -> bool:
        """Whether this process owns the log, as far as it has looked a moment ago."""
        return self._clock_s() < self._is_owner_until_s

    @property
    def waits_for(self) -> str:
        """What the log's storage said, if a flush has waited for it for long; empty otherwise."""
        since_s = self._flush_since_s
        if since_s is None or self._clock_s() - since_s < SLOW_S:
            return ""
        return self.log.problem or f"the log has not answered for {self._clock_s() - since_s:.0f} s"

    def facts(self, now_ms: int) -> LogFacts:
        """The state of the log, by what memory has. Never waits for a flush or the storage."""
        appends, append_s, append_quantile_s = self._appends.told()
        since_s, manifests = self._flush_since_s, self.manifests
        return LogFacts(
            appends=appends,
            append_s=append_s,
            append_quantile_s=append_quantile_s,
            tail_rows=self.tail_rows,
            tail_records=self.tail_records,
            epoch=self.log.epoch,
            is_restored=self.is_restored,
            waiting_s=0.0 if since_s is None else self._clock_s() - since_s,
            replica_age_s=max(now_ms - manifests[-1][1].create_ms, 0) / 1000 if manifests else None,
            requests=requests_made.by_kind(),
        )

    def abandon(self) -> None:
        self.log.give_up()

    # Replicas.

    def replicate(self, directory: Path, now_ms: int, is_ahead: bool = False) -> Manifest:
        """Copy the store to the bucket. Raises StoreFailed if the log is not ours any more, OSError or
        BucketFailed if it cannot be copied. May block."""
        copy = directory / COPY
        shutil.rmtree(copy, ignore_errors=True)
        with self._appending, self._applying:
            self._need_log()
            replay_from, rows, mark = self._next_record, self.tail_rows, self._mark
        try:
            copy_live(self._path, copy)
            with self._applying:  # a write that the copy may have waits for its record by now
                pass
            files = self._replicas.upload(copy, self.log.epoch)
        finally:
            shutil.rmtree(copy, ignore_errors=True)
        manifest = Manifest(self._version, now_ms, replay_from, mark.epoch, mark.list, is_ahead, files)
        with self._appending:  # a record must have all that the copy has, but for lists that none ever will
            self._append_waiting()
            try:
                number = self.log.set_checkpoint(packed_manifest(manifest))
            except LogFailed as problem:
                self._failure_of_log, self._is_owner_until_s = problem, 0.0
                raise self._failure_of(problem) from problem
            self._next_record = number + 1
            self.tail_rows -= rows
        self.manifests = [*self.manifests, (number, manifest)][-2:]
        return manifest

    def tidy(self) -> None:
        """Delete records and files that no start needs any more. Raises StoreFailed or BucketFailed."""
        self._need_log()  # a manifest that it did not answer for may be there, and need its files
        if len(self.manifests) < 2:
            return
        try:
            self.log.truncate(self.manifests[0][1].replay_from)
        except LogFailed as problem:
            raise self._failure_of(problem) from problem
        self._replicas.clear([manifest for _, manifest in self.manifests], self.log.epoch)

    def _failure_of(self, problem: LogFailed) -> StoreFailed:
        if isinstance(problem, Fenced):
            self.fence = str(problem)
            return LogFence(self.fence)
        return StoreFailed(str(problem))

    # Opening.

    def begin(self, manifest: tuple[int, Manifest] | None) -> bool:
        """Replay what the store lacks; whether its history is the log's, given the last manifest and its
        number. If it is not, wipe the store. Raises LogFailed or StoreFailed."""
        if self._mark.record > self.log.epoch:
            raise LogDamaged(
                f"the log ends at record {self.log.epoch - 1}, but {self._path} has seen record "
                f"{self._mark.record - 1}: put the log back, or move the store away and lose what it has"
            )
        start = self._start(manifest)
        if start is None:
            return False
        seen = Mark() if manifest is None else Mark(manifest[1].epoch, manifest[1].list, manifest[0])
        logged = seen.list if seen.epoch == self._mark.epoch else 0
        for record in self.log.read(start):
            if record.kind is not Kind.CHANGES:
                continue
            lists = unpacked(record.payload)
            if not self._replayed(lists, record.epoch, record.number):
                return False
            logged = lists.last
            is_later = record.number > seen.record
            self.tail_rows = lists.tail_rows if is_later else self.tail_rows + lists.rows
        self._next_record = self.log.epoch + 1
        self._appended = self._mark.list
        self.manifests = [] if manifest is None else [manifest]
        self.is_ahead = self._mark.list > logged
        return True

    def _start(self, manifest: tuple[int, Manifest] | None) -> int | None:
        """The record to replay from; None if the log has no longer what the store lacks."""
        if manifest is None:
            return self._mark.record or 1
        number, found = manifest
        if self._mark.record > number:
            return self._mark.record
        has = self._mark.epoch == found.epoch and self._mark.list >= found.list
        return found.replay_from if has or self._mark.record >= found.replay_from else None

    def _replayed(self, lists: Lists, epoch: int, number: int) -> bool:
        """Apply those lists of a record that the store lacks; whether the record follows on what it has."""
        have = self._mark.list
        if lists.first > have + 1 or (lists.first <= have and epoch > self._mark.epoch):
            return False
        rows: Changes = {}
        for at, changes in enumerate(lists.lists, lists.first):
            if at > have:
                rows.update(changes)
        if lists.last > have:
            while True:
                try:
                    self._write_marked(rows, Mark(epoch, lists.last, number))
                    break
                except WriteStalled:
                    time.sleep(STALL_S)
            if self.log_is_full():
                self.rotate_wal()
        return True


def open_logged(
    data: Path, log: Log, replicas: Replicas, version: str, cache_bytes: int, now_ms: int
) -> LoggedStore:
    """Claim the log, and open the store of a data directory as the log has it. Raises LogFailed,
    BucketFailed, StoreFailed, LogNeeded or OSError. May block for as long as the storage is away."""
    for left in (data / COPY, data / RESTORING):
        shutil.rmtree(left, ignore_errors=True)
    log.open()
    try:
        found = log.checkpoint()
        manifest = None if found is None else (found.number, unpacked_manifest(found.payload))
        store = _kept(data, log, replicas, version, cache_bytes, manifest)
        store = store or _restored(data, log, replicas, version, cache_bytes, manifest)
    except LogDamaged:
        log.check()  # a successor may have deleted what it has replaced
        raise
    try:
        if store.is_ahead:
            store.replicate(data, now_ms, is_ahead=True)
    except BaseException:
        store.close()
        raise
    return store


def _kept(
    data: Path,
    log: Log,
    replicas: Replicas,
    version: str,
    cache_bytes: int,
    manifest: tuple[int, Manifest] | None,
) -> LoggedStore | None:
    """The store that is there, brought up to date; None if there is none, or it is of another history."""
    path = data / "store"
    if not path.is_dir():
        return None
    problem = "damage was found in it" if (path / DAMAGED).exists() else ""
    try:
        if not problem:
            store = LoggedStore(path, log, replicas, version, cache_bytes)
            if _is_begun(store, manifest):
                replicas.know(() if manifest is None else manifest[1].files, is_sure=False)
                return store
            problem = "it is not what its log has"
    except StoreDamaged as damage:
        problem = str(damage)
    _log.warning("store_wiped", problem=problem, consequence="it is restored from its log")
    return None


def _restored(
    data: Path,
    log: Log,
    replicas: Replicas,
    version: str,
    cache_bytes: int,
    manifest: tuple[int, Manifest] | None,
) -> LoggedStore:
    """The store as the last replica and the records since then have it."""
    path = data / "store"
    began_s = time.monotonic()
    shutil.rmtree(path, ignore_errors=True)
    if manifest is not None:
        replicas.download(manifest[1].files, data / RESTORING)
        (data / RESTORING).rename(path)
    store = LoggedStore(path, log, replicas, version, cache_bytes)
    if not _is_begun(store, manifest):
        raise LogDamaged("the records after the last manifest do not follow on it")
    store.is_restored = manifest is not None or log.epoch > 1
    if store.is_restored:
        _log.warning(
            "store_restored",
            epoch=log.epoch,
            file_bytes=0 if manifest is None else manifest[1].size,
            rows=store.tail_rows,
            took_s=round(time.monotonic() - began_s, 2),
        )
    return store


def _is_begun(store: LoggedStore, manifest: tuple[int, Manifest] | None) -> bool:
    """Whether a store is up to date now. It is closed if not."""
    is_begun = False
    try:
        if mark_of(store) is None and not store.is_empty:
            raise LogNeeded(
                "has a store that no log knows; move it away, and the frontier is restored from its log"
            )
        is_begun = store.begin(manifest)
    finally:
        if not is_begun:
            store.close()
    return is_begun
