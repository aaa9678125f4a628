"""Nothing leaves the server that a power loss could take back: answers, refusals, events, log lines.

Architecture section 4: every answer and every event leaves only when all that it could have read is durable.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from frontier_harness.calls import (
    FINISH,
    PAUSE,
    RUN,
    Refusal,
    disposition_name,
    finished_request,
    next_request,
    report,
    schedule_request,
    spec,
)
from frontier_harness.held_store import HeldStore
from frontier_harness.in_process import Served, config, serving
from frontier_harness.waiting import PATIENCE_S, soon, turns
from google.protobuf.message import Message

from frontier_server.core.core import Core
from frontier_server.core.rows.store import Changes
from frontier_server.shell.runner import Runner
from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

Answered = Callable[["Desk"], Coroutine[Any, Any, None]]

WRITTEN = "http://a.example/written"
"""What a Schedule has just taken in, and no flush has covered yet."""


@dataclass
class Desk:
    """A frontier whose flushes can be held, and a crawl `t` with something for every RPC to do.

    A page of host a is out (`lease`), one of host b is finished (`done`), one of host c waits.
    """

    served: Served
    store: HeldStore
    lease: frontier_pb2.Lease
    done: frontier_pb2.Report
    operations: list[int] = field(default_factory=list)
    """How much had been written when an operation had run, one by one."""

    calls: "list[asyncio.Task[Any]]" = field(default_factory=list)

    def task(self, call: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        self.calls.append(asyncio.create_task(call))
        return self.calls[-1]

    async def undurable(self, call: Awaitable[Any]) -> "asyncio.Task[Any]":
        """Hold the flushes and let a call write."""
        self.store.hold()
        before = self.store.flushes_begun
        task = self.task(awaited(call))
        await soon(lambda: self.store.flushes_begun > before, "the write to ask for a flush")
        return task

    async def asked(self, call: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Make a call, and give it all the time that it needs but for a flush."""
        before = len(self.operations)
        task = self.task(call)
        await soon(lambda: len(self.operations) > before or task.done(), "the operation of the call")
        await self.served.channel.channel_ready()
        await turns()
        await settled(self.served)
        return task


async def awaited(call: Awaitable[Any]) -> Any:
    return await call


async def settled(served: Served) -> None:
    """A round trip that needs nothing of the frontier: what could have been answered by now has been."""
    for _ in range(3):
        probe: Any = served.channel.unary_unary("/none/such")
        with pytest.raises(grpc.aio.AioRpcError):
            await probe(b"")


class LinkedStore(HeldStore):
    """One of which a checkpoint can be made: a directory stands for it."""

    def checkpoint(self, path: Path) -> None:
        path.mkdir(parents=True)


@asynccontextmanager
async def desk(data: Path) -> AsyncIterator[Desk]:
    store = LinkedStore()
    async with serving(store, config(data)) as served:
        await prepare(served)
        leases: list[frontier_pb2.Lease] = []
        while len(leases) < 3:
            answer = await served.frontier.Next(next_request("t", wait_s=20))
            robots = [lease for lease in answer.leases if lease.purpose == frontier_pb2.PURPOSE_ROBOTS]
            leases.extend(lease for lease in answer.leases if lease not in robots)
            if robots:
                await served.frontier.Finished(finished_request(*(report(lease) for lease in robots)))
        by_host = {lease.uri: lease for lease in leases}
        done = report(by_host["http://b.example/"])
        released = frontier_pb2.Report(
            token=by_host["http://c.example/"].token, outcome=frontier_pb2.OUTCOME_RELEASED
        )
        await served.frontier.Finished(finished_request(done, released))
        made = Desk(served, store, by_host["http://a.example/"], done)
        noted(served.runner, made)
        try:
            yield made
        finally:
            store.release()
            for call in made.calls:
                call.cancel()
            await asyncio.gather(*made.calls, return_exceptions=True)


async def prepare(served: Served) -> None:
    """Crawl `t` runs with three seeds; crawl `new` waits for its launch."""
    for name in ("t", "new"):
        await served.admin.CreateCrawl(admin_pb2.CreateCrawlRequest(crawl=name, spec=spec()))
        seeds = [f"http://{host}.example/" for host in "abc"]
        await served.admin.AddSeeds(iter([admin_pb2.AddSeedsRequest(crawl=name, uris=seeds)]))
    await served.admin.LaunchCrawl(admin_pb2.LaunchCrawlRequest(crawl="t"))


