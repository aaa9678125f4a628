"""The operators' requests on queues, URIs, seen-set, jobs, overrides, statistics and reasons.

Operations return *(answer, changes)*, like all of the core's.
"""

from collections.abc import Mapping, Sequence

from ..jobs import importing, steering
from ..jobs.steering import QueueChange
from ..journey import refusals
from ..journey.kept import Choice, SeenFilter, filter_of
from ..journey.named_queues import check_few, queue_ids_of
from ..journey.withdrawal import Withdrawal
from ..opening.shard import Shard
from ..rows import errors
from ..rows.keys import FetchStatisticsOf
from ..rows.records import ImportRow, JobRow
from ..rows.store import Changes
from ..state import job
from ..state.crawl import Crawl
from ..state.job import JobKind, JobState
from ..state.model import (
    MAX_BATCH,
    QUEUE_KEY,
    QUEUE_KEY_FORM,
    FetchStatisticsView,
    JobView,
    QueueView,
    Reason,
    RuleView,
    SeedView,
    SeenCounts,
    UriStory,
    UriView,
)
from ..state.operation import Operation
from ..state.queue import QueueState, WorkQueue
from ..state.spec_problems import override_problems
from ..uri.canonical import CanonicalUri, Malformed, TooLong, UnsupportedScheme, canonical
from ..uri.pattern_slips import slip
from ..uri.patterns import BadPattern, compile_pattern
from ..uri.surt import surt_prefix
from . import listing
from .changes import delete_override, overrides_changed, put_override
from .explain import Explanations
from .seen import count_slice, seen_page

MAX_OVERRIDES = 100_000
BY_PATTERN = frozenset(
    (JobKind.DELETE_URIS, JobKind.RETIRE_QUEUES, JobKind.UNRETIRE_QUEUES, JobKind.WAKE_QUEUES)
)


