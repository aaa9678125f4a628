"""What ends a lease, and what follows: reports, releases, lapses, heartbeats, sessions (S1)."""

from collections.abc import Iterable

from core_doubles.model import attendance, hosts, life, outcomes, places, prices
from core_doubles.model.hosts import DEFERRED, OVERLOADED, UNFETCHABLE
from core_doubles.model.things import Crawl, Host, Lease, Model, Queue, Stand, Uri
from core_doubles.web import OPEN, RobotsFile

from frontier_server.core.journey.reports import Lapse
from frontier_server.core.machines.lifecycle import CrawlState
from frontier_server.core.machines.target import Target
from frontier_server.core.rules.disposition import Disposition
from frontier_server.core.state.model import Report, ReportResult

MOST_LAPSES, FREE_DEFERRALS = 3, 10
OF_HOST = (-1, -2)  # the host was not reached, so its queue rests; after others, the URI alone
CONNECT_LOST, MALFORMED, MALFORMED_TRIES = -3, -10, 2
DISREGARDED = (-4001, -4002, -5000, -5001, -5002, -6000, -9998)
LAPSED = -7000
SERIOUS_ERROR = -3000


def heard(model: Model, node: str, session: str) -> None:
    """A node showed itself; leases of its earlier session lapse at once."""
    for lease in [lease for lease in model.leases.values() if lease.node == node]:
        if lease.session != session:
            lapsed(model, lease)
    attendance.heard(model, node, session)


def makes_sense(report: Report, robots: bool) -> bool:
    """Whether the reports that the tests send make sense."""
    return (
        (100 <= report.fetch_status <= 999 or -10_000 < report.fetch_status < 0)
        and report.duration_ms >= 0
        and not report.problem
        and (robots or not report.robots_body)
        and not (robots and 300 <= report.fetch_status < 400)
    )


def reported(model: Model, report: Report, file: RobotsFile, result: ReportResult) -> None:
    """A report of a lease that was given out once got its result."""
    lease = model.leases.get(report.token)
    if lease is None:
        _reported_again(model, report, result)
        return
    assert not result.repeated
    if not report.released and not makes_sense(report, lease.robots):
        assert result.disposition is Disposition.INVALID_REPORT and result.problem
        return
    crawl = model.crawls[lease.crawl]
    if report.released:
        assert result.disposition is Disposition.RELEASED
        released(model, report.token)
        return
    crawl.queues[lease.queue].retiring |= report.retire_queue
    for count in ("connections", "tls_handshakes", "kept_connections"):
        crawl.statistics[count] += getattr(report, count)
    if lease.robots:
        expected = _robots_reported(model, crawl, lease, report, file)
    else:
        expected = _page_reported(model, crawl, lease, report)
    status = report.fetch_status
    if status == SERIOUS_ERROR:  # S4.12
        fetched = lease.site.uri("/robots.txt") if lease.robots else lease.uri
        words = f"node {lease.node} could not go on at {fetched}"
        life.paused_for(model, crawl, "serious-error", words)
    assert result.disposition is expected, f"{status} of {lease.uri} meant {result}, not {expected}"
    assert not result.problem
    model.dispositions[lease.token] = expected


def _page_reported(model: Model, crawl: Crawl, lease: Lease, report: Report) -> Disposition:
    uri, queue, status = crawl.uris[lease.identity], crawl.queues[lease.queue], report.fetch_status
    queue.robots_tried = None
    retry = places.settings_of_uri(crawl, uri).retry
    own = next((rule for rule in retry.statuses if rule.fetch_status == status), None)
    silent = hosts.is_silent(model, lease.hosts[0], uri.uri, status)
    _rest(model, crawl, lease, report)
    again = _put_off(uri, status)
    tried_again = (*OF_HOST, CONNECT_LOST, MALFORMED, DEFERRED, *OVERLOADED)
    if not again and (own is not None or status in tried_again):
        rule = own or retry
        most = rule.max_attempts
        if own is None and status == MALFORMED:
            most = min(most, MALFORMED_TRIES)
        again = lease.attempt < most
        uri.attempts += again
        queue.expenditure += uri.cost if again else 0  # S1.6
        rest_ms = int(min(rule.delay_ms * rule.growth ** (lease.attempt - 1), rule.max_delay_ms))
        alone = status not in (*OF_HOST, DEFERRED, *OVERLOADED)  # its queue goes on without it
        if again and alone:
            uri.stand, uri.due_ms = Stand.FUTURE, model.now_ms + rest_ms
        rests = silent and status in hosts.NO_ANSWER if alone else own is not None or status not in OVERLOADED
        last_of_several = alone and not again and most > 1
        if (again or last_of_several) and rest_ms and rests:
            if places.shared(crawl, uri):
                authority = hosts.authority_name(crawl, uri.site)
                model.hosts[authority] = Host(model.now_ms + rest_ms, start_ms=model.now_ms)
            else:
                queue.rest_ms = model.now_ms + rest_ms
    if again:
        crawl.statistics["deferred"] += 1
        for statistics in outcomes.statistics_of(crawl, uri):
            outcomes.answered(statistics, status, report.body_bytes)
        uri.last_token = lease.token
        disposition = Disposition.DEFERRED
    else:
        if status in DISREGARDED:
            disposition = Disposition.DISREGARDED
        elif status in OVERLOADED or status < 0:
            disposition = Disposition.FAILED
        else:
            disposition = Disposition.SUCCEEDED  # whatever HTTP says (Heritrix 2.10)
        outcomes.conclude(model, crawl, uri, status, disposition, report)
    _end(model, crawl, lease)
    return disposition


