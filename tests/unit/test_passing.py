"""Queues that several hosts share: one that must wait lets the others pass (D23)."""

from collections import Counter

import pytest
from core_doubles.codec import PlainCodec, candidate
from core_doubles.recount import Recount
from core_doubles.shell import Shell
from msgspec import structs

from frontier_server.core.jobs.steering import QueueChange
from frontier_server.core.rows import keys
from frontier_server.core.rows.keys import IndexSet
from frontier_server.core.rows.records import QueueRow, decode, decode_pending, encode, encode_pending
from frontier_server.core.rows.store import Changes, Family
from frontier_server.core.spec.settings import (
    CrawlSettings,
    PolitenessSettings,
    QueueSettings,
    RetrySettings,
    RobotsSettings,
)
from frontier_server.core.state.job import JobKind
from frontier_server.core.state.model import Candidate, Directive, Grant, Report

SECOND, MINUTE = 1_000, 60_000
POLITE = PolitenessSettings(delay_factor=0, min_delay_ms=SECOND, max_delay_ms=SECOND)
DEAD, A, B = (f"http://{name}.site.example" for name in ("dead", "a", "b"))
KINDS = {
    "registered-domain": QueueSettings(partition="registered-domain", assignment="registered-domain"),
    "buckets": QueueSettings(partition="registered-domain", assignment="buckets", buckets=1),
    "forced": QueueSettings(partition="registered-domain", queue_key="all"),
}


def crawl(queues: QueueSettings = KINDS["registered-domain"], **settings: object) -> Shell:
    """A crawl whose hosts share one queue."""
    shell = Shell()
    given = {"politeness": POLITE, "retry": RetrySettings(max_attempts=3, delay_ms=15 * MINUTE), **settings}
    shell.create(
        "crawl",
        CrawlSettings(allowed_addresses=("loopback",), queues=queues, **given),  # type: ignore[arg-type]
    )
    return shell


def answer(shell: Shell, grant: Grant) -> None:
    """The dead host gives no answer; robots.txt files are not there; pages are."""
    status = 404 if grant.robots else 200
    shell.finish(Report(grant.token, fetch_status=-2 if grant.uri.startswith(DEAD) else status))


def fetched(shell: Shell, seconds: int) -> list[tuple[int, str]]:
    """The pages that a node fetches which looks once a second for all that it may have, and when."""
    done = []
    for second in range(seconds):
        while grants := shell.grants():
            for grant in grants:
                done.append((second, grant.uri))
                answer(shell, grant)
        shell.now_ms += SECOND
        shell.tick()
    return done


@pytest.mark.parametrize("kind", KINDS)
def test_a_dead_host_holds_up_none_of_its_siblings(kind: str) -> None:
    """D23: one dead host held its siblings for hours."""
    shell = crawl(KINDS[kind])
    shell.launch("crawl", *(f"{DEAD}/{number}" for number in range(40)), f"{A}/1", f"{B}/1", f"{A}/2")
    done = fetched(shell, 20)
    assert {uri for _, uri in done} >= {f"{A}/1", f"{A}/2", f"{B}/1"}
    assert sum(uri.startswith(DEAD) for _, uri in done) == 1, "its robots.txt, which could not be had"


def test_a_page_that_is_tried_again_later_lets_others_pass_and_comes_first_then() -> None:
    """S1.8: it keeps its place."""
    shell = crawl()
    shell.launch("crawl", f"{A}/1", f"{A}/2", f"{B}/1", f"{B}/2")
    (robots,) = shell.grants()
    answer(shell, robots)
    shell.now_ms += SECOND
    (page,) = shell.grants()
    shell.finish(Report(page.token, fetch_status=-2))
    assert page.uri == f"{A}/1"
    done = [uri for _, uri in fetched(shell, 14 * 60)]
    assert done == [f"{B}/robots.txt", f"{B}/1", f"{B}/2"], "of A nothing, as long as it rests"
    assert [uri for _, uri in fetched(shell, 120)] == [f"{A}/1", f"{A}/2"]


def test_hosts_that_share_a_queue_rest_each_by_itself() -> None:
    shell = crawl()
    shell.launch("crawl", *(f"{host}/{number}" for number in range(5) for host in (A, B)))
    done = fetched(shell, 12)
    for host in (A, B):
        times = [second for second, uri in done if uri.startswith(host)]
        assert times == [0, 1, 2, 3, 4, 5], done


