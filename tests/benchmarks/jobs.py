"""How long Next takes while a job goes through everything that a crawl has."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.fetchers import Fetcher
from benchmarks.load import CALL_S, Load, host_names, links, schedule_requests
from benchmarks.measuring import Figure, Limit, measure
from benchmarks.processes import FrontierServer

from toehold.frontier.v1 import admin_pb2, crawl_pb2

HOSTS = 2_000
PAGES = 8_000  # of 50 links
MAX_P99_MS = 50.0
LEASES_A_ROUND = 50


def jobs(folder: Path) -> Iterator[Figure]:
    """Next, asked by one node all the time, while a job deletes URIs by pattern, and while one verifies."""
    hosts = host_names(HOSTS)
    with FrontierServer(folder / "store") as server, Load(server.address) as load:
        load.create_crawl("bench", hosts, launch=True)
        requests = schedule_requests("bench", links(hosts, PAGES))
        load.schedule(requests, crawl_pb2.VERDICT_QUEUED)()
        fetcher = Fetcher(load, 1)
        fetcher.fetch(100)
        deletion = admin_pb2.DeleteUrisJob(queue_pattern=".*", uri_pattern=".*-[0-9]*7[.]html.*")
        for name, request in (
            ("a job deletes URIs", admin_pb2.StartJobRequest(crawl="bench", delete_uris=deletion)),
            ("a job verifies", admin_pb2.StartJobRequest(crawl="bench", verify=admin_pb2.VerifyJob())),
        ):
            number = load.admin.StartJob(request, timeout=CALL_S).job.job
            fetcher.waits_s.clear()

            def work(number: int = number) -> int:
                done = 0
                while not _ended(load, number):
                    done += fetcher.fetch(LEASES_A_ROUND)
                return done

            figure = measure(f"Next while {name}", server.cpu_s, [work], fetcher.waits_s)
            limit = Limit(f"ms to answer 99 of 100 Next while {name}", figure.wait_ms["p99"], MAX_P99_MS)
            yield replace(figure, limit=limit)


def _ended(load: Load, number: int) -> bool:
    job = load.admin.GetJob(admin_pb2.GetJobRequest(crawl="bench", job=number), timeout=CALL_S).job
    return job.state not in (admin_pb2.JOB_STATE_RUNNING, admin_pb2.JOB_STATE_RECEIVING)
