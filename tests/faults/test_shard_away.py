"""A shard that stands still: a node goes on with the others, and misses nothing once it is back."""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from acceptance.programs import Program, Programs, children, program_of
from core_doubles.placing import PLACES
from frontier_harness.small_site import SmallSite, small_site
from frontier_harness.soaking import Soak
from frontier_harness.waiting import WHOLE_CRAWL_S, eventually

from frontier_server.program.shard_map import read_map
from toehold.frontier.v1 import admin_pb2, crawl_pb2
from toehold_client import CrawlController, FrontierClient

HOSTS = [f"site{number}.example" for number in range(14)]
PAGES = 12
SHARDS, STOPPED = 3, 1
UNREPORTED = 1  # the exit code of a node

WOVEN_HOSTS = [f"woven{number}.example" for number in range(48)]
WOVEN_PAGES = 400
DELAY_MS = 300
STOPPED_S = 60.0


@pytest.fixture
def site() -> Iterator[SmallSite]:
    """Each host has `/`, which links to its own pages, and `/cross`, which links to `/found` of all hosts."""
    with SmallSite(PAGES) as served:
        served.links["/cross"] = "".join(f'<a href="{served.url(host, "/found")}">it</a>' for host in HOSTS)
        thread = threading.Thread(target=served.serve_forever, args=(0.05,))
        thread.start()
        yield served
        served.let_all_go()
        served.shutdown()
        thread.join()


@pytest.fixture
def woven_site() -> Iterator[SmallSite]:
    """Each of WOVEN_PAGES pages of a host links to the next one on some other hosts."""
    with small_site(WOVEN_PAGES) as served:
        for page in range(WOVEN_PAGES - 1):
            others = [served.url(WOVEN_HOSTS[(7 * page + 11 * n) % len(WOVEN_HOSTS)]) for n in range(4)]
            served.links[f"/page/{page}"] = "".join(
                f'<a href="{url}page/{page + 1}">it</a>' for url in others
            )
        yield served


def asked(site: SmallSite, hosts: list[str], *paths: str) -> bool:
    """Whether each of these hosts was asked for all these paths."""
    requests = set(site.requests)
    return all((host, path) in requests for host in hosts for path in paths)


def events(program: Program, name: str) -> list[str]:
    return [line for line in (program.said + program.complaints).splitlines() if f'"event": "{name}"' in line]


def launched(client: FrontierClient, *seeds: str, delay_ms: int = 0) -> CrawlController:
    """A crawl whose hosts rest for so long."""
    spec = crawl_pb2.CrawlSpec(allowed_addresses=["loopback"])
    spec.politeness.min_delay.FromMilliseconds(delay_ms)
    spec.politeness.delay_factor = 0
    crawl = CrawlController(client, "parted")
    crawl.create(spec)
    crawl.add_seeds(seeds)
    crawl.launch()
    return crawl


def test_a_node_goes_on_with_the_other_shards_and_misses_nothing(
    programs: Programs, tmp_path: Path, site: SmallSite
) -> None:
    frontier = programs.frontier(tmp_path / "data", "--shards", str(SHARDS)).program
    address = frontier.said.split()[-1]
    shards = read_map(tmp_path / "data")
    assert shards is not None
    by_shard = {host: shards.shard_of(PLACES.of_host(host)) for host in HOSTS}
    halted = [host for host in HOSTS if by_shard[host] == STOPPED]
    crossing, *going_on = [host for host in HOSTS if by_shard[host] != STOPPED]
    assert halted and {by_shard[host] for host in going_on} == {0, 2}
    (shard,) = [pid for pid in children(frontier.pid) if f"shard-{STOPPED}" in program_of(pid)]
    options = (*site.resolve(HOSTS), "--toes", str(2 * len(HOSTS)))
    node = programs.node("node", address, tmp_path / "warcs", *options)

    cross, middle = site.hold("/cross"), site.hold("/page/4")
    with FrontierClient(address) as client:
        others = [site.url(host) for host in HOSTS if host != crossing]
        crawl = launched(client, *others, site.url(crossing, "/cross"))
        eventually(lambda: asked(site, [*halted, *going_on], "/page/4"), "the middle of the crawl")
        eventually(lambda: asked(site, [crossing], "/cross"), "the page that links to all hosts")

        os.kill(shard, signal.SIGSTOP)
        try:
            before = len(site.requests)
            cross.set()
            middle.set()
            all_pages = [f"/page/{number}" for number in range(PAGES)]
            eventually(lambda: asked(site, going_on, *all_pages), "the pages of the other shards")
            eventually(lambda: asked(site, [crossing, *going_on], "/found"), "links of the others' pages")
            meanwhile = {host for host, _ in site.requests[before:]}
            assert meanwhile == {crossing, *going_on}
            reasons = client.explain("parted")
            absences = [reason.message for reason in reasons if reason.why == admin_pb2.WHY_SHARD_AWAY]
            assert len(absences) == 1 and absences[0].endswith(
                f"; {len(halted)} links of this crawl wait for it"
            ), absences
            eventually(lambda: events(node, "outbox_begun"), "the node's word that pages wait")
        finally:
            os.kill(shard, signal.SIGCONT)
        crawl.wait_for("FINISHED", WHOLE_CRAWL_S)

    wanted = {(host, path) for host in (*halted, *going_on) for path in ("/", *all_pages)}
    wanted |= {(crossing, "/cross")} | {(host, path) for host in HOSTS for path in ("/found", "/robots.txt")}
    assert Counter(site.requests) == Counter(wanted)
    eventually(lambda: events(node, "outbox_empty"), "the node's word that none waits")
    node.signal(signal.SIGTERM)
    assert node.wait() == 0, node.complaints


