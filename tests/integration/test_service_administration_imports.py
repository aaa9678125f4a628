"""URIs come by the million, in any order, over real gRPC: what was seen is noted first; all or nothing."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from frontier_harness.calls import (
    INVALID,
    PAUSE,
    PRECONDITION,
    TIMEOUT_S,
    Stubs,
    fresh_name,
    refused,
    report,
    seed_of,
    spec,
)
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import eventually
from google.protobuf.timestamp_pb2 import Timestamp

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

SUCCEEDED, FAILED = crawl_pb2.DISPOSITION_SUCCEEDED, crawl_pb2.DISPOSITION_FAILED
DISREGARDED = crawl_pb2.DISPOSITION_DISREGARDED
DONE, CANCELLED = admin_pb2.JOB_STATE_DONE, admin_pb2.JOB_STATE_CANCELLED
TOMORROW = Timestamp(seconds=int(time.time()) + 86_400)


def wanted(uri: str, **more: Any) -> admin_pb2.ImportEntry:
    return admin_pb2.ImportEntry(candidate=frontier_pb2.Candidate(uri=uri, path="L", **more))


def seen(uri: str, status: int = 0, disposition: int = 0) -> admin_pb2.ImportEntry:
    return admin_pb2.ImportEntry(
        seen=admin_pb2.SeenUri(uri=uri, fetch_status=status, disposition=disposition)  # type: ignore[arg-type]
    )


def crawl_in_scope(stubs: Stubs, launched: bool = True) -> str:
    """A crawl with one host in scope, paused, without a URI."""
    crawl = fresh_name()
    stubs.create(crawl, spec(scope={"hosts": [f"{crawl}.example"]}, run_while_empty=True))
    if launched:
        stubs.seed(crawl, f"{seed_of(crawl)}seed")
        stubs.admin.LaunchCrawl(admin_pb2.LaunchCrawlRequest(crawl=crawl), timeout=TIMEOUT_S)
        stubs.until(crawl, crawl_pb2.CRAWL_STATE_RUNNING)
        (lease,) = stubs.pages(crawl)
        stubs.finish(report(lease))
    return crawl


def story(stubs: Stubs, crawl: str, uri: str) -> tuple[int, int, int]:
    found = stubs.ask("GetUri", crawl, uri=uri).story
    return found.state, found.fetch_status, found.disposition


def test_candidates_are_scheduled_and_what_was_seen_is_noted(stubs: Stubs) -> None:
    crawl = crawl_in_scope(stubs)
    base = seed_of(crawl)
    job = stubs.bring(
        crawl,
        wanted(f"{base}new", via=base, annotations=b"mine", precedence=5),
        seen(f"{base}fine", 200, SUCCEEDED),
        seen(f"{base}failed", -4, FAILED),
        seen(f"{base}forbidden", -9998, DISREGARDED),
        seen(f"{base}known"),
    )
    assert (job.kind, job.state) == ("import", DONE)
    assert (job.done_count, job.changed_count, job.total_count) == (5, 5, 5)
    assert dict(job.counts) == {"QUEUED": 1} and not job.findings
    (uri,) = stubs.waiting(crawl)
    assert uri.candidate == wanted(f"{base}new", via=base, annotations=b"mine", precedence=5).candidate
    done = admin_pb2.URI_STATE_DONE
    assert story(stubs, crawl, f"{base}fine") == (done, 200, SUCCEEDED)
    assert story(stubs, crawl, f"{base}failed") == (done, -4, FAILED)
    assert story(stubs, crawl, f"{base}forbidden") == (done, -9998, DISREGARDED)
    assert story(stubs, crawl, f"{base}known") == (done, 0, 0)


def test_what_was_done_is_not_done_again_in_whatever_order_it_comes(stubs: Stubs) -> None:
    """Heritrix 2.17: two passes, first the seen-set, then what is scheduled; beyond one slice of the job."""
    crawl = crawl_in_scope(stubs)
    base = seed_of(crawl)
    added = [wanted(f"{base}{number}") for number in range(1_500)]
    finished = [seen(f"{base}{number}", 200, SUCCEEDED) for number in range(0, 1_500, 3)]
    job = stubs.bring(crawl, *added, *finished)
    assert (job.done_count, job.total_count, job.changed_count) == (2_000, 2_000, 500 + 1_000)
    assert dict(job.counts) == {"QUEUED": 1_000, "ALREADY_SEEN": 500}
    expected = [f"{base}{number}" for number in range(1_500) if number % 3]
    assert [uri.candidate.uri for uri in stubs.waiting(crawl)] == expected  # in the order in which they came


def test_what_cannot_be_taken_in_is_counted_and_the_first_of_it_told(stubs: Stubs) -> None:
    crawl = crawl_in_scope(stubs)
    base = seed_of(crawl)
    job = stubs.bring(
        crawl,
        wanted("http://elsewhere.example/"),
        wanted("nope"),
        wanted(base, via="x" * 9000),
        seen("nope either"),
        wanted(f"{base}fine"),
    )
    verdicts = {"OUT_OF_SCOPE": 1, "MALFORMED": 1, "TOO_LONG": 1, "QUEUED": 1}
    assert dict(job.counts) == verdicts
    assert (job.state, job.done_count, job.changed_count) == (DONE, 5, 1)
    assert sorted(job.findings) == [
        "MALFORMED nope",
        "MALFORMED nope either",
        "OUT_OF_SCOPE http://elsewhere.example/",
        f"TOO_LONG {base}",
    ]


def test_export_then_import_into_a_fresh_frontier_gives_the_same_pending_set(
    stubs: Stubs, tmp_path: Path
) -> None:
    """Issue 4, line 8: order, costs, precedences, times and the callers' own data too."""
    crawl = crawl_in_scope(stubs)
    base = seed_of(crawl)
    stubs.request(crawl, PAUSE)
    offered = [
        frontier_pb2.Candidate(uri=f"{base}a", via=base, path="LE", annotations=b"\0\xff", source=base),
        frontier_pb2.Candidate(uri=f"{base}b?x=1", path="LL", precedence=9, cost=3),
        frontier_pb2.Candidate(uri=f"{base}c", path="L", directive=frontier_pb2.DIRECTIVE_HIGHEST),
        frontier_pb2.Candidate(uri=f"{base}d", path="L", not_before_time=TOMORROW),
        frontier_pb2.Candidate(uri=f"https://{crawl}.example/e", path="L"),
        *(frontier_pb2.Candidate(uri=f"{base}many/{number}", path="L") for number in range(700)),
    ]
    answer = stubs.frontier.Schedule(
        frontier_pb2.ScheduleRequest(crawl=crawl, candidates=offered), timeout=TIMEOUT_S
    )
    assert set(answer.verdicts) == {crawl_pb2.VERDICT_QUEUED}
    exported = stubs.waiting(crawl)
    assert len(exported) == len(offered)
    with ServerProcess(tmp_path / "fresh") as fresh:
        fresh.stubs.create(crawl, stubs.describe(crawl).spec)
        entries = []
        for uri in exported:
            entry = admin_pb2.ImportEntry(candidate=uri.candidate)
            if uri.HasField("due_time"):
                entry.candidate.not_before_time.CopyFrom(uri.due_time)
            entries.append(entry)
        assert dict(fresh.stubs.bring(crawl, *entries).counts) == {"QUEUED": len(offered)}
        assert fresh.stubs.waiting(crawl) == exported


