"""Explains why a crawl, a queue or a URI is not fetched now, and until when.

Every reason is read from the values that decide, at the moment of the question. Reasons of
the crawl as a whole (`idle`) come first.
"""

from ..journey.turn import (
    HOST_RULES,
    QUEUE_RULES,
    Found,
    Obstacle,
    Turn,
    out_of_scope,
    robots_failure,
    robots_standing,
)
from ..machines.lifecycle import CrawlState
from ..opening.shard import Shard
from ..robotstxt.authority import Gate, standing
from ..rows import keys
from ..rows.records import RobotsRow, decode_pending
from ..rows.store import Family
from ..rules.disposition import Disposition
from ..rules.outcome_words import is_redirect, retry_words, words
from ..spec.settings import CrawlSettings
from ..state.crawl import Crawl
from ..state.head import Head, first_of, head_at, queue_settings, read_head
from ..state.host import Host
from ..state.landings import landing_of
from ..state.lanes import shares
from ..state.leases import Lease
from ..state.model import Reason, SeedResult, SeedView, UriState, UriStory, Why
from ..state.operation import Operation, rank_of
from ..state.pending import first_free
from ..state.queue import QueueState, WorkQueue
from ..uri.canonical import CanonicalUri
from . import idle
from .idle import some, span
from .story import Located, find

MAX_COUNTED = 1_000  # URIs before one
_FINAL = frozenset(
    each.value for each in (Disposition.SUCCEEDED, Disposition.FAILED, Disposition.DISREGARDED)
)
_IN_QUEUE = (UriState.QUEUED, UriState.LEASED)
# Reasons why a seed is not fetched that its operator should hear of.
_TROUBLES = frozenset(
    (
        *(Why.ROBOTS_PENDING, Why.QUEUE_SNOOZED, Why.QUEUE_RETIRED, Why.QUEUE_PAUSED),
        *(Why.QUEUE_INELIGIBLE, Why.OVER_BUDGET),
    )
)


