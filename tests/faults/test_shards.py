"""A frontier of several shards whose processes are killed, one after the other, while everybody uses it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeVar

import grpc
import pytest
from frontier_harness.calls import Stubs, next_request, spec
from frontier_harness.members import members
from frontier_harness.ports import KeptPort
from frontier_harness.process import ServerProcess
from frontier_harness.soaking import Soak
from frontier_harness.waiting import PATIENCE_S, eventually

from toehold.frontier.v1 import crawl_pb2, frontier_pb2

CRAWL = "killed"
HOSTS = 60
DELAY_S = 0.05
MEMBERS = ("shard-0", "shard-1", "shard-2", "front", "supervisor")
RECONNECT = [
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 200),
]
REPEATED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
LONGEST_ABSENCE_S = 3.0

_T = TypeVar("_T")


def uri(page: int) -> str:
    return f"http://www.site{page % HOSTS}.example/{page}"


class Fetchers:
    """Fetchers of a web whose page N links to pages 2N+1 and 2N+2, and what they have seen."""

    repeated: Sequence[grpc.StatusCode] = REPEATED
    """Calls that end in one of these ways are made again."""

    def __init__(self, stubs: Stubs, pages: int) -> None:
        self.stubs = stubs
        self._pages = pages
        self._lock = threading.Lock()
        self._out: dict[str, tuple[bytes, float]] = {}  # host → the lease that is out, and when it came
        self._reported_s: dict[str, float] = {}  # host → when its last report was sent
        self.done: Counter[str] = Counter()
        self.problems: list[str] = []
        self.longest_absence_s = 0.0
        self.ending = threading.Event()

    def run(self, node: str) -> None:
        """Fetch, until there is nothing left."""
        try:
            self._run(node)
        except Exception as problem:
            self.problems.append(f"{node}: {problem!r}")

    def came_to(self, pages: float) -> bool:
        """Whether more pages than so many are fetched, or there is a problem."""
        return bool(self.problems) or sum(self.done.values()) > pages

    def _run(self, node: str) -> None:
        while not self.ending.is_set():
            request = next_request(CRAWL, 5, 0.5, node, f"session of {node}")
            answer = self._asked(partial(self.stubs.frontier.Next, request, timeout=5))
            if answer.empty_reason == frontier_pb2.EMPTY_REASON_FINISHED:
                return
            now_s = time.monotonic()
            for lease in answer.leases:
                self._received(lease, node, now_s)
            for lease in answer.leases:
                self._fetched(lease, node)

    def _received(self, lease: frontier_pb2.Lease, node: str, now_s: float) -> None:
        host = lease.uri.split("/")[2]
        with self._lock:
            out, came_s = self._out.get(host, (lease.token, now_s))
            rest_s = now_s - self._reported_s.get(host, 0)
            if out != lease.token:
                self.problems.append(
                    f"{node} has a second lease of {host}, {now_s - came_s:.3f} s after the first"
                )
            elif rest_s < DELAY_S:
                self.problems.append(f"{node} has a lease of {host} {rest_s:.3f} s after a report")
            self._out[host] = lease.token, now_s

    def _fetched(self, lease: frontier_pb2.Lease, node: str) -> None:
        host, robots = lease.uri.split("/")[2], lease.purpose == frontier_pb2.PURPOSE_ROBOTS
        if not robots:
            page = int(lease.uri.rpartition("/")[2])
            links = [uri(each) for each in (2 * page + 1, 2 * page + 2) if each < self._pages]
            if links:
                found = [frontier_pb2.Candidate(uri=each, via=lease.uri, path="L") for each in links]
                offered = frontier_pb2.ScheduleRequest(crawl=CRAWL, candidates=found)
                self._asked(lambda: self.stubs.frontier.Schedule(offered, timeout=5))
        report = frontier_pb2.Report(
            token=lease.token, outcome=frontier_pb2.OUTCOME_FETCHED, fetch_status=404 if robots else 200
        )
        request = frontier_pb2.FinishedRequest(reports=[report], node=node, session=f"session of {node}")

        with self._lock:  # one that is not answered may have counted: the rest begins now, or later
            self._reported_s[host] = time.monotonic()
            self._out.pop(host, None)
        finished = partial(self.stubs.frontier.Finished, request, timeout=5)
        (result,) = self._asked(finished).results
        if not robots:
            with self._lock:
                self.done[lease.uri] += result.disposition == crawl_pb2.DISPOSITION_SUCCEEDED

    def _asked(self, call: Callable[[], _T]) -> _T:
        """The answer, asked for until it comes."""
        began_s = time.monotonic()
        while True:
            try:
                return call()
            except grpc.RpcError as error:
                if error.code() not in self.repeated or time.monotonic() - began_s > PATIENCE_S:
                    raise
                self.longest_absence_s = max(self.longest_absence_s, time.monotonic() - began_s)
                time.sleep(0.05)


class Installation:
    """The frontier, which comes back whatever of it is killed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = KeptPort()
        self.address = self._port.address
        self._begin()

    def _begin(self) -> None:
        self.server = ServerProcess(self._folder / "data", "--shards", "3", listen=self.address)
        self.server.begin()
        self.server.until_ready()

    def kill(self, name: str) -> None:
        """Kill a process of it. The supervisor brings its members back, and the test the supervisor."""
        if name == "supervisor":
            self.server.kill()
            self.server.let_go()
            self._begin()
            return
        found = members(self.server.child)
        if name in found:
            os.kill(found[name], signal.SIGKILL)

    def end(self) -> int:
        """End it in order; its exit code."""
        code, _ = self.server.stop()
        self.server.let_go()
        return code


