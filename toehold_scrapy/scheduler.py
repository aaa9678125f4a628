"""The scheduler: what Scrapy calls, and what becomes of each request.

    a request of the spider ──► candidate ──► frontier ──► lease ──► request ──► downloader, callback
                                    ▲                                               │
                                    └──────────── requests that it yields ◄─────────┘
                                                  then the lease's report

Everything here runs in the reactor's thread, except the methods of `_FromThreads`.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from scrapy import Request, Spider, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.core.scheduler import Scheduler as LocalScheduler
from scrapy.exceptions import CannotResolveHostError, CloseSpider, ResponseDataLossError
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.reactor import is_reactor_installed
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from toehold.frontier.v1.crawl_pb2 import (
    VERDICT_ALREADY_QUEUED,
    VERDICT_ALREADY_SEEN,
    VERDICT_MALFORMED,
    VERDICT_QUEUED,
    VERDICT_TOO_LONG,
    RetrySpec,
    Verdict,
)
from toehold.frontier.v1.frontier_pb2 import Candidate

from . import codec, fetches
from .addresses import AddressRule, VettingResolver
from .book import Held
from .calls import logger
from .configuration import Configuration, Misconfigured
from .exchange import Exchange
from .exchange import Spider as ExchangeSpider
from .joining import CannotJoin, Joined, join
from .outbox import Judged, Launch, Offer
from .robots_file import MAX_DOWNLOAD_BYTES, robots_report

if TYPE_CHECKING:
    from scrapy.core.engine import ExecutionEngine
    from scrapy.crawler import Crawler
    from twisted.python.failure import Failure

MARK = "toehold_lease"
"""The key of `meta` that names a request's lease."""

LEASED_META = frozenset(
    (
        *(MARK, "download_slot", "download_latency", "download_fail_on_dataloss"),
        *("dont_retry", "dont_obey_robotstxt"),
    )
)
"""The keys of `meta` that belong to one fetch, and not to the request."""

MIDDLE_PRECEDENCE, MAX_PRECEDENCE = 63, 127
"""The precedence of Scrapy's priority 0, and the last of all."""

MAX_PATH_HOPS = 2048
LAUNCH_AFTER_S = 10.0
"""When a new crawl is launched although the spider may have more start requests."""


