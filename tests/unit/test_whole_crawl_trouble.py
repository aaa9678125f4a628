"""Trouble of a part pauses the whole crawl: what the coordinator makes of it, whatever is late."""

import pytest
from core_doubles.parted import CRAWL, Parted, begin, reliable, running

from frontier_server.core.machines.lifecycle import Input
from frontier_server.core.spec.settings import CrawlSettings

SETTINGS = CrawlSettings(contact="https://example.org/")
PATIENT = CrawlSettings(contact="https://example.org/", resume_after_trouble=True)


def states(parted: Parted) -> list[str]:
    """The state of the crawl, and those of its parts."""
    return [each.state(CRAWL).value for each in (parted.head, *parted.shards)]


def lose(parted: Parted, kind: str) -> None:
    """The first shard finds that its store has lost something."""
    parted.shards[0].do(lambda core, now: core.upkeep.record_lost({CRAWL: "lost"}, now, kind))


@pytest.mark.parametrize("kind", ["salvaged", "log-ahead"])
@pytest.mark.parametrize("with_front", [True, False])
def test_a_crawl_is_paused_whose_part_has_lost_something_before_a_start(kind: str, with_front: bool) -> None:
    parted = running(SETTINGS)
    if with_front:
        parted.restart_head()
    parted.restart_shard(0)
    lose(parted, kind)
    parted.talk()
    assert states(parted) == ["PAUSED", "PAUSED", "PAUSED"]
    assert "shard 0: lost" in parted.head.crawl.state_row.reason
    parted.head.request(CRAWL, Input.RESUME)
    parted.talk()
    assert states(parted) == ["RUNNING", "RUNNING", "RUNNING"]


def test_a_resume_is_not_undone_by_a_part_that_has_not_heard_of_it() -> None:
    parted = running(SETTINGS)
    lose(parted, "log-ahead")
    parted.talk()
    late = parted.shards[0].core.orders.progress([CRAWL])
    parted.head.request(CRAWL, Input.RESUME)
    parted.head.do(lambda core, now: parted.head.coordinator.record(0, late, now))
    parted.talk()
    assert states(parted) == ["RUNNING", "RUNNING", "RUNNING"]


def test_a_resume_is_not_undone_by_a_part_whose_shard_was_away() -> None:
    parted = running(SETTINGS)
    lose(parted, "log-ahead")
    parted.talk()
    parted.restart_shard(0)
    parted.head.request(CRAWL, Input.RESUME)
    parted.talk()
    assert states(parted) == ["RUNNING", "RUNNING", "RUNNING"]


def test_a_crawl_stays_paused_while_the_coordinators_own_disk_is_full() -> None:
    parted = running(PATIENT)
    head = parted.head
    head.do(lambda core, now: core.upkeep.record_trouble(("disk-reserve", "full"), now))
    parted.talk()
    before = head.crawl.state_row.request
    for _ in range(5):
        parted.talk()
    assert (states(parted), head.crawl.state_row.request) == (["PAUSED"] * 3, before)
    head.do(lambda core, now: core.upkeep.record_trouble(None, now))
    parted.talk()
    assert states(parted) == ["RUNNING", "RUNNING", "RUNNING"]


def test_a_crawl_goes_on_after_the_last_of_two_troubles_that_overlap() -> None:
    parted = running(PATIENT)
    head, shard = parted.head, parted.shards[0]
    shard.do(lambda core, now: core.upkeep.record_trouble(("clock", "odd"), now))
    parted.talk()
    assert states(parted)[0] == "PAUSED"
    head.do(lambda core, now: core.upkeep.record_trouble(("disk-reserve", "full"), now))
    parted.talk()
    shard.do(lambda core, now: core.upkeep.record_trouble(None, now))
    parted.talk()
    assert states(parted)[0] == "PAUSED"
    head.do(lambda core, now: core.upkeep.record_trouble(None, now))
    parted.talk()
    assert states(parted) == ["RUNNING", "RUNNING", "RUNNING"]


def test_a_crawl_is_paused_after_its_launch_if_a_part_has_lost_something_meanwhile() -> None:
    parted = reliable(SETTINGS)
    begin(parted, "http://a.example/")
    for part in range(2):
        parted.meet(part)
        parted.order(part)
    while parted.messages:
        parted.deliver()
    assert states(parted)[0] == "PREPARING"
    lose(parted, "salvaged")
    parted.talk()
    parted.talk()
    assert states(parted) == ["PAUSED", "PAUSED", "PAUSED"]
    assert "shard 0: lost" in parted.head.crawl.state_row.reason