class Administration:
    """The operators' side of a frontier."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._explanations = Explanations(shard)
        self._withdrawal = Withdrawal(shard)

    # Queues.

    def queues(
        self, name: str, state: QueueState | None, size: int, cursor: bytes
    ) -> tuple[list[QueueView], bytes]:
        """A page of queues, and the next cursor."""
        crawl = self._shard.registry.named(name)
        return listing.queue_page(self._shard.store, crawl, self._shard.hosts, state, size, cursor)

    def largest_queues(self, name: str) -> list[QueueView]:
        """The queues with most URIs among those touched since the server started."""
        crawl = self._shard.registry.named(name)
        return listing.largest_queues(self._shard.store, crawl, self._shard.hosts)

    def slowest_queues(self, name: str) -> list[QueueView]:
        """The queues in memory that rest longest."""
        crawl = self._shard.registry.named(name)
        return listing.slowest_queues(self._shard.store, crawl, self._shard.hosts)

    def queue(self, name: str, key: str) -> list[QueueView]:
        """The queues with a key. Raises UnknownQueue if there is none."""
        crawl = self._shard.registry.named(name)
        op = Operation(self._shard.store, 0)
        found = self._queues_of(op, crawl, key)
        return [listing.queue_view(op.tx, crawl, queue, self._shard.hosts) for queue in found]

    def change_queue(
        self, name: str, key: str, change: QueueChange, now_ms: int, by: str = ""
    ) -> tuple[list[QueueView], Changes]:
        """Change the queues with a key, and return them."""
        crawl = self._shard.registry.changeable(name)
        steering.check(change)
        op = self._shard.begin(now_ms)
        found = self._queues_of(op, crawl, key)
        op.acted(crawl, by, "change-queue", key)
        for queue in found:
            steering.apply(op, self._shard.codec, crawl, queue, change)
        op.counters(crawl)
        changes = self._shard.end(op)
        hosts = self._shard.hosts
        return [listing.queue_view(op.tx, crawl, queue, hosts) for queue in found], changes

    def check_changeable(self, name: str) -> None:
        """Raise UnknownCrawl, CrawlHeld or CrawlTornDown, as each change of a crawl does."""
        self._shard.registry.changeable(name)

    def _queues_of(self, op: Operation, crawl: Crawl, key: str) -> list[WorkQueue]:
        check_few(self._shard.store, crawl, key, "queue_key", "list the queues, or change them by a pattern")
        ids = queue_ids_of(self._shard.store, crawl, key)
        found = [queue for queue in (op.queue(crawl, queue_id) for queue_id in ids) if queue is not None]
        if not found:
            raise errors.UnknownQueue(
                f"crawl {crawl.name!r} has no queue {key[:200]!r}", crawl=crawl.name, queue=key[:200]
            )
        return found

    # URIs and the seen-set.

    def uris(self, name: str, key: str, size: int, cursor: bytes) -> tuple[list[UriView], bytes]:
        """A page of the waiting URIs of the queues with a key, or of all (empty key); the next cursor."""
        crawl = self._shard.registry.named(name)
        op = Operation(self._shard.store, 0)
        queues = [queue.queue for queue in self._queues_of(op, crawl, key)] if key else []
        return listing.uri_page(self._shard.store, crawl, self._shard.codec, queues, size, cursor)

    def story(self, name: str, uri: str, now_ms: int) -> UriStory:
        """Everything that a crawl knows about a URI."""
        op = Operation(self._shard.store, now_ms)
        return self._explanations.story(op, self._shard.registry.named(name), _parsed(uri))

    def check_uris(self, name: str, uris: Sequence[str], queue_keys: Sequence[str] = ()) -> None:
        """Raise as `record_seen` and `forget_seen` would for these URIs, before they get them in slices."""
        self._shard.registry.unfinished(name)
        _batch(uris)
        if queue_keys and len(queue_keys) != len(uris):
            message = f"queue_keys must have {len(uris)} keys, one for each URI, got {len(queue_keys)}"
            raise errors.InvalidRequest(message, field="queue_keys")
        for key in queue_keys:
            if key and QUEUE_KEY(key) is None:
                message = f"each of queue_keys must have {QUEUE_KEY_FORM}, got {key[:80]!r}"
                raise errors.InvalidRequest(message, field="queue_keys")

    def record_seen(
        self,
        name: str,
        uris: Sequence[str],
        now_ms: int,
        by: str = "",
        told: str = "",
        replace: bool = False,
        queue_keys: Sequence[str] = (),
    ) -> tuple[int, Changes]:
        """Note URIs as seen without queueing them. Returns how many were new.

        With `replace` those that wait or are out are noted, too, and count as new. `told` is the event's
        detail; for a slice it describes the whole request. `queue_keys` are empty, or one for each URI.
        """
        crawl, parsed = self._shard.registry.unfinished(name), _batch(uris)
        op = self._shard.begin(now_ms)
        op.acted(crawl, by, "note-uris", told or some_uris(uris))
        withdraw = self._withdrawal.withdraw if replace else None
        noted = [
            importing.record_seen(op, crawl, uri, queue_key=queue_key, withdraw=withdraw)
            for uri, queue_key in zip(parsed, queue_keys or [""] * len(parsed), strict=True)
        ]
        return sum(noted), self._shard.end(op)

    def forget_seen(
        self, name: str, uris: Sequence[str], now_ms: int, by: str = "", told: str = ""
    ) -> tuple[int, Changes]:
        """Forget that URIs were seen, except for those that wait in queues. Returns how many were forgotten.

        `told` is as in `record_seen`.
        """
        crawl, parsed = self._shard.registry.unfinished(name), _batch(uris)
        op = self._shard.begin(now_ms)
        op.acted(crawl, by, "forget-uris", told or some_uris(uris))
        return sum(importing.forget_seen(op, crawl, uri) for uri in parsed), self._shard.end(op)

    def seen_uris(
        self, name: str, wanted: SeenFilter, size: int, cursor: bytes, now_ms: int
    ) -> tuple[list[UriStory], bytes]:
        """A page of seen URIs with their stories, and the next cursor. Raises UrisNotKept."""
        op, crawl = Operation(self._shard.store, now_ms), self._shard.registry.named(name)
        self._check_filter(crawl, wanted)
        return seen_page(op, self._shard, crawl, wanted, size, cursor)

    def seen_counts(self, name: str, wanted: SeenFilter, cursor: bytes) -> tuple[SeenCounts, bytes]:
        """Counts of some seen URIs by their state, and where to continue. Raises UrisNotKept."""
        op, crawl = Operation(self._shard.store, 0), self._shard.registry.named(name)
        self._check_filter(crawl, wanted)
        return count_slice(op, crawl, wanted, cursor)

    def _check_filter(self, crawl: Crawl, wanted: SeenFilter) -> None:
        if wanted.queue_key and not wanted.host:
            instead = "name a host too, or choose URIs by a pattern"
            check_few(self._shard.store, crawl, wanted.queue_key, "queue_key", instead)

    # Jobs.

    def start_job(
        self, name: str, kind: JobKind, parameters: Mapping[str, str], now_ms: int, by: str = ""
    ) -> tuple[JobView, Changes]:
        """Start a job of a kind for operators. Raises InvalidRequest for a bad pattern."""
        crawl = self._shard.registry.changeable(name)
        job.check_room(crawl)
        if kind in BY_PATTERN:
            for field in ("queue_pattern", "uri_pattern"):
                if field in parameters:
                    _check_pattern(field, parameters[field])
        if kind is JobKind.FORGET_URIS:
            wanted = filter_of(parameters)
            if wanted == SeenFilter():
                raise errors.InvalidRequest(
                    "filter must have at least one condition; uri_pattern `.*` chooses all URIs",
                    field="filter",
                )
            self._check_filter(crawl, wanted)
            Choice(self._shard.store, crawl, wanted)  # raises for a filter that makes no sense
        op = self._shard.begin(now_ms)
        op.acted(crawl, by, "start-job", kind.value)
        number = job.start(op, crawl, kind, parameters)
        return _job_view(number, job.get(op.tx, crawl, number)), self._shard.end(op)

    def jobs(self, name: str) -> list[JobView]:
        """The running jobs, and the last ones that ended."""
        crawl = self._shard.registry.named(name)
        return [_job_view(number, row) for number, row in job.rows(self._shard.store, crawl.number)]

    def job(self, name: str, number: int) -> JobView:
        """A job. Raises UnknownJob."""
        crawl = self._shard.registry.named(name)
        return _job_view(number, job.get(self._shard.store, crawl, number))

    def cancel_job(self, name: str, number: int, now_ms: int, by: str = "") -> tuple[JobView, Changes]:
        """Ask a job to stop. It does not undo its slices."""
        crawl = self._shard.registry.changeable(name)
        op = self._shard.begin(now_ms)
        row = job.cancel(op, crawl, number)
        op.acted(crawl, by, "cancel-job", f"{number} {row.kind}")
        return _job_view(number, row), self._shard.end(op)

    def begin_import(self, name: str, force: bool, now_ms: int, by: str = "") -> tuple[int, Changes]:
        """Create a job for the rows of `add_imports`, and return its number."""
        crawl = self._shard.registry.unfinished(name)
        job.check_room(crawl)
        op = self._shard.begin(now_ms)
        op.acted(crawl, by, "import")
        parameters = {"force": "true"} if force else {}
        return job.start(op, crawl, JobKind.IMPORT, parameters, JobState.RECEIVING), self._shard.end(op)

    def add_imports(
        self, name: str, number: int, rows: Sequence[ImportRow], now_ms: int
    ) -> tuple[None, Changes]:
        """Store rows for an import."""
        crawl = self._shard.registry.unfinished(name)
        if len(rows) > MAX_BATCH:
            raise errors.BatchTooLarge(f"a message must have at most {MAX_BATCH} URIs, got {len(rows)}")
        op = self._shard.begin(now_ms)
        importing.store_rows(op, crawl, number, rows)
        return None, self._shard.end(op)

    def end_import(self, name: str, number: int, now_ms: int) -> tuple[JobView, Changes]:
        """Let an import begin, because it has received all its rows."""
        crawl = self._shard.registry.unfinished(name)
        op = self._shard.begin(now_ms)
        row = job.received(op, crawl, number)
        return _job_view(number, row), self._shard.end(op)

    # Overrides.

    def overrides(self, name: str) -> list[tuple[str, bytes]]:
        """The overrides of a crawl, by SURT prefix."""
        return sorted(self._shard.registry.named(name).overrides.items())

    def put_override(
        self,
        name: str,
        prefix: str,
        override: bytes,
        now_ms: int,
        by: str = "",
    ) -> tuple[str, Changes]:
        """Set the override of a SURT prefix (or host, or URL). Returns the prefix in its stored form.

        The override counts from the next decision on. Raises InvalidSpec for invalid settings.
        """
        crawl = self._shard.registry.unfinished(name)
        try:
            surt = surt_prefix(prefix)
        except Malformed as problem:
            raise errors.InvalidRequest(str(problem), field="surt_prefix") from None
        found = override_problems(self._shard.registry.settings_of(crawl.spec.spec, (override,)))
        if found:
            raise errors.invalid_spec(found)
        if len(crawl.overrides) >= MAX_OVERRIDES:
            raise errors.InvalidRequest(
                f"a crawl can have at most {MAX_OVERRIDES} overrides; remove some first"
            )
        op = self._shard.begin(now_ms)
        op.acted(crawl, by, "put-override", surt)
        put_override(op, crawl, surt, override)
        overrides_changed(op, self._shard, crawl)
        return surt, self._shard.end(op)

    def delete_override(self, name: str, prefix: str, now_ms: int, by: str = "") -> tuple[None, Changes]:
        """Remove the override of a SURT prefix."""
        crawl = self._shard.registry.unfinished(name)
        known = dict(crawl.overrides.items())
        surt = prefix if prefix in known else _prefix_or_text(prefix)
        if surt not in known:
            raise errors.UnknownOverride(
                f"crawl {name!r} has no override for {prefix[:200]!r}", crawl=name, surt_prefix=prefix[:200]
            )
        op = self._shard.begin(now_ms)
        op.acted(crawl, by, "delete-override", surt)
        delete_override(op, crawl, surt)
        overrides_changed(op, self._shard, crawl)
        return None, self._shard.end(op)

    # Statistics and reasons.

    def fetch_statistics(
        self, name: str, kind: FetchStatisticsOf, size: int, cursor: bytes
    ) -> tuple[list[FetchStatisticsView], bytes]:
        """A page of hosts or sources with the statistics of their URIs."""
        crawl = self._shard.registry.named(name)
        return listing.statistics_page(self._shard.store, crawl, kind, size, cursor)

    def seeds(self, name: str, size: int, cursor: int, now_ms: int) -> tuple[list[SeedView], int]:
        """A page of seeds with their stories; the next cursor (0 at the end)."""
        crawl = self._shard.registry.named(name)
        op = Operation(self._shard.store, now_ms)
        page, following = listing.seed_page(self._shard.store, crawl, size, cursor)
        announced = crawl.counters.announced_seeds
        return [
            self._explanations.seed(op, crawl, uri, _parsed(uri), announced=cursor + place < announced)
            for place, uri in enumerate(page)
        ], following

    def seeds_here(self, name: str, uris: Sequence[str], led_only: bool, now_ms: int) -> list[SeedView]:
        """What has become of seeds of a larger crawl in this part of it; with `led_only` where the redirects
        of others' seeds have led."""
        crawl = self._shard.registry.named(name)
        op = Operation(self._shard.store, now_ms)
        if led_only:
            return [self._explanations.led(op, crawl, uri, _parsed(uri)) for uri in uris]
        return [self._explanations.seed(op, crawl, uri, _parsed(uri), announced=True) for uri in uris]

    def refusals(self, name: str, rule: str) -> list[RuleView]:
        """The rules that refused URIs with some examples of each, or one rule with all that are kept."""
        return refusals.rules(self._shard.store, self._shard.registry.named(name), rule)

    def explain(self, name: str, key: str, uri: str, now_ms: int) -> list[Reason]:
        """The reasons why a URI, the queues with a key, or else the crawl is not fetched now."""
        crawl = self._shard.registry.named(name)
        op = Operation(self._shard.store, now_ms)
        if uri:
            reasons = self._explanations.uri(op, crawl, _parsed(uri))
        elif key:
            found = self._queues_of(op, crawl, key)
            reasons = [reason for queue in found for reason in self._explanations.queue(op, crawl, queue)]
        else:
            reasons = self._explanations.crawl(op, crawl)
        if op.tx.changes:  # a URI's turn may bring its host into scope, but an answer is not written
            crawl.scope_cache.clear()
        return reasons


