"""The URIs of a crawl's seen-set, for crawls that keep them (IdentitySpec.keep_uris).

The seen-set itself has only fingerprints. Here a row beside each of its rows has the URI, when the crawl took
it in, and the key of its queue if its caller chose that.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ..rows import keys
from ..rows.errors import InvalidRequest, UrisNotKept
from ..rows.records import KeptRow, SeenRow, decode, encode
from ..rows.store import Family, Store, Transaction
from ..state.crawl import Crawl
from ..state.operation import Operation
from ..uri.canonical import Malformed, TooLong, UnsupportedScheme, canonical
from ..uri.pattern_slips import slip
from ..uri.patterns import BadPattern, Pattern, compile_pattern, full_match
from .named_queues import queue_ids_of

MAX_KEY_CHARACTERS = 512
KEY_BYTES = 16  # of a row, after the crawl's number: partition and fingerprint


@dataclass(frozen=True, slots=True)
class SeenFilter:
    """Chooses seen URIs; a condition that is empty or 0 does not count."""

    host: str = ""
    queue_key: str = ""
    uri_pattern: str = ""
    before_ms: int = 0  # taken in before this time

    def parameters(self) -> dict[str, str]:
        """The conditions as a job stores them."""
        texts = {"host": self.host, "queue_key": self.queue_key, "uri_pattern": self.uri_pattern}
        times = {"discovered_before_ms": str(self.before_ms)} if self.before_ms else {}
        return {name: text for name, text in texts.items() if text} | times


def filter_of(parameters: Mapping[str, str]) -> SeenFilter:
    """The filter of a job's stored conditions."""
    return SeenFilter(
        parameters.get("host", ""),
        parameters.get("queue_key", ""),
        parameters.get("uri_pattern", ""),
        int(parameters.get("discovered_before_ms", "0")),
    )


class Kept(NamedTuple):
    """A kept URI that was chosen, its place in the seen-set, and its row there."""

    key: bytes
    row: KeptRow
    queue_key: str  # of the queue where it waits or would wait
    seen: SeenRow


def note(op: Operation, crawl: Crawl, key: bytes, uri: str, queue_key: str, anew: bool = False) -> None:
    """Keep the URI of a row of the seen-set, if the crawl keeps them. `anew`: the row was there before."""
    if not crawl.settings.identity.keep_uris:
        return
    create_ms = op.now_ms
    if anew:
        value = op.tx.get(Family.KEPT_URIS, key)
        if value is not None:
            before = decode(KeptRow, value)
            if before.queue_key == queue_key:
                return
            create_ms, uri = before.create_ms, before.uri
    op.tx.put(Family.KEPT_URIS, key, encode(KeptRow(uri, create_ms, queue_key)))


def drop(op: Operation, crawl: Crawl, key: bytes) -> None:
    """Forget the URI of a row of the seen-set that is deleted."""
    if crawl.settings.identity.keep_uris:
        op.tx.delete(Family.KEPT_URIS, key)


def row_of(tx: Transaction, crawl: Crawl, key: bytes) -> KeptRow | None:
    """What is kept of a row of the seen-set."""
    value = tx.get(Family.KEPT_URIS, key) if crawl.settings.identity.keep_uris else None
    return None if value is None else decode(KeptRow, value)


class Choice:
    """The URIs of a crawl that a filter chooses, in the order of their keys."""

    def __init__(self, store: Store | Transaction, crawl: Crawl, wanted: SeenFilter) -> None:
        """Raises UrisNotKept, or InvalidRequest for a filter that makes no sense."""
        if not crawl.settings.identity.keep_uris:
            raise UrisNotKept(
                f"crawl {crawl.name!r} keeps only fingerprints; "
                "to list, count or purge URIs, create a crawl with identity.keep_uris",
                crawl=crawl.name,
            )
        self._store, self._crawl, self._wanted = store, crawl, wanted
        self._pattern: Pattern | None = None
        if wanted.uri_pattern:
            try:
                self._pattern = compile_pattern(wanted.uri_pattern)
            except BadPattern as problem:
                message = f"uri_pattern must be a valid RE2 pattern: {problem}"
                raise InvalidRequest(message, field="uri_pattern") from None
            if wrong := slip(wanted.uri_pattern):
                raise InvalidRequest(f"uri_pattern {wrong}", field="uri_pattern")
        self._partitions: list[bytes] = [b""]  # empty: all
        if wanted.host:
            self._host, partition = _host(crawl, wanted.host)
            self._partitions = [partition]
        if len(wanted.queue_key) > MAX_KEY_CHARACTERS:
            right = f"must have at most {MAX_KEY_CHARACTERS} characters"
            raise InvalidRequest(f"queue_key {right}, got {len(wanted.queue_key)}", field="queue_key")
        if wanted.queue_key:
            of_key = {queue[:8] for queue in queue_ids_of(store, crawl, wanted.queue_key)}
            known = self._partitions if wanted.host else of_key
            self._partitions = sorted(of_key.intersection(known))

    def after(self, cursor: bytes, most: int) -> "tuple[list[Kept], bytes, int]":
        """The URIs chosen among the next `most` rows, where to continue (or nothing), and the rows read."""
        rows: list[tuple[bytes, KeptRow]] = []
        following = b""
        for key, value in self._rows(cursor):
            if len(rows) == most:
                following = rows[-1][0][4:]
                break
            rows.append((key, decode(KeptRow, value)))
        return self._chosen(rows), following, len(rows)

    def _rows(self, cursor: bytes) -> Iterator[tuple[bytes, bytes]]:
        prefix = keys.crawl_prefix(self._crawl.number)
        for partition in self._partitions:
            if partition < cursor[: len(partition)]:
                continue
            start = prefix + max(partition, cursor)
            for key, value in self._store.scan(Family.KEPT_URIS, start, prefix + partition):
                if key[4:] != cursor:
                    yield key, value

    def _chosen(self, rows: list[tuple[bytes, KeptRow]]) -> list[Kept]:
        found = []
        for key, row in rows:
            queue_key = self._queue_key(row)
            if queue_key is not None:
                found.append((key, row, queue_key))
        values = self._store.get_many(Family.SEEN, [key for key, _, _ in found])
        return [
            Kept(key, row, queue_key, decode(SeenRow, value))
            for (key, row, queue_key), value in zip(found, values, strict=True)
            if value is not None
        ]

    def _queue_key(self, row: KeptRow) -> str | None:
        """The key of the queue of a kept URI; None if the filter does not choose the URI."""
        wanted, crawl = self._wanted, self._crawl
        if wanted.before_ms and row.create_ms >= wanted.before_ms:
            return None
        if self._pattern is not None and not full_match(self._pattern, row.uri):
            return None
        uri = canonical(row.uri)
        if wanted.host and uri.host != self._host:
            return None
        queue_key = row.queue_key or crawl.origins.site(uri, crawl.settings_for(uri)).place.queue_key
        return None if wanted.queue_key and queue_key != wanted.queue_key else queue_key


def _host(crawl: Crawl, host: str) -> tuple[str, bytes]:
    """A host in canonical form, and its partition."""
    try:
        uri = canonical(f"http://{host}/page")
    except (Malformed, UnsupportedScheme, TooLong):
        raise InvalidRequest(
            f"host must be a host name or an IP address, got {host[:80]!r}", field="host"
        ) from None
    if uri.host != uri.authority:
        raise InvalidRequest(f"host must have no port, got {host[:80]!r}", field="host")
    return uri.host, crawl.origins.site(uri, crawl.settings_for(uri)).place.partition