# Refusals.


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (admin_pb2.ImportEntry(), "entry 2: either candidate or seen must be set"),
        (
            seen("http://a.example/", 200, crawl_pb2.DISPOSITION_DEFERRED),
            "entry 2: disposition must be SUCCEEDED, FAILED or DISREGARDED, got 4",
        ),
        (
            seen("http://a.example/", 200, 99),
            "entry 2: disposition must be SUCCEEDED, FAILED or DISREGARDED, got 99",
        ),
    ],
)
def test_an_entry_that_makes_no_sense_is_named_and_nothing_is_taken_in(
    stubs: Stubs, crawl: str, entry: admin_pb2.ImportEntry, told: str
) -> None:
    refused(
        lambda: stubs.bring(crawl, wanted(f"{seed_of(crawl)}a"), entry),
        INVALID,
        "INVALID_ARGUMENT_VALUE",
        told,
    )
    cancelled(stubs, crawl)
    assert len(stubs.waiting(crawl)) == 1


def cancelled(stubs: Stubs, crawl: str) -> admin_pb2.Job:
    """The last job, which is an import that was cancelled."""
    eventually(lambda: stubs.ask("ListJobs", crawl).jobs[-1].state == CANCELLED, "the import to be cancelled")
    job: admin_pb2.Job = stubs.ask("ListJobs", crawl).jobs[-1]
    assert job.kind == "import"
    return job


