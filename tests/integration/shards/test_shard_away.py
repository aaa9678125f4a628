"""A shard that is away is named wherever it is missed, and what was asked for goes on when it is back."""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import grpc
import pytest
from frontier_harness.calls import FINISH, PAUSE, TIMEOUT_S, Stubs, fresh_name, named, refused, report, spec
from frontier_harness.members import kill, members
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import eventually
from google.protobuf.duration_pb2 import Duration

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2
from toehold.shard.v1 import shard_pb2, shard_pb2_grpc

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
RUNNING, DONE = admin_pb2.JOB_STATE_RUNNING, admin_pb2.JOB_STATE_DONE
CANCELLED = admin_pb2.JOB_STATE_CANCELLED
WHOLE_TLD = crawl_pb2.ScopeSpec(surt_prefixes=["http://(example,"])
STREAMS = ("StreamOutcomes", "ExportUris")


@pytest.fixture
def wide(stubs: Stubs, sites: list[str]) -> str:
    """A crawl with three pages of each of twelve sites, which is paused."""
    crawl = fresh_name()
    stubs.launch(crawl, *sites)
    stubs.schedule(crawl, *(f"{site}{page}" for site in sites for page in ("a", "b")))
    stubs.request(crawl, PAUSE)
    stubs.until(crawl, crawl_pb2.CRAWL_STATE_PAUSED)
    return crawl


@contextmanager
def away(server: ServerProcess, name: str) -> Iterator[None]:
    """A member that stands still, and goes on afterwards."""
    pid = members(server.child)[name]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def limited_by(stubs: Stubs, crawl: str) -> str:
    """What limits a crawl, asked with a deadline that a shard which stands still uses up."""
    request = admin_pb2.GetStatisticsRequest(crawl=crawl)
    return stubs.admin.GetStatistics(request, timeout=2).statistics.limited_by


def test_a_shard_that_stands_still_is_named_and_its_part_of_a_job_goes_on_later(
    divided: ServerProcess, stubs: Stubs, wide: str
) -> None:
    before = stubs.statistics(wide)
    with away(divided, "shard-1"):
        eventually(lambda: limited_by(stubs, wide).startswith("shard 1 is away"), "its absence to be noted")
        told = stubs.statistics(wide)
        assert (told.queued_count, told.discovered_count) == (before.queued_count, before.discovered_count)
        problem = refused(lambda: stubs.ask("ListQueues", wide), UNAVAILABLE, "SHARD_AWAY", "shard 1")
        assert problem.metadata == {"shard": "1"}
        reasons = stubs.ask("Explain", wide).reasons
        assert [reason.why for reason in reasons] == [admin_pb2.WHY_PAUSED, admin_pb2.WHY_SHARD_AWAY]
        outcomes = {seed.outcome for seed in stubs.ask("ListSeeds", wide).seeds}
        assert "not known now: shard 1 is away" in outcomes and len(outcomes) > 1
        asked = {"queue_pattern": ".*", "uri_pattern": ".*[ab]"}
        job = stubs.ask("StartJob", wide, delete_uris=asked).job

        def told_of() -> bool:
            now = stubs.ask("GetJob", wide, job=job.job).job
            return now.state == RUNNING and list(now.findings)[:1] != [] and 0 < now.changed_count < 24

        eventually(told_of, "the other parts of the job")
        assert stubs.ask("GetJob", wide, job=job.job).job.findings[0].startswith("shard 1 is away")
        kill(divided, "front")
        eventually(lambda: answers(stubs), "the front to be back")
        assert stubs.ask("GetJob", wide, job=job.job).job.state == RUNNING
    ended = stubs.ended(wide, job.job)
    assert (ended.state, ended.changed_count) == (DONE, 24)
    assert len(stubs.waiting(wide)) == 12
    assert [named(event) for event in stubs.events_so_far(wide)].count("job_ended") == 1


def test_a_job_that_is_cancelled_ends_when_the_last_part_has(
    divided: ServerProcess, stubs: Stubs, wide: str
) -> None:
    with away(divided, "shard-2"):
        eventually(lambda: limited_by(stubs, wide).startswith("shard 2 is away"), "its absence to be noted")
        job = stubs.ask("StartJob", wide, retire_queues={"queue_pattern": ".*"}).job.job
        stubs.ask("CancelJob", wide, job=job)
        assert stubs.ask("GetJob", wide, job=job).job.state == admin_pb2.JOB_STATE_CANCELLING
    assert stubs.ended(wide, job).state == CANCELLED


def test_an_act_is_recorded_of_which_a_shard_may_have_done_its_part(
    divided: ServerProcess, stubs: Stubs, wide: str, sites: list[str]
) -> None:
    with away(divided, "shard-1"):  # which nobody knows yet
        note = partial(stubs.ask, "NoteUris", wide, uris=[f"{site}noted" for site in sites])
        refused(note, UNAVAILABLE, "SHARD_AWAY", "shard 1")
    acts = [event.operator_acted.action for event in stubs.events_so_far(wide)]
    assert acts.count("note-uris") == 1
    eventually(lambda: answers_of_all(stubs), "the shard to be back")


