"""The console with few queues and nodes, and with many: what a look costs, and whether a page keeps up.

The page is a real one, in Chromium. Without it this part fails: `make chromium` unpacks it.
"""

import itertools
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.calibration import loop_ms
from benchmarks.load import Load, host_names, links, schedule_requests
from benchmarks.measuring import CLIENT, SERVER, Figure, Limit
from benchmarks.processes import FrontierServer, cpu_s
from frontier_harness.browser import Visit, chromium, visit
from frontier_harness.console import ConsoleProcess
from playwright.sync_api import Browser, expect

from toehold.frontier.v1 import crawl_pb2, frontier_pb2
from toehold.frontier.v1.frontier_pb2_grpc import FrontierServiceStub

CRAWL = "bench"
SIZES = ((20, 2), (10_000, 1_000))
"""Queues and nodes."""
LOOKS = 10
MOST_BETWEEN_MS = 1_500
MOST_TASK_MS = 200
MOST_FIRST_MS = 4_000
MOST_PART_MS = 2_000
STEPS = (("FETCHING", 6), ("ABOUT_TO_GET_URI", 2))
_NOTE_TASKS = """window.longest = 0; new PerformanceObserver((list) => {
    for (const each of list.getEntries()) window.longest = Math.max(window.longest, each.duration);
}).observe({ entryTypes: ["longtask"] })"""
_COUNT_LOOKS = """window.looks = []; const source = window.EventSource;
window.EventSource = function (...given) { const made = new source(...given);
    made.addEventListener("look", () => window.looks.push(performance.now())); return made; }"""


def console(folder: Path) -> Iterator[Figure]:
    """A page that is open for some looks, and its other pages."""
    with chromium(folder) as browser:
        for queues, nodes in SIZES:
            yield from _of_size(folder, browser, queues, nodes)


def _of_size(folder: Path, browser: Browser, queues: int, nodes: int) -> Iterator[Figure]:
    name = f"{queues} queues, {nodes} nodes"
    with FrontierServer(folder / f"store-{queues}") as server, Load(server.address) as load:
        hosts = host_names(queues)
        load.create_crawl(CRAWL, hosts, rest_ms=600_000, launch=True)
        offered = links(hosts, max(queues // 25, 10))
        load.schedule(schedule_requests(CRAWL, offered), crawl_pb2.VERDICT_QUEUED)()
        _attend(load, nodes)
        with ConsoleProcess(server.address, folder) as served, visit(browser, served.url) as visited:
            yield from _looked_at(server, served, visited, name)


def _attend(load: Load, nodes: int) -> None:
    """So many nodes are there."""
    stub = FrontierServiceStub(load._channel)
    steps = [frontier_pb2.ToeStepCount(step=step, count=count) for step, count in STEPS]
    for number in range(nodes):
        request = frontier_pb2.HeartbeatRequest(node=f"node-{number:04}", session="bench", toe_steps=steps)
        stub.Heartbeat(request, timeout=60)


def _looked_at(server: FrontierServer, served: ConsoleProcess, visited: Visit, name: str) -> Iterator[Figure]:
    page = visited.page
    page.add_init_script(_COUNT_LOOKS)
    page.add_init_script(_NOTE_TASKS)
    begun_s = time.perf_counter()
    visited.go(f"#/crawls/{CRAWL}")
    expect(page.locator(".verdict")).not_to_be_empty()
    first_ms = (time.perf_counter() - begun_s) * 1e3
    before = page.evaluate("window.looks.length")
    own_s, server_s = cpu_s(served.child.pid), server.cpu_s()
    while page.evaluate("window.looks.length") < before + LOOKS:
        page.wait_for_timeout(100)
    own_us = (cpu_s(served.child.pid) - own_s) / LOOKS * 1e6
    server_us = (server.cpu_s() - server_s) / LOOKS * 1e6
    at_ms = page.evaluate("window.looks")[before:]
    between_ms = statistics.median(after - earlier for earlier, after in itertools.pairwise(at_ms))
    longest_ms = page.evaluate("window.longest")

    def figure(what: str, words: str, value: float, most: float) -> Figure:
        costs = {SERVER: server_us, CLIENT: own_us}
        limit = Limit(f"{words} ({name})", value, most)
        return Figure(f"{what}; {name}", LOOKS, 1e3 / between_ms, costs, loop_ms(), limit=limit)

    yield figure("A look in a page", "ms between looks", between_ms, MOST_BETWEEN_MS)
    yield figure("the same", "ms of the page's longest task", longest_ms, MOST_TASK_MS)
    yield figure("the same", "ms until the first page has a verdict", first_ms, MOST_FIRST_MS)
    for part in (f"#/crawls/{CRAWL}/queues", "#/nodes"):
        begun_s = time.perf_counter()
        visited.go(part)
        expect(page.get_by_role("row").nth(1)).to_be_visible()
        part_ms = (time.perf_counter() - begun_s) * 1e3
        yield figure(f"page {part.rpartition('/')[2]}", "ms until it shows rows", part_ms, MOST_PART_MS)