class Explanations:
    """Explains crawls, queues and URIs of a shard."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def crawl(self, op: Operation, crawl: Crawl) -> list[Reason]:
        """Why a crawl gives no leases now, and which URIs it leaves out."""
        return idle.reasons(op, crawl, self._shard.leases)

    # Queues.

    def queue(self, op: Operation, crawl: Crawl, queue: WorkQueue) -> list[Reason]:
        """Why no URI of a queue is leased now."""
        return [*idle.life(op, crawl, self._shard.leases), *self._queue(op, crawl, queue)]

    def _queue(self, op: Operation, crawl: Crawl, queue: WorkQueue) -> list[Reason]:
        row = queue.row
        found = []
        if row.paused:
            found.append(Reason(Why.QUEUE_PAUSED, f"an operator has paused queue {row.key}"))
        if row.retiring:
            message = f"queue {row.key} will be retired when its lease ends: {row.retire_reason}"
            found.append(Reason(Why.QUEUE_RETIRED, message))
        match queue.state:
            case QueueState.RETIRED:
                message = f"queue {row.key} is retired with {some(row.count, 'URI')}: {row.retire_reason}"
                found.append(Reason(_retired(row.retire_reason), message))
            case QueueState.INELIGIBLE:
                if not row.paused:
                    settings = queue_settings(op, crawl, self._shard.codec, queue)
                    found.append(Reason(Why.QUEUE_INELIGIBLE, _below_floor(queue, settings)))
            case QueueState.BUSY:
                found += [
                    self._out(op, crawl, lease)
                    for lease in self._shard.leases
                    if lease.crawl == crawl.number and lease.row.queue == queue.queue
                ]
                found += self._further(op, crawl, queue)
            case _:
                found += self._waiting(op, crawl, queue)
        return found

    def _further(self, op: Operation, crawl: Crawl, queue: WorkQueue) -> list[Reason]:
        """Why a queue with leases out gives no further one now, although its settings allow more."""
        free = first_free(op, crawl, queue) if len(queue.out) == queue.leases_out else None
        if free is None:
            return []
        head = read_head(crawl, self._shard.codec, *free)
        if queue.leases_out >= head.settings.queues.max_leases_per_queue:
            return []
        turn = Turn(self._shard, op, crawl, queue, head)
        found = [self._told(turn, each) for rule in HOST_RULES if (each := rule(turn)) is not None]
        return found or self._turn(turn)

    def _waiting(self, op: Operation, crawl: Crawl, queue: WorkQueue) -> list[Reason]:
        """Why a queue without leases rests, or the obstacles at its turn."""
        row = queue.row
        if not row.count:
            found = [Reason(Why.QUEUE_EXHAUSTED, f"queue {row.key} has no URI")]
            if queue.wake_ms > op.now_ms:
                found.append(Reason(Why.QUEUE_SNOOZED, _resting(queue, queue.rest_reason), queue.wake_ms))
            return found
        turn = Turn(self._shard, op, crawl, queue, first_of(op, crawl, self._shard.codec, queue))
        # If several hosts share a queue, other URIs pass its head until all hosts wait.
        passes = (
            shares(queue, turn.head.settings) and queue.state is not QueueState.SNOOZED and not queue.lines
        )
        if not passes:
            found = [self._told(turn, each) for rule in HOST_RULES if (each := rule(turn)) is not None]
            if found:
                return found
        found = self._turn(turn)
        if queue.state is QueueState.INACTIVE and (crawl.room_for_new or not row.stands_back):
            before = sum(many for level, many in crawl.counters.inactive.items() if level < rank_of(queue))
            others = f", after {some(before, 'queue')} of lower precedence" if before else ""
            message = f"queue {row.key} waits for activation at precedence {row.precedence}{others}"
            found.append(Reason(Why.QUEUE_INACTIVE, message))
        if crawl.running:
            found.append(idle.asked(op, crawl, self._shard.leases))
        return found

    def _turn(self, turn: Turn) -> list[Reason]:
        """The obstacles for a queue's head if its turn came now."""
        found = []
        for rule in QUEUE_RULES:
            each = rule(turn)
            if each is None or each.obstacle is Obstacle.MISPLACED:  # its turn moves it to its queue
                continue
            if not (each.obstacle is Obstacle.INELIGIBLE and turn.queue.row.paused):  # has its own reason
                found.append(self._told(turn, each))
            if each.obstacle is not Obstacle.SESSION_SPENT:
                break
        return found

    def _told(self, turn: Turn, found: Found) -> Reason:
        """An obstacle, for people."""
        head, queue = turn.head, turn.queue
        match found.obstacle:
            case Obstacle.HOST_BUSY:
                assert found.host is not None
                return self._busy(turn, found.host)
            case Obstacle.RESTS if found.reason.startswith("its robots.txt"):
                return Reason(Why.ROBOTS_PENDING, _unreachable(turn), found.until_ms)
            case Obstacle.RESTS:
                why = Why.GROUP_BUSY if found.reason.endswith(": gap") else Why.QUEUE_SNOOZED
                return Reason(why, _resting(queue, found.reason), found.until_ms)
            case Obstacle.INELIGIBLE:
                return Reason(Why.QUEUE_INELIGIBLE, _below_floor(queue, head.settings))
            case Obstacle.FAILS_OVER_QUOTA:
                return _over_quota(head, found, "fail with fetch status -5003")
            case Obstacle.RETIRES if found.spent is not None:
                return _over_quota(head, found, "retire its queue")
            case Obstacle.RETIRES:
                message = f"queue {queue.row.key} will be retired at its next turn: {found.reason}"
                return Reason(_retired(found.reason), message)
            case Obstacle.BUDGET_OUT:
                message = f"queue {queue.row.key} waits for its leases: they may spend its {found.reason}"
                return Reason(Why.OVER_BUDGET, message)
            case Obstacle.SESSION_SPENT:
                message = f"queue {queue.row.key} has spent its session budget, so waiting queues go first"
                return Reason(Why.QUEUE_INACTIVE, message)
            case Obstacle.OUT_OF_SCOPE:
                refusal = _refusal(turn.crawl, head.uri, found.reason.removeprefix("scope."))
                return Reason(Why.OUT_OF_SCOPE, f"{head.uri.uri} ends at its turn: {refusal}")
            case Obstacle.KNOWN_FIRST:
                return Reason(Why.KNOWN_PAGES_FIRST, f"a new page, and {idle.kept_room(turn.crawl)}")
            case Obstacle.AWAITS_ROBOTS:
                return Reason(Why.ROBOTS_PENDING, f"{_robots_uri(head.uri)} must be fetched first")
            case Obstacle.ROBOTS_RESTS:
                return Reason(Why.ROBOTS_PENDING, _unreachable(turn), found.until_ms)
            case Obstacle.ROBOTS_FAILED:
                return Reason(
                    Why.ROBOTS_PENDING, f"{_unreachable(turn)}; URIs of that host fail with fetch status -61"
                )
            case _:
                return _forbids(head.uri)

    def _busy(self, turn: Turn, busy: Host) -> Reason:
        """The nodes whose requests a queue waits for."""
        uri, politeness = turn.head.uri, turn.head.settings.politeness
        why, what, most = Why.HOST_BUSY, f"host {uri.host}", politeness.max_parallel
        for group in turn.groups:
            if group.host is busy:
                why, what, most = Why.GROUP_BUSY, group.message, group.max_parallel
        holding = [
            lease
            for lease in self._shard.leases
            if lease.row.host == busy.name or busy.name in lease.row.groups
        ]
        nodes = sorted({lease.row.node for lease in holding})
        at = f"at node{'s' if len(nodes) > 1 else ''} {', '.join(nodes)}"
        message = f"{what}: {busy.in_flight} of at most {most} requests in flight, {at}"
        return Reason(why, message, min((lease.deadline_ms for lease in holding), default=0))

    def _out(self, op: Operation, crawl: Crawl, lease: Lease) -> Reason:
        row = lease.row
        value = op.tx.get(Family.PENDING, keys.pending_key(crawl.number, row.queue, row.position))
        uri = "a URI"
        if lease.robots:
            uri = f"{row.scheme}://{row.authority}/robots.txt"
        elif value is not None:
            uri = read_head(crawl, self._shard.codec, row.position, decode_pending(value)).uri.uri
        why = Why.ROBOTS_PENDING if lease.robots else Why.LEASED
        return Reason(why, f"node {row.node} is fetching {uri}", lease.deadline_ms)

    # URIs.

    def uri(self, op: Operation, crawl: Crawl, uri: CanonicalUri) -> list[Reason]:
        """Why a URI is not being fetched, and when it will be."""
        told = find(op, self._shard, crawl, uri)
        story = told.story
        found = idle.life(op, crawl, self._shard.leases)
        match story.state:
            case UriState.LEASED:
                return [*found, Reason(Why.LEASED, f"node {story.node} is fetching it", story.expire_ms)]
            case UriState.FUTURE:
                found.append(Reason(Why.FUTURE, _wait(op, story), story.due_ms))
            case UriState.DONE:
                found.append(Reason(Why.SEEN_ALREADY, _visit(op, story)))
            case UriState.NEVER_SEEN if story.refused_by:
                found.append(Reason(Why.OUT_OF_SCOPE, _refusal(crawl, uri, story.refused_by)))
            case UriState.NEVER_SEEN:
                message = "no page or seed led to it, or only with more hops than the scope allows"
                found.append(Reason(Why.NEVER_OFFERED, message))
            case _:
                return [*found, *self._forbidden(op, crawl, uri), *self._queued(op, crawl, told)]
        return [*found, *self._forbidden(op, crawl, uri)]

    def _queued(self, op: Operation, crawl: Crawl, told: Located) -> list[Reason]:
        """Why a URI waits in its queue."""
        assert told.queue is not None
        found = self._queue(op, crawl, told.queue)
        head = head_at(op, crawl, self._shard.codec, told.queue, told.position)
        turn = Turn(self._shard, op, crawl, told.queue, head)
        excluded = out_of_scope(turn)
        if excluded is not None and (reason := self._told(turn, excluded)) not in found:
            found.insert(0, reason)
        if shares(told.queue, head.settings) and (wait := turn.wait()):
            authority = head.uri.origin
            if wait.until_ms:
                key = told.queue.row.key
                message = f"{authority} rests: {wait.reason}; other hosts of queue {key} go first"
                found.insert(0, Reason(Why.QUEUE_SNOOZED, message, wait.until_ms))
        ahead = _ahead(op, crawl, told.queue, told.position)
        if ahead:
            found.append(Reason(Why.BEHIND_OTHERS, f"behind {ahead} of queue {told.queue.row.key}"))
        return found

    def _forbidden(self, op: Operation, crawl: Crawl, uri: CanonicalUri) -> list[Reason]:
        settings = crawl.settings_for(uri)
        key = self._robots_key(op, crawl, uri, settings)
        rules = self._shard.robots.valid_rules(op.tx, key, settings, op.now_ms)
        return [_forbids(uri)] if rules is not None and not rules.allows(uri.target) else []

    def _robots_key(self, op: Operation, crawl: Crawl, uri: CanonicalUri, settings: CrawlSettings) -> bytes:
        """The key of the row of a URI's robots.txt that counts for a crawl."""
        shared = crawl.origins.site(uri, settings).robots_key
        return self._shard.robots.key_for(op.tx, shared, crawl.number, crawl.state_row.bound)

    def seed(
        self, op: Operation, crawl: Crawl, text: str, uri: CanonicalUri, announced: bool, follow: bool = True
    ) -> SeedView:
        """A seed's story, and its outcome so far in words; those of its redirects' target, if it has one."""
        if not announced:
            return SeedView(text, None, "not announced yet", SeedResult.PENDING)
        told = find(op, self._shard, crawl, uri)
        story = told.story
        match story.state:
            case UriState.NEVER_SEEN if story.refused_by:
                return SeedView(text, story, f"refused by scope.{story.refused_by}", SeedResult.FAILED)
            case UriState.NEVER_SEEN:
                return SeedView(text, story, "not taken in", SeedResult.FAILED)
            case UriState.QUEUED | UriState.LEASED | UriState.FUTURE if story.disposition not in _FINAL:
                return self._pending_seed(op, crawl, text, uri, told)
        status, outcome = story.fetch_status, words(story.fetch_status, story.reason)
        if story.disposition not in _FINAL:
            return SeedView(text, story, "not fetched yet", SeedResult.PENDING)
        if story.disposition != Disposition.SUCCEEDED.value:
            return SeedView(text, story, outcome, SeedResult.FAILED)
        if follow and is_redirect(status):
            return self._redirected_seed(op, crawl, text, uri, told, outcome)
        return SeedView(text, story, outcome, SeedResult.FETCHED if status < 400 else SeedResult.ERROR)

    def led(self, op: Operation, crawl: Crawl, text: str, uri: CanonicalUri) -> SeedView:
        """Where a seed's redirects have led here; without `led_to` if nobody has said."""
        told = Located(UriStory(uri.uri, uri.uri, UriState.NEVER_SEEN, "", ""))
        return self._redirected_seed(op, crawl, text, uri, told, "")

    def _redirected_seed(
        self, op: Operation, crawl: Crawl, text: str, uri: CanonicalUri, told: Located, outcome: str
    ) -> SeedView:
        """A seed that redirects: it is as good as the page that it leads to."""
        landing = landing_of(op, crawl, uri)
        if landing is None:
            return SeedView(text, told.story, outcome, SeedResult.REDIRECTED)
        at = landing.uri.uri
        end = self.seed(op, crawl, at, landing.uri, announced=True, follow=False)
        if landing.circle and end.story is not None and end.story.state in _IN_QUEUE:
            # To be fetched again, as its cookies have changed.
            end = self._pending_seed(op, crawl, at, landing.uri, find(op, self._shard, crawl, landing.uri))
        result, its_outcome = SeedResult.REDIRECTED, end.outcome
        if landing.circle and end.result is not SeedResult.PENDING:
            its_outcome = "redirected in a circle"
        elif landing.seen is None and landing.redirects > crawl.settings_for(uri).scope.max_redirect_hops:
            its_outcome = "refused by scope.max_redirect_hops"
        elif landing.is_page:
            result = SeedResult.FETCHED
        elif end.result is SeedResult.PENDING:
            result = SeedResult.PENDING
        others = ", as other seeds are" if landing.shared else ""
        words = f"redirected to {at}{others}: {its_outcome}"
        return SeedView(text, told.story, words, result, end.tried_in_vain, at)

    def _pending_seed(
        self, op: Operation, crawl: Crawl, text: str, uri: CanonicalUri, told: Located
    ) -> SeedView:
        """A seed that waits or is out for the first time."""
        story, tries = told.story, self._tries(op, crawl, uri, told)
        if story.state is UriState.LEASED:
            words = [f"being fetched by node {story.node}", tries]
        elif crawl.state is CrawlState.FINISHED:
            words = ["not fetched before the crawl ended", tries]
        else:
            words = ["not fetched yet", self._waits_for(op, crawl, told) or tries]
        outcome = ": ".join(word for word in words if word)
        return SeedView(text, story, outcome, SeedResult.PENDING, bool(tries))

    def _tries(self, op: Operation, crawl: Crawl, uri: CanonicalUri, told: Located) -> str:
        """The tries in vain of a seed, or of its host's robots.txt; empty if there was none."""
        settings = crawl.settings_for(uri)
        if not settings.robots.ignored:
            row = self._shard.robots.row(op.tx, self._robots_key(op, crawl, uri, settings))
            its = standing(row, op.now_ms, settings.robots)
            if row is not None and its.gate is not Gate.OPEN and its.tries:
                return _not_had(uri, its.tries, row)
        story = told.story
        attempts = story.waiting.attempts if story.waiting is not None else 0
        if not attempts:
            return ""
        failed = story.disposition == Disposition.DEFERRED.value and story.fetch_status
        why = f" ({words(story.fetch_status, story.reason)})" if failed else ""
        return f"tried {some(attempts, 'time')}, in vain{why}"

    def _waits_for(self, op: Operation, crawl: Crawl, told: Located) -> str:
        """Why a seed that waits in its queue has not been fetched. Many seeds are asked for at once, so this
        reads only values of the queue, and walks neither its URIs nor leases."""
        if told.queue is None or told.queue.leases_out:
            return ""
        found = self._queue(op, crawl, told.queue)
        return next((each.message for each in found if each.why in _TROUBLES), "")

    def story(self, op: Operation, crawl: Crawl, uri: CanonicalUri) -> UriStory:
        """All that a crawl knows of a URI."""
        return find(op, self._shard, crawl, uri).story


