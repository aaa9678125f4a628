"""Requests of nodes and feeders that take several operations: batches in slices, and waits."""

import asyncio
from collections.abc import Callable, Iterator, Sequence

from ..core.core import Core
from ..core.journey.dispatch import Want
from ..core.journey.reports import anybody
from ..core.rows.store import Changes
from ..core.state.model import Candidate, EmptyReason, NextAnswer, Report, ReportResult, Verdict
from .followers import Followers
from .runner import Runner, TryLater

CANDIDATES_PER_SLICE = 250  # some milliseconds; each slice writes its queues and counters once
REPORTS_PER_SLICE = 50
LONG_ROBOTS_BYTES = 16 * 1024
MAX_SCHEDULES = 32  # requests in progress at once
CLEARING_S = 0.5  # how long a request goes on, although it does not wait, if there is more to look at


class Exchange:
    """Runs the operations of these requests, and lets others run in between."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.following = Followers(runner)
        self.finished_count = 0
        """Reports since the start."""
        self._schedules = 0  # requests in progress
        self._reports_go_on = asyncio.Event()
        self._reports_go_on.set()
        self._holding: asyncio.TimerHandle | None = None

    async def schedule(
        self, crawl: str, candidates: Sequence[Candidate], replace: bool = False, anew: bool = False
    ) -> list[Verdict]:
        """Take in a batch of candidates, in slices; with `anew` they are the seeds of a round."""
        self.runner.admit()
        if self._schedules >= MAX_SCHEDULES:
            raise TryLater("OVERLOADED", f"{self._schedules} schedule calls are in progress; try later", 200)
        self._schedules += 1
        try:
            verdicts: list[Verdict] = []
            mark = 0
            size = size_of_slices(len(candidates), CANDIDATES_PER_SLICE)
            for start in range(0, len(candidates), size):
                part = candidates[start : start + size]

                def operation(
                    core: Core, now_ms: int, part: Sequence[Candidate] = part
                ) -> tuple[list[Verdict], Changes]:
                    return core.frontier.schedule(crawl, part, now_ms, replace, anew)

                answer, mark = await self.runner.apply(operation, tells_counts=False)
                verdicts.extend(answer)
                if start + size < len(candidates):
                    await asyncio.sleep(0)
            await self.runner.durable(mark)
            return verdicts
        finally:
            self._schedules -= 1

    async def finished(
        self,
        reports: Sequence[Report],
        node: str,
        session: str,
        speaks_for: Callable[[str], bool] = anybody,
        bound: bool = False,
    ) -> list[ReportResult]:
        """Apply a batch of reports, in slices. Its caller may end the leases of the nodes it `speaks_for`; if
        it is `bound`, it may act on some crawls only."""
        results: list[ReportResult] = []
        mark = 0
        for part in _report_slices(reports):
            await self._reports_go_on.wait()

            def operation(
                core: Core, now_ms: int, part: Sequence[Report] = part
            ) -> tuple[list[ReportResult], Changes]:
                return core.frontier.finished(part, node, session, now_ms, speaks_for, bound)

            answer, mark = await self.runner.apply(operation)
            results.extend(answer)
            self.finished_count += len(answer)
            if len(results) < len(reports):
                await asyncio.sleep(0)
        await self.runner.durable(mark)
        return results

    async def hold_reports(self, seconds: float) -> None:
        """Keep reports back, for so long at most; 0 lets them go on. Those that were applied are durable."""
        if self._holding is not None:
            self._holding.cancel()
            self._holding = None
        if not seconds:
            self._reports_go_on.set()
            return
        self._reports_go_on.clear()
        self._holding = asyncio.get_running_loop().call_later(seconds, self._reports_go_on.set)
        await self.runner.read(lambda core, now_ms: None)

    @property
    def holds_reports(self) -> bool:
        """Whether reports are kept back."""
        return not self._reports_go_on.is_set()

    async def next(
        self,
        node: str,
        session: str,
        want: Want,
        crawl: str | None,
        wait_s: float,
        on_try: Callable[[], None] | None = None,
        bound: bool = False,
    ) -> NextAnswer:
        """Wait for leases. Returns them, or the reason why there are none when the wait is over.

        The wait also ends when the reason changes (the crawl pauses, for example). If the caller
        disconnects before it gets the answer, its leases are released. `again` in an answer without leases
        says that one operation was not enough to look at everything.
        """
        loop = asyncio.get_running_loop()
        end_s = loop.time() + wait_s
        again_s = max(end_s, loop.time() + CLEARING_S)
        first: EmptyReason | None = None
        while True:
            if on_try is not None:
                on_try()
            with self.runner.waiting.one((crawl, want.kinds), node) as waiter:
                answer, mark = await self.runner.apply(
                    lambda core, now_ms: core.frontier.next(node, session, want, crawl, now_ms, bound)
                )
                if answer.grants:
                    return await self._granted(answer, mark)
                if answer.again and loop.time() < again_s:
                    await asyncio.sleep(0)
                    continue
                first = first or answer.empty_reason
                left_s = end_s - loop.time()
                if (
                    left_s <= 0
                    or answer.again
                    or answer.empty_reason is not first
                    or answer.empty_reason is EmptyReason.FINISHED
                ):
                    await self.runner.durable(mark)
                    return answer
                await asyncio.wait((waiter,), timeout=left_s)

    async def _granted(self, answer: NextAnswer, mark: int) -> NextAnswer:
        try:
            await self.runner.durable(mark)
        except asyncio.CancelledError:
            await self.take_back(answer)
            raise
        return answer

    async def take_back(self, answer: NextAnswer) -> None:
        """Release the leases of an answer that its caller can no longer receive."""
        tokens = [grant.token for grant in answer.grants]
        await self.runner.apply(lambda core, now_ms: core.frontier.take_back(tokens, now_ms))


def _report_slices(reports: Sequence[Report]) -> Iterator[Sequence[Report]]:
    """Slice reports. A report with a long robots.txt, which is slow to parse, ends its slice."""
    size, start = size_of_slices(len(reports), REPORTS_PER_SLICE), 0
    for end, report in enumerate(reports, 1):
        long = len(report.robots_body) > LONG_ROBOTS_BYTES
        if long or end - start == size or end == len(reports):
            yield reports[start:end]
            start = end


def size_of_slices(count: int, usual: int) -> int:
    """How many of a batch to take at once: slices of one size, two thirds to one and a half times the usual
    one. So the part of a batch that is a shard's hardly ever has a few left over, which cost an operation."""
    return -(-count // max(round(count / usual), 1)) or 1
