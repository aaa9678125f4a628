"""A whole crawl through gRPC with fetchers that fetch nothing: at its end every count is exact."""

import itertools
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from frontier_harness.calls import TIMEOUT_S, Stubs, report, seconds, spec
from frontier_harness.divided import SHARDS
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import WHOLE_CRAWL_S, eventually

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

BATCH = 500
FETCHERS = 4
STATUSES = (200, 200, 200, 200, 200, 301, 404, 500, -4, -404)
"""What fetches end with: successes and failures. Which one a URI gets follows from its text."""
AGAIN = 37
"""One URI in so many is answered with 503 at first."""


def test_the_counts_of_some_thousand_uris_are_exact(tmp_path: Path) -> None:
    _crawl(tmp_path, uris=6_000, hosts=300, wait_s=WHOLE_CRAWL_S)


@pytest.mark.soak("size")
@pytest.mark.timeout(3600)
def test_the_counts_of_a_million_uris_are_exact(tmp_path: Path) -> None:
    _crawl(tmp_path, uris=1_000_000, hosts=50_000, wait_s=3_000)


def _crawl(data: Path, *, uris: int, hosts: int, wait_s: float) -> None:
    with ServerProcess(data / "data") as server:
        stubs = server.stubs
        brisk = spec(
            scope=crawl_pb2.ScopeSpec(surt_prefixes=["+http://(example,"]),
            outcomes_kept=10,
        )
        brisk.politeness.overload_delay.CopyFrom(seconds(0))
        brisk.politeness.max_overload_delay.CopyFrom(seconds(0))
        stubs.create("whole", brisk)
        for batch in _batches(_uris(uris, hosts)):
            assert set(stubs.schedule("whole", *batch)) == {"QUEUED"}
        stubs.seed("whole", "http://host0.example/seed")
        stubs.admin.LaunchCrawl(admin_pb2.LaunchCrawlRequest(crawl="whole"), timeout=TIMEOUT_S)
        with ThreadPoolExecutor(FETCHERS) as threads:
            fetchers = [_Fetcher(stubs, f"node{number}") for number in range(FETCHERS)]
            done = list(threads.map(_Fetcher.run, fetchers, timeout=wait_s))
        _judge(stubs, uris + 1, sum(done, Counter()), wait_s)


def _uris(count: int, hosts: int) -> Iterator[str]:
    for number in range(count):
        yield f"http://host{number % hosts}.example/page/{number}"


def _batches(uris: Iterator[str]) -> Iterator[Sequence[str]]:
    while batch := list(itertools.islice(uris, BATCH)):
        yield batch


class _Fetcher:
    """Takes leases and says how their fetches ended, until the crawl has ended."""

    def __init__(self, stubs: Stubs, name: str) -> None:
        self._stubs = stubs
        self._name = name
        self.reported: Counter[int] = Counter()

    def run(self) -> Counter[int]:
        while True:
            answer = self._stubs.next("whole", 100, 5, self._name, self._name)
            if answer.empty_reason == frontier_pb2.EMPTY_REASON_FINISHED:
                return self.reported
            if answer.leases:
                reports = [report(lease, self._status(lease), body_bytes=10) for lease in answer.leases]
                self._stubs.finish(*reports, node=self._name, session=self._name)

    def _status(self, lease: frontier_pb2.Lease) -> int:
        if lease.purpose == frontier_pb2.PURPOSE_ROBOTS:
            return 404
        chosen = zlib.crc32(lease.uri.encode())
        if lease.attempt == 1 and chosen % AGAIN == 0:
            return 503
        status = STATUSES[chosen % len(STATUSES)]
        self.reported[status] += 1
        return status


def _judge(stubs: Stubs, scheduled: int, reported: Counter[int], wait_s: float) -> None:
    statistics = stubs.statistics("whole")
    assert (statistics.queued_count, statistics.leased_count, statistics.future_count) == (0, 0, 0)
    succeeded = sum(count for status, count in reported.items() if status > 0)
    assert statistics.succeeded_count == succeeded and statistics.failed_count == scheduled - succeeded
    assert statistics.discovered_count == scheduled
    assert dict(statistics.fetch_status_counts) == dict(reported)
    assert statistics.bytes_count == 10 * succeeded
    queues = stubs.queues("whole")
    assert sum(queue.enqueued_count for queue in queues) == scheduled
    assert sum(queue.succeeded_count for queue in queues) == succeeded
    assert sum(queue.failed_count for queue in queues) == scheduled - succeeded
    assert {queue.queued_count for queue in queues} == {0}
    request = admin_pb2.StartJobRequest(crawl="whole", verify=admin_pb2.VerifyJob())
    number = stubs.admin.StartJob(request, timeout=TIMEOUT_S).job.job

    def ended() -> admin_pb2.Job | None:
        asked = admin_pb2.GetJobRequest(crawl="whole", job=number)
        job = stubs.admin.GetJob(asked, timeout=TIMEOUT_S).job
        return job if job.state == admin_pb2.JOB_STATE_DONE else None

    eventually(ended, "the verification", wait_s)
    found = ended()
    assert found is not None
    assert (found.changed_count, list(found.findings)) == (0, [])
    assert (found.counts["sums_compared"], found.counts["seen"]) == (SHARDS, scheduled)
