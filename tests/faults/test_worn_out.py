"""A node of several processes at pages that threads and processes do not survive: nothing is lost, nothing is
reported twice, and the node comes back to its size."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from acceptance.programs import Programs
from faults.finite_site import FiniteSite
from faults.stage import Stage, of_those_at
from frontier_harness.waiting import WHOLE_CRAWL_S, eventually

from crawler_node.toes.chain import Step
from toehold.frontier.v1 import crawl_pb2

TOES = 6
PROCESSES = ("--toes", str(TOES), "--processes", "2")
LEASE_S = 2.0
HANG_S = 2.5
GOOD = [f"/{number}" for number in range(6)]


@pytest.fixture
def stage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.chdir(Path(__file__).parents[1])  # where the hook is found
    hosts, nasty = request.param
    with FiniteSite(hosts, [*GOOD, *nasty]) as site, Programs(tmp_path) as programs:
        stage = Stage(programs, tmp_path, site, LEASE_S)
        yield stage
        stage.client.close()


@pytest.mark.parametrize("stage", [(2, ["/loop-in-python", "/ends-the-thread"])], indirect=True)
def test_threads_that_loop_or_die_are_replaced_and_so_is_the_process_that_they_were_left_behind_in(
    stage: Stage,
) -> None:
    """S4.11, S4.13."""
    node = stage.node(*PROCESSES, "--hook", "faults.stuck_hook:page", "--max-left-behind", "0")
    stage.crawl()

    def leave_one_behind() -> None:
        # Killed before its page reaches the hook, a thread ends by itself.
        toe, *_ = eventually(lambda: stage.toes_at("/loop-in-python", Step.WRITING), "a thread that loops")
        stage.kill(toe)
        eventually(lambda: stage.is_left_behind(toe), "a thread to be left behind")

    for _ in stage.site.hosts:
        leave_one_behind()
    statuses = stage.until_finished()
    assert stage.good_ones(statuses) == [200] * len(stage.site.hosts) * (1 + len(GOOD))
    assert (
        of_those_at(statuses, "python") == of_those_at(statuses, "thread") == [-7000] * len(stage.site.hosts)
    )
    eventually(
        lambda: sum(worker.restart_count for worker in stage.pool().workers) >= 1, "a worn-out process"
    )
    eventually(lambda: stage.pool().pool.alive_count == TOES, "all toe threads")
    node.signal(signal.SIGTERM)
    assert node.wait() == 0, node.complaints


@pytest.mark.parametrize("stage", [(1, ["/loop-in-c", "/ends-the-process"])], indirect=True)
def test_processes_that_hang_or_die_are_replaced_and_their_pages_given_up_after_three_tries(
    stage: Stage,
) -> None:
    node = stage.node(*PROCESSES, "--hook", "faults.stuck_hook:page", "--hang-seconds", str(HANG_S))
    stage.crawl()
    statuses = stage.until_finished()
    assert stage.good_ones(statuses) == [200] * (1 + len(GOOD))
    assert of_those_at(statuses, "in-c") == of_those_at(statuses, "process") == [-7000]
    eventually(lambda: stage.pool().pool.alive_count == TOES, "all toe threads")
    # Three tries of two pages; both may be in the process that one of them ends. A busy machine may add one.
    assert sum(worker.restart_count for worker in stage.pool().workers) >= 3
    node.signal(signal.SIGTERM)
    assert node.wait() == 0, node.complaints


@pytest.mark.parametrize("stage", [(2, [])], indirect=True)
def test_processes_whose_supervisor_is_killed_end_by_themselves_and_the_node_can_be_started_anew(
    stage: Stage,
) -> None:
    stage.site.gate.clear()
    node = stage.node(*PROCESSES)
    stage.crawl()
    eventually(lambda: len(stage.toes_at("/")) == 2, "pages under way")
    workers = [worker.process_id for worker in stage.pool().workers]
    node.kill()
    stage.site.gate.set()
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), "the processes to end")
    stage.node(*PROCESSES)
    assert set(stage.until_finished().values()) == {200}


@pytest.mark.parametrize("stage", [(1, ["/out-of-memory"])], indirect=True)
def test_a_page_that_takes_all_memory_fails_and_pauses_the_crawl_which_goes_on_when_it_is_resumed(
    stage: Stage,
) -> None:
    """S4.12."""
    stage.node(*PROCESSES, "--hook", "faults.stuck_hook:page")
    crawl = stage.crawl()
    crawl.wait_for({crawl_pb2.CRAWL_STATE_PAUSED}, WHOLE_CRAWL_S)
    assert "could not go on at" in crawl.status().reason
    crawl.resume()
    statuses = stage.until_finished()
    assert of_those_at(statuses, "/out-of-memory") == [-3000]
    assert stage.good_ones(statuses) == [200] * (1 + len(GOOD))
