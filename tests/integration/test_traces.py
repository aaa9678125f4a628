"""Traces of leases, sent by a real frontier and a real node to a collector; and collectors that are dead."""

import itertools
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from frontier_harness.calls import (
    finished_request,
    next_request,
    released,
    report,
    spec,
)
from frontier_harness.ports import KeptPort
from frontier_harness.process import ServerProcess, run_to_end
from frontier_harness.small_site import SmallSite, small_site
from frontier_harness.waiting import PATIENCE_S, eventually
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from toehold.frontier.v1 import crawl_pb2, frontier_pb2

ALWAYS = ("--trace-ratio", "1")
NEW_CONNECTIONS = crawl_pb2.FetchSpec(keep_alive=False)


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Takes spans, and keeps them with the program that sent them. It answers once `go` is set."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, Span]] = []
        self.go = threading.Event()
        self.go.set()

    def Export(self, request: Any, context: Any) -> Any:
        self.go.wait(PATIENCE_S)
        for of_program in request.resource_spans:
            about = {each.key: each.value.string_value for each in of_program.resource.attributes}
            for scope in of_program.scope_spans:
                self.spans += [(about["service.name"], span) for span in scope.spans]
        return trace_service_pb2.ExportTraceServiceResponse()

    def trace_of(self, uri: str, name: str = "finished") -> dict[str, tuple[str, Span]]:
        """The spans of a URI's trace by name, once it has one of this name."""

        def found() -> dict[str, tuple[str, Span]]:
            spans = list(self.spans)
            traces = {span.trace_id for _, span in spans if attributes(span).get("url.full") == uri}
            return {span.name: (program, span) for program, span in spans if span.trace_id in traces}

        eventually(lambda: {name, "lease"} <= found().keys())
        return found()


def attributes(span: Span) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


@contextmanager
def collecting(port: int = 0) -> Iterator[tuple[Collector, str]]:
    """A collector, and its address."""
    collector = Collector()
    with ThreadPoolExecutor(4) as threads:
        server = grpc.server(threads, options=[("grpc.so_reuseport", 0)])
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(collector, server)  # type: ignore[no-untyped-call]
        bound = server.add_insecure_port(f"127.0.0.1:{port}")
        server.start()
        try:
            yield collector, f"127.0.0.1:{bound}"
        finally:
            collector.go.set()
            server.stop(None).wait()


@contextmanager
def node(frontier: ServerProcess, directory: Path, *more: str) -> Iterator[Path]:
    """A node at work, which ends in order; its log."""
    command = [
        *(sys.executable, "-m", "crawler_node", "--frontier", frontier.address, "--name", "north"),
        *("--toes", "2", "--pages", str(directory), *more),
    ]
    errors = directory.with_suffix(".stderr")
    with errors.open("w") as log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log) as process:
        try:
            assert process.stdout is not None and process.stdout.readline()
            yield errors
        finally:
            process.terminate()
            try:
                assert process.wait(PATIENCE_S) == 0
            finally:
                process.kill()


@pytest.fixture(scope="module")
def site() -> Iterator[SmallSite]:
    with small_site(pages=2) as made:
        yield made


def events_of(frontier: ServerProcess) -> list[str]:
    return [json.loads(line)["event"] for line in frontier.errors.read_text().splitlines()]


@pytest.mark.parametrize("node_traces", [True, False], ids=["node-traces", "node-does-not"])
def test_a_page_is_one_trace_from_next_to_finished(
    site: SmallSite, tmp_path: Path, node_traces: bool
) -> None:
    page = site.url(path="/page/1")
    with collecting() as (collector, address):
        with ServerProcess(tmp_path / "data", "--otlp", address, *ALWAYS) as frontier:
            frontier.stubs.launch("c", site.url(), of=spec(fetch=NEW_CONNECTIONS))
            more = ("--otlp", f"http://{address}") if node_traces else ()
            with node(frontier, tmp_path / "pages", *more):
                collector.trace_of(page)
            frontier.stop()
        trace = collector.trace_of(page)
    root = trace["lease"][1]
    assert root.parent_span_id == b"" and len({span.trace_id for _, span in trace.values()}) == 1
    parents = {span.span_id: name for name, (_, span) in trace.items()}
    tree = {name: (program, parents.get(span.parent_span_id)) for name, (program, span) in trace.items()}
    ours, theirs = "toehold-frontier", "toehold-node"
    expected: dict[str, tuple[str, str | None]] = {"lease": (ours, None), "next": (ours, "lease")}
    if node_traces:
        expected |= dict.fromkeys(("wait", "fetch", "extract", "write", "report"), (theirs, "lease"))
        expected |= {"connect": (theirs, "fetch"), "finished": (ours, "report")}
    else:
        expected["finished"] = (ours, "lease")
    assert tree == expected

    for name, (_, span) in trace.items():
        assert root.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano, name
        assert span.start_time_unix_nano <= root.end_time_unix_nano, name
    told = attributes(root)
    assert (told["toehold.crawl"], told["toehold.node"], told["toehold.purpose"]) == ("c", "north", "PAGE")
    assert (told["toehold.disposition"], told["toehold.fetch_status"]) == ("SUCCEEDED", 200)
    assert told["toehold.attempt"] == 1
    calls = {span.span_id: span for _, span in collector.spans if span.name in ("Next", "Finished")}
    for name, call in ("lease", "Next"), ("next", "Next"), ("finished", "Finished"):
        (link,) = trace[name][1].links
        assert calls[link.span_id].name == call and calls[link.span_id].trace_id == link.trace_id
        assert len(attributes(calls[link.span_id])["toehold.request_id"]) == 16
    if node_traces:
        stages = [trace[name][1] for name in ("wait", "fetch", "extract", "write", "report")]
        for one, following in itertools.pairwise(stages):
            assert one.end_time_unix_nano == following.start_time_unix_nano


