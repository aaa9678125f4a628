"""Rows of Heritrix's behaviour that are no sequence an operator would read (those are in tests/scenarios)."""

from dataclasses import fields, replace

import pytest
from core_doubles.codec import candidate
from core_doubles.placing import PLACES
from core_doubles.shell import Shell

from frontier_server.core.jobs.steering import QueueChange
from frontier_server.core.machines.lifecycle import CrawlState, Input
from frontier_server.core.rows import keys
from frontier_server.core.rows.errors import StoreCorrupt
from frontier_server.core.rows.store import Family
from frontier_server.core.rules.disposition import Disposition
from frontier_server.core.spec.settings import CrawlSettings, PolitenessSettings, QueueSettings, RetrySettings
from frontier_server.core.state import operation
from frontier_server.core.state.model import EmptyReason, QueueView, Report, Verdict
from frontier_server.core.state.queue import QueueState
from frontier_server.core.uri.canonical import canonical

POLITENESS = PolitenessSettings(delay_factor=0, min_delay_ms=1_000, max_delay_ms=1_000)
SETTINGS = CrawlSettings(allowed_addresses=("loopback",), politeness=POLITENESS)
Q = QueueState


def launched(*seeds: str, settings: CrawlSettings = SETTINGS) -> Shell:
    """A crawl that runs."""
    shell = Shell()
    shell.create("crawl", settings)
    shell.launch("crawl", *seeds)
    return shell


def rested(*seeds: str, settings: CrawlSettings = SETTINGS) -> Shell:
    """The same, every robots.txt fetched, no host at rest."""
    shell = launched(*seeds, settings=settings)
    shell.finish(*(Report(grant.token, fetch_status=404) for grant in shell.grants()))
    shell.now_ms += 1_000
    shell.tick()
    return shell


def queues(shell: Shell) -> dict[str, QueueView]:
    """All queues by key."""
    views, _ = shell.core.administration.queues("crawl", None, 100, b"")
    return {view.key: view for view in views}


def change(shell: Shell, key: str, wanted: QueueChange) -> None:
    """Change a queue."""
    shell.do(lambda core, now: core.administration.change_queue("crawl", key, wanted, now))


def test_heritrix_s_dispositions_are_ours_and_others_concern_leases() -> None:
    """S1.22: four; DEFERRED_FOR_RETRY is called DEFERRED."""
    heritrix = {"SUCCEEDED", "FAILED", "DISREGARDED", "DEFERRED"}
    of_leases = {"RELEASED", "STALE", "UNKNOWN_TOKEN", "INVALID_REPORT"}
    assert {disposition.value for disposition in Disposition} == heritrix | of_leases


def test_opening_a_store_brings_every_queue_back_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """S2.1: nothing is begun anew: no seed is announced again, each queue is where it was, in any state."""
    monkeypatch.setattr(operation, "MAX_SNOOZED_IN_MEMORY", 1)
    hosts = ["busy", "snoozed", "far", "retired", "paused", "exhausted", "inactive"]
    settings = replace(SETTINGS, run_while_empty=True)
    shell = launched(*(f"http://{host}/" for host in hosts[:-1]), settings=settings)
    grants = {grant.uri.split("/")[2]: grant for grant in shell.grants()}
    for host in ("exhausted", "retired", "paused", "busy"):
        shell.finish(Report(grants[host].token, fetch_status=404))
    shell.now_ms += 1_000
    grants |= {grant.uri.split("/")[2]: grant for grant in shell.grants()}
    shell.finish(Report(grants["exhausted"].token, fetch_status=200))
    shell.now_ms += 1_000
    shell.grants()
    for host in ("retired", "paused", "snoozed", "far"):
        shell.finish(Report(grants[host].token, fetch_status=404 if host in ("snoozed", "far") else -2))
    change(shell, "retired,", QueueChange(retired=True))
    change(shell, "paused,", QueueChange(paused=True))
    shell.do(lambda core, now: core.control.add_seeds("crawl", ["http://inactive/"], now))
    shell.work()
    before = queues(shell)
    assert {key: view.state for key, view in before.items()} == {
        "busy,": Q.BUSY,
        "snoozed,": Q.SNOOZED,
        "far,": Q.SNOOZED,
        "retired,": Q.RETIRED,
        "paused,": Q.INELIGIBLE,
        "exhausted,": Q.EXHAUSTED,
        "inactive,": Q.INACTIVE,
    }
    announced = shell.core.views.crawl("crawl").announced_seeds
    shell.restart()
    assert queues(shell) == before
    assert shell.core.views.crawl("crawl").announced_seeds == announced and not shell.core.upkeep.has_work


