"""Metrics without programs: which crawls have labels, what is summed, and processes that come and go."""

import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPException, RemoteDisconnected
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from core_doubles.lives import quick
from core_doubles.shell import PERIOD_MS, Shell
from frontier_harness.waiting import PATIENCE_S, eventually
from prometheus_client import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from crawler_node.meter import NodePart, PageStage, Purpose
from crawler_node.metrics.prometheus_meter import PrometheusMeter
from crawler_node.metrics.workers import WorkersMetrics
from crawler_node.process import metrics_of, service_of
from frontier_server.config import ConfigError, read_file, usable
from frontier_server.core.machines.lifecycle import CrawlState
from frontier_server.core.operators.measures import CrawlMeasures
from frontier_server.core.state.model import Presence
from frontier_server.core.state.queue import QueueState
from frontier_server.metrics import rpcs as rpcs_module
from frontier_server.metrics.crawls import add_crawls
from frontier_server.metrics.definitions import OF_CRAWLS, OTHERS, RPC_SECONDS
from frontier_server.metrics.rpcs import Rpcs
from toehold.shard.v1 import shard_pb2
from toehold_base.observability import metrics_page
from toehold_base.observability.metrics import counter, status_label
from toehold_base.observability.metrics_page import (
    MAX_CONNECTIONS,
    Counter,
    Families,
    MetricsPage,
    Unavailable,
)
from toehold_base.serving.addresses import Address

COUNTS = (
    *("discovered", "queued", "leased", "succeeded", "failed", "disregarded", "deferred", "lapsed"),
    *("robots_fetch", "bytes", "novel", "novel_bytes", "relocated", "future", "noted"),
)


def crawl(
    name: str, state: CrawlState = CrawlState.RUNNING, each: int = 1, deepest: int = 0
) -> CrawlMeasures:
    counts = {f"{count}_count": each for count in COUNTS}
    counts |= {"retired_uri_count": each, "ineligible_uri_count": each}
    return CrawlMeasures(
        name,
        state,
        has_problem=False,
        counts=counts,
        fetch_statuses={200: each, 799: each, 798: each, -2: each},
        verdicts={"QUEUED": each},
        queues=dict.fromkeys(QueueState, each),
        deepest_queue=deepest,
        events=each,
    )