def test_a_checkpoint_is_refused_at_once_while_a_shard_is_away(
    divided: ServerProcess, stubs: Stubs, wide: str
) -> None:
    """Otherwise reports to all others would be held back until the shard is given up."""
    request = admin_pb2.CreateCheckpointRequest()
    with away(divided, "shard-1"):
        eventually(lambda: not answers_of_all(stubs), "its absence to be noted")
        create = partial(stubs.admin.CreateCheckpoint, request, timeout=2)
        refused(create, UNAVAILABLE, "SHARD_AWAY", "shard 1")
    eventually(lambda: answers_of_all(stubs), "the shard to be back")
    assert stubs.admin.CreateCheckpoint(request, timeout=TIMEOUT_S).checkpoint.checkpoint


def test_a_shard_gives_its_part_of_a_set_only_while_it_holds_reports_back(divided: ServerProcess) -> None:
    """One that is killed and comes back in the middle of a set has let some through."""
    name = "cp00099-20261128090807"
    with grpc.insecure_channel(f"unix:{divided.data}/sockets/shard-0.sock") as channel:
        shard = shard_pb2_grpc.ShardServiceStub(channel)
        copy = partial(shard.CopyStore, shard_pb2.CopyStoreRequest(checkpoint=name), timeout=TIMEOUT_S)
        refused(copy, grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED", "begun anew")
        hold = shard_pb2.HoldReportsRequest(hold_duration=Duration(seconds=30))
        shard.HoldReports(hold, timeout=TIMEOUT_S)
        shard.DeleteCopy(shard_pb2.DeleteCopyRequest(checkpoint=name), timeout=TIMEOUT_S)
        assert copy() == shard_pb2.CopyStoreResponse()
        shard.HoldReports(shard_pb2.HoldReportsRequest(), timeout=TIMEOUT_S)
        shard.DeleteCopy(shard_pb2.DeleteCopyRequest(checkpoint=name), timeout=TIMEOUT_S)


def test_seeds_are_offered_once_although_those_of_a_shard_wait_for_it(
    divided: ServerProcess, stubs: Stubs, sites: list[str]
) -> None:
    crawl = fresh_name()
    stubs.launch(crawl, sites[0], of=spec(run_while_empty=True, scope=WHOLE_TLD))
    eventually(lambda: stubs.describe(crawl).announced_seed_count == 1, "the first announcement")
    with away(divided, "shard-1"):
        eventually(lambda: not answers_of_all(stubs), "its absence to be noted")
        stubs.seed(crawl, *sites[1:])
        eventually(lambda: len({lease.queue_key for lease in stubs.pages(crawl)}) > 1, "seeds of the others")
        assert stubs.describe(crawl).announced_seed_count == 1
    eventually(lambda: stubs.describe(crawl).announced_seed_count == len(sites), "the announcement")
    eventually(lambda: stubs.statistics(crawl).discovered_count == len(sites), "the seeds")
    assert dict(stubs.statistics(crawl).verdict_counts) == {"QUEUED": len(sites)}


def test_a_session_that_was_replaced_is_refused_by_a_shard_that_was_away_before(
    divided: ServerProcess, stubs: Stubs, wide: str
) -> None:
    node = fresh_name()

    def heartbeat(session: str) -> frontier_pb2.HeartbeatResponse:
        request = frontier_pb2.HeartbeatRequest(node=node, session=session)
        return stubs.frontier.Heartbeat(request, timeout=TIMEOUT_S)

    with away(divided, "shard-2"):
        eventually(lambda: not answers_of_all(stubs), "its absence to be noted")
        heartbeat("first")
    eventually(lambda: answers_of_all(stubs), "the shard to be back")
    heartbeat("second")
    for _ in range(2):
        refused(partial(heartbeat, "first"), grpc.StatusCode.FAILED_PRECONDITION, "SESSION_SUPERSEDED", node)
    assert heartbeat("second").rival_session == "first"


def test_outcomes_are_followed_until_a_shard_is_away_and_on_at_the_last_cursor(
    divided: ServerProcess, stubs: Stubs, sites: list[str]
) -> None:
    crawl = fresh_name()
    stubs.launch(crawl, *sites, of=spec(run_while_empty=True))
    request = admin_pb2.StreamOutcomesRequest(crawl=crawl, cursor="start", follow=True)
    stream = stubs.admin.StreamOutcomes(request, timeout=TIMEOUT_S)
    cursor = next(stream).cursor
    leases = stubs.pages(crawl, least=12)
    stubs.finish(*(report(lease) for lease in leases[:6]))
    read: list[str] = []
    while len(read) < 18:  # with the robots.txt of each site
        message = next(stream)
        read += [outcome.uri for outcome in message.outcomes]
        cursor = message.cursor
    with away(divided, "shard-0"):
        problem = refused(lambda: list(stream), UNAVAILABLE, "SHARD_AWAY", "shard 0")
        assert problem.metadata == {"shard": "0"}
    eventually(lambda: finishes(stubs, leases[6:]), "the shard to be back")
    stubs.request(crawl, FINISH)
    stubs.until(crawl, crawl_pb2.CRAWL_STATE_FINISHED)
    rest = stubs.ask("StreamOutcomes", crawl, cursor=cursor, follow=True)
    others = [outcome.uri for message in rest for outcome in message.outcomes]
    assert sorted(read + others) == sorted([*sites, *(f"{site}robots.txt" for site in sites)])


def test_a_crawl_that_began_without_a_shard_is_known_before_the_shard_has_its_part(
    divided: ServerProcess, stubs: Stubs
) -> None:
    """A client gives up when a crawl is unknown, and waits when a shard is away."""
    crawl, problems = fresh_name(), list[str]()
    with away(divided, "shard-1"):
        eventually(lambda: not answers_of_all(stubs), "its absence to be noted")
        stubs.create(crawl, spec())
    for ask in ("StreamOutcomes", "ExportUris", "ListQueues", "ListSeeds"):

        def answered(ask: str = ask) -> bool:
            try:
                list(stubs.ask(ask, crawl)) if ask in STREAMS else stubs.ask(ask, crawl)
            except grpc.RpcError as problem:
                problems.append(problem.details() or "")
                return False
            return True

        eventually(answered, ask)
    assert {problem for problem in problems if "shard 1 is away" not in problem} == set()


def test_an_import_takes_nothing_in_if_a_shard_stands_still_before_it_is_complete(
    divided: ServerProcess, stubs: Stubs, sites: list[str]
) -> None:
    """Rows for the shard are on their way to it, and may not be there."""
    crawl = fresh_name()
    stubs.create(crawl, spec(scope=WHOLE_TLD))
    process = members(divided.child)["shard-1"]

    def requests() -> Iterator[admin_pb2.ImportUrisRequest]:
        entries = [
            admin_pb2.ImportEntry(candidate=frontier_pb2.Candidate(uri=f"{site}{page}"))
            for site in sites
            for page in range(20)
        ]
        yield admin_pb2.ImportUrisRequest(crawl=crawl, entries=entries[::2])
        os.kill(process, signal.SIGSTOP)
        yield admin_pb2.ImportUrisRequest(entries=entries[1::2], complete=True)

    try:
        begun = partial(stubs.admin.ImportUris, requests(), timeout=TIMEOUT_S)
        refused(begun, UNAVAILABLE, "SHARD_AWAY", "shard 1")
    finally:
        os.kill(process, signal.SIGCONT)
    (job,) = stubs.ask("ListJobs", crawl).jobs
    assert stubs.ended(crawl, job.job).state == CANCELLED
    eventually(lambda: answers_of_all(stubs), "the shard to be back")
    assert not stubs.waiting(crawl)


def answers_of_all(stubs: Stubs) -> bool:
    """Whether all shards are there."""
    return all(shard.present for shard in stubs.admin.GetFrontier(admin_pb2.GetFrontierRequest()).shards)


def finishes(stubs: Stubs, leases: Sequence[frontier_pb2.Lease]) -> bool:
    """Whether reports are taken in."""
    try:
        stubs.finish(*(report(lease) for lease in leases))
    except grpc.RpcError:
        return False
    return True


def answers(stubs: Stubs) -> bool:
    """Whether the front does."""
    try:
        stubs.admin.ListCrawls(admin_pb2.ListCrawlsRequest(), timeout=2)
    except grpc.RpcError:
        return False
    return True


@pytest.mark.parametrize("member", ["front", "shard-0", "shard-1"])
def test_a_job_counts_everything_once_although_a_process_is_killed(
    divided: ServerProcess, stubs: Stubs, sites: list[str], member: str
) -> None:
    crawl = fresh_name()
    stubs.launch(crawl, *sites)
    pages = [f"{site}{number}" for site in sites for number in range(80)]
    for start in range(0, len(pages), 480):
        stubs.schedule(crawl, *pages[start : start + 480])
    stubs.request(crawl, PAUSE)
    stubs.until(crawl, crawl_pb2.CRAWL_STATE_PAUSED)
    asked = {"queue_pattern": ".*", "uri_pattern": ".*/[0-9]+"}
    job = stubs.ask("StartJob", crawl, delete_uris=asked).job.job
    kill(divided, member)
    eventually(lambda: answers(stubs), "the front to be back")
    ended = stubs.ended(crawl, job)
    assert (ended.state, ended.changed_count) == (DONE, 960)
    eventually(lambda: not limited_by(stubs, crawl).startswith("shard"), "all shards to be back")
    assert len(stubs.waiting(crawl)) == 12
