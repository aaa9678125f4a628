"""The errands of a coordinator: what was done before a call broke is not forgotten."""

from typing import Any, cast

import pytest

from frontier_server.coordinator.errands import Errands
from frontier_server.coordinator.jobs import Errand, JobPart
from frontier_server.core.state.job import JobKind
from frontier_server.shards.links import Link
from toehold.frontier.v1 import admin_pb2


class Runner:
    """Runs nothing: the coordinator has the job."""

    async def run(self, operation: Any) -> bool:
        return True

    async def read(self, question: Any) -> set[int]:
        return set()


class Shard(Link):
    """A shard that had seven jobs, and is away when another one is to begin."""

    async def call(self, method: str, request: Any, kind: Any, *_: Any, **__: Any) -> Any:
        if method.endswith("/ListJobs"):
            return admin_pb2.ListJobsResponse(jobs=[admin_pb2.Job(job=7, kind="verify")])
        raise self.absence()


@pytest.mark.parametrize("kind", [JobKind.DELETE_URIS, JobKind.RETIRE_QUEUES])
async def test_a_part_whose_begin_was_not_heard_is_sought_behind_the_jobs_before_it(kind: JobKind) -> None:
    """Otherwise the next try would begin it anew, behind the one that may have begun."""
    link = Shard(0, None)
    link.away = False
    unused: Any = None
    errands = Errands(unused, cast(Any, Runner()), [link])
    away: list[int] = []
    part = await errands.see_to(Errand("c", 1, 2, kind, {}, False, [JobPart()]), link, away)
    assert (part.number, part.after, away) == (0, 7, [0])
