"""What the source of a redirect was fetched for: it travels with leases and candidates to its target.

A lease tells its fetcher the chain of redirects that led to its URI, the URI itself included. The candidate
of the redirect's target brings the chain back, so that nobody looks the source up. By its chain a target is
fetched although it has been seen, if

* the chain began with a fetch that was to bring a newer state (a round of seeds, a forced refetch), and the
  target was last fetched before; or
* a URI of the chain has the target's identity: else a page that redirects to another spelling of itself
  would be lost (Heritrix: forceFetch).

Chains are tagged, so that fetchers cannot make them up, and each lease has one URI of its identity fetched
again at most. A URI comes once in a chain. It comes once more, up to `MAX_VISITS` in all, whenever its
cookies have changed since its last visit there: a cookie wall redirects to the page that it hides, and opens
once its cookie comes back. Fetchers tell by marks with which cookies they asked for a page, and would ask
for its target; the marks are in the chain, as the cookies stay with the fetcher.
"""

import struct
from hashlib import blake2b
from typing import NamedTuple

MAX_LINKS = 31  # as many as 1024 bytes hold; earlier ones are dropped
MAX_VISITS = 4  # of a URI in a chain: walls that set three cookies, one after the other, are open then
_HEAD = struct.Struct(">Q")
_LINK = struct.Struct(">8s8sQ8s")
_TAG_BYTES = 8
NO_COOKIES = bytes(8)
_NUMBER = struct.Struct(">I")
_COUNT = (1 << 32) - 1


class Link(NamedTuple):
    """A lease of a chain."""

    fingerprint: bytes  # of the identity of its URI
    text: bytes  # the hash of its canonical URI
    serial: int  # the lease's
    cookies: bytes = NO_COOKIES  # the hash of the mark of those that it was asked for with


class Chain(NamedTuple):
    """Redirects that followed each other, the first one first."""

    refetch_before_ms: int  # URIs last fetched before are fetched again; 0: none
    links: tuple[Link, ...]

    def same_as(self, fingerprint: bytes) -> Link | None:
        """The last lease of the chain whose URI has an identity."""
        for link in reversed(self.links):
            if link.fingerprint == fingerprint:
                return link
        return None

    def may_come(self, text: bytes, cookies: bytes) -> bool:
        """Whether a canonical URI, by its hash, may come in the chain, with cookies of this mark."""
        visits = [link for link in self.links if link.text == text]
        return not visits or (len(visits) < MAX_VISITS and visits[-1].cookies != _hash_of(cookies))

    def with_cookies(self, mark: bytes) -> "Chain":
        """The chain once the fetcher of its last lease has told the mark of the cookies that it sent."""
        if not self.links:
            return self
        last = self.links[-1]._replace(cookies=_hash_of(mark))
        return Chain(self.refetch_before_ms, (*self.links[:-1], last))

    def followed_by(self, link: Link, refetch_before_ms: int) -> "Chain":
        """The chain after one more lease, which was itself to bring a newer state if the time is not 0."""
        links = (*self.links, link)[-MAX_LINKS:]
        return Chain(max(self.refetch_before_ms, refetch_before_ms), links)


NO_CHAIN = Chain(0, ())


def count_of(serial: int) -> int:
    """A lease's number in its crawl, which grows from lease to lease, from its number in the world."""
    return serial & _COUNT


def encode_chain(chain: Chain, crawl: int, secret: bytes) -> bytes:
    """A crawl's chain in bytes, with a tag that only the server can make."""
    body = _HEAD.pack(chain.refetch_before_ms) + b"".join([_LINK.pack(*link) for link in chain.links])
    return body + _tag(body, crawl, secret)


def decode_chain(data: bytes, crawl: int, secret: bytes) -> Chain:
    """A chain from bytes; an empty one unless a server with this secret made it for this crawl."""
    body, tag = data[:-_TAG_BYTES], data[-_TAG_BYTES:]
    links_bytes = len(body) - _HEAD.size
    if links_bytes < 0 or links_bytes % _LINK.size or tag != _tag(body, crawl, secret):
        return NO_CHAIN
    (refetch_before_ms,) = _HEAD.unpack_from(body)
    links = [Link(*_LINK.unpack_from(body, at)) for at in range(_HEAD.size, len(body), _LINK.size)]
    return Chain(refetch_before_ms, tuple(links))


def _hash_of(mark: bytes) -> bytes:
    """The hash of a mark of cookies."""
    return blake2b(mark, digest_size=8, person=b"cookies").digest() if mark else NO_COOKIES


def _tag(body: bytes, crawl: int, secret: bytes) -> bytes:
    return blake2b(
        _NUMBER.pack(crawl) + body, digest_size=_TAG_BYTES, key=secret, person=b"redirects-2"
    ).digest()
