"""A spider as Scrapy's tutorial has it. It knows nothing of a frontier."""

from collections.abc import Iterator
from typing import Any

import scrapy
from scrapy.http import Response, TextResponse


class AuthorSpider(scrapy.Spider):
    """Reads quotes page by page, and the pages of their authors."""

    name = "author"
    custom_settings = {"ROBOTSTXT_OBEY": True, "DOWNLOAD_DELAY": 30, "AUTOTHROTTLE_ENABLED": True}  # noqa: RUF012

    def __init__(self, start: str = "", **more: Any) -> None:
        super().__init__(**more)
        self.start_urls = [start]

    def parse(self, response: Response) -> Iterator[Any]:
        """A page of quotes."""
        assert isinstance(response, TextResponse)
        for quote in response.css("div.quote"):
            yield {"quote": quote.css("span.text::text").get()}
        yield from response.follow_all(css=".author + a", callback=self.parse_author)
        yield from response.follow_all(css="li.next a", callback=self.parse)

    def parse_author(self, response: Response) -> Iterator[Any]:
        """The page of an author."""
        yield {"author": response.css("h3::text").get(default="").strip()}
