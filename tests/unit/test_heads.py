"""Where the first URI of a queue, and the first inactive queue, is looked for: past what was given out."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from core_doubles.codec import candidate
from core_doubles.memory_store import MemoryStore
from core_doubles.shell import Shell
from core_doubles.worn_store import WornStore
from hypothesis import given
from hypothesis import strategies as st

from frontier_server.core.rows.keys import level_position
from frontier_server.core.rows.records import QueueRow, decode, encode
from frontier_server.core.rows.store import Family
from frontier_server.core.rules.disposition import Disposition
from frontier_server.core.spec.settings import CrawlSettings, PolitenessSettings, QueueSettings
from frontier_server.core.state.job import JobKind
from frontier_server.core.state.model import Directive, Report
from frontier_server.core.state.read_ahead import READ_AHEAD, READ_AHEAD_BYTES, Ahead

QUICK = PolitenessSettings(delay_factor=0, min_delay_ms=0, max_delay_ms=0)
SETTINGS = CrawlSettings(allowed_addresses=("loopback",), politeness=QUICK)
HOST = "http://a.example"


def crawl(settings: CrawlSettings = SETTINGS, *seeds: str) -> tuple[Shell, WornStore]:
    """A crawl that runs, whose robots.txt files allow all."""
    store = WornStore()
    shell = Shell(store)
    shell.create("crawl", settings)
    shell.launch("crawl", *seeds or (f"{HOST}/seed",))
    return shell, store


def fetch(shell: Shell) -> list[str]:
    """Fetch what is given: robots.txt files are not there, pages are."""
    grants = shell.grants("crawl", 1)
    shell.finish(*(Report(grant.token, fetch_status=404 if grant.robots else 200) for grant in grants))
    return [grant.uri for grant in grants]


@pytest.mark.parametrize("urgent", [Directive.HIGH, Directive.MEDIUM])
def test_a_uri_that_comes_late_but_is_urgent_lets_nobody_walk_what_was_given_out(urgent: Directive) -> None:
    """S2.12, 2.3: each directive and precedence has a head of its own."""
    shell, store = crawl()
    store.goes_on = True
    shell.schedule("crawl", *(candidate(f"{HOST}/{number}") for number in range(300)))
    fetch(shell), fetch(shell)
    for number in range(150):
        shell.schedule("crawl", candidate(f"{HOST}/urgent/{number}", directive=urgent))
        store.walked.clear()
        assert fetch(shell) == [f"{HOST}/urgent/{number}"]
        assert fetch(shell) == [f"{HOST}/{number}"]
        assert store.walked[Family.PENDING] <= 4, number


@pytest.mark.parametrize("urgent", [{"directive": Directive.HIGH}, {"precedence": 0}])
def test_an_urgent_uri_beside_leases_costs_no_walk_over_popped_rows(urgent: Any) -> None:
    """S2.12: the queue has several leases out, and each time one of them ends, something urgent comes."""
    several = replace(SETTINGS, queues=QueueSettings(max_leases_per_queue=4))
    several = replace(several, politeness=replace(QUICK, max_parallel=4))
    shell, store = crawl(several)
    store.goes_on = True
    shell.schedule("crawl", *(candidate(f"{HOST}/{number}") for number in range(900)))
    fetch(shell), fetch(shell)
    out = shell.grants("crawl", 3)
    for number in range(250):
        shell.schedule("crawl", candidate(f"{HOST}/urgent/{number}", **urgent))
        store.walked.clear()
        out += shell.grants("crawl", 2)
        assert len(out) == 4 and out[-1].uri == f"{HOST}/urgent/{number}", number
        while len(out) > 3:
            shell.finish(Report(out.pop().token, fetch_status=200))
        shell.finish(Report(out.pop(0).token, fetch_status=200))
        out += shell.grants("crawl", 1)
        assert store.walked[Family.PENDING] <= 16, number


def test_after_a_restart_the_heads_are_where_they_were() -> None:
    shell, store = crawl()
    shell.schedule("crawl", *(candidate(f"{HOST}/{number}") for number in range(100)))
    for _ in range(60):
        fetch(shell)
    shell.schedule("crawl", candidate(f"{HOST}/urgent", directive=Directive.HIGH))
    shell.restart()
    store.walked.clear()
    assert fetch(shell) == [f"{HOST}/urgent"] and fetch(shell) == [f"{HOST}/58"]
    assert store.walked[Family.PENDING] <= 4


def test_inactive_queues_of_a_lower_precedence_let_nobody_walk_those_that_were_activated() -> None:
    """T3, S2.17: each precedence has a head of its own."""
    settings = CrawlSettings(
        allowed_addresses=("loopback",),
        politeness=QUICK,
        queues=QueueSettings(queue_precedence="highest-uri"),
    )
    shell, store = crawl(settings, *(f"http://h{number}.example/" for number in range(300)))
    for number in range(100):
        shell.schedule("crawl", candidate(f"http://h{200 + number}.example/urgent", precedence=1))
        store.walked.clear()
        fetch(shell)
        assert store.walked[Family.INDEX] <= 4, number


def test_a_row_of_an_older_store_gets_the_heads_that_follow_from_its_one() -> None:
    """It had one head for all levels, and counted its URIs by precedence."""
    shell, _ = crawl()
    shell.schedule("crawl", *(candidate(f"{HOST}/{number}") for number in range(3)))
    shell.schedule("crawl", candidate(f"{HOST}/urgent", directive=Directive.HIGH))
    ((key, value),) = shell.store.scan(Family.QUEUES, b"", b"")
    row = decode(QueueRow, value)
    older = QueueRow(row.key, row.host, row.state, row.precedence, row.count, row.enqueued)
    older.next_ordinal, older.uri_precedences = row.next_ordinal, row.uri_precedences
    older.inactive_serial = row.inactive_serial
    older.head = level_position(*_place_of_urgent(row))
    shell.store.write({(Family.QUEUES, key): encode(older)})
    shell.restart()
    got = [uri for _ in range(6) for uri in fetch(shell)]
    assert got == [f"{HOST}/{page}" for page in ("robots.txt", "urgent", "seed", "0", "1", "2")]


def _place_of_urgent(row: QueueRow) -> tuple[int, int]:
    level = min(row.heads)
    return level, row.heads[level]


# What is read ahead.

PLACES = tuple(level_position(directive << 8 | 1, ordinal) for directive in (1, 4) for ordinal in range(8))


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.sampled_from(PLACES), st.integers(1, 3_000)),
            st.tuples(st.just("take"), st.sampled_from(PLACES), st.just(0)),
            st.tuples(st.just("read"), st.just(b""), st.just(0)),
            st.tuples(st.just("forget"), st.just(b""), st.just(0)),
        ),
        max_size=60,
    )
)
def test_what_is_read_ahead_is_always_the_beginning_of_what_is_stored(
    steps: list[tuple[str, bytes, int]],
) -> None:
    """Whatever comes, changes in its place, or goes."""
    stored: dict[bytes, bytes] = {}
    ahead = Ahead()
    for what, position, size in steps:
        if what == "put":
            stored[position] = bytes(size)
            ahead.put(position, stored[position])
        elif what == "take":
            stored.pop(position, None)
            ahead.took(position)
        elif what == "read":
            ahead.read(sorted(stored.items()))
            assert bool(ahead.rows) == bool(stored)
        else:
            ahead.forget()
            assert ahead.first is None
        rows = ahead.rows
        assert list(rows) == sorted(stored.items())[: len(rows)]
        assert ahead.first == (rows[0] if rows else None)
        assert len(rows) <= READ_AHEAD
        assert sum(len(value) for _, value in rows[:-1]) < READ_AHEAD_BYTES


def test_a_queue_whose_first_uris_were_deleted_is_read_on_behind_them() -> None:
    """`delete-uris` takes URIs out of the middle of what was read."""
    shell, _ = crawl()
    shell.schedule("crawl", *(candidate(f"{HOST}/{number}") for number in range(12)))
    fetch(shell), fetch(shell), fetch(shell)
    patterns = {"queue_pattern": ".*", "uri_pattern": ".*/[3-9]"}
    shell.do(lambda f, now: f.administration.start_job("crawl", JobKind.DELETE_URIS, patterns, now))
    shell.work()
    assert [fetch(shell) for _ in range(5)] == [[f"{HOST}/{number}"] for number in (1, 2, 10, 11)] + [[]]


def test_a_uri_that_is_tried_again_is_given_out_as_it_is_stored_by_then() -> None:
    """S1.8: it keeps its place; its attempts count."""
    shell, _ = crawl()
    shell.schedule("crawl", *(candidate(f"{HOST}/{number}") for number in range(3)))
    fetch(shell), fetch(shell)
    (first,) = shell.grants("crawl", 1)
    shell.finish(Report(first.token, fetch_status=-2))
    shell.now_ms += SETTINGS.retry.delay_ms
    shell.tick()
    (again,) = shell.grants("crawl", 1)
    assert (again.uri, again.attempt) == (first.uri, 2)


def test_who_holds_a_lease_from_before_a_restart_is_answered_from_what_is_stored() -> None:
    shell, _ = crawl()
    fetch(shell)
    (grant,) = shell.grants("crawl", 1)
    shell.restart()
    (result,) = shell.finish(Report(grant.token, fetch_status=200))
    assert result.disposition is Disposition.SUCCEEDED


def test_a_large_candidate_is_not_kept_while_it_is_out() -> None:
    shell, _ = crawl()
    fetch(shell)
    shell.schedule("crawl", candidate(f"{HOST}/large", path="L", via=f"{HOST}/{'v' * 5_000}"))
    fetch(shell)
    (grant,) = shell.grants("crawl", 1)
    (lease,) = shell.core.shard.leases
    assert lease.head is None
    (result,) = shell.finish(Report(grant.token, fetch_status=200))
    assert result.disposition is Disposition.SUCCEEDED


class AskedStore(MemoryStore):
    """Counts how often a scan goes on behind a row: RocksDB then walks all deleted keys that follow."""

    went_on = 0

    def scan(self, family: Family, start: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Rows as ever."""
        for row in super().scan(family, start, prefix):
            yield row
            self.went_on += family is Family.PENDING