def test_a_frontier_traces_the_share_that_it_is_told_and_takes_any_report(tmp_path: Path) -> None:
    with collecting() as (collector, address):
        flags = ("--otlp", address, "--trace-ratio", "0.5")
        with ServerProcess(tmp_path / "data", *flags) as frontier:
            uris = [f"http://h{n}.example/" for n in range(100)]
            frontier.stubs.launch("c", *uris, of=spec())
            leases: list[frontier_pb2.Lease] = []
            while len(leases) < len(uris):
                leases += frontier.stubs.frontier.Next(next_request("c", wait_s=1)).leases
            traced = [lease for lease in leases if lease.traceparent]
            assert 20 < len(traced) < 80
            odd = ["x" * 10_000, "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "\n", ""]
            reports = [
                report(lease, traceparent=odd[n % 5] if n % 5 < 4 else lease.traceparent)
                for n, lease in enumerate(leases[1:])
            ]
            results = frontier.stubs.frontier.Finished(
                finished_request(released(leases[0]), *reports)
            ).results
            assert len(results) == len(leases) and not any(result.problem for result in results)
            frontier.stop()
        roots = {span.trace_id.hex() for _, span in collector.spans if span.name == "lease"}
    assert {lease.traceparent.split("-")[1] for lease in traced} >= roots != set()


def test_without_a_collector_leases_carry_nothing(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", *ALWAYS) as frontier:
        frontier.stubs.launch("c", "http://h.example/")
        answer = frontier.stubs.frontier.Next(next_request("c", wait_s=5))
        assert [lease.traceparent for lease in answer.leases] == [""]


@pytest.mark.undivided("counts lines, and each process has its own")
def test_a_dead_collector_harms_nothing(site: SmallSite, tmp_path: Path) -> None:
    with KeptPort() as kept:
        address = f"127.0.0.1:{kept.port}"
        with ServerProcess(tmp_path / "data", "--otlp", address, *ALWAYS) as frontier:
            frontier.stubs.launch("c", site.url(), of=spec())
            with node(frontier, tmp_path / "pages", "--otlp", address) as errors:
                frontier.stubs.until("c", crawl_pb2.CRAWL_STATE_FINISHED)
                eventually(lambda: "traces_lost" in events_of(frontier))
                began_s = time.monotonic()
            assert time.monotonic() - began_s < PATIENCE_S / 2
            assert errors.read_text().count("traces_lost") == 1
            code, took_s = frontier.stop()
            assert code == 0 and took_s < PATIENCE_S / 2
            its = [event for event in events_of(frontier) if event != "operator_acted"]
            assert its == ["serving", "traces_lost", "stopped"]


def test_a_collector_that_is_slow_or_comes_back_delays_nobody(tmp_path: Path) -> None:
    with collecting() as (collector, address):
        collector.go.clear()
        with ServerProcess(tmp_path / "data", "--otlp", address, *ALWAYS) as frontier:
            uris = [f"http://h{n}.example/" for n in range(300)]
            frontier.stubs.launch("c", *uris, of=spec())
            done = 0
            while done < 2 * len(uris):  # a robots.txt and a page of each host
                leases = frontier.stubs.frontier.Next(next_request("c", wait_s=1)).leases
                reports = (report(lease, traceparent=lease.traceparent) for lease in leases)
                frontier.stubs.frontier.Finished(finished_request(*reports))
                done += len(leases)
            collector.go.set()
            eventually(lambda: any(span.name == "finished" for _, span in collector.spans))
            assert frontier.stop()[0] == 0


@pytest.mark.parametrize("address", ["nowhere", "ftp://h:1", "http://h:1/v1/traces", "u:p@h:1"])
def test_an_address_that_is_none_is_refused(address: str, tmp_path: Path) -> None:
    flags = ("--data", str(tmp_path / "data"), "--otlp", address)
    for program, more in (("frontier_server", flags), ("crawler_node", ("--pages", "p", *flags[2:]))):
        ended = run_to_end(*more, program=("-m", program))
        assert ended.returncode == 2 and "must be HOST:PORT or http(s)://HOST:PORT" in ended.stderr


@pytest.mark.parametrize("program", ["frontier_server", "crawler_node"])
def test_without_the_extra_the_option_says_how_to_get_it(program: str, tmp_path: Path) -> None:
    hidden = "import sys; sys.modules['opentelemetry'] = None; import runpy; "
    start = ("-c", f"{hidden}sys.argv[0] = ''; runpy.run_module('{program}', run_name='__main__')")
    own = ("--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    if program == "crawler_node":
        own = ("--pages", str(tmp_path / "pages"), "--listen", "127.0.0.1:0")
    ended = run_to_end(*own, "--otlp", "127.0.0.1:4317", program=start)
    name = "toehold-frontier" if program == "frontier_server" else "toehold-node"
    assert ended.returncode == 1
    assert ended.stderr.strip().splitlines()[-1] == (
        f'{name} needs further packages; in a checkout of its source: pip install ".[tracing]"'
    )
