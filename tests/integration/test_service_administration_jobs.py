"""Work on many URIs or queues, over real gRPC: started, seen, cancelled; refusals name what is wrong."""

from typing import Any

import grpc
import pytest
from frontier_harness.calls import INVALID, PAUSE, Stubs, fresh_name, refused, seed_of, spec

from toehold.frontier.v1 import admin_pb2

NOT_FOUND = grpc.StatusCode.NOT_FOUND
DONE = admin_pb2.JOB_STATE_DONE


@pytest.fixture
def wide(stubs: Stubs) -> str:
    """A paused crawl with six queues of four URIs each."""
    crawl = fresh_name()
    seeds = [seed_of(crawl, f"h{number}.") for number in range(6)]
    stubs.launch(crawl, *seeds)
    stubs.schedule(crawl, *(f"{seed}{page}" for seed in seeds for page in ("a", "b", "c?x=1")))
    stubs.request(crawl, PAUSE)
    return crawl


def test_uris_are_deleted_by_queue_and_pattern_after_a_dry_run(stubs: Stubs, wide: str) -> None:
    """Heritrix 2.14: deleteURIs; they stay seen, with -6000."""
    asked = {"queue_pattern": f"example,{wide},h[0-2],", "uri_pattern": r".*\?.*"}
    dry = stubs.job(wide, delete_uris={**asked, "dry_run": True})
    assert (dry.kind, dry.state, dry.changed_count) == ("delete-uris", DONE, 3)
    assert dict(dry.parameters) == {**asked, "dry_run": "true"}
    assert sorted(dry.findings) == [f"{seed_of(wide, f'h{number}.')}c?x=1" for number in range(3)]
    assert len(stubs.waiting(wide)) == 24
    job = stubs.job(wide, delete_uris=asked)
    assert (job.changed_count, sorted(job.findings)) == (3, sorted(dry.findings))
    assert dict(job.parameters) == asked
    assert len(stubs.waiting(wide)) == 21
    statistics = stubs.statistics(wide)
    assert (statistics.disregarded_count, dict(statistics.fetch_status_counts)) == (3, {-6000: 3})
    assert stubs.schedule(wide, dry.findings[0]) == ["ALREADY_SEEN"]
    assert stubs.job(wide, delete_uris=asked).changed_count == 0


def test_jobs_are_listed_by_number_page_by_page(stubs: Stubs, wide: str) -> None:
    for _ in range(4):
        stubs.job(wide, verify={})
    listed = stubs.ask("ListJobs", wide).jobs
    assert [job.job for job in listed] == [1, 2, 3, 4, 5]
    assert [job.kind for job in listed] == ["seed", *["verify"] * 4]
    for page_size in (1, 2, 5):
        pages = stubs.pages_of("ListJobs", wide, "jobs", page_size=page_size)
        assert [job for page in pages for job in page] == list(listed)
        assert all(len(page) <= page_size for page in pages)
    assert stubs.ask("GetJob", wide, job=3).job == listed[2]


def test_a_page_of_jobs_with_much_to_tell_stays_below_four_mib(stubs: Stubs) -> None:
    crawl = fresh_name()
    stubs.launch(crawl, seed_of(crawl))
    stubs.schedule(crawl, *(f"{seed_of(crawl)}{number}?{'q' * 8000}" for number in range(100)))
    for _ in range(7):
        job = stubs.job(crawl, delete_uris={"queue_pattern": ".*", "uri_pattern": ".*", "dry_run": True})
        assert len(job.findings) == 100
    pages = stubs.pages_of("ListJobs", crawl, "jobs", page_size=1000)
    assert [job.job for page in pages for job in page] == list(range(1, 9))
    assert len(pages) > 1
    assert all(sum(job.ByteSize() for job in page) < 4 * 1024 * 1024 for page in pages)


@pytest.mark.sampled("number", [0, -1, 99, 2**63 - 1, -(2**63)])
@pytest.mark.sampled("rpc", ["GetJob", "CancelJob"])
def test_a_job_that_is_not_there_is_named(stubs: Stubs, crawl: str, rpc: str, number: int) -> None:
    problem = refused(lambda: stubs.ask(rpc, crawl, job=number), NOT_FOUND, "UNKNOWN_JOB", str(number), crawl)
    assert problem.metadata == {"crawl": crawl, "job": str(number)}


@pytest.mark.parametrize(
    ("asked", "field", "told"),
    [
        ({}, "job", "must be set to the work to do"),
        ({"delete_uris": {"queue_pattern": ".*"}}, "uri_pattern", "empty"),
        ({"delete_uris": {"queue_pattern": ".", "uri_pattern": "a(?=b)"}}, "uri_pattern", "at character 2"),
        ({"wake_queues": {"queue_pattern": "x" * 5000}}, "queue_pattern", "4096"),
    ],
)
def test_a_job_that_makes_no_sense_is_refused_with_its_place(
    stubs: Stubs, crawl: str, asked: dict[str, Any], field: str, told: str
) -> None:
    problem = refused(
        lambda: stubs.ask("StartJob", crawl, **asked), INVALID, "INVALID_ARGUMENT_VALUE", field, told
    )
    assert problem.metadata == {"field": field}
    assert [job.kind for job in stubs.ask("ListJobs", crawl).jobs] == ["seed"]


def test_serving_goes_on_while_a_job_runs(stubs: Stubs) -> None:
    crawl = fresh_name()
    stubs.launch(crawl, seed_of(crawl), of=spec(scope={"hosts": [f"other.{crawl}.example"]}))
    for start in range(0, 5000, 1000):
        stubs.schedule(crawl, *(f"{seed_of(crawl)}{number}" for number in range(start, start + 1000)))
    asked = {"queue_pattern": ".*", "uri_pattern": ".*/[0-9]+"}
    number = stubs.ask("StartJob", crawl, delete_uris=asked).job.job
    other = seed_of(crawl, "other.")
    assert stubs.schedule(crawl, other) == ["QUEUED"]
    assert stubs.next(crawl).leases
    job = stubs.ended(crawl, number)
    assert (job.state, job.changed_count) == (DONE, 5000)
    assert stubs.job(crawl, verify={}).changed_count == 0
