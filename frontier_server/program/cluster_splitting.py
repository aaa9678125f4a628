"""`--split` with `--log`: doubles the number of shards of a cluster of which no machine runs.

1. *Claim*: open all logs, so that no machine of before can acknowledge anything any more, and have all stores
   and crawl logs in a directory of this machine.
2. *Divide*: make the new stores there, as `splitting` does.
3. *Publish*: in a new folder of the bucket, begin a log for each of them with its replica and its crawl logs.
4. *Begin*: seal the generation, look whether all logs are still this process's, and begin the next one
   (`cluster.identity`).

Until the last step has begun, machines may start as if there had been no split; then the split fails. One
that was interrupted begins anew when it is run again.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec

from toehold_base.durable import replace_file

from ..cluster.identity import (
    Cluster,
    ClusterUnusable,
    begin_generation,
    identified,
    new_folder,
    seal,
)
from ..config import MAX_SHARDS
from ..core.opening import opening
from ..core.operators.idle import some
from ..core.rows.records import CountersRow
from ..logs.archive import LogArchive
from ..replicated.buckets import Bucket
from ..replicated.folders import below
from ..replicated.log import Fenced
from ..replicated.object_log import ObjectLog
from ..replicated.replicas import Replicas
from ..shell.clock import wall_ms
from ..stores.logged import LoggedStore, mark_for_new_log, open_logged
from ..stores.rocks import CACHE_BYTES, RocksStore
from .cluster_list import renewing
from .shard_map import COORDINATOR, MapUnusable, ShardMap
from .splitting import CRAWL_LOG, CRAWLS, JOB_LOG, Say, built
from .supervisor import LOCK

FILE = "cluster-split.json"
MADE = "split"
WATCH_S = 5.0
"""For so long it looks for machines. One that it does not see, as it stands still, is fenced."""
PIECE_BYTES = 64 * 1024 * 1024


class Taken(Exception):
    """A machine has opened a log while the split was under way."""


class _Split(msgspec.Struct):
    """The file of a working directory."""

    cluster: str
    folders: list[str]
    """Those that runs of the split have begun in the bucket."""


class _Claim(NamedTuple):
    """A log that belongs to this process, as far as it knows."""

    member: str
    log: ObjectLog


def split(bucket: Bucket, data: Path, version: str, say: Say, watch_s: float = WATCH_S) -> None:
    """Double the shards of the cluster of a bucket, with a working directory that the caller has locked, and
    `say` what is done.

    Raises ClusterUnusable, MapUnusable and Taken; what the bucket, logs, stores and `splitting.split` raise:
    then the cluster is as it was, or the next call completes the split.
    """
    cluster = identified(bucket, None, "", makes=False)
    row = _begun(data, cluster)
    if cluster.folder and cluster.folder in row.folders:
        say("An interrupted split lacked only its last steps.")
        _end(bucket, data, row, cluster, say)
        return
    if 2 * cluster.shards > MAX_SHARDS:
        raise ClusterUnusable(f"has a frontier of {cluster.shards} shards, and can have at most {MAX_SHARDS}")
    _check_stopped(bucket, watch_s)
    folder = new_folder(cluster)
    row.folders.append(folder)
    _clear(data)
    _write(data, row)
    old = ShardMap(data, cluster.shards, cluster.secret)
    claims = _claimed(bucket, cluster, old, version, say)
    with built(data, old, data / MADE, say) as made:
        _check_claims(claims)
        _publish(below(bucket, folder), cluster, made, version, say)
    _check_claims(claims)
    seal(bucket, cluster, version)
    _check_claims(claims)
    begun = begin_generation(bucket, cluster, folder, version)
    if begun.folder not in row.folders:
        raise ClusterUnusable("was split by another command meanwhile; look at it with 'toehold shards list'")
    _end(bucket, data, row, begun, say)


def _check_stopped(bucket: Bucket, watch_s: float) -> None:
    machines = renewing(bucket, watch_s)
    if machines:
        named = "machine" if len(machines) == 1 else "machines"
        raise ClusterUnusable(f"is in use by {named} {', '.join(sorted(machines))}; stop all machines first")


# The working directory.


def _begun(data: Path, cluster: Cluster) -> _Split:
    """What an interrupted split of a cluster has noted in a working directory. Raises MapUnusable for a
    directory with anything else."""
    try:
        row = msgspec.json.decode((data / FILE).read_bytes(), type=_Split)
    except FileNotFoundError:
        if any(path.name not in (LOCK, f"{FILE}.new") for path in data.iterdir()):
            raise MapUnusable(
                "must be empty, or left by an interrupted split: the stores are copied there to be divided; "
                "name a new directory"
            ) from None
        return _Split(cluster.id, [])
    except msgspec.DecodeError as problem:
        raise MapUnusable(f"has a damaged file {FILE} ({problem}); name a new directory") from None
    if row.cluster != cluster.id:
        raise MapUnusable(
            f"is of a split of cluster {row.cluster}, but the bucket is of cluster {cluster.id}; name a new "
            "directory"
        )
    return row


def _write(data: Path, row: _Split) -> None:
    replace_file(data / FILE, msgspec.json.encode(row) + b"\n", 0o600)


def _clear(data: Path) -> None:
    """Remove the stores of a working directory."""
    for path in (*data.glob("shard-*"), data / COORDINATOR, data / MADE):
        if path.exists():
            shutil.rmtree(path)


# Steps.


def _claimed(bucket: Bucket, cluster: Cluster, old: ShardMap, version: str, say: Say) -> Sequence[_Claim]:
    """Open all logs, and have their stores and crawl logs."""
    ours, claims = below(bucket, cluster.folder), []
    for name in old.names:
        directory = old.directory_of(name)
        directory.mkdir(mode=0o700)
        log = _log_of(ours, directory.name, cluster, version)
        with closing(_opened(ours, directory, log, version)) as store:
            if opening.read_server_row(store) is None:
                raise ClusterUnusable(
                    f"has no store of {directory.name} yet: start the machines once, until all shards serve"
                )
            for archive, crawl, path, size in _logs_of(ours, directory, store, log.epoch):
                archive.restore(crawl, path, size)
        claims.append(_Claim(directory.name, log))
    say(f"{some(len(claims), 'store')} copied from the bucket")
    return claims


def _check_claims(claims: Sequence[_Claim]) -> None:
    """Raise Taken if a log is not this process's any more."""
    for claim in claims:
        try:
            claim.log.check()
        except Fenced:
            raise Taken(f"a machine has opened the log of {claim.member} meanwhile") from None


