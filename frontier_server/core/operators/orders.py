"""The door for a coordinator, of whose larger crawls this shard has the parts.

A part is a crawl like others, and obeys: the coordinator decides when it runs, pauses and ends. Its own rules
are those of its queues.
"""

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from ..jobs.restoring import begin as begin_restoring
from ..jobs.restoring import parameters_of, part_in
from ..journey.withdrawal import Withdrawal
from ..machines.lifecycle import CrawlState, Input
from ..machines.target import Target
from ..opening import opening
from ..opening.shard import Shard
from ..rows.errors import UnknownCheckpoint, UnknownCrawl
from ..rows.records import CountersRow, EventRow, SpecRow
from ..rows.store import Changes
from ..state import life
from ..state.attendance import reconcile
from ..state.crawl import Crawl
from ..state.job import restore_of
from ..state.job import rows as rows_of
from ..state.meaning import authorities
from ..state.operation import EVENTS_KEPT, Operation
from ..state.order import Order, Progress, Stamp
from ..uri.scope import add_authority
from .changes import change_overrides, change_spec, put_spec
from .history import events_after
from .views import queue_counts

_INPUT_OF = {
    Target.RUN: Input.RESUME,
    Target.PAUSE: Input.PAUSE,
    Target.HOLD: Input.HOLD,
    Target.FINISH: Input.STOP,
}

_ENDED_BY = (None, Target.FINISH)  # the targets that a part which stops can have