def test_beyond_a_number_queues_rest_on_disk_and_wake_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """S2.6: also over a restart, and in the order of their times."""
    monkeypatch.setattr(operation, "MAX_SNOOZED_IN_MEMORY", 1)
    settings = replace(SETTINGS, retry=RetrySettings(delay_ms=60_000))
    shell = rested("http://a/", "http://b/", "http://c/", settings=settings)
    retried_ms = {}
    for grant in shell.grants():
        shell.now_ms += 5_000
        shell.finish(Report(grant.token, fetch_status=-2))
        retried_ms[grant.uri] = shell.now_ms + 60_000
    memory = shell.core.shard.crawls[1].queues.active
    assert len(memory) == 1, "the others are on disk"
    shell.restart()
    given: dict[str, int] = {}
    while len(given) < 3:
        due_ms = shell.core.upkeep.next_due_ms()
        assert due_ms is not None
        shell.now_ms = max(shell.now_ms, due_ms)
        shell.tick()
        given |= {grant.uri: shell.now_ms for grant in shell.grants()}
    assert given == retried_ms


def paused_while_out(other: int) -> Shell:
    """Queue a, was paused while its URI was out, and rests since that failed; queue b, has a precedence."""
    shell = rested("http://a/", settings=replace(SETTINGS, retry=RetrySettings(delay_ms=60_000)))
    (out,) = shell.grants()
    change(shell, "a,", QueueChange(paused=True))
    shell.finish(Report(out.token, fetch_status=-2))
    shell.do(lambda core, now: core.control.add_seeds("crawl", ["http://b/"], now))
    shell.work()
    change(shell, "b,", QueueChange(precedence=other))
    assert {key: view.state for key, view in queues(shell).items()} == {"a,": Q.SNOOZED, "b,": Q.INACTIVE}
    return shell


@pytest.mark.parametrize("other", [1, 200])
def test_a_queue_that_was_paused_while_its_uri_was_out_is_ineligible_when_its_rest_ends(other: int) -> None:
    shell = paused_while_out(other)
    shell.now_ms += 60_000
    shell.tick()
    assert queues(shell)["a,"].state is Q.INELIGIBLE
    change(shell, "a,", QueueChange(paused=False))
    assert queues(shell)["a,"].state is Q.INACTIVE


def test_a_queue_that_was_paused_while_its_uri_was_out_is_ineligible_when_its_crawl_ends() -> None:
    shell = paused_while_out(1)
    shell.request("crawl", Input.STOP)
    shell.work()
    assert shell.state("crawl") is CrawlState.FINISHED
    assert {key: view.state for key, view in queues(shell).items()} == {"a,": Q.INELIGIBLE, "b,": Q.INACTIVE}


def test_queues_wake_in_the_order_of_their_times_and_first_come_first_served() -> None:
    """S2.10: by wake time; of equals the one that rests longest (in Heritrix the first by key)."""
    shell = rested("http://a/", "http://a/2", "http://b/", "http://b/2", "http://c/", "http://c/2")
    first, second, third = shell.grants()
    shell.finish(Report(third.token, fetch_status=200), Report(first.token, fetch_status=200))
    shell.now_ms += 1
    shell.finish(Report(second.token, fetch_status=200))
    shell.now_ms += 1_000
    assert [grant.uri for grant in shell.grants()] == ["http://c/2", "http://a/2", "http://b/2"]


def test_a_queue_that_is_filled_many_times_at_once_is_one_queue() -> None:
    """S2.11: one object for each key, in memory or not."""
    shell = launched("http://a/")
    assert queues(shell)["a,"].state is Q.INACTIVE
    shell.schedule("crawl", *(f"http://a/{number}" for number in range(5)))
    for _ in range(2):
        assert queues(shell)["a,"].queued == queues(shell)["a,"].enqueued == 6
        shell.restart()


def test_queues_are_activated_one_by_one_while_leases_are_wanted() -> None:
    """S3.7, S3.8: nobody fills a list of ready queues ahead, so there is no filler and no size of it."""
    shell = launched(*(f"http://{host}/" for host in "abcde"))
    counts = []
    for wanted in (1, 2, 2):
        assert len(shell.grants(most=wanted)) == wanted
        counts.append([view.state for view in queues(shell).values()].count(Q.INACTIVE))
    assert counts == [4, 2, 0]


