"""Links that wait for a shard that is away."""

from collections.abc import Iterator
from random import Random

import pytest
from core_doubles.codec import PlainCodec, candidate, settings_of
from core_doubles.memory_store import MemoryStore
from core_doubles.parted import CRAWL, Head, Parted, begin
from core_doubles.placing import SUFFIXES

from frontier_server.coordinator import parking
from frontier_server.core.machines.lifecycle import CrawlState, Input
from frontier_server.core.rows import keys
from frontier_server.core.rows.errors import CrawlFinished
from frontier_server.core.rows.store import Family
from frontier_server.core.salvage.rebuild import Rebuilding
from frontier_server.core.spec.settings import CrawlSettings
from frontier_server.core.state.model import Candidate

PART = 1


@pytest.fixture
def parted() -> Parted:
    """A crawl in two parts that runs, and whose seed is not fetched yet."""
    found = Parted(2, Random(0), lambda uri: [], CrawlSettings(contact="https://example.org/"))
    found.lossy = False
    begin(found, "http://seed.example/")
    found.talk()
    assert found.head.state(CRAWL) is CrawlState.RUNNING
    return found


def park(parted: Parted, *links: Candidate, part: int = PART) -> bool:
    return parted.head.do(lambda core, now: parted.head.parking.park(CRAWL, part, links, now))


def rows(parted: Parted) -> int:
    return len(list(parted.head.store.scan(Family.IMPORTS, b"", b"")))


def test_parked_links_survive_a_restart_in_their_order(parted: Parted) -> None:
    links = [candidate(f"http://a.example/{number}", via="http://b.example/") for number in range(3)]
    assert park(parted, *links[:2])
    parted.restart_head()
    assert park(parted, links[2])
    found = parted.head.parking.next_for(PART)
    assert found is not None and list(found.records) == [link.record for link in links]
    assert parted.head.parking.next_for(0) is None
    assert parted.head.parking.counts(CRAWL) == {PART: 3}


def test_links_are_forgotten_when_their_part_has_taken_them_in(
    parted: Parted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parking, "LINKS_PER_DELIVERY", 2)
    park(parted, *(candidate(f"http://a.example/{number}") for number in range(3)))
    first = parted.head.parking.next_for(PART)
    assert first is not None and len(first.records) == 2
    for _ in range(2):  # the second time changes nothing
        parted.head.do(lambda core, now: parted.head.parking.delivered(first, now))
    rest = parted.head.parking.next_for(PART)
    assert rest is not None and list(rest.records) == [candidate("http://a.example/2").record]
    assert rows(parted) == 1


def test_a_link_of_many_pages_is_parked_once_for_each_path(parted: Parted) -> None:
    for via in ("http://b.example/", "http://c.example/"):
        park(parted, *(candidate("http://a.example/", via=via, path=path) for path in ("L", "LE")))
    assert parted.head.parking.counts(CRAWL) == {PART: 2}


def test_redirects_and_links_with_wishes_are_parked_each_time(parted: Parted) -> None:
    links = (
        candidate("http://a.example/", redirects=b"chain"),
        candidate("http://a.example/", refetch_before_ms=7),
        candidate("http://a.example/", annotations=b"{}"),
    )
    for _ in range(2):
        park(parted, *links)
    assert parted.head.parking.counts(CRAWL) == {PART: 6}


def test_links_beyond_the_most_are_not_parked(parted: Parted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parking, "MAX_PARKED", 3)
    assert park(parted, *(candidate(f"http://a.example/{number}") for number in range(2)))
    assert not park(parted, *(candidate(f"http://b.example/{number}") for number in range(2)))
    assert parted.head.parking.counts(CRAWL) == {PART: 2}
    assert park(parted, candidate("http://b.example/"))
    assert park(parted, candidate("http://c.example/"), part=0)


def test_a_crawl_does_not_end_while_links_of_it_are_parked(parted: Parted) -> None:
    park(parted, candidate("http://seed.example/next", path="L"))
    for _ in range(10):
        parted.lease(0)
        parted.lease(1)
        while parted.fetches:
            parted.fetch()
        parted.look_for_the_end()
        parted.talk()
        parted.wait(5_000)
    assert parted.fetched == ["http://seed.example/"]
    assert parted.head.state(CRAWL) is CrawlState.RUNNING
    assert parted.settle() is CrawlState.FINISHED
    assert parted.fetched == ["http://seed.example/", "http://seed.example/next"]
    assert rows(parted) == 0


def test_a_held_or_ended_crawl_is_offered_no_links_until_it_goes_on(parted: Parted) -> None:
    park(parted, candidate("http://a.example/"))
    assert parted.head.parking.next_for(PART) is not None
    parted.request(Input.HOLD)
    parted.talk()
    assert parted.head.parking.next_for(PART) is None
    parted.request(Input.RESUME)
    assert parted.head.parking.next_for(PART) is not None
    parted.request(Input.STOP)
    assert parted.head.parking.next_for(PART) is None
    parted.talk()
    assert parted.head.state(CRAWL) is CrawlState.FINISHED
    with pytest.raises(CrawlFinished):
        park(parted, candidate("http://b.example/"))
    assert parted.head.parking.counts(CRAWL) == {PART: 1}


def test_parked_links_go_with_a_split_and_with_the_deletion_of_their_crawl(parted: Parted) -> None:
    park(parted, candidate("http://a.example/"))
    parted.talk()
    parted.split()
    assert parted.head.parking.counts(CRAWL) == {2 * PART: 1}
    found = parted.head.parking.next_for(2 * PART)
    assert found is not None and list(found.records) == [candidate("http://a.example/").record]
    parted.head.do(lambda core, now: core.control.delete_crawl(CRAWL, now, force=True))
    parted.head.work()
    assert rows(parted) == 0


@pytest.mark.parametrize("keeps_state", [True, False])
def test_a_salvage_keeps_the_parked_links_that_can_be_read(parted: Parted, keeps_state: bool) -> None:
    park(parted, *(candidate(f"http://a.example/{number}") for number in range(3)))
    first = parted.head.parking.next_for(PART)
    assert first is not None
    number = parted.head.crawl.number
    lost = {(Family.IMPORTS, keys.parked_key(number, PART, 1))}
    if not keeps_state:
        lost.add((Family.CRAWLS, keys.crawl_key(number, keys.CrawlRow.STATE)))
    target = MemoryStore()

    def scan(family: Family, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        rows = parted.head.store.scan(family, prefix, prefix)
        return ((key, value) for key, value in rows if (family, key) not in lost)

    rebuilding = Rebuilding(scan, target, PlainCodec(), settings_of, 1, SUFFIXES, leads=True)
    for changes in rebuilding.changes(b"s" * 16):
        target.write(changes)
    parted.head = Head(len(parted.shards), target, parted.head.now_ms)
    found = parted.head.parking.next_for(PART)
    assert found is not None and list(found.records) == list(first.records)[1:]
