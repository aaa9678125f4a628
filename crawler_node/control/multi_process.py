"""MultiProcessControl: the control handler of a node of several processes. It asks each of them and answers
as one."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import grpc

from toehold.frontier.v1.frontier_pb2 import PoolStatistics, ToeStepCount
from toehold.node.v1 import node_pb2, node_pb2_grpc

from .handler import BadValue, Draining, NoSuchToe, SilentWorker, check_size
from .supervisor import Supervisor
from .worker import CALL_S, Worker

_T = TypeVar("_T")


class MultiProcessControl:
    """Asks all workers side by side. A silent worker does not hold up the others."""

    def __init__(self, supervisor: Supervisor, name: str, frontier_address: str) -> None:
        self._supervisor = supervisor
        self._name = name
        self._frontier_address = frontier_address
        self._calls = ThreadPoolExecutor(len(supervisor.workers), thread_name_prefix="team")

    def get_pool(self) -> node_pb2.GetPoolResponse:
        request = node_pb2.GetPoolRequest()
        answers = self._of_each(lambda worker, stub: stub.GetPool(request, timeout=CALL_S))
        pools = [answer for _, answer in answers if answer is not None]
        return node_pb2.GetPoolResponse(
            node=self._name,
            frontier_address=self._frontier_address,
            draining=self._supervisor.draining,
            pool=_sum(pool.pool for pool in pools),
            toe_steps=_step_counts(pools),
            workers=[_worker(worker, answer) for worker, answer in answers],
        )

    def set_pool_size(self, size: int) -> None:
        check_size(size)
        if self._supervisor.draining:
            raise Draining("the node drains, so its pool has no size any more")
        shares = self._supervisor.keep_shares(size)

        def resize(worker: Worker, stub: node_pb2_grpc.NodeServiceStub) -> node_pb2.SetPoolSizeResponse:
            request = node_pb2.SetPoolSizeRequest(size=shares[worker.number - 1])
            return stub.SetPoolSize(request, timeout=CALL_S)

        silent = [worker.number for worker, answer in self._of_each(resize) if answer is None]
        if silent:
            raise SilentWorker(f"processes {silent} do not answer; their replacements will get their share")

    def list_toes(self, stacks: bool) -> list[node_pb2.Toe]:
        request = node_pb2.ListToesRequest(stacks=stacks)
        toes = []
        for worker, answer in self._of_each(lambda worker, stub: stub.ListToes(request, timeout=CALL_S)):
            for toe in answer.toes if answer is not None else ():
                toe.worker = worker.number
                toes.append(toe)
        return toes

    def kill_toe(self, worker: int, serial: int, replace: bool) -> None:
        workers = self._supervisor.workers
        if not worker and len(workers) > 1:
            raise BadValue(f"worker must be between 1 and {len(workers)}, got 0")
        if not 0 <= worker <= len(workers):
            raise NoSuchToe(f"worker must be between 1 and {len(workers)}, got {worker}")
        request = node_pb2.KillToeRequest(serial=serial, replace=replace)
        try:
            workers[max(worker, 1) - 1].call(lambda stub: stub.KillToe(request, timeout=CALL_S))
        except grpc.RpcError as error:
            raise NoSuchToe(f"process {max(worker, 1)} has no toe thread {serial}") from error

    def drain(self) -> None:
        if not self._supervisor.draining:
            self._supervisor.drain()

    def _of_each(
        self, ask: Callable[[Worker, node_pb2_grpc.NodeServiceStub], _T]
    ) -> list[tuple[Worker, _T | None]]:
        """The answer of each worker; None for a silent one."""

        def asked(worker: Worker) -> _T | None:
            try:
                return worker.call(lambda stub: ask(worker, stub))
            except (SilentWorker, grpc.RpcError):
                return None

        workers = self._supervisor.workers
        return list(zip(workers, self._calls.map(asked, workers), strict=True))


def _worker(worker: Worker, answer: node_pb2.GetPoolResponse | None) -> node_pb2.Worker:
    message = node_pb2.Worker()
    if answer is not None:
        message.CopyFrom(answer.workers[0])
    else:
        message.silent = True
        message.process_id = worker.process_id
    message.worker = worker.number
    message.restart_count = worker.restarts
    message.start_time.CopyFrom(worker.start_time)
    return message


def _sum(pools: Iterator[PoolStatistics]) -> PoolStatistics:
    total = PoolStatistics()
    for pool in pools:
        for field in total.DESCRIPTOR.fields:
            setattr(total, field.name, getattr(total, field.name) + getattr(pool, field.name))
    return total


def _step_counts(pools: Iterable[node_pb2.GetPoolResponse]) -> list[ToeStepCount]:
    """Toe threads by step, of several pools together."""
    counts: dict[str, int] = {}
    for pool in pools:
        for each in pool.toe_steps:
            counts[each.step] = counts.get(each.step, 0) + each.count
    return [ToeStepCount(step=step, count=count) for step, count in sorted(counts.items())]