def some_uris(uris: Sequence[str]) -> str:
    """The number of some URIs in words, or the only URI itself."""
    return f"{len(uris)} URIs" if len(uris) > 1 else uris[0]


def _parsed(text: str) -> CanonicalUri:
    try:
        return canonical(text)
    except (Malformed, UnsupportedScheme, TooLong) as problem:
        raise errors.InvalidRequest(
            f"uri must be an absolute http or https URI, got {text[:200]!r}: {problem}", field="uri"
        ) from None


def _batch(uris: Sequence[str]) -> list[CanonicalUri]:
    if not 1 <= len(uris) <= MAX_BATCH:
        raise errors.InvalidRequest(f"uris must have 1 to {MAX_BATCH} URIs, got {len(uris)}", field="uris")
    return [_parsed(uri) for uri in uris]


def _prefix_or_text(prefix: str) -> str:
    try:
        return surt_prefix(prefix)
    except Malformed:
        return prefix


def _check_pattern(field: str, pattern: str) -> None:
    try:
        compile_pattern(pattern)
    except BadPattern as problem:
        raise errors.InvalidRequest(f"{field} must be a valid RE2 pattern: {problem}", field=field) from None
    if field == "uri_pattern" and (wrong := slip(pattern)):
        raise errors.InvalidRequest(f"{field} {wrong}", field=field)


def _job_view(number: int, row: JobRow) -> JobView:
    return JobView(
        number,
        kind=row.kind,
        state=row.state,
        parameters=dict(row.parameters),
        create_ms=row.create_ms,
        finish_ms=row.finish_ms,
        done=row.done,
        changed=row.changed,
        total=row.total,
        findings=tuple(row.findings),
        counts=dict(row.counts),
    )
