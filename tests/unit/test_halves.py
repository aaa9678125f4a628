"""Whose a row is when a store is divided, and what each half counts."""

from collections.abc import Callable

import pytest
from core_doubles.shell import Shell
from msgspec import msgpack

from frontier_server.coordinator.doubling import doubled_row
from frontier_server.coordinator.jobs import JobPart
from frontier_server.core.rows import keys
from frontier_server.core.rows.keys import CrawlRow, FetchStatisticsOf, IndexSet
from frontier_server.core.rows.records import CountersRow, JobRow, StateRow, decode, encode
from frontier_server.core.rows.store import Family
from frontier_server.core.salvage.halves import (
    BOTH,
    COORDINATOR,
    FIRST,
    SECOND,
    Halves,
    Out,
    Recount,
    halved_counters,
    halved_states,
    led_counters,
    led_row,
    partition_of,
)
from frontier_server.core.spec.settings import CrawlSettings
from frontier_server.core.state.life import new_state_row

LOW, HIGH = b"\x10" + bytes(7), b"\xf0" + bytes(7)
CRAWL, DUE_MS = 7, 1_700_000_000_000
HASH = b"\xaa" * 8
PARTED_ROWS: dict[str, tuple[Family, Callable[[bytes], bytes]]] = {
    "queue": (Family.QUEUES, lambda at: keys.queue_row_key(CRAWL, at + HASH)),
    "pending URI": (Family.PENDING, lambda at: keys.pending_key(CRAWL, at + HASH, HASH)),
    "seen URI": (Family.SEEN, lambda at: keys.seen_key(CRAWL, at, HASH)),
    "kept URI": (Family.KEPT_URIS, lambda at: keys.seen_key(CRAWL, at, HASH)),
    "lease": (Family.LEASES, lambda at: keys.lease_key(CRAWL, at, 5)),
    "active queue": (Family.INDEX, lambda at: keys.member_key(CRAWL, IndexSet.ACTIVE, at + HASH)),
    "retired queue": (Family.INDEX, lambda at: keys.member_key(CRAWL, IndexSet.RETIRED, at + HASH)),
    "ineligible queue": (Family.INDEX, lambda at: keys.member_key(CRAWL, IndexSet.INELIGIBLE, at + HASH)),
    "inactive queue": (Family.INDEX, lambda at: keys.inactive_key(CRAWL, 3, 9, at + HASH)),
    "queue that stands back": (Family.INDEX, lambda at: keys.inactive_key(CRAWL, 259, 9, at + HASH)),
    "sleeping queue": (Family.INDEX, lambda at: keys.timed_key(CRAWL, IndexSet.FAR, DUE_MS, at + HASH)),
    "future URI": (Family.INDEX, lambda at: keys.timed_key(CRAWL, IndexSet.FUTURE, DUE_MS, at + HASH)),
    "name of a queue": (Family.INDEX, lambda at: keys.name_prefix(CRAWL, HASH) + at),
    "lane": (Family.INDEX, lambda at: keys.lane_prefix(CRAWL, at + HASH, HASH) + HASH),
    "head of a lane": (Family.INDEX, lambda at: keys.lane_head_prefix(CRAWL, at + HASH) + HASH + HASH),
}
SHARED_ROWS = {
    "host": (Family.HOSTS, keys.host_key(HIGH, "a.example")),
    "own host": (Family.OWN_HOSTS, keys.own_host_key(CRAWL, HIGH, "a.example")),
    "robots.txt": (Family.ROBOTS, keys.robots_key(HIGH, "http", "a.example", "agent")),
    "host in scope": (Family.INDEX, keys.scope_key(CRAWL, HIGH, HASH)),
    "redirect of a seed": (Family.INDEX, keys.led_key(CRAWL, HASH)),
    "seed that was led": (Family.INDEX, keys.landed_prefix(CRAWL, HASH) + HASH),
}
ROWS_OF_THE_PAST = {
    "outcome": (Family.OUTCOMES, keys.serial_key(CRAWL, 1)),
    "figures of a source": (
        Family.FETCH_STATISTICS,
        keys.statistics_key(CRAWL, FetchStatisticsOf.SOURCE, HIGH, "http://a.example/"),
    ),
    "refused URI": (Family.INDEX, keys.refusal_key(CRAWL, "scope", 1)),
}
ROWS_OF_A_WHOLE = {
    "seed": (Family.SEEDS, keys.serial_key(CRAWL, 1)),
    "event": (Family.EVENTS, keys.serial_key(CRAWL, 1)),
    "job": (Family.JOBS, keys.serial_key(CRAWL, 1)),
}
OVERRIDE = Family.OVERRIDES, keys.override_key(CRAWL, "http://(example,")


