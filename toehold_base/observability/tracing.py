"""OpenTelemetry traces, for programs with the extra `tracing`: spans that are sent to a collector over OTLP.

Spans wait in a bounded queue, and a thread sends them. If the collector is slow or dead, spans are dropped,
and the program's work does not notice.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any

import structlog

from ..process.extras import PROJECT, advice

if TYPE_CHECKING:  # imported when a tracer is made, as only the extra installs it
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
    from opentelemetry.trace import Span, SpanContext

ENDPOINT_VARIABLE = "OTEL_EXPORTER_OTLP_ENDPOINT"
EXTRA = "tracing"

SEND_EVERY_MS = 1_000
EXPORT_S = 5.0
"""How long the collector may take for one batch."""
CLOSE_S = 2.0
"""How long the end of a program waits for the last spans."""
MAX_ATTRIBUTE_CHARACTERS = 2_000

_log = structlog.get_logger()

_ENDPOINT = re.compile(r"(?:(?P<scheme>https?)://)?(?P<place>(?:\[[0-9a-fA-F:.]+\]|[\w.-]+):[0-9]{1,5})/?")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


def checked_endpoint(text: str) -> str:
    """The address of a collector as a URL. Raises ValueError unless it is HOST:PORT, or such a URL."""
    match = _ENDPOINT.fullmatch(text)
    if match is None:
        raise ValueError(
            f"a collector's address must be HOST:PORT or http(s)://HOST:PORT, such as 127.0.0.1:4317, "
            f"got {text!r:.200}"
        )
    return f"{match['scheme'] or 'http'}://{match['place']}"


class Tracer:
    """Makes the spans of a program."""

    def __init__(self, exporter: SpanExporter, program: str, instance: str, version: str) -> None:
        from opentelemetry import context, trace
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import SpanLimits, TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        resource = Resource.create(
            {"service.name": program, "service.instance.id": instance, "service.version": version}
        )
        provider = TracerProvider(
            ParentBased(ALWAYS_ON),
            resource,
            shutdown_on_exit=False,
            span_limits=SpanLimits(max_span_attribute_length=MAX_ATTRIBUTE_CHARACTERS),
        )
        self._exporter = exporter
        self._processor = BatchSpanProcessor(exporter, schedule_delay_millis=SEND_EVERY_MS)
        provider.add_span_processor(self._processor)
        self._tracer = provider.get_tracer("toehold", version)
        self._trace = trace
        self._empty = context.Context
        self._extract = TraceContextTextMapPropagator().extract

    def start(
        self,
        name: str,
        parent: str = "",
        *,
        start_ns: int | None = None,
        link: str = "",
        serves: bool = False,
        attributes: Mapping[str, Any] | None = None,
    ) -> Span:
        """A span that has begun, within `parent` or as the root of a new trace. `parent` and `link` are
        traceparents; any other text is ignored. `serves` says that it answers a call of another program.
        """
        kinds = self._trace.SpanKind
        return self._tracer.start_span(
            name,
            self._context(parent),
            kinds.SERVER if serves else kinds.INTERNAL,
            attributes,
            [self._trace.Link(self._span_context(link))] if link else None,
            start_ns,
        )

    def close(self) -> None:
        """Send the last spans, unless that takes long."""
        sending = threading.Thread(target=self._processor.shutdown, name="last spans", daemon=True)
        sending.start()
        sending.join(CLOSE_S)
        if sending.is_alive():
            self._exporter.shutdown()  # breaks the call off
            sending.join(CLOSE_S)

    def _context(self, parent: str) -> Context:
        if not _TRACEPARENT.fullmatch(parent):
            return self._empty()
        return self._extract({"traceparent": parent}, self._empty())

    def _span_context(self, parent: str) -> SpanContext:
        return self._trace.get_current_span(self._context(parent)).get_span_context()


def traceparent(span: Span) -> str:
    """What another program needs to continue a span's trace (W3C Trace Context)."""
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def tracer_of(option: str, program: str, instance: str) -> Tracer | None:
    """The tracer of a program with this `--otlp`; None if there is neither that nor the usual variable.

    Without the extra, the option ends the program with advice, and the variable has no effect. Further
    settings come from OpenTelemetry's other variables, such as OTEL_EXPORTER_OTLP_HEADERS.
    """
    given = option or os.environ.get(ENDPOINT_VARIABLE, "")
    if not given:
        return None
    try:
        endpoint = checked_endpoint(given)
        return Tracer(_exporter(endpoint), program, instance, metadata.version(PROJECT))
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "opentelemetry":
            raise
        problem = advice(EXTRA, program)
    except ValueError as error:
        problem = f"{ENDPOINT_VARIABLE}: {error}"
    if option:
        sys.exit(problem)
    _log.warning("tracing_off", problem=problem)
    return None


def _exporter(endpoint: str) -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.grpc import exporter as otlp
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    class Exporter(SpanExporter):
        """Says once that the collector is lost, and once that it is back."""

        def __init__(self) -> None:
            is_set = "OTEL_EXPORTER_OTLP_TIMEOUT" in os.environ
            self._sender = OTLPSpanExporter(endpoint, timeout=None if is_set else EXPORT_S)
            self._problem = ""
            self._lost_count = 0
            otlp.logger.addFilter(self._keep)  # it would log each try

        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            result = self._sender.export(spans)
            if result is not SpanExportResult.SUCCESS:
                if not self._lost_count:
                    _log.warning("traces_lost", endpoint=endpoint, problem=self._problem)
                self._lost_count += len(spans)
            elif self._lost_count:
                _log.info("traces_sent_again", endpoint=endpoint, spans_lost=self._lost_count)
                self._lost_count = 0
            return result

        def shutdown(self) -> None:
            self._sender.shutdown()

        def _keep(self, record: logging.LogRecord) -> bool:
            self._problem = record.getMessage()
            return False

    return Exporter()
