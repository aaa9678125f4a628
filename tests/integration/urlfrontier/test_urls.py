"""URLs through the gateway: what is kept of them, when they come, and in which order."""

import time
from typing import Any

import pytest
from frontier_harness.gateway import OK, SKIPPED, Client, discovered, known
from frontier_harness.waiting import eventually

from urlfrontier.urlfrontier_pb2 import (
    BlockQueueParams,
    CountUrlParams,
    CrawlLimitParams,
    DiscoveredBatch,
    Pagination,
    PurgeUrlParams,
    QueueDelayParams,
    QueueWithinCrawlParams,
    URLInfo,
    URLItem,
    URLStatusRequest,
)

IDS = ("Nachrichten über München", "a/b", "A/B", " ", "x" * 1000, "urlfrontier", "日本", "two\nlines")
KEYS = ("with blank", "100%", "100%25", "ключ", "k" * 255, "a_b,c;d+0#8080")


@pytest.mark.parametrize("given", IDS)
def test_a_crawl_id_may_be_any_text(client: Client, given: str) -> None:
    url = "http://ids.example.com/"
    assert client.put(discovered(url, crawl_id=given)) == [OK]
    crawl_id = given if given.strip() else "DEFAULT"
    assert client.crawl_ids().count(crawl_id) == 1
    # Other tests put URLs into the default crawl, too.
    (info,) = (each for each in client.infos(given) if each.url == url)
    assert info.crawlID == crawl_id


@pytest.mark.parametrize("key", KEYS)
def test_a_key_may_be_any_text(client: Client, crawl_id: str, key: str) -> None:
    assert client.put(discovered("http://keys.example.com/", key, crawl_id)) == [OK]
    assert list(client.stub.ListQueues(Pagination(crawlID=crawl_id)).values) == [key]
    (info,) = client.infos(crawl_id, key=key)
    assert info.key == key


def test_metadata_and_spelling_come_back(client: Client, crawl_id: str) -> None:
    url = "HTTP://Meta.Example.com/a/../b?q=ü#part"
    assert client.put(discovered(url, "k", crawl_id, empty=[], one=["1"], two=["ä", "b"])) == [OK]
    expected = discovered(url, "k", crawl_id, empty=[], one=["1"], two=["ä", "b"]).discovered.info
    assert client.infos(crawl_id, delay_requestable=60) == [expected]
    (item,) = client.urls(crawlID=crawl_id)
    assert item.known.info == expected
    changed = known(url, int(time.time()), "k", crawl_id, one=["2"])
    assert client.put(changed) == [OK]
    assert eventually(lambda: client.infos(crawl_id), "the URL again") == [changed.known.info]


def test_urls_that_cannot_be_stored_are_skipped(client: Client, crawl_id: str) -> None:
    items = (
        discovered("ftp://skipped.example.com/", crawl_id=crawl_id),
        discovered("not a URL", "k", crawl_id),
        discovered("", crawl_id=crawl_id),
        discovered("http://long.example.com/", "k" * 256, crawl_id),
        discovered("http://long.example.com/", "k", crawl_id, big=["x" * 20_000]),
        discovered("http://long.example.com/" + "x" * 9_000, "k", crawl_id),
        known("mailto:somebody@example.com", 0, "k", crawl_id),
        known("mailto:somebody@example.com", 17, "k", crawl_id),
        URLItem(),
    )
    assert client.put(*items, discovered("http://kept.example.com/", "k", crawl_id)) == [SKIPPED] * 9 + [OK]
    assert client.put(
        known("mailto:a@b.example", 0, "k", crawl_id), known("http://x.example/", 0, "k", crawl_id)
    ) == [
        SKIPPED,
        OK,
    ]


def test_acknowledgements_come_in_order_and_with_ids(client: Client, crawl_id: str) -> None:
    items = [
        URLItem(
            discovered=discovered(f"http://acks.example.com/{number}", "k", crawl_id).discovered,
            ID=str(number),
        )
        for number in range(3000)
    ]
    assert [ack.ID for ack in client.stub.PutURLs(iter(items))] == [item.ID for item in items]
    (ack,) = client.stub.PutURLs(iter([discovered("http://acks.example.com/x", "k", crawl_id)]))
    assert ack.ID == "http://acks.example.com/x"


def test_items_of_a_url_count_in_their_order(client: Client, crawl_id: str) -> None:
    url = "http://order.example.com/"
    date_s = int(time.time()) + 9_999
    statuses = client.put(
        discovered(url, "k", crawl_id),
        known(url, 0, "k", crawl_id),
        discovered(url, "k", crawl_id),
        known(url, date_s, "k", crawl_id),
        discovered(url, "k", crawl_id),
    )
    assert statuses == [OK, OK, SKIPPED, OK, SKIPPED]
    (item,) = client.urls(crawlID=crawl_id)
    assert item.known.refetchable_from_date == date_s


