"""Jobs with a part in each shard: which parts there are, how far they have come, and when all have ended.

The job's row is the coordinator's, and sums up its parts. What it knows of each part is in the row's cursor,
which nobody sees, so that a restart goes on with it. A part begins once: before its shard is asked, the
number of the shard's last job is noted, so that an answer that was lost is found again.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from ..core.jobs import importing
from ..core.machines.lifecycle import ENDING, Input
from ..core.opening.shard import Shard
from ..core.rows.records import JobRow
from ..core.rows.store import Changes
from ..core.state import job, life
from ..core.state.job import ENDED, FEEDING, MAX_FINDINGS, JobKind, JobState
from ..core.state.operation import Operation
from .whole import ANNOUNCED, WholeCrawl

_encode = msgspec.msgpack.Encoder().encode


class JobPart(msgspec.Struct, frozen=True):
    """What is known of a job in one shard."""

    number: int = 0  # its number there; 0 if it has not begun
    after: int = -1  # the number of the shard's last job before it was asked to begin; -1 if it was not asked
    ended: str = ""  # how; empty if it has not
    done: int = 0
    changed: int = 0
    total: int = 0
    counts: Mapping[str, int] = {}
    findings: tuple[str, ...] = ()


class Errand(msgspec.Struct, frozen=True):
    """A job whose parts must be begun, asked, or cancelled."""

    crawl: str
    number: int  # the crawl's
    job: int
    kind: JobKind
    parameters: Mapping[str, str]
    cancels: bool
    parts: Sequence[JobPart]


_parts_of = msgspec.msgpack.Decoder(list[JobPart])


class PartedJobs:
    """The jobs of a coordinator's crawls that are done in the parts."""

    def __init__(self, shard: Shard, parts: int) -> None:
        self._shard = shard
        self._parts = parts

    def errands(self) -> list[Errand]:
        """The jobs that have not ended, in the order in which each crawl's began. Held crawls stand still."""
        crawls = self._shard.registry.crawls.values()
        return [
            errand
            for crawl in crawls
            if isinstance(crawl, WholeCrawl) and crawl.jobs and not crawl.held
            for errand in self._errands_of(crawl)
        ]

    def _errands_of(self, crawl: WholeCrawl) -> list[Errand]:
        found: list[Errand] = []
        for number in sorted(crawl.jobs):
            row = job.get(self._shard.store, crawl, number)
            kind = JobKind(row.kind)
            if kind in ANNOUNCED:
                break  # later jobs begin once all seeds before them are announced
            if kind is JobKind.RESTORE and crawl.state_row.parts_copied:
                break  # the rest is done here, as in any crawl
            ends = crawl.state_row.tearing_down or (kind in FEEDING and crawl.state in ENDING)
            abandoned = row.state == JobState.RECEIVING.value  # its rows stay incomplete
            cancels = ends or abandoned or row.state == JobState.CANCELLING.value
            found.append(
                Errand(
                    crawl.name,
                    crawl.number,
                    number,
                    kind,
                    row.parameters,
                    cancels,
                    self._known_parts(row, kind),
                )
            )
        return found

    def _known_parts(self, row: JobRow, kind: JobKind) -> Sequence[JobPart]:
        if row.cursor:
            return _parts_of.decode(row.cursor)
        if kind in (JobKind.IMPORT, JobKind.APPRAISE_QUEUES):
            # An import without parts was not received; queues are appraised by parts as settings reach them.
            how = JobState.DONE if kind is JobKind.APPRAISE_QUEUES else JobState.CANCELLED
            return [JobPart(ended=how.value)] * self._parts
        return [JobPart()] * self._parts

    def claimed(self, name: str, part: int) -> set[int]:
        """The numbers of the jobs of a part that are known to belong to jobs of the crawl."""
        crawl = self._shard.registry.names.get(name)
        rows = () if crawl is None else job.rows(self._shard.store, crawl.number)
        return {_parts_of.decode(row.cursor)[part].number for _, row in rows if row.cursor}

    def note(self, errand: Errand, part: int, told: JobPart, now_ms: int) -> tuple[bool, Changes]:
        """Note that a part will be asked to begin; whether the crawl still has the job."""
        op = self._shard.begin(now_ms)
        crawl = self._shard.registry.names.get(errand.crawl)
        if not isinstance(crawl, WholeCrawl) or not _has(crawl, errand):
            return False, self._shard.end(op)
        row = job.get(op.tx, crawl, errand.job)
        parts = list(self._known_parts(row, errand.kind))
        parts[part] = told
        row.cursor = _encode(parts)
        job.put(op, crawl, errand.job, row)
        return True, self._shard.end(op)

    def count_received(self, name: str, number: int, rows: int, now_ms: int) -> tuple[None, Changes]:
        """Count the rows of an import that its parts are getting. Raises IllegalState if it gets none any
        more."""
        op = self._shard.begin(now_ms)
        crawl = self._shard.registry.unfinished(name)
        row = importing.receiving(op, crawl, number)
        row.total += rows
        job.put(op, crawl, number, row)
        return None, self._shard.end(op)

    def begin_import(
        self, name: str, number: int, parts: Mapping[int, tuple[int, int]], now_ms: int
    ) -> tuple[None, Changes]:
        """Let an import begin whose rows are in the parts: the number and the rows of each part's job."""
        op = self._shard.begin(now_ms)
        crawl = self._shard.registry.changeable(name)
        row = job.get(op.tx, crawl, number)
        if row.state not in ENDED:
            row = job.received(op, crawl, number)
            begun = [
                JobPart(parts[part][0], total=parts[part][1])
                if part in parts
                else JobPart(ended=JobState.DONE.value)
                for part in range(self._parts)
            ]
            self._put(row, begun)
            job.put(op, crawl, number, row)
            assert isinstance(crawl, WholeCrawl)
            crawl.rests = False  # its parts have URIs that they may not have told of yet
        return None, self._shard.end(op)

    def record(
        self, errand: Errand, parts: Sequence[JobPart], away: Collection[int], now_ms: int
    ) -> tuple[None, Changes]:
        """Note how the parts of a job are, and which shards do not say. Ends the job when all have ended."""
        op = self._shard.begin(now_ms)
        crawl = self._shard.registry.names.get(errand.crawl)
        if not isinstance(crawl, WholeCrawl) or not _has(crawl, errand):
            return None, self._shard.end(op)
        row = job.get(op.tx, crawl, errand.job)
        before = msgspec.structs.replace(row)
        self._put(row, parts, [part for part in sorted(away) if not parts[part].ended])
        if all(part.ended for part in parts):
            self._conclude(op, crawl, errand, row, parts)
        elif row != before:
            job.put(op, crawl, errand.job, row)
        return None, self._shard.end(op)

    def _conclude(
        self, op: Operation, crawl: WholeCrawl, errand: Errand, row: JobRow, parts: Sequence[JobPart]
    ) -> None:
        """End a job whose parts have all ended; a launch from a checkpoint goes on with the whole's rows."""
        cancelled = any(part.ended == JobState.CANCELLED.value for part in parts)
        if errand.kind is JobKind.RESTORE and not cancelled:
            crawl.state_row.parts_copied = True
            op.put_state(crawl)
            row.cursor = b""
            job.put(op, crawl, errand.job, row)
            return
        if errand.kind is JobKind.RESTORE:
            crawl.restoring = ""
            if crawl.state not in ENDING:
                problem = "; ".join(row.findings) or "a shard has lost its part of the checkpoint"
                op.event(crawl, "problem", kind="checkpoint", detail=problem)
                life.apply(op, crawl, Input.STOP, problem)
        if cancelled:
            row.state = JobState.CANCELLING.value
        crawl.rests = False  # likewise
        job.end(op, crawl, errand.job, row)

    def _put(self, row: JobRow, parts: Sequence[JobPart], away: Sequence[int] = ()) -> None:
        """Put the parts of a job into its row, and the sums of what they say."""
        row.findings = [f"shard {part} is away; its part goes on when it is back" for part in away]
        kept: list[JobPart] = []
        for part in parts:
            room = MAX_FINDINGS - len(row.findings)
            shown = part.findings[: max(room, 0)]
            row.findings += shown
            kept.append(msgspec.structs.replace(part, findings=shown))
        row.cursor = _encode(kept)
        row.done, row.changed = sum([part.done for part in parts]), sum([part.changed for part in parts])
        row.total = sum([part.total for part in parts]) or row.total
        row.counts = {}
        for part in parts:
            for name, count in part.counts.items():
                row.counts[name] = row.counts.get(name, 0) + count


def _has(crawl: WholeCrawl, errand: Errand) -> bool:
    """Whether a job is still a crawl's: a deleted crawl may have had the same name."""
    return crawl.number == errand.number and errand.job in crawl.jobs
