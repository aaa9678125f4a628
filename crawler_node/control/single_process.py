"""SingleProcessControl: the control handler of a node that is this process."""

import os
import time

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from toehold.frontier.v1.frontier_pb2 import ToeStepCount
from toehold.node.v1 import node_pb2

from ..node import Node
from ..toes.toe import ToeReport
from .handler import BadValue, Draining, NoSuchToe, check_size


class SingleProcessControl:
    """Answers for this process, the only worker of its node."""

    def __init__(self, node: Node, name: str, frontier_address: str, session: str) -> None:
        self._node = node
        self._name = name
        self._frontier_address = frontier_address
        self._session = session
        self._started = Timestamp()
        self._started.GetCurrentTime()

    def get_pool(self) -> node_pb2.GetPoolResponse:
        pool = self._node.pool
        statistics = pool.statistics()
        steps = pool.steps()
        return node_pb2.GetPoolResponse(
            node=self._name,
            frontier_address=self._frontier_address,
            draining=self._node.draining,
            pool=statistics,
            toe_steps=[ToeStepCount(step=step, count=count) for step, count in sorted(steps.items())],
            workers=[
                node_pb2.Worker(
                    worker=1,
                    process_id=os.getpid(),
                    session=self._session,
                    pool=statistics,
                    start_time=self._started,
                    unreported_count=self._node.unreported_count(),
                )
            ],
        )

    def set_pool_size(self, size: int) -> None:
        check_size(size)
        if self._node.draining:
            raise Draining("the node drains, so its pool has no size any more")
        try:
            self._node.pool.set_size(size)
        except RuntimeError as error:  # the pool tries again by itself
            refusal = "the machine refuses to start another thread"
            raise BadValue(f"{size} toe threads cannot be started now: {refusal}") from error

    def list_toes(self, stacks: bool) -> list[node_pb2.Toe]:
        now_s = time.monotonic()
        return [_toe(report, stack, now_s) for report, stack in self._node.pool.reports(stacks)]

    def kill_toe(self, worker: int, serial: int, replace: bool) -> None:
        if worker not in (0, 1):
            raise NoSuchToe(f"worker must be 0 or 1, as the node has one process, got {worker}")
        try:
            self._node.pool.kill(serial, replace)
        except LookupError as error:
            raise NoSuchToe(str(error)) from error

    def drain(self) -> None:
        if not self._node.draining:
            self._node.drain()


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
