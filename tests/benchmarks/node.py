"""What a page costs a crawler node, beside what it costs to fetch it and do nothing with it."""

import json
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.calibration import loop_ms
from benchmarks.load import BATCH, CALL_S, Load, host_names
from benchmarks.measuring import CLIENT, SERVER, Figure, Limit
from benchmarks.processes import Child, FrontierServer
from benchmarks.timed_node import STAGES

from practice_web.practice import PAGES
from toehold.frontier.v1 import admin_pb2, crawl_pb2

THREADS = 16
"""Toes of the node, and threads that fetch with httpx alone."""
HOSTS = 100
TIMES_LISTED = 2
"""How often each page is listed, each time on another host."""
ROUNDS = 3
POLL_S = 0.02

MAX_CRAWL_S = 60.0
MAX_TIMES = 3.0
"""Most that a page may cost the node, in fetches of the same page by httpx alone."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The whole list, fetched once."""

    pages: int
    elapsed_s: float
    cpu_s: float
    frontier_cpu_s: float = 0.0


def node(folder: Path) -> Iterator[Figure]:
    """The same pages of many hosts, which need no rest: fetched by httpx in threads, and by a node that looks
    for links, writes WARC files and reports to a frontier. They take turns; the median turn counts."""
    hosts = host_names(HOSTS)
    with (
        Child("benchmarks.page_server", str(PAGES), errors=folder / "site.err") as site,
        FrontierServer(folder / "store") as server,
        Load(server.address) as load,
    ):
        port = site.hear()
        urls = listed_pages(hosts, port)
        listed = folder / "urls.txt"
        listed.write_text("\n".join(urls))
        options = (f"--frontier={server.address}", f"--toes={THREADS}", f"--warc={folder / 'warcs'}")
        resolves = [f"--resolve={host}:{port}:127.0.0.1" for host in hosts]
        with (
            Child("benchmarks.bare_fetch", str(THREADS), str(listed), errors=folder / "bare.err") as bare,
            Child("benchmarks.timed_node", *options, *resolves, errors=folder / "node.err") as crawler,
        ):
            bare.hear()
            crawler.hear()
            loops_ms = [loop_ms()]
            alone: list[Turn] = []
            crawled: list[Turn] = []
            for number in range(ROUNDS):
                alone.append(_fetch(bare, len(urls)))
                loops_ms.append(loop_ms())
                crawled.append(crawl_pages(f"round-{number}", urls, crawler, server, load))
                loops_ms.append(loop_ms())
            used_s: dict[str, float] = json.loads(crawler.end())
    yield _figure(f"Pages fetched by httpx alone, {THREADS} threads", alone, loops_ms)
    figure = _figure(f"Pages fetched and searched, stored and reported, {THREADS} toes", crawled, loops_ms)
    stages_us = {stage: used_s[stage] / figure.items * 1e6 for stage in STAGES}
    stages_us["rest"] = sum(turn.cpu_s for turn in crawled) / figure.items * 1e6 - sum(stages_us.values())
    times = statistics.median(ours.cpu_s / bare.cpu_s for bare, ours in zip(alone, crawled, strict=True))
    words = "times the CPU of httpx alone for a page that a node fetches, searches, stores and reports"
    yield replace(figure, cpu_us={**figure.cpu_us, **stages_us}, limit=Limit(words, times, MAX_TIMES))


def _figure(name: str, turns: Sequence[Turn], loops_ms: Sequence[float]) -> Figure:
    return Figure(
        name,
        sum(turn.pages for turn in turns),
        statistics.median(turn.pages / turn.elapsed_s for turn in turns),
        {
            SERVER: statistics.median(turn.frontier_cpu_s / turn.pages * 1e6 for turn in turns),
            CLIENT: statistics.median(turn.cpu_s / turn.pages * 1e6 for turn in turns),
        },
        min(loops_ms),
    )


def listed_pages(hosts: Sequence[str], port: str) -> list[str]:
    """The URLs of all pages, those of a host far from each other, as politeness has it."""
    files = sorted(str(file.relative_to(PAGES)) for file in PAGES.rglob("*.html"))
    return [f"http://{hosts[n % len(hosts)]}:{port}/{file}" for n, file in enumerate(files * TIMES_LISTED)]


def _fetch(bare: Child, count: int) -> Turn:
    since_s, used_s = time.perf_counter(), bare.cpu_s()
    bare.say("go")
    fetched = bare.hear()
    if fetched != str(count):
        raise RuntimeError(f"httpx fetched {fetched} of {count} pages")
    return Turn(count, time.perf_counter() - since_s, bare.cpu_s() - used_s)


def crawl_pages(name: str, urls: Sequence[str], crawler: Child, server: FrontierServer, load: Load) -> Turn:
    """A crawl of these URLs and none that they link to. It has them before it begins."""
    spec = crawl_pb2.CrawlSpec(
        allowed_addresses=["loopback"],
        scope=crawl_pb2.ScopeSpec(max_link_hops=0, max_embed_hops=0, max_redirect_hops=0),
    )
    spec.politeness.delay_factor = 0
    spec.politeness.min_delay.FromMilliseconds(0)
    spec.politeness.max_delay.FromMilliseconds(0)
    admin = load.admin
    admin.CreateCrawl(admin_pb2.CreateCrawlRequest(crawl=name, spec=spec), timeout=CALL_S)
    seeds = [
        admin_pb2.AddSeedsRequest(crawl=name, uris=urls[at : at + BATCH]) for at in range(0, len(urls), BATCH)
    ]
    admin.AddSeeds(iter(seeds), timeout=CALL_S)
    since_s, used_s, frontier_used_s = time.perf_counter(), crawler.cpu_s(), server.cpu_s()
    admin.LaunchCrawl(admin_pb2.LaunchCrawlRequest(crawl=name), timeout=CALL_S)
    until_s = since_s + MAX_CRAWL_S
    while _state(load, name) != crawl_pb2.CRAWL_STATE_FINISHED:
        crawler.must_run()
        if time.perf_counter() > until_s:
            raise RuntimeError(f"a node did not fetch {len(urls)} pages within {MAX_CRAWL_S:.0f} s")
        time.sleep(POLL_S)
    turn = Turn(
        len(urls), time.perf_counter() - since_s, crawler.cpu_s() - used_s, server.cpu_s() - frontier_used_s
    )
    request = admin_pb2.GetStatisticsRequest(crawl=name)
    fetched = admin.GetStatistics(request, timeout=CALL_S).statistics.succeeded_count
    if fetched != len(urls):
        raise RuntimeError(f"a node fetched {fetched} of {len(urls)} pages")
    return turn


def _state(load: Load, crawl: str) -> int:
    return load.admin.GetCrawl(admin_pb2.GetCrawlRequest(crawl=crawl), timeout=CALL_S).crawl.status.state