def test_asking_never_waits_and_says_until_when_nothing_is_due() -> None:
    """S3.9: the core answers at once; a caller waits as long as it asked to, or until something is due."""
    shell = rested("http://a/", "http://a/2")
    (grant,) = shell.grants()
    shell.finish(Report(grant.token, fetch_status=200))
    answer = shell.next()
    assert (answer.grants, answer.empty_reason) == ([], EmptyReason.NOTHING_DUE)
    assert shell.core.views.statistics("crawl", shell.now_ms).next_due_ms == shell.now_ms + 1_000


def test_a_queue_that_waits_and_is_not_stored_is_a_defect_and_told_as_one() -> None:
    """S3.10: not passed over."""
    shell = launched("http://a/")
    uri = canonical("http://a/")
    row = keys.queue_row_key(1, PLACES.of_uri(uri, uri, CrawlSettings(), {}).queue)
    shell.store.write({(Family.QUEUES, row): None})
    shell.restart()
    with pytest.raises(StoreCorrupt, match=r"crawl crawl: inactive queue .* has no row"):
        shell.grants()


def test_what_is_taken_in_can_be_leased_at_once() -> None:
    """S3.15: the seen-set has no batch that somebody would have to flush."""
    shell = launched("http://a/")
    assert shell.schedule("crawl", "http://a/x", "http://a/x") == [Verdict.QUEUED, Verdict.ALREADY_SEEN]
    shell.restart()
    assert shell.schedule("crawl", "http://a/x") == [Verdict.ALREADY_SEEN]
    assert queues(shell)["a,"].queued == 2


def test_the_numbers_of_queues_are_heritrix_s() -> None:
    """S3.16: but there is no target of ready queues, and a long snooze deactivates nothing."""
    expected = {
        "session_budget": 3000,
        "total_budget": -1,
        "error_penalty": 100,
        "base_precedence": 3,
        "precedence_floor": 255,
    }
    assert {name: getattr(QueueSettings(), name) for name in expected} == expected
    assert (RetrySettings().max_attempts, RetrySettings().delay_ms) == (30, 900_000)
    assert operation.MAX_SNOOZED_IN_MEMORY == 10_000
    names = {field.name for field in fields(QueueSettings)}
    assert not [name for name in names if "ready" in name or "snooze" in name]


def test_a_queue_that_is_lined_up_twice_has_one_turn() -> None:
    """T5: what a retired queue left in line is passed over; its URIs are given out once each."""
    politeness = PolitenessSettings(delay_factor=0, min_delay_ms=0, max_delay_ms=0, max_parallel=2)
    seeds = ("http://a/", "https://a/", "http://a:81/", "http://a:81/2")
    shell = launched(*seeds, settings=replace(SETTINGS, politeness=politeness))
    out = shell.grants()
    # The third queue waits for the host; retired and unretired, it waits for it a second time.
    change(shell, "a,#81", QueueChange(retired=True))
    change(shell, "a,#81", QueueChange(retired=False))
    assert len(out) == 2 and shell.grants() == []
    shell.finish(*(Report(grant.token, fetch_status=404) for grant in out))
    given = []
    while grants := shell.grants():
        assert len({grant.queue_key for grant in grants}) == len(grants) <= 2
        given += [grant.uri for grant in grants]
        shell.finish(*(Report(grant.token, fetch_status=404) for grant in grants))
    assert sorted(given) == sorted([*seeds, "http://a:81/robots.txt"])
    assert shell.state("crawl") is CrawlState.FINISHED and shell.count("crawl", "queued_count") == 0


def test_the_rest_after_a_fetch_follows_from_that_very_fetch() -> None:
    """D15: in Heritrix the limit of bandwidth acts one fetch late."""
    politeness = PolitenessSettings(delay_factor=5, min_delay_ms=1_000, max_delay_ms=60_000)
    shell = rested("http://a/", "http://a/2", settings=replace(SETTINGS, politeness=politeness))
    (grant,) = shell.grants()
    shell.finish(Report(grant.token, fetch_status=200, duration_ms=4_000))
    assert queues(shell)["a,"].wake_ms == shell.now_ms + 20_000


def test_a_cost_is_kept_from_when_the_uri_was_queued() -> None:
    """S1.5: a policy that changed meanwhile changes nothing of it."""
    shell = rested("http://a/")
    shell.schedule("crawl", candidate("http://a/dear", cost=7))
    for _ in range(2):
        shell.finish(Report(shell.grants()[0].token, fetch_status=200))
        shell.now_ms += 1_000
    assert queues(shell)["a,"].expenditure == 1 + 7