def _robots_reported(
    model: Model, crawl: Crawl, lease: Lease, report: Report, file: RobotsFile
) -> Disposition:
    status, uri = report.fetch_status, crawl.uris[lease.identity]
    settings = places.settings_of_uri(crawl, uri)
    disposition = Disposition.SUCCEEDED if status > 0 else Disposition.FAILED
    put_off, cut = _put_off(uri, status), status == LAPSED and crawl.interrupt_ms is not None
    if not put_off and not cut and status != UNFETCHABLE:
        hosts.learn(model, settings, lease.site, status, file)
    hosts.robots_of(model, settings, lease.site).last_token = lease.token
    if put_off:  # put off: nothing is learned, but the host was asked
        crawl.statistics["deferred"] += 1
        disposition = Disposition.DEFERRED
    else:
        crawl.statistics["robots_fetches"] += 1
        crawl.outcomes[lease.site.uri("/robots.txt"), status, disposition.value] += 1
    if not put_off and status != UNFETCHABLE:
        crawl.queues[lease.queue].robots_tried = lease.site, lease.lease_ms
    elif status == UNFETCHABLE:
        crawl.queues[lease.queue].robots_tried = None
        outcomes.conclude(model, crawl, uri, status, disposition)
    hosts.is_silent(model, lease.hosts[0], lease.site.uri("/robots.txt"), status)
    _rest(model, crawl, lease, report)
    _end(model, crawl, lease)
    return disposition


def _put_off(uri: Uri, status: int) -> bool:
    """Whether a report puts off a URI, or the robots.txt that it waits for, without counting."""
    free = status == DEFERRED and uri.deferrals < FREE_DEFERRALS
    uri.deferrals += free
    return free


def _rest(model: Model, crawl: Crawl, lease: Lease, report: Report) -> None:
    if report.peer_address:
        model.hosts.setdefault(lease.hosts[0], Host()).address = report.peer_address
    uri = crawl.uris[lease.identity]
    asked = lease.site, lease.hosts[0], uri.target
    told = report.fetch_status, report.duration_ms, report.retry_after_ms
    hosts.rest(model, crawl, asked, lease.lease_ms, *told)


def _reported_again(model: Model, report: Report, result: ReportResult) -> None:
    """A report of a lease that has ended changes nothing (the counts are compared afterwards)."""
    lease = model.ended[report.token]
    crawl = model.crawls.get(lease.crawl)
    counted = False
    if crawl is not None and crawl.number == lease.number:
        if lease.robots:
            counted = any(robots.last_token == lease.token for robots in model.robots.values())
        else:
            uri = crawl.uris.get(lease.identity)
            counted = uri is not None and uri.last_token == lease.token
    if counted:
        assert result == ReportResult(model.dispositions[lease.token], repeated=True)
    else:
        assert result == ReportResult(Disposition.STALE)


def released(model: Model, token: bytes) -> None:
    """A lease went back as if it had never been given."""
    lease = model.leases.get(token)
    if lease is not None:
        _end(model, model.crawls[lease.crawl], lease)


