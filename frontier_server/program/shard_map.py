"""The map of a data directory with several shards, `shards.json`: how many there are, and their secret.

Such a directory has one data directory for each member: `coordinator` for the front, `shard-0000` and so on
for the shards.
"""

import os
import secrets
import shutil
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import structlog

from toehold_base.durable import make_directory, replace_file
from toehold_base.serving.addresses import SOCKET, Address

from ..cluster.identity import Cluster, doubled_numbers
from ..config import DOOR, FRONT, MAX_SHARDS, Config

FORMAT = 1
FILE = "shards.json"
SLOTS = 4096  # the first 12 bits of a partition
SECRET_BYTES = 16
COORDINATOR = "coordinator"
SPLIT = "split"
"""The complete new members of a split, until they are in their places."""
STORES = ("store", "store.new")  # the latter while an interrupted salvage lacks its last step

_log = structlog.get_logger()


class MapUnusable(Exception):
    """The data directory does not have the shards that are wanted; the message says which it has."""


class _MapRow(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The file."""

    format: int
    shards: int
    secret: str
    complete: bool = False
    cluster: str = ""
    log: str = ""
    generation: int = 1
    folder: str = ""


@dataclass(frozen=True, slots=True)
class ShardMap:
    """The shards of a data directory."""

    data: Path
    shards: int
    secret: bytes
    """That of all members' stores."""
    complete: bool = False
    """Whether each member's store has been made. Then one that is missing is lost."""
    cluster: str = ""
    """The id of the cluster that it belongs to, if its stores have a log. Then none can be lost."""
    log: str = ""
    """The URL of the bucket with the logs."""
    generation: int = 1
    """The generation of the cluster, which a split ends."""
    folder: str = ""
    """The folder of that generation in the bucket; empty: its root."""

    @property
    def group(self) -> str:
        """What machines know each other by: the cluster, and its generation."""
        return f"{self.cluster}/{self.folder}" if self.folder else self.cluster

    @property
    def names(self) -> tuple[str, ...]:
        """The members' names: the shards, in their order, and the front."""
        return *(f"shard-{number}" for number in range(self.shards)), FRONT

    def range_of(self, shard: int) -> range:
        """The slots of a shard."""
        return range(shard * SLOTS // self.shards, (shard + 1) * SLOTS // self.shards)

    def shard_of(self, partition: bytes) -> int:
        """The shard that a partition belongs to."""
        slot = int.from_bytes(partition[:2], "big") >> 4
        return ((slot + 1) * self.shards - 1) // SLOTS

    def directory_of(self, member: str) -> Path:
        """A member's data directory."""
        if member == FRONT:
            return self.data / COORDINATOR
        return self.data / f"shard-{self.names.index(member):04}"

    def shown(self) -> list[dict[str, str | int]]:
        """The members: the name of each one's directory, its slots, and the bytes of its store."""
        found: list[dict[str, str | int]] = []
        for number, name in enumerate(self.names):
            directory = self.directory_of(name)
            slots = self.range_of(number) if number < self.shards else None
            its: dict[str, str | int] = {"first_slot": slots[0], "last_slot": slots[-1]} if slots else {}
            found.append({"member": directory.name, **its, "store_bytes": bytes_of(directory / "store")})
        return found

    def check(self) -> None:
        """Raise MapUnusable if the store of a member is lost."""
        lost = [
            self.directory_of(name).name for name in self.names if not _has_store(self.directory_of(name))
        ]
        if self.complete and lost:
            raise MapUnusable(
                f"has {self.shards} shards, but {_some(lost)} no store; put each into its place, or a "
                "checkpoint set in the place of all"
            )

    def write(self) -> None:
        """Write the file, durably, in one step."""
        row = _MapRow(
            FORMAT,
            self.shards,
            self.secret.hex(),
            self.complete,
            self.cluster,
            self.log,
            self.generation,
            self.folder,
        )
        make_directory(self.data, 0o700)
        replace_file(self.data / FILE, msgspec.json.encode(row) + b"\n", 0o600)

    def completed(self) -> "ShardMap":
        """The map once each member's store has been made, which is written."""
        if self.complete:
            return self
        found = replace(self, complete=True)
        found.write()
        return found


def read_map(data: Path) -> ShardMap | None:
    """The map of a data directory; None if it has no shards. Raises MapUnusable."""
    path = data / FILE
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as problem:
        raise MapUnusable(f"has shards, but {FILE} cannot be read: {problem.strerror}") from problem
    try:
        version = msgspec.json.decode(content, type=dict[str, object]).get("format")
        if isinstance(version, int) and version > FORMAT:
            raise MapUnusable(
                f"has shards, but {FILE} must have format {FORMAT} for this version of Toehold, got {version}"
            )
        row = msgspec.json.decode(content, type=_MapRow)
        secret = bytes.fromhex(row.secret)
    except (msgspec.DecodeError, ValueError) as problem:
        raise MapUnusable(f"has shards, but {FILE} is damaged ({problem}); {_WAY_BACK}") from None
    least = 1 if row.cluster else 2
    if row.format != FORMAT or not least <= row.shards <= MAX_SHARDS or len(secret) != SECRET_BYTES:
        raise MapUnusable(f"has shards, but {FILE} is damaged; {_WAY_BACK}")
    return ShardMap(data, row.shards, secret, row.complete, row.cluster, row.log, row.generation, row.folder)


def is_divided(data: Path, shards: int | None) -> bool:
    """Whether a data directory has, or is to have, several shards. One that cannot be looked into has none:
    who opens it says why."""
    try:
        return (shards or 1) > 1 or (data / FILE).exists() or _has_members(data)
    except PermissionError:
        return False


def wanted_map(data: Path, shards: int | None) -> ShardMap:
    """The map of a divided directory if it has as many shards as are wanted (None: however many), or else the
    map of a new one, which is yet to be written. Raises MapUnusable."""
    found = read_map(data)
    if found is None:
        if _has_members(data):
            raise MapUnusable(f"has shards, but {FILE} is missing; {_WAY_BACK}")
        if _has_store(data):
            raise MapUnusable(f"has an undivided store, which needs --shards 1, got --shards {shards}")
        return ShardMap(data, shards or 1, secrets.token_bytes(SECRET_BYTES))
    if found.cluster:
        raise MapUnusable(f"is a machine's of a cluster; start it with --log {found.log}")
    if shards not in (None, found.shards):
        doubled = ", or double them with 'toehold shards split'"
        raise MapUnusable(
            f"has {found.shards} shards, got --shards {shards}; leave --shards out"
            f"{doubled if shards in doubled_numbers(found.shards) else ''}"
        )
    found.check()
    return found


def cluster_map(data: Path, cluster: Cluster, log: str) -> ShardMap:
    """The map of a machine's data directory, which is written if it is new. The members of another generation
    are removed: nothing is in them alone. Raises MapUnusable, OSError."""
    found = read_map(data)
    ours = ShardMap(
        data, cluster.shards, cluster.secret, False, cluster.id, log, cluster.generation, cluster.folder
    )
    if found is None:
        if _has_members(data) or _has_store(data):
            raise MapUnusable("has a store that is in no log; name a new directory")
        ours.write()
    elif not found.cluster:
        raise MapUnusable("has shards that are in no log; name a new directory")
    elif found.cluster != cluster.id:
        raise MapUnusable(f"is of cluster {found.cluster}, but the bucket is of cluster {cluster.id}")
    elif (found.shards, found.folder) != (ours.shards, ours.folder):
        _log.warning(
            "members_removed",
            shards=found.shards,
            now=ours.shards,
            reason="the number of shards was doubled, and these are copies",
        )
        for name in found.names:
            if found.directory_of(name).exists():
                shutil.rmtree(found.directory_of(name))
        ours.write()
    elif found.log != log:  # the bucket has another address by now
        ours.write()
    return ours


def was_split_halfway(data: Path) -> bool:
    """Whether a split has built all members, and was interrupted before they were in their places."""
    try:
        return (data / SPLIT / FILE).exists()
    except PermissionError:  # who opens the directory says so
        return False


def check_no_split(data: Path) -> None:
    """Raise MapUnusable if a split must be completed first."""
    if was_split_halfway(data):
        raise MapUnusable("has an interrupted split; complete it with 'toehold shards split' first")


def check_undivided(data: Path) -> None:
    """Raise MapUnusable if a split has come since this program looked whether the directory is divided."""
    check_no_split(data)
    if is_divided(data, None):
        raise MapUnusable("was split meanwhile; start the frontier again")


def member_of(config: Config, member: str, sockets: Path) -> tuple[Config, ShardMap]:
    """The settings of a member of a divided directory, and the map of that. Raises MapUnusable."""
    shard_map = read_map(config.data)
    if shard_map is None or member not in (*shard_map.names, DOOR):
        raise MapUnusable(f"has no member {member}")
    outermost = DOOR if shard_map.cluster else FRONT
    own = replace(
        config,
        data=shard_map.data if member == DOOR else shard_map.directory_of(member),
        listen=config.listen if member == outermost else socket_of(sockets, member),
        shards=shard_map.shards,
        member=member,
        sockets=sockets,
        log=shard_map.log,
        cluster=shard_map.cluster,
        generation=shard_map.generation,
        folder=shard_map.folder,
    )
    return own, shard_map


def socket_of(sockets: Path, shard: str) -> Address:
    """Where a shard listens."""
    return Address(f"{SOCKET}{sockets / shard}.sock", 0)


def whole_around(data: Path) -> ShardMap | None:
    """The map that has a data directory as a member's, whatever path leads there; None if it is no member's.
    Raises MapUnusable."""
    for path in (data.absolute(), Path(os.path.realpath(data))):
        found = read_map(path.parent)
        if found is not None and path in map(found.directory_of, found.names):
            return found
    return None


def is_of_front(data: Path) -> bool:
    """Whether a data directory is that of a front. Raises MapUnusable."""
    found = whole_around(data)
    return found is not None and found.directory_of(FRONT).samefile(data)


def check_no_member(data: Path) -> None:
    """Raise MapUnusable for the directory of a member."""
    found = whole_around(data)
    if found is not None:
        raise MapUnusable(f"is a part of {found.data}; name that, as all its parts serve together")


def secret_around(data: Path) -> bytes:
    """The secret that the store of a data directory is to have if it is lost: that of the map around it, or a
    new one. Raises MapUnusable."""
    found = whole_around(data)
    return secrets.token_bytes(SECRET_BYTES) if found is None else found.secret


def check_store(data: Path) -> None:
    """Raise MapUnusable for a directory without a store."""
    if not _has_store(data):
        raise MapUnusable("has no store")


def bytes_of(store: Path) -> int:
    """The bytes of a store's files."""
    total = 0
    for path in store.iterdir() if store.is_dir() else ():
        with suppress(FileNotFoundError):  # RocksDB has just deleted it
            total += path.stat().st_size
    return total


def _has_store(data: Path) -> bool:
    return any((data / store).is_dir() for store in STORES)


def _has_members(data: Path) -> bool:
    return any((data / name / "store").is_dir() for name in (COORDINATOR, "shard-0000"))


def _some(names: list[str]) -> str:
    shown = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return f"{shown} {'has' if len(names) == 1 else 'have'}"


_WAY_BACK = "take it from a backup: it has the secret of all shards"
