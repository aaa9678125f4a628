"""Nothing unbounded on the loop: what one call may do, and what opening a store may read."""

from collections.abc import Iterator, Sequence

import pytest
from core_doubles.codec import candidate
from core_doubles.memory_store import MemoryStore
from core_doubles.shell import START_MS, Shell

from frontier_server.core.journey.admission import LIGHT_RULES
from frontier_server.core.journey.dispatch import CLEARING_PER_CALL, LEASES_PER_CALL, WAKES_PER_CALL
from frontier_server.core.journey.refusals import EXAMPLES_KEPT
from frontier_server.core.machines.lifecycle import CrawlState
from frontier_server.core.opening.registry import Registry
from frontier_server.core.operators.listing import ROWS_PER_READ, SEEDS_PER_READ
from frontier_server.core.rows import keys
from frontier_server.core.rows.errors import BatchEmpty, BatchTooLarge, InvalidRequest
from frontier_server.core.rows.store import Family
from frontier_server.core.spec.settings import CrawlSettings, PolitenessSettings, RetrySettings, ScopeSettings
from frontier_server.core.state.model import MAX_BATCH, Report, Verdict
from frontier_server.core.state.queue import QueueState
from frontier_server.core.state.read_ahead import READ_AHEAD, READ_AHEAD_BYTES
from frontier_server.core.upkeep import LAPSES_PER_TICK

QUICK = PolitenessSettings(delay_factor=0, min_delay_ms=0, max_delay_ms=0)
POLITE = PolitenessSettings(delay_factor=0, min_delay_ms=1_000, max_delay_ms=1_000)
HOST = "http://alpha.example"


class CountingStore(MemoryStore):
    """Tells how many rows were read, and where scans began."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[tuple[Family, bytes]] = []
        self.starts: list[tuple[Family, bytes]] = []
        self.batches: list[Family] = []

    def forget(self) -> None:
        """Begin to count."""
        self.rows, self.starts, self.batches = [], [], []

    def read(self, family: Family) -> int:
        """Rows of a family that were read."""
        return sum(of is family for of, _ in self.rows)

    def get(self, family: Family, key: bytes) -> bytes | None:
        """Counted."""
        self.rows.append((family, key))
        return super().get(family, key)

    def get_many(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        """Counted as one batch."""
        self.batches.append(family)
        self.rows.extend((family, key) for key in keys)
        return super().get_many(family, keys)

    def scan(self, family: Family, start: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Counted row by row."""
        self.starts.append((family, start))
        for key, value in super().scan(family, start, prefix):
            self.rows.append((family, key))
            yield key, value


def crawl(
    seeds: Sequence[str], politeness: PolitenessSettings = QUICK, store: MemoryStore | None = None
) -> Shell:
    """A crawl that runs."""
    shell = Shell(store)
    settings = CrawlSettings(
        allowed_addresses=("loopback",),
        politeness=politeness,
        retry=RetrySettings(max_attempts=30),
        scope=ScopeSettings(hosts=("alpha.example",)),
    )
    shell.create("crawl", settings)
    shell.launch("crawl", *seeds)
    return shell


def fill(shell: Shell, count: int, prefix: str = "/private/") -> None:
    """Put URIs into the queue of alpha.example."""
    for start in range(0, count, 500):
        offers = [f"{HOST}{prefix}{number}" for number in range(start, min(start + 500, count))]
        assert set(shell.schedule("crawl", *offers)) == {Verdict.QUEUED}


def answer_robots(shell: Shell, body: bytes) -> None:
    """Report the robots.txt that is leased."""
    (grant,) = shell.grants()
    assert grant.robots
    shell.finish(Report(grant.token, fetch_status=200, robots_body=body))


# Shares of a call.


def test_robots_turned_against_many_uris_are_cleared_a_share_at_a_time() -> None:
    """A queue with more to drain goes back in line, and the node is told to ask again."""
    shell = crawl([f"{HOST}/"])
    fill(shell, 1_000)
    answer_robots(shell, b"User-agent: *\nDisallow: /\n")
    cleared = [0]
    while shell.state("crawl") is CrawlState.RUNNING:
        answer = shell.next("crawl")
        cleared.append(shell.count("crawl", "disregarded_count"))
        assert cleared[-1] - cleared[-2] <= CLEARING_PER_CALL
        assert answer.again or cleared[-1] == 1_001
    assert cleared[-1] == 1_001 and len(cleared) == 7


def test_heavy_rules_are_asked_less_often_in_a_call() -> None:
    """What a question costs grows with the rules' weight; the share of a call does not."""
    shell = crawl([f"{HOST}/"])
    fill(shell, 300)
    lines = "".join(f"Disallow: /*a*b*c{number}\n" for number in range(2_000))
    answer_robots(shell, f"User-agent: *\n{lines}Disallow: /\n".encode())
    shell.next("crawl")
    assert 0 < shell.count("crawl", "disregarded_count") <= 4


