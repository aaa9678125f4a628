"""What a URI costs, what goes first, when it is visited again: the policies by name (Heritrix 2.5, 2.6)."""

from core_doubles.model.things import Appraisal, Crawl, Queue, Uri

from frontier_server.core.spec.settings import CrawlSettings, QueueSettings, RevisitSettings


def cost_of(policy: str, uri: str, via: str) -> int:
    """The cost of a URI."""
    page, mark, _ = uri.partition("?")
    match policy:
        case "zero":
            return 0
        case "wag" if mark:
            return 3 if via.startswith(page) else 2
        case "anti-calendar" if "/2024/" in uri:
            return 2
        case _:
            return 1


def uri_precedence(policy: str, cost: int, path: str) -> int:
    """The precedence of a URI."""
    return {"cost": cost, "base": 1, "hops": 1 + path.count("L")}[policy]


def queue_precedence(crawl: Crawl, queue: Queue, settings: QueueSettings) -> int:
    """The precedence that a queue deserves."""
    if queue.fixed_precedence is not None:
        return queue.fixed_precedence
    extra = 0
    if settings.queue_precedence == "highest-uri":
        extra = min((uri.precedence for uri in crawl.in_order(queue)), default=0)
    elif settings.queue_precedence == "success-counts":
        extra = thresholds_passed(settings.success_thresholds, queue.successes)
    return min(settings.base_precedence + extra, 255)


def thresholds_passed(thresholds: tuple[int, ...], successes: int) -> int:
    """How many thresholds so many successes pass, one after the other; the last one repeats."""
    passed = 0
    while successes >= thresholds[min(passed, len(thresholds) - 1)]:
        successes -= thresholds[min(passed, len(thresholds) - 1)]
        passed += 1
    return passed


def reprioritise(crawl: Crawl, queue: Queue, settings: CrawlSettings) -> None:
    """A queue has certainly been looked at with these settings, and not since."""
    queue.appraisals.clear()
    perhaps_appraise(crawl, queue, settings)


def perhaps_appraise(crawl: Crawl, queue: Queue, settings: CrawlSettings) -> None:
    """A queue may have been looked at with these settings; what is told of it decides."""
    made = appraisal(crawl, queue, settings)
    queue.appraisals.append(made)
    queue.looks.append(made)


def appraisal(crawl: Crawl, queue: Queue, settings: CrawlSettings) -> Appraisal:
    """What a look at a queue makes of it, with these settings."""
    return Appraisal(queue_precedence(crawl, queue, settings.queues), settings.queues.precedence_floor)


def interval_ms(uri: Uri, changed: bool, revisit: RevisitSettings) -> int:
    """How long until a URI is visited again; 0 if it is not."""
    if revisit.policy == "none":
        return 0
    if revisit.policy == "fixed":
        return revisit.interval_ms
    if not uri.visits or not uri.interval_ms:
        wanted = revisit.interval_ms
    else:
        wanted = int(uri.interval_ms * (revisit.shrink if changed else revisit.growth))
    return min(max(wanted, revisit.min_interval_ms), revisit.max_interval_ms)
