"""The loads of shards, as families of metrics. One that is away has no values but its absence,
and what waits for it."""

from collections import Counter
from collections.abc import Sequence

from toehold.shard.v1 import shard_pb2
from toehold_base.observability.metrics_page import Families

from ..core.state.model import Presence
from .definitions import (
    SHARD_CPU,
    SHARD_FINISHED,
    SHARD_LEASES,
    SHARD_MEMORY,
    SHARD_PARKED,
    SHARD_PRESENT,
    SHARD_QUEUED,
    SHARD_STORE,
)

Load = shard_pb2.TellLoadResponse


def add_shards(families: Families, loads: Sequence[Load]) -> None:
    """Add the values of each shard."""
    for load in loads:
        shard, label = load.shard, str(load.shard.shard)
        families.add(SHARD_PRESENT, shard.present, label)
        families.add(SHARD_PARKED, shard.parked_link_count, label)
        if not shard.present:
            continue
        families.add(SHARD_QUEUED, shard.queued_count, label)
        families.add(SHARD_LEASES, shard.leased_count, label)
        families.add(SHARD_FINISHED, load.finished_count, label)
        families.add(SHARD_CPU, load.cpu_seconds, label)
        families.add(SHARD_MEMORY, shard.memory_bytes, label)
        families.add(SHARD_STORE, shard.store_bytes, label)


def presences(loads: Sequence[Load]) -> Counter[Presence]:
    """How many nodes are there, silent and so on, by the shard that knows most: each node calls all."""
    return max(
        (Counter({Presence(name): count for name, count in load.node_counts.items()}) for load in loads),
        key=lambda counts: (counts[Presence.PRESENT], counts.total()),
        default=Counter(),
    )