def test_heavy_rules_are_not_asked_at_the_door() -> None:
    """A batch of 1000 candidates would hold the loop; they are asked at the head of the queue."""
    shell = crawl([f"{HOST}/"])
    fill(shell, 1)
    lines = "".join(f"Disallow: /{number}\n" for number in range(LIGHT_RULES))
    answer_robots(shell, f"User-agent: *\n{lines}Disallow: /never\n".encode())
    assert shell.schedule("crawl", f"{HOST}/never") == [Verdict.QUEUED]


def test_light_rules_are_asked_at_the_door() -> None:
    """A URI that robots forbids is noted as seen, with its disposition, and never queued."""
    shell = crawl([f"{HOST}/"])
    fill(shell, 1)
    answer_robots(shell, b"User-agent: *\nDisallow: /never\n")
    assert shell.schedule("crawl", f"{HOST}/never") == [Verdict.ROBOTS_FORBIDDEN]
    assert shell.schedule("crawl", f"{HOST}/never#") == [Verdict.ALREADY_SEEN]
    assert [row.fetch_status for row in shell.outcomes("crawl")] == [200, -9998]


def test_an_answer_has_no_more_leases_than_one_call_may_give() -> None:
    shell = crawl([f"http://host{number}.example/" for number in range(LEASES_PER_CALL + 50)])
    assert len(shell.grants(most=MAX_BATCH)) == LEASES_PER_CALL
    assert len(shell.grants(most=MAX_BATCH)) == 50


def test_leases_lapse_a_share_at_a_time_and_the_timer_stays_due() -> None:
    hosts = LAPSES_PER_TICK + 70
    shell = crawl([f"http://host{number}.example/" for number in range(hosts)])
    while shell.core.nodes.leases_out < hosts:
        assert shell.grants()
    shell.now_ms += shell.period_ms
    shell.tick()
    assert shell.core.nodes.leases_out == 70
    due_ms = shell.core.upkeep.next_due_ms()
    assert due_ms is not None and due_ms <= shell.now_ms
    shell.tick()
    assert shell.core.nodes.leases_out == 0


def test_queues_wake_a_share_at_a_time_and_the_timer_stays_due() -> None:
    """S2.2: a giant number of snoozed queues that wake at once must not hold everybody up."""
    hosts = WAKES_PER_CALL + 40
    shell = crawl([f"http://host{number}.example/" for number in range(MAX_BATCH)], POLITE)
    seeds = [f"http://host{number}.example/" for number in range(MAX_BATCH, hosts)]
    shell.do(lambda core, now: core.control.add_seeds("crawl", seeds, now))
    shell.work()
    while grants := shell.grants():
        shell.finish(*(Report(grant.token, fetch_status=404) for grant in grants))
    shell.now_ms += 1_000
    shell.tick()
    states = shell.core.views.statistics("crawl", shell.now_ms).queue_states
    assert (states[QueueState.READY], states[QueueState.SNOOZED]) == (WAKES_PER_CALL, 40)
    assert shell.core.upkeep.next_due_ms() == shell.now_ms
    shell.tick()
    assert shell.core.views.statistics("crawl", shell.now_ms).queue_states[QueueState.READY] == hosts


# What is read.


def rows_to_open(uris: int) -> int:
    """How many rows opening a store of so many URIs reads."""
    store = CountingStore()
    shell = crawl([f"{HOST}/"], store=store)
    fill(shell, uris, "/page/")
    shell.grants()
    store.forget()
    shell.restart()
    assert store.read(Family.PENDING) == store.read(Family.SEEN) == store.read(Family.OUTCOMES) == 0
    return len(store.rows)


def test_opening_a_store_does_not_walk_its_uris() -> None:
    assert rows_to_open(10) == rows_to_open(1_000) < 50


def test_opening_a_store_does_not_walk_inactive_queues() -> None:
    store = CountingStore()
    shell = crawl([f"http://host{number}.example/" for number in range(500)], store=store)
    shell.grants(most=3)
    store.forget()
    shell.restart()
    assert store.read(Family.QUEUES) == 3 and len(store.rows) < 50


