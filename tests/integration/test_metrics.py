"""Metrics of real programs during a real crawl: as documented, and as GetStatistics tells."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from fastwarc.warc import ArchiveIterator
from frontier_harness.calls import TIMEOUT_S, Stubs, spec
from frontier_harness.embedded import children_of
from frontier_harness.metrics import ABSENT, ROOT, Page, Prometheus, page_at, tool
from frontier_harness.process import ServerProcess, line_of, run_to_end
from frontier_harness.small_site import SmallSite, small_site
from frontier_harness.waiting import PATIENCE_S, eventually

from crawler_node.metrics import definitions as node_definitions
from crawler_node.process import metrics_of
from frontier_server.metrics import definitions as frontier_definitions
from toehold.frontier.v1 import admin_pb2, crawl_pb2
from toehold_base.observability.metrics import Metric, MetricType, Section

PAGES = 40
FINISHED = crawl_pb2.CRAWL_STATE_FINISHED
_ROW = re.compile(r"^\| `(\w+)(?:\{([^}]*)\})?` \| (\w+) \|", re.MULTILINE)


@dataclass(frozen=True)
class Scene:
    """A crawl that has ended, and its programs, which still run."""

    stubs: Stubs
    statistics: crawl_pb2.Statistics
    events: list[crawl_pb2.Event]
    frontier: Page
    node: Page
    warcs: Path
    site: SmallSite
    prometheus: Prometheus | None


def metrics_address(server: ServerProcess) -> str:
    """Where a frontier serves its metrics, by its log."""
    lines = map(json.loads, server.errors.read_text().splitlines())
    return str(next(line["metrics"] for line in lines if line["event"] == "serving" and "metrics" in line))


@contextmanager
def node_of(server: ServerProcess, folder: Path, *options: str) -> Iterator[tuple[int, str]]:
    """A node that fetches for a frontier: its process id, and where its metrics are."""
    command = [
        *(sys.executable, "-m", "crawler_node", "--frontier", server.address, "--until-stdin-ends"),
        *("--warc", str(folder), "--toes", "4", "--metrics", "127.0.0.1:0", *options),
    ]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as child:
        try:
            yield child.pid, metrics_of(line_of(child))
            assert child.poll() is None, "it ended meanwhile"
        finally:
            child.kill()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("metrics")
    with ExitStack() as stack:
        site = stack.enter_context(small_site(PAGES))
        site.statuses |= {"/page/3": 404, "/page/5": 799}
        site.answer_s = 0.02
        server = stack.enter_context(ServerProcess(folder / "data", "--metrics", "127.0.0.1:0"))
        _, node_at = stack.enter_context(node_of(server, folder / "warcs"))
        frontier_at = metrics_address(server)
        prometheus = None
        if tool("prometheus") is not None:
            prometheus = stack.enter_context(Prometheus(folder / "prometheus", frontier_at, node_at))
        stubs = server.stubs
        stubs.launch("pages", site.url(), of=spec())
        stubs.until("pages", FINISHED)
        events = stubs.events("pages")
        with pytest.raises(grpc.RpcError), grpc.insecure_channel(server.address) as channel:
            get_crawl: Any = channel.unary_unary("/toehold.frontier.v1.FrontierAdminService/GetCrawl")
            get_crawl(b"\xff", timeout=TIMEOUT_S)
        eventually(lambda: page_at(node_at).of("toehold_node_reports_waiting") == 0)
        statistics = stubs.statistics("pages")
        frontier = eventually(lambda: having(page_at(frontier_at), "toehold_frontier_next_waiting", 1))
        pages = frontier, page_at(node_at)
        yield Scene(stubs, statistics, events, *pages, folder / "warcs", site, prometheus)
        assert server.child.poll() is None


def documented() -> dict[str, tuple[str, set[str]]]:
    """The types and labels of the metrics in docs/reference.md, by name."""
    rows = _ROW.findall((ROOT / "docs" / "reference.md").read_text().partition("\n## Metrics\n")[2])
    return {name: (kind, set(re.findall(r"\w+", labels))) for name, labels, kind in rows}


def test_the_programs_serve_all_metrics_that_the_manual_lists_and_no_others(scene: Scene) -> None:
    listed = documented()
    served = scene.frontier.kinds | scene.node.kinds
    assert {name: kind for name, (kind, _) in listed.items()} == served
    for page in (scene.frontier, scene.node):
        for name, labels in page.labels.items():
            assert labels == listed[name][1], name
    assert {name for name in scene.frontier.kinds if name.startswith("toehold_node")} == set()


@pytest.mark.parametrize("sections", [frontier_definitions.SECTIONS, node_definitions.SECTIONS])
def test_names_follow_the_rules_of_prometheus(sections: tuple[Section, ...]) -> None:
    metrics: list[Metric] = [metric for section in sections for metric in section.metrics]
    assert len({metric.name for metric in metrics}) == len(metrics)
    for metric in metrics:
        assert re.fullmatch(r"(process|toehold_frontier|toehold_node)(_[a-z]+)+", metric.name), metric
        assert metric.name.endswith("_total") == (metric.kind is MetricType.COUNTER), metric
        assert bool(metric.buckets) == (metric.kind is MetricType.HISTOGRAM), metric
        assert not re.search(r"_(ms|milliseconds|kb|mb|mib|percent)(_|$)", metric.name), metric


def values_of(statistics: crawl_pb2.Statistics) -> Iterator[tuple[str, dict[str, str], float]]:
    """The metrics that GetStatistics tells, too."""
    counts = {
        "toehold_frontier_crawl_uris_discovered_total": statistics.discovered_count,
        "toehold_frontier_crawl_robots_fetches_total": statistics.robots_fetch_count,
        "toehold_frontier_crawl_fetched_bytes_total": statistics.bytes_count,
        "toehold_frontier_crawl_novel_bytes_total": statistics.novel_bytes_count,
        "toehold_frontier_crawl_uris_relocated_total": statistics.relocated_count,
        "toehold_frontier_crawl_uris_noted_total": statistics.noted_count,
        "toehold_frontier_crawl_lapses_total": statistics.lapsed_count,
        "toehold_frontier_crawl_leases": statistics.leased_count,
        "toehold_frontier_crawl_deepest_queue_uris": statistics.deepest_queue_count,
    }
    for name, count in counts.items():
        yield name, {}, count
    for disposition in ("succeeded", "failed", "disregarded", "deferred"):
        count = getattr(statistics, f"{disposition}_count")
        yield "toehold_frontier_crawl_dispositions_total", {"disposition": disposition}, count
    places = {
        "queued": statistics.queued_count,
        "future": statistics.future_count,
        "retired": statistics.retired_uri_count,
        "ineligible": statistics.ineligible_uri_count,
    }
    for place, count in places.items():
        yield "toehold_frontier_crawl_uris", {"place": place}, count
    for verdict, count in statistics.verdict_counts.items():
        yield "toehold_frontier_crawl_verdicts_total", {"verdict": verdict}, count
    for status, count in statistics.fetch_status_counts.items():
        label = "other" if status == 799 else str(status)
        yield "toehold_frontier_crawl_final_statuses_total", {"status": label}, count
    for state, count in statistics.queue_state_counts.items():
        yield "toehold_frontier_crawl_queues", {"state": state}, count


def test_the_frontier_s_values_are_those_of_the_crawl_s_statistics(scene: Scene) -> None:
    page = scene.frontier
    assert scene.statistics.succeeded_count > PAGES - 3
    for name, labels, value in values_of(scene.statistics):
        assert page.of(name, crawl="pages", **labels) == value, (name, labels)
    states = {state: page.of("toehold_frontier_crawl_state", crawl="pages", state=state) for state in STATES}
    assert states == {state: float(state == "FINISHED") for state in STATES}
    assert page.of("toehold_frontier_crawl_has_problem", crawl="pages") == 0
    assert page.of("toehold_frontier_crawl_events_total", crawl="pages") == len(scene.events)
    assert page.of("toehold_frontier_nodes", presence="PRESENT") == 1
    assert page.of("toehold_frontier_leases") == 0
    assert page.of("toehold_frontier_next_waiting") == 1
    assert page.of("toehold_frontier_rpcs_refused_early_total", reason="INVALID_ARGUMENT_VALUE") == 1
    assert page.of("toehold_frontier_rpcs_total", method="GetCrawl", code="INVALID_ARGUMENT") == 1
    assert page.of("toehold_frontier_rpcs_total", method="CreateCrawl", code="OK") == 1
    assert page.of("toehold_frontier_rpc_duration_seconds_count", method="CreateCrawl") == 1
    assert page.sum("toehold_frontier_stream_messages_sent_total") >= 1
    assert page.of("toehold_frontier_flush_duration_seconds_count") > 0
    assert page.of("toehold_frontier_rocksdb_memtable_bytes") > 0


STATES = ("NASCENT", "PREPARING", "RUNNING", "EMPTY", "PAUSING", "PAUSED", "STOPPING", "FINISHED")


def test_the_node_s_values_are_those_of_the_crawl_its_files_and_its_calls(scene: Scene) -> None:
    node, frontier, statistics = scene.node, scene.frontier, scene.statistics
    fetched = {
        label: node.of("toehold_node_fetches_total", purpose="page", status=label)
        for label in ("200", "404", "other")
    }
    assert fetched == {"200": PAGES - 1, "404": 1, "other": 1}
    assert node.sum("toehold_node_fetches_total", purpose="robots") == statistics.robots_fetch_count
    requests = len(scene.site.requests)
    assert node.sum("toehold_node_fetches_total") == requests
    for stage in ("resolve", "head", "body", "extract", "write"):
        assert node.of("toehold_node_stage_duration_seconds_count", stage=stage) == requests, stage
    new, kept = (node.of("toehold_node_connections_total", use=use) for use in ("new", "kept"))
    assert node.of("toehold_node_stage_duration_seconds_count", stage="connect") == new
    assert (new + kept, kept > new) == (requests, True)
    assert (statistics.connection_count, statistics.kept_connection_count) == (new, kept)
    assert node.of("toehold_node_stage_duration_seconds_count", stage="tls") == 0
    assert node.of("toehold_node_stage_duration_seconds_sum", stage="head") >= requests * scene.site.answer_s
    assert node.of("toehold_node_received_bytes_total") > statistics.bytes_count
    records = 0
    for path in scene.warcs.iterdir():
        with path.open("rb") as file:
            records += sum(not record.is_warcinfo for record in map(_Kind, ArchiveIterator(file)))
    assert node.of("toehold_node_warc_records_total") == records == 3 * requests
    assert node.of("toehold_node_warc_files_total") == 1
    for method in ("Schedule", "Finished"):
        answered = frontier.of("toehold_frontier_rpcs_total", method=method, code="OK")
        assert node.of("toehold_node_frontier_calls_total", method=method, outcome="answered") == answered > 0
    assert node.sum("toehold_node_toes") == node.of("toehold_node_toes_wanted") == 4
    assert node.sum("toehold_node_leases") == node.of("toehold_node_reports_waiting") == 0


class _Kind:
    def __init__(self, record: object) -> None:
        self.is_warcinfo = "warcinfo" in str(getattr(record, "record_type", ""))


def has_scraped(prometheus: Prometheus, expression: str, value: float) -> bool:
    """Whether its last scrapes have one value of an expression, and this one."""
    return [scraped for _, scraped in prometheus.query(expression)] == [value]


def test_a_real_prometheus_scrapes_all_of_it_during_the_crawl(scene: Scene) -> None:
    prometheus = scene.prometheus
    if prometheus is None:
        pytest.skip(ABSENT.format("prometheus"))
    finished = 'toehold_frontier_crawl_state{crawl="pages",state="FINISHED"} == 1'
    eventually(lambda: prometheus.query(finished), "a scrape after the crawl's end")
    assert prometheus.query('max_over_time(toehold_frontier_crawl_leases{crawl="pages"}[5m]) > 0')
    # Frontier and node are scraped one after the other, and some metrics begin only with the crawl's end.
    wanted = {f"{name}_count" if kind == "histogram" else name for name, (kind, _) in documented().items()}
    wanted -= {metric.name for metric in frontier_definitions.OF_SHARDS}  # it has only one
    wanted -= {metric.name for metric in frontier_definitions.OF_LOGS}  # and no log
    eventually(lambda: wanted <= set(prometheus.get("label/__name__/values")), "a scrape of all metrics")
    for name, labels, value in values_of(scene.statistics):
        selector = ",".join(f'{label}="{text}"' for label, text in ({"crawl": "pages"} | labels).items())
        at = f"{name}{{{selector}}}"
        eventually(partial(has_scraped, prometheus, at, value), f"a scrape of {at} = {value}")
    node_sum = 'sum(toehold_node_fetches_total{job="toehold-node"})'
    eventually(lambda: prometheus.query(node_sum)[0][1] == len(scene.site.requests))
    for group in prometheus.get("rules")["groups"]:
        for rule in group["rules"]:
            assert rule["health"] in ("ok", "unknown") and rule["state"] == "inactive", rule


def test_a_crawl_that_is_torn_down_or_deleted_has_no_metrics_any_more(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", "--metrics", "127.0.0.1:0") as server:
        stubs, at = server.stubs, metrics_address(server)
        for name in ("torn", "deleted", "stays"):
            stubs.create(name)
        crawls = {"deleted", "stays", "torn"}
        assert crawls_of(page_at(at)) == crawls
        stubs.admin.TearDownCrawl(admin_pb2.TearDownCrawlRequest(crawl="torn"), timeout=TIMEOUT_S)
        stubs.admin.DeleteCrawl(admin_pb2.DeleteCrawlRequest(crawl="deleted"), timeout=TIMEOUT_S)
        eventually(lambda: crawls_of(page_at(at)) == {"stays"})
        assert page_at(at).of("toehold_frontier_crawls_torn_down") == 1
        with pytest.raises(urllib.error.HTTPError, match="404: The metrics are at /metrics"):
            urllib.request.urlopen(f"http://{at}/", timeout=PATIENCE_S)


def crawls_of(page: Page) -> set[str]:
    """The crawls that have metrics."""
    return {text for _, labels in page.values for label, text in labels if label == "crawl"}


def test_the_processes_of_a_node_are_added_up_and_the_dead_still_count(tmp_path: Path) -> None:
    with (
        small_site(12) as site,
        ServerProcess(tmp_path / "data") as server,
        node_of(server, tmp_path / "warcs", "--processes", "2") as (pid, at),
    ):
        server.stubs.launch("pages", site.url(), of=spec())
        server.stubs.until("pages", FINISHED)
        before = eventually(lambda: having(page_at(at), "toehold_node_fetches_total", 14))
        assert before.sum("toehold_node_toes") == 4
        assert before.of("toehold_node_workers", state="answering") == 2
        assert before.sum("toehold_node_build_info") == 1
        for worker in children_of(pid):
            os.kill(worker, signal.SIGKILL)
        assert page_at(at).sum("toehold_node_fetches_total") == 14
        eventually(lambda: having(page_at(at), "toehold_node_worker_restarts_total", 2))
        after = eventually(lambda: having(page_at(at), "toehold_node_workers", 2, state="answering"))
        assert after.sum("toehold_node_fetches_total") == 14
        assert after.of("process_cpu_seconds_total") >= before.of("process_cpu_seconds_total")


def having(page: Page, name: str, value: float, **labels: str) -> Page | None:
    """A page whose values of a metric add up to something."""
    return page if page.sum(name, **labels) == value else None


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("9707", "metrics must be HOST:PORT, such as 127.0.0.1:9707, got '9707'"),
        ("0.0.0.0:9707", "metrics: 0.0.0.0 is not a loopback address, and metrics are plain HTTP"),
    ],
)
def test_a_frontier_refuses_addresses_that_make_no_sense_or_are_beyond_loopback(
    tmp_path: Path, address: str, sentence: str
) -> None:
    done = run_to_end("--data", str(tmp_path / "data"), "--metrics", address)
    assert done.returncode == 2 and sentence in done.stderr


def test_a_port_that_is_taken_ends_each_program_with_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run_to_end("--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--metrics", address)
        assert done.returncode == 3, done.stderr
        assert f"cannot serve metrics on {address}: the port is taken" in done.stderr
        done = run_to_end("--warc", str(tmp_path), "--metrics", address, program=("-m", "crawler_node"))
        assert done.returncode == 2, done.stderr
        assert f"Invalid value for '--metrics': cannot listen on {address}: the port is taken" in done.stderr
    done = run_to_end("--warc", str(tmp_path), "--metrics", "0.0.0.0:0", program=("-m", "crawler_node"))
    assert done.returncode == 2
    assert "anybody could read the metrics; add --insecure on a network" in " ".join(done.stderr.split())
