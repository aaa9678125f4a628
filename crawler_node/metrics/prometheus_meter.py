"""The meter that keeps what a node did."""

from collections.abc import Iterable
from functools import cache

from prometheus_client.registry import CollectorRegistry

from toehold_base.observability.metrics import status_label
from toehold_base.observability.metrics_page import Counter, Histogram

from ..meter import ConnectionUse, Meter, NodePart, PageStage, Purpose
from .definitions import (
    CALL_SECONDS,
    CALLS,
    CONNECTIONS,
    FAILURES,
    FETCH_SECONDS,
    FETCHES,
    HANDSHAKES,
    RECEIVED,
    STAGE_SECONDS,
)


class PrometheusMeter(Meter):
    """Counts and times, in a registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        stages, fetches = Histogram(STAGE_SECONDS, registry), Histogram(FETCH_SECONDS, registry)
        failures = Counter(FAILURES, registry)
        self._stages = {stage: stages.labels(stage) for stage in PageStage}
        self._fetch_seconds = {purpose: fetches.labels(purpose) for purpose in Purpose}
        self._failures = {part: failures.labels(part) for part in NodePart}
        connections = Counter(CONNECTIONS, registry)
        self._connections = {use: connections.labels(use) for use in ConnectionUse}
        self._handshakes = Counter(HANDSHAKES, registry).labels()
        self._received = Counter(RECEIVED, registry).labels()
        # To find a child by its labels takes longer than to count.
        self._fetches = cache(Counter(FETCHES, registry).labels)
        self._calls = cache(Counter(CALLS, registry).labels)
        self._call_seconds = cache(Histogram(CALL_SECONDS, registry).labels)

    def took(self, stage: PageStage, seconds: float) -> None:
        self._stages[stage].observe(seconds)

    def fetched(self, purpose: Purpose, seconds: float, received_bytes: int) -> None:
        self._fetch_seconds[purpose].observe(seconds)
        self._received.inc(received_bytes)

    def connected(self, uses: Iterable[ConnectionUse], handshakes: int) -> None:
        for use in uses:
            self._connections[use].inc()
        self._handshakes.inc(handshakes)

    def worked(self, purpose: Purpose, status: int) -> None:
        self._fetches(purpose, status_label(status)).inc()

    def failed(self, part: NodePart) -> None:
        self._failures[part].inc()

    def called(self, method: str, outcome: str, seconds: float) -> None:
        self._calls(method, outcome).inc()
        self._call_seconds(method).observe(seconds)
