"""A client of no frontier: records the calls that a node makes, and answers or fails as it is told."""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from crawler_node.leases.frontier import FrontierConnection, NodeLog
from toehold.frontier.v1.crawl_pb2 import DISPOSITION_SUCCEEDED, VERDICT_QUEUED, Verdict
from toehold.frontier.v1.frontier_pb2 import (
    Candidate,
    HeartbeatResponse,
    NextResponse,
    PoolStatistics,
    Report,
    ReportResult,
)
from toehold_client import FrontierClient, Verdicts
from toehold_client.worker.contact import Contact


def _queued(crawl: str, candidates: Sequence[Candidate]) -> list[Verdict.ValueType]:
    return [VERDICT_QUEUED] * len(candidates)


def _succeeded(reports: Sequence[Report]) -> list[ReportResult]:
    return [ReportResult(disposition=DISPOSITION_SUCCEEDED)] * len(reports)


@dataclass
class FakeClient:
    """`told` has every call, answered or failed, in order: (`schedule`, URIs), (`finished`, tokens) …"""

    on_schedule: Callable[[str, Sequence[Candidate]], Sequence[Verdict.ValueType]] = _queued
    on_finished: Callable[[Sequence[Report]], Sequence[ReportResult]] = _succeeded
    on_heartbeat: Callable[[Collection[bytes]], HeartbeatResponse] = lambda tokens: HeartbeatResponse()
    told: list[tuple[str, list[str]]] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    described: list[tuple[PoolStatistics | None, str, str]] = field(default_factory=list)
    asked_about: list[list[str]] = field(default_factory=list)
    """What heartbeats told of the pool, and where the node can be asked."""
    gate: threading.Event = field(default_factory=threading.Event)
    """While it is cleared, calls wait."""
    versions: tuple[bytes, bytes] = b"", b""
    """The scope_version and the seen_version that its verdicts have."""
    waiting: int = 0
    """Calls that wait at the gate; they come from one thread."""

    def __post_init__(self) -> None:
        self.gate.set()

    def schedule(self, crawl: str, candidates: Sequence[Candidate], *, partial: bool, park: bool) -> Verdicts:
        assert partial and park, "a shard that is away must not hold up the others"
        self._pass_gate()
        self.told.append(("schedule", [candidate.uri for candidate in candidates]))
        verdicts = self.on_schedule(crawl, candidates)
        self.candidates.extend(candidates)
        return Verdicts(verdicts, *self.versions)

    def next(
        self,
        *,
        crawl: str,
        node: str,
        session: str,
        max_leases: int,
        wait_s: float,
        known_fetch_policy_ids: Collection[str],
        fetcher_kinds: Collection[str],
    ) -> NextResponse:
        raise AssertionError("nobody asks for leases here")

    def finished(
        self, reports: Sequence[Report], *, node: str, session: str, partial: bool
    ) -> Sequence[ReportResult]:
        assert partial, "a shard that is away must not hold up the others"
        self._pass_gate()
        self.told.append(("finished", [report.token.decode() for report in reports]))
        results = self.on_finished(reports)
        self.reports.extend(reports)
        return results

    def heartbeat(
        self,
        *,
        node: str,
        session: str,
        tokens: Collection[bytes],
        toe_steps: Mapping[str, int],
        leaving: bool = False,
        pool: PoolStatistics | None = None,
        service_address: str = "",
        trouble: str = "",
        idle_crawls: Collection[str] = (),
    ) -> HeartbeatResponse:
        self._pass_gate()
        self.described.append((pool, service_address, trouble))
        self.asked_about.append(list(idle_crawls))
        self.told.append(("goodbye" if leaving else "heartbeat", sorted(token.decode() for token in tokens)))
        return self.on_heartbeat(tokens)

    def _pass_gate(self) -> None:
        self.waiting += 1
        self.gate.wait()
        self.waiting -= 1

    def close(self) -> None:
        self.gate.set()

    def as_frontier(self) -> FrontierConnection:
        return FrontierConnection(cast(FrontierClient, self), Contact(NodeLog()), "node", "session")
