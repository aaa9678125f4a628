"""The lanes of a queue that several hosts share: kept in step, verified, and filed once."""

from typing import Any

import pytest
from core_doubles.codec import override_of
from core_doubles.recount import Recount
from core_doubles.shell import Shell

from frontier_server.core.journey import dispatch
from frontier_server.core.rows import keys
from frontier_server.core.rows.keys import IndexSet
from frontier_server.core.rows.store import Family
from frontier_server.core.spec.settings import (
    CrawlSettings,
    PolitenessSettings,
    QueueSettings,
    RobotsSettings,
)
from frontier_server.core.state import lanes
from frontier_server.core.state.job import JobKind
from frontier_server.core.state.model import Report

A, B = "http://a.site.example", "http://b.site.example"


def crawl() -> Shell:
    """A crawl with a queue of two hosts, in which five URIs wait."""
    shell = Shell()
    queues = QueueSettings(partition="registered-domain", queue_key="all")
    shell.create("crawl", CrawlSettings(allowed_addresses=("loopback",), queues=queues))
    shell.launch("crawl", f"{A}/1", f"{B}/1", f"{A}/2", f"{B}/2", f"{A}/3")
    return shell


def rows_of(shell: Shell, index: IndexSet) -> list[bytes]:
    """The keys of a set."""
    prefix = keys.set_prefix(shell.core.views.crawl("crawl").number, index)
    return [key for key, _ in shell.store.scan(Family.INDEX, prefix, prefix)]


def verify(shell: Shell, repair: bool) -> int:
    """How many faults a verification finds."""
    parameters = {"repair": "true"} if repair else {}
    view = shell.do(lambda core, now: core.administration.start_job("crawl", JobKind.VERIFY, parameters, now))
    shell.work()
    return shell.core.administration.job("crawl", view.number).changed


@pytest.mark.parametrize(
    ("index", "number"),
    [
        *((IndexSet.LANE, number) for number in range(7)),
        *((IndexSet.LANE_HEAD, number) for number in range(3)),
    ],
)
def test_verification_restores_a_lost_row_of_a_lane(index: IndexSet, number: int) -> None:
    shell = crawl()
    lost = rows_of(shell, index)
    shell.store.write({(Family.INDEX, lost[number]): None})
    shell.restart()
    assert verify(shell, repair=True) > 0
    assert verify(shell, repair=False) == 0
    Recount(shell, shell.core.shard.registry.named("crawl")).run()


@pytest.mark.parametrize("index", [IndexSet.LANE, IndexSet.LANE_HEAD])
def test_verification_removes_a_row_of_a_lane_without_a_uri(index: IndexSet) -> None:
    """It would stop the whole queue: it names a URI that is not stored."""
    shell = crawl()
    known = rows_of(shell, index)[0]
    if index is IndexSet.LANE:
        stale = [known[:-8] + keys.level_position(0x0001, 1), known[:-16] + b"otherway" + known[-8:]]
    else:
        stale = [known[:-16] + keys.level_position(0x0001, 1) + known[-8:]]
    shell.store.write({(Family.INDEX, key): b"\1" for key in stale})
    shell.restart()
    assert verify(shell, repair=True) == len(stale)
    assert verify(shell, repair=False) == 0
    Recount(shell, shell.core.shard.registry.named("crawl")).run()


@pytest.mark.interpreted
def test_a_queue_shared_in_part_files_its_other_uris_only_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """QueueSpec.queue_key: an override may lead URIs into the queue of a host that shares nothing itself."""
    looked = []

    def counting(*given: Any) -> int:
        looked.append(lanes.file_rest(*given))
        return looked[-1]

    monkeypatch.setattr(dispatch, "file_rest", counting)
    shell = Shell()
    queues = QueueSettings(partition="registered-domain", assignment="host")
    rests = PolitenessSettings(delay_factor=0, min_delay_ms=1_000)
    settings = CrawlSettings(
        allowed_addresses=("loopback",),
        queues=queues,
        politeness=rests,
        robots=RobotsSettings(policy="ignore"),
    )
    shell.create("crawl", settings)
    override = override_of(queues={"queue_key": "site.example"})
    shell.do(lambda core, now: core.administration.put_override("crawl", f"{A}/", override, now))
    shell.launch("crawl", f"{A}/", "http://site.example/")
    shell.schedule("crawl", *(f"{A}/{number}" for number in range(400)))
    for number in range(20):
        shell.schedule("crawl", f"http://site.example/{number}")
        for grant in shell.grants():
            shell.finish(Report(grant.token, fetch_status=200))
        shell.now_ms += 500
    assert looked and sum(looked) < 500
    Recount(shell, shell.core.shard.registry.named("crawl")).run()
