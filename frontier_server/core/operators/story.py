"""All that a crawl knows of one URI: its place, and the result of its last visit."""

from typing import NamedTuple

from ..journey import kept
from ..journey.intake import refusing_rule
from ..opening.shard import Shard
from ..rows import keys
from ..rows.keys import IndexSet
from ..rows.records import SeenRow, decode
from ..rows.store import Family
from ..state.crawl import Crawl
from ..state.leases import Lease
from ..state.model import UriState, UriStory, UriView
from ..state.operation import Operation
from ..state.queue import WorkQueue
from ..uri.canonical import CanonicalUri
from ..uri.identity import identity_of
from .listing import uri_view


class Located(NamedTuple):
    """A URI's story, and the queue and position where it waits."""

    story: UriStory
    queue: WorkQueue | None = None
    position: bytes = b""


def find(op: Operation, shard: Shard, crawl: Crawl, uri: CanonicalUri) -> Located:
    """The story of a URI."""
    settings = crawl.settings_for(uri)
    site, fingerprint = crawl.origins.located(uri, settings)
    place = site.place
    identity = identity_of(uri, settings.identity).uri
    key = keys.seen_key(crawl.number, place.partition, fingerprint)
    value = op.tx.get(Family.SEEN, key)
    if value is None:
        refused_by = refusing_rule(op, crawl, uri, "", False)
        return Located(UriStory(uri.uri, identity, UriState.NEVER_SEEN, place.queue_key, refused_by))
    seen = decode(SeenRow, value)
    row = kept.row_of(op.tx, crawl, key)
    queue_key = (row.queue_key if row is not None else "") or place.queue_key
    state = UriState.FUTURE if seen.future_ms else UriState.DONE
    queue = op.queue(crawl, place.partition + seen.queue) if seen.position else None
    waiting: UriView | None = None
    lease: Lease | None = None
    if queue is not None:
        waiting = _waiting(op, shard, crawl, queue, seen.position)
        lease = _lease(shard, crawl, queue, seen.position)
        state = UriState.QUEUED if lease is None else UriState.LEASED
    elif seen.future_ms:
        waiting = _future(op, shard, crawl, seen.future_ms, place.partition + fingerprint)
    story = UriStory(
        uri.uri,
        identity,
        state,
        queue_key if queue is None else queue.row.key,
        refused_by="",
        fetch_status=seen.fetch_status,
        disposition=seen.disposition,
        finish_ms=seen.finish_ms,
        visits=seen.visits,
        etag=seen.etag,
        last_modified=seen.last_modified,
        digest=seen.digest,
        due_ms=seen.future_ms,
        waiting=waiting,
        node=lease.row.node if lease else "",
        lease_ms=lease.row.lease_ms if lease else 0,
        expire_ms=lease.deadline_ms if lease else 0,
        discover_ms=0 if row is None else row.create_ms,
        reason=seen.reason,
    )
    return Located(story, queue, seen.position)


def _waiting(op: Operation, shard: Shard, crawl: Crawl, queue: WorkQueue, position: bytes) -> UriView | None:
    stored = op.tx.get(Family.PENDING, keys.pending_key(crawl.number, queue.queue, position))
    if stored is None:
        return None
    return uri_view(shard.codec, queue.row.key, stored, keys.due_of_position(position))


def _future(op: Operation, shard: Shard, crawl: Crawl, due_ms: int, member: bytes) -> UriView | None:
    stored = op.tx.get(Family.INDEX, keys.timed_key(crawl.number, IndexSet.FUTURE, due_ms, member))
    return None if stored is None else uri_view(shard.codec, "", stored, due_ms)


def _lease(shard: Shard, crawl: Crawl, queue: WorkQueue, position: bytes) -> Lease | None:
    """The lease of a URI that is out. (One for a robots.txt is of the URI that waits for it.)"""
    serial = queue.out.get(position)
    return None if serial is None else shard.leases.of_serial(crawl.number, serial)
