"""What a page costs node and frontier together, while they crawl sites without an end."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.calibration import REFERENCE_MS, loop_ms
from benchmarks.endless_sites import REFERENCES, host_name
from benchmarks.load import CALL_S, Load
from benchmarks.measuring import CLIENT, SERVER, Figure, Limit
from benchmarks.processes import Child, Descendants, FrontierServer

from toehold.frontier.v1 import admin_pb2, crawl_pb2

CRAWL = "endless"
SITES = 27
PROCESSES = 2
FIRST_PAGES = 3000
"""So many pages are fetched before it is measured: among them are the menus of all sites."""
MEASURED_S = 20.0
POLL_S = 0.1
MAX_START_S = 240.0


@dataclass(frozen=True, slots=True)
class Case:
    """A crawl of all sites."""

    scheme: str
    new: int
    """How many of a page's links are new."""
    most_ms: float | None = None
    """Most CPU that a page may cost where the loop takes `REFERENCE_MS`."""

    def __str__(self) -> str:
        return f"{self.scheme}, {self.new} of {REFERENCES} references new"


CASES = (Case("http", 10, 2.3), Case("https", 10, 2.4), Case("http", 90))


def whole_crawl(folder: Path, cases: Sequence[Case] = CASES, seconds: float = MEASURED_S) -> Iterator[Figure]:
    """A figure of each case. Nodes write WARC files; no host needs a rest."""
    for number, case in enumerate(cases):
        here = folder / f"whole-{number}"
        here.mkdir()
        yield _crawled(here, case, seconds)


def _crawled(folder: Path, case: Case, seconds: float) -> Figure:
    ca_file, hosts = folder / "ca.pem", [host_name(number) for number in range(SITES)]
    with ExitStack() as stack:
        enter = stack.enter_context
        arguments = str(ca_file), str(SITES), str(case.new)
        sites = enter(Child("benchmarks.endless_sites", *arguments, errors=folder / "sites.err"))
        port = dict(zip(("http", "https"), sites.hear().split(), strict=True))[case.scheme]
        server = enter(FrontierServer(folder / "store"))
        load = enter(Load(server.address))
        used = enter(Descendants(lambda command: CLIENT if "crawler_node" in command else None))
        loops_ms = [loop_ms()]
        node = enter(
            Child(
                "crawler_node",
                *(f"--frontier={server.address}", f"--processes={PROCESSES}", f"--ca-file={ca_file}"),
                *(f"--warc={folder / 'warcs'}", *(f"--resolve={host}:{port}:127.0.0.1" for host in hosts)),
                errors=folder / "node.err",
            )
        )
        _launch(load, [f"{case.scheme}://{host}:{port}/p/0" for host in hosts])
        until_s = time.perf_counter() + MAX_START_S
        while _statistics(load).succeeded_count < FIRST_PAGES:
            node.must_run()
            if time.perf_counter() > until_s:
                raise RuntimeError(f"fewer than {FIRST_PAGES} pages were fetched within {MAX_START_S:.0f} s")
            time.sleep(POLL_S)
        first, since_s = _statistics(load), time.perf_counter()
        node_s, server_s = node.tree_cpu_s(), server.cpu_s()
        time.sleep(seconds)
        last, took_s = _statistics(load), time.perf_counter() - since_s
        node_s, server_s = node.tree_cpu_s() - node_s, server.cpu_s() - server_s
        mib = used.peak_mib()
    loops_ms.append(loop_ms())
    pages = last.succeeded_count - first.succeeded_count
    if last.failed_count > first.failed_count:
        raise RuntimeError(f"{last.failed_count - first.failed_count} pages failed meanwhile")
    figure = Figure(
        f"Pages of {SITES} endless sites, {PROCESSES} processes with WARC files; {case}",
        pages,
        pages / took_s,
        {SERVER: server_s / pages * 1e6, CLIENT: node_s / pages * 1e6},
        min(loops_ms),
        mib=mib,
    )
    if case.most_ms is None:
        return figure
    words = f"ms of CPU for a page, node and frontier ({case}), where the loop takes {REFERENCE_MS:.0f} ms"
    both_ms = (figure.scaled_us(CLIENT) + figure.scaled_us(SERVER)) / 1000
    return replace(figure, limit=Limit(words, both_ms, case.most_ms))


def _launch(load: Load, seeds: Sequence[str]) -> None:
    spec = crawl_pb2.CrawlSpec(allowed_addresses=["loopback"])
    spec.politeness.delay_factor = 0
    spec.politeness.min_delay.FromMilliseconds(0)
    spec.politeness.max_delay.FromMilliseconds(0)
    admin = load.admin
    admin.CreateCrawl(admin_pb2.CreateCrawlRequest(crawl=CRAWL, spec=spec), timeout=CALL_S)
    admin.AddSeeds(iter([admin_pb2.AddSeedsRequest(crawl=CRAWL, uris=seeds)]), timeout=CALL_S)
    admin.LaunchCrawl(admin_pb2.LaunchCrawlRequest(crawl=CRAWL), timeout=CALL_S)


def _statistics(load: Load) -> crawl_pb2.Statistics:
    request = admin_pb2.GetStatisticsRequest(crawl=CRAWL)
    return load.admin.GetStatistics(request, timeout=CALL_S).statistics