def noted(runner: Runner, made: Desk) -> None:
    """Note whenever an operation has run, whatever became of it."""
    apply = runner.apply

    async def noting(
        operation: Callable[[Core, int], tuple[Any, Changes]], tells_counts: bool = True
    ) -> tuple[Any, int]:
        def inner(core: Core, now_ms: int) -> tuple[Any, Changes]:
            try:
                return operation(core, now_ms)
            finally:
                made.operations.append(len(made.store.written))

        return await apply(inner, tells_counts)

    runner.apply = noting  # type: ignore[method-assign]  # the test's own runner


# What each RPC answers once it may.


async def _schedule(at: Desk) -> None:
    answer = await at.served.frontier.Schedule(schedule_request("t", WRITTEN))
    assert answer.verdicts == [crawl_pb2.VERDICT_ALREADY_SEEN]


async def _schedule_new(at: Desk) -> None:
    answer = await at.served.frontier.Schedule(schedule_request("t", "http://b.example/new"))
    assert answer.verdicts == [crawl_pb2.VERDICT_QUEUED]


async def _schedule_malformed(at: Desk) -> None:
    answer = await at.served.frontier.Schedule(schedule_request("t", "nope"))
    assert answer.verdicts == [crawl_pb2.VERDICT_MALFORMED]


async def _next(at: Desk) -> None:
    answer = await at.served.frontier.Next(next_request("t"))
    assert [lease.uri for lease in answer.leases] == ["http://c.example/"]


async def _next_empty(at: Desk) -> None:
    answer = await at.served.frontier.Next(next_request("new"))
    assert answer.empty_reason == frontier_pb2.EMPTY_REASON_NOT_RUNNING


async def _finished(at: Desk) -> None:
    await at_once(at, report(at.lease), "SUCCEEDED", False)


async def _finished_repeated(at: Desk) -> None:
    await at_once(at, at.done, "SUCCEEDED", True)


async def _finished_forged(at: Desk) -> None:
    await at_once(at, report(b"x"), "UNKNOWN_TOKEN", False)


async def at_once(at: Desk, sent: frontier_pb2.Report, disposition: str, repeated: bool) -> None:
    answer = await at.served.frontier.Finished(finished_request(sent))
    told = [(disposition_name(result.disposition), result.repeated) for result in answer.results]
    assert told == [(disposition, repeated)]


async def _heartbeat(at: Desk) -> None:
    beat = frontier_pb2.HeartbeatRequest(
        node="node", session="session", tokens=[at.lease.token, at.done.token]
    )
    answer = await at.served.frontier.Heartbeat(beat)
    assert list(answer.ended_tokens) == [at.done.token]


async def _request_state(at: Desk) -> None:
    answer = await at.served.frontier.RequestState(
        frontier_pb2.RequestStateRequest(crawl="t", target_state=PAUSE)
    )
    assert answer.status.state == crawl_pb2.CRAWL_STATE_PAUSING


async def _request_state_again(at: Desk) -> None:
    answer = await at.served.frontier.RequestState(
        frontier_pb2.RequestStateRequest(crawl="t", target_state=RUN)
    )
    assert answer.status.state == crawl_pb2.CRAWL_STATE_RUNNING


async def _state_events(at: Desk) -> None:
    answer = await at.served.frontier.StateEvents(frontier_pb2.StateEventsRequest(crawl="t")).read()
    assert isinstance(answer, frontier_pb2.StateEventsResponse)
    assert answer.present.state == crawl_pb2.CRAWL_STATE_RUNNING


async def _create_crawl(at: Desk) -> None:
    answer = await at.served.admin.CreateCrawl(admin_pb2.CreateCrawlRequest(crawl="x", spec=spec()))
    assert answer.crawl.crawl == "x"


async def _add_seeds(at: Desk) -> None:
    seeds = admin_pb2.AddSeedsRequest(crawl="new", uris=["http://z.example/"])
    assert (await at.served.admin.AddSeeds(iter([seeds]))).added_count == 1


async def _launch_crawl(at: Desk) -> None:
    answer = await at.served.admin.LaunchCrawl(admin_pb2.LaunchCrawlRequest(crawl="new"))
    assert answer.status.state == crawl_pb2.CRAWL_STATE_PREPARING


async def _update_crawl(at: Desk) -> None:
    change = admin_pb2.UpdateCrawlRequest(crawl="t", spec=crawl_pb2.CrawlSpec(weight=7))
    assert (await at.served.admin.UpdateCrawl(change)).crawl.spec.weight == 7


