"""The shards of a frontier that has several, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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


def absent_shards(shards: Sequence[Shard]) -> Iterator[tuple[str, str]]:
    """Which shards are away, and what each absence means."""
    away = [shard for shard in shards if not shard.present]
    if away and len(away) == len(shards):
        yield "all shards", f"all {len(away)} shards are away: every crawl waits until they are back"
        return
    for shard in away:
        parked = shard.parked_link_count
        links = f", and {count_text(parked)} link{'s' if parked > 1 else ''} to them" if parked else ""
        text = f"shard {shard.shard} is away: its sites wait until it is back{links}; the others go on"
        yield f"shard {shard.shard}", text
