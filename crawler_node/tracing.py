"""The node's part of a lease's trace: one span for each stage that the lease goes through."""

import time
from typing import TYPE_CHECKING

from toehold.frontier.v1.crawl_pb2 import Disposition
from toehold.frontier.v1.frontier_pb2 import Lease
from toehold_base.observability.tracing import Tracer, traceparent

if TYPE_CHECKING:
    from opentelemetry.trace import Span

WAIT, FETCH, EXTRACT, WRITE, REPORT = "wait", "fetch", "extract", "write", "report"
"""The stages: in the queue for a toe thread; at the toe thread; and from there until the frontier has taken
the report, the links before it included."""


class LeaseTrace:
    """The stages of one lease, one after the other. It belongs to whoever works on the lease."""

    def __init__(self, tracer: Tracer, lease: Lease) -> None:
        self._tracer = tracer
        self._parent = lease.traceparent
        self._stage = WAIT
        self._span: Span | None = tracer.start(WAIT, self._parent)

    def enter(self, stage: str) -> None:
        """Ends a stage, and begins the next."""
        if self._span is None or stage == self._stage:
            return
        now_ns = time.time_ns()
        self._span.end(now_ns)
        self._stage = stage
        self._span = self._tracer.start(stage, self._parent, start_ns=now_ns)

    def note_fetch(self, status: int, body_bytes: int, connecting_ns: tuple[int, int] | None) -> None:
        """Notes how a fetch went; `connecting_ns` is when its last connection was begun and made."""
        if self._span is None:
            return
        self._span.set_attribute("toehold.fetch_status", status)
        self._span.set_attribute("toehold.body_bytes", body_bytes)
        if connecting_ns is not None:
            began_ns, ended_ns = connecting_ns
            self._tracer.start("connect", traceparent(self._span), start_ns=began_ns).end(ended_ns)

    def reporting(self) -> str:
        """The traceparent that the report carries."""
        self.enter(REPORT)
        return self._parent if self._span is None else traceparent(self._span)

    def end(self, disposition: Disposition.ValueType | None = None) -> None:
        """Ends the last stage. Further calls have no effect."""
        if self._span is None:
            return
        if disposition is not None:
            self._span.set_attribute(
                "toehold.disposition", Disposition.Name(disposition).removeprefix("DISPOSITION_")
            )
        self._span.end()
        self._span = None


def trace_of(tracer: Tracer, lease: Lease) -> LeaseTrace | None:
    """The trace of a lease, if the frontier has chosen it."""
    return LeaseTrace(tracer, lease) if lease.traceparent else None
