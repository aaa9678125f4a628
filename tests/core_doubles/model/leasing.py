"""Whether Next might give a lease, or clear a head away; and whether it withheld any (S2, T3 to T9)."""

from collections.abc import Iterable

from core_doubles.model import attendance, hosts, intake, outcomes, places, prices
from core_doubles.model.things import Crawl, Host, Lease, Model, Queue, QueueId, Uri
from core_doubles.web import Site

from frontier_server.core.machines.lifecycle import CrawlState
from frontier_server.core.rows.records import OutcomeRow
from frontier_server.core.rules.disposition import Disposition
from frontier_server.core.spec.settings import CrawlSettings, QuotaSettings
from frontier_server.core.state.fetch_policy import fetch_policy, provenance
from frontier_server.core.state.kinds import Kinds
from frontier_server.core.state.model import EmptyReason, Grant, NextAnswer
from frontier_server.core.state.queue import QueueState

FORBIDDEN, NO_ROBOTS, OVER_QUOTA, EXCLUDED = -9998, -61, -5003, -5000
MAX_BEHIND = 200.0
S = CrawlState


# What a queue may not be leased from for.


def total_budget_spent(queue: Queue, settings: CrawlSettings) -> bool:
    """T8: at least as much as its whole budget."""
    budget = settings.queues.total_budget if queue.total_budget is None else queue.total_budget
    return 0 <= budget <= queue.expenditure


def session_budget_spent(queue: Queue, settings: CrawlSettings, start: int, expenditure: int) -> bool:
    """T7: strictly more than its session's budget."""
    budget = settings.queues.session_budget if queue.session_budget is None else queue.session_budget
    return 0 < budget < expenditure - start


def over_quota(crawl: Crawl, uri: Uri, settings: CrawlSettings) -> bool:
    """Whether a quota of a URI's host or source is spent (2.13)."""
    host, source = crawl.hosts.get(uri.site.host), crawl.sources.get(uri.source)
    pairs = ((settings.limits.host_quota, host), (settings.limits.source_quota, source))
    return any(statistics is not None and _spent(quota, statistics) for quota, statistics in pairs)


def _spent(quota: QuotaSettings, statistics: object) -> bool:
    names = ("successes", "success_bytes", "responses", "response_bytes")
    return any(0 < getattr(quota, f"max_{name}") <= getattr(statistics, name) for name in names)


def must_retire(crawl: Crawl, queue: Queue, head: Uri) -> bool:
    """Whether a queue's turn must retire it."""
    settings = places.settings_of_uri(crawl, head)
    fails = settings.limits.fail_over_quota
    quota = not fails and over_quota(crawl, head, settings)
    return settings.queues.retire or quota or total_budget_spent(queue, settings)


def limited(model: Model, crawl: Crawl) -> bool:
    """Whether what is out fills a limit."""
    most = crawl.settings.max_toes
    return 0 < most <= model.leases_of(crawl) or documents_fill(model, crawl)


def documents_fill(model: Model, crawl: Crawl) -> bool:
    """Whether successes and pages out fill the document limit."""
    most = crawl.settings.limits.max_documents
    return bool(most) and crawl.statistics["succeeded"] + model.leases_of(crawl, robots_too=False) >= most


# What an answer of Next did.


def served(crawl: Crawl, kinds: Kinds) -> bool:
    """Whether fetchers of these kinds get URIs of a crawl."""
    return not crawl.settings.fetcher or crawl.settings.fetcher in kinds


def asked(model: Model, name: str | None, kinds: Kinds, most: int, grants: Iterable[Grant]) -> list[Crawl]:
    """The crawls that were asked, in their order: who had least for its weight goes first."""
    if name is not None:
        crawl = model.crawls[name]
        return [crawl] if crawl.state is S.RUNNING and served(crawl, kinds) else []
    running = [crawl for crawl in model.crawls.values() if crawl.state is S.RUNNING and served(crawl, kinds)]
    for crawl in running:
        crawl.passed = max(crawl.passed, model.most_passed - MAX_BEHIND)
    in_turn = sorted(running, key=lambda crawl: (crawl.passed, crawl.number))
    given = [grant.crawl for grant in grants]
    order = [crawl.name for crawl in in_turn]
    assert given == sorted(given, key=order.index), f"{given}: their order was {order}"
    if len(given) == most and given:
        in_turn = in_turn[: order.index(given[-1]) + 1]
    for crawl in in_turn:
        crawl.passed += given.count(crawl.name) / crawl.settings.weight
        model.most_passed = max(model.most_passed, crawl.passed)
    return in_turn