def killed(folder: Path, kills: int, pages: int, seed: int) -> Fetchers:
    """A crawl under so many kills, to its end; its fetchers."""
    random = Random(seed)
    installation = Installation(folder)
    with grpc.insecure_channel(installation.address, RECONNECT) as channel:
        stubs = Stubs(channel)
        made = spec(
            DELAY_S, scope=crawl_pb2.ScopeSpec(accept_patterns=[r"http://www\.site[0-9]+\.example/.*"])
        )
        stubs.create(CRAWL, made)
        stubs.ask("AddSeedBatch", CRAWL, uris=[uri(0)])
        stubs.ask("LaunchCrawl", CRAWL)
        fetchers = Fetchers(stubs, pages)
        threads = [threading.Thread(target=fetchers.run, args=(f"node{number}",)) for number in range(4)]
        for thread in threads:
            thread.start()
        aims = [*MEMBERS[:kills], *random.choices(MEMBERS, k=max(kills - len(MEMBERS), 0))]
        random.shuffle(aims)
        step = 0.8 * pages / (kills + 1)
        for number, aim in enumerate(aims, 1):
            eventually(partial(fetchers.came_to, number * step), f"pages after kill {number - 1}")
            installation.kill(aim)
        for thread in threads:
            thread.join(PATIENCE_S * 2)
        fetchers.ending.set()
        assert not fetchers.problems, fetchers.problems[:3]
        assert not any(thread.is_alive() for thread in threads), "the crawl has not ended"
    assert installation.end() == 0
    return fetchers


def check(fetchers: Fetchers, pages: int) -> None:
    """Each page was fetched, and counted once."""
    lost = {uri(page) for page in range(pages)} - set(fetchers.done)
    assert not lost, f"{len(lost)} pages were lost, such as {sorted(lost)[0]}"
    twice = [page for page, times in fetchers.done.items() if times > 1]
    assert not twice, f"{len(twice)} pages were fetched twice, such as {twice[0]}"


def test_a_crawl_over_shards_that_are_killed_five_times_loses_nothing(tmp_path: Path) -> None:
    fetchers = killed(tmp_path, 5, 500, seed=7)
    check(fetchers, 500)


@pytest.mark.soak("kills")
@pytest.mark.timeout(7200)
def test_crawls_over_shards_that_are_killed_two_hundred_times_lose_nothing(
    tmp_path: Path, soak: Soak
) -> None:
    kills = soak.cycles(200)
    for life in range((kills + 19) // 20):
        pages = 4_000
        fetchers = killed(tmp_path / str(life), min(20, kills - 20 * life), pages, soak.seed + life)
        check(fetchers, pages)
        assert fetchers.longest_absence_s <= LONGEST_ABSENCE_S
        soak.count(faults=20, checked=pages)
