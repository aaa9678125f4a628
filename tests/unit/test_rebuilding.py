"""A store built anew from what can be read of another: nothing that is there is lost, and all agrees."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

import pytest
from core_doubles.codec import PlainCodec, candidate, override_of, settings_of, spec_of
from core_doubles.lives import fetch, quick
from core_doubles.memory_store import MemoryStore
from core_doubles.parted import CRAWL, Head, Parted, begin, running
from core_doubles.placing import SUFFIXES
from core_doubles.recount import Recount
from core_doubles.shell import SECRET, Shell
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from frontier_server.core.jobs.steering import QueueChange
from frontier_server.core.journey.kept import SeenFilter
from frontier_server.core.machines.lifecycle import CrawlState, Input
from frontier_server.core.operators.history import events_after
from frontier_server.core.rows import keys
from frontier_server.core.rows.errors import OtherFormat
from frontier_server.core.rows.keys import CrawlRow, IndexSet
from frontier_server.core.rows.records import (
    CountersRow,
    EventRow,
    FetchStatisticsRow,
    HostRow,
    JobRow,
    LeaseRow,
    OutcomeRow,
    QueueRow,
    Record,
    RobotsRow,
    SeenRow,
    ServerRow,
    SpecRow,
    StateRow,
    decode,
    encode,
)
from frontier_server.core.rows.store import Family, Store
from frontier_server.core.rules.disposition import Disposition
from frontier_server.core.salvage.rebuild import Rebuilding
from frontier_server.core.spec.settings import CrawlSettings, IdentitySettings, QueueSettings, ScopeSettings
from frontier_server.core.state.model import Report

S = CrawlState
HOSTS = ("a", "b", "c", "d")
Row = tuple[Family, bytes, bytes]


def lived() -> Shell:
    """Crawls at several points of their lives: URIs out, retired, of paused queues, in the future, done."""
    shell = Shell(incarnation=2**32 - 2)  # lease numbers take all 64 bits
    shell.create("one", quick())
    shell.launch("one", *(f"http://{host}.example/" for host in HOSTS))
    fetch(shell, *shell.grants())
    shell.schedule("one", *(f"http://{host}.example/{n}" for host in HOSTS for n in range(20)))
    later = candidate("http://a.example/later", not_before_ms=shell.now_ms + 10**9)
    shell.schedule("one", later)
    fetch(shell, *shell.grants(most=4))
    steer(shell, "example,c,", QueueChange(paused=True))
    steer(shell, "example,d,", QueueChange(retired=True))
    shell.schedule("one", "http://elsewhere.example/", "ftp://a.example/")  # refused
    shell.grants(most=2)  # out
    shell.create("two", quick())
    shell.launch("two", "http://e.example/")
    shell.request("two", Input.STOP)
    shell.create("three", quick())
    return shell


def steer(shell: Shell, key: str, change: QueueChange) -> None:
    shell.do(lambda core, now: core.administration.change_queue("one", key, change, now))


def rows_of(store: Store) -> list[Row]:
    return [(family, *row) for family in Family for row in store.scan(family, b"", b"")]


def uris_of(store: Store) -> list[Row]:
    return [row for row in rows_of(store) if row[0] is Family.SEEN]


def rebuilt(
    rows: list[Row], suffixes: bytes = SUFFIXES, now_ms: int = 1, leads: bool = False
) -> tuple[Shell, Rebuilding]:
    """A frontier over a store that was built from these rows."""
    source, target = MemoryStore(), MemoryStore()
    source.write({(family, key): value for family, key, value in rows})

    def scan(family: Family, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        return source.scan(family, prefix, prefix)

    rebuilding = Rebuilding(scan, target, PlainCodec(), settings_of, now_ms, suffixes, leads)
    for changes in rebuilding.changes(b"s" * 16):
        target.write(changes)
    return Shell(target), rebuilding


def agrees(shell: Shell) -> None:
    """All crawls agree with themselves, and a verification finds nothing."""
    for crawl in list(shell.core.shard.registry.crawls.values()):
        recount = Recount(shell, crawl)
        recount.uris()
        recount.future()
        recount.membership()
        recount.sums()
        recount.lists()
        assert not shell.core.nodes.leases_out


def test_parts_obey_a_coordinator_whose_own_row_was_lost() -> None:
    """It cannot know how many terms there were, and orders of earlier ones change nothing."""
    spec = CrawlSettings(run_while_empty=True, allowed_addresses=("loopback",))
    parted = Parted(2, Random(1), lambda uri: [], spec)
    parted.lossy = False
    begin(parted, "http://a.example/")
    for _ in range(4):
        parted.restart_head()
        for _ in range(200):
            parted.step()
    server = keys.crawl_key(keys.SERVER, CrawlRow.SERVER)
    rows = [row for row in rows_of(parted.head.store) if row[1] != server]
    found, rebuilding = rebuilt(rows, now_ms=parted.head.now_ms, leads=True)
    assert "the server's own row is lost" in rebuilding.lost[0]
    parted.head = Head(2, found.store, parted.head.now_ms)
    parted.restart_head()
    parted.request(Input.PAUSE)
    for _ in range(400):
        parted.step()
    assert parted.head.state(CRAWL) is CrawlState.PAUSED


@pytest.mark.parametrize("lost", [(CrawlRow.SPEC,), (CrawlRow.SPEC, CrawlRow.STATE, CrawlRow.COUNTERS)])
def test_shards_keep_their_parts_of_a_crawl_that_the_coordinator_has_lost(lost: tuple[CrawlRow, ...]) -> None:
    parted = running(CrawlSettings(contact="https://example.org/"))
    wanting = {keys.crawl_key(1, row) for row in lost} | {keys.crawl_key(keys.SERVER, CrawlRow.SERVER)}
    rows = [row for row in rows_of(parted.head.store) if row[1] not in wanting]
    found, _ = rebuilt(rows, now_ms=parted.head.now_ms, leads=True)
    head = Head(2, found.store, parted.head.now_ms)
    seen = [uris_of(shard.store) for shard in parted.shards]
    known, spared = head.coordinator.known_numbers(), head.coordinator.spared()
    for shard in parted.shards:
        shard.do(lambda core, now: core.orders.delete_others(known, now, spared))
        shard.work()
        assert shard.state(CRAWL) is CrawlState.PAUSED  # nobody leads it
        assert "the coordinator has lost" in shard.core.shard.registry.named(CRAWL).state_row.reason
    assert [uris_of(shard.store) for shard in parted.shards] == seen
    head.create("another", CrawlSettings(contact="https://example.org/"))
    assert head.core.shard.registry.named("another").number > 1


def test_a_coordinator_hears_of_a_salvage_although_the_shard_has_lost_its_events() -> None:
    parted = running(CrawlSettings(contact="https://example.org/"))
    rows = [row for row in rows_of(parted.shards[0].store) if row[0] is not Family.EVENTS]
    assert len(rows) < len(rows_of(parted.shards[0].store))
    found, _ = rebuilt(rows, now_ms=parted.shards[0].now_ms)
    parted.shards[0].store = found.store
    parted.restart_head()
    parted.restart_shard(0)
    parted.shards[0].do(lambda core, now: core.upkeep.record_lost({CRAWL: "lost"}, now, "salvaged"))
    parted.talk()
    assert parted.head.state(CRAWL) is CrawlState.PAUSED
    assert "shard 0: lost" in parted.head.crawl.state_row.reason


def put_on_hold(parted: Parted) -> None:
    parted.request(Input.HOLD)


def tear_down(parted: Parted) -> None:
    parted.request(Input.STOP)
    parted.talk()
    parted.head.do(lambda core, now: core.control.tear_down(CRAWL, now))


@pytest.mark.parametrize("come", [put_on_hold, tear_down])
def test_a_salvaged_part_of_a_crawl_that_stands_still_has_an_event_at_its_last_number(
    come: Callable[[Parted], None],
) -> None:
    """Readers look for it at each start, also where a salvage has told the crawl nothing."""
    parted = running(CrawlSettings(contact="https://example.org/"))
    come(parted)
    for _ in range(3):
        parted.talk()
        for shard in parted.shards:
            shard.work()
    source = parted.shards[0]
    crawl = source.core.shard.registry.named(CRAWL)
    assert crawl.held or crawl.state_row.torn_down
    found, _ = rebuilt(rows_of(source.store), now_ms=source.now_ms)
    found.do(lambda core, now: core.upkeep.record_lost({CRAWL: "lost"}, now, "salvaged"))
    crawl = found.core.shard.registry.named(CRAWL)
    last = crawl.counters.next_event - 1
    assert [number for number, _ in events_after(found.store, crawl, last - 1)] == [last]


def test_of_a_store_that_can_be_read_nothing_is_lost() -> None:
    before = lived()
    shell, rebuilding = rebuilt(rows_of(before.store))
    agrees(shell)
    assert [(found.name, found.lost) for found in rebuilding.crawls] == [
        ("one", []),
        ("two", []),
        ("three", []),
    ]
    for crawl in ("one", "two", "three"):
        told, was = (each.core.views.statistics(crawl, each.now_ms).counts for each in (shell, before))
        assert {**told, "leased_count": 0} == {**was, "leased_count": 0}
        assert shell.events(crawl) == before.events(crawl) and shell.outcomes(crawl) == before.outcomes(crawl)
        assert shell.state(crawl) is before.state(crawl)
    refused = [each.core.administration.refusals("one", "") for each in (shell, before)]
    assert refused[0] == refused[1] and len(refused[0]) == 2
    old, _ = before.core.administration.queues("one", None, 100, b"")
    new, _ = shell.core.administration.queues("one", None, 100, b"")
    same = ("key", "queued", "enqueued", "expenditure", "precedence")
    assert [[getattr(queue, name) for name in same] for queue in new] == [
        [getattr(queue, name) for name in same] for queue in old
    ]
    states = {queue.key: queue.state.value for queue in old}
    for queue in new:
        assert queue.state.value == (
            states[queue.key] if states[queue.key] in ("RETIRED", "INELIGIBLE") else "INACTIVE"
        )


@settings(max_examples=10)
@given(st.randoms(use_true_random=False), st.sampled_from([0.01, 0.1, 0.5]))
def test_whatever_rows_are_gone_what_is_left_agrees_and_comes_to_its_end(
    chance: random.Random, share: float
) -> None:
    rows = [row for row in STORED if chance.random() >= share]
    shell, rebuilding = rebuilt(rows)
    agrees(shell)
    names = {found.name for found in rebuilding.crawls}
    for crawl in list(shell.core.shard.registry.crawls.values()):
        assert crawl.name in names
        if crawl.state is S.PAUSED:
            shell.request(crawl.name, Input.RESUME)
    shell.work()
    for _ in range(40):
        shell.now_ms += 10**8
        shell.tick()
        fetch(shell, *shell.grants())
        shell.log()
    agrees(shell)
    for crawl in list(shell.core.shard.registry.crawls.values()):
        assert not crawl.leases_out
        if crawl.state is S.RUNNING:
            shell.request(crawl.name, Input.STOP)
        assert crawl.state in (S.FINISHED, S.NASCENT, S.PREPARING, S.EMPTY, S.PAUSED)


def garbled(row: Row, chance: random.Random) -> Row:
    """A row whose value is cut, changed in a byte, empty, noise, or that of another row; or its key is."""
    family, key, value = row
    place = chance.randrange(len(value)) if value else 0
    return chance.choice(
        [
            (family, key, value[:place]),
            (family, key, value[:place] + bytes([chance.randrange(256)]) + value[place + 1 :]),
            (family, key, b""),
            (family, key, chance.randbytes(30)),
            (family, key, chance.choice(STORED)[2]),
            (family, key[: chance.randrange(4, len(key) + 1)], value),
            (family, key + b"\xff", value),
        ]
    )


@settings(max_examples=15)
@given(st.integers(0, 2**32), st.sampled_from([0.01, 0.1, 0.5]))
def test_salvage_keeps_and_opens_all_rows_beside_any_undecodable_ones(seed: int, share: float) -> None:
    """What a row says may be wrong now, so counts may be; but no row keeps the others from being read."""
    chance = random.Random(seed)
    server = keys.crawl_key(keys.SERVER, CrawlRow.SERVER)  # one of a later version may not be salvaged
    rows = [row if row[1] == server or chance.random() >= share else garbled(row, chance) for row in STORED]
    shell, _ = rebuilt(rows)
    for crawl in list(shell.core.shard.registry.crawls.values()):
        shell.core.views.statistics(crawl.name, shell.now_ms)
        shell.core.administration.refusals(crawl.name, "")
        shell.events(crawl.name)


STORED = rows_of(lived().store)
NUMBERED: dict[CrawlRow | Family, type[Record]] = {
    CrawlRow.COUNTERS: CountersRow,
    CrawlRow.STATE: StateRow,
    Family.QUEUES: QueueRow,
    Family.SEEN: SeenRow,
    Family.EVENTS: EventRow,
    Family.OUTCOMES: OutcomeRow,
    Family.ROBOTS: RobotsRow,
    Family.HOSTS: HostRow,
    Family.JOBS: JobRow,
    Family.FETCH_STATISTICS: FetchStatisticsRow,
}


@pytest.mark.sampled("number", [-10, 2**63 - 1, 2**64 - 1])
@pytest.mark.sampled("kind", NUMBERED.values())
def test_salvage_goes_on_past_any_number_that_no_server_stores(kind: type[Record], number: int) -> None:
    """As after a flipped bit: each whole number of the first row of a kind that has it."""
    (place,) = (place for place, each in NUMBERED.items() if each is kind)
    key_of_crawl = keys.crawl_key(1, place) if isinstance(place, CrawlRow) else None
    family, key, value = next(row for row in STORED if row[0] is place or row[1] == key_of_crawl)
    stored = decode(kind, value)
    for name in kind.__struct_fields__:
        if isinstance(getattr(stored, name), int):
            shell, _ = rebuilt(replaced(family, key, encode(structs.replace(stored, **{name: number}))))
            for crawl in list(shell.core.shard.registry.crawls.values()):
                shell.core.views.statistics(crawl.name, shell.now_ms)


NOISE = b"\xc1\xff\x00noise"


@pytest.mark.sampled("value", [NOISE, b"", b"\x01", b"\x02" + NOISE])
@pytest.mark.sampled("row", [CrawlRow.SPEC, CrawlRow.STATE, CrawlRow.COUNTERS])
def test_an_undecodable_row_of_one_crawl_leaves_the_other_crawls_open(row: CrawlRow, value: bytes) -> None:
    shell, rebuilding = rebuilt(replaced(Family.CRAWLS, keys.crawl_key(1, row), value))
    assert {"two", "three"} <= {found.name for found in rebuilding.crawls if not found.lost}
    assert rebuilding.left_out[Family.CRAWLS] == 1
    if row is CrawlRow.SPEC:
        assert any("crawl number 1 is lost" in loss for loss in rebuilding.lost)
        assert "one" not in shell.core.shard.registry
        return
    if row is CrawlRow.STATE:
        assert rebuilding.crawls[0].lost == ["its state: it is paused"]
        shell.request("one", Input.RESUME)
    else:
        assert rebuilding.crawls[0].lost == ["its statistics"]
        assert rebuilding.crawls[0].has_lost_log
    assert shell.grants("one")


def test_salvage_names_a_crawl_whose_spec_alone_cannot_be_read() -> None:
    spec = encode(SpecRow("one", NOISE, 1))
    _, rebuilding = rebuilt(replaced(Family.CRAWLS, keys.crawl_key(1, CrawlRow.SPEC), spec))
    assert rebuilding.lost == ["crawl number 1 (one) is lost: its spec cannot be read"]


@pytest.mark.parametrize("value", [NOISE, b"", b"\x02\x90"], ids=repr)
def test_salvage_replaces_an_undecodable_server_row(value: bytes) -> None:
    shell, rebuilding = rebuilt(replaced(Family.CRAWLS, keys.crawl_key(0, CrawlRow.SERVER), value))
    agrees(shell)
    assert "the server's own row is lost" in rebuilding.lost[0]
    assert [found.lost for found in rebuilding.crawls] == [[], [], []]
    shell.create("four", quick())
    assert shell.core.views.crawl("four").number == 4


def test_the_store_of_a_later_version_is_not_salvaged() -> None:
    row = ServerRow(99, b"s" * 16, version="9.9")
    with pytest.raises(OtherFormat, match=r"got 99, which version 9\.9 wrote"):
        rebuilt(replaced(Family.CRAWLS, keys.crawl_key(0, CrawlRow.SERVER), encode(row)))


def replaced(family: Family, key: bytes, value: bytes) -> list[Row]:
    """All rows, one of them with another value."""
    assert any(row[:2] == (family, key) for row in STORED)
    return [row if row[:2] != (family, key) else (family, key, value) for row in STORED]


def everything() -> Shell:
    """A crawl with rows in every family."""
    shell = Shell()
    shell.create("one", replace(quick(), identity=IdentitySettings(keep_uris=True)))
    shell.launch("one", "http://a.example/")
    fetch(shell, *shell.grants())
    shell.schedule("one", *(f"http://a.example/{n}" for n in range(4)), "ftp://a.example/")
    shell.schedule("one", candidate("http://a.example/later", not_before_ms=shell.now_ms + 10**9))
    shell.do(
        lambda core, now: core.administration.put_override(
            "one", "http://(example,a,", override_of(politeness={"max_delay_ms": 0}), now
        )
    )
    shell.grants(most=1)
    return shell


FULL = rows_of(everything().store)
CRAWLED = sorted(
    {family for family, *_ in FULL} - {Family.CRAWLS, Family.LEASES}, key=lambda family: family.value
)


@pytest.mark.sampled("value", [NOISE, b"", b"\x01", b"\x02\x90", b"\x01\x90"])
@pytest.mark.sampled("family", CRAWLED)
def test_salvage_leaves_out_an_undecodable_row_alone_and_counts_it(family: Family, value: bytes) -> None:
    """Some rows of each family, one at a time."""
    for place in [place for place, row in enumerate(FULL) if row[0] is family][-4:]:
        changed = list(FULL)
        _, key, before = FULL[place]
        changed[place] = (family, key, value)
        shell, rebuilding = rebuilt(changed)
        if not needs_value(family, key, before, value):
            continue
        agrees(shell)
        assert rebuilding.left_out == {family: 1}, key.hex()
        if family not in (Family.HOSTS, Family.ROBOTS):
            assert f"1 unreadable row of {family.value}" in rebuilding.crawls[0].lost


def needs_value(family: Family, key: bytes, before: bytes, value: bytes) -> bool:
    """Whether a row is copied, and its value then makes no sense. (Most sets have none, and a seed is a
    text.)"""
    if family is Family.INDEX:
        return key[4] in (IndexSet.REFUSED, IndexSet.FUTURE)
    if family is Family.SEEDS:
        return value == NOISE
    if family in (Family.HOSTS, Family.OWN_HOSTS, Family.FETCH_STATISTICS):
        return value != b"\x01\x90"  # all fields have defaults
    return True


def without(family: Family, *starts: bytes) -> list[Row]:
    """All rows but those of a family, or of it those whose keys begin so."""
    return [row for row in STORED if row[0] is not family or (starts and not row[1].startswith(starts))]


ONE = keys.crawl_prefix(1)


@pytest.mark.parametrize(
    "lost", [Family.QUEUES, Family.INDEX, Family.LEASES, Family.HOSTS, Family.FETCH_STATISTICS]
)
def test_without_the_rows_of_queues_or_sets_all_that_waits_still_does(lost: Family) -> None:
    shell, rebuilding = rebuilt(without(lost))
    agrees(shell)
    future = ["1 of 81 waiting URIs", "1 of 85 URIs in the seen-set"] if lost is Family.INDEX else []
    assert [found.lost for found in rebuilding.crawls] == [future, [], []]
    before = sum(1 for family, *_ in STORED if family is Family.PENDING)
    assert before == sum(1 for family, *_ in rows_of(shell.store) if family is Family.PENDING)


def test_a_uri_that_waited_and_is_gone_is_new_when_it_is_found_again() -> None:
    shell, rebuilding = rebuilt(without(Family.PENDING))
    agrees(shell)
    assert rebuilding.crawls[0].lost == ["80 of 81 waiting URIs", "80 of 85 URIs in the seen-set"]
    verdicts = shell.schedule("one", "http://b.example/19", "http://a.example/")
    assert [verdict.value for verdict in verdicts] == ["QUEUED", "ALREADY_SEEN"]


def test_hosts_of_seeds_stay_in_scope_when_the_set_of_them_is_gone() -> None:
    scope = keys.set_prefix(1, IndexSet.SCOPE)
    shell, _ = rebuilt(without(Family.INDEX, scope))
    assert [verdict.value for verdict in shell.schedule("one", "http://b.example/new")] == ["QUEUED"]


def test_a_crawl_whose_life_is_gone_is_paused_and_one_whose_statistics_are_goes_on_with_new_numbers() -> None:
    shell, rebuilding = rebuilt(without(Family.CRAWLS, keys.crawl_key(1, CrawlRow.STATE)))
    assert shell.state("one") is S.PAUSED and rebuilding.crawls[0].lost == ["its state: it is paused"]
    shell.request("one", Input.RESUME)
    assert shell.state("one") is S.RUNNING and shell.grants("one")
    shell, rebuilding = rebuilt(without(Family.CRAWLS, keys.crawl_key(1, CrawlRow.COUNTERS)))
    assert rebuilding.crawls[0].lost == ["its statistics"]
    agrees(shell)
    before = {int.from_bytes(key[-8:], "big") for family, key, _ in STORED if family is Family.LEASES}
    (grant,) = shell.grants("one", most=1)
    token = keys.decode_token(grant.token, decode_secret(shell))
    assert token is not None and token.serial not in before


def decode_secret(shell: Shell) -> bytes:
    value = shell.store.get(Family.CRAWLS, keys.crawl_key(keys.SERVER, CrawlRow.SERVER))
    assert value is not None
    return decode(ServerRow, value).secret


def test_a_crawl_without_a_spec_is_named_by_its_number_and_its_number_is_used_by_no_other() -> None:
    shell, rebuilding = rebuilt(
        without(Family.CRAWLS, keys.crawl_key(3, CrawlRow.SPEC), keys.crawl_key(0, CrawlRow.SERVER))
    )
    assert (
        any("crawl number 3 is lost" in loss for loss in rebuilding.lost)
        and "three" not in shell.core.shard.registry
    )
    shell.create("four", quick())
    assert shell.core.views.crawl("four").number == 4


def test_reports_for_what_was_out_are_refused_and_it_is_given_out_again() -> None:
    shell, _ = rebuilt(STORED)
    again = shell.grants("one")
    assert len(again) >= 2 and all(grant.attempt == 1 for grant in again)
    out = [decode(LeaseRow, value) for family, _, value in STORED if family is Family.LEASES]
    assert len(out) == 2
    for key, row in (
        (key, decode(LeaseRow, value)) for family, key, value in STORED if family is Family.LEASES
    ):
        token = keys.Token(1, key[4:12], int.from_bytes(key[-8:], "big"), row.fingerprint, robots=False)
        (result,) = shell.finish(Report(keys.encode_token(token, SECRET), fetch_status=200))
        assert result.disposition in (Disposition.STALE, Disposition.UNKNOWN_TOKEN)


def test_a_queue_whose_key_callers_chose_stays_one_that_hosts_share() -> None:
    before = Shell()
    before.create("one", quick())
    before.launch("one", "http://a.example/")
    before.schedule("one", candidate("http://a.example/1", queue_key="own"))
    shell, _ = rebuilt(rows_of(before.store))
    stored = {row.key: row.forced for row in queue_rows(shell)}
    assert stored == {"example,a,": False, "own": True}


def test_by_time_uris_keep_the_times_since_when_they_are_due() -> None:
    before = Shell()
    before.create("one", replace(quick(), queues=QueueSettings(uri_order="due-time")))
    before.launch("one", "http://a.example/")
    fetch(before, *before.grants())
    before.schedule("one", "http://a.example/early")
    late = before.now_ms + 60_000
    before.now_ms = late
    before.schedule("one", candidate("http://a.example/late", not_before_ms=late - 30_000))
    shell, _ = rebuilt(rows_of(before.store))
    (*_, early, after), _ = shell.core.administration.uris("one", "example,a,", 10, b"")
    assert (early.candidate.uri, early.due_ms) == ("http://a.example/early", late - 60_000)
    assert (after.candidate.uri, after.due_ms) == ("http://a.example/late", late - 30_000)


def queue_rows(shell: Shell) -> list[QueueRow]:
    return [decode(QueueRow, value) for _, value in shell.store.scan(Family.QUEUES, b"", b"")]


def test_uris_that_a_crawl_keeps_are_kept() -> None:
    before = Shell()
    before.create("one", replace(quick(), identity=IdentitySettings(keep_uris=True)))
    before.launch("one", "http://a.example/")
    before.schedule("one", "http://a.example/1")
    shell, _ = rebuilt(rows_of(before.store))
    stories, _ = shell.core.administration.seen_uris("one", SeenFilter(), 10, b"", shell.now_ms)
    assert {story.uri for story in stories} == {"http://a.example/", "http://a.example/1"}


def test_the_scope_of_a_crawl_is_whole_although_its_rows_are_lost() -> None:
    """Without its state nobody knows what its scope excludes by now; its hosts follow from its spec."""
    scope = ScopeSettings(hosts=("b.example",))
    shell = Shell()
    shell.create("c", replace(quick(), scope=scope))
    shell.launch("c", "http://a.example/")
    links = [f"http://{host}.example/{path}" for host in "ab" for path in ("kept", "trap")]
    shell.schedule("c", *(candidate(uri, path="L", via="http://a.example/") for uri in links))
    spec = spec_of(replace(quick(), scope=replace(scope, reject_patterns=(".*/trap",))))
    shell.do(lambda core, now: core.control.update_crawl("c", lambda _: (spec, ["scope"]), now))
    lost = keys.crawl_key(1, CrawlRow.STATE), keys.set_prefix(1, IndexSet.SCOPE)
    again, _ = rebuilt([row for row in rows_of(shell.store) if not row[1].startswith(lost)])
    agrees(again)
    again.request("c", Input.RESUME)
    found = []
    while grants := again.grants("c"):
        found += [grant.uri for grant in grants if not grant.robots]
        fetch(again, *grants)
    assert sorted(found) == ["http://a.example/", "http://a.example/kept", "http://b.example/kept"]


def test_a_retirement_that_waited_for_a_lease_loses_no_uri() -> None:
    shell = lived()
    fetch(shell, *shell.grants("one", most=1))
    (lease,) = shell.core.shard.leases.of_crawl(1)[:1]
    steer(shell, shell.core.shard.crawls[1].queues.active[lease.row.queue].row.key, QueueChange(retired=True))
    again, rebuilding = rebuilt(rows_of(shell.store))
    agrees(again)
    assert rebuilding.crawls[0].lost == []


def test_where_seeds_were_led_is_kept() -> None:
    before = Shell()
    before.create("one", quick())
    before.launch("one", "http://a.example/", "http://b.example/")
    fetch(before, *[grant for grant in before.grants() if grant.robots])
    for grant in before.grants():
        login = candidate(
            "http://login.example/", via=grant.uri, path="R", source=grant.source, redirects=grant.redirects
        )
        before.schedule("one", login)
        before.finish(Report(grant.token, fetch_status=302))
    shell, _ = rebuilt(rows_of(before.store))
    told, was = (each.core.administration.seeds("one", 10, 0, before.now_ms)[0] for each in (shell, before))
    words = "redirected to http://login.example/, as other seeds are: not fetched yet"
    assert [seed.outcome for seed in told] == [seed.outcome for seed in was]
    assert all(seed.outcome.startswith(words) for seed in told)