def moved(model: Model, crawl: Crawl, uri: Uri, queue: QueueId) -> None:
    """A queue's turn took a URI to the queue that it belongs to by now (S3.12, T9)."""
    wanted, _ = places.queue_id(crawl, uri.site, uri.target)
    assert queue == wanted, f"{uri.uri} was moved to a queue that it does not belong to"
    assert crawl.state is S.RUNNING and not model.is_out(crawl, uri), f"{uri.uri} was moved"
    before = crawl.queues[uri.queue]
    prices.perhaps_appraise(crawl, before, places.settings_of_uri(crawl, uri))
    intake.enqueue(model, crawl, uri)
    crawl.statistics["relocated"] += 1
    left = crawl.in_order(before)
    if left:
        prices.perhaps_appraise(crawl, before, places.settings_of_uri(crawl, left[0]))


def _check_turn(model: Model, crawl: Crawl, queue: Queue, uri: Uri, what: str) -> None:
    """It was a queue's turn, and this URI's in it."""
    assert crawl.state is S.RUNNING, f"{uri.uri} was {what} of a crawl that is {crawl.state.value}"
    assert not queue.retired and not queue.paused, f"{uri.uri} was {what} of {queue.key}"
    waiting = crawl.in_order(queue)
    if uri.arrived < model.step:  # else it may have come when others were gone
        waiting = [other for other in waiting if other.arrived < model.step]
        if places.shared(crawl, uri):  # those of other hosts may have to wait
            waiting = [other for other in waiting if other.site == uri.site]
        assert waiting[0] is uri, f"{uri.uri} was {what} out of turn, before {waiting[0].uri}"
    rested_ms = hosts.rested_ms(model, crawl, queue, uri.site, places.shared(crawl, uri))
    assert model.now_ms >= rested_ms, f"{uri.uri} was {what} {rested_ms - model.now_ms} ms too early"
    name = hosts.full(model, crawl, uri.site, uri.target)
    assert not name, f"{uri.uri} was {what} while {name!r} had {hosts.in_flight(model, name)} requests"


def cleared(model: Model, crawl: Crawl, row: OutcomeRow) -> None:
    """A head was given its final disposition without being fetched."""
    uri = next((uri for uri in crawl.queued() if uri.uri == row.uri), None)
    assert uri is not None, f"{row.uri} got a second final disposition"
    wanted, _ = places.queue_id(crawl, uri.site, uri.target)
    if uri.queue != wanted and row.fetch_status != OVER_QUOTA:
        moved(model, crawl, uri, wanted)  # and cleared then
    queue = crawl.queues[uri.queue]
    assert not model.leased(crawl, queue), f"{row.uri} was cleared while its queue was busy"
    _check_turn(model, crawl, queue, uri, "cleared")
    settings = places.settings_of_uri(crawl, uri)
    disposition = Disposition.FAILED
    if row.fetch_status != OVER_QUOTA:
        assert (row.fetch_status == EXCLUDED) == intake.excluded(crawl, uri), f"{row.uri}: out of scope?"
    if row.fetch_status == EXCLUDED:
        disposition = Disposition.DISREGARDED
    elif row.fetch_status == FORBIDDEN:
        disposition = Disposition.DISREGARDED
        assert hosts.forbids(model, settings, uri.site, uri.uri, queue), (
            f"robots.txt does not forbid {row.uri}"
        )
    elif row.fetch_status == OVER_QUOTA:
        assert settings.limits.fail_over_quota and over_quota(crawl, uri, settings), row.uri
    else:
        assert row.fetch_status == NO_ROBOTS, f"{row.uri} ended with {row.fetch_status}, unfetched"
        meaning = hosts.means(model, settings, uri.site, queue)
        assert meaning == "fail", f"{row.uri} failed while its robots.txt may still come"
    assert row.disposition == disposition.value
    queue.cleared = True
    prices.perhaps_appraise(crawl, queue, settings)
    outcomes.conclude(model, crawl, uri, row.fetch_status, disposition, stored=True)


