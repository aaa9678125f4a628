"""Several nodes on one frontier: one request at a time to a host, sessions, and leases that lapse."""

import threading
import time

import grpc
import pytest
from frontier_harness.calls import Stubs, fresh_name, report, spec
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import PATIENCE_S

from toehold.frontier.v1 import frontier_pb2

LEASE_S, HEARTBEAT_S = 3.0, 0.3


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


# Leases that lapse, over real time.
