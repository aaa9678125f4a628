"""ImportUris: a complete stream of URIs becomes a job; a broken one is dropped."""

import contextlib
from collections.abc import AsyncIterator, Sequence

from toehold.frontier.v1 import admin_pb2

from .. import wire
from ..core.rows.errors import FrontierError, InvalidRequest
from ..core.rows.records import ImportRow
from ..core.state.model import MAX_BATCH, JobView, check_batch
from ..shell.runner import Closing
from .answers import AdminRpcs, Context, answered, operator_of


class ImportRpcs(AdminRpcs):
    """The RPC that takes in URIs by the million."""

    @answered
    async def ImportUris(
        self, requests: AsyncIterator[admin_pb2.ImportUrisRequest], context: Context
    ) -> admin_pb2.ImportUrisResponse:
        crawl, number, taken, complete = "", 0, 0, False
        try:
            async for request in requests:
                if len(request.entries) > MAX_BATCH:
                    check_batch(len(request.entries), "entries")
                if number:
                    _check_later(request, crawl, complete)
                rows = _rows(request.entries, taken)
                self._runner.admit()
                if not number:
                    crawl = request.crawl
                    number, mark = await self._begin(crawl, request.force, operator_of(context))
                    await self._runner.durable(mark)  # from here on it can be cancelled
                if rows:
                    await self._add(crawl, number, rows)
                    taken += len(rows)
                complete = request.complete
            if not complete:  # a broken stream just ends
                raise InvalidRequest(
                    "the stream ended before its complete message; nothing was taken in", field="complete"
                )
        except BaseException:  # also a caller that leaves
            if number:
                # If this fails, the crawl is gone, or the server's next start cancels the job.
                with contextlib.suppress(FrontierError, Closing):
                    await self._whoever_waits(self._cancel(crawl, number))
            raise
        view = await self._whoever_waits(self._end(crawl, number))
        return admin_pb2.ImportUrisResponse(job=wire.job(view))

    async def _begin(self, crawl: str, force: bool, by: str) -> tuple[int, int]:
        return await self._runner.apply(
            lambda core, now_ms: core.administration.begin_import(crawl, force, now_ms, by)
        )

    async def _add(self, crawl: str, number: int, rows: Sequence[ImportRow]) -> None:
        await self._runner.run(
            lambda core, now_ms: core.administration.add_imports(crawl, number, rows, now_ms)
        )

    async def _end(self, crawl: str, number: int) -> JobView:
        return await self._runner.run(
            lambda core, now_ms: core.administration.end_import(crawl, number, now_ms)
        )

    async def _cancel(self, crawl: str, number: int) -> JobView:
        return await self._runner.run(
            lambda core, now_ms: core.administration.cancel_job(crawl, number, now_ms)
        )


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