async def _tear_down_crawl(at: Desk) -> None:
    answer = await at.served.admin.TearDownCrawl(admin_pb2.TearDownCrawlRequest(crawl="t"))
    assert answer.begun and answer.status.state == crawl_pb2.CRAWL_STATE_STOPPING


async def _tear_down_crawl_at_once(at: Desk) -> None:
    answer = await at.served.admin.TearDownCrawl(admin_pb2.TearDownCrawlRequest(crawl="new"))
    assert answer.begun and answer.status.torn_down


async def _set_pool_size(at: Desk) -> None:
    await at.served.admin.SetPoolSize(admin_pb2.SetPoolSizeRequest(node="node", size=3))


async def _drain_node(at: Desk) -> None:
    await at.served.admin.DrainNode(admin_pb2.DrainNodeRequest(node="node"))


async def _create_checkpoint(at: Desk) -> None:
    answer = await at.served.admin.CreateCheckpoint(admin_pb2.CreateCheckpointRequest())
    assert answer.checkpoint.checkpoint.startswith("cp00001-")


async def _delete_checkpoint(at: Desk) -> None:
    name = "cp00001-20260101000000"
    (at.served.logs.path("t").parents[2] / "checkpoints" / name).mkdir(parents=True)
    await at.served.admin.DeleteCheckpoint(admin_pb2.DeleteCheckpointRequest(checkpoint=name))


async def _get_crawl(at: Desk) -> None:
    answer = await at.served.admin.GetCrawl(admin_pb2.GetCrawlRequest(crawl="t"))
    assert answer.crawl.seed_count == 3


async def _list_crawls(at: Desk) -> None:
    answer = await at.served.admin.ListCrawls(admin_pb2.ListCrawlsRequest())
    assert [crawl.crawl for crawl in answer.crawls] == ["new", "t"]


async def _delete_crawl(at: Desk) -> None:
    await at.served.admin.DeleteCrawl(admin_pb2.DeleteCrawlRequest(crawl="new"))


async def _get_statistics(at: Desk) -> None:
    answer = await at.served.admin.GetStatistics(admin_pb2.GetStatisticsRequest(crawl="t"))
    assert answer.statistics.discovered_count == 4  # three seeds, and what was just written


async def _list_queues(at: Desk) -> None:
    answer = await at.served.admin.ListQueues(admin_pb2.ListQueuesRequest(crawl="t"))
    assert sum(queue.enqueued_count for queue in answer.queues) == 4


def _asking(method: str, request: Message, refused: grpc.StatusCode | None = None) -> Answered:
    """A call of an operator's RPC; a refusal tells of what is stored as well."""

    async def call(at: Desk) -> None:
        rpc: Any = getattr(at.served.admin, method)
        streamed = _METHODS[method].client_streaming
        called = rpc(iter([request]) if streamed else request)
        code: grpc.StatusCode | None = None
        try:
            await (called.read() if _METHODS[method].server_streaming else called)
        except grpc.aio.AioRpcError as problem:
            code = problem.code()
        assert code == refused

    return call


