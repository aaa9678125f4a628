"""Scrapy spiders on a Toehold frontier: durable, and shared by as many processes as you like.

Three settings of an existing spider are enough:

    SCHEDULER = "toehold_scrapy.Scheduler"
    TOEHOLD_FRONTIER = "127.0.0.1:7707"
    TOEHOLD_CRAWL = "docs"

The frontier then keeps the spider's requests, and decides what is fetched next, and when. docs/scrapy.md has
the whole story.
"""

from .scheduler import Scheduler

__all__ = ["Scheduler"]
