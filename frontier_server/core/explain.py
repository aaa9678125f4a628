"""Why something is not fetched now, and until when: of a crawl, a queue, or a URI.

Every reason is read from the same values that decide, at the moment of the question.
"""

from . import keys
from .authority import Gate, gate
from .canonical import CanonicalUri
from .crawl import Crawl
from .dispatch import Dispatcher, Head, document_limit_reached, over_quota, retire_reason
from .enqueue import place_of
from .host import full, rest_until
from .identity import identity_of
from .intake import refusing_rule
from .leases import Lease
from .lifecycle import CrawlState
from .listing import queue_reason
from .model import Reason, UriState, UriStory, UriView, Why
from .operation import Operation, is_barred
from .queue import QueueState, WorkQueue
from .records import PendingUri, SeenRow, decode, decode_pending
from .robots_table import key_of
from .store import Family

ASKED_LATELY_MS = 60_000
COUNTED_AHEAD = 1_000
_S = CrawlState
_BY_STATE = {
    _S.NASCENT: (Why.NOT_LAUNCHED, "the crawl has not been launched"),
    _S.PREPARING: (Why.PREPARING, "its seeds are being announced"),
    _S.PAUSING: (Why.PAUSED, "it pauses; leases that are out end first"),
    _S.PAUSED: (Why.PAUSED, "it is paused; resume it"),
    _S.STOPPING: (Why.FINISHED, "it is stopping"),
    _S.FINISHED: (Why.FINISHED, "it has finished"),
}


