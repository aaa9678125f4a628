"""A server that has lost one of its tasks ends as if its store had failed: it never only seems to serve."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest
from click.testing import CliRunner
from frontier_harness import broken_program
from frontier_harness.broken_program import OPERATION, PARTS, STALL
from frontier_harness.calls import (
    TIMEOUT_S,
    Refusal,
    Stubs,
    next_request,
    report,
    schedule_request,
    seconds,
    seed_of,
    spec,
)
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import eventually
from grpc_health.v1 import health_pb2, health_pb2_grpc

from frontier_server.core.rows.store import StoreFailed
from frontier_server.program import data_directory, server
from frontier_server.program import program as frontier
from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

STORE = 5


@pytest.mark.parametrize("part", PARTS)
def test_a_server_that_has_lost_a_task_says_so_to_everybody_and_ends_with_exit_code_5(
    tmp_path: Path, part: str
) -> None:
    trigger = tmp_path / "break"
    program = (broken_program.__file__, part, str(trigger))
    with ServerProcess(tmp_path / "data", program=program) as server:
        stubs = server.stubs
        stubs.launch("t", seed_of("t"), of=spec(run_while_empty=True, statistics_interval=seconds(1)))
        (lease,) = stubs.pages("t")
        assert stubs.finish(report(lease)) == [("SUCCEEDED", False)]
        healths = health_pb2_grpc.HealthStub(stubs.channel).Watch(  # type: ignore[attr-defined]  # made at run time
            health_pb2.HealthCheckRequest()
        )
        assert next(healths).status == health_pb2.HealthCheckResponse.SERVING
        events = stubs.frontier.StateEvents(frontier_pb2.StateEventsRequest(crawl="t"), timeout=TIMEOUT_S)
        next(events)
        stubs.admin.CreateCrawl(admin_pb2.CreateCrawlRequest(crawl="u", spec=spec()), timeout=TIMEOUT_S)
        waits = next_request("u", wait_s=60, node="waits")
        poll = stubs.frontier.Next.future(waits, timeout=TIMEOUT_S)
        eventually(lambda: "waits" in _heard(stubs), "the call to arrive")
        trigger.touch()
        problem = until_refused(stubs)
        if problem.reason != "STORE_FAILED":  # nobody listens any more, or gRPC took the call up no more
            assert problem.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED), problem
        assert next(healths).status == health_pb2.HealthCheckResponse.NOT_SERVING
        healths.cancel()  # the server would wait for it
        with pytest.raises(grpc.RpcError) as ended:
            list(events)
        assert Refusal.of(ended.value).reason == "STORE_FAILED", ended.value
        with pytest.raises(grpc.RpcError) as ended:
            poll.result(TIMEOUT_S)
        assert Refusal.of(ended.value).reason == "STORE_FAILED"
        assert server.wait() == STORE
        told = [
            line for line in server.errors.read_text().splitlines() if line.startswith("toehold-frontier")
        ]
        assert len(told) == 1 and f"the {part} ended" in told[0] and "a defect" in told[0], told
    with ServerProcess(tmp_path / "data") as server:  # and what was acknowledged is there
        assert server.stubs.finish(report(lease)) == [("SUCCEEDED", True)]


def test_a_server_whose_writes_stall_for_good_ends_when_it_is_told_to(tmp_path: Path) -> None:
    trigger = tmp_path / "break"
    with ServerProcess(tmp_path / "data", program=(broken_program.__file__, STALL, str(trigger))) as server:
        stubs = server.stubs
        stubs.launch("t", seed_of("t"))
        trigger.touch()
        stalled = stubs.frontier.Schedule.future(
            schedule_request("t", f"{seed_of('t')}new"), timeout=TIMEOUT_S
        )
        eventually(lambda: "write_stalled" in server.errors.read_text(), "the write to stall")
        assert server.stop()[0] == STORE
        assert stalled.exception(TIMEOUT_S) is not None
        told = [
            line for line in server.errors.read_text().splitlines() if line.startswith("toehold-frontier")
        ]
        assert len(told) == 1 and "did not reach the disk" in told[0], told


def test_a_server_whose_first_writes_stall_waits_for_the_store_and_serves_then(tmp_path: Path) -> None:
    """As after a crash that came while the disk could not keep up."""
    trigger = tmp_path / "break"
    trigger.touch()
    server = ServerProcess(tmp_path / "data", program=(broken_program.__file__, STALL, str(trigger)))
    with ExitStack() as stack, ThreadPoolExecutor() as threads:
        serving = threads.submit(stack.enter_context, server)
        try:
            eventually(lambda: _tells_of_a_stall(server.errors) or serving.done(), "the write to stall")
        finally:
            trigger.unlink()
        serving.result().stubs.launch("t", seed_of("t"))


def _tells_of_a_stall(errors: Path) -> bool:
    return errors.exists() and "write_stalled" in errors.read_text()


def test_a_store_that_fails_before_anybody_is_served_is_told_with_exit_code_5(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise StoreFailed("read: IO error: Input/output error")

    monkeypatch.setattr(data_directory, "check_logs", failing)
    ended = CliRunner().invoke(frontier.main, ["--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0"])
    assert ended.exit_code == STORE, ended.exception
    (told,) = [line for line in ended.stderr.splitlines() if not line.startswith("{")]
    assert told == f"toehold-frontier: data directory {tmp_path / 'data'}: read: IO error: Input/output error"


def test_an_operation_that_fails_in_the_middle_ends_the_server_and_the_next_start_has_the_crawl_as_it_was(
    tmp_path: Path,
) -> None:
    """S0.41: memory and store may disagree then, so the server stops by itself, and says why; nothing of that
    operation is stored.
    """
    trigger = tmp_path / "break"
    program = (broken_program.__file__, OPERATION, str(trigger))
    with ServerProcess(tmp_path / "data", program=program) as server:
        stubs = server.stubs
        stubs.launch("t", seed_of("t"))
        (robots,) = stubs.next("t", wait_s=TIMEOUT_S).leases
        stubs.finish(report(robots))
        before, events = stubs.statistics("t"), len(stubs.events_so_far("t"))
        trigger.touch()
        asking = stubs.frontier.Next.future(next_request("t", wait_s=TIMEOUT_S), timeout=TIMEOUT_S)
        assert server.wait() == STORE
        problem = asking.exception(TIMEOUT_S)
        assert isinstance(problem, grpc.RpcError) and problem.code() == grpc.StatusCode.UNAVAILABLE
        told = [
            line for line in server.errors.read_text().splitlines() if line.startswith("toehold-frontier")
        ]
        assert len(told) == 1 and "a defect" in told[0], told
    with ServerProcess(tmp_path / "data") as server:
        stubs = server.stubs
        assert stubs.describe("t").status.state == crawl_pb2.CRAWL_STATE_RUNNING
        assert len(stubs.events_so_far("t")) == events
        after = stubs.statistics("t")
        for field in ("queued_count", "leased_count", "succeeded_count", "robots_fetch_count"):
            assert getattr(after, field) == getattr(before, field), field
        (page,) = stubs.pages("t")
        assert (page.uri, page.attempt) == (seed_of("t"), 1)
        assert stubs.finish(report(page)) == [("SUCCEEDED", False)]
        stubs.until("t", crawl_pb2.CRAWL_STATE_FINISHED)


def until_refused(stubs: Stubs) -> Refusal:
    """What a caller hears who goes on as if nothing had happened: seeds are announced by a job."""

    def refusal() -> Refusal | None:
        seeds = admin_pb2.AddSeedsRequest(crawl="t", uris=[seed_of("t")])
        try:
            stubs.admin.AddSeeds(iter((seeds,)), timeout=TIMEOUT_S)
        except grpc.RpcError as problem:
            return Refusal.of(problem)
        return None

    return eventually(refusal, "a refusal")


def _heard(stubs: Stubs) -> set[str]:
    """The nodes that the frontier has heard of."""
    answer = stubs.admin.GetFrontier(admin_pb2.GetFrontierRequest(), timeout=TIMEOUT_S)
    return {node.node for node in answer.nodes}


@pytest.mark.parametrize(
    ("failed", "told"),
    [("the store has failed", "the store has failed"), ("", "the machine refuses to start another thread")],
)
def test_a_server_that_gets_no_thread_to_end_with_says_what_has_failed(
    failed: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To wait for its executor's threads asyncio starts another one."""

    def refuses(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def serve(*_: object) -> str:
        await asyncio.to_thread(int)
        monkeypatch.setattr(threading.Thread, "start", refuses)
        return failed

    monkeypatch.setattr(server, "_serve", serve)
    ended = CliRunner().invoke(frontier.main, ["--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0"])
    assert ended.exit_code == STORE and told in ended.output, ended.output
