"""What a cluster is: its id, the number of its shards, and the secret of their stores.

It is made by the first machine that comes to an empty bucket, and never changes.
"""

import secrets
from typing import Annotated

import msgspec

from ..replicated.buckets import Bucket

NAME = "cluster"
FORMAT = 1
SECRET_BYTES = 16


class ClusterUnusable(Exception):
    """The bucket cannot be used with these settings; the message says what would be right."""


class _Row(msgspec.Struct):
    """The object, in JSON."""

    format: int
    cluster: Annotated[str, msgspec.Meta(min_length=1)]
    shards: Annotated[int, msgspec.Meta(ge=1)]
    secret: Annotated[str, msgspec.Meta(min_length=2 * SECRET_BYTES)]
    version: str


class Cluster(msgspec.Struct, frozen=True):
    """A cluster."""

    id: str
    shards: int
    secret: bytes
    """That of all shards' stores, and of the machines among each other."""


def identified(bucket: Bucket, shards: int | None, version: str, makes: bool = True) -> Cluster:
    """The cluster of a bucket; in an empty one a new cluster with so many shards (None: 1), unless there must
    be one. Raises ClusterUnusable, BucketFailed."""
    data = bucket.get(NAME)
    if data is None and not makes:
        raise ClusterUnusable("has no cluster: no frontier has been started with it")
    if data is None:
        row = _Row(
            FORMAT, secrets.token_hex(8), shards or 1, secrets.token_bytes(SECRET_BYTES).hex(), version
        )
        bucket.create(NAME, msgspec.json.encode(row) + b"\n")
        data = bucket.get(NAME)  # perhaps another machine's
    if data is None:
        raise ClusterUnusable("must show what was created in it, but the object 'cluster' is not there")
    cluster = _read(data)
    if shards not in (None, cluster.shards):
        raise ClusterUnusable(
            f"has a frontier of {cluster.shards} shards, got --shards {shards}; leave --shards out"
        )
    return cluster


def _read(data: bytes) -> Cluster:
    try:
        known = msgspec.json.decode(data, type=dict[str, object]).get("format")
        if isinstance(known, int) and known > FORMAT:
            raise ClusterUnusable(
                f"has a cluster of format {known}, and this version of Toehold reads {FORMAT} at most: use "
                "the version that made it, or a later one"
            )
        row = msgspec.json.decode(data, type=_Row)
        return Cluster(row.cluster, row.shards, bytes.fromhex(row.secret))
    except (msgspec.DecodeError, ValueError) as problem:
        raise ClusterUnusable(f"has an object 'cluster' that is damaged ({problem})") from None
