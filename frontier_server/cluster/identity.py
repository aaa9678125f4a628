"""What a cluster is: its id, the number of its shards, and the secret of their stores.

It is made by the first machine that comes to an empty bucket. Only a split changes it: it begins a new
*generation*, with twice as many shards, whose logs, replicas and crawl logs are in a folder of their own.
Two objects do that, each created once: `splits/N/sealed` before generation N may begin, and `splits/N/done`,
which begins it.

* Whoever opens a log of a generation looks, after that, whether the next one is sealed, and then leaves it
  alone. A split seals, and looks after that whether somebody has opened a log since it opened all of them.
  So one of the two sees the other, and nothing is acknowledged in a generation after its end.
* Nobody removes a seal: the split that looks for it may be slow. A split that was interrupted between the two
  objects is completed by another one; until then no machine starts.
* Of several splits at once, the one that creates `done` counts. Each has a folder of its own.
"""

import secrets
from typing import Annotated, TypeVar

import msgspec

from ..config import MAX_SHARDS
from ..replicated.buckets import Bucket

NAME = "cluster"
SPLITS = "splits/"
FORMAT = 1
SECRET_BYTES = 16
SPLIT_COMMAND = "'toehold shards split --log URL --data DIR'"

R = TypeVar("R")


class ClusterUnusable(Exception):
    """The bucket cannot be used with these settings; the message says what would be right."""


class Superseded(Exception):
    """A split has ended the generation that this process is of, or is about to."""


class _ClusterRow(msgspec.Struct):
    """The object, in JSON."""

    format: int
    cluster: Annotated[str, msgspec.Meta(min_length=1)]
    shards: Annotated[int, msgspec.Meta(ge=1)]
    secret: Annotated[str, msgspec.Meta(min_length=2 * SECRET_BYTES)]
    version: str


class _SplitRow(msgspec.Struct):
    """The object that begins a later generation, in JSON."""

    format: int
    shards: Annotated[int, msgspec.Meta(ge=1, le=MAX_SHARDS)]
    folder: Annotated[str, msgspec.Meta(pattern=r"^g\d+-[0-9a-f]+$")]
    version: str


class Cluster(msgspec.Struct, frozen=True):
    """A cluster."""

    id: str
    shards: int
    secret: bytes
    """That of all shards' stores, and of the machines among each other."""
    generation: int = 1
    folder: str = ""
    """Where the bucket has the logs, replicas and crawl logs of this generation; empty: at its root."""
    is_sealed: bool = False
    """Whether a split was about to end this generation, and has not."""


def identified(bucket: Bucket, shards: int | None, version: str, makes: bool = True) -> Cluster:
    """The cluster of a bucket; in an empty one a new cluster with so many shards (None: 1), unless there must
    be one: then it may also lack the end of a split. Raises ClusterUnusable, BucketFailed."""
    data = bucket.get(NAME)
    if data is None and not makes:
        raise ClusterUnusable("has no cluster: no frontier has been started with it")
    if data is None:
        row = _ClusterRow(
            FORMAT, secrets.token_hex(8), shards or 1, secrets.token_bytes(SECRET_BYTES).hex(), version
        )
        bucket.create(NAME, msgspec.json.encode(row) + b"\n")
        data = bucket.get(NAME)  # perhaps another machine's
    if data is None:
        raise ClusterUnusable("must show what was created in it, but the object 'cluster' is not there")
    cluster = _latest(bucket, _read(data))
    if makes and cluster.is_sealed:
        raise ClusterUnusable(f"has an interrupted split; complete it with {SPLIT_COMMAND} first")
    if shards not in (None, cluster.shards):
        doubled = f", or double them with {SPLIT_COMMAND}"
        raise ClusterUnusable(
            f"has a frontier of {cluster.shards} shards, got --shards {shards}; leave --shards out"
            f"{doubled if shards in doubled_numbers(cluster.shards) else ''}"
        )
    return cluster


def doubled_numbers(shards: int) -> list[int]:
    """The numbers of shards that one split or several make of a number."""
    return [shards << splits for splits in range(1, MAX_SHARDS.bit_length())]


def _read(data: bytes) -> Cluster:
    row = _decoded(data, NAME, _ClusterRow)
    try:
        return Cluster(row.cluster, row.shards, bytes.fromhex(row.secret))
    except ValueError as problem:
        raise ClusterUnusable(f"has an object '{NAME}' that is damaged ({problem})") from None


def _decoded(data: bytes, name: str, kind: type[R]) -> R:
    try:
        known = msgspec.json.decode(data, type=dict[str, object]).get("format")
        if isinstance(known, int) and known > FORMAT:
            raise ClusterUnusable(
                f"has a cluster of format {known}, and this version of Toehold reads {FORMAT} at most: use "
                "the version that made it, or a later one"
            )
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as problem:
        raise ClusterUnusable(f"has an object '{name}' that is damaged ({problem})") from None


# Generations.


def _latest(bucket: Bucket, cluster: Cluster) -> Cluster:
    """The cluster in its last generation."""
    while (data := bucket.get(done := _done(cluster.generation + 1))) is not None:
        row = _decoded(data, done, _SplitRow)
        cluster = Cluster(cluster.id, row.shards, cluster.secret, cluster.generation + 1, row.folder)
    is_sealed = bucket.get(_sealed(cluster.generation + 1)) is not None
    return msgspec.structs.replace(cluster, is_sealed=is_sealed)


def check_current(bucket: Bucket, generation: int) -> None:
    """Raise Superseded if a generation has ended, or is about to. Call it after a log has been opened, and
    before anything is acknowledged. Raises BucketFailed."""
    if bucket.get(_sealed(generation + 1)) is not None:
        raise Superseded("the number of shards was doubled meanwhile; start the machine again")


def new_folder(cluster: Cluster) -> str:
    """A folder for the generation after a cluster's, which nobody else has."""
    return f"g{cluster.generation + 1}-{secrets.token_hex(4)}"


def seal(bucket: Bucket, cluster: Cluster, version: str) -> None:
    """Let nobody begin to serve in a cluster's generation from now on. Raises BucketFailed."""
    bucket.create(_sealed(cluster.generation + 1), f"by version {version}\n".encode())


def begin_generation(bucket: Bucket, cluster: Cluster, folder: str, version: str) -> Cluster:
    """Begin the generation after a cluster's, which has been sealed, with twice as many shards in a folder.
    Returns it, or what another process has begun. Raises BucketFailed: then it may have begun."""
    row = _SplitRow(FORMAT, 2 * cluster.shards, folder, version)
    bucket.create(_done(cluster.generation + 1), msgspec.json.encode(row) + b"\n")
    return _latest(bucket, cluster)


def _sealed(generation: int) -> str:
    return f"{SPLITS}{generation}/sealed"


def _done(generation: int) -> str:
    return f"{SPLITS}{generation}/done"
