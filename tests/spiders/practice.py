"""A spider that fetches all that the judge of the practice web finds."""

from collections.abc import Iterator
from typing import Any

import scrapy
from scrapy.http import Response

from practice_web.links import links
from practice_web.reply import Reply


class PracticeSpider(scrapy.Spider):
    """Follows every link, and yields an item for each page."""

    name = "practice"

    def __init__(self, start: str = "", **more: Any) -> None:
        super().__init__(**more)
        self.start_urls = start.split()

    def parse(self, response: Response) -> Iterator[Any]:
        """A page: an item, and its links."""
        yield {"url": response.url, "depth": response.meta["depth"]}
        media_type = (response.headers.get("Content-Type") or b"").decode()
        reply = Reply(response.status, media_type=media_type, body=response.body)
        for _, link in sorted(links(response.url, reply)):
            if link.startswith(("http://", "https://")):
                yield scrapy.Request(link)
