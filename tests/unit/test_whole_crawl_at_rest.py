"""A crawl in parts was found at rest: for how long that is true."""

import functools
from collections.abc import Callable
from random import Random

import pytest
from core_doubles.codec import candidate
from core_doubles.parted import CRAWL, Head, Parted, begin, reliable, spec_of
from msgspec.structs import replace

from frontier_server.core.core import Core
from frontier_server.core.machines.lifecycle import CrawlState, Input
from frontier_server.core.rows.records import ImportRow
from frontier_server.core.rows.store import Changes
from frontier_server.core.spec.settings import CrawlSettings
from frontier_server.core.state.model import Verdict
from frontier_server.core.state.order import Progress


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


def feed_seeds(parted: Parted, new: str) -> None:
    parted.head.do(lambda core, now: core.control.add_seeds(CRAWL, [new], now))
    for _ in range(5):
        parted.announce()
        deliver_all(parted)


def feed_parked_links(parted: Parted, new: str) -> None:
    part, link = parted.part_of(new), candidate(new, path="L")
    parted.head.do(lambda core, now: parted.head.parking.park(CRAWL, part, [link], now))
    parted.offer_parked(part)
    deliver_all(parted)


def deliver_all(parted: Parted) -> None:
    while parted.messages:
        parted.deliver()


@pytest.mark.parametrize("feed", [feed_seeds, feed_parked_links])
def test_a_crawl_that_is_fed_after_the_last_answers_does_not_end(
    feed: Callable[[Parted, str], None],
) -> None:
    settings = CrawlSettings(contact="https://example.org/", run_while_empty=False)
    parted = Parted(3, Random(3), lambda uri: [], settings)
    parted.lossy = False
    begin(parted, "http://a.example/1")
    while parted.head.coordinator.may_have_ended(CRAWL) is None:
        for part in range(3):
            parted.meet(part)
            parted.tell(part)
            parted.order(part)
            parted.lease(part)
        parted.announce()
        parted.fetch()
        parted.wait(5_000)
        deliver_all(parted)
    parted.look_for_the_end()
    rounds = parted.rounds
    assert rounds is not None
    while len(rounds.answers) == 1:
        parted.deliver()
    asked, parted.messages = parted.messages, []
    for ask in asked:
        ask()
    answers, parted.messages = parted.messages, []
    feed(parted, "http://a.example/2")
    for answer in answers:
        answer()
    assert parted.settle() is CrawlState.FINISHED
    assert parted.fetched == ["http://a.example/1", "http://a.example/2"]


def test_a_crawl_does_not_end_with_a_uri_that_its_part_has_not_told_of() -> None:
    """The spec had let it wait for more, so its rest mattered to nobody."""
    settings = CrawlSettings(contact="https://example.org/", run_while_empty=True)
    parted = reliable(settings)
    begin(parted, "http://a.example/1")
    parted.fetch_all()
    head, new = parted.head, "http://a.example/2"
    assert head.crawl.rests
    assert parted.shards[parted.part_of(new)].schedule(CRAWL, new) == [Verdict.QUEUED]
    spec = spec_of(CrawlSettings(contact="https://example.org/", run_while_empty=False))
    head.do(lambda core, now: core.control.update_crawl(CRAWL, lambda before: (spec, ()), now))
    assert head.state(CRAWL) is not CrawlState.FINISHED
    assert parted.settle() is CrawlState.FINISHED
    assert parted.fetched == ["http://a.example/1", new]


def test_a_crawl_does_not_end_when_an_import_that_began_before_its_rest_is_done() -> None:
    """Its rows are taken in, and the part has not told of them yet."""
    settings = CrawlSettings(contact="https://example.org/", run_while_empty=False)
    parted = reliable(settings)
    begin(parted, "http://a.example/1")
    head, new = parted.head, "http://a.example/2"
    number = head.do(lambda core, now: core.administration.begin_import(CRAWL, False, now))
    parted.fetch_all()
    part = parted.part_of(new)
    shard = parted.shards[part]
    head.do(lambda core, now: head.jobs.count_received(CRAWL, number, 1, now))
    job = shard.do(lambda core, now: core.administration.begin_import(CRAWL, False, now))
    rows = [ImportRow(candidate(new).record)]
    shard.do(lambda core, now: core.administration.add_imports(CRAWL, job, rows, now))
    shard.do(lambda core, now: core.administration.end_import(CRAWL, job, now))
    head.do(lambda core, now: head.jobs.begin_import(CRAWL, number, {part: (job, 1)}, now))
    shard.work()
    (errand,) = head.jobs.errands()
    told = [replace(each, ended="DONE", done=1, changed=1) for each in errand.parts]
    head.do(lambda core, now: head.jobs.record(errand, told, [], now))
    assert head.state(CRAWL) is not CrawlState.FINISHED
    assert parted.settle() is CrawlState.FINISHED
    assert parted.fetched == ["http://a.example/1", new]


def record(parted: Parted, part: int, progress: Progress, core: Core, now_ms: int) -> tuple[None, Changes]:
    return parted.head.coordinator.record(part, [progress], now_ms)


def test_a_crawl_ends_although_all_its_parts_were_heard_since_their_last_answers() -> None:
    parted = reliable(CrawlSettings(contact="https://example.org/"))
    begin(parted, "http://a.example/1")
    while (feed := parted.head.coordinator.may_have_ended(CRAWL)) is None:
        parted.talk()
        parted.lease(parted.part_of("http://a.example/1"))
        parted.fetch()
        parted.wait(5_000)
    rounds = [shard.core.orders.progress([CRAWL])[0] for shard in parted.shards]
    for part, told in enumerate(rounds):
        later = functools.partial(record, parted, part, replace(told, moment=told.moment + 1))
        parted.head.do(later)
    assert parted.head.do(
        lambda core, now: parted.head.coordinator.conclude(CRAWL, feed, rounds, rounds, now)
    )
    assert parted.head.state(CRAWL) is not CrawlState.RUNNING
