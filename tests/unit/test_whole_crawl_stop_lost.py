"""A coordinator that has lost a stop, which its parts obey already: what becomes of the crawl."""

from core_doubles.parted import CRAWL, copied, running

from frontier_server.core.machines.lifecycle import Input
from frontier_server.core.spec.settings import CrawlSettings


def test_parts_that_stop_are_reopened_for_a_coordinator_that_knows_nothing_of_it() -> None:
    parted = running(CrawlSettings(contact="https://example.org/"))
    for part in range(2):
        parted.lease(part)
    before = copied(parted.head.store)
    parted.request(Input.STOP)
    parted.talk()
    assert [each.state(CRAWL).value for each in parted.shards] == ["STOPPING"] * 2
    parted.head.store = before
    parted.restart_head()
    parted.talk()
    assert [each.state(CRAWL).value for each in parted.shards] == ["STOPPING"] * 2, "their pages are out"
    while parted.fetches:
        parted.fetch()
    parted.talk()
    assert [each.state(CRAWL).value for each in (parted.head, *parted.shards)] == ["RUNNING"] * 3
    parted.fetch_all()
    parted.talk()
    assert len(parted.fetched) == 4