def test_batches_of_discovered_urls(client: Client, crawl_id: str) -> None:
    def batch(*numbers: int) -> DiscoveredBatch:
        infos = [URLInfo(url=f"http://batch.example.com/{n}", key="k", crawlID=crawl_id) for n in numbers]
        return DiscoveredBatch(ID=str(len(numbers)), items=infos)

    many = range(100, 2600)
    acks = list(client.stub.PutDiscovered(iter([batch(1, 2, 1), batch(), batch(2, 3), batch(*many)])))
    assert [ack.ID for ack in acks] == ["3", "0", "2", "2500"]
    assert [list(ack.statuses) for ack in acks] == [[OK, OK, SKIPPED], [], [SKIPPED, OK], [OK] * 2500]
    assert client.stub.CountURLs(CountUrlParams(crawlID=crawl_id)).value == 2503


def test_a_future_url_comes_when_it_is_due(client: Client, crawl_id: str) -> None:
    due_s = int(time.time()) + 3
    assert client.put(known("http://future.example.com/", due_s, "k", crawl_id)) == [OK]
    assert client.stats("k", crawl_id).size == 1
    assert client.stats(crawl_id=crawl_id).size == 1
    assert list(client.stub.ListQueues(Pagination(crawlID=crawl_id)).values) == ["k"]
    assert client.get(crawl_id) == []
    assert eventually(lambda: client.get(crawl_id, key="k"), "the URL") == ["http://future.example.com/"]
    assert time.time() >= due_s


def test_a_date_ends_the_hold(client: Client, crawl_id: str) -> None:
    url = "http://hold.example.com/"
    client.put(discovered(url, "k", crawl_id))
    assert client.get(crawl_id, delay_requestable=3600) == [url]
    assert client.stats(crawl_id=crawl_id).inProcess == 1
    assert client.put(known(url, int(time.time()) - 5, "k", crawl_id)) == [OK]
    assert client.stats(crawl_id=crawl_id).inProcess == 0
    assert eventually(lambda: client.get(crawl_id), "the URL again") == [url]
    assert client.put(known(url, 0, "k", crawl_id)) == [OK]
    stats = client.stats("k", crawl_id)
    assert (stats.size, stats.inProcess, stats.counts["completed"]) == (0, 0, 1)
    stats = client.stats(crawl_id=crawl_id)
    assert (stats.size, stats.inProcess, stats.counts["completed"]) == (0, 0, 1)


def test_a_url_may_be_done_though_nobody_has_got_it(client: Client, crawl_id: str) -> None:
    url = "http://done.example.com/"
    assert client.put(discovered(url, "k", crawl_id), known(url, 0, "k", crawl_id)) == [OK, OK]
    assert client.get(crawl_id) == []
    assert client.put(discovered(url, "k", crawl_id)) == [SKIPPED]


def test_so_many_queues_and_so_many_urls_of_each(client: Client, crawl_id: str) -> None:
    client.put(*(discovered(f"http://h{n % 5}.many.example/{n}", f"q{n % 5}", crawl_id) for n in range(50)))
    infos = client.infos(crawl_id, max_queues=2, max_urls_per_queue=3)
    assert len(infos) == 6
    assert len({info.key for info in infos}) == 2
    assert len(client.infos(crawl_id)) == 30, "the other three queues, without a limit"


def test_more_urls_than_one_answer_of_the_frontier_has(client: Client, crawl_id: str) -> None:
    client.put(*(discovered(f"http://h{n}.wide.example/", f"q{n}", crawl_id) for n in range(350)))
    assert len(client.get(crawl_id, max_queues=340, max_urls_per_queue=1)) == 340
    assert len(client.get(crawl_id)) == 10


def test_any_crawl(client: Client, crawl_id: str) -> None:
    other = f"{crawl_id} other"
    client.put(
        discovered("http://any.example/1", "k", crawl_id), discovered("http://any.example/2", "k", other)
    )

    found: set[str] = set()

    def both() -> bool:
        found.update(info.crawlID for info in client.infos(None, delay_requestable=600))
        return {crawl_id, other} <= found

    assert eventually(both, "URLs of both")


def test_a_queue_rests_after_it_has_given_urls(client: Client, crawl_id: str) -> None:
    client.put(*(discovered(f"http://rest.example/{n}", "k", crawl_id) for n in range(4)))
    client.stub.SetDelay(QueueDelayParams(key="k", delay_requestable=3, crawlID=crawl_id))
    assert len(client.get(crawl_id, max_urls_per_queue=1)) == 1
    got_s = time.monotonic()
    assert client.get(crawl_id, max_urls_per_queue=9) == []
    assert eventually(lambda: client.get(crawl_id, max_urls_per_queue=9), "the others")
    assert time.monotonic() - got_s > 1.5
    client.stub.SetDelay(QueueDelayParams(key="no such queue", delay_requestable=3, crawlID=crawl_id))