def granted(model: Model, crawl: Crawl, grant: Grant, node: str, session: str) -> None:
    """A lease was given."""
    assert grant.token not in model.leases and grant.token not in model.ended, "a token was used twice"
    uri = crawl.uris.get(crawl.texts[grant.candidate.uri])
    assert uri is not None and uri.queued, f"{grant.uri} was leased without waiting"
    queue = crawl.queues[uri.queue]
    settings = places.settings_of_uri(crawl, uri)
    assert places.queue_id(crawl, uri.site, uri.target) == (queue.id, grant.queue_key), "it belongs elsewhere"
    assert not model.leased(crawl, queue), f"two leases of queue {queue.key}"
    _check_turn(model, crawl, queue, uri, "leased")
    assert not documents_fill(model, crawl), "a lease beyond the document limit"
    assert not limited(model, crawl), "a lease beyond the most toes"
    assert not intake.excluded(crawl, uri), f"{grant.uri} was leased, out of scope"
    assert not must_retire(crawl, queue, uri), f"{queue.key} was leased from, beyond its budget or a quota"
    assert not over_quota(crawl, uri, settings), f"{grant.uri} was leased beyond a quota"
    prices.reprioritise(crawl, queue, settings)
    assert not queue.appraisals[0].ineligible, f"{queue.key} was leased from at the precedence floor"
    _check_what_is_asked(model, crawl, grant, uri, settings)
    assert not (grant.robots and _robots_out(model, crawl, uri.site)), f"{grant.uri} is out already"
    names = (hosts.host_name(crawl, uri.site), *hosts.groups_of(model, crawl, uri.site))
    for name, (_, min_gap_ms) in hosts.groups_of(model, crawl, uri.site).items():
        if min_gap_ms:
            model.hosts.setdefault(name, Host()).rest_ms = model.now_ms + min_gap_ms
    hosts.started(model, crawl, uri.site, uri.target)
    queue.lent = queue.expenditure, settings
    uri.touched = model.step
    queue.starts.add(queue.expenditure)
    longest_ms = max(2 * settings.fetch.timeout_ms, 10 * model.period_ms)
    assert grant.crawl == crawl.name and grant.expire_ms == model.now_ms + model.period_ms
    whose = provenance(crawl.settings, crawl.launch_ms, "0")
    assert grant.fetch_policy_id == fetch_policy(settings, None, "0", whose).policy_id
    attendance.joined(crawl, node, session)
    model.leases[grant.token] = Lease(
        grant.token,
        crawl.name,
        crawl.number,
        uri.identity,
        uri.uri,
        grant.source,
        uri.site,
        queue.id,
        names,
        grant.robots,
        grant.attempt,
        node,
        session,
        model.now_ms,
        grant.expire_ms,
        model.now_ms + longest_ms,
    )


def _check_what_is_asked(model: Model, crawl: Crawl, grant: Grant, uri: Uri, settings: CrawlSettings) -> None:
    queue = crawl.queues[uri.queue]
    robots = hosts.robots_of(model, settings, uri.site)
    meanings = {hosts.means(model, settings, uri.site, queue)}
    if queue.cleared:  # it may have had another turn before, and that was its robots.txt's
        meanings.add(hosts.means(model, settings, uri.site, None))
    assert grant.source == uri.source
    validators = (grant.etag, grant.last_modified, grant.last_digest)
    if grant.robots:
        assert grant.uri == uri.site.uri("/robots.txt")
        assert "fetch" in meanings, f"{grant.uri} was leased without need"
        its = robots.patience(settings.robots)
        assert grant.attempt == its.failures + 1 and validators == ("", "", "")
        return
    assert grant.uri == uri.uri
    assert "ask" in meanings, f"{grant.uri} was leased before its robots.txt was known"
    assert not hosts.forbids(model, settings, uri.site, uri.uri, queue), f"robots.txt forbids {grant.uri}"
    assert grant.attempt == uri.attempts + 1
    most = max(settings.retry.max_attempts, *(rule.max_attempts for rule in settings.retry.statuses), 0)
    assert crawl.overridden or grant.attempt <= most, f"{grant.uri} has used up its attempts"
    assert validators == (uri.etag, uri.last_modified, uri.digest), "validators of the last visit"


def answered(
    model: Model, answer: NextAnswer, name: str | None, kinds: Kinds, most: int, in_turn: list[Crawl]
) -> None:
    """All leases of an answer are known; was any withheld, and is the reason right?"""
    assert len(answer.grants) <= most
    if len(answer.grants) < most:
        assert not answer.again, "this little work is never more than one call's share"
        for crawl in in_turn:
            withheld = [queue.key for queue in due(model, crawl)]
            assert not withheld, f"{crawl.name} withheld {withheld}"
    elif name is None:
        for crawl in in_turn[:-1]:  # those that go first must have had nothing more
            assert not due(model, crawl), f"{crawl.name} had to wait for {answer.grants[-1].crawl}"
    assert answer.empty_reason in _reasons(model, answer, name, kinds)


