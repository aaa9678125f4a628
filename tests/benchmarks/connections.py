"""How many TLS handshakes a site sees while nodes fetch all of it, by the site's own count."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.calibration import loop_ms
from benchmarks.load import CALL_S, Load
from benchmarks.measuring import CLIENT, SERVER, Figure, Limit
from benchmarks.one_site import HOST
from benchmarks.processes import Child, Descendants, FrontierServer

from toehold.frontier.v1 import admin_pb2, crawl_pb2

CRAWL = "one"
POLL_S = 0.2
MAX_CRAWL_S = 900.0
MOST_HANDSHAKES = 1 / 50  # a page, without rests


@dataclass(frozen=True, slots=True)
class Case:
    """A crawl of one host."""

    pages: int
    rest_s: float
    nodes: int
    processes: int
    """Of each node."""

    def __str__(self) -> str:
        rests = f"rests of {self.rest_s:g} s" if self.rest_s else "no rests"
        return f"{rests}, {self.nodes} node(s) of {self.processes} process(es)"


@dataclass(frozen=True, slots=True)
class Held:
    """What nodes hold, all their processes together."""

    descriptors: int
    mib: float

    @classmethod
    def by(cls, nodes: Sequence[Child]) -> "Held":
        """What these hold now."""
        return cls(sum(node.descriptors() for node in nodes), sum(node.resident_mib() for node in nodes))

    def __str__(self) -> str:
        return f"{self.descriptors} descriptors and {self.mib:.0f} MiB"


CASES = (Case(20_000, 0.0, 1, 2), Case(120, 1.0, 2, 1), Case(60, 5.0, 2, 1))


def connections(folder: Path, cases: Sequence[Case] = CASES) -> Iterator[Figure]:
    """A figure of each case; the first is limited."""
    for number, case in enumerate(cases):
        here = folder / str(number)
        here.mkdir()
        yield _crawled(here, case)


def _crawled(folder: Path, case: Case) -> Figure:
    ca_file = folder / "ca.pem"
    with ExitStack() as stack:
        enter = stack.enter_context
        site = enter(Child("benchmarks.one_site", str(ca_file), str(case.pages), errors=folder / "site.err"))
        port = site.hear()
        server = enter(FrontierServer(folder / "store"))
        load = enter(Load(server.address))
        _launch(load, f"https://{HOST}:{port}/0", case)
        used = enter(Descendants(lambda command: CLIENT if "crawler_node" in command else None))
        loops_ms, since_s, served_s = [loop_ms()], time.perf_counter(), server.cpu_s()
        options = (f"--frontier={server.address}", f"--ca-file={ca_file}", f"--processes={case.processes}")
        nodes = [
            enter(
                Child(
                    "crawler_node",
                    *(*options, f"--warc={folder / str(node)}.warcs", f"--name=node-{node}"),
                    f"--resolve={HOST}:{port}:127.0.0.1",
                    errors=folder / f"node-{node}.err",
                )
            )
            for node in range(case.nodes)
        ]
        early = late = Held(0, 0.0)
        while (done := _progress(load)) is not None:
            for node in nodes:
                node.must_run()
            late = Held.by(nodes)
            if done < case.pages / 4:
                early = late
            if time.perf_counter() - since_s > MAX_CRAWL_S:
                raise RuntimeError(f"{done} of {case.pages} pages were fetched within {MAX_CRAWL_S:.0f} s")
            time.sleep(POLL_S)
        took_s = time.perf_counter() - since_s
        server_s, node_s = server.cpu_s() - served_s, used.cpu_s()[CLIENT]
        site.say("")
        counts = json.loads(site.hear())
        loops_ms.append(loop_ms())
    handshakes, requests = counts["handshakes"], counts["requests"]
    if requests < case.pages:
        raise RuntimeError(f"the site saw {requests} requests, and has {case.pages} pages")
    print(
        f"{case}: {requests} requests, {handshakes} handshakes; "
        f"nodes held {early} after a quarter, {late} at the end"
    )
    figure = Figure(
        f"Pages of one host over https; {case}",
        requests,
        requests / took_s,
        {SERVER: server_s / requests * 1e6, CLIENT: node_s / requests * 1e6},
        min(loops_ms),
        mib=used.peak_mib(),
    )
    if case.rest_s:
        return figure
    words = "TLS handshakes for a page of one host that needs no rest"
    return replace(figure, limit=Limit(words, handshakes / requests, MOST_HANDSHAKES))


def _launch(load: Load, seed: str, case: Case) -> None:
    """A crawl of the whole site."""
    spec = crawl_pb2.CrawlSpec(allowed_addresses=["loopback"], scope=crawl_pb2.ScopeSpec(max_link_hops=100))
    spec.politeness.delay_factor = 0
    spec.politeness.min_delay.FromMilliseconds(round(1000 * case.rest_s))
    spec.politeness.max_delay.FromMilliseconds(round(1000 * case.rest_s))
    admin = load.admin
    admin.CreateCrawl(admin_pb2.CreateCrawlRequest(crawl=CRAWL, spec=spec), timeout=CALL_S)
    admin.AddSeeds(iter([admin_pb2.AddSeedsRequest(crawl=CRAWL, uris=[seed])]), timeout=CALL_S)
    admin.LaunchCrawl(admin_pb2.LaunchCrawlRequest(crawl=CRAWL), timeout=CALL_S)


def _progress(load: Load) -> int | None:
    """How many pages were fetched; None once the crawl has finished."""
    crawl = load.admin.GetCrawl(admin_pb2.GetCrawlRequest(crawl=CRAWL), timeout=CALL_S).crawl
    if crawl.status.state == crawl_pb2.CRAWL_STATE_FINISHED:
        return None
    request = admin_pb2.GetStatisticsRequest(crawl=CRAWL)
    return load.admin.GetStatistics(request, timeout=CALL_S).statistics.succeeded_count