class Orders:
    """Obeys a coordinator, and tells it how its crawls go on here."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._withdrawal = Withdrawal(shard)

    def ends_a_part(self, order: Order) -> bool:
        """Whether a part must be deleted before an order is obeyed: a former one of the name, or that of a
        crawl that is deleted."""
        crawl = self._known(order.crawl)
        if crawl is None or crawl.number > order.number:
            return False
        return crawl.number < order.number or (order.deleted and order.serial > crawl.state_row.order)

    def delete_part(self, order: Order, now_ms: int) -> tuple[list[str], Changes]:
        """Delete the part that an order ends; its name, if there was one."""
        if not self.ends_a_part(order):
            return [], {}
        op = self._shard.begin(now_ms)
        self._delete(op, self._shard.registry.named(order.crawl))
        return [order.crawl], self._shard.end(op)

    def obey(self, order: Order, now_ms: int) -> tuple[Progress, Changes]:
        """Make a part of a crawl what it should be. An order that is not the newest changes nothing. A part
        that it ends is deleted; whoever has logs deletes it before, and them (`delete_part`).

        A part that is not there yet is made; without a spec, the answer says that it is not there. One that
        stops ends first, whatever else it should be: it is reopened then.
        """
        shard = self._shard
        crawl = self._known(order.crawl)
        if crawl is not None and crawl.number > order.number:
            return self._without(order.crawl, order.number), {}
        if crawl is not None and crawl.number == order.number and order.serial <= crawl.state_row.order:
            return self._progress(crawl), {}
        op = shard.begin(now_ms)
        if crawl is not None and self.ends_a_part(order):
            self._delete(op, crawl)
            crawl = None
        if crawl is None:
            if order.deleted or order.spec is None:
                return self._without(order.crawl, order.number), shard.end(op)
            crawl = self._made(op, order, order.spec)
        if crawl.state is CrawlState.STOPPING and order.target not in _ENDED_BY:
            return self._progress(crawl), shard.end(op)
        if not crawl.state_row.torn_down:
            self._follow(op, crawl, order)
        changes = shard.end(op)
        return self._progress(crawl), changes

    def restore(
        self, name: str, number: int, checkpoint: str, source: int, now_ms: int
    ) -> tuple[int, Changes]:
        """Begin to fill a part with that of crawl `source` in a checkpoint, unless that has begun; the number
        of the job that does, 0 if the checkpoint has no part. Raises UnknownCrawl, UnknownCheckpoint,
        CrawlHeld, CrawlFinished, InvalidSpec or IllegalState."""
        known = self._known(name)
        if known is None or known.number != number:
            raise UnknownCrawl(f"there is no crawl {name[:80]!r} with number {number}", crawl=name[:80])
        begun = restore_of(rows_of(self._shard.store, number))
        if begun is not None and begun[1].parameters == parameters_of(checkpoint, source):
            return begun[0], {}
        crawl = self._shard.registry.unfinished(name)
        found = self._shard.checkpoint_of(checkpoint)
        rows = part_in(found, source)
        if rows is not None and rows.state.deleted:
            message = f"checkpoint {checkpoint} was made while crawl {rows.spec.name!r} was being deleted"
            raise UnknownCheckpoint(message, checkpoint=checkpoint)
        op = self._shard.begin(now_ms)
        settings_of, job = self._shard.registry.settings_of, 0
        if rows is not None:
            job = begin_restoring(op, crawl, checkpoint, found, rows, lambda spec: settings_of(spec, ()))
        return job, self._shard.end(op)

    def delete_others(
        self, known: Collection[int], now_ms: int, spared: Collection[int] = ()
    ) -> tuple[list[str], Changes]:
        """Delete the parts of crawls that the coordinator does not have any more; their names. Those that are
        `spared` may have been lost by it: nobody leads them, so they are paused."""
        registry = self._shard.registry
        op = self._shard.begin(now_ms)
        torn = [registry.named(name) for name, number in registry.torn.items() if number not in known]
        lost = "the coordinator has lost this crawl"
        deleted: list[str] = []
        for crawl in (*registry.crawls.values(), *torn):
            if not crawl.led or crawl.number in known:
                continue
            if crawl.number not in spared:
                self._delete(op, crawl)
                deleted.append(crawl.name)
            elif crawl.state in (CrawlState.RUNNING, CrawlState.EMPTY):
                life.distrust(op, crawl, life.SALVAGED, lost)
        return deleted, self._shard.end(op)

    def progress(self, names: Sequence[str]) -> list[Progress]:
        """How the parts of these crawls are."""
        found = ((name, self._known(name)) for name in names)
        return [self._without(name) if crawl is None else self._progress(crawl) for name, crawl in found]

    def progress_after(self, change: int) -> tuple[list[Progress], int]:
        """The parts that have changed since a change, and the number of the last change."""
        names, last = self._shard.changed_after(change)
        return self.progress(names), last

    def events_after(self, name: str, number: int) -> list[tuple[int, EventRow]]:
        """Some events of a part after one with a number, as far as they are kept. A part that is not there
        has none."""
        crawl = self._known(name)
        if crawl is None:
            return []
        last = crawl.counters.next_event - 1
        return events_after(self._shard.store, crawl, min(max(number, last - EVENTS_KEPT), last))

    def _without(self, name: str, number: int = 0) -> Progress:
        """What is said of a crawl that has no part here."""
        return Progress(name, number, stamp=Stamp(self._shard.incarnation, 0, 0))

    def _known(self, name: str) -> Crawl | None:
        return self._shard.registry.named(name) if name in self._shard.registry else None

    def _made(self, op: Operation, order: Order, spec: bytes) -> Crawl:
        shard, registry = self._shard, self._shard.registry
        if shard.server.next_crawl <= order.number:
            shard.server.next_crawl = order.number + 1
            opening.put_server_row(op.tx, shard.server)
        row = SpecRow(order.crawl, spec, op.now_ms)
        crawl = registry.made(
            opening.CrawlRows(order.number, row, life.new_state_row(op.now_ms), CountersRow())
        )
        op.counters(crawl)
        put_spec(op, crawl, row)
        for host, authority in authorities(crawl.settings.scope.hosts).values():
            add_authority(op.tx, registry.places, order.number, host, authority)
        registry.add(crawl)
        return crawl

    def _delete(self, op: Operation, crawl: Crawl) -> None:
        for lease in self._shard.leases.of_crawl(crawl.number):
            self._withdrawal.abandon(op, lease)
        self._shard.hosts.disperse(crawl)
        crawl.state_row.deleted = True
        op.put_state(crawl)
        self._shard.registry.delete(crawl)

    def _follow(self, op: Operation, crawl: Crawl, order: Order) -> None:
        row = crawl.state_row
        row.order = order.serial
        if order.spec is not None and crawl.digest != order.digest:
            change_spec(op, self._shard, crawl, order.spec)
            change_overrides(op, self._shard, crawl, order.overrides)
        if order.recrawl_ms > row.recrawl_ms:
            life.begin_recrawl(op, crawl, order.recrawl_ms)
        row.documents_lent, row.toes_lent = order.documents, order.toes
        op.counters(crawl)
        held = crawl.held
        if order.target is not None:
            self._steer(op, crawl, order.target, order.interrupts)
            row.launch_ms = order.launch_ms or row.launch_ms  # archives of all parts tell the same
        row.tearing_down = row.tearing_down or order.tears_down
        op.put_state(crawl)  # after all that changes it
        if held:
            reconcile(op, crawl, self._shard.leases)

    def _steer(self, op: Operation, crawl: Crawl, target: Target, interrupts: bool) -> None:
        """Give the crawl machine what leads to the target."""
        if target is Target.FINISH:
            again = crawl.state is CrawlState.STOPPING and interrupts
            if again or crawl.state not in (CrawlState.STOPPING, CrawlState.FINISHED):
                life.apply(op, crawl, Input.STOP)
            return
        if crawl.state is CrawlState.NASCENT:
            life.apply(op, crawl, Input.LAUNCH)
            life.apply(op, crawl, Input.SEEDED if target is Target.RUN else Input.SEEDED_TO_PAUSE)
            life.settle(op, crawl)
        elif crawl.state is CrawlState.FINISHED:
            life.apply(op, crawl, Input.REOPEN if target is Target.RUN else Input.REOPEN_TO_PAUSE)
            life.settle(op, crawl)
        if crawl.target is not target:
            life.apply(op, crawl, _INPUT_OF[target])

    def _progress(self, crawl: Crawl) -> Progress:
        row, counters = crawl.state_row, crawl.counters
        return Progress(
            crawl.name,
            crawl.number,
            self._shard.changes,
            row.order,
            crawl.digest,
            crawl.state,
            held=crawl.held,
            torn_down=row.torn_down,
            reason=row.reason,
            trouble=row.trouble,
            counters=replace(counters),
            queues={state.value: count for state, count in queue_counts(crawl).items() if count},
            leases_out=crawl.leases_out,
            pages_out=crawl.pages_out,
            left=crawl.left,
            stamp=Stamp(self._shard.incarnation, crawl.intakes, counters.next_lease),
            documents_lent=row.documents_lent,
            toes_lent=row.toes_lent,
            documents=crawl.documents,
            starves=crawl.limited and crawl.offers,
            recrawl_ms=row.recrawl_ms,
            nodes=dict(row.nodes),
            last_event=counters.next_event - 1,
            next_rank=crawl.next_rank if crawl.running else None,
        )
