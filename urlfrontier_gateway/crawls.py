"""The gateway's crawls: they come into being by use, and share some settings.

The settings crawl is never launched. Its spec says how long queues rest and whether the gateways are active,
so that every gateway of the frontier finds the same, and finds it after a restart, too.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

import structlog
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask

from toehold.frontier.v1.admin_pb2 import (
    CreateCrawlRequest,
    DeleteCrawlRequest,
    GetCrawlRequest,
    LaunchCrawlRequest,
    ListCrawlsRequest,
    UpdateCrawlRequest,
)
from toehold.frontier.v1.crawl_pb2 import CrawlSpec, QueueSpec, TargetState, Verdict
from toehold.frontier.v1.frontier_pb2 import Candidate, RequestStateRequest, ScheduleRequest
from toehold_client.errors import CrawlExists, CrawlFinished, IllegalState, NoSeeds, UnknownCrawl
from toehold_client.rpc.contract import one_for_each

from .crawl_ids import SETTINGS_CRAWL, crawl_id, crawl_name
from .frontier import FrontierCalls
from .spec import DEFAULT_DELAY_S, crawl_spec

# Another gateway may have created a crawl; until then its URLs wait for the next look.
_LIST_AGE_S = 1.0

_PAUSE_AT_START, _MIN_GAP = "pause_at_start", "queues.min_gap"

_log = structlog.get_logger()
_R = TypeVar("_R")


class Crawls:
    """The crawls of all gateways of a frontier, by their ids."""

    def __init__(self, frontier: FrontierCalls) -> None:
        self._frontier = frontier
        self._launched: set[str] = set()
        self._creating = asyncio.Lock()
        self._ids: list[str] = []
        self._ids_at_s = -_LIST_AGE_S

    # by use

    async def schedule(
        self, crawl_id: str, candidates: Sequence[Candidate], *, replace: bool
    ) -> Sequence[Verdict.ValueType]:
        """Offers up to 1000 candidates to a crawl, which need not be there yet; the verdicts. That on
        candidates whose shard is away is AWAY, or PARKED."""
        request = ScheduleRequest(
            crawl=crawl_name(crawl_id), candidates=candidates, replace=replace, partial=True, park=not replace
        )
        answer = await self.using(
            crawl_id, lambda: self._frontier.ask(lambda s: s.frontier.Schedule, request)
        )
        await self.launch(crawl_id)
        return one_for_each(candidates, answer.verdicts)

    async def using(self, crawl_id: str, call: Callable[[], Awaitable[_R]]) -> _R:
        """Makes a call that changes a crawl. If there is no such crawl, creates it."""
        try:
            return await call()
        except UnknownCrawl:
            self._forget(crawl_id)
            await self._create(crawl_id)
        return await call()

    async def launch(self, crawl_id: str) -> None:
        """Launches a crawl if it is not known to run, and has URLs."""
        name = crawl_name(crawl_id)
        if name in self._launched:
            return
        try:
            await self._frontier.ask(lambda s: s.admin.LaunchCrawl, LaunchCrawlRequest(crawl=name))
        except (NoSeeds, UnknownCrawl):
            return
        except (IllegalState, CrawlFinished):
            pass  # it was launched before
        else:
            _log.info("crawl_launched", crawl=name, crawl_id=crawl_id)
            await self._follow_settings(name)
        self._launched.add(name)

    async def _create(self, crawl_id: str) -> None:
        name = crawl_name(crawl_id)
        async with self._creating:
            delay_s, active = await self.settings()
            await self._create_as(name, crawl_spec(crawl_id, delay_s=delay_s, active=active))
        if crawl_id not in self._ids:
            self._ids.append(crawl_id)

    async def _create_as(self, name: str, spec: CrawlSpec) -> None:
        """Creates a crawl, unless another gateway has done it, or this one before its answer was lost."""
        request = CreateCrawlRequest(crawl=name, spec=spec)
        try:
            await self._frontier.ask(lambda s: s.admin.CreateCrawl, request)
        except CrawlExists:
            return
        _log.info("crawl_created", crawl=name, crawl_id=spec.description)

    async def _follow_settings(self, name: str) -> None:
        """Gives a crawl the settings that may have changed while it was created."""
        delay_s, active = await self.settings()
        await self._change(name, _settings(delay_s=delay_s), (_MIN_GAP,))
        await self._request_state(name, active)

    def _forget(self, crawl_id: str) -> None:
        self._launched.discard(crawl_name(crawl_id))
        if crawl_id in self._ids:
            self._ids.remove(crawl_id)

    # all of them

    async def ids(self) -> list[str]:
        """The ids of all crawls, of whichever gateway."""
        ids = []
        async for page in self._frontier.pages(lambda s: s.admin.ListCrawls, ListCrawlsRequest()):
            for crawl in page.crawls:
                stored_id = crawl_id(crawl.crawl, crawl.spec.description)
                if stored_id is not None:
                    ids.append(stored_id)
        self._ids, self._ids_at_s = ids, time.monotonic()
        return list(ids)

    async def recent_ids(self) -> list[str]:
        """The same, at most a second old."""
        if time.monotonic() - self._ids_at_s < _LIST_AGE_S:
            return list(self._ids)
        return await self.ids()

    async def delete(self, crawl_id: str) -> None:
        """Deletes a crawl with all its URLs. UnknownCrawl."""
        request = DeleteCrawlRequest(crawl=crawl_name(crawl_id), force=True)
        try:
            await self._frontier.ask(lambda s: s.admin.DeleteCrawl, request)
        finally:
            self._forget(crawl_id)

    # the settings that they share

    async def settings(self) -> tuple[int, bool]:
        """How long queues rest, in seconds, and whether the gateways are active."""
        try:
            answer = await self._frontier.ask(
                lambda s: s.admin.GetCrawl, GetCrawlRequest(crawl=SETTINGS_CRAWL)
            )
        except UnknownCrawl:
            return DEFAULT_DELAY_S, True
        spec = answer.crawl.spec
        return spec.queues.min_gap.seconds, not spec.pause_at_start

    async def set_delay(self, delay_s: int) -> None:
        """Sets how long queues without a delay of their own rest, in crawls that are and that will be."""
        await self._change_settings(_settings(delay_s=delay_s), (_MIN_GAP,))
        for name in map(crawl_name, await self.ids()):
            await self._change(name, _settings(delay_s=delay_s), (_MIN_GAP,))

    async def set_active(self, active: bool) -> None:
        """Resumes or pauses all crawls, and those that will be."""
        await self._change_settings(CrawlSpec(pause_at_start=not active), (_PAUSE_AT_START,))
        for name in map(crawl_name, await self.ids()):
            await self._change(name, CrawlSpec(pause_at_start=not active), (_PAUSE_AT_START,))
            await self._request_state(name, active)

    async def _change_settings(self, spec: CrawlSpec, paths: Iterable[str]) -> None:
        request = UpdateCrawlRequest(crawl=SETTINGS_CRAWL, spec=spec, update_mask=FieldMask(paths=paths))
        try:
            await self._frontier.ask(lambda s: s.admin.UpdateCrawl, request)
        except UnknownCrawl:
            template = crawl_spec("Settings of URLFrontier's crawls", delay_s=DEFAULT_DELAY_S, active=True)
            await self._create_as(SETTINGS_CRAWL, template)
            await self._frontier.ask(lambda s: s.admin.UpdateCrawl, request)

    async def _change(self, name: str, spec: CrawlSpec, paths: Iterable[str]) -> None:
        """Changes a crawl, unless it has gone or ended meanwhile."""
        request = UpdateCrawlRequest(crawl=name, spec=spec, update_mask=FieldMask(paths=paths))
        try:
            await self._frontier.ask(lambda s: s.admin.UpdateCrawl, request)
        except (UnknownCrawl, CrawlFinished):
            return

    async def _request_state(self, name: str, active: bool) -> None:
        """Resumes or pauses a crawl. One that is not launched yet will start as its spec says."""
        target = TargetState.TARGET_STATE_RUN if active else TargetState.TARGET_STATE_PAUSE
        try:
            await self._frontier.ask(
                lambda s: s.frontier.RequestState, RequestStateRequest(crawl=name, target_state=target)
            )
        except (UnknownCrawl, CrawlFinished, IllegalState):
            return


def _settings(*, delay_s: int) -> CrawlSpec:
    return CrawlSpec(queues=QueueSpec(min_gap=Duration(seconds=delay_s)))