def heartbeat(model: Model, tokens: Iterable[bytes]) -> tuple[list[bytes], list[bytes], list[bytes]]:
    """Leases were named; which of them have ended, should be released, and should be broken off."""
    ended, release, interrupt = [], [], []
    for token in tokens:
        lease = model.leases.get(token)
        if lease is None:
            ended.append(token)
            continue
        lease.deadline_ms = min(model.now_ms + model.period_ms, lease.hard_ms)
        crawl = model.crawls[lease.crawl]
        if crawl.interrupt_ms is not None:
            interrupt.append(token)
        elif crawl.state is not CrawlState.RUNNING:
            release.append(token)
    return ended, release, interrupt


def has_ended(model: Model, name: str) -> bool:
    """Whether nobody fetches for a crawl, unless somebody reopens it."""
    return name not in model.crawls or model.crawls[name].state is CrawlState.FINISHED


def excused(model: Model, length_ms: int) -> None:
    """The server was away: what nodes and crawls have waited meanwhile does not count."""
    for lease in model.leases.values():
        excused_ms = min(length_ms, model.now_ms - lease.lease_ms)
        lease.excused_ms += excused_ms
        lease.hard_ms += excused_ms
        fresh_ms = model.now_ms + model.period_ms
        lease.deadline_ms = min(lease.deadline_ms + length_ms, fresh_ms, lease.hard_ms)
    for node in model.nodes.values():
        if node.last_seen_ms is not None:
            node.last_seen_ms = min(node.last_seen_ms + length_ms, model.now_ms)
    for crawl in model.crawls.values():
        if model.leases_of(crawl):
            crawl.excused_ms += length_ms
        if crawl.running_since_ms is not None:
            crawl.elapsed_ms += max(model.now_ms - length_ms - crawl.running_since_ms, 0)
            crawl.running_since_ms, crawl.was_excused = model.now_ms, True


def lapse_due(model: Model) -> None:
    """Leases whose time is over lapse."""
    for lease in [lease for lease in model.leases.values() if lease.deadline_ms <= model.now_ms]:
        lapsed(model, lease)


def lapsed(model: Model, lease: Lease, why: Lapse = Lapse.SILENCE) -> None:
    """A lease ended without a report: a rest for the host, and an attempt if no pause has ended it."""
    crawl = model.crawls[lease.crawl]
    crawl.statistics["lapsed"] += 1
    uri, queue = crawl.uris[lease.identity], crawl.queues[lease.queue]
    settings = places.settings_of_uri(crawl, uri)
    if lease.robots and why is Lapse.SILENCE:
        hosts.learn(model, settings, lease.site, LAPSED, OPEN)
        hosts.robots_of(model, settings, lease.site).last_token = b""
    _rest(model, crawl, lease, Report(b"", fetch_status=LAPSED, duration_ms=model.now_ms - lease.lease_ms))
    if not lease.robots:
        queue.robots_tried = None
    if not lease.robots and why is not Lapse.PAUSE:
        uri.attempts += 1
        uri.lapses += why is Lapse.SILENCE
        spent = uri.lapses >= MOST_LAPSES or uri.attempts >= settings.retry.max_attempts
        if spent or why is Lapse.STOP:
            outcomes.conclude(model, crawl, uri, LAPSED, Disposition.FAILED)
        else:
            queue.expenditure += uri.cost
    _end(model, crawl, lease)


def _end(model: Model, crawl: Crawl, lease: Lease) -> None:
    """A lease is off the books, and its queue goes on (T10 to T12)."""
    model.ended[lease.token] = model.leases.pop(lease.token)
    uri, queue = crawl.uris[lease.identity], crawl.queues[lease.queue]
    queue.starts.add(queue.expenditure)
    uri.touched = model.step
    prices.reprioritise(crawl, queue, places.settings_of_uri(crawl, uri))
    if queue.retiring:
        retire(queue)


def retire(queue: Queue) -> None:
    """Give out no more of a queue."""
    queue.retired, queue.retiring = True, False


def restarted(model: Model) -> None:
    """The server started anew: every lease gets a fresh period."""
    for lease in model.leases.values():
        lease.hard_ms = max(lease.hard_ms - lease.excused_ms, model.now_ms + model.period_ms)
        lease.excused_ms = 0
        lease.deadline_ms = model.now_ms + model.period_ms
    attendance.restarted(model)
    model.trouble = None
    model.most_passed = 0.0
    for crawl in model.crawls.values():
        crawl.passed, crawl.excused_ms = 0.0, 0
        crawl.unseen |= crawl.target is Target.HOLD and bool(crawl.receiving)
        crawl.jobs += crawl.receiving.values()  # nobody brings the rest: they will be cancelled
        crawl.receiving.clear()
        crawl.jobs.sort(key=lambda job: job.number)