def test_a_more_urgent_uri_goes_first_though_others_have_been_passed() -> None:
    shell = crawl()
    shell.launch("crawl", *(f"{DEAD}/{number}" for number in range(10)), f"{A}/1")
    fetched(shell, 5)
    shell.schedule("crawl", candidate(f"{A}/2"), candidate(f"{A}/urgent", directive=Directive.HIGHEST))
    assert [uri for _, uri in fetched(shell, 4)] == [f"{A}/urgent", f"{A}/2"]


def test_a_more_urgent_uri_of_a_host_that_rests_is_first_when_it_has_rested() -> None:
    """It was passed with the others that wait, but stood before the first of them."""
    shell = crawl()
    shell.launch("crawl", f"{A}/1", f"{A}/2", f"{B}/1")
    answer(shell, shell.grants()[0])
    shell.now_ms += SECOND
    (page,) = shell.grants()
    shell.finish(Report(page.token, fetch_status=-2))
    assert [uri for _, uri in fetched(shell, 3)] == [f"{B}/robots.txt", f"{B}/1"]
    shell.schedule("crawl", candidate(f"{A}/urgent", directive=Directive.HIGHEST))
    assert fetched(shell, 3) == []
    assert [uri for _, uri in fetched(shell, 16 * 60)] == [f"{A}/urgent", f"{A}/1", f"{A}/2"]


def test_after_a_restart_what_rested_still_rests() -> None:
    """D9: rests outlive restarts."""
    shell = crawl()
    shell.launch("crawl", f"{A}/1", f"{A}/2", f"{B}/1")
    answer(shell, shell.grants()[0])
    shell.now_ms += SECOND
    (page,) = shell.grants()
    shell.finish(Report(page.token, fetch_status=-2))
    shell.restart()
    assert [uri for _, uri in fetched(shell, 60)] == [f"{B}/robots.txt", f"{B}/1"]


def test_an_operator_ends_the_rests_that_are_in_the_way() -> None:
    """T14."""
    shell = crawl()
    shell.launch("crawl", f"{A}/1")
    answer(shell, shell.grants()[0])
    shell.now_ms += SECOND
    shell.finish(Report(shell.grants()[0].token, fetch_status=-2))
    assert fetched(shell, 10) == []
    change = QueueChange(wake=True)
    shell.do(lambda f, now: f.administration.change_queue("crawl", "site.example", change, now))
    assert [uri for _, uri in fetched(shell, 2)] == [f"{A}/1"]


def undo_lanes(shell: Shell) -> None:
    """Turn the store into one of format 2, which has no lanes."""
    number = shell.core.views.crawl("crawl").number
    changes: Changes = {}
    for index in (IndexSet.LANE, IndexSet.LANE_HEAD):
        prefix = keys.set_prefix(number, index)
        changes |= {(Family.INDEX, key): None for key, _ in shell.store.scan(Family.INDEX, prefix, prefix)}
    prefix = keys.crawl_prefix(number)
    for key, value in shell.store.scan(Family.PENDING, prefix, prefix):
        changes[Family.PENDING, key] = encode_pending(structs.replace(decode_pending(value), lane=b""))
    for key, value in shell.store.scan(Family.QUEUES, prefix, prefix):
        row = decode(QueueRow, value)
        row.filed = b""
        changes[Family.QUEUES, key] = encode(row)
    shell.store.write(changes)
    shell.restart()


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_without_lanes_gives_out_a_hosts_uris_in_the_same_order(kind: str) -> None:
    done = []
    for older in (False, True):
        shell = crawl(KINDS[kind])
        shell.launch("crawl", *(f"{DEAD}/{number}" for number in range(300)), f"{A}/1", f"{B}/1")
        answer(shell, shell.grants()[0])
        shell.now_ms += SECOND
        (out,) = shell.grants()
        if older:
            undo_lanes(shell)
        answer(shell, out)
        shell.schedule("crawl", *(candidate(f"{host}/{number}") for number in (2, 3) for host in (A, B)))
        uris = [uri for _, uri in fetched(shell, 20)]
        done.append({host: [uri for uri in uris if uri.startswith(host)] for host in (DEAD, A, B)})
        Recount(shell, next(iter(shell.core.shard.crawls.values()))).run()
    assert done[0] == done[1]
    assert done[0][A] == [f"{A}/{page}" for page in (1, 2, 3)]
    assert len(done[0][B]) == 4