def test_the_head_of_a_queue_is_sought_behind_the_heads_that_were_taken() -> None:
    """Popped URIs leave deleted keys that a seek to the queue's start would have to walk."""
    store = CountingStore()
    shell = crawl([f"{HOST}/"], store=store)
    fill(shell, 50, "/page/")
    answer_robots(shell, b"")
    gone: list[bytes] = []
    looks = 0
    for _ in range(40):
        before = {key for key, _ in MemoryStore.scan(store, Family.PENDING, b"", b"")}
        (grant,) = shell.grants()
        shell.finish(Report(grant.token, fetch_status=200))
        gone += before - {key for key, _ in MemoryStore.scan(store, Family.PENDING, b"", b"")}
        store.forget()
        shell.next("crawl", most=1)
        starts = [start for family, start in store.starts if family is Family.PENDING]
        assert all(start > max(gone) for start in starts)
        looks += len(starts)
        shell.take_back([lease.token(shell.core.shard.server.secret) for lease in shell.core.shard.leases])
    assert 40 // READ_AHEAD <= looks <= 40 // READ_AHEAD + 1, "it is read ahead, not at each turn"


def test_large_uris_are_not_read_ahead() -> None:
    """Memory holds little of each queue, whatever its URIs carry."""
    store = CountingStore()
    shell = crawl([f"{HOST}/"], store=store)
    answer_robots(shell, b"")
    large = [candidate(f"{HOST}/{number}", annotations=b"x" * 1_000) for number in range(40)]
    shell.schedule("crawl", *large)
    (grant,) = shell.grants()
    shell.finish(Report(grant.token, fetch_status=200))
    shell.grants()
    (queue,) = shell.core.shard.crawls[1].queues.active.values()
    assert sum(len(value) for _, value in queue.ahead.rows) < READ_AHEAD_BYTES + 1_500


def test_a_more_urgent_uri_lowers_the_place_where_the_head_is_sought() -> None:
    shell = crawl([f"{HOST}/"])
    fill(shell, 3, "/page/")
    answer_robots(shell, b"")
    (grant,) = shell.grants()
    shell.finish(Report(grant.token, fetch_status=200))
    shell.schedule("crawl", candidate(f"{HOST}/urgent", directive=1))
    assert [grant.uri for grant in shell.grants()] == [f"{HOST}/urgent"]


def test_hosts_that_a_prefix_decides_are_looked_up_in_no_list_of_hosts() -> None:
    """A crawl of a whole domain meets millions of them."""
    store = CountingStore()
    shell = Shell(store)
    scope = ScopeSettings(hosts=("alpha.example",), surt_prefixes=("+http://(example,", "-http://(test,"))
    shell.create("crawl", CrawlSettings(allowed_addresses=("loopback",), scope=scope))
    shell.launch("crawl", f"{HOST}/")

    def looked_up(*uris: str) -> list[bytes]:
        store.forget()
        shell.schedule("crawl", *uris)
        scope_prefix = keys.set_prefix(1, keys.IndexSet.SCOPE)
        return [key for of, key in store.rows if of is Family.INDEX and key.startswith(scope_prefix)]

    assert not looked_up(*(f"http://www{number}.example/" for number in range(20)))
    assert not looked_up(*(f"http://www{number}.test/" for number in range(20)))
    assert len(looked_up(*(f"http://www{number}.org/" for number in range(20)))) >= 20


def test_the_seen_set_and_the_queues_are_asked_once_for_a_whole_slice() -> None:
    store = CountingStore()
    shell = crawl([f"{HOST}/"], store=store)
    shell.restart()  # memory knows no queue that is not active
    store.forget()
    shell.schedule("crawl", *(f"{HOST}/{number}" for number in range(100)))
    assert store.batches == [Family.SEEN, Family.QUEUES]
    assert store.read(Family.SEEN) == 100 and store.read(Family.QUEUES) == 1


def test_texts_that_were_taken_in_are_known_without_reading() -> None:
    """Most links of a page have been seen: they cost nothing."""
    store = CountingStore()
    shell = crawl([f"{HOST}/"], store=store)
    offers = [f"{HOST}/{number}" for number in range(100)]
    shell.schedule("crawl", *offers)
    store.forget()
    assert shell.schedule("crawl", *offers) == [Verdict.ALREADY_SEEN] * 100
    assert store.rows == []


def test_the_writer_of_the_crawl_log_reads_what_has_just_happened_from_memory() -> None:
    """And from the store what was logged, or happened before a restart."""
    store = CountingStore()
    shell = crawl([f"{HOST}/"], store=store)
    fill(shell, 5, "/page/")
    answer_robots(shell, b"")
    for _ in range(6):
        (grant,) = shell.grants()
        shell.finish(Report(grant.token, fetch_status=200))
    told = shell.outcomes("crawl")
    assert len(told) == 7
    store.forget()
    assert shell.core.upkeep.outcomes_after(1, 2, 3) == list(zip((3, 4, 5), told[2:5], strict=True))
    assert store.read(Family.OUTCOMES) == 0
    shell.record_logged(1, 4, 400)
    assert shell.outcomes("crawl") == told and store.read(Family.OUTCOMES) == 7
    assert len(shell.core.shard.crawls[1].unlogged) == 3
    shell.restart()
    assert shell.outcomes("crawl") == told


