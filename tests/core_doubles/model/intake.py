"""What Schedule must answer, and what follows from it: scope, the seen-set, queues, futures."""

from collections.abc import Callable

from core_doubles.model import outcomes, places, prices
from core_doubles.model.hosts import forbids
from core_doubles.model.things import Crawl, Model, Offer, QueueId, Stand, Uri
from core_doubles.web import Spelled

from frontier_server.core.rules.disposition import Disposition
from frontier_server.core.spec.settings import ScopeSettings
from frontier_server.core.state.model import Verdict
from frontier_server.core.state.queue import QueueState

FORBIDDEN = -9998
IN_SCOPE = (Verdict.QUEUED, Verdict.ALREADY_SEEN, Verdict.ALREADY_QUEUED, Verdict.ROBOTS_FORBIDDEN)
REJECTED = {r".*/b\?q=.*": "/b?q="}  # patterns, and the text that they stand for


def verdict(model: Model, crawl: Crawl, offer: Offer) -> Verdict:
    """What a well-formed candidate must be answered."""
    refusal = out_of_scope(crawl, offer)
    if refusal is not None:
        return refusal
    _, uri, site = offer.spelled
    known = crawl.uris.get(places.identity(crawl, site, offer.spelled.target))
    if known is not None:
        before = offer.refetch_before_ms
        if before is None and not offer.anew:
            return Verdict.ALREADY_SEEN
        if known.queued:
            return Verdict.ALREADY_QUEUED
        if before is not None and known.finish_ms >= before:
            return Verdict.ALREADY_SEEN
        if known.stand is Stand.FUTURE and not known.finish_ms:
            return Verdict.ALREADY_QUEUED
    settings = places.settings_for(crawl, site, offer.spelled.target)
    forbidden = forbids(model, settings, site, uri)
    return Verdict.ROBOTS_FORBIDDEN if forbidden else Verdict.QUEUED


def out_of_scope(crawl: Crawl, offer: Offer) -> Verdict | None:
    """The refusal of a candidate that does not belong to the crawl."""
    scope, (_, uri, site) = crawl.settings.scope, offer.spelled
    if site.scheme not in scope.schemes:
        return Verdict.OUT_OF_SCOPE
    lets_in = _by_prefix(scope, site.surt + offer.spelled.target)
    if lets_in is False:
        return Verdict.OUT_OF_SCOPE
    within = site.authority in crawl.scope or offer.seed or redirected_seed(offer.path)
    if not (within or lets_in):
        return Verdict.OUT_OF_SCOPE
    if any(REJECTED[pattern] in uri for pattern in scope.reject_patterns):
        return Verdict.OUT_OF_SCOPE
    if not offer.seed and too_many_hops(offer.path, scope):
        return Verdict.TOO_MANY_HOPS
    return None


def excluded(crawl: Crawl, uri: Uri) -> bool:
    """Whether a URI that was let in does not belong to the crawl any more, if that counts."""
    if not (crawl.rescoped and crawl.settings.scope.recheck):
        return False
    again = Offer(Spelled(uri.uri, uri.uri, uri.site), uri.path, seed=uri.seed)
    return out_of_scope(crawl, again) is not None


def _by_prefix(scope: ScopeSettings, surt: str) -> bool | None:
    """What the longest prefix says; None if there is none."""
    matching = [text for text in scope.surt_prefixes if surt.startswith(text[1:])]
    return max(matching, key=len)[0] == "+" if matching else None


def redirected_seed(path: str) -> bool:
    """Whether a URI was reached from a seed by at most five redirects (2.2)."""
    return 0 < len(path) <= 5 and set(path) == {"R"}


def too_many_hops(path: str, scope: ScopeSettings) -> bool:
    """Whether a discovery path is longer than a scope allows."""
    redirects = embeds = links = 0
    for hop in path:
        links += hop in "LM"
        redirects = redirects + 1 if hop == "R" else 0
        embeds = 0 if hop in "LM" else embeds + (hop in "EXI")
    return links > scope.max_link_hops or redirects > scope.max_redirect_hops or embeds > scope.max_embed_hops


def offered(model: Model, crawl: Crawl, offer: Offer, answer: Verdict) -> None:
    """A candidate got its verdict."""
    text, uri, site = offer.spelled
    crawl.verdicts[answer.value] += 1
    if answer not in IN_SCOPE:
        return
    if offer.seed or redirected_seed(offer.path):
        crawl.scope.add(site.authority)
    identity = places.identity(crawl, site, offer.spelled.target)
    crawl.texts[text] = identity
    if answer in (Verdict.ALREADY_SEEN, Verdict.ALREADY_QUEUED):
        return
    known = crawl.uris.setdefault(identity, Uri(identity, uri, site, offer.spelled.target))
    known.uri, known.site, known.target = uri, site, offer.spelled.target
    known.path, known.seed = offer.path, offer.seed
    known.directive = min(offer.directive, 3) if offer.path.endswith("R") else offer.directive
    known.source = offer.source or (uri if offer.seed else "")
    known.attempts = known.lapses = known.deferrals = 0
    settings = places.settings_for(crawl, site, known.target)
    queues = settings.queues
    cost = prices.cost_of(queues.cost, uri, offer.via) if offer.cost is None else offer.cost
    policy_says = prices.uri_precedence(queues.uri_precedence, cost, offer.path)
    known.cost = cost
    known.precedence = policy_says if offer.precedence is None else offer.precedence
    if answer is Verdict.ROBOTS_FORBIDDEN:
        outcomes.record(model, crawl, known, FORBIDDEN, Disposition.DISREGARDED)
    elif offer.not_before_ms > model.now_ms:
        known.stand, known.due_ms, known.touched = Stand.FUTURE, offer.not_before_ms, model.step
    else:
        enqueue(model, crawl, known)


def enqueue(model: Model, crawl: Crawl, uri: Uri) -> None:
    """A URI was put into the queue that it belongs to, behind those as urgent as it is."""
    queue = places.queue_of(crawl, uri.site, uri.target)
    crawl.admitted += 1
    uri.stand, uri.queue = Stand.QUEUED, queue.id
    uri.arrived = uri.touched = model.step
    uri.order = (uri.directive, uri.precedence, crawl.admitted)
    queue.enqueued += 1
    queue.sites.add(uri.site)
    settings = places.settings_of_uri(crawl, uri)
    looked_at = crawl.overrides or settings.queues.queue_precedence != "base"
    if queue.state is QueueState.EXHAUSTED or looked_at:
        prices.reprioritise(crawl, queue, settings)
    else:
        prices.perhaps_appraise(crawl, queue, settings)


def release_due(model: Model, crawl: Crawl) -> None:
    """URIs whose time has come go into their queues, past the seen-set (2.9)."""
    due = [uri for uri in crawl.future() if uri.due_ms <= model.now_ms]
    for uri in sorted(due, key=lambda uri: (uri.due_ms, _place(crawl, uri))):
        enqueue(model, crawl, uri)


def recalled(model: Model, crawl: Crawl, wanted: Callable[[QueueId, str], bool]) -> None:
    """URIs that rest alone before a retry go into the queues that an operator wakes."""
    for uri in sorted(crawl.future(), key=lambda uri: (uri.due_ms, _place(crawl, uri))):
        if uri.attempts and wanted(*places.queue_id(crawl, uri.site, uri.target)):
            enqueue(model, crawl, uri)


def _place(crawl: Crawl, uri: Uri) -> bytes:
    """The order of those that are due at the same time."""
    return places.partition(crawl, uri.site, uri.target) + places.hashed(uri.identity)
