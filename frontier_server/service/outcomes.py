"""StreamOutcomes: the final dispositions that are kept, and those to come."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence

from toehold.frontier.v1 import admin_pb2

from .. import wire
from ..core.core import Core
from ..core.machines.lifecycle import CrawlState
from ..core.rows.errors import InvalidRequest
from ..core.rows.records import OutcomeRow
from .answers import AdminRpcs, Context, fitting_count, streamed

OUTCOMES_PER_READ = 500
GATHER_S = 0.1  # each look costs an operation, so outcomes are gathered
HEARTBEAT_S = 10.0


class OutcomeRpcs(AdminRpcs):
    """The RPC on final dispositions."""

    @streamed
    async def StreamOutcomes(
        self, request: admin_pb2.StreamOutcomesRequest, context: Context
    ) -> AsyncIterator[admin_pb2.StreamOutcomesResponse]:
        def look(core: Core, _: int) -> tuple[int, wire.Cursor, int]:
            oldest, last = core.history.outcome_range(request.crawl)
            last_ms = core.history.outcome_time(request.crawl, last)
            return oldest, wire.Cursor(last, last_ms), core.views.crawl(request.crawl).number

        oldest, last, its_number = await self._runner.read(look)
        place = wire.outcome_place(request.cursor) if request.cursor else last
        if place is None:
            raise InvalidRequest(
                f"{request.cursor[:40]!r} is not a cursor of StreamOutcomes; 'start' begins at the oldest "
                "outcome",
                field="cursor",
            )
        if request.cursor == wire.START_CURSOR:
            place = wire.Cursor(oldest - 1, 0)
        cursor = wire.outcome_cursor(*place)
        yield admin_pb2.StreamOutcomesResponse(kept=wire.kept_outcomes(oldest, *last), cursor=cursor)
        await self._runner.read(lambda core, _: core.history.check_outcome(request.crawl, *place))
        its = request.crawl, its_number
        rows = (
            self._following(its, place.number)
            if request.follow and not self._runner.read_only
            else self._kept(its, place.number, last.number)
        )
        async for read in rows:
            for part in _parts(read):
                cursor = part[-1].cursor if part else cursor
                yield admin_pb2.StreamOutcomesResponse(outcomes=part, cursor=cursor)

    async def _kept(
        self, crawl: tuple[str, int], number: int, last: int
    ) -> AsyncIterator[list[tuple[int, OutcomeRow]]]:
        """Outcomes after number `number`, up to number `last`."""
        while True:
            read, _ = await self._read(crawl, number)
            rows = [(serial, row) for serial, row in read if serial <= last]
            if not rows:
                return
            yield rows
            number = rows[-1][0]

    async def _following(
        self, crawl: tuple[str, int], number: int
    ) -> AsyncIterator[list[tuple[int, OutcomeRow]]]:
        """Outcomes after a number as they become durable, to the crawl's end; [] while nothing happens."""
        loop = asyncio.get_running_loop()
        silent_since_s = loop.time()
        while True:
            change = self._runner.next_change()
            rows, finished = await self._read(crawl, number)
            left_s = silent_since_s + HEARTBEAT_S - loop.time()
            if rows or left_s <= 0:
                yield rows
                number = rows[-1][0] if rows else number
                silent_since_s = loop.time()
            elif finished:
                return
            else:
                done, _ = await asyncio.wait((change,), timeout=left_s)
                if done:
                    await asyncio.sleep(GATHER_S)

    async def _read(self, crawl: tuple[str, int], number: int) -> tuple[list[tuple[int, OutcomeRow]], bool]:
        """Some outcomes after a number, and whether the crawl (name and number) has finished."""

        def question(core: Core, _: int) -> tuple[list[tuple[int, OutcomeRow]], bool]:
            view = core.views.crawl(*crawl)
            rows = core.history.outcomes(view.name, number, OUTCOMES_PER_READ)
            return rows, view.state is CrawlState.FINISHED

        return await self._runner.read(question)


def _parts(rows: Sequence[tuple[int, OutcomeRow]]) -> Iterator[list[admin_pb2.UriOutcome]]:
    """Outcomes in parts of at most a page; one empty part if there are none."""
    outcomes = [wire.outcome(number, row) for number, row in rows]
    while True:
        count = fitting_count(outcomes)
        yield outcomes[:count]
        outcomes = outcomes[count:]
        if not outcomes:
            return
