"""Sees to the parts of a coordinator's jobs, over ways to shards on which calls and answers are lost."""

from collections.abc import Coroutine, Sequence
from functools import partial
from random import Random
from typing import Any, TypeVar, cast

from core_doubles.shell import Shell

from frontier_server.coordinator.errands import Errands
from frontier_server.coordinator.jobs import Errand, JobPart, PartedJobs
from frontier_server.core.core import Core
from frontier_server.core.rows.errors import FrontierError, ShardAway
from frontier_server.core.rows.store import Changes
from frontier_server.shards.links import Link, Relayed
from frontier_server.shell.runner import Runner
from frontier_server.wire import job
from frontier_server.wire.status import CODES
from toehold.frontier.v1 import admin_pb2
from toehold.shard.v1 import shard_pb2

V = TypeVar("V")


class ShardLink:
    """The way to a shard, for jobs. Given chance, calls are lost, or their answers."""

    def __init__(self, part: int, shard: Shell, away: bool = False, random: Random | None = None) -> None:
        self.number, self.away = part, away
        self._shard, self._random = shard, random

    async def call(self, method: str, request: Any, kind: object, timeout_s: float) -> Any:
        """The answer of the shard. Raises Relayed or ShardAway."""
        chance = 0.5 if self._random is None else self._random.random()
        if chance < 0.1:
            raise ShardAway("the call is lost", shard=str(self.number))
        try:
            answer = self._answer(method.rpartition("/")[2], request)
        except FrontierError as problem:
            raise _Refusal(problem) from None
        if chance > 0.9:
            raise ShardAway("the answer is lost", shard=str(self.number))
        return answer

    def _answer(self, method: str, request: Any) -> Any:
        core = self._shard.core
        if method == "Restore":
            number = self._shard.do(
                lambda core, now: core.orders.restore(
                    request.crawl, request.number, request.checkpoint, request.source, now
                )
            )
            return shard_pb2.RestoreResponse(job=number)
        assert method == "GetJob", method
        return admin_pb2.GetJobResponse(job=job(core.administration.job(request.crawl, request.job)))


class _Refusal(Relayed):
    """What the refusal of a shard is to the coordinator."""

    def __init__(self, problem: FrontierError) -> None:
        super().__init__(CODES[type(problem)], str(problem), ())
        self._reason = problem.reason

    @property
    def reason(self) -> str:
        """As in its ErrorInfo."""
        return self._reason


class _Runner:
    """Runs operations of the coordinator."""

    def __init__(self, head: Shell) -> None:
        self._head = head

    async def run(self, operation: Any) -> Any:
        """The answer of an operation."""
        return self._head.do(operation)

    async def read(self, look: Any) -> Any:
        """What a look shows."""
        return look(self._head.core, self._head.now_ms)


def see_to_jobs(head: Shell, jobs: PartedJobs, link: ShardLink) -> None:
    """Begin the parts of jobs in a shard, or ask how far they have come."""
    errands, away = Errands(jobs, cast(Runner, _Runner(head)), ()), list[int]()
    for errand in jobs.errands():
        told = list(errand.parts)
        told[link.number] = _at_once(errands.see_to(errand, cast(Link, link), away))
        head.do(partial(_recorded, jobs, errand, told, away))


def _recorded(
    jobs: PartedJobs, errand: Errand, parts: Sequence[JobPart], away: Sequence[int], core: Core, now_ms: int
) -> tuple[None, Changes]:
    return jobs.record(errand, parts, away, now_ms)


def _at_once(coroutine: Coroutine[Any, Any, V]) -> V:
    """The result of a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return cast(V, end.value)
    raise AssertionError("it waits")
