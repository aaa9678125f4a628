"""Traces of leases that come to no good end, and how many of them wait for one."""

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from crawler_node.tracing import LeaseTrace, trace_of
from frontier_server.service import traces
from frontier_server.service.traces import LeaseTraces
from toehold.frontier.v1.crawl_pb2 import DISPOSITION_SUCCEEDED
from toehold.frontier.v1.frontier_pb2 import Lease, Report, ReportResult
from toehold_base.observability.tracing import Tracer, checked_endpoint

PARENT = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"


class Spans:
    """A tracer, and the spans that have ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.tracer = Tracer(self._exporter, "toehold-test", "one", "1")

    def ended(self) -> list[ReadableSpan]:
        self.tracer._processor.force_flush()
        return list(self._exporter.get_finished_spans())

    def names(self) -> list[str]:
        return [span.name for span in self.ended()]


@pytest.fixture
def spans() -> Iterator[Spans]:
    made = Spans()
    yield made
    made.tracer.close()


def leases(count: int) -> list[Lease]:
    return [Lease(token=b"%d" % number, uri=f"http://h{number}.example/") for number in range(count)]


def test_a_lease_that_nobody_reports_ends_its_trace_in_the_end(spans: Spans) -> None:
    now_s = 0.0
    frontier = LeaseTraces(spans.tracer, 1.0, clock_s=lambda: now_s)
    frontier.granted(leases(1), "n", 1)
    now_s = traces.MAX_OPEN_S + 1.0
    frontier.granted(leases(1), "n", 1)
    (root,) = [span for span in spans.ended() if span.name == "lease"]
    assert root.attributes is not None
    assert root.attributes["toehold.disposition"] == "none: no report came"


def test_traces_that_wait_take_bounded_memory(spans: Spans, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "MAX_OPEN", 5)
    frontier = LeaseTraces(spans.tracer, 1.0)
    for lease in leases(20):
        frontier.granted([lease], "n", 1)
    assert spans.names().count("lease") == 15


def test_chance_decides_which_leases_are_traced(spans: Spans) -> None:
    chances = iter([0.09, 0.1, 0.5, 0.0])
    given = leases(4)
    LeaseTraces(spans.tracer, 0.1, lambda: next(chances)).granted(given, "n", 1)
    assert [bool(lease.traceparent) for lease in given] == [True, False, False, True]


def test_a_report_after_a_restart_still_joins_its_trace(spans: Spans) -> None:
    report = Report(token=b"t", traceparent=PARENT)
    LeaseTraces(spans.tracer, 1.0).finished(
        [report], [ReportResult(disposition=DISPOSITION_SUCCEEDED)], "n", 1
    )
    finished, call = spans.ended()
    assert finished.parent is not None and f"{finished.parent.span_id:016x}" == "b" * 16
    assert (call.name, call.parent) == ("Finished", None)


def test_a_lease_that_goes_back_unstarted_has_waited_and_was_reported(spans: Spans) -> None:
    trace = LeaseTrace(spans.tracer, Lease(traceparent=PARENT))
    told = trace.reporting()
    assert told.split("-")[1] == "a" * 32 and told != PARENT
    assert trace.reporting() == told, "a report that is sent again is the same"
    trace.end(DISPOSITION_SUCCEEDED)
    trace.end()
    trace.enter("fetch")  # by a toe that was left behind
    trace.note_fetch(200, 1, None)
    assert trace.reporting() == PARENT
    assert spans.names() == ["wait", "report"]


def test_a_lease_without_a_trace_has_none(spans: Spans) -> None:
    assert trace_of(spans.tracer, Lease()) is None


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("127.0.0.1:4317", "http://127.0.0.1:4317"),
        ("http://collector.example:4317/", "http://collector.example:4317"),
        ("https://[::1]:4317", "https://[::1]:4317"),
    ],
)
def test_a_collector_s_address_may_leave_the_scheme_out(text: str, url: str) -> None:
    assert checked_endpoint(text) == url
