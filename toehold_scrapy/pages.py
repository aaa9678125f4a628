"""The pages that Scrapy has for the frontier: each one from its lease to its report.

Everything here runs in the reactor's thread.
"""

import itertools
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from scrapy import Request, signals
from scrapy.exceptions import CannotResolveHostError, ResponseDataLossError
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.httpobj import urlparse_cached

from . import codec, fetches
from .addresses import VettingResolver
from .book import SpiderLease
from .candidates import LINK, MARK, REDIRECT, without_fragment
from .enrolment import Joined
from .exchange import LeaseExchange
from .log import logger
from .robots_file import MAX_DOWNLOAD_BYTES, robots_report

if TYPE_CHECKING:
    from scrapy.core.engine import ExecutionEngine
    from scrapy.crawler import Crawler

HOOK_FAILED = "hookFailed"
"""The remark on a page whose callback, errback or item pipeline has raised; a node's for its hook."""


class WrongSpider(Exception):
    """The crawl has a request that this spider cannot read; the message names it."""


class Pages:
    """The pages in Scrapy's hands. It hooks itself into Scrapy's engine and Twisted's resolver."""

    def __init__(self, crawler: "Crawler", exchange: LeaseExchange, joined: Joined) -> None:
        from twisted.internet import reactor

        self._crawler = crawler
        self._exchange = exchange
        self._retry = joined.retry
        self._held: dict[str, SpiderLease] = {}  # by mark
        self._exchanged: deque[SpiderLease] = deque()  # those of them whose request a middleware has replaced
        self._robots: set[SpiderLease] = set()
        self._parents: WeakKeyDictionary[Request, SpiderLease] = WeakKeyDictionary()
        self._slots = itertools.count()
        self._policy_id = ""
        self._resolver = VettingResolver(reactor.nameResolver, joined.allowed_addresses)
        reactor.installNameResolver(self._resolver)
        crawler.signals.connect(self._reached_downloader, signals.request_reached_downloader)
        crawler.signals.connect(self._downloaded, signals.response_downloaded)
        crawler.signals.connect(self._received, signals.response_received)
        crawler.signals.connect(self._hook_failed, signals.spider_error)
        crawler.signals.connect(self._hook_failed, signals.item_error)
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

    def __len__(self) -> int:
        """How many pages and robots.txt files there are."""
        return len(self._held) + len(self._robots)

    def close(self) -> None:
        """Leaves Twisted's resolver as it was."""
        from twisted.internet import reactor

        if reactor.nameResolver is self._resolver:
            reactor.installNameResolver(self._resolver.inner)

    # what the scheduler asks

    def next_request(self) -> Request | None:
        """The next request to fetch for a lease. Raises WrongSpider."""
        if self._exchanged:
            return self._exchanged.popleft().request
        held = self._exchange.book.take()
        return None if held is None else self._request_of(held)

    def absorbs(self, request: Request) -> bool:
        """Takes a request in that a downloader middleware has made of a page's own, unless it is a new one.

        A page that is not fetched yet is fetched by this request instead. A page that the frontier will have
        fetched again needs none.
        """
        held = self._held.get(request.meta.get(MARK, ""))
        if held is None or request in self._parents:
            return False
        if held.fetch is None:
            held.request = request
            self._exchanged.append(held)
            return True
        if held.put_off:
            self._crawler.stats.inc_value("toehold/put_off")
        return held.put_off

    def parent_of(self, request: Request) -> tuple[SpiderLease | None, str]:
        """The page that a request was found on, and the hop from there."""
        parent = self._parents.pop(request, None)
        if parent is not None:
            return parent, LINK
        # It has the mark of a page without having passed its callback: by a middleware, or an errback.
        parent = self._held.get(request.meta.get(MARK, ""))
        if parent is None or parent.request is None:
            return None, LINK
        redirects = request.meta.get("redirect_times", 0) > parent.request.meta.get("redirect_times", 0)
        return parent, REDIRECT if redirects else LINK

    def is_for(self, request: Request, held: SpiderLease) -> bool:
        """Whether a request is for the URI of a lease."""
        assert held.request is not None
        return without_fragment(request) in (held.lease.uri, without_fragment(held.request))

    def fetch_robots(self, leases: Sequence[SpiderLease]) -> None:
        """Fetches robots.txt files, and reports them."""
        for held in leases:
            self._robots.add(held)
            fetching = deferred_from_coro(self._fetch_robots(held))
            fetching.addErrback(
                lambda failure: logger.error("Fetching a robots.txt failed", exc_info=failure.value)
            )

    def settle(self) -> None:
        """Reports the pages that Scrapy is done with: fetched, their callbacks ended, their items stored."""
        if not self._held:
            return
        scraping = self._engine.scraper.slot
        assert scraping is not None
        for mark, held in list(self._held.items()):
            request = held.request
            if request in self._engine.downloader.active or request in scraping.active:
                continue
            if held in self._exchanged:
                continue
            del self._held[mark]
            if held.fetch is None:
                report = fetches.bare_report(
                    held.lease, fetches.FAILED, "notFetched", reason="Scrapy dropped the request"
                )
            else:
                report = fetches.report(held.lease, held.fetch)
            if held.hook_failed:
                fetches.annotate(report, [HOOK_FAILED])
            self._exchange.finish(held, report)

    # before the fetch

    def _request_of(self, held: SpiderLease) -> Request:
        """The request of a lease. Raises WrongSpider if this spider cannot read it."""
        assert self._crawler.spider is not None
        try:
            request = codec.decode(held.lease.annotations, held.lease.uri, self._crawler.spider)
        except codec.Unreadable as error:
            self._exchange.hand_back([held])
            raise WrongSpider(f"{held.lease.uri}: {error}") from None
        mark = held.lease.token.hex()
        request.meta[MARK] = mark
        # The report of a body that breaks off needs its status, which Scrapy's error does not tell.
        by_default = self._crawler.settings.getbool("DOWNLOAD_FAIL_ON_DATALOSS")
        held.wants_whole = request.meta.get("download_fail_on_dataloss", by_default)
        request.meta["download_fail_on_dataloss"] = False
        held.request = self._prepared(request, held)
        self._held[mark] = held
        self._crawler.stats.inc_value("scheduler/dequeued")
        return request

    def _prepared(self, request: Request, held: SpiderLease) -> Request:
        """A request, as the frontier wants it fetched: retries, robots.txt and pace are its own affair."""
        policy, settings, meta = held.policy, self._crawler.settings, request.meta
        for name, _, value in (each.partition(":") for each in policy.headers):
            request.headers.setdefault(name, value.strip())
        request.headers.setdefault("User-Agent", policy.user_agent)
        meta.update(dont_retry=True, dont_obey_robotstxt=True)
        # A slot of its own: no delay and no other request holds it up.
        meta["download_slot"] = f"toehold-{next(self._slots)}"
        timeout_s = policy.timeout.ToTimedelta().total_seconds()
        own_timeout_s = meta.get("download_timeout") or settings.getfloat("DOWNLOAD_TIMEOUT") or timeout_s
        meta["download_timeout"] = min(own_timeout_s, timeout_s)
        own_maxsize = meta.get("download_maxsize") or settings.getint("DOWNLOAD_MAXSIZE") or policy.max_bytes
        meta["download_maxsize"] = min(own_maxsize, policy.max_bytes)
        if policy.fetch_policy_id != self._policy_id:
            self._policy_id = policy.fetch_policy_id
            self._resolver.allow(policy.allowed_addresses)
        return request

    async def _fetch_robots(self, held: SpiderLease) -> None:
        def request_of(url: str) -> Request:
            request = self._prepared(Request(url, callback=NO_CALLBACK), held)
            request.meta.update(dont_redirect=True, dont_cache=True, download_maxsize=MAX_DOWNLOAD_BYTES)
            return request

        try:
            report = await robots_report(self._engine, held.lease, request_of, self._failed)
            self._exchange.finish(held, report)
        finally:
            self._robots.discard(held)

    # during the fetch, and after it

    def _reached_downloader(self, request: Request) -> None:
        self._resolver.vet(urlparse_cached(request).hostname or "")
        if (held := self._lease_of(request)) is not None:
            held.clock = fetches.FetchClock()

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

    def _hook_failed(self, failure: Any, response: Response | None) -> None:
        """A callback, an errback or an item pipeline has raised: the crawl counts it like a node's hook."""
        request = getattr(response, "request", None) or getattr(failure, "request", None)
        held = None if request is None else self._held.get(request.meta.get(MARK, ""))
        if held is not None:
            held.hook_failed = True

    def _refuse_broken_off(self, request: Request, response: Response) -> Response:
        held = self._lease_of(request)
        if held is not None and held.wants_whole and "dataloss" in response.flags:
            raise ResponseDataLossError(f"the body of {request.url} broke off")
        return response

    def _put_off_error(self, request: Request, exception: Exception) -> Request | None:
        if self._is_put_off(request):
            return request
        held = self._lease_of(request)
        if held is not None and held.fetch is not None and fetches.ADDRESS_REFUSED in held.fetch.notes:
            raise fetches.AddressRefused(held.fetch.reason) from exception
        return None

    def _put_off_response(self, request: Request, response: Response) -> Request | Response:
        return request if self._is_put_off(request) else response

    def _is_put_off(self, request: Request) -> bool:
        """Whether the spider need not know of this fetch, since the frontier will have it repeated."""
        held = self._lease_of(request)
        if held is not None and held.fetch is not None:
            held.put_off = fetches.is_retried(held.fetch.status, held.lease.attempt, self._retry)
        return held is not None and held.put_off

    def _failed(self, request: Request, error: Exception, clock: fetches.FetchClock) -> fetches.SpiderFetch:
        host = urlparse_cached(request).hostname or ""
        refusal = self._resolver.refusal(host) if isinstance(error, CannotResolveHostError) else ""
        if refusal:
            logger.warning("Address refused: %s", refusal)
            return fetches.refused(refusal, clock)
        return fetches.failed(error, clock)

    def _fetched(self, held: SpiderLease, fetch: fetches.SpiderFetch) -> None:
        held.fetch = fetch
        self._exchange.book.fetched(held)

    def _lease_of(self, request: Request) -> SpiderLease | None:
        """The lease that a request fetches for. One that merely has a copy of its `meta` fetches for none."""
        held = self._held.get(request.meta.get(MARK, ""))
        return held if held is not None and held.request is request else None

    async def _note_parents(self, response: Response, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Passes a callback's output on, and notes which page its requests were found on."""
        assert response.request is not None
        parent = self._held.get(response.request.meta.get(MARK, ""))
        async for each in result:
            if parent is not None and isinstance(each, Request):
                self._parents[each] = parent
            yield each

    @property
    def _engine(self) -> "ExecutionEngine":
        return self._crawler.engine
