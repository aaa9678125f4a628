"""Verification: what it finds in a store that contradicts itself, and mends; nothing in a sound one."""

from collections.abc import Callable
from typing import Any

import pytest
from core_doubles.codec import candidate
from core_doubles.shell import Shell

from frontier_server.core.jobs.steering import QueueChange
from frontier_server.core.rows import keys
from frontier_server.core.rows.keys import IndexSet
from frontier_server.core.rows.records import CountersRow, QueueRow, SeenRow, decode, encode
from frontier_server.core.rows.store import Family
from frontier_server.core.spec.settings import CrawlSettings, PolitenessSettings, ScopeSettings
from frontier_server.core.state.job import JobKind
from frontier_server.core.state.model import JobView, Report

HOSTS = [f"host{number}.example" for number in range(6)]
KEYS = [f"example,host{number}," for number in range(6)]
POLITE = PolitenessSettings(delay_factor=0, min_delay_ms=60_000, max_delay_ms=60_000)


def crawl(monkeypatch: pytest.MonkeyPatch, rows_per_slice: int = 200) -> Shell:
    """A crawl with six queues: two snoozed in memory, one on disk, three inactive; and future URIs."""
    monkeypatch.setattr("frontier_server.core.jobs.verification.ROWS_PER_SLICE", rows_per_slice)
    monkeypatch.setattr(
        "frontier_server.core.jobs.verification.QUEUES_PER_SLICE", max(rows_per_slice // 10, 1)
    )
    monkeypatch.setattr("frontier_server.core.state.operation.MAX_SNOOZED_IN_MEMORY", 2)
    shell = Shell()
    scope = ScopeSettings(hosts=tuple(HOSTS))
    shell.create("crawl", CrawlSettings(allowed_addresses=("loopback",), scope=scope, politeness=POLITE))
    shell.launch("crawl", *(f"http://{host}/{number}" for host in HOSTS for number in range(3)))
    later = shell.now_ms + 90_000
    shell.schedule("crawl", *(candidate(f"http://{host}/later", not_before_ms=later) for host in HOSTS))
    for grant in shell.grants(most=3):
        shell.finish(Report(grant.token, fetch_status=404))
    return shell


def start(shell: Shell, repair: bool = False) -> int:
    """Start a verification; its number."""
    parameters = {"repair": "true"} if repair else {}
    job = shell.do(lambda core, now: core.administration.start_job("crawl", JobKind.VERIFY, parameters, now))
    return job.number


def verified(shell: Shell, repair: bool = False) -> JobView:
    """What a verification found."""
    number = start(shell, repair)
    shell.work()
    return shell.core.administration.job("crawl", number)


def change(shell: Shell, key: str, **changes: Any) -> None:
    """Change a queue."""
    shell.do(lambda core, now: core.administration.change_queue("crawl", key, QueueChange(**changes), now))


def test_a_sound_crawl_is_counted_whole_and_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = crawl(monkeypatch)
    change(shell, KEYS[3], retired=True)
    change(shell, KEYS[4], precedence=255)
    found = verified(shell)
    assert (found.state, found.changed, found.findings) == ("DONE", 0, ())
    told = {name: found.counts[name] for name in ("queues", "seen", "future", "sums_compared")}
    assert told == {"queues": 6, "seen": 24, "future": 6, "sums_compared": 1}
    sums = ("queued", "retired_uris", "ineligible_uris")
    assert (
        [found.counts[name] for name in sums]
        == [
            shell.count("crawl", count)
            for count in ("queued_count", "retired_uri_count", "ineligible_uri_count")
        ]
        == [15, 3, 3]
    )


def _lease(shell: Shell) -> None:
    shell.now_ms += 60_000
    for grant in shell.grants(most=2):
        shell.finish(Report(grant.token, fetch_status=200))


def _make_due(shell: Shell) -> None:
    shell.now_ms += 120_000
    shell.tick()


def _swap_seen(shell: Shell) -> None:
    forgotten, noted = ["http://host5.example/later"], ["http://host0.example/x"]
    shell.do(lambda core, now: core.administration.forget_seen("crawl", forgotten, now))
    shell.do(lambda core, now: core.administration.record_seen("crawl", noted, now))


def _offer(shell: Shell) -> None:
    shell.schedule("crawl", *(f"http://{host}/new" for host in HOSTS))


WHAT_GOES_ON: dict[str, Callable[[Shell], None]] = {
    "a queue that sleeps on disk is retired": lambda shell: change(shell, KEYS[2], retired=True),
    "a queue is ineligible": lambda shell: change(shell, KEYS[2], precedence=255),
    "a queue is paused": lambda shell: change(shell, KEYS[2], paused=True),
    "future URIs fall due": _make_due,
    "URIs are fetched": _lease,
    "URIs come": _offer,
    "one URI is forgotten, another noted": _swap_seen,
}


@pytest.mark.parametrize("slices", range(1, 40, 6))
@pytest.mark.parametrize("event", WHAT_GOES_ON, ids=lambda event: event.replace(" ", "-"))
def test_nothing_is_found_in_a_sound_crawl_that_goes_on_meanwhile(
    event: str, slices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = crawl(monkeypatch, rows_per_slice=2)
    change(shell, KEYS[3], retired=True)
    number = start(shell)
    for _ in range(slices):
        if shell.core.upkeep.has_work:
            shell.do(lambda core, now: core.upkeep.work(now))
    WHAT_GOES_ON[event](shell)
    shell.work()
    found = shell.core.administration.job("crawl", number)
    assert (found.state, found.changed, found.findings) == ("DONE", 0, ())


# Damage.


def _rows(shell: Shell, family: Family, prefix: bytes = b"") -> list[tuple[bytes, bytes]]:
    return list(shell.store.scan(family, prefix, prefix))


def _number(shell: Shell) -> int:
    return shell.core.views.crawl("crawl").number


def _recount(shell: Shell, by: int) -> None:
    key, value = _rows(shell, Family.QUEUES)[0]
    row = decode(QueueRow, value)
    row.count += by
    shell.store.write({(Family.QUEUES, key): encode(row)})


def _index_row(shell: Shell, index: IndexSet) -> bytes:
    return _rows(shell, Family.INDEX, keys.set_prefix(_number(shell), index))[0][0]


def _lose_inactive(shell: Shell) -> None:
    shell.store.write({(Family.INDEX, _index_row(shell, IndexSet.INACTIVE)): None})


def _add_inactive(shell: Shell) -> None:
    key = _index_row(shell, IndexSet.INACTIVE)
    shell.store.write({(Family.INDEX, key[:5] + b"\xfe" + key[6:]): b"\x01"})


def _lose_name(shell: Shell) -> None:
    shell.store.write({(Family.INDEX, _index_row(shell, IndexSet.NAME)): None})


def _lose_future(shell: Shell) -> None:
    shell.store.write({(Family.INDEX, _index_row(shell, IndexSet.FUTURE)): None})


def _lose_pending(shell: Shell) -> None:
    shell.store.write({(Family.PENDING, _rows(shell, Family.PENDING)[-1][0]): None})


def _forget_where_it_waits(shell: Shell) -> None:
    for key, value in _rows(shell, Family.SEEN):
        row = decode(SeenRow, value)
        if row.position:
            row.position = b""
            shell.store.write({(Family.SEEN, key): encode(row)})
            return


def _hide_the_head(shell: Shell) -> None:
    key, value = _rows(shell, Family.QUEUES)[0]
    row = decode(QueueRow, value)
    row.heads = {level: ordinal + 1 for level, ordinal in row.heads.items()}
    shell.store.write({(Family.QUEUES, key): encode(row)})


def _sum(name: str) -> Callable[[Shell], None]:
    def damage(shell: Shell) -> None:
        key = keys.crawl_key(_number(shell), keys.CrawlRow.COUNTERS)
        row = decode(CountersRow, shell.store.get(Family.CRAWLS, key) or b"")
        setattr(row, name, getattr(row, name) + 7)
        shell.store.write({(Family.CRAWLS, key): encode(row)})

    return damage


DAMAGES: dict[str, Callable[[Shell], None]] = {
    "must be 3, got 4": lambda shell: _recount(shell, 1),
    "must be 3, got 2": lambda shell: _recount(shell, -1),
    "is INACTIVE, but missing from that set": _lose_inactive,
    "set INACTIVE": _add_inactive,
    "but missing from that set": _lose_name,
    "is missing from the future URIs": _lose_future,
    "is missing from its place in the queue": _lose_pending,
    "which the seen-set lacks": _forget_where_it_waits,
    "begins after its URI": _hide_the_head,
    "queued, but has": _sum("queued"),
    "retired_uris, but has": _sum("retired_uris"),
    "ineligible_uris, but has": _sum("ineligible_uris"),
    "future, but has": _sum("future"),
    "discovered, but has": _sum("discovered"),
}


@pytest.mark.parametrize("finding", DAMAGES, ids=lambda finding: finding.replace(" ", "-"))
def test_what_contradicts_itself_is_found_mended_if_asked_and_then_sound(
    finding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D8: counts drift apart from contents. Nothing is mended by looking only."""
    shell = crawl(monkeypatch)
    DAMAGES[finding](shell)
    shell.restart()
    for _ in range(2):
        found = verified(shell)
        assert any(finding in told for told in found.findings), found.findings
        assert found.changed == len(found.findings)
    verified(shell, repair=True)
    assert verified(shell).findings == ()
    shell.restart()
    assert verified(shell).findings == ()
