"""The scheduler that Scrapy calls, and the way of each request.

    a request of the spider ──► candidate ──► frontier ──► lease ──► request ──► downloader, callback
                                    ▲                                               │
                                    └──────────── requests that it yields ◄─────────┘
                                                  then the lease's report

Everything here runs in the reactor's thread, except the methods of `_FromThreads`.
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from scrapy import Request, Spider, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.core.scheduler import Scheduler as LocalScheduler
from scrapy.exceptions import CloseSpider
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.reactor import is_reactor_installed
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from toehold.frontier.v1 import crawl_pb2

from .book import SpiderLease
from .candidates import LEASED_META, MARK, candidate_of
from .codec import Unserialisable
from .configuration import MISCONFIGURED, Configuration, Misconfigured
from .enrolment import CannotJoin, Joined, join
from .exchange import ExchangeListener, LeaseExchange
from .log import logger
from .outbox import Judged, Launch, RequestOffer
from .pages import Pages, WrongSpider

if TYPE_CHECKING:
    from scrapy.core.engine import ExecutionEngine
    from scrapy.crawler import Crawler
    from twisted.python.failure import Failure

CANNOT_JOIN = "toehold_cannot_join"

LAUNCH_AFTER_S = 10.0
"""When a new crawl is launched although the spider may have more start requests."""


class Scheduler(BaseScheduler):
    """Scrapy's scheduler on a Toehold frontier.

    The frontier takes GET requests of http and https whose fields JSON can hold. All others wait in this
    process, in Scrapy's own scheduler with all its settings, and are lost with the process unless there is a
    JOBDIR.
    """

    def __init__(self, crawler: "Crawler") -> None:
        self._crawler = crawler
        self._local = LocalScheduler.from_crawler(crawler)
        self._exchange: LeaseExchange | None = None  # set once the crawl is joined, as are its pages
        self._pages: Pages | None = None
        self._failure = ""
        self._launched = False
        self._over = False
        self._closed = False
        self._opened_at_s = time.monotonic()
        self._unjudged_count = 0
        self._warned = False

    @classmethod
    def from_crawler(cls, crawler: "Crawler") -> "Scheduler":
        """The scheduler of a crawler. Its settings are looked at when the spider is opened."""
        return cls(crawler)

    # what the engine calls

    def open(self, spider: Spider) -> Deferred[None] | None:
        """Joins the crawl, and creates it if it does not exist. A spider that cannot join is closed."""
        self._crawler.signals.connect(self._spider_opened, signals.spider_opened)
        self._crawler.signals.connect(self._spider_closed, signals.spider_closed)
        opening = self._local.open(spider)
        if not is_reactor_installed():
            self._fail(MISCONFIGURED, "toehold_scrapy needs TWISTED_REACTOR_ENABLED to be true")
            return opening
        try:
            configuration = Configuration.of(self._crawler.settings)
        except Misconfigured as error:
            self._fail(MISCONFIGURED, str(error))
            return opening
        joining: Deferred[None] = deferToThread(join, configuration).addCallbacks(
            self._begin, self._cannot_join, callbackArgs=(configuration,)
        )
        if opening is not None:
            joining.addCallback(lambda _: opening)
        return joining

    def close(self, reason: str) -> Deferred[None] | None:
        """Reports the pages that are done, returns all other leases, and says goodbye."""
        if self._exchange is None or self._pages is None:
            return self._local.close(reason)
        self._pages.settle()
        self._pages.close()
        self._closed = True
        closing = deferToThread(self._exchange.close)
        return closing.addCallback(lambda _: self._local.close(reason))

    def has_pending_requests(self) -> bool:
        """Whether there is work: as long as the crawl has not ended. The engine asks when it is idle and has
        read all start requests, and that is when a new crawl is launched.
        """
        if self._exchange is None or self._pages is None:
            return False
        self._pages.settle()
        if self._local.has_pending_requests():
            return True
        if not self._launched:
            self._launch()
        return not self._over or bool(
            self._unjudged_count or self._pages or self._exchange.book.has_waiting()
        )

    def enqueue_request(self, request: Request) -> bool:
        """Offers a request to the frontier, or keeps it in this process. The frontier's verdict comes later:
        `request_dropped` then tells of requests that it has seen, or does not want.
        """
        assert self._exchange is not None
        assert self._pages is not None
        assert self._crawler.spider is not None
        if self._pages.absorbs(request):
            return True
        parent, hop = self._pages.parent_of(request)
        try:
            candidate = candidate_of(request, self._crawler.spider, parent, hop)
        except Unserialisable as error:
            return self._keep(request, str(error))
        self._unjudged_count += 1
        if (
            parent is not None
            and candidate.HasField("refetch_before_time")
            and self._pages.is_for(request, parent)
        ):
            parent.again.append((request, candidate))
        else:
            self._exchange.send(RequestOffer(request, candidate, parent))
        return True

    def next_request(self) -> Request | None:
        """The next request to fetch, if there is one now."""
        if self._pages is None:
            return None
        self._pages.settle()
        if (local := self._local.next_request()) is not None:
            return local
        if not self._launched and self._opened_at_s + LAUNCH_AFTER_S < time.monotonic():
            self._launch()
        try:
            return self._pages.next_request()
        except WrongSpider as error:
            crawl = self._crawler.settings["TOEHOLD_CRAWL"]
            self._must_end(
                MISCONFIGURED,
                f"Crawl {crawl!r} belongs to another spider, or to another version of this one: {error}",
            )
            return None

    # the beginning

    def _begin(self, joined: Joined, configuration: Configuration) -> None:
        self._launched = joined.launched
        self._exchange = LeaseExchange(configuration, _FromThreads(self))
        self._pages = Pages(self._crawler, self._exchange, joined)
        self._exchange.start()
        logger.info(
            "Fetching for crawl %s of the frontier at %s, as node %s",
            *(configuration.crawl, configuration.frontier, configuration.node),
        )

    def _cannot_join(self, failure: "Failure") -> None:
        error = failure.value
        if isinstance(error, CannotJoin):
            self._fail(CANNOT_JOIN, str(error))
        elif isinstance(error, BaseException):
            raise error

    def _fail(self, reason: str, message: str) -> None:
        logger.error("%s", message)
        self._failure = reason

    def _spider_opened(self) -> None:
        # An error in `open` would keep Scrapy from opening, and so from closing, the pipelines.
        if self._failure:
            raise CloseSpider(self._failure)

    def _spider_closed(self, reason: str) -> None:
        # Scrapy's exit code tells only whether a crawler has a spider.
        if reason in (MISCONFIGURED, CANNOT_JOIN):
            self._crawler.spider = None

    def _launch(self) -> None:
        assert self._exchange is not None
        self._launched = True
        self._exchange.send(Launch())

    # requests that the frontier does not take

    def _keep(self, request: Request, why: str) -> bool:
        """Leaves a request to Scrapy's own scheduler."""
        if MARK in request.meta:
            for key in LEASED_META:
                request.meta.pop(key, None)
        log = logger.debug if self._warned else logger.warning
        log(
            "Request kept in this process: %s, because %s (further ones are logged at level DEBUG)",
            request,
            why,
        )
        self._warned = True
        self._count("toehold/kept")
        return self._local.enqueue_request(request)

    # what the threads say

    def _arrived(self, robots: Sequence[SpiderLease]) -> None:
        if self._pages is not None and not self._closed:
            self._pages.fetch_robots(robots)
            self._wake()

    def _judged(self, judged: Judged) -> None:
        self._unjudged_count -= len(judged)
        if self._closed:
            return
        for request, verdict in judged:
            known = verdict in crawl_pb2.Verdict.values()  # a later frontier may have others
            name = crawl_pb2.Verdict.Name(verdict).removeprefix("VERDICT_") if known else str(verdict)
            self._count(f"toehold/verdict/{name}")
            if verdict in (crawl_pb2.VERDICT_QUEUED, crawl_pb2.VERDICT_PARKED):
                self._count("scheduler/enqueued")
            elif verdict in (crawl_pb2.VERDICT_MALFORMED, crawl_pb2.VERDICT_TOO_LONG):
                self._keep(request, "the frontier refuses it")
            else:
                if verdict in (crawl_pb2.VERDICT_ALREADY_SEEN, crawl_pb2.VERDICT_ALREADY_QUEUED):
                    self._count("dupefilter/filtered")
                self._crawler.signals.send_catch_log(
                    signals.request_dropped, request=request, spider=self._crawler.spider
                )
        self._wake()

    def _crawl_over(self) -> None:
        self._over = True
        self._wake()

    def _must_end(self, reason: str, message: str) -> None:
        if message:
            logger.error("%s", message)
        if not self._closed and self._exchange is not None:
            self._over = True
            self._exchange.stop_taking()
            deferred_from_coro(self._engine.close_spider_async(reason=reason))

    def _resized(self, max_fetches: int) -> None:
        logger.info("An operator sets the number of requests at once to %d", max_fetches)
        self._engine.downloader.total_concurrency = max(1, max_fetches)
        self._wake()

    def _wake(self) -> None:
        """Lets the engine ask for requests now, not only every five seconds. There is no public way."""
        slot = self._engine._slot
        if slot is not None and not self._closed and slot.closing is None:
            slot.nextcall.schedule()

    @property
    def _engine(self) -> "ExecutionEngine":
        return self._crawler.engine

    def _count(self, name: str) -> None:
        self._crawler.stats.inc_value(name)


class _FromThreads(ExchangeListener):
    """Carries what the exchange says into the reactor's thread."""

    def __init__(self, scheduler: Scheduler) -> None:
        from twisted.internet import reactor

        self._call = reactor.callFromThread
        self._scheduler = scheduler

    def arrived(self, robots: Sequence[SpiderLease]) -> None:
        self._call(self._scheduler._arrived, robots)

    def judged(self, judged: Judged) -> None:
        self._call(self._scheduler._judged, judged)

    def crawl_over(self) -> None:
        self._call(self._scheduler._crawl_over)

    def must_end(self, reason: str, message: str) -> None:
        self._call(self._scheduler._must_end, reason, message)

    def resized(self, max_fetches: int) -> None:
        self._call(self._scheduler._resized, max_fetches)
