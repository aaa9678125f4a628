"""Traces of leases: one trace for each lease that is chosen, from the call that gave it out to its report.

The root span `lease` is the frontier's; the lease carries its traceparent to the node, whose spans are
children. The report carries a traceparent back, which is the parent of the span `finished`. Spans of the
calls themselves, `Next` and `Finished`, are traces of their own, to which those of leases are linked: a call
has many leases.
"""

import random
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from toehold.frontier.v1 import crawl_pb2, frontier_pb2
from toehold_base.observability.tracing import Tracer, traceparent

from .answers import request_id

if TYPE_CHECKING:
    from opentelemetry.trace import Span

MAX_OPEN = 10_000
"""The most leases out whose trace waits for its end."""
MAX_OPEN_S = 6 * 3600
"""How long a trace waits for its end. A lease that lapses has no report."""


class Tries:
    """When the last try of a Next began: the one that brought leases."""

    def __init__(self) -> None:
        self.last_ns = 0

    def __call__(self) -> None:
        self.last_ns = time.time_ns()


class LeaseTraces:
    """The traces of a frontier's leases. `ratio` is the share of leases that are traced."""

    def __init__(
        self,
        tracer: Tracer,
        ratio: float,
        chance: Callable[[], float] = random.random,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tracer = tracer
        self._ratio = ratio
        self._chance = chance
        self._clock_s = clock_s
        self._open: OrderedDict[bytes, tuple[Span, float]] = OrderedDict()

    def granted(self, leases: Iterable[frontier_pb2.Lease], node: str, began_ns: int) -> None:
        """Begin the traces of some new leases, which get a traceparent. `began_ns` is when the frontier began
        to choose them."""
        chosen = [lease for lease in leases if self._chance() < self._ratio]
        if not chosen:
            return
        self._give_up()
        call = self._call("Next", node, began_ns)
        link = traceparent(call)
        for lease in chosen:
            root = self._tracer.start("lease", start_ns=began_ns, link=link, attributes=_told(lease, node))
            lease.traceparent = traceparent(root)
            self._tracer.start("next", lease.traceparent, start_ns=began_ns, link=link).end()
            self._open[lease.token] = root, self._clock_s()
        call.set_attribute("toehold.leases_traced", len(chosen))
        call.end()

    def finished(
        self,
        reports: Sequence[frontier_pb2.Report],
        results: Sequence[frontier_pb2.ReportResult],
        node: str,
        began_ns: int,
    ) -> None:
        """End the traces of reported leases."""
        link = ""
        call: Span | None = None
        for report, result in zip(reports, results, strict=True):
            if not report.traceparent:
                continue
            if call is None:
                call = self._call("Finished", node, began_ns)
                link = traceparent(call)
            attributes: dict[str, str | int] = {
                "toehold.disposition": crawl_pb2.Disposition.Name(result.disposition).removeprefix(
                    "DISPOSITION_"
                ),
                "toehold.fetch_status": report.fetch_status,
            }
            span = self._tracer.start(
                "finished", report.traceparent, start_ns=began_ns, link=link, attributes=attributes
            )
            span.end()
            root, _ = self._open.pop(report.token, (None, 0.0))
            if root is not None:
                root.set_attributes(attributes)
                root.end()
        if call is not None:
            call.end()

    def _call(self, method: str, node: str, began_ns: int) -> "Span":
        about = {"toehold.node": node, "toehold.request_id": request_id()}
        return self._tracer.start(method, start_ns=began_ns, serves=True, attributes=about)

    def _give_up(self) -> None:
        """End the traces of leases that nobody has reported for long."""
        before_s = self._clock_s() - MAX_OPEN_S
        while self._open:
            token, (root, since_s) = next(iter(self._open.items()))
            if since_s > before_s and len(self._open) < MAX_OPEN:
                return
            del self._open[token]
            root.set_attribute("toehold.disposition", "none: no report came")
            root.end()


def _told(lease: frontier_pb2.Lease, node: str) -> dict[str, str | int]:
    return {
        "url.full": lease.uri,
        "toehold.crawl": lease.crawl,
        "toehold.queue_key": lease.queue_key,
        "toehold.attempt": lease.attempt,
        "toehold.purpose": frontier_pb2.Purpose.Name(lease.purpose).removeprefix("PURPOSE_"),
        "toehold.node": node,
    }
