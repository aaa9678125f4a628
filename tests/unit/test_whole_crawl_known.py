"""What a coordinator knows of parts: after a restart, of former starts, and of crawls with the same name."""

import pytest
from core_doubles.codec import candidate
from core_doubles.parted import CRAWL, Head, begin, copied, reliable, running
from msgspec.structs import replace

from frontier_server.core.machines.lifecycle import Input
from frontier_server.core.spec.settings import CrawlSettings, LimitSettings
from frontier_server.core.state.model import Verdict

SETTINGS = CrawlSettings(contact="https://example.org/", run_while_empty=True)


def test_counts_do_not_fall_while_a_part_is_not_known() -> None:
    parted = running(SETTINGS)
    parted.fetch_all()
    before = replace(parted.head.crawl.counters)
    assert before.succeeded == 4
    parted.restart_head()
    parted.meet(0)
    during = parted.head.crawl.counters
    assert (during.succeeded, during.discovered, during.bytes) == (4, before.discovered, before.bytes)
    assert during.fetch_statuses == before.fetch_statuses
    parted.meet(1)
    assert parted.head.crawl.counters.succeeded == 4


@pytest.mark.parametrize(
    "settings",
    [
        CrawlSettings(contact="https://example.org/", max_toes=8),
        CrawlSettings(contact="https://example.org/", limits=LimitSettings(max_documents=1000)),
    ],
)
def test_a_part_gets_its_share_although_another_was_never_there(settings: CrawlSettings) -> None:
    parted = reliable(settings)
    parted.met = [0, 0]
    parted.meet(0)
    of_first = (f"http://{number}.example/" for number in range(40))
    begin(parted, *[uri for uri in of_first if parted.part_of(uri) == 0][:4])
    for _ in range(20):
        parted.announce()
        parted.order(0)
        parted.tell(0)
        while parted.messages:
            parted.deliver()
        parted.wait(1_000)
    assert parted.shards[0].grants(CRAWL)
    parted.talk()
    parted.talk()
    pools = parted.head.crawl.documents_pool, parted.head.crawl.toes_pool
    limits = settings.limits.max_documents, settings.max_toes
    for pool, limit in zip(pools, limits, strict=True):
        assert not limit or sum(share.most or 0 for share in pool.shares) <= limit


def test_nothing_is_lent_of_what_a_part_may_have_that_is_away_after_a_restart() -> None:
    """The coordinator has lost its last writes, and with them that the crawl was ever launched."""
    settings = CrawlSettings(contact="https://example.org/", limits=LimitSettings(max_documents=20))
    parted = reliable(settings)
    hosts = [f"http://{number}.example/" for number in range(40)]
    of_part = [[uri for uri in hosts if parted.part_of(uri) == part][:8] for part in range(2)]
    kept = copied(parted.head.store)
    begin(parted, *of_part[0], *of_part[1])
    parted.talk()
    parted.fetch_all()
    done = parted.head.crawl.counters.succeeded
    assert done == 16
    parted.head = Head(2, kept, parted.head.now_ms)
    parted.met, parted.heard = [0, 0], {}
    parted.meet(0)
    shares = parted.head.crawl.documents_pool.shares
    assert shares[1].most is None


def test_progress_of_a_shards_former_start_changes_nothing() -> None:
    parted = running(SETTINGS)
    coordinator, shard = parted.head.coordinator, parted.shards[0]
    shard.core.shard.changes += 5_000
    before = shard.core.orders.progress([CRAWL])
    parted.restart_shard(0)
    parted.meet(0)
    known = coordinator.last_known(CRAWL)[0]
    parted.head.do(lambda core, now: coordinator.record(0, before, now))
    assert coordinator.last_known(CRAWL)[0] == known
    parted.head.request(CRAWL, Input.PAUSE)
    parted.talk()
    assert parted.head.state(CRAWL).value == "PAUSED"


def test_parts_obey_a_coordinator_whose_last_writes_are_lost() -> None:
    """Its orders would have the numbers of some that the parts know already."""
    parted = running(SETTINGS)
    kept = copied(parted.head.store)
    parted.restart_head()
    parted.talk()
    for given in (Input.PAUSE, Input.RESUME) * 3:
        parted.head.request(CRAWL, given)
        parted.talk()
    parted.head = Head(2, kept, parted.head.now_ms)
    parted.met, parted.heard = [0, 0], {}
    parted.talk()
    parted.head.request(CRAWL, Input.PAUSE)
    parted.talk()
    assert [each.state(CRAWL).value for each in (parted.head, *parted.shards)] == ["PAUSED"] * 3


def test_answers_for_a_deleted_crawl_do_not_count_for_a_new_one_of_its_name() -> None:
    parted = reliable(SETTINGS)
    head, coordinator = parted.head, parted.head.coordinator
    for part in range(2):
        parted.meet(part)
    begin(parted, "http://a.example/", "http://b.example/")
    announced = head.do(lambda core, now: coordinator.next_seeds(CRAWL, now))
    head.do(lambda core, now: head.parking.park(CRAWL, 0, [candidate("http://q.example/")] * 1, now))
    parked = head.parking.next_for(0)
    assert announced is not None and parked is not None
    head.do(lambda core, now: core.control.delete_crawl(CRAWL, now, force=True))
    head.create(CRAWL, SETTINGS)
    begin(parted, "http://x.example/", "http://y.example/")
    head.do(lambda core, now: head.parking.park(CRAWL, 0, [candidate("http://r.example/")], now))
    head.do(lambda core, now: coordinator.announced(announced, [Verdict.QUEUED] * 2, now))
    head.do(lambda core, now: head.parking.delivered(parked, now))
    assert (head.crawl.counters.announced_seeds, head.crawl.parked) == (0, 1)