A = admin_pb2
_CHANGE = A.QueueChange(paused=True)
_ENTRY = A.ImportEntry(candidate=frontier_pb2.Candidate(uri="http://a.example/imported"))
_UNFIT = crawl_pb2.CrawlSpec(weight=-1)
_OVERRIDE = crawl_pb2.Override(surt_prefix="a.example")
_OVERRIDE.settings.retry.max_attempts = 3
# What operators ask, and how it is refused if it is.
ASKED: tuple[tuple[str, Message, grpc.StatusCode | None], ...] = (
    ("GetQueue", A.GetQueueRequest(crawl="t", queue_key="example,b,"), None),
    ("GetQueue", A.GetQueueRequest(crawl="t", queue_key="none"), grpc.StatusCode.NOT_FOUND),
    ("UpdateQueue", A.UpdateQueueRequest(crawl="t", queue_key="example,b,", change=_CHANGE), None),
    ("UpdateCrawl", A.UpdateCrawlRequest(crawl="t", spec=_UNFIT), grpc.StatusCode.INVALID_ARGUMENT),
    ("ListLargestQueues", A.ListLargestQueuesRequest(crawl="t"), None),
    ("ListSlowestQueues", A.ListSlowestQueuesRequest(crawl="t"), None),
    ("ListUris", A.ListUrisRequest(crawl="t"), None),
    ("GetUri", A.GetUriRequest(crawl="t", uri="http://a.example/"), None),
    ("NoteUris", A.NoteUrisRequest(crawl="t", uris=["http://a.example/noted"]), None),
    ("ListSeenUris", A.ListSeenUrisRequest(crawl="t"), None),
    ("CountSeenUris", A.CountSeenUrisRequest(crawl="t"), None),
    ("AddSeedBatch", A.AddSeedBatchRequest(crawl="t", uris=["http://a.example/batch"]), None),
    ("ForgetUris", A.ForgetUrisRequest(crawl="t", uris=["http://b.example/"]), None),
    ("ImportUris", A.ImportUrisRequest(crawl="t", entries=[_ENTRY], complete=True), None),
    ("ExportUris", A.ExportUrisRequest(crawl="t"), None),
    ("StartJob", A.StartJobRequest(crawl="t", verify=A.VerifyJob()), None),
    ("ListJobs", A.ListJobsRequest(crawl="t"), None),
    ("GetJob", A.GetJobRequest(crawl="t", job=1), None),
    ("CancelJob", A.CancelJobRequest(crawl="t", job=99), grpc.StatusCode.NOT_FOUND),
    ("PutOverride", A.PutOverrideRequest(crawl="t", override=_OVERRIDE), None),
    (
        "DeleteOverride",
        A.DeleteOverrideRequest(crawl="t", surt_prefix="a.example"),
        grpc.StatusCode.NOT_FOUND,
    ),
    ("ListOverrides", A.ListOverridesRequest(crawl="t"), None),
    ("ListHosts", A.ListHostsRequest(crawl="t"), None),
    ("ListSources", A.ListSourcesRequest(crawl="t"), None),
    ("ListSeeds", A.ListSeedsRequest(crawl="t"), None),
    ("ListRefusals", A.ListRefusalsRequest(crawl="t"), None),
    ("ReopenCrawl", A.ReopenCrawlRequest(crawl="t"), grpc.StatusCode.FAILED_PRECONDITION),
    ("ForgetNode", A.ForgetNodeRequest(node="node"), grpc.StatusCode.FAILED_PRECONDITION),
    ("Explain", A.ExplainRequest(crawl="t"), None),
    ("StreamOutcomes", A.StreamOutcomesRequest(crawl="t"), None),
)
_METHODS = A.DESCRIPTOR.services_by_name["FrontierAdminService"].methods_by_name


async def _get_frontier(at: Desk) -> None:
    answer = await at.served.admin.GetFrontier(admin_pb2.GetFrontierRequest())
    assert [node.node for node in answer.nodes] == ["node"]


async def _get_caller(at: Desk) -> None:
    assert "admin" in (await at.served.admin.GetCaller(admin_pb2.GetCallerRequest())).roles


ANSWERS: dict[str, list[Answered]] = {
    "Schedule": [_schedule, _schedule_new, _schedule_malformed],
    "Next": [_next, _next_empty],
    "Finished": [_finished, _finished_repeated, _finished_forged],
    "Heartbeat": [_heartbeat],
    "RequestState": [_request_state, _request_state_again],
    "StateEvents": [_state_events],
    "CreateCrawl": [_create_crawl],
    "AddSeeds": [_add_seeds],
    "LaunchCrawl": [_launch_crawl],
    "UpdateCrawl": [_update_crawl],
    "TearDownCrawl": [_tear_down_crawl, _tear_down_crawl_at_once],
    "SetPoolSize": [_set_pool_size],
    "DrainNode": [_drain_node],
    "CreateCheckpoint": [_create_checkpoint],
    "DeleteCheckpoint": [_delete_checkpoint],
    "GetCrawl": [_get_crawl],
    "ListCrawls": [_list_crawls],
    "DeleteCrawl": [_delete_crawl],
    "GetStatistics": [_get_statistics],
    "ListQueues": [_list_queues],
    "GetFrontier": [_get_frontier],
    "GetCaller": [_get_caller],
}
for _method, _request, _refused in ASKED:
    ANSWERS.setdefault(_method, []).append(_asking(_method, _request, _refused))


# Its answer is what the disk has: it reads nothing of the store.
OF_THE_DISK = {"ListCheckpoints"}


def test_no_rpc_is_forgotten_here() -> None:
    methods = {
        method.name
        for file in (frontier_pb2.DESCRIPTOR, admin_pb2.DESCRIPTOR)
        for service in file.services_by_name.values()
        for method in service.methods
    }
    assert set(ANSWERS) | OF_THE_DISK == methods


