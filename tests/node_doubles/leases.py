"""Leases and what belongs to them, with just what a test cares about."""

import threading

from crawler_node.fetching.fetch import FetchPolicy
from crawler_node.leases.book import HeldLease, LeaseBook
from toehold.frontier.v1.frontier_pb2 import PURPOSE_PAGE, Lease, Purpose
from toehold_client.worker.addresses import AddressRule

POLICY = FetchPolicy("policy", "toehold (+test)", 10_000, 1_000_000, AddressRule.parse(["loopback"]))


def lease(
    uri: str,
    *,
    crawl: str = "crawl",
    purpose: Purpose.ValueType = PURPOSE_PAGE,
    path: str = "",
    attempt: int = 1,
    source: str = "",
    etag: str = "",
    last_modified: str = "",
    last_digest: str = "",
    capture_ms: int = 0,
    versions: tuple[bytes, bytes] = (b"", b""),
) -> Lease:
    """A lease whose token is its URI."""
    made = Lease(
        token=uri.encode(),
        crawl=crawl,
        uri=uri,
        purpose=purpose,
        path=path,
        attempt=attempt,
        fetch_policy_id=POLICY.policy_id,
        source=source,
        etag=etag,
        last_modified=last_modified,
        last_digest=last_digest,
        scope_version=versions[0],
        seen_version=versions[1],
    )
    if capture_ms:
        made.capture_time.FromMilliseconds(capture_ms)
        made.capture_uri = uri
    return made


def held(book: LeaseBook, *leases: Lease) -> list[HeldLease]:
    """Leases put into a book and taken out of its queue again, as a toe does."""
    assert book.add([(one, POLICY) for one in leases]) == []
    taken = [book.take(threading.Event()) for _ in leases]
    return [one for one in taken if one is not None]