# Messages of a queue.


def _retired(reason: str) -> Why:
    return Why.OVER_BUDGET if reason.startswith(("total budget", "quota")) else Why.QUEUE_RETIRED


def _resting(queue: WorkQueue, reason: str) -> str:
    return f"queue {queue.row.key} rests: {reason}"


def _below_floor(queue: WorkQueue, settings: CrawlSettings) -> str:
    row = queue.row
    floor = settings.queues.precedence_floor
    return (
        f"queue {row.key} has precedence {row.precedence}; it must be below queues.precedence_floor = {floor}"
    )


def _over_quota(head: Head, found: Found, then: str) -> Reason:
    assert found.spent is not None
    message = f"{head.uri.uri} will {then} at its next turn: {found.spent.message}"
    return Reason(Why.OVER_BUDGET, message)


def _robots_uri(uri: CanonicalUri) -> str:
    return f"{uri.origin}/robots.txt"


def _forbids(uri: CanonicalUri) -> Reason:
    return Reason(Why.ROBOTS_FORBIDDEN, f"{_robots_uri(uri)} forbids {uri.uri}")


def _unreachable(turn: Turn) -> str:
    row, its = robots_standing(turn)
    return _not_had(turn.head.uri, its.tries, row)


def _not_had(uri: CanonicalUri, tries: int, row: RobotsRow | None) -> str:
    """That a robots.txt could not be fetched."""
    tried = f" in {some(tries, 'attempt')}" if tries else ""
    return f"{_robots_uri(uri)} could not be fetched{tried} ({robots_failure(row)})"