def test_a_stream_that_ends_without_its_complete_message_takes_nothing_in(stubs: Stubs, crawl: str) -> None:
    """A stream that breaks looks the same to a server."""
    request = admin_pb2.ImportUrisRequest(crawl=crawl, entries=[wanted(f"{seed_of(crawl)}a")])
    problem = refused(
        lambda: stubs.admin.ImportUris(iter((request,)), timeout=TIMEOUT_S),
        INVALID,
        "INVALID_ARGUMENT_VALUE",
        "complete",
    )
    assert problem.metadata == {"field": "complete"}
    cancelled(stubs, crawl)
    assert len(stubs.waiting(crawl)) == 1


def test_one_message_may_be_the_first_and_the_last(stubs: Stubs) -> None:
    crawl = crawl_in_scope(stubs)
    entries = [wanted(f"{seed_of(crawl)}a")]
    request = admin_pb2.ImportUrisRequest(crawl=crawl, entries=entries, complete=True)
    job = stubs.admin.ImportUris(iter((request,)), timeout=TIMEOUT_S).job
    assert stubs.ended(crawl, job.job).changed_count == 1


def test_later_messages_may_not_say_otherwise_than_the_first(stubs: Stubs, crawl: str) -> None:
    entries = [wanted(f"{seed_of(crawl)}a")]
    first = admin_pb2.ImportUrisRequest(crawl=crawl, entries=entries)
    same = admin_pb2.ImportUrisRequest(crawl=crawl, entries=entries)
    other = admin_pb2.ImportUrisRequest(crawl="other", entries=entries)
    forced = admin_pb2.ImportUrisRequest(force=True, entries=entries)
    last = admin_pb2.ImportUrisRequest(complete=True)
    for wrong, told in (((other,), "'other'"), ((forced,), "force"), ((last, same), "after the complete")):
        refused(
            lambda wrong=wrong: stubs.admin.ImportUris(iter((first, same, *wrong)), timeout=TIMEOUT_S),  # type: ignore[misc]
            INVALID,
            "INVALID_ARGUMENT_VALUE",
            told,
        )
        cancelled(stubs, crawl)
    refused(
        lambda: stubs.admin.ImportUris(iter(()), timeout=TIMEOUT_S),
        INVALID,
        "INVALID_ARGUMENT_VALUE",
        "before its complete message",
    )


def test_messages_of_more_than_a_thousand_entries_or_eight_mib_are_refused(stubs: Stubs, crawl: str) -> None:
    many = [wanted(f"{seed_of(crawl)}{number}") for number in range(1_001)]
    request = admin_pb2.ImportUrisRequest(crawl=crawl, entries=many)
    refused(
        lambda: stubs.admin.ImportUris(iter((request,)), timeout=TIMEOUT_S),
        INVALID,
        "BATCH_TOO_LARGE",
        "1001",
        "1000",
    )
    large = [wanted(f"{seed_of(crawl)}{number}", via="x" * 9_000) for number in range(1_000)]
    request = admin_pb2.ImportUrisRequest(crawl=crawl, entries=large)
    refused(lambda: stubs.admin.ImportUris(iter((request,)), timeout=TIMEOUT_S), INVALID, "BATCH_TOO_LARGE")
    assert [job.kind for job in stubs.ask("ListJobs", crawl).jobs] == ["seed"]


def test_a_stream_that_breaks_is_cancelled_and_takes_nothing_in(stubs: Stubs, crawl: str) -> None:
    received, broken = threading.Event(), threading.Event()

    def messages() -> Iterator[admin_pb2.ImportUrisRequest]:
        yield admin_pb2.ImportUrisRequest(crawl=crawl, entries=[wanted(f"{seed_of(crawl)}a")])
        received.set()
        broken.wait(TIMEOUT_S)

    sending = stubs.admin.ImportUris.future(messages(), timeout=TIMEOUT_S)
    assert received.wait(TIMEOUT_S)

    eventually(lambda: stubs.ask("ListJobs", crawl).jobs[-1].total_count == 1, "something to come")
    (_, job) = stubs.ask("ListJobs", crawl).jobs
    assert (job.kind, job.state) == ("import", admin_pb2.JOB_STATE_RECEIVING)
    sending.cancel()
    broken.set()
    cancelled(stubs, crawl)
    assert [uri.candidate.uri for uri in stubs.waiting(crawl)] == [seed_of(crawl)]
    assert stubs.job(crawl, verify={}).changed_count == 0


