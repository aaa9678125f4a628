"""The door of the coordinator: what parts say, what they are told, and which seeds are announced.

Operations return *(answer, changes)*, like all of the core's.
"""

from collections.abc import Iterable, Sequence

import msgspec

from ..core.machines.lifecycle import ENDING, CrawlState, Input
from ..core.machines.target import Target
from ..core.opening import opening
from ..core.opening.shard import Shard
from ..core.rows.records import EventRow
from ..core.rows.store import Changes
from ..core.state import job, life, seeds
from ..core.state.job import JobKind, JobState
from ..core.state.model import Verdict
from ..core.state.operation import Operation
from ..core.state.order import Order, Progress
from .whole import ANNOUNCED, Feed, Part, WholeCrawl

_PAUSED = (CrawlState.PAUSING, CrawlState.PAUSED)
_DISTRUSTED = (life.LOG_AHEAD, life.SALVAGED)


class Announcement(msgspec.Struct, frozen=True):
    """The next seeds of a crawl to be offered to its parts."""

    crawl: str
    number: int
    job: int
    first: int  # so many seeds came before them in this announcement
    seeds: Sequence[str]
    before_ms: int = 0  # a round: those last fetched before this time are fetched again


class Coordinator:
    """The crawls of a frontier with several parts."""

    def __init__(self, shard: Shard, parts: int) -> None:
        self._shard = shard
        self.parts = parts
        self.incarnations = [0] * parts  # of the starts of all parts that were met last

    def begin_term(self, now_ms: int) -> tuple[None, Changes]:
        """Begin to lead. Must be durable before the first order: the orders of a term come after all orders
        of former ones, also after those that are still on their way."""
        op = self._shard.begin(now_ms)
        self._shard.server.term += 1
        opening.put_server_row(op.tx, self._shard.server)
        return None, self._shard.end(op)

    # Parts.

    def hear_anew(self, part: int, incarnation: int) -> list[str]:
        """Forget what a part has said, as its shard has started again. Progress of a former start changes
        nothing from now on. Returns the crawls that the part must tell of."""
        self.incarnations[part] = incarnation
        for crawl in self._crawls():
            crawl.parts[part].progress, crawl.parts[part].awaited = None, True
        return [crawl.name for crawl in self._crawls()]

    def record(self, part: int, told: Iterable[Progress], now_ms: int) -> tuple[None, Changes]:
        """Note how crawls go on in a part. What is older than what is known changes nothing."""
        op = self._shard.begin(now_ms)
        for progress in told:
            crawl = self._shard.registry.names.get(progress.crawl)
            if isinstance(crawl, WholeCrawl):
                self._record(op, crawl, part, progress)
        return None, self._shard.end(op)

    def _record(self, op: Operation, crawl: WholeCrawl, part: int, progress: Progress) -> None:
        its = crawl.parts[part]
        if progress.stamp.incarnation != self.incarnations[part]:
            return
        if progress.number != crawl.number or progress.state is None:
            progress = Progress(  # it has none, or a former one
                crawl.name, crawl.number, progress.moment, stamp=progress.stamp
            )
        if its.progress is not None and progress.moment < its.progress.moment:
            return
        its.progress, its.awaited = progress, False
        rests, obeyed = not progress.left, its.serial > 0 and progress.order >= its.serial
        if not rests:
            crawl.rests = False
        fetched = progress.documents + progress.pages_out
        crawl.documents_pool.record(part, progress.documents_lent, fetched, progress.starves, rests, obeyed)
        crawl.toes_pool.record(part, progress.toes_lent, progress.leases_out, progress.starves, rests, obeyed)
        crawl.add_up()
        crawl.lend()
        op.counters(crawl)
        self._note_nodes(op, crawl)
        self._note_trouble(op, crawl, its, progress)

    def _note_nodes(self, op: Operation, crawl: WholeCrawl) -> None:
        """Record which nodes have joined and left the crawl, if all of its parts are known."""
        if crawl.held or any(part.progress is None for part in crawl.parts):
            return
        known, nodes = crawl.state_row.nodes, crawl.merged_nodes()
        ends = any(part.progress and part.progress.state is CrawlState.FINISHED for part in crawl.parts)
        for node, session in list(known.items()):
            if nodes.get(node) != session and (node in nodes or not ends):  # ended parts have no nodes
                del known[node]
                why = crawl.state_row.why_left.pop(node, "replaced" if node in nodes else "silent")
                op.event(crawl, "node_left", node=node, session=session, reason=why)
                op.put_state(crawl)
        for node, session in nodes.items():
            if node not in known and crawl.state is not CrawlState.FINISHED:
                known[node] = session
                op.event(crawl, "node_joined", node=node, session=session)
                op.put_state(crawl)

    def _note_trouble(self, op: Operation, crawl: WholeCrawl, its: Part, progress: Progress) -> None:
        """Pause the crawl if trouble has paused a part that knows the present target; let it go on when no
        part has trouble any more, nor the coordinator the same."""
        row = crawl.state_row
        obeys = its.steered > 0 and crawl.obeys(its)
        pauses = obeys and progress.state in _PAUSED and bool(progress.reason)
        if pauses and crawl.target is Target.RUN and crawl.state in (CrawlState.RUNNING, CrawlState.EMPTY):
            life.apply(op, crawl, Input.PROBLEM, progress.reason, progress.trouble)
        elif row.trouble and row.trouble != (self._shard.trouble or ("",))[0] and not _has_trouble(crawl):
            life.go_on_after(op, crawl, row.trouble)

    def order(self, name: str, part: int) -> Order | None:
        """What a part must be told of a crawl; None if it is as it should be."""
        crawl = self._shard.registry.names.get(name)
        return crawl.order(part, self._shard.server.term) if isinstance(crawl, WholeCrawl) else None

    def has_settings(self, name: str, part: int) -> bool:
        """Whether a part has the crawl's present settings. Parts of a crawl that is gone need none."""
        crawl = self._shard.registry.names.get(name)
        if not isinstance(crawl, WholeCrawl):
            return True
        progress = crawl.parts[part].progress
        return progress is not None and progress.digest == crawl.digest

    def is_steered(self, name: str, part: int) -> bool:
        """Whether a part obeys the last wish for the crawl's state. Parts of a crawl that is gone do."""
        crawl = self._shard.registry.names.get(name)
        return (
            not isinstance(crawl, WholeCrawl) or not crawl.state_row.request or crawl.obeys(crawl.parts[part])
        )

    def changed_after(self, change: int) -> tuple[list[str], int]:
        """The crawls that have changed since a change, and the number of the last change."""
        return self._shard.changed_after(change)

    def known_numbers(self) -> list[int]:
        """The numbers of all crawls, those torn down included: parts delete all others, except `spared`."""
        registry = self._shard.registry
        return [*registry.crawls, *registry.torn.values()]

    def spared(self) -> list[int]:
        """The numbers of crawls that a salvage may have lost: shards keep their parts, paused."""
        return [number for first, last in self._shard.server.spared for number in range(first, last + 1)]

    # Events.

    def unheard(self, part: int, progress: Progress) -> int | None:
        """The last event of a part that was heard, if there are later ones."""
        crawl = self._shard.registry.names.get(progress.crawl)
        if not isinstance(crawl, WholeCrawl) or crawl.number != progress.number:
            return None
        heard = crawl.state_row.heard.get(part, 0)
        return heard if progress.last_event > heard else None

    def hear(
        self, part: int, progress: Progress, after: int, events: Sequence[tuple[int, EventRow]], now_ms: int
    ) -> tuple[None, Changes]:
        """Take in the events of a part after one, each once: what follows from it and its number are one
        write."""
        op = self._shard.begin(now_ms)
        crawl = self._shard.registry.names.get(progress.crawl)
        if isinstance(crawl, WholeCrawl) and self.unheard(part, progress) == after and events:
            for _, row in events:
                self._hear(op, crawl, part, row)
            crawl.state_row.heard[part] = events[-1][0]
            op.put_state(crawl)
            op.counters(crawl)
        return None, self._shard.end(op)

    def _hear(self, op: Operation, crawl: WholeCrawl, part: int, row: EventRow) -> None:
        fields = row.fields
        match row.kind:
            case "problem":
                detail = f"shard {part}: {fields['detail']}"
                if fields["kind"] in _DISTRUSTED:  # an order to run may be on its way to the part
                    life.distrust(op, crawl, str(fields["kind"]), detail)
                else:
                    op.event(crawl, row.kind, **{**fields, "detail": detail})
            case "flights_cancelled":
                op.event(crawl, row.kind, **fields)
            case "node_joined" | "node_left":
                self._hear_node(crawl, str(fields["node"]), str(fields["session"]), fields.get("reason"))

    def _hear_node(self, crawl: WholeCrawl, node: str, session: str, why_left: str | int | None) -> None:
        """Note why a node has left a part, if it has. That it said so counts more than the silence that a
        shard found which was away then."""
        row = crawl.state_row
        if row.nodes.get(node) != session:
            return
        if why_left is None:
            row.why_left.pop(node, None)
        elif row.why_left.get(node) != "left":
            row.why_left[node] = str(why_left)

    # Operators.

    def record_act(self, name: str, by: str, action: str, detail: str, now_ms: int) -> tuple[None, Changes]:
        """Record what an operator has done in parts of a crawl."""
        op = self._shard.begin(now_ms)
        crawl = self._shard.registry.names.get(name)
        if crawl is not None:
            op.acted(crawl, by, action, detail)
        return None, self._shard.end(op)

    def record_drain(self, node: str, by: str, now_ms: int) -> tuple[None, Changes]:
        """Record in the crawls that a node fetches for that an operator has asked it to end."""
        op = self._shard.begin(now_ms)
        attended = self._shard.attended_by(node)
        self._shard.sweep(
            op, f"drain {node}", attended, lambda op, crawl: op.acted(crawl, by, "drain-node", node)
        )
        return None, self._shard.end(op)

    def check_session(self, node: str, session: str) -> None:
        """Raise SessionSuperseded if another session has replaced one, as far as the coordinator knows."""
        self._shard.sessions.check(node, session)

    def accept(self, node: str, session: str, now_ms: int) -> tuple[None, Changes]:
        """Give a node's name to a session, for all parts. Raises SessionSuperseded if another has replaced
        it: a part that was away meanwhile does not know that."""
        op = self._shard.begin(now_ms)
        self._shard.sessions.accept(op.tx, node, session, now_ms)
        return None, self._shard.end(op)

    def last_known(self, name: str) -> dict[int, Progress]:
        """How the parts of a crawl were when they were heard last."""
        crawl = self._shard.registry.names.get(name)
        parts = enumerate(crawl.parts) if isinstance(crawl, WholeCrawl) else ()
        return {number: part.progress for number, part in parts if part.progress is not None}

    def next_ranks(self, name: str) -> list[int]:
        """The ranks of the queues whose turns come next in the parts of a crawl, as they were heard last; or
        of the crawl that runs, if it is the only one and no name is given. A part that has told none may have
        some by now: it counts like the first. Empty for others: crawls have turns by their weights, whatever
        the ranks of their queues.
        """
        running = self._shard.agenda.running
        crawl = self._shard.registry.names.get(name)
        if not name and len(running) == 1:
            (crawl,) = running.values()
        if not isinstance(crawl, WholeCrawl):
            return []
        told = [None if part.progress is None else part.progress.next_rank for part in crawl.parts]
        first = min((rank for rank in told if rank is not None), default=0)
        return [first if rank is None else rank for rank in told]

    # The end.

    def may_have_ended(self, name: str) -> Feed | None:
        """What has fed a crawl so far, if all of its parts said that they have nothing to do, and nothing is
        on its way to them; otherwise None. Two rounds of questions then show whether that was so at one
        moment."""
        crawl = self._shard.registry.names.get(name)
        if not isinstance(crawl, WholeCrawl) or crawl.rests or crawl.target is not Target.RUN:
            return None
        if crawl.jobs or crawl.receiving or crawl.parked:
            return None
        runs = crawl.state in (CrawlState.RUNNING, CrawlState.EMPTY)
        idle = all(part.progress is not None and not part.progress.left for part in crawl.parts)
        return crawl.feed if runs and idle and crawl.arrived else None

    def conclude(
        self, name: str, feed: Feed, first: Sequence[Progress], second: Sequence[Progress], now_ms: int
    ) -> tuple[bool, Changes]:
        """Compare two rounds of answers of all parts. The second round was asked when the first was complete;
        `feed` is what `may_have_ended` said before both. If the coordinator has fed the crawl since then, a
        part may have got something after its last answer.

        A part that was at rest both times with the same stamp was so all the time in between. If all parts
        were, all were at the moment between the rounds, and as a page's links are taken in before its report,
        nothing was on its way from one to another.
        """
        op = self._shard.begin(now_ms)
        crawl = self._shard.registry.names.get(name)
        if (
            not isinstance(crawl, WholeCrawl)
            or crawl.feed != feed
            or len(first) != len(second)
            or len(second) != self.parts
            or not all(_rested(crawl, *both) for both in zip(first, second, strict=True))
            or [progress.stamp.incarnation for progress in second] != self.incarnations
        ):
            return False, self._shard.end(op)
        for part, progress in enumerate(second):
            self._record(op, crawl, part, progress)
        crawl.rests = all(part.progress is not None and not part.progress.left for part in crawl.parts)
        op.counters(crawl)  # its life goes on, even if newer progress of all parts is known
        return crawl.rests, self._shard.end(op)

    # Seeds.

    def announcing(self) -> list[str]:
        """The crawls that have seeds to announce."""
        waiting = (crawl for crawl in self._crawls() if crawl.jobs and not crawl.held)
        return [crawl.name for crawl in waiting if self._announcement(crawl)]

    def _announcement(self, crawl: WholeCrawl) -> int:
        """The crawl's first job that announces seeds; 0 if it has none."""
        kinds = ((number, job.get(self._shard.store, crawl, number).kind) for number in crawl.jobs)
        return next((number for number, kind in kinds if JobKind(kind) in ANNOUNCED), 0)

    def next_seeds(self, name: str, now_ms: int) -> tuple[Announcement | None, Changes]:
        """The next seeds of a crawl's first job that announces some. Without any, the job ends, and the
        answer is None."""
        op = self._shard.begin(now_ms)
        crawl = self._shard.registry.names.get(name)
        if not isinstance(crawl, WholeCrawl) or crawl.held or not (number := self._announcement(crawl)):
            return None, self._shard.end(op)
        row = job.get(op.tx, crawl, number)
        if crawl.state_row.tearing_down or crawl.state in ENDING:
            row.state = JobState.CANCELLING.value
            job.end(op, crawl, number, row)
            return None, self._shard.end(op)
        anew = JobKind(row.kind) is JobKind.RESEED
        found = seeds.after(op, crawl, row.done if anew else crawl.counters.announced_seeds)
        if not found:
            seeds.conclude(op, crawl, number, row)
            return None, self._shard.end(op)
        before_ms = crawl.state_row.round_ms + 1 if anew else 0
        return Announcement(name, crawl.number, number, row.done, found, before_ms), self._shard.end(op)

    def announced(
        self, announcement: Announcement, verdicts: Sequence[Verdict], now_ms: int
    ) -> tuple[None, Changes]:
        """Note the verdicts of the parts on seeds."""
        op = self._shard.begin(now_ms)
        crawl = self._shard.registry.names.get(announcement.crawl)
        if not isinstance(crawl, WholeCrawl) or crawl.number != announcement.number:
            return None, self._shard.end(op)
        if announcement.job in crawl.jobs:
            row = job.get(op.tx, crawl, announcement.job)
            if row.done == announcement.first:
                crawl.rests = False
                seeds.count(op, crawl, announcement.job, row, verdicts)
        return None, self._shard.end(op)

    def _crawls(self) -> list[WholeCrawl]:
        crawls = self._shard.registry.crawls.values()
        return [crawl for crawl in crawls if isinstance(crawl, WholeCrawl)]


def _has_trouble(crawl: WholeCrawl) -> bool:
    """Whether a part has trouble, or may have: it is not known."""
    return any(part.progress is None or part.progress.trouble for part in crawl.parts)


def _rested(crawl: WholeCrawl, first: Progress, second: Progress) -> bool:
    """Whether a part was at rest from the first answer to the second."""
    same = first.number == second.number == crawl.number and first.stamp == second.stamp
    return same and not first.left and not second.left