def halves(undivided: bool = False) -> Halves:
    return Halves(lambda partition: partition >= b"\x80", lambda _: True, {}, undivided)


@pytest.mark.parametrize("kind", PARTED_ROWS)
def test_a_row_of_a_uri_goes_to_the_half_that_has_its_partition(kind: str) -> None:
    family, key_at = PARTED_ROWS[kind]
    assert [partition_of(family, key_at(at)) for at in (LOW, HIGH)] == [LOW, HIGH]
    for undivided in (False, True):
        assert [halves(undivided).of(family, key_at(at)) for at in (LOW, HIGH)] == [(FIRST,), (SECOND,)]


@pytest.mark.parametrize("kind", SHARED_ROWS)
def test_a_row_that_any_page_may_need_goes_to_both_halves(kind: str) -> None:
    assert halves().of(*SHARED_ROWS[kind]) == halves(undivided=True).of(*SHARED_ROWS[kind]) == BOTH


@pytest.mark.parametrize("kind", ROWS_OF_THE_PAST)
def test_a_row_that_counts_the_past_goes_to_the_first_half(kind: str) -> None:
    assert (
        halves().of(*ROWS_OF_THE_PAST[kind]) == halves(undivided=True).of(*ROWS_OF_THE_PAST[kind]) == (FIRST,)
    )


@pytest.mark.parametrize("kind", ROWS_OF_A_WHOLE)
def test_a_row_of_a_crawl_that_was_undivided_goes_to_its_coordinator(kind: str) -> None:
    assert halves(undivided=True).of(*ROWS_OF_A_WHOLE[kind]) == (COORDINATOR,)
    assert halves().of(*ROWS_OF_A_WHOLE[kind]) == (FIRST,)


def test_figures_of_a_host_whose_pages_are_in_another_shard_stay_with_the_first_half() -> None:
    """A rewrite has brought a part of its pages here."""
    shell = Shell()
    shell.create("crawl", CrawlSettings(contact="https://example.org/"))
    crawls = {1: shell.core.shard.registry.named("crawl")}
    key = keys.statistics_key(1, FetchStatisticsOf.HOST, HIGH, "a.example")
    here = Halves(lambda _: True, lambda _: True, crawls, undivided=False)
    elsewhere = Halves(lambda _: True, lambda _: False, crawls, undivided=False)
    found = [halves.of(Family.FETCH_STATISTICS, key) for halves in (here, elsewhere)]
    assert found == [(SECOND,), (FIRST,)]


def test_overrides_go_to_both_halves_and_to_a_new_coordinator() -> None:
    assert halves().of(*OVERRIDE) == BOTH
    assert halves(undivided=True).of(*OVERRIDE) == (*BOTH, COORDINATOR)


def test_every_family_has_its_rule() -> None:
    ruled = {
        family for family, _ in (*PARTED_ROWS.values(), *SHARED_ROWS.values(), *ROWS_OF_THE_PAST.values())
    }
    ruled |= {family for family, _ in ROWS_OF_A_WHOLE.values()} | {OVERRIDE[0]}
    # Crawls' own rows are made anew, and entries of imports are gone when their job has ended.
    assert ruled == set(Family) - {Family.CRAWLS, Family.IMPORTS}


def test_every_set_of_the_index_has_its_rule() -> None:
    rows = (*((family, key_at(LOW)) for family, key_at in PARTED_ROWS.values()), *SHARED_ROWS.values())
    ruled = {key[4] for family, key in (*rows, *ROWS_OF_THE_PAST.values()) if family is Family.INDEX}
    assert ruled == set(IndexSet)


# Counts.


def test_sums_of_the_past_stay_with_the_first_half() -> None:
    whole = CountersRow(
        next_event=9, next_outcome=20, logged_outcome=19, log_bytes=900, succeeded=12, bytes=77,
        next_lease=40, discovered=30, told={"discovered": 25, "succeeded": 10},
    )  # fmt: skip
    first, second = halved_counters(whole, (Recount(discovered=18), Recount(discovered=12)), 0)
    assert (first.succeeded, first.bytes, second.succeeded, second.bytes) == (12, 77, 0, 0)
    assert (first.discovered, second.discovered) == (18, 12)
    assert (first.next_lease, second.next_lease) == (40, 40)
    assert (first.next_event, first.next_outcome, first.log_bytes) == (9, 20, 900)
    assert (second.next_event, second.next_outcome, second.logged_outcome, second.log_bytes) == (1, 1, 0, 0)
    assert first.told["discovered"] + second.told["discovered"] == 25


