"""A node's toe threads under load: their number changed, threads killed and dying, and a node that ends. No
URI is lost or reported twice, and reports show the truth meanwhile.
"""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from acceptance.programs import Programs
from faults.finite_site import FiniteSite
from faults.stage import Stage, of_those_at
from frontier_harness.waiting import PATIENCE_S, eventually

HOSTS = 66
MOST, FEWEST, KILLED = 64, 4, 10


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """Leases live long: nothing comes back by lapsing."""
    monkeypatch.chdir(Path(__file__).parents[1])  # where the hook is found
    with FiniteSite(HOSTS, ["/good", "/ends-the-thread"]) as site, Programs(tmp_path) as programs:
        stage = Stage(programs, tmp_path, site, lease_s=120.0)
        yield stage
        stage.client.close()


def test_the_pool_comes_to_its_size_whatever_happens_to_its_threads(stage: Stage) -> None:
    """S4.3 to S4.5, S4.7, S4.14, D12: 1, 64 and 4 threads; ten killed at work, and as many dead as there are
    hosts."""
    stage.site.gate.clear()
    node = stage.node("--toes", "1", "--hook", "faults.stuck_hook:page")
    stage.crawl()
    eventually(lambda: len(stage.toes_at("/")) == 1, "the one thread to be at work")
    stage.resize(MOST)
    eventually(lambda: len(stage.toes_at("/")) == MOST, "all threads to be at work")
    stage.resize(FEWEST)
    assert stage.pool().pool.size == FEWEST and stage.pool().pool.alive_count == MOST
    assert sum(toe.retired for toe in stage.toes_at("/")) == MOST - FEWEST
    doomed = stage.toes_at("/")[:KILLED]
    for toe in doomed:
        stage.kill(toe)
    left = MOST - KILLED + FEWEST  # those that had retired are not missed
    eventually(
        lambda: stage.pool().pool.alive_count == left, "killed threads to end, and some to be replaced"
    )
    stage.site.gate.set()
    eventually(lambda: stage.pool().pool.alive_count == FEWEST, "the pool to come to its size")
    statuses = stage.until_finished()
    died = [*of_those_at(statuses, "/ends-the-thread")]
    eventually(lambda: stage.pool().pool.died_count == len(died), "the last one that died to be noticed")
    eventually(lambda: stage.pool().pool.alive_count == FEWEST, "the pool to come to its size again")
    told = stage.pool().pool
    serials = [toe.serial for toe in stage.toes_at("")]
    assert sorted(toe.uri for toe in doomed) == sorted(
        url for url, status in statuses.items() if status == -7000 and url.endswith("/")
    )
    assert (told.killed_count, told.abandoned_count) == (KILLED, 0)
    assert set(died) == {-7000} and set(of_those_at(statuses, "/good")) == {200}
    assert len(set(serials)) == FEWEST and min(serials) > MOST, "numbers are never used again"
    node.signal(signal.SIGTERM)
    assert node.wait() == 0, node.complaints


@pytest.mark.parametrize("processes", [(), ("--processes", "2")], ids=["one process", "two processes"])
def test_a_node_that_is_told_to_end_reports_what_it_has_begun_and_hands_back_the_rest_at_once(
    stage: Stage, processes: tuple[str, ...]
) -> None:
    stage.site.gate.clear()
    stage.site.pages.remove("/ends-the-thread")
    node = stage.node("--toes", "32", *processes)
    crawl = stage.crawl()
    eventually(lambda: len(stage.toes_at("/")) == 32, "all threads to be at work")
    begun = {toe.uri for toe in stage.toes_at("/")}
    node.signal(signal.SIGTERM)
    eventually(lambda: stage.pool().draining, "the node to drain")
    stage.site.gate.set()
    assert node.wait(PATIENCE_S) == 0, node.complaints
    assert crawl.statistics().statistics.leased_count == 0, "nothing waits for a lease to lapse"
    eventually(
        lambda: {line.url for line in stage.outcomes()} >= begun, "lines in crawl.log, which come in batches"
    )
    stage.node("--toes", "32", name="next")
    statuses = stage.until_finished()
    assert set(statuses.values()) == {200}
    assert crawl.statistics().statistics.lapsed_count == 0
    assert max(stage.site.asked().values()) == 1, "each page was asked for once"