@pytest.mark.parametrize("answered", [call for calls in ANSWERS.values() for call in calls])
async def test_no_answer_leaves_while_what_it_could_have_read_is_not_durable(
    tmp_path: Path, answered: Answered
) -> None:
    async with desk(tmp_path) as at:
        write = await at.undurable(at.served.frontier.Schedule(schedule_request("t", WRITTEN)))
        asked = await at.asked(answered(at))
        assert not asked.done() and not write.done()
        at.store.release()
        await asyncio.wait_for(asyncio.gather(asked, write), PATIENCE_S)


async def _exists(at: Desk) -> None:
    await at.served.admin.CreateCrawl(admin_pb2.CreateCrawlRequest(crawl="x", spec=spec()))


async def _unlaunchable(at: Desk) -> None:
    await at.served.admin.LaunchCrawl(admin_pb2.LaunchCrawlRequest(crawl="x"))


async def _schedule_other(at: Desk) -> None:
    await at.served.frontier.Schedule(schedule_request("new", "http://a.example/other"))


async def _resume(at: Desk) -> None:
    await at.served.frontier.RequestState(frontier_pb2.RequestStateRequest(crawl="new", target_state=RUN))


async def _describe(at: Desk) -> None:
    await at.served.admin.GetCrawl(admin_pb2.GetCrawlRequest(crawl="new"))


async def _follow(at: Desk) -> None:
    await at.served.frontier.StateEvents(frontier_pb2.StateEventsRequest(crawl="new")).read()


def _created(at: Desk) -> Awaitable[Any]:
    return at.served.admin.CreateCrawl(admin_pb2.CreateCrawlRequest(crawl="x", spec=spec()))


def _stopped(at: Desk) -> Awaitable[Any]:
    request = frontier_pb2.RequestStateRequest(crawl="new", target_state=FINISH)
    return at.served.frontier.RequestState(request)


def _torn_down(at: Desk) -> Awaitable[Any]:
    return at.served.admin.TearDownCrawl(admin_pb2.TearDownCrawlRequest(crawl="new"))


def _deleted(at: Desk) -> Awaitable[Any]:
    return at.served.admin.DeleteCrawl(admin_pb2.DeleteCrawlRequest(crawl="new"))


@pytest.mark.parametrize(
    ("written", "refused", "reason"),
    [
        (_created, _exists, "CRAWL_EXISTS"),
        (_created, _unlaunchable, "NO_SEEDS"),
        (_stopped, _schedule_other, "CRAWL_FINISHED"),
        (_stopped, _resume, "ILLEGAL_STATE"),
        (_torn_down, _schedule_other, "CRAWL_TORN_DOWN"),
        (_torn_down, _resume, "ILLEGAL_STATE"),
        (_deleted, _describe, "UNKNOWN_CRAWL"),
        (_deleted, _follow, "UNKNOWN_CRAWL"),
    ],
)
async def test_no_refusal_leaves_while_what_it_tells_of_is_not_durable(
    tmp_path: Path,
    written: Callable[[Desk], Awaitable[Any]],
    refused: Answered,
    reason: str,
) -> None:
    """A power loss would make them untrue: the crawl is not there, or goes on, or is there again."""
    async with desk(tmp_path) as at:
        write = await at.undurable(written(at))
        asked = await at.asked(refused(at))
        assert not asked.done() and not write.done()
        at.store.release()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await asyncio.wait_for(asked, PATIENCE_S)
        assert Refusal.of(caught.value).reason == reason
        await asyncio.wait_for(write, PATIENCE_S)


