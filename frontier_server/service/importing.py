"""ImportUris: a stream of URIs that becomes a job, or nothing if it breaks."""

import contextlib
from collections.abc import AsyncIterator, Sequence

from toehold.frontier.v1 import admin_pb2

from .. import wire
from ..core.errors import FrontierError, InvalidRequest
from ..core.frontier import check_batch
from ..core.model import MAX_BATCH
from ..core.records import ImportRow
from ..runner import Closing
from .answering import AdminRpcs, Context, answered, check_size


class ImportRpcs(AdminRpcs):
    """How URIs come by the million."""

    @answered
    async def ImportUris(
        self, requests: AsyncIterator[admin_pb2.ImportUrisRequest], context: Context
    ) -> admin_pb2.ImportUrisResponse:
        crawl, number, taken = "", 0, 0
        try:
            async for request in requests:
                check_size(request)
                if len(request.entries) > MAX_BATCH:
                    check_batch(len(request.entries), "entries")
                rows = _rows(request.entries, taken)
                self._runner.admit()
                if not number:
                    crawl = request.crawl
                    number, mark = await self._begin(crawl, request.force)
                    await self._runner.durable(mark)  # from here on it can be cancelled
                else:
                    _check_later(request, crawl)
                if rows:
                    await self._add(crawl, number, rows)
                    taken += len(rows)
            if not number:
                raise InvalidRequest(
                    "the stream has no message; the first one names the crawl", field="crawl"
                )
            view = await self._runner.run(
                lambda frontier, now_ms: frontier.administration.end_import(crawl, number, now_ms)
            )
        except BaseException:  # the caller is gone, for one
            if number:
                await self._cancel(crawl, number)
            raise
        return admin_pb2.ImportUrisResponse(job=wire.job(view))

    async def _begin(self, crawl: str, force: bool) -> tuple[int, int]:
        return await self._runner.apply(
            lambda frontier, now_ms: frontier.administration.begin_import(crawl, force, now_ms)
        )

    async def _add(self, crawl: str, number: int, rows: Sequence[ImportRow]) -> None:
        await self._runner.run(
            lambda frontier, now_ms: frontier.administration.add_imports(crawl, number, rows, now_ms)
        )

    async def _cancel(self, crawl: str, number: int) -> None:
        # A crawl that is gone has no job any more, and a server that starts cancels what nobody brings.
        with contextlib.suppress(FrontierError, Closing):
            await self._runner.run(
                lambda frontier, now_ms: frontier.administration.cancel_job(crawl, number, now_ms)
            )


def _rows(entries: Sequence[admin_pb2.ImportEntry], taken: int) -> list[ImportRow]:
    rows = []
    for place, entry in enumerate(entries, taken + 1):
        row = wire.import_row(entry)
        if isinstance(row, str):
            raise InvalidRequest(f"entry {place}: {row}", field="entries")
        rows.append(row)
    return rows


def _check_later(request: admin_pb2.ImportUrisRequest, crawl: str) -> None:
    """Raise InvalidRequest if a message behind the first says otherwise than that."""
    if request.crawl not in ("", crawl):
        raise InvalidRequest(f"crawl {request.crawl[:80]!r} in a stream for {crawl!r}", field="crawl")
    if request.force:
        raise InvalidRequest(
            "force is set behind the first message; it is for all, and set there", field="force"
        )