def test_a_queue_that_becomes_shared_later_lets_uris_of_other_hosts_pass() -> None:
    """A caller may choose the key of a queue that is there already."""
    shell = crawl(QueueSettings(partition="registered-domain"))
    key = "example,site,dead,"
    shell.launch("crawl", f"{A}/", f"{B}/", *(f"{DEAD}/{number}" for number in range(5)))
    fetched(shell, 3)
    shell.schedule("crawl", *(candidate(f"{host}/1", queue_key=key) for host in (A, B)))
    done = fetched(shell, 5)
    assert {uri for _, uri in done} >= {f"{A}/1", f"{B}/1"}


@pytest.mark.parametrize("rests", [1, 500])
def test_a_fetch_costs_the_same_however_many_uris_of_resting_hosts_wait(
    monkeypatch: pytest.MonkeyPatch, rests: int
) -> None:
    looks: Counter[str] = Counter()
    decode = PlainCodec.decode

    def counting(codec: PlainCodec, record: bytes) -> Candidate:
        looks["heads"] += 1
        return decode(codec, record)

    shell = crawl(robots=RobotsSettings(retry_delay_ms=60 * MINUTE))
    shell.launch("crawl", f"{DEAD}/", f"{A}/", f"{B}/")
    fetched(shell, 3)
    shell.schedule("crawl", *(candidate(f"{DEAD}/{number}") for number in range(rests)))
    shell.schedule("crawl", *(candidate(f"{host}/{number}") for number in range(20) for host in (A, B)))
    fetched(shell, 2)
    monkeypatch.setattr(PlainCodec, "decode", counting)
    done = fetched(shell, 10)
    assert len(done) == 20 and looks["heads"] <= 20 * 8


def test_the_crawl_ends_when_all_hosts_have_had_their_tries() -> None:
    shell = crawl(robots=RobotsSettings(max_attempts=2, retry_delay_ms=MINUTE))
    shell.launch("crawl", *(f"{DEAD}/{number}" for number in range(5)), f"{A}/1")
    fetched(shell, 200)
    outcomes = Counter(row.fetch_status for row in shell.outcomes("crawl") if not row.path.endswith("P"))
    assert outcomes == {-61: 5, 200: 1}
    assert shell.state("crawl").value == "FINISHED"


def test_explain_tells_of_the_host_that_rests_and_that_others_pass() -> None:
    shell = crawl()
    shell.launch("crawl", f"{A}/1", f"{B}/1")
    answer(shell, shell.grants()[0])
    shell.now_ms += SECOND
    (page,) = shell.grants()
    shell.finish(Report(page.token, fetch_status=-2))
    why = shell.core.administration.explain("crawl", "", f"{A}/1", shell.now_ms)
    told = [(reason.message, reason.until_ms - shell.now_ms) for reason in why if reason.until_ms]
    rest = "retry after fetch status -2: connection failed"
    words = f"{A} rests: {rest}; other hosts of queue site.example go first"
    assert told == [(words, 15 * MINUTE)]


def test_a_verification_mends_lanes_that_disagree_with_their_queue() -> None:
    shell = crawl()
    shell.launch("crawl", *(f"{host}/{number}" for number in range(3) for host in (A, B)))
    (found,) = shell.core.shard.crawls.values()
    prefix = keys.set_prefix(found.number, IndexSet.LANE)
    rows = [key for key, _ in shell.store.scan(Family.INDEX, prefix, prefix)]
    gone = next(key for key in rows if not key.endswith(keys.LAST_POSITION))
    stale = gone[:-8] + keys.level_position(1, 7)
    shell.store.write({(Family.INDEX, gone): None, (Family.INDEX, stale): b"\x01"})
    start = {"repair": "true"}
    for differences in (2, 0):
        job = shell.do(lambda core, now: core.administration.start_job("crawl", JobKind.VERIFY, start, now))
        shell.work()
        assert shell.core.administration.job("crawl", job.number).changed == differences
    Recount(shell, found).run()
