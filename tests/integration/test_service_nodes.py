"""Several nodes on one frontier: one request at a time to a host, sessions, and leases that lapse."""

import threading
import time
from pathlib import Path

import grpc
import pytest
from frontier_harness.calls import PRECONDITION, TIMEOUT_S, Stubs, fresh_name, refused, report, seed_of, spec
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import PATIENCE_S

from toehold.frontier.v1 import frontier_pb2

LEASE_S, HEARTBEAT_S = 3.0, 0.3
LONG = ("--lease-seconds", str(LEASE_S), "--heartbeat-seconds", str(HEARTBEAT_S))
"""For leases that somebody extends or reports in time, on a busy machine too."""


class Hosts:
    """Which hosts are being fetched from, as the fetchers see it."""

    def __init__(self) -> None:
        self._busy: set[str] = set()
        self._free_at: dict[str, float] = {}
        self._lock = threading.Lock()
        self.problems: list[str] = []

    def begin(self, uri: str, rest_s: float) -> str:
        host = uri.split("/")[2].partition(":")[0]
        with self._lock:
            if host in self._busy:
                self.problems.append(f"{uri}: its host is being fetched from")
            rested_s = time.monotonic() - self._free_at.get(host, 0)
            if rested_s < rest_s - 0.002:  # the server counts in whole milliseconds
                self.problems.append(f"{uri}: its host rested for {rested_s} s only")
            self._busy.add(host)
        return host

    def end(self, host: str) -> None:
        """Before the report is sent: what comes after it may be quicker than its answer."""
        with self._lock:
            self._busy.discard(host)
            self._free_at[host] = time.monotonic()


@pytest.mark.parametrize(("rest_s", "pages"), [(0, 200), (0.05, 12)])
def test_one_host_is_never_leased_twice_at_once_nor_before_its_rest(
    server: ServerProcess, rest_s: float, pages: int
) -> None:
    """Across nodes, and across the queues, ports, schemes and crawls that one host has."""
    stubs = server.stubs
    domain = fresh_name()
    crawls = [fresh_name(), fresh_name()]
    for crawl in crawls:
        seeds = [f"{scheme}://{host}.{domain}.example{port}/" for host in "ab" for scheme, port in ORIGINS]
        stubs.launch(crawl, *seeds, of=spec(rest_s))
        for seed in seeds:
            stubs.schedule(crawl, *(f"{seed}{number}" for number in range(pages // len(seeds))))
    hosts, lock, fetched = Hosts(), threading.Lock(), []

    def node(name: str, crawl: str) -> None:
        with grpc.insecure_channel(server.address) as channel:
            mine = Stubs(channel)
            while True:
                answer = mine.next(crawl, 3, 5, name)
                if answer.empty_reason == frontier_pb2.EMPTY_REASON_FINISHED:
                    return
                busy = [(hosts.begin(lease.uri, rest_s), lease) for lease in answer.leases]
                for host, lease in busy:
                    if lease.purpose == frontier_pb2.PURPOSE_PAGE:
                        with lock:
                            fetched.append((lease.crawl, lease.uri))
                    hosts.end(host)
                    mine.finish(report(lease), node=name)

    threads = [
        threading.Thread(target=node, args=(fresh_name(), crawl), daemon=True)
        for crawl in crawls
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), f"{len(fetched)} fetched, and no end"
    assert not hosts.problems, hosts.problems[:5]
    assert len(fetched) == len(set(fetched))
    for crawl in crawls:
        assert stubs.statistics(crawl).succeeded_count == 8 + 8 * (pages // 8)


ORIGINS = [("http", ""), ("https", ""), ("http", ":8080"), ("https", ":8443")]


# Sessions.


def test_a_new_session_takes_over_and_the_earlier_one_is_refused(stubs: Stubs, crawl: str) -> None:
    node = fresh_name()
    (lease,) = stubs.pages(crawl, node=node, session="one")
    answer = stubs.next(crawl, wait_s=TIMEOUT_S, node=node, session="two")
    (again,) = answer.leases  # which went back at once
    assert again.uri == lease.uri
    for call in (
        lambda: stubs.next(crawl, node=node, session="one"),
        lambda: stubs.finish(report(lease), node=node, session="one"),
        lambda: stubs.heartbeat([lease.token], node=node, session="one"),
    ):
        problem = refused(call, PRECONDITION, "SESSION_SUPERSEDED", node)
        assert problem.metadata == {"node": node}
    assert stubs.finish(report(lease), node=node, session="two") == [("STALE", False)]
    assert stubs.finish(report(again), node=node, session="two") == [("SUCCEEDED", False)]


# Leases that lapse, over real time.


def test_a_heartbeat_extends_exactly_the_leases_that_it_names(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", *LONG) as server:
        stubs = server.stubs
        crawl = fresh_name()
        stubs.launch(crawl, seed_of(crawl, "a."), seed_of(crawl, "b."))
        named, unnamed = stubs.pages(crawl, least=2)
        assert stubs.heartbeat().interval_duration.ToMilliseconds() == HEARTBEAT_S * 1000
        found: list[frontier_pb2.Lease] = []
        while (
            not found
        ):  # the one that is not named was given out last, so that the other would lapse before it
            answer = stubs.heartbeat([named.token])
            assert not answer.ended_tokens
            # Waits between heartbeats as a node does, and sees what can be leased meanwhile.
            found += stubs.next(crawl, wait_s=HEARTBEAT_S, node="other").leases
        (again,) = found
        period_ns = again.expire_time.ToNanoseconds() - unnamed.expire_time.ToNanoseconds()
        assert period_ns >= LEASE_S * 10**9  # from one being given out to the other
        assert (again.uri, again.attempt) == (unnamed.uri, 2)
        assert list(stubs.heartbeat([named.token, unnamed.token]).ended_tokens) == [unnamed.token]
        assert stubs.finish(report(named)) == [("SUCCEEDED", False)]
        assert stubs.finish(report(unnamed)) == [("STALE", False)]
        assert stubs.finish(report(again), node="other") == [("SUCCEEDED", False)]
        assert stubs.statistics(crawl).lapsed_count == 1