async def test_a_node_that_waits_hears_of_a_uri_only_when_it_is_durable(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await _next(at)  # nothing is left to lease
        waiting = await at.asked(awaited(at.served.frontier.Next(next_request("t", wait_s=60))))
        write = await at.undurable(at.served.frontier.Schedule(schedule_request("t", "http://b.example/new")))
        await soon(lambda: len(at.operations) >= 4, "the node that waits to look again")
        await settled(at.served)
        assert not waiting.done() and not write.done()
        at.store.release()
        answer = await asyncio.wait_for(waiting, PATIENCE_S)
        assert [lease.uri for lease in answer.leases] == ["http://b.example/new"]
        await write


async def test_an_event_reaches_its_readers_only_when_it_is_durable(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        stream = at.served.frontier.StateEvents(frontier_pb2.StateEventsRequest(crawl="t"))
        await stream.read()
        event = at.task(awaited(stream.read()))
        await settled(at.served)
        pause = frontier_pb2.RequestStateRequest(crawl="t", target_state=PAUSE)
        before = len(at.operations)
        write = await at.undurable(at.served.frontier.RequestState(pause))
        await soon(lambda: len(at.operations) > before + 1, "the reader to look")
        await settled(at.served)
        assert not event.done() and not write.done()
        at.store.release()
        answer = await asyncio.wait_for(event, PATIENCE_S)
        assert answer.event.operator_acted.action == "pause"
        answer = await asyncio.wait_for(awaited(stream.read()), PATIENCE_S)
        assert answer.event.status_changed.state == crawl_pb2.CRAWL_STATE_PAUSING
        await write


async def test_an_outcome_reaches_its_readers_only_when_it_is_durable(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        request = admin_pb2.StreamOutcomesRequest(crawl="t", follow=True)
        stream = at.served.admin.StreamOutcomes(request)
        await stream.read()
        outcome = at.task(awaited(stream.read()))
        await settled(at.served)
        before = len(at.operations)
        write = await at.undurable(at.served.frontier.Finished(finished_request(report(at.lease))))
        await soon(lambda: len(at.operations) > before + 1, "the reader to look")
        await settled(at.served)
        assert not outcome.done() and not write.done()
        at.store.release()
        answer = await asyncio.wait_for(outcome, PATIENCE_S)
        assert [told.uri for told in answer.outcomes] == ["http://a.example/"]
        await write


async def test_a_line_reaches_the_crawl_log_only_when_its_disposition_is_durable(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        logging = asyncio.create_task(at.served.logs.run())
        log = at.served.logs.path("t")
        await soon(lambda: log.exists() and " http://b.example/ " in log.read_text(), "a line of the log")
        before = log.read_text()
        operations = len(at.operations)
        write = await at.undurable(at.served.frontier.Finished(finished_request(report(at.lease))))
        await soon(lambda: len(at.operations) > operations + 1, "the log to look")
        await settled(at.served)
        assert log.read_text() == before and not write.done()
        at.store.release()
        await soon(lambda: log.read_text() != before, "the line of the log")
        assert log.read_text().removeprefix(before).split()[3] == "http://a.example/"
        await write
        logging.cancel()
        await asyncio.gather(logging, return_exceptions=True)
        await at.served.logs.drain()


async def test_a_flush_covers_only_what_was_written_before_it_began(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        first = await at.undurable(at.served.frontier.Schedule(schedule_request("t", WRITTEN)))
        during = await at.asked(_schedule_new(at))
        read = await at.asked(_get_crawl(at))
        ended = at.store.flushes_ended
        at.store.release(1)
        await asyncio.wait_for(first, PATIENCE_S)
        await soon(lambda: at.store.flushing, "a flush of its own for what was written during a flush")
        await settled(at.served)
        assert not during.done() and not read.done()
        assert at.store.flushes_ended == ended + 1
        at.store.release(1)
        await asyncio.wait_for(asyncio.gather(during, read), PATIENCE_S)


async def test_one_flush_serves_everybody_who_waits(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        first = await at.undurable(at.served.frontier.Schedule(schedule_request("t", WRITTEN)))
        calls = [
            await at.asked(
                awaited(at.served.frontier.Schedule(schedule_request("t", f"http://b.example/{number}")))
            )
            for number in range(10)
        ]
        begun = at.store.flushes_begun
        at.store.release()
        await asyncio.wait_for(asyncio.gather(first, *calls), PATIENCE_S)
        assert at.store.flushes_begun == begun + 1


async def test_what_is_durable_is_answered_without_a_flush(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await _get_crawl(at)
        at.store.hold()
        begun = at.store.flushes_begun
        await asyncio.wait_for(
            asyncio.gather(_get_crawl(at), _list_crawls(at), _finished_repeated(at)), PATIENCE_S
        )
        assert at.store.flushes_begun == begun


async def test_verdicts_on_durable_uris_are_answered_without_a_flush(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await at.served.frontier.Schedule(schedule_request("t", WRITTEN))
        at.store.hold()
        begun = at.store.flushes_begun
        await asyncio.wait_for(asyncio.gather(_schedule(at), _schedule(at)), PATIENCE_S)
        assert at.store.flushes_begun == begun


async def test_statistics_leave_only_when_the_verdicts_that_they_count_are_durable(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await at.served.frontier.Schedule(schedule_request("t", WRITTEN))
        at.store.hold()
        await asyncio.wait_for(_schedule(at), PATIENCE_S)
        asked = await at.asked(_get_statistics(at))
        assert not asked.done()
        at.store.release()
        await asyncio.wait_for(asked, PATIENCE_S)