def samples(families: Families) -> dict[tuple[str, ...], float]:
    return {
        (sample.name.removeprefix("toehold_frontier_crawl_"), *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


def test_crawls_beyond_those_with_labels_are_summed_under_one() -> None:
    families = Families(OF_CRAWLS)
    rest = [crawl("b", each=2, deepest=7), crawl("c", CrawlState.FINISHED, each=3, deepest=5)]
    add_crawls(families, [crawl("a", deepest=9)], rest)
    found = samples(families)
    assert {labels[1] for labels in found} == {"a", OTHERS}
    assert found["leases", "a"] == 1 and found["leases", OTHERS] == 5
    assert found["dispositions_total", OTHERS, "failed"] == 5
    assert found["state", OTHERS, "RUNNING"] == found["state", OTHERS, "FINISHED"] == 1
    assert found["deepest_queue_uris", OTHERS] == 7, "the largest, not the sum"
    assert found["final_statuses_total", "a", "other"] == 2, "statuses that no standard names share a label"


def test_statuses_have_few_labels() -> None:
    assert len({status_label(status) for status in range(100, 1000)}) < 80
    assert (status_label(404), status_label(-9998), status_label(799)) == ("404", "-9998", "other")


def test_crawls_that_have_not_finished_get_labels_before_others_and_new_ones_before_old_ones() -> None:
    shell = Shell()
    for name in ("first", "second", "third"):
        shell.create(name, quick())
    measures = shell.core.measures
    assert measures.crawls(3) == ([1, 2, 3], ())
    assert measures.crawls(2) == ([2, 3], [1])
    shell.core.shard.registry.names["third"].state_row.state = CrawlState.FINISHED.value
    assert measures.crawls(2) == ([1, 2], [3])
    assert measures.crawl(1) is not None and measures.crawl(4) is None


def test_nodes_are_counted_by_presence_and_hosts_by_their_rests() -> None:
    shell = Shell()
    leases = shell.core.shard.leases
    leases.nodes.remember("there", "s", shell.now_ms + 2 * PERIOD_MS)
    leases.nodes.remember("lost", "s", shell.now_ms)
    later_ms = shell.now_ms + 2 * PERIOD_MS
    assert shell.core.measures.nodes(later_ms) == {Presence.PRESENT: 1, Presence.LOST: 1}
    op = shell.core.shard.begin(shell.now_ms)
    for name, until_ms in (("rests.example", 1_000), ("rested.example", 0)):
        shell.core.shard.hosts.get(op.tx, name).row.next_allowed_ms = shell.now_ms + until_ms
    hosts = shell.core.measures.hosts()
    assert len(hosts) == 2 and shell.core.measures.resting(hosts, shell.now_ms) == 1


# Processes of a node.

PAGES = counter("toehold_node_pages_total", "Pages.", "status")


@dataclass
class Process:
    """A process whose page of metrics a test has in its hands."""

    restarts: int = 0
    metrics_address: str = ""

    def live(self, *pages: str) -> None:
        """Begins to serve, having counted pages with these statuses."""
        registry = CollectorRegistry()
        self.counted = Counter(PAGES, registry)
        for status in pages:
            self.counted.labels(status).inc()
        self.page = MetricsPage(Address("127.0.0.1", 0), registry)
        self.page.start()
        self.metrics_address = self.page.address

    def die(self) -> None:
        self.page.close()


def pages_of(node: WorkersMetrics) -> dict[str, float]:
    return {
        sample.labels["status"]: sample.value
        for family in node.collect()
        for sample in family.samples
        if sample.name == PAGES.name
    }


def workers_of(node: WorkersMetrics) -> dict[str, float]:
    found = [sample for family in node.collect() for sample in family.samples]
    workers = {each.labels["state"]: each.value for each in found if each.name == "toehold_node_workers"}
    return workers | {"restarts": next(each.value for each in found if "restarts_total" in each.name)}


def test_counts_of_a_process_that_died_stay_while_it_is_away_and_when_its_successor_counts() -> None:
    processes: Sequence[Process] = [Process(), Process()]
    node = WorkersMetrics(Address("127.0.0.1", 0), processes)
    first, second = processes
    try:
        assert pages_of(node) == {}
        first.live("200", "200", "404")
        second.live("200")
        assert pages_of(node) == {"200": 3, "404": 1}
        first.die()
        assert pages_of(node) == {"200": 3, "404": 1}
        assert workers_of(node) == {"silent": 1, "restarts": 0}
        first.restarts, first.metrics_address = 1, ""
        assert pages_of(node) == {"200": 3, "404": 1}
        first.live("200")
        assert pages_of(node) == {"200": 4, "404": 1}
        second.counted.labels("500").inc()
        first.die()
        first.restarts = 2
        first.live()
        assert pages_of(node) == {"200": 4, "404": 1, "500": 1}
        assert workers_of(node) == {"silent": 0, "restarts": 2}
    finally:
        for process in processes:
            process.die()
        node.close()


def test_a_ready_line_has_both_addresses() -> None:
    line = "toehold-node n1 fetching for f:1 with 2 toes, metrics at 127.0.0.1:1, service at 127.0.0.1:2\n"
    assert (metrics_of(line), service_of(line)) == ("127.0.0.1:1", "127.0.0.1:2")
    assert metrics_of("toehold-node n1 fetching for f:1 with 2 toes, service at 127.0.0.1:2\n") == ""


def test_a_meter_keeps_what_it_is_told() -> None:
    registry = CollectorRegistry()
    meter = PrometheusMeter(registry)
    meter.took(PageStage.BODY, 0.2)
    meter.fetched(Purpose.PAGE, 0.5, 1000)
    meter.worked(Purpose.PAGE, 799)
    meter.failed(NodePart.HOOK)
    meter.called("Next", "busy", 0.1)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"toehold_node_{name}", labels)

    assert value("stage_duration_seconds_sum", stage="body") == 0.2
    assert value("fetch_duration_seconds_count", purpose="page") == 1
    assert value("received_bytes_total") == 1000
    assert value("fetches_total", purpose="page", status="other") == 1
    assert (
        value("page_failures_total", part="hook") == 1 and value("page_failures_total", part="extractor") == 0
    )
    assert value("frontier_calls_total", method="Next", outcome="busy") == 1


# The page.


class Broken(Collector):
    """A collector that cannot tell its metrics, for a reason."""

    def __init__(self, problem: Exception) -> None:
        self.problem = problem

    def collect(self) -> Iterable[Metric]:
        raise self.problem


@contextmanager
def page_of(collector: Collector) -> Iterator[str]:
    page = MetricsPage(Address("127.0.0.1", 0), collector)
    page.start()
    try:
        yield page.address
    finally:
        page.close()


def test_a_program_that_cannot_tell_its_metrics_says_why() -> None:
    with (
        page_of(Broken(Unavailable("the frontier did not answer"))) as address,
        pytest.raises(HTTPError, match="503: the frontier did not answer"),
    ):
        urlopen(f"http://{address}/metrics", timeout=PATIENCE_S)


def test_a_defect_ends_the_scrape_and_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    with page_of(Broken(ValueError("a defect"))) as address:
        with pytest.raises(RemoteDisconnected):
            urlopen(f"http://{address}/metrics", timeout=PATIENCE_S)
        eventually(lambda: "ValueError: a defect" in capfd.readouterr().err)


def test_the_metrics_page_closes_a_connection_that_sends_its_request_byte_by_byte(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics_page, "MOST_S", 0.2)
    with page_of(CollectorRegistry()) as address:
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port)), PATIENCE_S) as slow:

            def has_ended() -> bool:
                try:
                    slow.send(b"G")
                    slow.setblocking(False)
                    return slow.recv(100) == b""
                except BlockingIOError:
                    return False
                except OSError:
                    return True

            eventually(has_ended, "the end of the connection")


