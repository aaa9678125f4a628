"""ImportUris: a complete stream of URIs becomes a job; a broken one is dropped."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from toehold.frontier.v1 import admin_pb2

from .. import wire
from ..core.core import Core
from ..core.rows.errors import FrontierError, InvalidRequest, UnknownCrawl
from ..core.rows.records import ImportRow
from ..core.rows.store import Changes
from ..core.state.model import MAX_BATCH, JobView, check_batch
from ..shell.runner import Closing
from .answers import AdminRpcs, Context, answered, operator_of


class Importing(NamedTuple):
    """An import whose rows come."""

    crawl: str
    crawl_number: int  # there may be another crawl of the name before all have come
    job: int

    def check(self, core: Core) -> None:
        """Raise UnknownCrawl if its crawl is gone."""
        if core.shard.registry.named(self.crawl).number != self.crawl_number:
            raise UnknownCrawl(f"crawl {self.crawl!r} was deleted meanwhile", crawl=self.crawl)


class ImportRpcs(AdminRpcs):
    """The RPC that takes in URIs by the million."""

    @answered
    async def ImportUris(
        self, requests: AsyncIterator[admin_pb2.ImportUrisRequest], context: Context
    ) -> admin_pb2.ImportUrisResponse:
        importing: Importing | None = None
        taken, complete = 0, False
        try:
            async for request in requests:
                if len(request.entries) > MAX_BATCH:
                    check_batch(len(request.entries), "entries")
                if importing is not None:
                    _check_later(request, importing.crawl, complete)
                rows = _rows(request.entries, taken)
                self._runner.admit()
                if importing is None:
                    importing, mark = await self._begin(request.crawl, request.force, operator_of(context))
                    await self._runner.durable(mark)  # from here on it can be cancelled
                if rows:
                    await self._add(importing, rows)
                    taken += len(rows)
                complete = request.complete
            if importing is None or not complete:  # a broken stream just ends
                raise InvalidRequest(
                    "the stream ended before its complete message; nothing was taken in", field="complete"
                )
        except BaseException:  # also a caller that leaves
            if importing is not None:
                # If this fails, the crawl is gone, or the server's next start cancels the job.
                with contextlib.suppress(FrontierError, Closing):
                    await self._whoever_waits(self._cancel(importing))
            raise
        view = await self._whoever_waits(self._end(importing))
        return admin_pb2.ImportUrisResponse(job=wire.job(view))

    async def _begin(self, crawl: str, force: bool, by: str) -> tuple[Importing, int]:
        def begin(core: Core, now_ms: int) -> tuple[Importing, Changes]:
            job, changes = core.administration.begin_import(crawl, force, now_ms, by)
            return Importing(crawl, core.shard.registry.named(crawl).number, job), changes

        return await self._runner.apply(begin)

    async def _add(self, importing: Importing, rows: Sequence[ImportRow]) -> None:
        def add(core: Core, now_ms: int) -> tuple[None, Changes]:
            importing.check(core)
            return core.administration.add_imports(importing.crawl, importing.job, rows, now_ms)

        await self._runner.run(add)

    async def _end(self, importing: Importing) -> JobView:
        def end(core: Core, now_ms: int) -> tuple[JobView, Changes]:
            importing.check(core)
            return core.administration.end_import(importing.crawl, importing.job, now_ms)

        return await self._runner.run(end)

    async def _cancel(self, importing: Importing) -> JobView:
        def cancel(core: Core, now_ms: int) -> tuple[JobView, Changes]:
            importing.check(core)
            return core.administration.cancel_job(importing.crawl, importing.job, now_ms)

        return await self._runner.run(cancel)


def _rows(entries: Sequence[admin_pb2.ImportEntry], taken: int) -> list[ImportRow]:
    rows = []
    for place, entry in enumerate(entries, taken + 1):
        row = wire.import_row(entry)
        if isinstance(row, str):
            raise InvalidRequest(f"entry {place}: {row}", field="entries")
        rows.append(row)
    return rows


def _check_later(request: admin_pb2.ImportUrisRequest, crawl: str, complete: bool) -> None:
    """Raise InvalidRequest if a message after the first contradicts those before it."""
    if complete:
        raise InvalidRequest(
            "a message came after the complete one, which must be the last", field="complete"
        )
    if request.crawl not in ("", crawl):
        raise InvalidRequest(
            f"crawl must be {crawl!r} in the whole stream, got {request.crawl[:80]!r}", field="crawl"
        )
    if request.force:
        raise InvalidRequest("force must be set in the first message only", field="force")