def due(model: Model, crawl: Crawl) -> list[Queue]:
    """The queues that a node which asks must get something of."""
    if limited(model, crawl):
        return []
    found = []
    for queue in crawl.queues.values():
        waiting = crawl.in_order(queue)
        if not waiting or model.leased(crawl, queue):
            continue
        if queue.state in (QueueState.RETIRED, QueueState.INELIGIBLE):
            continue
        if queue.state is QueueState.SNOOZED and queue.asleep_ms > model.now_ms:
            continue
        heads = waiting if places.shared(crawl, waiting[0]) else waiting[:1]
        if any(_may_go(model, crawl, queue, head) for head in heads):
            found.append(queue)
    return found


def _may_go(model: Model, crawl: Crawl, queue: Queue, head: Uri) -> bool:
    """Whether nothing is in the way of a queue's URI: its host and groups, and its robots.txt."""
    full = bool(hosts.full(model, crawl, head.site, head.target))
    if queue.state is QueueState.READY and crawl.overridden:
        # It may have lined up at a busy host before an override let that answer more at once.
        names = (hosts.host_name(crawl, head.site), *hosts.groups_of(model, crawl, head.site))
        full |= any(hosts.in_flight(model, name) for name in names)
    shared = places.shared(crawl, head)
    rests = queue.state is QueueState.READY or shared
    rests &= hosts.rested_ms(model, crawl, queue, head.site, shared) > model.now_ms
    waits = shared and hosts.means(model, places.settings_of_uri(crawl, head), head.site, queue) == "wait"
    return not full and not rests and not waits and not _robots_are_coming(model, crawl, head)


def in_line_ms(model: Model, crawl: Crawl) -> list[int]:
    """When queues that are ready may go on whose hosts and groups answer nobody, but rest."""
    if limited(model, crawl):
        return []  # until a lease ends, which is no matter of time
    found = []
    for queue in crawl.queues.values():
        waiting = crawl.in_order(queue)
        if queue.state is QueueState.READY and waiting and not places.shared(crawl, waiting[0]):
            site, target = waiting[0].site, waiting[0].target
            rested_ms = hosts.rested_ms(model, crawl, queue, site, shared=False)
            if rested_ms > model.now_ms and not hosts.full(model, crawl, site, target):
                found.append(rested_ms)
    return found


def _robots_are_coming(model: Model, crawl: Crawl, head: Uri) -> bool:
    """Whether a URI waits for a robots.txt that is out for another queue."""
    queue, settings = crawl.queues[head.queue], places.settings_of_uri(crawl, head)
    meaning = hosts.means(model, settings, head.site, queue)
    return meaning == "fetch" and _robots_out(model, crawl, head.site)


def _robots_out(model: Model, crawl: Crawl, site: Site) -> bool:
    """Whether a site's robots.txt is out."""
    return any(
        lease.robots and lease.number == crawl.number and lease.site == site
        for lease in model.leases.values()
    )


def _reasons(model: Model, answer: NextAnswer, name: str | None, kinds: Kinds) -> set[EmptyReason | None]:
    """The reasons that an answer may give."""
    if answer.grants:
        return {None}
    reasons: dict[CrawlState, EmptyReason | None] = {
        S.NASCENT: EmptyReason.NOT_RUNNING,
        S.PREPARING: EmptyReason.NOT_RUNNING,
        S.EMPTY: EmptyReason.NOTHING_DUE,
        S.PAUSING: EmptyReason.PAUSED,
        S.PAUSED: EmptyReason.PAUSED,
        S.STOPPING: EmptyReason.FINISHED,
        S.FINISHED: EmptyReason.FINISHED,
    }
    crawls = [model.crawls[name]] if name is not None else list(model.crawls.values())
    others = [crawl for crawl in crawls if crawl.state is S.RUNNING and not served(crawl, kinds)]
    if name is not None and others:
        return {EmptyReason.OTHER_FETCHER}
    if name is None:
        crawls = [crawl for crawl in crawls if served(crawl, kinds)]
    running = [crawl for crawl in crawls if crawl.state is S.RUNNING]
    if running:
        all_limited = all(documents_fill(model, crawl) for crawl in running)
        return {EmptyReason.LIMIT_REACHED if all_limited else EmptyReason.NOTHING_DUE}
    told = {reasons[crawl.state] for crawl in crawls}
    if name is not None:
        return told
    none = EmptyReason.OTHER_FETCHER if others else EmptyReason.NO_CRAWL
    return told - {EmptyReason.FINISHED} or {none}
