"""A work queue's life, and what its transitions mean for leases."""

import pytest
from core_doubles.codec import candidate
from core_doubles.shell import Shell

from frontier_server.core.rows.records import QueueRow
from frontier_server.core.rules.disposition import Disposition
from frontier_server.core.spec.settings import CrawlSettings, PolitenessSettings, RetrySettings, ScopeSettings
from frontier_server.core.state.model import Report
from frontier_server.core.state.queue import ACTIVE, IllegalMove, QueueEvent, QueueState, WorkQueue, after

Q, E = QueueState, QueueEvent

HOST = "http://alpha.example"


def test_a_move_that_the_table_lacks_is_refused_by_name() -> None:
    """T1 to T15, D11: so a queue is never in two places."""
    with pytest.raises(IllegalMove, match=r"RETIRED.*LEASED"):
        after(Q.RETIRED, E.LEASED)


def test_active_queues_are_those_that_memory_holds() -> None:
    assert frozenset((Q.READY, Q.BUSY, Q.SNOOZED)) == ACTIVE


def test_a_queue_belongs_to_the_partition_that_its_id_begins_with() -> None:
    row = QueueRow("example,alpha,", "alpha.example", Q.EXHAUSTED.value, 3)
    queue = WorkQueue(7, b"partitio" + b"nrest...", row)
    assert queue.partition == b"partitio"
    assert queue.state is Q.EXHAUSTED and queue.leases_out == 0


def crawling(*seeds: str, min_delay_ms: int = 1_000) -> Shell:
    """A crawl that runs, robots.txt of all its seeds fetched and their hosts rested."""
    shell = Shell()
    politeness = PolitenessSettings(delay_factor=0, min_delay_ms=min_delay_ms, max_delay_ms=min_delay_ms)
    settings = CrawlSettings(
        allowed_addresses=("loopback",),
        politeness=politeness,
        retry=RetrySettings(max_attempts=3, delay_ms=60_000),
        scope=ScopeSettings(hosts=("alpha.example", "beta.example")),
    )
    shell.create("crawl", settings)
    shell.launch("crawl", *seeds)
    for grant in shell.grants():
        shell.finish(Report(grant.token, fetch_status=404))
    shell.now_ms += min_delay_ms
    return shell


def states(shell: Shell) -> dict[str, QueueState]:
    """Queues by key."""
    queues, _ = shell.core.administration.queues("crawl", None, 100, b"")
    return {queue.key: queue.state for queue in queues}


def test_a_new_queue_waits_inactive_until_a_node_asks() -> None:
    """T1: always inactive first, never straight to ready. S2.15: it is created on demand. T3, T6."""
    shell = Shell()
    shell.create("crawl", CrawlSettings(allowed_addresses=("loopback",)))
    assert states(shell) == {}
    shell.launch("crawl", f"{HOST}/")
    assert states(shell) == {"example,alpha,": Q.INACTIVE}
    shell.grants()
    assert states(shell) == {"example,alpha,": Q.BUSY}


def test_inactive_queues_are_activated_first_come_first_served() -> None:
    """T3, S2.17: the lowest precedence first, and within it the one that waits longest."""
    shell = Shell()
    shell.create("crawl", CrawlSettings(allowed_addresses=("loopback",)))
    hosts = ["delta", "alpha", "charlie", "bravo"]
    shell.launch("crawl", *(f"http://{host}.example/" for host in hosts))
    keys = [shell.grants(most=1)[0].queue_key for _ in hosts]
    assert keys == [f"example,{host}," for host in hosts]


def test_only_as_many_queues_are_activated_as_leases_are_wanted() -> None:
    """T3: on demand; the others stay on disk."""
    shell = Shell()
    shell.create("crawl", CrawlSettings(allowed_addresses=("loopback",)))
    shell.launch("crawl", *(f"http://{host}.example/" for host in "abcd"))
    shell.grants(most=1)
    assert sorted(states(shell).values(), key=str) == [Q.BUSY, Q.INACTIVE, Q.INACTIVE, Q.INACTIVE]


def test_an_emptied_queue_still_keeps_its_hosts_rest() -> None:
    """T10: also when the queue is empty now; T13 and T4 follow only when its time has come."""
    shell = crawling(f"{HOST}/", "http://beta.example/")
    page, *_ = shell.grants(most=1)
    shell.finish(Report(page.token, fetch_status=200))
    assert states(shell)[page.queue_key] is Q.SNOOZED
    shell.now_ms += 999
    shell.schedule("crawl", f"{HOST}/next")
    assert [grant.uri for grant in shell.grants()] == ["http://beta.example/"]
    shell.now_ms += 1
    assert [grant.uri for grant in shell.grants()] == [f"{HOST}/next"]


def test_a_queue_is_exhausted_at_its_turn_and_comes_back_when_it_is_filled() -> None:
    """T4, then T1."""
    shell = crawling(f"{HOST}/", "http://beta.example/")
    page, *_ = shell.grants(most=1)
    shell.finish(Report(page.token, fetch_status=200))
    shell.now_ms += 1_000
    shell.grants()
    assert states(shell)[page.queue_key] is Q.EXHAUSTED
    shell.schedule("crawl", f"{HOST}/more")
    assert states(shell)[page.queue_key] is Q.INACTIVE


