"""Desk: where a node is asked about itself and told what to do. This one is a single process's."""

import os
import time
from collections.abc import Iterator
from typing import Protocol

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from toehold.frontier.v1.frontier_pb2 import ToeStepCount
from toehold.node.v1 import node_pb2

from ..leases.heartbeat import figures_message
from ..node import Node
from ..toes.pool import UnknownToe
from ..toes.toe import ToeReport

MAX_TOES = 10_000


class DeskRefusal(Exception):
    """What was asked is not done. `reason` is the contract's."""

    reason = ""


class BadValue(DeskRefusal):
    """An argument makes no sense."""

    reason = "INVALID_ARGUMENT_VALUE"


class NoSuchToe(DeskRefusal):
    """There is no such toe thread (any more)."""

    reason = "UNKNOWN_TOE"


class Draining(DeskRefusal):
    """The node takes no more leases, and will end."""

    reason = "DRAINING"


class WorkerSilent(DeskRefusal):
    """A process of the node does not answer just now."""

    reason = "WORKER_SILENT"


class Desk(Protocol):
    """What NodeService is answered by. All but `get_pool` and `list_toes` may raise a DeskRefusal."""

    def get_pool(self) -> node_pb2.GetPoolResponse:
        """The node and its toe pool."""
        ...

    def set_pool_size(self, size: int) -> None:
        """Sets how many toe threads there are."""
        ...

    def list_toes(self, stacks: bool) -> list[node_pb2.Toe]:
        """The toe threads."""
        ...

    def kill_toe(self, worker: int, serial: int, replace: bool) -> None:
        """Kills a toe thread."""
        ...

    def drain(self) -> None:
        """Lets the node end in order."""
        ...


def check_size(size: int) -> None:
    """Raises BadValue for a size that no pool can have."""
    if not 0 <= size <= MAX_TOES:
        raise BadValue(f"size is {size}; 0 to {MAX_TOES} toe threads are possible")


class OwnDesk:
    """The desk of a node that is this process, its only worker."""

    def __init__(self, node: Node, name: str, frontier_address: str, session: str) -> None:
        self._node = node
        self._name = name
        self._frontier_address = frontier_address
        self._session = session
        self._started = Timestamp()
        self._started.GetCurrentTime()

    def get_pool(self) -> node_pb2.GetPoolResponse:
        """See NodeService.GetPool."""
        pool = self._node.pool
        figures = figures_message(pool.figures())
        steps = pool.steps()
        return node_pb2.GetPoolResponse(
            node=self._name,
            frontier_address=self._frontier_address,
            draining=self._node.draining,
            pool=figures,
            toe_steps=[ToeStepCount(step=step, count=count) for step, count in sorted(steps.items())],
            workers=[
                node_pb2.Worker(
                    worker=1,
                    process_id=os.getpid(),
                    session=self._session,
                    pool=figures,
                    start_time=self._started,
                    unreported_count=self._node.unreported_count(),
                )
            ],
        )

    def set_pool_size(self, size: int) -> None:
        """See NodeService.SetPoolSize."""
        check_size(size)
        if self._node.draining:
            raise Draining("the node drains, and has no toe threads any more")
        try:
            self._node.pool.set_size(size)
        except RuntimeError as error:  # tried again by itself
            raise BadValue(f"{size} toe threads cannot be started now: {error}") from error

    def list_toes(self, stacks: bool) -> list[node_pb2.Toe]:
        """See NodeService.ListToes."""
        now_s = time.monotonic()
        return [_toe(report, stack, now_s) for report, stack in self._node.pool.reports(stacks)]

    def kill_toe(self, worker: int, serial: int, replace: bool) -> None:
        """See NodeService.KillToe."""
        if worker not in (0, 1):
            raise NoSuchToe(f"the node has one process; there is no toe thread {serial} of process {worker}")
        try:
            self._node.pool.kill(serial, replace)
        except UnknownToe as error:
            raise NoSuchToe(str(error)) from error

    def drain(self) -> None:
        """See NodeService.Drain."""
        if not self._node.draining:
            self._node.drain()


def step_counts(pools: Iterator[node_pb2.GetPoolResponse]) -> list[ToeStepCount]:
    """Toe threads by step, of several pools together."""
    counts: dict[str, int] = {}
    for pool in pools:
        for each in pool.toe_steps:
            counts[each.step] = counts.get(each.step, 0) + each.count
    return [ToeStepCount(step=step, count=count) for step, count in sorted(counts.items())]


def _toe(report: ToeReport, stack: str, now_s: float) -> node_pb2.Toe:
    message = node_pb2.Toe(
        worker=1,
        serial=report.serial,
        step=report.step,
        step_duration=_duration(now_s - report.step_since_s),
        retired=report.retired,
        killed=report.killed,
        abandoned=report.abandoned,
        stack=stack,
    )
    if report.held is not None:
        lease = report.held.lease
        message.crawl, message.uri, message.via = lease.crawl, lease.uri, lease.via
        message.path, message.attempt = lease.path, lease.attempt
        message.uri_duration.CopyFrom(_duration(now_s - report.held_since_s))
    return message


def _duration(seconds: float) -> Duration:
    message = Duration()
    message.FromMicroseconds(max(0, round(seconds * 1_000_000)))
    return message