def test_room_kept_for_known_pages_goes_to_the_half_where_they_wait() -> None:
    whole = CountersRow(to_revisit=10, revisited=3, kept_room=7)
    first, second = halved_counters(whole, (Recount(), Recount()), 4)
    assert (first.to_revisit, first.revisited, first.kept_room) == (6, 3, 3)
    assert (second.to_revisit, second.revisited, second.kept_room) == (4, 0, 4)


def test_the_second_half_is_lent_as_much_as_it_has_out() -> None:
    whole = new_state_row(1)
    whole.documents_lent, whole.toes_lent, whole.order = 10, 6, 3
    first, second = halved_states(whole, Out(leases=3, pages=2))
    assert (first.documents_lent, second.documents_lent) == (8, 2)
    assert (first.toes_lent, second.toes_lent) == (3, 3)
    assert (first.order, second.order) == (3, 3)


def test_each_log_of_an_undivided_crawl_goes_on_in_one_place() -> None:
    whole = CountersRow(
        next_event=9, job_log_event=8, job_log_bytes=80, next_outcome=20, logged_outcome=19, log_bytes=900,
        next_seed=4, announced_seeds=3, active_queues=5, inactive={1: 2},
    )  # fmt: skip
    parts, coordinator = led_counters(whole)
    assert (parts.next_outcome, parts.log_bytes, coordinator.next_outcome, coordinator.log_bytes) == (
        20,
        900,
        1,
        0,
    )
    assert (parts.next_event, parts.job_log_bytes, coordinator.next_event, coordinator.job_log_bytes) == (
        1,
        0,
        9,
        80,
    )
    assert (parts.announced_seeds, coordinator.announced_seeds, coordinator.next_seed) == (0, 3, 4)
    assert (coordinator.active_queues, coordinator.inactive) == (0, {})


def test_a_count_that_differs_is_named_with_both_numbers() -> None:
    assert Recount(queued=4).differences(CountersRow(queued=5)) == ["queued must be 4, got 5"]


def test_recounts_of_two_halves_add_up() -> None:
    assert Recount(inactive={1: 2}).plus(Recount(inactive={1: 1, 3: 1})).inactive == {1: 3, 3: 1}


# The coordinator.


def test_a_job_that_ended_undivided_has_no_parts_in_the_coordinator() -> None:
    row = JobRow("import", 1, cursor=b"2 rows", state="DONE", done=5)
    assert decode(JobRow, led_row(Family.JOBS, encode(row))) == JobRow("import", 1, state="DONE", done=5)
    assert led_row(Family.EVENTS, b"x") == b"x"


def test_a_coordinator_goes_on_with_the_events_of_the_first_halves() -> None:
    row = new_state_row(1)
    row.heard = {0: 12, 1: 30}
    key = keys.crawl_key(CRAWL, CrawlRow.STATE)
    assert decode(StateRow, doubled_row(Family.CRAWLS, key, encode(row))[1]).heard == {0: 12, 2: 30}


def test_a_job_that_has_ended_counts_as_ended_in_both_halves() -> None:
    parts = [JobPart(3, ended="DONE", done=5), JobPart(4, ended="CANCELLED")]
    row = JobRow("verify", 1, cursor=msgpack.encode(parts))
    doubled = decode(JobRow, doubled_row(Family.JOBS, keys.serial_key(CRAWL, 1), encode(row))[1])
    found = msgpack.decode(doubled.cursor, type=list[JobPart])
    assert [(part.number, part.ended, part.done) for part in found] == [
        (3, "DONE", 5),
        (0, "DONE", 0),
        (4, "CANCELLED", 0),
        (0, "CANCELLED", 0),
    ]


def test_other_rows_of_a_coordinator_stay_as_they_are() -> None:
    for row in (CrawlRow.SPEC, CrawlRow.COUNTERS):
        assert doubled_row(Family.CRAWLS, keys.crawl_key(CRAWL, row), b"x")[1] == b"x"
    assert doubled_row(Family.CRAWLS, keys.crawl_key(keys.SERVER, CrawlRow.SERVER), b"x")[1] == b"x"
