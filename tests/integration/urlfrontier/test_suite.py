"""The cases of URLFrontier's own test suite, on a gateway."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from frontier_harness.gateway import OK, SKIPPED, Client, discovered, known
from frontier_harness.waiting import eventually

from urlfrontier.urlfrontier_pb2 import (
    CountUrlParams,
    DeleteCrawlMessage,
    ListUrlParams,
    Local,
    Pagination,
    QueueWithinCrawlParams,
    URLStatusRequest,
)


@pytest.fixture(autouse=True)
def empty(client: Client) -> Iterator[None]:
    """These cases look at all crawls."""
    client.delete_all()
    yield
    client.delete_all()


def test_a_url_without_a_date_is_never_fetched_again(client: Client) -> None:
    assert client.put(known("http://key1.com/", key="key1.com")) == [OK]
    assert client.get(key="key1.com", max_urls_per_queue=1, delay_requestable=2) == []


def test_the_url_with_the_earlier_date_comes_first(client: Client) -> None:
    now_s = int(time.time())
    later = known("http://key1.com/later", now_s, key="key1.com")
    sooner = known("http://key1.com/sooner", now_s - 10_000, key="key1.com")
    assert client.put(later, sooner) == [OK, OK]
    assert client.get(key="key1.com", max_urls_per_queue=2) == [
        "http://key1.com/sooner",
        "http://key1.com/later",
    ]


def test_a_url_is_held_for_a_while_and_its_queue_can_be_deleted(client: Client) -> None:
    url = discovered("http://key1.com/", key="key1.com")
    assert client.put(url, url) == [OK, SKIPPED]
    assert list(client.stub.ListQueues(Pagination()).values) == ["key1.com"]
    wanted: dict[str, Any] = {"key": "key1.com", "max_urls_per_queue": 1, "delay_requestable": 2}
    assert client.get(**wanted) == ["http://key1.com/"]
    got_s = time.monotonic()
    stats = client.stats("key1.com")
    assert (stats.numberOfQueues, stats.inProcess) == (1, 1)
    assert client.get(**wanted) == []
    time.sleep(max(0.0, got_s + 2 - time.monotonic()))
    stats = client.stats("key1.com")
    assert (stats.numberOfQueues, stats.inProcess, stats.size) == (1, 0, 1)
    assert client.stub.DeleteQueue(QueueWithinCrawlParams(key="key1.com")).value == 1
    assert client.stats("key1.com").numberOfQueues == 0


def test_a_url_without_a_key_waits_in_the_queue_of_its_host(client: Client) -> None:
    client.put(discovered("http://gac.icann.org?language_id=9"))
    assert client.stats("gac.icann.org").size == 1
    assert client.stub.DeleteQueue(QueueWithinCrawlParams(key="gac.icann.org")).value == 1


def test_crawls_are_apart_and_a_blank_id_means_the_default_one(client: Client) -> None:
    url = "http://urlfrontier.net/"
    assert client.crawl_ids() == []
    assert client.put(discovered(url, crawl_id="BESPOKE")) == [OK]
    assert client.put(discovered(url)) == [OK]
    assert client.put(discovered(url, crawl_id="DEFAULT")) == [SKIPPED]
    for given, crawl_id in (("", "DEFAULT"), ("BESPOKE", "BESPOKE")):
        stats = client.stats(crawl_id=given)
        assert (stats.size, stats.crawlID, stats.numberOfQueues) == (1, crawl_id, 1)
        assert client.stub.DeleteCrawl(DeleteCrawlMessage(value=given)).value == 1
        stats = client.stats(crawl_id=given)
        assert (stats.size, stats.crawlID) == (0, crawl_id)


def test_a_dump_put_into_an_empty_frontier_is_the_same_again(client: Client) -> None:
    later_s = int(time.time()) + 3600
    client.put(
        discovered("http://example.com/discovered", "example.com", source=["seed"]),
        known("http://example.com/done", key="example.com"),
        known("http://example.com/later", later_s, key="example.com"),
        discovered("http://bespoke.com/", "bespoke.com", "BESPOKE"),
    )
    dump = [item for crawl_id in client.crawl_ids() for item in client.urls(crawlID=crawl_id, size=2**31 - 1)]
    assert len(dump) == 4
    client.delete_all()
    assert client.crawl_ids() == []
    assert client.put(*dump) == [OK] * 4

    def status(name: str) -> tuple[int, dict[str, list[str]]]:
        request = URLStatusRequest(url=f"http://example.com/{name}", key="example.com", crawlID="DEFAULT")
        told = client.stub.GetURLStatus(request).known
        return told.refetchable_from_date, {
            key: list(values.values) for key, values in told.info.metadata.items()
        }

    assert status("done") == (0, {})
    assert status("later") == (later_s, {})
    assert status("discovered")[1] == {"source": ["seed"]}
    assert client.stub.CountURLs(CountUrlParams(crawlID="BESPOKE")).value == 1


def test_a_dump_queue_by_queue_has_every_url(client: Client) -> None:
    client.put(*(discovered(f"http://site{number % 10}.com/page{number}") for number in range(20)))
    client.put(discovered("http://bespoke.com/", crawl_id="BESPOKE"))
    dump = []
    for crawl_id in client.stub.ListCrawls(Local(local=True)).values:
        keys = client.stub.ListQueues(Pagination(crawlID=crawl_id, include_inactive=True, size=5)).values
        more = client.stub.ListQueues(
            Pagination(crawlID=crawl_id, include_inactive=True, size=100, start=5)
        ).values
        for key in (*keys, *more):
            dump += list(client.stub.ListURLs(ListUrlParams(crawlID=crawl_id, key=key)))
    assert len(dump) == 21
    client.delete_all()
    assert client.put(*dump) == [OK] * 21
    assert eventually(lambda: client.stub.CountURLs(CountUrlParams()).value == 20, "the URLs")
    assert client.stub.CountURLs(CountUrlParams(crawlID="BESPOKE")).value == 1