class Scheduler(BaseScheduler):
    """Scrapy's scheduler on a Toehold frontier.

    The frontier takes GET requests of http and https whose fields JSON can hold. All others wait in this
    process, in Scrapy's own scheduler with all its settings, and are lost with the process unless there is a
    JOBDIR.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._local = LocalScheduler.from_crawler(crawler)
        self._exchange: Exchange | None = None
        self._resolver: VettingResolver | None = None
        self._failure = ""
        self._launched = False
        self._retry = RetrySpec()
        self._over = False
        self._closed = False
        self._opened_at_s = time.monotonic()
        self._leases: dict[str, Held] = {}  # those whose pages Scrapy has, by mark
        self._exchanged: deque[Held] = deque()  # those of them whose request a middleware has replaced
        self._robots: set[Held] = set()
        self._parents: WeakKeyDictionary[Request, Held] = WeakKeyDictionary()
        self._unjudged_count = 0
        self._slots = itertools.count()
        self._policy_id = ""
        self._warned = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Scheduler:
        """The scheduler of a crawler. Its settings are looked at when the spider is opened."""
        return cls(crawler)

    # what the engine calls

    def open(self, spider: Spider) -> Deferred[None] | None:
        """Joins the crawl, and creates it if it does not exist. A spider that cannot join is closed."""
        self._crawler.signals.connect(self._spider_opened, signals.spider_opened)
        opening = self._local.open(spider)
        if not is_reactor_installed():
            self._fail("toehold_misconfigured", "toehold_scrapy needs TWISTED_REACTOR_ENABLED to be true")
            return opening
        try:
            configuration = Configuration.of(self._crawler.settings)
        except Misconfigured as error:
            self._fail("toehold_misconfigured", str(error))
            return opening
        joining: Deferred[None] = deferToThread(join, configuration).addCallbacks(
            self._begin, self._cannot_join, callbackArgs=(configuration,)
        )
        if opening is not None:
            joining.addCallback(lambda _: opening)
        return joining

    def close(self, reason: str) -> Deferred[None] | None:
        """Reports the pages that are done, returns all other leases, and says goodbye."""
        if self._exchange is None:
            return self._local.close(reason)
        self._settle()
        self._closed = True
        self._remove_resolver()
        closing = deferToThread(self._exchange.close)
        return closing.addCallback(lambda _: self._local.close(reason))

    def has_pending_requests(self) -> bool:
        """Whether there is work: as long as the crawl has not ended. The engine asks when it is idle and has
        read all start requests, and that is when a new crawl is launched.
        """
        self._settle()
        if self._exchange is None or self._local.has_pending_requests():
            return self._exchange is not None
        if not self._launched:
            self._launch()
        return not self._over or bool(
            self._unjudged_count or self._leases or self._robots or self._exchange.book.has_waiting()
        )

    def enqueue_request(self, request: Request) -> bool:
        """Offers a request to the frontier, or keeps it in this process. The frontier's verdict comes later:
        `request_dropped` then tells of requests that it has seen, or does not want.
        """
        parent = self._parents.pop(request, None)
        hop = "L"
        if parent is None:
            parent = self._leases.get(request.meta.get(MARK, ""))
            hop = "R"  # only a downloader middleware yields a request with its lease's mark
            if parent is not None and parent.fetch is None:
                parent.request = request
                self._exchanged.append(parent)
                return True
            if parent is not None and parent.put_off:
                self._count("toehold/put_off")
                return True
        try:
            offer = self._offer(request, parent, hop)
        except codec.Unserialisable as error:
            return self._keep(request, str(error))
        assert self._exchange is not None
        self._unjudged_count += 1
        if parent is not None and offer.candidate.HasField("refetch_before_time") and _same(request, parent):
            parent.again.append((request, offer.candidate))
        else:
            self._exchange.send(offer)
        return True

    def next_request(self) -> Request | None:
        """The next request to fetch, if there is one now."""
        self._settle()
        if self._exchange is None:
            return None
        if self._exchanged:
            return self._exchanged.popleft().request
        if (local := self._local.next_request()) is not None:
            return local
        if not self._launched and self._opened_at_s + LAUNCH_AFTER_S < time.monotonic():
            self._launch()
        while (held := self._exchange.book.take()) is not None:
            request = self._request_of(held)
            if request is not None:
                return request
        return None

    # the beginning

    def _begin(self, joined: Joined, configuration: Configuration) -> None:
        self._launched = joined.launched
        self._retry = joined.retry
        self._install_resolver(joined.allowed_addresses)
        self._crawler.signals.connect(self._reached_downloader, signals.request_reached_downloader)
        self._crawler.signals.connect(self._downloaded, signals.response_downloaded)
        self._crawler.signals.connect(self._received, signals.response_received)
        # The first is nearest to the downloader.
        downloader_methods = self._engine.downloader.middleware.methods
        downloader_methods["process_exception"].appendleft(self._fetch_failed)
        downloader_methods["process_exception"].append(self._put_off_error)
        downloader_methods["process_response"].appendleft(self._refuse_broken_off)
        downloader_methods["process_response"].append(self._put_off_response)
        # The engine's side is the last that requests pass. Both lists belong together.
        spider_methods = self._engine.scraper.spidermw.methods
        spider_methods["process_spider_output"].append(self._note_parents)
        spider_methods["process_spider_exception"].append(None)
        self._exchange = Exchange(configuration, _FromThreads(self))
        self._exchange.start()
        logger.info(
            "Fetching for crawl %s of the frontier at %s, as node %s",
            *(configuration.crawl, configuration.frontier, configuration.node),
        )

    def _cannot_join(self, failure: Failure) -> None:
        error = failure.value
        if isinstance(error, CannotJoin):
            self._fail("toehold_cannot_join", str(error))
        elif isinstance(error, BaseException):
            raise error

    def _fail(self, reason: str, message: str) -> None:
        logger.error("%s", message)
        self._failure = reason

    def _spider_opened(self) -> None:
        # An error in `open` would keep Scrapy from opening, and so from closing, the pipelines.
        if self._failure:
            raise CloseSpider(self._failure)

    def _launch(self) -> None:
        assert self._exchange is not None
        self._launched = True
        self._exchange.send(Launch())

    def _install_resolver(self, allowed_addresses: Sequence[str]) -> None:
        from twisted.internet import reactor

        self._resolver = VettingResolver(reactor.nameResolver, AddressRule(allowed_addresses))
        reactor.installNameResolver(self._resolver)

    def _remove_resolver(self) -> None:
        from twisted.internet import reactor

        if self._resolver is not None and reactor.nameResolver is self._resolver:
            reactor.installNameResolver(self._resolver.inner)

    # from requests to candidates

    def _offer(self, request: Request, parent: Held | None, hop: str) -> Offer:
        """A request as the frontier takes it. Raises Unserialisable."""
        if request.method != "GET" or request.body:
            raise codec.Unserialisable("it is not a GET request without a body")
        if urlparse_cached(request).scheme not in ("http", "https"):
            raise codec.Unserialisable("it is neither http nor https")
        assert self._crawler.spider is not None
        is_start = hop == "R" and bool(request.meta.get("is_start_request"))
        candidate = Candidate(
            uri=request.url.partition("#")[0],
            annotations=codec.encode(
                request, self._crawler.spider, without_meta=LEASED_META if MARK in request.meta else ()
            ),
            precedence=min(max(MIDDLE_PRECEDENCE - request.priority, 0), MAX_PRECEDENCE),
        )
        if parent is not None:
            candidate.via = parent.lease.uri
            candidate.path = (parent.lease.path + hop)[-MAX_PATH_HOPS:]
            candidate.source = parent.lease.source
        elif is_start:
            candidate.seed = True
        # Every process of a crawl has the same start requests, and each is meant once.
        if request.dont_filter and not is_start:
            candidate.refetch_before_time.GetCurrentTime()
        return Offer(request, candidate)

    def _keep(self, request: Request, why: str) -> bool:
        """Leaves a request to Scrapy's own scheduler."""
        if MARK in request.meta:
            for key in LEASED_META:
                request.meta.pop(key, None)
        log = logger.debug if self._warned else logger.warning
        log("Kept in this process: %s, since %s (later ones are logged at level DEBUG)", request, why)
        self._warned = True
        self._count("toehold/kept")
        return self._local.enqueue_request(request)

    def _judged(self, judged: Judged) -> None:
        self._unjudged_count -= len(judged)
        if self._closed:
            return
        for request, verdict in judged:
            self._count(f"toehold/verdict/{Verdict.Name(verdict).removeprefix('VERDICT_')}")
            if verdict == VERDICT_QUEUED:
                self._count("scheduler/enqueued")
            elif verdict in (VERDICT_MALFORMED, VERDICT_TOO_LONG):
                self._keep(request, "the frontier does not take it")
            else:
                if verdict in (VERDICT_ALREADY_SEEN, VERDICT_ALREADY_QUEUED):
                    self._count("dupefilter/filtered")
                self._crawler.signals.send_catch_log(
                    signals.request_dropped, request=request, spider=self._crawler.spider
                )
        self._wake()

    async def _note_parents(self, response: Response, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Passes a callback's output on, and notes which page its requests were found on."""
        assert response.request is not None
        parent = self._leases.get(response.request.meta.get(MARK, ""))
        async for each in result:
            if parent is not None and isinstance(each, Request):
                self._parents[each] = parent
            yield each

    # from leases to requests, and to reports

    def _arrived(self, robots: Sequence[Held]) -> None:
        if self._closed:
            return
        for held in robots:
            self._robots.add(held)
            fetching = deferred_from_coro(self._fetch_robots(held))
            fetching.addErrback(lambda failure: logger.error("A robots.txt failed", exc_info=failure.value))
        self._wake()

    async def _fetch_robots(self, held: Held) -> None:
        assert self._exchange is not None

        def request_of(url: str) -> Request:
            request = self._prepared(Request(url, callback=NO_CALLBACK), held)
            request.meta.update(dont_redirect=True, dont_cache=True, download_maxsize=MAX_DOWNLOAD_BYTES)
            return request

        try:
            made = await robots_report(self._engine, held.lease, request_of, self._failed)
            self._exchange.finish(held, made)
        finally:
            self._robots.discard(held)

    def _request_of(self, held: Held) -> Request | None:
        """The request of a lease; None if this spider cannot read it."""
        assert self._exchange is not None
        assert self._crawler.spider is not None
        try:
            request = codec.decode(held.lease.annotations, held.lease.uri, self._crawler.spider)
        except codec.Unreadable as error:
            logger.error("%s is of another spider, or of another version: %s", held.lease.uri, error)
            unreadable = fetches.bare_report(held.lease, fetches.FAILED, "unreadableRequest")
            self._exchange.finish(held, unreadable)
            return None
        mark = held.lease.token.hex()
        request.meta[MARK] = mark
        # The report of a body that breaks off needs its status, which Scrapy's error does not tell.
        by_default = self._crawler.settings.getbool("DOWNLOAD_FAIL_ON_DATALOSS")
        held.wants_whole = request.meta.get("download_fail_on_dataloss", by_default)
        request.meta["download_fail_on_dataloss"] = False
        held.request = self._prepared(request, held)
        self._leases[mark] = held
        self._count("scheduler/dequeued")
        return request

    def _prepared(self, request: Request, held: Held) -> Request:
        """A request, as the frontier wants it fetched: retries, robots.txt and pace are its own affair."""
        policy, settings, meta = held.policy, self._crawler.settings, request.meta
        request.headers.setdefault("User-Agent", policy.user_agent)
        meta.update(dont_retry=True, dont_obey_robotstxt=True)
        # A slot of its own: no delay and no other request holds it up.
        meta["download_slot"] = f"toehold-{next(self._slots)}"
        timeout_s = policy.timeout.ToTimedelta().total_seconds()
        own_timeout_s = meta.get("download_timeout") or settings.getfloat("DOWNLOAD_TIMEOUT") or timeout_s
        meta["download_timeout"] = min(own_timeout_s, timeout_s)
        own_maxsize = meta.get("download_maxsize") or settings.getint("DOWNLOAD_MAXSIZE") or policy.max_bytes
        meta["download_maxsize"] = min(own_maxsize, policy.max_bytes)
        if self._resolver is not None and policy.fetch_policy_id != self._policy_id:
            self._policy_id = policy.fetch_policy_id
            self._resolver.rule = AddressRule(policy.allowed_addresses)
        return request

    def _reached_downloader(self, request: Request) -> None:
        if self._resolver is not None:
            self._resolver.vet(urlparse_cached(request).hostname or "")
        if (held := self._lease_of(request)) is not None:
            held.clock = fetches.Clock()

    def _downloaded(self, response: Response, request: Request) -> None:
        if (held := self._lease_of(request)) is not None:
            self._fetched(held, fetches.answered(response, held.clock))

    def _received(self, response: Response, request: Request) -> None:
        # A middleware has answered without a fetch: from a cache, say.
        held = self._lease_of(request)
        if held is not None and held.fetch is None:
            self._fetched(held, fetches.answered(response, held.clock))

    def _fetch_failed(self, request: Request, exception: Exception) -> None:
        held = self._lease_of(request)
        if held is not None and held.fetch is None:
            self._fetched(held, self._failed(request, exception, held.clock))

    def _refuse_broken_off(self, request: Request, response: Response) -> Response:
        held = self._lease_of(request)
        if held is not None and held.wants_whole and "dataloss" in response.flags:
            raise ResponseDataLossError(f"the body of {request.url} broke off")
        return response

    def _put_off_error(self, request: Request, exception: Exception) -> Request | None:
        return request if self._is_put_off(request) else None

    def _put_off_response(self, request: Request, response: Response) -> Request | Response:
        return request if self._is_put_off(request) else response

    def _is_put_off(self, request: Request) -> bool:
        """Whether the spider need not know of this fetch, since the frontier will have it repeated."""
        held = self._lease_of(request)
        if held is not None and held.fetch is not None:
            held.put_off = fetches.is_retried(held.fetch.status, held.lease.attempt, self._retry)
        return held is not None and held.put_off

    def _failed(self, request: Request, error: Exception, clock: fetches.Clock) -> fetches.Fetch:
        host = urlparse_cached(request).hostname or ""
        unresolved = isinstance(error, CannotResolveHostError)
        if unresolved and self._resolver is not None and self._resolver.has_refused(host):
            return fetches.refused(clock)
        return fetches.failed(error, clock)

    def _fetched(self, held: Held, fetch: fetches.Fetch) -> None:
        assert self._exchange is not None
        held.fetch = fetch
        self._exchange.book.fetched(held)

    def _lease_of(self, request: Request) -> Held | None:
        """The lease that a request fetches for. One that merely has a copy of its `meta` fetches for none."""
        held = self._leases.get(request.meta.get(MARK, ""))
        return held if held is not None and held.request is request else None

    def _settle(self) -> None:
        """Reports the pages that Scrapy is done with: fetched, their callbacks ended, their items stored."""
        if not self._leases:
            return
        assert self._exchange is not None
        scraping = self._engine.scraper.slot
        assert scraping is not None
        for mark, held in list(self._leases.items()):
            request = held.request
            if request in self._engine.downloader.active or request in scraping.active:
                continue
            if held in self._exchanged:
                continue
            del self._leases[mark]
            if held.fetch is None:
                made = fetches.bare_report(held.lease, fetches.FAILED, "notFetched")
            else:
                made = fetches.report(held.lease, held.fetch)
            self._exchange.finish(held, made)

    # the end

    def _crawl_over(self) -> None:
        self._over = True
        self._wake()

    def _must_end(self, reason: str, message: str) -> None:
        if message:
            logger.error("%s", message)
        if not self._closed:
            self._over = True
            deferred_from_coro(self._engine.close_spider_async(reason=reason))

    def _resized(self, max_fetches: int) -> None:
        logger.info("An operator sets the number of requests at once to %d", max_fetches)
        self._engine.downloader.total_concurrency = max(1, max_fetches)
        self._wake()

    def _wake(self) -> None:
        """Lets the engine ask for requests. It has no public way; otherwise it asks every five seconds."""
        slot = self._engine._slot
        if slot is not None and not self._closed and slot.closing is None:
            slot.nextcall.schedule()

    @property
    def _engine(self) -> ExecutionEngine:
        return self._crawler.engine

    def _count(self, name: str) -> None:
        self._crawler.stats.inc_value(name)


class _FromThreads(ExchangeSpider):
    """Carries what the exchange says into the reactor's thread."""

    def __init__(self, scheduler: Scheduler) -> None:
        from twisted.internet import reactor

        self._call = reactor.callFromThread
        self._scheduler = scheduler

    def arrived(self, robots: Sequence[Held]) -> None:
        self._call(self._scheduler._arrived, robots)

    def judged(self, judged: Judged) -> None:
        self._call(self._scheduler._judged, judged)

    def crawl_over(self) -> None:
        self._call(self._scheduler._crawl_over)

    def must_end(self, reason: str, message: str) -> None:
        self._call(self._scheduler._must_end, reason, message)

    def resized(self, max_fetches: int) -> None:
        self._call(self._scheduler._resized, max_fetches)


def _same(request: Request, held: Held) -> bool:
    """Whether a request is for the URI that a lease is for."""
    assert held.request is not None
    return request.url.partition("#")[0] in (held.lease.uri, held.request.url.partition("#")[0])
