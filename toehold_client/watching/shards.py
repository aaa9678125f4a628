"""The shards of a frontier that has several, in words."""

from __future__ import annotations

from collections.abc import Sequence

from toehold.frontier.v1.admin_pb2 import Shard

from ..text import bytes_text, count_text

COLUMNS = ("shard", "presence", "queued", "leases", "fetches/s", "cores", "memory", "disk")
_UNKNOWN = ("-",) * 6


def shard_row(shard: Shard) -> Sequence[str]:
    """What `COLUMNS` say of a shard."""
    if not shard.present:
        return str(shard.shard), "away", *_UNKNOWN
    return (
        str(shard.shard),
        "present",
        count_text(shard.queued_count),
        count_text(shard.leased_count),
        f"{shard.finished_per_second:.1f}",
        f"{shard.busy_core_count:.2f}",
        bytes_text(shard.memory_bytes),
        bytes_text(shard.store_bytes),
    )


def away_text(shard: Shard) -> str:
    """That a shard is away, and what that means."""
    parked = shard.parked_link_count
    links = f", and {count_text(parked)} link{'s' if parked > 1 else ''} to them" if parked else ""
    return f"shard {shard.shard} is away: its sites wait until it is back{links}; the others go on"