@pytest.mark.parametrize("more", [0, 1])
def test_an_import_that_still_comes_can_be_cancelled_by_another(stubs: Stubs, crawl: str, more: int) -> None:
    going_on = threading.Event()

    def messages() -> Iterator[admin_pb2.ImportUrisRequest]:
        yield admin_pb2.ImportUrisRequest(crawl=crawl, entries=[wanted(f"{seed_of(crawl)}a")])
        going_on.wait(TIMEOUT_S)
        for _ in range(more):
            yield admin_pb2.ImportUrisRequest(entries=[wanted(f"{seed_of(crawl)}b")])
        yield admin_pb2.ImportUrisRequest(complete=True)

    sending = stubs.admin.ImportUris.future(messages(), timeout=TIMEOUT_S)
    eventually(lambda: stubs.ask("ListJobs", crawl).jobs[-1].total_count == 1, "something to come")
    number = stubs.ask("ListJobs", crawl).jobs[-1].job
    stubs.ask("CancelJob", crawl, job=number)
    assert stubs.ended(crawl, number).state == CANCELLED
    going_on.set()
    if more:
        refused(
            lambda: sending.result(TIMEOUT_S), PRECONDITION, "ILLEGAL_STATE", f"import {number}", "CANCELLED"
        )
    else:
        answer = sending.result(TIMEOUT_S)
        assert (answer.job.job, answer.job.state) == (number, CANCELLED)
    assert stubs.ask("GetJob", crawl, job=number).job.total_count == 1
    assert len(stubs.waiting(crawl)) == 1


def test_an_import_does_not_go_on_into_another_crawl_of_the_name(stubs: Stubs) -> None:
    crawl, going_on = fresh_name(), {"former": threading.Event(), "present": threading.Event()}

    def messages(who: str) -> Iterator[admin_pb2.ImportUrisRequest]:
        for page in ("1", "2"):
            entry = wanted(f"{seed_of(crawl)}{who}{page}")
            yield admin_pb2.ImportUrisRequest(crawl=crawl, entries=[entry], complete=page == "2")
            going_on[who].wait(TIMEOUT_S)

    def begun(who: str) -> Any:
        """An import into a crawl of its own, half of which has come."""
        stubs.create(crawl, spec(scope={"hosts": [f"{crawl}.example"]}))
        sending = stubs.admin.ImportUris.future(messages(who), timeout=TIMEOUT_S)

        def has_come() -> bool:
            return [job.total_count for job in stubs.ask("ListJobs", crawl).jobs] == [1]

        eventually(has_come, f"the {who} import")
        return sending

    former = begun("former")
    stubs.ask("DeleteCrawl", crawl, force=True)
    present = begun("present")
    going_on["former"].set()
    refused(
        lambda: former.result(TIMEOUT_S),
        grpc.StatusCode.NOT_FOUND,
        "UNKNOWN_CRAWL",
        f"crawl '{crawl}' was deleted",
    )
    going_on["present"].set()
    job = stubs.ended(crawl, present.result(TIMEOUT_S).job.job)
    assert (job.state, job.total_count) == (DONE, 2)
    waiting = {uri.candidate.uri for uri in stubs.waiting(crawl)}
    assert waiting == {f"{seed_of(crawl)}present{page}" for page in (1, 2)}


def test_below_the_disk_reserve_imports_and_notes_are_refused(tmp_path: Path) -> None:
    """As Schedule is."""
    data = tmp_path / "data"
    with ServerProcess(data, "--disk-reserve-mib", str(2**40)) as server:
        stubs = server.stubs
        crawl = crawl_in_scope(stubs, launched=False)
        exhausted = grpc.StatusCode.RESOURCE_EXHAUSTED
        uri = f"{seed_of(crawl)}a"

        def full() -> bool:
            return refusal_code(stubs, crawl, uri) == exhausted

        eventually(full, "the server to look at its disk")
        for call in (
            lambda: stubs.bring(crawl, wanted(uri)),
            lambda: stubs.ask("NoteUris", crawl, uris=[uri]),
        ):
            problem = refused(call, exhausted, "DISK_RESERVE", "disk")
            assert problem.retry_s is not None and problem.retry_s >= 1
        assert list(stubs.ask("ListJobs", crawl).jobs) == []


def refusal_code(stubs: Stubs, crawl: str, uri: str) -> grpc.StatusCode | None:
    try:
        stubs.schedule(crawl, uri)
    except grpc.RpcError as problem:
        code: grpc.StatusCode = problem.code()
        return code
    return None