def test_a_blocked_queue_gives_no_urls(client: Client, crawl_id: str) -> None:
    client.put(discovered("http://block.example/", "k", crawl_id))
    listed = Pagination(crawlID=crawl_id)
    client.stub.BlockQueueUntil(BlockQueueParams(key="k", time=int(time.time()) + 3600, crawlID=crawl_id))
    assert client.get(crawl_id) == []
    assert list(client.stub.ListQueues(listed).values) == []
    listed.include_inactive = True
    assert list(client.stub.ListQueues(listed).values) == ["k"]
    client.stub.BlockQueueUntil(BlockQueueParams(key="k", crawlID=crawl_id))
    assert client.get(crawl_id) == ["http://block.example/"]


def test_a_queue_gives_no_more_than_its_limit(client: Client, crawl_id: str) -> None:
    client.stub.SetDelay(QueueDelayParams(delay_requestable=0))
    try:
        client.put(*(discovered(f"http://limit.example/{n}", "k", crawl_id) for n in range(5)))
        client.stub.SetCrawlLimit(CrawlLimitParams(key="k", limit=2, crawlID=crawl_id))
        for _ in range(2):
            (url,) = client.get(crawl_id, max_urls_per_queue=1)
            client.put(known(url, 0, "k", crawl_id))
        assert client.get(crawl_id, max_urls_per_queue=1) == []
        assert client.stats("k", crawl_id).size == 3
        client.stub.SetCrawlLimit(CrawlLimitParams(key="k", limit=0, crawlID=crawl_id))
        assert len(client.get(crawl_id)) == 3
    finally:
        client.stub.SetDelay(QueueDelayParams(delay_requestable=1))


def test_urls_are_listed_counted_and_purged(client: Client, crawl_id: str) -> None:
    client.put(*(discovered(f"http://list.example/Page{n}", f"k{n % 2}", crawl_id) for n in range(10)))
    assert len(client.urls(crawlID=crawl_id)) == 10
    whole = [item.known.info.url for item in client.urls(crawlID=crawl_id)]
    paged = [
        item.known.info.url
        for start in (0, 4, 8, 12)
        for item in client.urls(crawlID=crawl_id, start=start, size=4)
    ]
    assert sorted(whole) == sorted(paged)
    assert len(client.urls(crawlID=crawl_id, key="k1")) == 5

    def count(**params: Any) -> int:
        return client.stub.CountURLs(CountUrlParams(crawlID=crawl_id, **params)).value

    assert (count(), count(key="k0"), count(key="none")) == (10, 5, 0)
    assert (count(filter="page"), count(filter="page", ignoreCase=True), count(filter="Page3")) == (0, 10, 1)
    assert count(filter="P.ge") == 0
    assert client.stub.PurgeURLs(PurgeUrlParams(crawlID=crawl_id, days=1)).value == 0
    time.sleep(1.1)  # creation dates are whole seconds
    assert client.stub.PurgeURLs(PurgeUrlParams(crawlID=crawl_id, key="k0")).value == 5
    assert count() == 5
    assert client.stub.PurgeURLs(PurgeUrlParams(crawlID=crawl_id)).value == 5
    assert (count(), client.urls(crawlID=crawl_id)) == (0, [])


def test_a_deleted_queue_takes_its_urls_with_it(client: Client, crawl_id: str) -> None:
    client.put(*(discovered(f"http://deleted.example/{n}", "k", crawl_id) for n in range(7)))
    client.put(known("http://deleted.example/done", 0, "k", crawl_id))
    client.put(discovered("http://other.example/", "other", crawl_id))
    assert len(client.get(crawl_id, key="k", max_urls_per_queue=2, delay_requestable=600)) == 2
    assert client.stub.DeleteQueue(QueueWithinCrawlParams(key="k", crawlID=crawl_id)).value == 8
    assert [item.known.info.url for item in client.urls(crawlID=crawl_id)] == ["http://other.example/"]
    assert client.put(discovered("http://deleted.example/1", "k", crawl_id)) == [OK]
    assert client.stub.DeleteQueue(QueueWithinCrawlParams(key="none", crawlID=crawl_id)).value == 0


def test_the_status_of_a_url(client: Client, crawl_id: str) -> None:
    url = "http://status.example.com/"
    begun_s = int(time.time())
    client.put(discovered(url, crawl_id=crawl_id, a=["b"]))
    item = client.stub.GetURLStatus(URLStatusRequest(url=url, crawlID=crawl_id))
    assert item.known.info.metadata["a"].values == ["b"]
    assert begun_s <= item.creation_date <= time.time()
    assert begun_s <= item.known.refetchable_from_date <= time.time()


def test_urls_without_limits_are_all_that_are_due_however_large(client: Client, crawl_id: str) -> None:
    """The frontier cuts an answer of its own at 2 MiB, which is fewer of these than it gives at once."""
    urls = [f"http://large{number}.example.com/{'x' * 8_000}" for number in range(130)]
    large = ["y" * 15_000]
    items = [discovered(url, f"k{number}", crawl_id, large=large) for number, url in enumerate(urls)]
    assert client.put(*items) == [OK] * len(urls)
    assert {info.url for info in client.infos(crawl_id, delay_requestable=60)} == set(urls)
