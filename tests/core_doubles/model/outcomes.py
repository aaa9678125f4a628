"""What the end of a URI's way, or of a visit, means: budgets, counts, the next visit (S1.10 to S1.15)."""

from core_doubles.model import places, prices
from core_doubles.model.things import Crawl, Model, Stand, Statistics, Uri

from frontier_server.core.rules.disposition import Disposition
from frontier_server.core.state.model import Report

NO_REPORT = Report(b"")
NOT_MODIFIED = 304


def conclude(
    model: Model,
    crawl: Crawl,
    uri: Uri,
    status: int,
    disposition: Disposition,
    report: Report = NO_REPORT,
    stored: bool = False,
) -> None:
    """A URI left its queue with a final disposition; `stored` if its outcome has been looked at already."""
    settings = places.settings_of_uri(crawl, uri)
    queue = crawl.queues[uri.queue]
    uri.stand = Stand.DONE
    if disposition is Disposition.FAILED:
        queue.failed += 1
        queue.expenditure += uri.cost + settings.queues.error_penalty
    elif disposition is Disposition.SUCCEEDED:
        queue.successes += 1
        queue.expenditure += uri.cost
    queue.starts.add(queue.expenditure)
    if settings.queues.queue_precedence != "base":
        prices.reprioritise(crawl, queue, settings)
    record(model, crawl, uri, status, disposition, report, stored)


def record(
    model: Model,
    crawl: Crawl,
    uri: Uri,
    status: int,
    disposition: Disposition,
    report: Report = NO_REPORT,
    stored: bool = False,
) -> None:
    """A final disposition counts, once; and perhaps the URI waits for its next visit."""
    succeeded = disposition is Disposition.SUCCEEDED
    same = bool(uri.digest) and uri.digest == report.digest
    changed = succeeded and status != NOT_MODIFIED and not same
    uri.stand = Stand.DONE
    due_ms = _next_visit_ms(model, crawl, uri, disposition, changed, report)
    if succeeded:
        uri.visits += 1
        if status != NOT_MODIFIED:
            uri.etag, uri.last_modified, uri.digest = report.etag, report.last_modified, report.digest
    if due_ms:
        uri.stand, uri.due_ms, uri.touched = Stand.FUTURE, due_ms, model.step
    uri.finish_ms = model.now_ms
    uri.attempts = uri.lapses = uri.deferrals = 0
    uri.last_token = report.token
    _count(crawl, uri, status, disposition, report.body_bytes, changed)
    if not stored:
        crawl.outcomes[uri.uri, status, disposition.value] += 1


def _next_visit_ms(
    model: Model, crawl: Crawl, uri: Uri, disposition: Disposition, changed: bool, report: Report
) -> int:
    """When a URI is to be visited again; what a report asks for goes before the policy."""
    if disposition is Disposition.DISREGARDED:
        return 0
    if report.revisit_ms:
        return report.revisit_ms
    interval_ms = prices.interval_ms(uri, changed, places.settings_of_uri(crawl, uri).revisit)
    if not interval_ms:
        return 0
    if disposition is Disposition.SUCCEEDED:
        uri.interval_ms = interval_ms
    return model.now_ms + interval_ms


def statistics_of(crawl: Crawl, uri: Uri) -> list[Statistics]:
    """The statistics that what happens to a URI counts for."""
    found = [crawl.hosts.setdefault(uri.site.host, Statistics())]
    if uri.source:
        found.append(crawl.sources.setdefault(uri.source, Statistics()))
    return found


def _count(
    crawl: Crawl, uri: Uri, status: int, disposition: Disposition, body_bytes: int, changed: bool
) -> None:
    crawl.statistics[disposition.value.lower()] += 1
    crawl.statuses[status] += 1
    if disposition is Disposition.SUCCEEDED:
        crawl.statistics["bytes"] += body_bytes
    if changed:
        crawl.statistics["novel"] += 1
        crawl.statistics["novel_bytes"] += body_bytes
    for statistics in statistics_of(crawl, uri):
        answered(statistics, status, body_bytes)
        statistics.successes += disposition is Disposition.SUCCEEDED
        statistics.success_bytes += body_bytes if disposition is Disposition.SUCCEEDED else 0
        statistics.failures += disposition is Disposition.FAILED
        statistics.disregards += disposition is Disposition.DISREGARDED
        statistics.novel += changed


def answered(statistics: Statistics, status: int, body_bytes: int) -> None:
    """A fetch was answered, or it was not."""
    if status > 0:
        statistics.responses += 1
        statistics.response_bytes += body_bytes