@pytest.mark.soak("kills")
def test_a_node_ends_although_a_shard_that_it_waits_for_stays_away(
    programs: Programs, tmp_path: Path, site: SmallSite, soak: Soak
) -> None:
    frontier = programs.frontier(tmp_path / "data", "--shards", str(SHARDS)).program
    address = frontier.said.split()[-1]
    shards = read_map(tmp_path / "data")
    assert shards is not None
    halted = next(host for host in HOSTS if shards.shard_of(PLACES.of_host(host)) == STOPPED)
    (shard,) = [pid for pid in children(frontier.pid) if f"shard-{STOPPED}" in program_of(pid)]
    first = programs.node("first", address, tmp_path / "first", *site.resolve(HOSTS))
    page = site.hold("/page/4")
    with FrontierClient(address) as client:
        crawl = launched(client, site.url(halted))
        eventually(lambda: asked(site, [halted], "/page/4"), "a page of the shard")
        os.kill(shard, signal.SIGSTOP)
        try:
            page.set()
            eventually(lambda: events(first, "outbox_begun"), "the node's word that pages wait")
            begun_s = time.monotonic()
            first.signal(signal.SIGTERM)
            assert first.wait() == UNREPORTED, first.complaints
            assert 30 <= time.monotonic() - begun_s < 45  # a supervisor may be as patient
            (line,) = events(first, "pages_unreported")
            assert '"pages": 1' in line
        finally:
            os.kill(shard, signal.SIGCONT)
        programs.node("second", address, tmp_path / "second", *site.resolve(HOSTS))
        crawl.wait_for("FINISHED", 10 * WHOLE_CRAWL_S)
    wanted = Counter({(halted, path) for path in ("/", "/robots.txt", *(f"/page/{n}" for n in range(PAGES)))})
    assert Counter(site.requests) == wanted + Counter([(halted, "/page/4")])
    soak.count(faults=1, checked=len(site.requests))


@pytest.mark.soak("kills")
def test_two_shards_keep_two_thirds_of_their_rate_while_the_third_stands_still(
    programs: Programs, tmp_path: Path, woven_site: SmallSite, soak: Soak
) -> None:
    site = woven_site
    frontier = programs.frontier(tmp_path / "data", "--shards", str(SHARDS)).program
    address = frontier.said.split()[-1]
    shards = read_map(tmp_path / "data")
    assert shards is not None
    going_on = {host for host in WOVEN_HOSTS if shards.shard_of(PLACES.of_host(host)) != STOPPED}
    (shard,) = [pid for pid in children(frontier.pid) if f"shard-{STOPPED}" in program_of(pid)]
    options = (*site.resolve(WOVEN_HOSTS), "--toes", str(len(WOVEN_HOSTS)))
    programs.node("node", address, tmp_path / "warcs", *options)

    def pages_a_second(seconds: float) -> float:
        """How many pages of the shards that go on are fetched in a second."""
        begin, begin_s = len(site.requests), time.monotonic()
        time.sleep(seconds)
        fetched = [host for host, _ in site.requests[begin:] if host in going_on]
        return len(fetched) / (time.monotonic() - begin_s)

    with FrontierClient(address) as client:
        crawl = launched(client, *map(site.url, WOVEN_HOSTS), delay_ms=DELAY_MS)
        eventually(lambda: asked(site, WOVEN_HOSTS, "/page/3"), "all hosts to be under way")
        before = pages_a_second(10)
        os.kill(shard, signal.SIGSTOP)
        try:
            meanwhile = pages_a_second(STOPPED_S)
        finally:
            os.kill(shard, signal.SIGCONT)
        crawl.wait_for("FINISHED", 10 * WHOLE_CRAWL_S)

    paths = {"/", "/robots.txt", *(f"/page/{page}" for page in range(WOVEN_PAGES))}
    assert Counter(site.requests) == Counter({(host, path) for host in WOVEN_HOSTS for path in paths})
    soak.count(faults=1, checked=len(site.requests))
    print(f"{before:.1f} pages a second before, {meanwhile:.1f} while shard {STOPPED} stands still")
    assert meanwhile >= 2 / 3 * before, f"{meanwhile:.1f} pages a second, {before:.1f} before"