def test_nobody_looks_behind_a_uri_that_may_be_the_last_of_its_level_or_queue() -> None:
    """What was given out of the levels, and of the queues, that come next would be walked each time."""
    store = AskedStore()
    shell = Shell(store)
    shell.create("crawl", replace(SETTINGS, run_while_empty=True))
    shell.launch("crawl", f"{HOST}/seed")
    fetch(shell), fetch(shell)
    for number in range(20):
        shell.schedule("crawl", candidate(f"{HOST}/{number}"))
        assert fetch(shell) == [f"{HOST}/{number}"]
    assert store.went_on == 0, "each was the only one"
    shell.schedule("crawl", *(candidate(f"{HOST}/more/{number}") for number in range(READ_AHEAD)))
    shell.schedule("crawl", candidate(f"{HOST}/urgent", precedence=0))
    assert fetch(shell) == [f"{HOST}/urgent"]
    assert store.went_on == 0, "another level may be all that follows"
    assert [fetch(shell) for _ in range(READ_AHEAD)] == [[f"{HOST}/more/{n}"] for n in range(READ_AHEAD)]
    assert store.went_on == READ_AHEAD - 1, "as many as the queue has"


def test_an_urgent_uri_handed_back_is_leased_again_before_others() -> None:
    several = replace(SETTINGS, queues=QueueSettings(max_leases_per_queue=4))
    shell, _ = crawl(replace(several, politeness=replace(QUICK, max_parallel=4)))
    shell.schedule("crawl", *(candidate(f"{HOST}/{number}") for number in range(9)))
    fetch(shell), fetch(shell)
    shell.schedule("crawl", candidate(f"{HOST}/urgent", directive=Directive.HIGH))
    shell.restart()  # memory does not know where the levels end
    out = shell.grants("crawl", 4)
    assert [grant.uri for grant in out] == [f"{HOST}/urgent", *(f"{HOST}/{number}" for number in range(3))]
    shell.finish(Report(out[1].token, fetch_status=200))
    (another,) = shell.grants("crawl", 1)
    shell.finish(Report(out[0].token, released=True), Report(another.token, fetch_status=200))
    assert [grant.uri for grant in shell.grants("crawl", 2)] == [f"{HOST}/urgent", f"{HOST}/4"]