def test_without_a_rest_a_queue_is_ready_again_at_once() -> None:
    """T11."""
    shell = crawling(f"{HOST}/", f"{HOST}/two", min_delay_ms=0)
    first, *_ = shell.grants()
    shell.finish(Report(first.token, fetch_status=200))
    assert states(shell) == {"example,alpha,": Q.READY}
    assert [grant.uri for grant in shell.grants()] == [f"{HOST}/two"]


def test_a_snoozed_queue_wakes_at_its_time_not_before() -> None:
    """T13; the timer is told of it (D24)."""
    shell = crawling(f"{HOST}/", f"{HOST}/two")
    first, *_ = shell.grants()
    shell.finish(Report(first.token, fetch_status=200))
    wake_ms = shell.now_ms + 1_000
    assert shell.core.upkeep.next_due_ms() == wake_ms
    shell.now_ms = wake_ms - 1
    shell.tick()
    assert states(shell) == {"example,alpha,": Q.SNOOZED} and not shell.core.frontier.leasable()
    shell.now_ms = wake_ms
    shell.tick()
    assert states(shell) == {"example,alpha,": Q.READY} and shell.core.frontier.leasable()


def test_a_retried_uri_keeps_its_place_and_stays_head_of_its_queue() -> None:
    """S1.6 to S1.9: no dequeue, no outcome; its queue rests. S1.20: for the retry delay."""
    shell = crawling(f"{HOST}/", f"{HOST}/two", f"{HOST}/three")
    first, *_ = shell.grants()
    outcomes = len(shell.outcomes("crawl"))
    (result,) = shell.finish(Report(first.token, fetch_status=-2))
    assert result.disposition is Disposition.DEFERRED
    assert shell.count("crawl", "queued_count") == 3 and len(shell.outcomes("crawl")) == outcomes
    shell.now_ms += 59_999
    assert shell.grants() == []
    shell.now_ms += 1
    (again,) = shell.grants()
    assert (again.uri, again.attempt) == (first.uri, 2)


def test_something_more_urgent_goes_before_a_retried_uri() -> None:
    """S1.8: except that something more urgent may now sort before it."""
    shell = crawling(f"{HOST}/", f"{HOST}/two")
    first, *_ = shell.grants()
    shell.schedule("crawl", candidate(f"{HOST}/urgent", directive=1))
    shell.finish(Report(first.token, fetch_status=-2))
    shell.now_ms += 60_000
    (urgent,) = shell.grants()
    assert urgent.uri == f"{HOST}/urgent"
    shell.finish(Report(urgent.token, fetch_status=200))
    shell.now_ms += 60_000
    assert [grant.uri for grant in shell.grants()] == [first.uri]


def test_the_target_of_a_redirect_goes_before_links_and_behind_what_is_more_urgent() -> None:
    """As in Heritrix: its ticket or cookie may not last until all links have had their turn."""
    shell = crawling(f"{HOST}/", min_delay_ms=0)
    (seed,) = shell.grants()
    for name, path, directive in (("link", "L", 4), ("target", "LR", 4), ("urgent", "L", 2), ("top", "R", 1)):
        via = seed.uri if path else ""
        shell.schedule("crawl", candidate(f"{HOST}/{name}", via=via, path=path, directive=directive))
    shell.finish(Report(seed.token, fetch_status=200))
    order = []
    for _ in range(4):
        shell.now_ms += 1
        (grant,) = shell.grants()
        order.append(grant.uri.rpartition("/")[2])
        shell.finish(Report(grant.token, fetch_status=200))
    assert order == ["top", "urgent", "target", "link"]


def test_the_order_within_a_queue_is_directive_then_precedence_then_age() -> None:
    """Heritrix 2.3."""
    shell = crawling(f"{HOST}/", min_delay_ms=0)
    offers = [(4, 1, "d"), (4, 0, "c"), (2, 127, "a"), (4, 1, "e"), (3, 5, "b"), (1, 9, "first")]
    for directive, precedence, name in offers:
        shell.schedule("crawl", candidate(f"{HOST}/{name}", directive=directive, precedence=precedence))
    order = []
    while grants := shell.grants():
        order.append(grants[0].uri.removeprefix(HOST))
        shell.finish(Report(grants[0].token, fetch_status=200))
    assert order == ["/first", "/a", "/", "/b", "/c", "/d", "/e"]


def test_only_one_lease_is_out_of_a_queue_and_of_a_host_whatever_is_asked() -> None:
    """S2.9 and Heritrix 2.1: one URI out per queue; ours: per host, http and https alike."""
    shell = crawling(f"{HOST}/", f"{HOST}/two", "https://alpha.example/", "http://alpha.example:8080/")
    assert len(shell.grants(most=100)) == 1
    assert shell.grants(most=100, node="another") == []


def test_queues_of_one_host_take_turns() -> None:
    """A host that never runs dry over http (a calendar) must not keep its https pages waiting for ever."""
    sites = (HOST, "https://alpha.example", f"{HOST}:8080")
    shell = crawling(*(f"{site}/{number}" for site in sites for number in range(20)))
    fetched: list[str] = []
    for _ in range(12):
        for grant in shell.grants():
            fetched.append(grant.queue_key)
            shell.finish(Report(grant.token, fetch_status=404))
        assert shell.grants() == []  # a node that waits asks again whenever something has happened
        shell.now_ms += 1_000
    turns = {key: fetched.count(key) for key in fetched}
    assert len(turns) == 3 and max(turns.values()) - min(turns.values()) <= 1, turns