def test_what_is_refused_costs_no_storage_but_for_the_latest_examples() -> None:
    shell = crawl([f"{HOST}/"])
    prefix = keys.set_prefix(1, keys.IndexSet.REFUSED)
    for start in range(0, 1_000, 100):
        offered = [candidate(f"http://elsewhere.example/{start + number}") for number in range(100)]
        _, changes = shell.core.frontier.schedule("crawl", offered, shell.now_ms)
        shell.store.write(changes)
        assert {family for family, _ in changes} == {Family.CRAWLS, Family.INDEX}
    assert len(list(shell.store.scan(Family.INDEX, prefix, prefix))) == EXAMPLES_KEPT


# Requests as a whole.


@pytest.mark.parametrize(("count", "error"), [(0, BatchEmpty), (MAX_BATCH + 1, BatchTooLarge)])
def test_a_batch_of_seeds_has_its_bounds(count: int, error: type[Exception]) -> None:
    shell = crawl([f"{HOST}/"])
    with pytest.raises(error, match=str(MAX_BATCH)):
        shell.do(lambda core, now: core.control.add_seeds("crawl", [f"{HOST}/"] * count, now))


@pytest.mark.parametrize("most", [0, -1, MAX_BATCH + 1, 2**31 - 1])
def test_as_many_leases_as_a_batch_may_be_asked_for(most: int) -> None:
    with pytest.raises(InvalidRequest, match=str(most)):
        crawl([f"{HOST}/"]).next("crawl", most=most)


@pytest.mark.parametrize(
    ("node", "session", "field"), [("", "1", "node"), ("n" * 129, "1", "node"), ("n", "", "session")]
)
def test_a_node_needs_a_name_and_a_session(node: str, session: str, field: str) -> None:
    shell = crawl([f"{HOST}/"])
    for ask in (
        lambda: shell.next("crawl", node=node, session=session),
        lambda: shell.finish(Report(b""), node=node, session=session),
        lambda: shell.do(lambda core, now: core.frontier.heartbeat(node, session, [], [], now)),
    ):
        with pytest.raises(InvalidRequest, match=field) as refused:
            ask()
        assert refused.value.metadata["field"] == field
    assert shell.core.nodes.listed(shell.now_ms) == [] and shell.now_ms == START_MS


# Lists.


def test_a_page_of_seeds_or_queues_is_no_longer_than_what_one_read_may_cost() -> None:
    """A page may have fewer than asked for, and still not be the last."""
    names = [f"http://host{number}.example/" for number in range(600)]
    administration = crawl(names).core.administration
    told: list[str] = []
    place = 0
    while True:
        page, place = administration.seeds("crawl", MAX_BATCH, place, START_MS)
        assert len(page) <= SEEDS_PER_READ
        told += [seed.uri for seed in page]
        if not place:
            break
    assert told == names
    keys: list[str] = []
    cursor = b""
    while True:
        queues, cursor = administration.queues("crawl", None, MAX_BATCH, cursor)
        assert len(queues) <= ROWS_PER_READ
        keys += [queue.key for queue in queues]
        if not cursor:
            break
    assert len(keys) == len(set(keys)) == 600


@pytest.mark.parametrize("busy", [False, True])
def test_seeds_of_one_host_are_told_without_a_walk_through_their_queue(busy: bool) -> None:
    """A display asks for a thousand seeds every few seconds."""
    store = CountingStore()
    shell = crawl([f"{HOST}/{number}" for number in range(100)], store=store)
    if busy:
        shell.grants("crawl", most=1)
    store.forget()
    page, _ = shell.core.administration.seeds("crawl", 100, 0, START_MS)
    assert len(page) == 100
    assert store.read(Family.PENDING) <= 200, "each seed's own row, and the head of its queue"


def test_crawls_that_were_torn_down_are_listed_without_being_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Shell()
    settings = CrawlSettings(allowed_addresses=("loopback",))
    names = [f"c{number}" for number in range(6)]
    for name in names:
        shell.create(name, settings)
    for name in names[::2]:
        shell.do(lambda core, now, name=name: core.control.tear_down(name, now))  # type: ignore[misc]
    expected = [(shell.core.views.crawl(name), name in names[::2]) for name in names]
    shell.restart()
    with monkeypatch.context() as none:
        none.setattr(Registry, "made", None)
        listed = shell.core.views.crawls_after("", 10)
    assert [(view, view.torn_down) for view in listed] == expected
    assert [view.name for view in shell.core.views.crawls_after("c1", 2)] == ["c2", "c3"]
    shell.do(lambda core, now: core.control.delete_crawl("c2", now))
    shell.create("c11", settings)
    assert [view.name for view in shell.core.views.crawls_after("c1", 3)] == ["c11", "c3", "c4"]
