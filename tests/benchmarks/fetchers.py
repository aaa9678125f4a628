"""Crawler nodes without the crawling: they take leases and report success at once."""

import itertools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from benchmarks.load import CALL_S, Load

from toehold.frontier.v1 import crawl_pb2, frontier_pb2

WAIT_S = 5


class Fetcher:
    """One node's session, which waits so long for leases."""

    _numbers = itertools.count(1)

    def __init__(self, load: Load, leases_a_call: int, wait_s: int = WAIT_S) -> None:
        self._next_call = load.call("Next")
        self._finished_call = load.call("Finished")
        name = f"bench-{next(self._numbers)}"
        request = frontier_pb2.NextRequest(node=name, session=name, max_leases=leases_a_call)
        request.wait_duration.FromSeconds(wait_s)
        self._next_request = request.SerializeToString()
        self._name = name
        self.waits_s: list[float] = []
        """How long each Next took."""

    def next(self) -> list[frontier_pb2.Lease]:
        """Some leases; none when there is nothing to fetch."""
        start_s = time.perf_counter()
        answer = self._next_call(self._next_request, timeout=CALL_S)
        self.waits_s.append(time.perf_counter() - start_s)
        return list(frontier_pb2.NextResponse.FromString(answer).leases)

    def finished(self, leases: list[frontier_pb2.Lease]) -> None:
        """Report leases as pages fetched, or as an empty robots.txt. Raises RuntimeError unless all count."""
        request = frontier_pb2.FinishedRequest(node=self._name, session=self._name)
        for lease in leases:
            empty = lease.purpose == frontier_pb2.PURPOSE_ROBOTS
            request.reports.add(token=lease.token, robots_empty=empty).MergeFrom(_FETCHED)
        answer = self._finished_call(request.SerializeToString(), timeout=CALL_S)
        for result in frontier_pb2.FinishedResponse.FromString(answer).results:
            if result.disposition != crawl_pb2.DISPOSITION_SUCCEEDED or result.repeated:
                raise RuntimeError(f"a report of success was answered with {result}")

    def fetch(self, count: int) -> int:
        """Lease and report until so many are done, or nothing is left; how many they were."""
        done = 0
        while done < count and (leases := self.next()):
            self.finished(leases)
            done += len(leases)
        return done


def fetch_together(fetchers: list[Fetcher], count: int) -> Callable[[], int]:
    """Work that shares out so many leases among fetchers, each in a thread; how many they were."""

    def work() -> int:
        share = -(-count // len(fetchers))
        with ThreadPoolExecutor(len(fetchers)) as threads:
            done: int = sum(threads.map(lambda fetcher: fetcher.fetch(share), fetchers))
        if done < count:
            raise RuntimeError(f"{done} of {count} leases were given")
        return done

    return work


_FETCHED = frontier_pb2.Report(
    outcome=frontier_pb2.OUTCOME_FETCHED,
    fetch_status=200,
    body_bytes=23_456,
    media_type="text/html",
    digest="sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ",
    toe_number=7,
)
_FETCHED.start_time.FromMilliseconds(1_700_000_000_000)
_FETCHED.fetch_duration.FromMilliseconds(123)
