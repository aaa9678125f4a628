"""A spider that uses what spiders use: whatever it is called back with becomes an item."""

import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import scrapy
from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.http import Response
from twisted.python.failure import Failure


class Thing(scrapy.Item):
    """An item."""

    name = scrapy.Field()


@dataclass
class Other:
    """An item of another kind."""

    name: str


class SlowPipeline:
    """Adds to each item that it went through."""

    async def process_item(self, item: Any) -> Any:
        """Takes its time, as a database does."""
        item["stored"] = True
        return item


class SwappingMiddleware:
    """Exchanges one request for another, and answers a third by itself."""

    def process_request(self, request: scrapy.Request) -> scrapy.Request | Response | None:
        """Before the download."""
        if request.url.endswith("/swapped") and "X-Swapped" not in request.headers:
            return request.replace(headers={"X-Swapped": "1"})
        if request.url.endswith("/cached"):
            return Response(request.url, 203)
        return None


class FeaturesSpider(scrapy.Spider):
    """Each page tries one thing."""

    name = "features"
    custom_settings = {  # noqa: RUF012
        "ITEM_PIPELINES": {SlowPipeline: 1},
        "DOWNLOADER_MIDDLEWARES": {SwappingMiddleware: 650},
    }

    def __init__(self, site: str = "", **more: Any) -> None:
        super().__init__(**more)
        self.site = site

    async def start(self) -> AsyncIterator[Any]:
        """An item, and two start requests."""
        yield {"page": "start"}
        yield scrapy.Request(self.site + "/", cb_kwargs={"word": "first"}, dont_filter=True)
        yield scrapy.Request(self.site + "/only-start", self.named)

    def parse(self, response: Response, word: str = "") -> Iterator[Any]:
        """The first page."""
        yield self.told(response, word=word)
        kept = {"when": datetime(2026, 1, 1, tzinfo=UTC), "pair": (1, b"two"), "set": {3}, 4: "four"}
        items = {"thing": Thing(name="t"), "other": Other("o")}
        yield response.follow("/meta", self.with_meta, meta={"kept": kept}, cb_kwargs=items, flags=["f"])
        yield response.follow("/meta#again", self.named)  # a duplicate
        yield response.follow("/headers", self.named, headers={"X-Own": "one"}, cookies={"c": "1"})
        yield response.follow("/old", self.redirected, meta={"kept": 1})
        yield response.follow("/missing", self.named, errback=self.failed)
        yield response.follow("/private/page", self.named, errback=self.failed)
        yield response.follow("/flaky", self.flaky)
        yield response.follow("/busy", self.named, errback=self.failed)
        yield response.follow("/swapped", self.named)
        yield response.follow("/blocks", self.blocks)
        yield response.follow("/cached", self.named)
        yield response.follow("/cut", self.named, errback=self.failed)
        yield response.follow("/post", self.named, method="POST")
        yield response.follow("/function", partial(FeaturesSpider.named, self))
        yield response.follow("/raises", self.raises)
        yield scrapy.Request("http://refused.test/", self.named, errback=self.failed)
        yield scrapy.Request("http://unknown.test/", self.named, errback=self.failed)

    def with_meta(self, response: Response, thing: Thing, other: Other) -> Iterator[Any]:
        """A page whose request brought values along."""
        assert response.request is not None
        kept = response.meta["kept"]
        known = {"when": datetime(2026, 1, 1, tzinfo=UTC), "pair": (1, b"two"), "set": {3}, 4: "four"}
        is_same = kept == known and thing == Thing(name="t") and other == Other("o")
        yield self.told(response, same=is_same, flags=response.request.flags)

    def named(self, response: Response) -> Iterator[Any]:
        """Any page."""
        yield self.told(response)

    def redirected(self, response: Response) -> Iterator[Any]:
        """A page behind a redirect."""
        yield self.told(response, kept=response.meta["kept"], over=response.meta["redirect_urls"])
        yield response.follow("/only-start", self.named, dont_filter=True)  # once more

    def flaky(self, response: Response) -> Iterator[Any]:
        """A page that is not what it should be at first."""
        if response.body == b"not yet":
            assert response.request is not None
            yield get_retry_request(response.request, spider=self, reason="not yet")
        else:
            yield self.told(response, retries=response.meta["retry_times"])

    def blocks(self, response: Response) -> Iterator[Any]:
        """A callback that keeps Twisted's reactor for longer than a lease lives."""
        time.sleep(3)
        yield self.told(response)

    def raises(self, response: Response) -> None:
        """A callback with a defect."""
        raise RuntimeError("a defect of the spider")

    def failed(self, failure: Failure) -> Iterator[Any]:
        """An error, of a request that has an errback."""
        request = failure.request  # type: ignore[attr-defined]
        yield {"page": request.url.removeprefix(self.site), "error": type(failure.value).__name__}

    def told(self, response: Response, **more: Any) -> dict[str, Any]:
        """An item that tells of a page."""
        return {"page": response.url.removeprefix(self.site), **more}
