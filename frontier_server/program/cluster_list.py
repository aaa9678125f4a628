"""What the bucket of a cluster tells of it, for `toehold shards list --log URL`."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..cluster.identity import identified
from ..cluster.members import FOLDER, Card, card_of
from ..config import FRONT
from ..replicated.buckets import Bucket
from ..replicated.change_lists import unpacked as unpacked_lists
from ..replicated.folders import below
from ..replicated.log import Kind
from ..replicated.records import Form
from ..replicated.replicas import unpacked as unpacked_manifest
from .shard_map import ShardMap

WATCH_S = 2.0
"""A machine that does not renew itself for so long is taken for gone."""


def listed(bucket: Bucket, shard_map: ShardMap) -> Iterator[dict[str, Any]]:
    """The members of a cluster, then its machines. Raises BucketFailed, LogFailed."""
    cards = {machine: card for machine, card in _cards(bucket) if card.cluster == shard_map.group}
    ours = below(bucket, shard_map.folder)
    for number, name in enumerate(shard_map.names):
        directory = shard_map.directory_of(name).name
        slots = shard_map.range_of(number) if name != FRONT else None
        told: dict[str, Any] = {"member": directory}
        if shard_map.folder:
            told["folder"] = shard_map.folder
        if slots is not None:
            told |= {"first_slot": slots[0], "last_slot": slots[-1]}
        epoch, machine = max(
            (
                (card.holds[name], machine)
                for machine, card in cards.items()
                if name in card.ports and name in card.holds  # else it is being given back
            ),
            default=(0, ""),
        )
        yield told | {"machine": machine, "epoch": epoch} | _log_of(ours, directory, shard_map.cluster)
    for machine, card in sorted(cards.items()):
        yield {
            "machine": machine,
            "host": card.host,
            "version": card.version,
            "members": len(card.ports),
            "requests_an_hour": card.requests_an_hour,
            "clock_ahead_s": card.clock_ahead_s,
        }


def renewing(bucket: Bucket, watch_s: float) -> list[str]:
    """The machines that renew themselves while this looks. Raises BucketFailed."""
    found = [each for each in bucket.found(FOLDER) if each.name.endswith("/beat")]
    time.sleep(watch_s if found else 0)
    now = {each.name: each.tag for each in bucket.found(FOLDER)}
    return [each.name.split("/")[1] for each in found if now.get(each.name, each.tag) != each.tag]


def _cards(bucket: Bucket) -> Iterator[tuple[str, Card]]:
    """The machines that renew themselves, and what each tells."""
    for machine in renewing(bucket, WATCH_S):
        data = bucket.get(f"{FOLDER}{machine}/notice")
        card = None if data is None else card_of(data)
        if card is not None:
            yield machine, card


def _log_of(bucket: Bucket, name: str, cluster: str) -> dict[str, Any]:
    """How far the log of a member has come, and what a start elsewhere would have to read."""
    names = [each.name for each in bucket.found(f"log/{name}/")]
    if not names:
        return {"records": 0, "tail_records": 0, "tail_rows": 0}
    form = Form(cluster, name, "")

    def read(number: int) -> Any:
        data = bucket.get(f"log/{name}/{number:016}")
        return None if data is None else form.read(data, number)

    last = number = int(names[-1].rpartition("/")[2])
    newest = read(last)
    told: dict[str, Any] = {"records": last, "tail_records": last, "tail_rows": 0}
    base = 0 if newest is None else newest.base
    if base:
        replica = read(base)
        if replica is None:  # two later ones have been made meanwhile
            return _log_of(bucket, name, cluster)
        manifest = unpacked_manifest(replica.payload)
        told |= {
            "tail_records": last - manifest.replay_from + 1,
            "replica_bytes": manifest.size,
            "replica_time_ms": manifest.create_ms,
        }
    while number > base and newest is not None and newest.kind is not Kind.CHANGES:
        number -= 1
        newest = read(number) if number else None
    if newest is not None and newest.kind is Kind.CHANGES:
        told["tail_rows"] = unpacked_lists(newest.payload).tail_rows
    return told


def cluster_of(bucket: Bucket, url: str) -> ShardMap:
    """The shards of the cluster in a bucket. Raises ClusterUnusable, BucketFailed."""
    cluster = identified(bucket, None, "", makes=False)
    return ShardMap(
        Path(),
        cluster.shards,
        cluster.secret,
        False,
        cluster.id,
        url,
        cluster.generation,
        cluster.folder,
    )