def _ahead(op: Operation, crawl: Crawl, queue: WorkQueue, position: bytes) -> str:
    """How many URIs are before a position in its queue, counted up to MAX_COUNTED."""
    prefix = keys.queue_row_key(crawl.number, queue.queue)
    for ahead, (key, _) in enumerate(op.tx.scan(Family.PENDING, prefix + queue.row.start, prefix)):
        if ahead == MAX_COUNTED:
            return f"at least {MAX_COUNTED} URIs"
        if key[len(prefix) :] >= position:
            return some(ahead, "URI") if ahead else ""
    return ""


# Messages of a URI.


def _wait(op: Operation, story: UriStory) -> str:
    """Why a URI waits outside its queue."""
    if story.disposition == Disposition.DEFERRED.value:
        why = retry_words(story.fetch_status, story.reason)
        return f"it rests alone, while its queue goes on: {why}"
    return "it is not due yet" + (f"; last visit: {_visit(op, story)}" if story.finish_ms else "")


def _visit(op: Operation, story: UriStory) -> str:
    """The result of a URI's last visit, and its age."""
    ago = f"{span(op.now_ms - story.finish_ms)} ago"
    if not story.disposition:
        return f"it was noted as seen {ago}"
    return f"{story.disposition} with fetch status {story.fetch_status}{_because(story)}, {ago}"


def _because(story: UriStory) -> str:
    """The fetch status in words, in brackets, unless it is HTTP's."""
    return f" ({words(story.fetch_status, story.reason)})" if story.fetch_status < 0 else ""


def _refusal(crawl: Crawl, uri: CanonicalUri, rule: str) -> str:
    """The rule that refuses a URI, and its value."""
    scope = crawl.settings.scope
    name, _, place = rule.partition("[")
    if name == "reject_patterns":
        return f"scope.{rule} refuses it: {scope.reject_patterns[int(place[:-1])]}"
    if name == "surt_prefixes":
        return f"scope.surt_prefixes refuses it: -{crawl.scope_rules.longest_prefix(uri)}"
    if name == "required_patterns":
        return f"none of scope.{name} matches it: {', '.join(scope.required_patterns)}"
    if name == "hosts":
        return f"no host, prefix or pattern of the scope lets {uri.authority} in"
    value = getattr(scope, name)
    return f"scope.{name} refuses it: {', '.join(value) if isinstance(value, tuple) else value}"