def _publish(ours: Bucket, cluster: Cluster, made: ShardMap, version: str, say: Say) -> None:
    """Begin a log for each new store, with its replica and its crawl logs."""
    replica_bytes = 0
    for name in made.names:
        directory = made.directory_of(name)
        with closing(RocksStore(directory / "store")) as store:
            mark_for_new_log(store)
        log = _log_of(ours, directory.name, cluster, version)
        with closing(_opened(ours, directory, log, version)) as logged:
            ((_, manifest),) = logged.manifests
            replica_bytes += manifest.size
            for archive, crawl, path, size in _logs_of(ours, directory, logged, log.epoch):
                _keep(archive, crawl, path, size)
    say(f"{some(len(made.names), 'replica')} with {replica_bytes >> 20} MiB in the bucket")


def _keep(archive: LogArchive, crawl: str, path: Path, size: int) -> None:
    """Keep a log in pieces. One that was incomplete before ends where it ended."""
    end = min(size, path.stat().st_size) if path.exists() else 0
    for start in range(0, end, PIECE_BYTES):
        archive.keep(crawl, path, start, min(start + PIECE_BYTES, end))


def _end(bucket: Bucket, data: Path, row: _Split, begun: Cluster, say: Callable[[str], None]) -> None:
    """Remove what is of no use once the next generation has begun."""
    for folder in row.folders:
        if folder != begun.folder:
            bucket.delete([f"{folder}/{each.name}" for each in below(bucket, folder).found("")])
    _clear(data)
    (data / FILE).unlink()
    say(f"The frontier has {begun.shards} shards now. Start the machines as usual, without --shards.")
    say(f"Its logs, replicas and crawl logs are below {bucket.url}/{begun.folder} from now on.")
    say(_former(bucket, begun.generation))


def _former(bucket: Bucket, generation: int) -> str:
    where = (
        f"in files/, logs/ and log/ of {bucket.url}"
        if generation == 2
        else f"below {bucket.url} in the folder g{generation - 1}-…"
    )
    return (
        f"What it had before is {where}. You may remove files and logs; remove the records in log only when "
        "no machine of before can wake up any more, as they keep it from serving."
    )


# Members.


def _log_of(ours: Bucket, name: str, cluster: Cluster, version: str) -> ObjectLog:
    return ObjectLog(ours, name, cluster.id, version)


def _opened(ours: Bucket, directory: Path, log: ObjectLog, version: str) -> LoggedStore:
    """The store of a member as its log has it."""
    return open_logged(directory, log, Replicas(ours, directory.name), version, CACHE_BYTES, wall_ms())


def _logs_of(
    ours: Bucket, directory: Path, store: RocksStore, epoch: int
) -> Iterator[tuple[LogArchive, str, Path, int]]:
    """The crawl logs of a member: where each is kept, its crawl, its file, and as much of it as the store
    remembers."""
    archive = LogArchive(ours, directory.name, epoch)
    for rows in opening.crawl_rows(store, opening.server_row(store).next_crawl):
        if rows.state.deleted:
            continue
        for name, size in _sizes(rows.counters):
            if size:
                yield archive, rows.spec.name, directory / CRAWLS / rows.spec.name / name, size


def _sizes(counters: CountersRow) -> Sequence[tuple[str, int]]:
    return (CRAWL_LOG, counters.log_bytes), (JOB_LOG, counters.job_log_bytes)