class Explanations:
    """What explaining needs."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher

    def crawl(self, op: Operation, crawl: Crawl) -> list[Reason]:
        """Why a crawl gives no leases now, and what it leaves behind."""
        return [*self._life(crawl), *self._present(op, crawl), *_behind(crawl)]

    def _life(self, crawl: Crawl) -> list[Reason]:
        found = []
        if crawl.state in _BY_STATE:
            why, words = _BY_STATE[crawl.state]
            found.append(Reason(why, f"{words} ({crawl.exit_status.value})"))
        elif document_limit_reached(crawl):
            limits = crawl.settings.limits
            words = f"successes and leases out fill max_documents {limits.max_documents}"
            found.append(Reason(Why.LIMIT_REACHED, words))
        if crawl.jobs:
            found.append(Reason(Why.JOB_RUNS, f"jobs run: {', '.join(map(str, crawl.jobs))}"))
        return found

    def _present(self, op: Operation, crawl: Crawl) -> list[Reason]:
        """What a crawl that runs waits for."""
        if crawl.state not in (_S.RUNNING, _S.EMPTY):
            return []
        if crawl.awaits_round:
            words = f"nothing is left; round {crawl.state_row.round + 1} of the seeds begins"
            return [Reason(Why.AWAITS_ROUND, words, crawl.next_round_ms)]
        if not crawl.left:
            return [Reason(Why.EMPTY, "nothing is left that could be fetched")]
        found = []
        if crawl.counters.inactive or crawl.ready:
            found.append(self._asked(op, crawl))
        if crawl.leases_out:
            words = f"{crawl.leases_out} leases are out at nodes"
            expire_ms = min(
                (lease.deadline_ms for lease in self._leases(crawl)), default=0
            )  # the first that lapses if its node is lost
            found.append(Reason(Why.LEASED, words, expire_ms))
        queue = crawl.next_wake()
        if queue is not None:
            words = f"queues rest; {queue.row.key} wakes first ({queue.rest_reason})"
            found.append(Reason(Why.QUEUE_SNOOZED, words, queue.wake_ms))
        if crawl.first_far_ms:
            found.append(Reason(Why.QUEUE_SNOOZED, "queues rest for long, on disk", crawl.first_far_ms))
        if crawl.counters.future:
            words = f"{crawl.counters.future} URIs wait for their time"
            found.append(Reason(Why.FUTURE, words, crawl.first_future_ms or 0))
        return found

    def _asked(self, op: Operation, crawl: Crawl) -> Reason:
        if op.now_ms - crawl.asked_ms <= ASKED_LATELY_MS and crawl.asked_ms:
            return Reason(Why.DUE, "URIs can be leased now; nodes ask for them")
        since = (
            f"for {(op.now_ms - crawl.asked_ms) // 1000} s" if crawl.asked_ms else "since the server started"
        )
        return Reason(Why.NO_NODE_ASKS, f"URIs can be leased now, but no node has asked {since}")

    # Queues.

    def queue(self, op: Operation, crawl: Crawl, queue: WorkQueue) -> list[Reason]:
        """Why nothing of a queue is leased now."""
        return [*self._life(crawl), *self._queue(op, crawl, queue)]

    def _queue(self, op: Operation, crawl: Crawl, queue: WorkQueue) -> list[Reason]:
        row = queue.row
        reason = queue_reason(op.tx, crawl, queue, self.dispatcher.hosts)
        match queue.state:
            case QueueState.EXHAUSTED:
                return [Reason(Why.QUEUE_EXHAUSTED, "it has no URI")]
            case QueueState.RETIRED:
                budget = "budget" in reason or "quota" in reason
                return [Reason(Why.OVER_BUDGET if budget else Why.QUEUE_RETIRED, f"it is retired: {reason}")]
            case QueueState.INELIGIBLE:
                return [Reason(Why.QUEUE_PAUSED if row.paused else Why.BELOW_FLOOR, reason)]
            case QueueState.SNOOZED:
                why = Why.ROBOTS_PENDING if "robots.txt" in reason else Why.QUEUE_SNOOZED
                return [Reason(why, f"it rests: {reason}", row.far_ms or queue.wake_ms)]
            case QueueState.BUSY:
                return [self._out(lease) for lease in self._leases(crawl) if lease.row.queue == queue.queue]
            case _:
                return self._waiting(op, crawl, queue)

    def _waiting(self, op: Operation, crawl: Crawl, queue: WorkQueue) -> list[Reason]:
        """A queue that is inactive or ready: what its turn would bring now."""
        if not queue.row.count:
            return [Reason(Why.QUEUE_EXHAUSTED, "it has no URI; its next turn tells")]
        head = self.dispatcher.head(op, crawl, queue)
        hosts = self.dispatcher.hosts
        host = hosts.of(op.tx, crawl, queue.row.host)
        groups = hosts.groups(op.tx, crawl, queue.row.host, host)
        busy = full(host, crawl.settings.politeness.max_parallel, groups)
        if busy is not None:
            why = Why.HOST_BUSY if busy is host else Why.GROUP_BUSY
            named = [group.words for group in groups if group.host is busy]
            words = f"{named[0] if named else 'its host'} has {busy.in_flight} requests in flight"
            return [Reason(why, words)]
        until_ms, reason = rest_until(queue, host, groups)
        if until_ms > op.now_ms:
            return [Reason(Why.QUEUE_SNOOZED, f"it rests: {reason}", until_ms)]
        found = self._turn(op, crawl, queue, head)
        if queue.state is QueueState.INACTIVE:
            words = f"it waits to be activated, at precedence {queue.row.precedence}"
            found.append(Reason(Why.QUEUE_INACTIVE, words))
        if crawl.running:
            found.append(self._asked(op, crawl))
        return found

    def _turn(self, op: Operation, crawl: Crawl, queue: WorkQueue, head: Head) -> list[Reason]:
        settings = head.settings
        if is_barred(queue, settings.queues):
            return [Reason(Why.BELOW_FLOOR, f"precedence {queue.row.precedence} is at the floor")]
        spent = over_quota(op, crawl, head)
        reason = retire_reason(queue.row, settings.queues) or (f"quota {spent}" if spent else "")
        if reason:
            return [Reason(Why.OVER_BUDGET, f"its next turn retires it: {reason}")]
        key = key_of(head.uri.scheme, head.uri.host, head.uri.authority, settings)
        robots = self.dispatcher.robots.row(op.tx, key)
        match gate(robots, op.now_ms, settings.robots):
            case Gate.FETCH:
                return [Reason(Why.ROBOTS_PENDING, "its robots.txt is fetched first")]
            case Gate.WAIT:
                until_ms = robots.next_try_ms if robots else 0
                return [Reason(Why.ROBOTS_PENDING, "its robots.txt could not be fetched", until_ms)]
            case Gate.FAIL:
                return [Reason(Why.ROBOTS_PENDING, "its robots.txt cannot be had; its URIs fail with -61")]
            case _:
                return []

    # URIs.

    def uri(self, op: Operation, crawl: Crawl, uri: CanonicalUri) -> list[Reason]:
        """Why a URI is not being fetched, and when it will be."""
        story, queue, suffix = self._found(op, crawl, uri)
        found = self._life(crawl)
        match story.state:
            case UriState.NEVER_SEEN:
                if story.refused_by:
                    found.append(Reason(Why.OUT_OF_SCOPE, f"scope.{story.refused_by} refuses it"))
                else:
                    found.append(Reason(Why.NEVER_OFFERED, "nobody has offered it"))
                found += self._forbidden(op, crawl, uri)
            case UriState.FUTURE:
                found.append(Reason(Why.FUTURE, "it waits for its time", story.due_ms))
            case UriState.LEASED:
                words = f"it is out at node {story.node}"
                found.append(Reason(Why.LEASED, words, story.expire_ms))
            case UriState.DONE:
                words = f"{story.disposition or 'noted as seen'}, fetch status {story.fetch_status}"
                ago_s = max(op.now_ms - story.finish_ms, 0) // 1000
                found.append(Reason(Why.SEEN_ALREADY, f"{words}, {ago_s} s ago"))
                found += self._forbidden(op, crawl, uri)
            case _:
                found += self._forbidden(op, crawl, uri)
                if queue is not None:
                    found += self._queue(op, crawl, queue)
                    ahead = _ahead(op, crawl, queue, suffix)
                    if ahead:
                        found.append(Reason(Why.BEHIND_OTHERS, f"{ahead} URIs of its queue go first"))
        return found

    def _forbidden(self, op: Operation, crawl: Crawl, uri: CanonicalUri) -> list[Reason]:
        settings = crawl.settings_for(uri)
        if self.dispatcher.robots.forbids(op.tx, uri, settings, op.now_ms, 1 << 30):
            return [Reason(Why.ROBOTS_FORBIDDEN, "robots.txt of its host forbids it")]
        return []

    def story(self, op: Operation, crawl: Crawl, uri: CanonicalUri) -> UriStory:
        """All that a crawl knows of a URI."""
        return self._found(op, crawl, uri)[0]

    def _found(
        self, op: Operation, crawl: Crawl, uri: CanonicalUri
    ) -> tuple[UriStory, WorkQueue | None, bytes]:
        """Its story, and the queue and the place there where it waits."""
        settings = crawl.settings_for(uri)
        place, fingerprint = place_of(crawl, uri, settings)
        identity = identity_of(uri, settings.identity).uri
        value = op.tx.get(Family.SEEN, keys.seen_key(crawl.number, place.partition, fingerprint))
        if value is None:
            refused_by = refusing_rule(op, crawl, uri, "", False)
            return UriStory(uri.uri, identity, UriState.NEVER_SEEN, place.queue_key, refused_by), None, b""
        seen = decode(SeenRow, value)
        queue = op.queue(crawl, place.partition + seen.queue) if seen.suffix else None
        state = UriState.FUTURE if seen.future_ms else UriState.DONE
        waiting: UriView | None = None
        lease: Lease | None = None
        if queue is not None:
            state = UriState.QUEUED
            stored = op.tx.get(Family.PENDING, keys.pending_key(crawl.number, queue.queue, seen.suffix))
            if stored is not None:
                waiting = self._view(decode_pending(stored), queue.row.key)
            out = self._leases(crawl) if queue.leases_out else []
            lease = next((one for one in out if one.row.queue == queue.queue and not one.robots), None)
            if lease is not None and lease.row.suffix == seen.suffix:
                state = UriState.LEASED
            else:
                lease = None
        return (
            UriStory(
                uri.uri,
                identity,
                state,
                queue.row.key if queue is not None else place.queue_key,
                "",
                seen.fetch_status,
                seen.disposition,
                seen.finish_ms,
                seen.visits,
                seen.etag,
                seen.last_modified,
                seen.digest,
                seen.future_ms,
                waiting,
                lease.row.node if lease else "",
                lease.row.lease_ms if lease else 0,
                lease.deadline_ms if lease else 0,
            ),
            queue,
            seen.suffix,
        )

    def _view(self, pending: PendingUri, queue_key: str) -> UriView:
        candidate = self.dispatcher.codec.decode(pending.candidate)
        return UriView(candidate, queue_key, pending.cost, pending.precedence, pending.attempts)

    def _leases(self, crawl: Crawl) -> list[Lease]:
        return [lease for lease in self.dispatcher.leases if lease.crawl == crawl.number]

    @staticmethod
    def _out(lease: Lease) -> Reason:
        what = "its robots.txt" if lease.robots else "a URI of it"
        return Reason(Why.LEASED, f"{what} is out at node {lease.row.node}", lease.deadline_ms)


def _ahead(op: Operation, crawl: Crawl, queue: WorkQueue, suffix: bytes) -> str:
    """How many URIs are before a place in its queue, as far as they are counted."""
    prefix = keys.queue_row_key(crawl.number, queue.queue)
    for ahead, (key, _) in enumerate(op.tx.scan(Family.PENDING, prefix + queue.row.head, prefix)):
        if ahead == COUNTED_AHEAD:
            return f"{COUNTED_AHEAD} or more"
        if key[len(prefix) :] >= suffix:
            return str(ahead) if ahead else ""
    return ""


def _behind(crawl: Crawl) -> list[Reason]:
    counters = crawl.counters
    found = []
    if counters.retired_uris:
        found.append(Reason(Why.URIS_LEFT, f"{counters.retired_uris} URIs are in retired queues"))
    if counters.barred_uris:
        words = f"{counters.barred_uris} URIs are in queues at the precedence floor"
        found.append(Reason(Why.BELOW_FLOOR, words))
    return found