def test_silent_callers_take_a_few_places_and_no_more() -> None:
    with page_of(CollectorRegistry()) as address, ExitStack() as stack:
        host, _, port = address.rpartition(":")
        for _ in range(MAX_CONNECTIONS):
            silent = stack.enter_context(socket.create_connection((host, int(port)), PATIENCE_S))
        with pytest.raises((RemoteDisconnected, ConnectionResetError)):
            urlopen(f"http://{address}/metrics", timeout=PATIENCE_S)
        silent.close()

        def answers() -> bool:
            try:
                with urlopen(f"http://{address}/metrics", timeout=PATIENCE_S) as page:
                    return bool(page.status == 200)
            except (OSError, HTTPException):
                return False

        eventually(answers, "a place for another caller")


def test_a_frontier_s_settings_file_turns_metrics_on(tmp_path: Path) -> None:
    file = tmp_path / "frontier.toml"
    file.write_text('metrics = "[::1]:9707"\n')
    assert usable(tmp_path, read_file(file)).metrics == ("::1", 9707)
    file.write_text("metrics = 9707\n")
    with pytest.raises(ConfigError, match="metrics must be text, got 9707"):
        read_file(file)


# Calls that doors of a cluster have answered.


def heard(door: str, ended: int, seconds: float, open_calls: int = 0) -> shard_pb2.CountCallsRequest:
    """A door's report: so many calls of Next, each of which took 3 ms, since its start."""
    buckets = [0] * (len(RPC_SECONDS.buckets) + 1)
    buckets[2] = ended
    calls = shard_pb2.CallCounts(
        method="Next", ended={"OK": ended}, buckets=buckets, seconds=seconds, open=open_calls
    )
    return shard_pb2.CountCallsRequest(door=door, methods=[calls])


def test_calls_of_doors_count_from_their_first_report_on_and_never_backwards() -> None:
    rpcs = Rpcs(CollectorRegistry())
    rpcs.method("Next")
    rpcs.hear(heard("one", 5, 0.015))  # another front has counted these
    assert rpcs.ended.labels("Next", "OK").value == 0
    rpcs.hear(heard("one", 7, 0.021, open_calls=2))
    rpcs.hear(heard("other", 0, 0))
    rpcs.hear(heard("other", 4, 0.012, open_calls=1))
    rpcs.hear(heard("one", 6, 0.018))  # it comes late
    assert rpcs.ended.labels("Next", "OK").value == 6
    seconds = rpcs.seconds.labels("Next")
    assert seconds.counts[2] == 6 and seconds.sum == pytest.approx(0.018)
    assert rpcs.open_calls("Next") == 3


def test_a_door_that_reports_no_more_has_no_open_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    rpcs, now_s = Rpcs(CollectorRegistry()), 1000.0
    monkeypatch.setattr(rpcs_module, "monotonic", lambda: now_s)
    rpcs.hear(heard("one", 1, 0.003, open_calls=2))
    assert rpcs.open_calls("Next") == 2
    now_s += 11
    assert rpcs.open_calls("Next") == 0
    rpcs.hear(heard("one", 3, 0.009))
    assert rpcs.ended.labels("Next", "OK").value == 2, "what it has told before is known"
