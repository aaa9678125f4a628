"""Sees to the parts of jobs: begins each in its shard, asks how far it has come, and cancels it."""

import asyncio
import functools
from collections.abc import Sequence
from itertools import groupby
from typing import TypeVar

from google.protobuf.message import Message
from msgspec.structs import replace

from toehold.frontier.v1 import admin_pb2
from toehold.shard.v1 import shard_pb2

from .. import wire
from ..core.core import Core
from ..core.rows.errors import ShardAway
from ..core.rows.store import Changes
from ..core.state.job import NOT_CANCELLED, JobKind, JobState
from ..shards.links import Link, Relayed
from ..shell.runner import Runner
from .jobs import Errand, JobPart, PartedJobs

SERVICE = "toehold.frontier.v1.FrontierAdminService"
SHARD_SERVICE = "toehold.shard.v1.ShardService"
FIRST_LOOK_S, LAST_LOOK_S = 0.05, 1.0  # between two looks at jobs that go on
CALL_S = 10.0  # a shard that stands still is away by then
PAGE = 1_000
_LATER = ("CRAWL_HELD", "UNKNOWN_CRAWL", "DISK_RESERVE", "OVERLOADED")  # refusals that pass

M = TypeVar("M", bound=Message)


class Errands:
    """The task that sees to jobs."""

    def __init__(self, jobs: PartedJobs, runner: Runner, links: Sequence[Link]) -> None:
        self._jobs = jobs
        self._runner = runner
        self._links = links

    async def run(self) -> None:
        """See to all jobs, for good."""
        seen: list[tuple[str, int]] = []
        pause_s = FIRST_LOOK_S
        while True:
            change = self._runner.next_change()
            errands = await self._runner.read(lambda core, _: self._jobs.errands())
            if not errands:
                await asyncio.wait((change,))
                continue
            known = [(errand.crawl, errand.job) for errand in errands]
            pause_s = FIRST_LOOK_S if known != seen else min(pause_s * 1.5, LAST_LOOK_S)
            seen = known
            crawls = [list(of) for _, of in groupby(errands, key=lambda errand: errand.crawl)]
            await asyncio.gather(*(self._see_to_all(of) for of in crawls))
            await asyncio.sleep(pause_s)

    async def _see_to_all(self, errands: Sequence[Errand]) -> None:
        """See to the jobs of a crawl, in their order: so they begin in each shard in this order, too."""
        for errand in errands:
            away: list[int] = []
            told = await asyncio.gather(*(self.see_to(errand, link, away) for link in self._links))
            await self._runner.run(functools.partial(_record, self._jobs, errand, told, away))

    async def see_to(self, errand: Errand, link: Link, away: list[int]) -> JobPart:
        """How a part is after it was begun, asked, or cancelled."""
        part = errand.parts[link.number]
        if part.ended:
            return part
        if link.away:
            away.append(link.number)
            return part
        try:
            # Each step is kept although the next one fails: a job that began unheard must be found again.
            if not part.number and errand.kind is JobKind.RESTORE:
                part = await self._restored(errand, link, part)
            elif not part.number:
                if part.after < 0:
                    part = await self._announced(errand, link, part)
                if not part.ended:
                    part = await self._begun(errand, link, part)
            if part.number:
                part = await self._asked(errand, link, part)
        except ShardAway:
            away.append(link.number)
        except Relayed as refusal:
            if refusal.reason not in _LATER:
                found = f"shard {link.number}: {refusal.message}"
                return replace(part, ended=JobState.CANCELLED.value, findings=(*part.findings, found))
        return part

    async def _announced(self, errand: Errand, link: Link, part: JobPart) -> JobPart:
        """A part that is about to begin, and it is noted after which job of its shard; unless it is
        cancelled."""
        if errand.cancels:
            return replace(part, ended=JobState.CANCELLED.value)
        last = max((each.job for each in await self._listed(errand.crawl, link)), default=0)
        part = replace(part, after=last)
        has_it = await self._runner.run(functools.partial(_note, self._jobs, errand, link.number, part))
        return part if has_it else replace(part, ended=JobState.CANCELLED.value)

    async def _begun(self, errand: Errand, link: Link, part: JobPart) -> JobPart:
        """A part that has begun, perhaps earlier and unheard; unless it never did and is cancelled."""
        if number := await self._found(errand, link, part.after):
            return replace(part, number=number)
        if errand.cancels:
            return replace(part, ended=JobState.CANCELLED.value)
        request = wire.job_start(errand.crawl, errand.kind, errand.parameters)
        answer = await self._ask(link, "StartJob", request, admin_pb2.StartJobResponse)
        return replace(part, number=answer.job.job)

    async def _restored(self, errand: Errand, link: Link, part: JobPart) -> JobPart:
        """A part whose shard has begun to fill it from a checkpoint, now or earlier. It has ended if there
        is nothing, or if the crawl ends: then its job does so, too."""
        if errand.cancels:
            return replace(part, ended=JobState.CANCELLED.value)
        request = shard_pb2.RestoreRequest(
            crawl=errand.crawl,
            number=errand.number,
            checkpoint=errand.parameters["checkpoint"],
            source=int(errand.parameters["crawl"]),
        )
        answer = await link.call(f"{SHARD_SERVICE}/Restore", request, shard_pb2.RestoreResponse, CALL_S)
        return replace(part, number=answer.job, ended="" if answer.job else JobState.DONE.value)

    async def _found(self, errand: Errand, link: Link, after: int) -> int:
        """The number of a part that its shard has begun, and nobody has heard of; 0 if there is none."""
        claimed = await self._runner.read(lambda core, _: self._jobs.claimed(errand.crawl, link.number))
        for each in await self._listed(errand.crawl, link):
            same = each.kind == errand.kind.value and dict(each.parameters) == dict(errand.parameters)
            if each.job > after and same and each.job not in claimed:
                return each.job
        return 0

    async def _listed(self, crawl: str, link: Link) -> list[admin_pb2.Job]:
        """The last jobs of a crawl in a shard."""
        found: list[admin_pb2.Job] = []
        token = ""
        while True:
            request = admin_pb2.ListJobsRequest(crawl=crawl, page_size=PAGE, page_token=token)
            answer = await self._ask(link, "ListJobs", request, admin_pb2.ListJobsResponse)
            found += answer.jobs
            token = answer.next_page_token
            if not token:
                return found

    async def _asked(self, errand: Errand, link: Link, part: JobPart) -> JobPart:
        """What a shard says of a part that has begun."""
        if errand.cancels and errand.kind not in NOT_CANCELLED:  # others end with their part's crawl
            cancel = admin_pb2.CancelJobRequest(crawl=errand.crawl, job=part.number)
            try:
                await self._ask(link, "CancelJob", cancel, admin_pb2.CancelJobResponse)
            except Relayed as refusal:
                if refusal.reason != "CRAWL_TORN_DOWN":  # it has ended then
                    raise
        request = admin_pb2.GetJobRequest(crawl=errand.crawl, job=part.number)
        told = (await self._ask(link, "GetJob", request, admin_pb2.GetJobResponse)).job
        ended = told.HasField("finish_time")
        return replace(
            part,
            ended=admin_pb2.JobState.Name(told.state).removeprefix("JOB_STATE_") if ended else "",
            done=told.done_count,
            changed=told.changed_count,
            total=told.total_count,
            counts=dict(told.counts),
            findings=tuple(told.findings),
        )

    async def _ask(self, link: Link, method: str, request: Message, kind: type[M]) -> M:
        return await link.call(f"{SERVICE}/{method}", request, kind, CALL_S)


def _record(
    jobs: PartedJobs, errand: Errand, parts: Sequence[JobPart], away: Sequence[int], core: Core, now_ms: int
) -> tuple[None, Changes]:
    return jobs.record(errand, parts, away, now_ms)


def _note(
    jobs: PartedJobs, errand: Errand, number: int, part: JobPart, core: Core, now_ms: int
) -> tuple[bool, Changes]:
    return jobs.note(errand, number, part, now_ms)
