"""A crawl in parts was found at rest: for how long that is true."""

from core_doubles.parted import CRAWL, Head

from frontier_server.core.machines.lifecycle import Input
from frontier_server.core.spec.settings import CrawlSettings


def test_a_crawl_found_at_rest_before_a_request_does_not_end_after_it() -> None:
    """It may have got URIs meanwhile: a crawl that is reopened and paused for that, and then resumed."""
    head = Head(3)
    head.create(CRAWL, CrawlSettings(contact="https://example.org/"))
    head.do(lambda core, now: core.control.add_seeds(CRAWL, ["http://a.example/"], now))
    head.do(lambda core, now: core.control.launch(CRAWL, now))
    crawl, found = head.crawl, []
    crawl.rests = True
    found.append(crawl.rests)
    head.do(lambda core, now: core.control.request_state(CRAWL, Input.STOP, now))
    found.append(crawl.rests)
    crawl.rests = True
    found.append(crawl.rests)
    crawl.rests = False
    found.append(crawl.rests)
    assert found == [True, False, True, False]
